"""Evidence files: JSON, one run of the tuner each, read and written whole."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NoReturn

from txtdb.evidence import decode
from txtdb.evidence.decode import Wrong
from txtdb.evidence.encode import EVIDENCE_VERSION, evidence_text
from txtdb.faults import Fault, Span
from txtdb.model.evidence import CellEvidence, Evidence
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues

# What hosts of git repositories take as one file.
MAX_BYTES = 100 << 20
# Faults of one file that are told; a file that is something else would have one in every cell.
MAX_FAULTS = 20

BAD = "bad-evidence"
UNLIKE = "unlike-evidence"


def write_evidence(evidence: Evidence, schema: Schema) -> bytes:
    """The content of an evidence file: deterministic, ASCII, LF; one entrant, block or standing a line.

    Raises ValueError where the plain objects of the evidence hold NaN or infinite numbers.
    """
    return evidence_text(evidence, schema).encode("ascii")


def read_evidence(data: bytes, file: str, schema: Schema) -> tuple[Evidence | None, list[Fault]]:
    """The evidence that a file holds, of the schema's interface; None where anything is wrong with it.

    Faults are `bad-evidence`, and `unlike-evidence` for evidence of another interface or of other keys, axes or config
    fields. Of each cell the first fault is told, of a file at most MAX_FAULTS. Lines are known for what is no JSON;
    elsewhere the message starts with the path, as `cells[3].blocks[0]`.
    """
    if len(data) > MAX_BYTES:
        return None, [_fault(file, f"the file has more than {MAX_BYTES:,} bytes", "split the run")]
    with no_collector():
        return _read(data, file, schema)


def _read(data: bytes, file: str, schema: Schema) -> tuple[Evidence | None, list[Fault]]:
    try:
        content = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return None, [_json_fault(file, error)]
    except (ValueError, RecursionError, Wrong) as error:
        return None, [_fault(file, f"this is no JSON: {error}")]
    return _Reader(content, file, schema).read()


def evidence_digest(data: bytes) -> str:
    """The digest of an evidence file, as `#! evidence` states it."""
    return "sha256:" + sha256(data).hexdigest()


class _Reader:
    def __init__(self, content: object, file: str, schema: Schema) -> None:
        self._content, self._file, self._schema = content, file, schema
        self._faults: list[Fault] = []

    def read(self) -> tuple[Evidence | None, list[Fault]]:
        try:
            given = self._head()
            configs = decode.palette(given, self._schema)
            cells = list(self._cells(given, configs))
            trials = decode.trials(given, self._schema, configs)
            evidence = None if self._faults else decode.evidence(given, cells, trials)
        except Wrong as error:
            self._note(error)
            return None, self._faults
        return evidence, self._faults

    def _head(self) -> dict[str, Any]:
        """The file's members, once it is clear that the file is of this version and interface."""
        content = self._content
        version = content.get("evidence") if isinstance(content, dict) else None
        if type(version) is not int or version != EVIDENCE_VERSION:
            raise Wrong("evidence", f"version {EVIDENCE_VERSION} is what can be read")
        given = decode.head(content)
        if given["iface"] != self._schema.iface:
            found = decode.text(given["iface"], "iface")
            raise Wrong("iface", f"this is evidence of {found}, not of {self._schema.iface}", unlike=True)
        return given

    def _cells(self, given: dict[str, Any], configs: list[ConfigValues]) -> Iterator[CellEvidence]:
        seen: dict[object, int] = {}
        for number, item in enumerate(decode.items(given["cells"], "cells")):
            path = f"cells[{number}]"
            try:
                cell = decode.cell(item, path, self._schema, configs)
                known = (cell.measured.functional, cell.measured.at)
                first = seen.setdefault(known, number)
                if first != number:
                    raise Wrong(path, f"this is the cell of cells[{first}]")
            except Wrong as error:
                self._note(error)
                if len(self._faults) == MAX_FAULTS:
                    return
                continue
            yield cell

    def _note(self, error: Wrong) -> None:
        rule, hint = (UNLIKE, "measure again with the schema as it is") if error.unlike else (BAD, _HINT)
        self._faults.append(Fault(rule, Span(self._file), str(error), hint))


_HINT = "restore the file as the tuner wrote it"


@contextmanager
def no_collector() -> Iterator[None]:
    """Without garbage collection: no evidence is in a cycle, and to look for some again and again is a third of the
    time that reading takes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _fault(file: str, message: str, hint: str = _HINT) -> Fault:
    return Fault(BAD, Span(file), message, hint)


def _json_fault(file: str, error: json.JSONDecodeError) -> Fault:
    span = Span(file, error.lineno, error.colno, error.lineno, error.colno)
    return Fault(BAD, span, f"this is no JSON: {error.msg}", _HINT)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise Wrong("", f"`{twice}` stands twice in one object")
    return found


def _no_constant(text: str) -> NoReturn:
    raise Wrong("", f"{text} is no number; it is written as a text")
