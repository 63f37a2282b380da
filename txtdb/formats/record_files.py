"""Files of measurement records: CSV, JSON (a list, or one object a line) and Kernel Tuner caches → flat records."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txtdb.faults import Fault, Span

_BLANKS = re.compile(r"[\s,]*")
# What a Kernel Tuner cache notes of each configuration beside its parameters is a measurement, under these names.
_KERNEL_TUNER = ("tune_params_keys", "cache")
_TUNER_MEASURES = ("time",)
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its place, and its fields by column; absent ones are left out.

    Members of objects are fields named `object.member`, a list is its JSON text. `number` counts the records of a file
    from 1.
    """

    file: str
    number: int
    line: int
    fields: Mapping[str, object]

    @property
    def span(self) -> Span:
        """The line on which the record starts."""
        return Span(self.file, self.line, 1, self.line, 1) if self.line else Span(self.file)

    def fault(self, rule: str, message: str, hint: str = "") -> Fault:
        """A fault of this record."""
        return Fault(rule, self.span, f"record {self.number}: {message}", hint)


@dataclass(frozen=True)
class RecordFile:
    """All records of one file. `columns` are all names that occur, in order."""

    file: str
    records: tuple[Record, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that any record has, in the order in which they first occur."""
        return tuple(dict.fromkeys(name for record in self.records for name in record.fields))


def read_records(path: Path) -> tuple[RecordFile | None, list[Fault]]:
    """Read one file; it is CSV by its name (.csv, .tsv), else JSON.

    Faults of single records leave those out; a file that is damaged gives None.
    """
    file = path.as_posix()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        return None, [Fault("unreadable", Span(file), f"cannot be read: {error.strerror}", "")]
    except UnicodeDecodeError:
        return None, [Fault("not-utf8", Span(file), "the file is not valid UTF-8", "save it as UTF-8")]
    faults: list[Fault] = []
    read = _read_csv if path.suffix.lower() in (".csv", ".tsv") else _read_json
    try:
        records = tuple(read(text, file, faults))
    except _DamagedError as error:
        return None, [*faults, error.fault]
    if not records and not faults:
        faults.append(Fault("no-records", Span(file), "the file has no records", ""))
    return RecordFile(file, records), faults


class _DamagedError(Exception):
    """Nothing of the file can be trusted; does not leave this module."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _damaged(file: str, line: int, message: str, hint: str = "") -> _DamagedError:
    return _DamagedError(Fault("damaged-records", Span(file, line, 1, line, 1) if line else Span(file), message, hint))


def _read_csv(text: str, file: str, faults: list[Fault]) -> Iterator[Record]:
    dialect = csv.excel_tab if file.lower().endswith(".tsv") else csv.excel
    reader = csv.reader(io.StringIO(text, newline=""), dialect, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise _damaged(file, 1, f"columns stand twice: {', '.join(repeated)}")
        number, line = 0, reader.line_num + 1
        for cells in reader:
            if cells:
                number += 1
                yield from _csv_record(file, number, line, header, cells, faults)
            line = reader.line_num + 1
    except csv.Error as error:
        raise _damaged(file, reader.line_num, f"no valid CSV: {error}") from error


def _csv_record(
    file: str, number: int, line: int, header: Sequence[str], cells: Sequence[str], faults: list[Fault]
) -> Iterator[Record]:
    if len(cells) != len(header):
        record = Record(file, number, line, {})
        faults.append(record.fault("bad-record", f"{len(cells)} fields for {len(header)} columns"))
        return
    fields = {name: _csv_value(cell.strip()) for name, cell in zip(header, cells, strict=True) if cell.strip()}
    yield Record(file, number, line, dict(_flat(fields)))


def _csv_value(text: str) -> object:
    """A cell's text, or the object that it spells."""
    if text.startswith("{") and text.endswith("}"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _read_json(text: str, file: str, faults: list[Fault]) -> Iterator[Record]:
    for number, (line, value) in enumerate(_json_values(text, file), 1):
        if not isinstance(value, dict):
            faults.append(Record(file, number, line, {}).fault("bad-record", "a record must be an object"))
        elif all(isinstance(value.get(name), kind) for name, kind in zip(_KERNEL_TUNER, (list, dict), strict=True)):
            yield from _kernel_tuner(value, text, file)
        else:
            yield Record(file, number, line, dict(_flat(value)))


def _json_values(text: str, file: str) -> Iterator[tuple[int, Any]]:
    """(line, value) of each element of a list, or of values that follow each other."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique_members)
    position = _skip(text, 0)
    in_list = text.startswith("[", position)
    position = _skip(text, position + in_list)
    lines = _Lines(text)
    while position < len(text) and not (in_list and text[position] == "]"):
        line = lines.at(position)
        try:
            value, stop = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise _damaged(file, error.lineno, f"no valid JSON: {error.msg}", _CUT_HINT) from error
        except (ValueError, RecursionError) as error:
            raise _damaged(file, line, f"no valid JSON: {error}") from error
        yield line, value
        position = _skip(text, stop)
    if in_list and position < len(text):
        position = _skip(text, position + 1)
        in_list = False
    if in_list or position < len(text):
        raise _damaged(file, lines.at(position), "the list does not end, or text follows it", _CUT_HINT)


_CUT_HINT = "the file of a run that was cut off has no end: close it, or take the records out"


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member of an object stands twice")
    return members


def _kernel_tuner(cache: Mapping[str, Any], text: str, file: str) -> Iterator[Record]:
    """A record for each configuration of a cache. What holds for the whole run is a field of each."""
    run = {name: value for name, value in cache.items() if name not in _KERNEL_TUNER and name != "tune_params"}
    parameters = tuple(map(str, cache["tune_params_keys"]))
    position, lines = max(0, text.find('"cache"')), _Lines(text)
    for number, (key, entry) in enumerate(cache["cache"].items(), 1):
        position = max(position, text.find(json.dumps(key), position))
        line = lines.at(position)
        known = entry if isinstance(entry, dict) else {}
        fields = {name: known[name] for name in (*parameters, *_TUNER_MEASURES) if name in known}
        yield Record(file, number, line, dict(_flat({**run, **fields})))


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Members of objects as fields of their own. An empty object stays, so that an empty config is seen."""
    for name, value in fields.items():
        if isinstance(value, dict) and value and prefix.count(".") < _MAX_DEPTH:
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", json.dumps(value) if isinstance(value, list) else value


class _Lines:
    """Line numbers of positions that only grow."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._line = text, 0, 1

    def at(self, position: int) -> int:
        self._line += self._text.count("\n", self._position, position)
        self._position = max(position, self._position)
        return self._line
