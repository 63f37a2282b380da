"""Where the cells of a new file come from: origin, evidence and reasons of the files that they were taken from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from txtdb.layers.listing import EVIDENCE_FOLDER
from txtdb.layers.resolve import Layer
from txtdb.model.evidence import MIXED
from txtdb.model.table import FileTable

# Weakest first: a file of mixed cells claims no more than the weakest of them.
_KINDS = ("hand", "modelled", "imported", "measured")
_UNKNOWN = "unknown"
_MIXED = f"{MIXED} "
_NEXT = re.compile(rf"; (?=(?:{'|'.join((*_KINDS, _UNKNOWN))})\b)")


def joined_origin(origins: Iterable[str | None]) -> str | None:
    """One origin for cells of several: theirs if they have one, else the weakest kind and the list of all.

    `measured a` and `hand b` make `hand mixed: hand b; measured a`. None where nothing is known of any.
    """
    parts = sorted({part for origin in origins for part in _parts(origin)})
    if parts == [_UNKNOWN] or not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    weakest = min(0 if part == _UNKNOWN else _KINDS.index(part.split()[0]) for part in parts)
    return f"{_KINDS[weakest]} {_MIXED}{'; '.join(parts)}"


def _parts(origin: str | None) -> list[str]:
    """The origins that one stands for, so that joining twice says everything once."""
    if not origin:
        return [_UNKNOWN]
    kind, _, words = origin.partition(" ")
    return _NEXT.split(words.removeprefix(_MIXED)) if words.startswith(_MIXED) else [f"{kind} {words}".strip()]


def joined_evidence(layers: Iterable[Layer]) -> list[str]:
    """The evidence lines (`FILE DIGEST`) of some files, each once."""
    return list(dict.fromkeys(line for layer in layers for line in layer.evidence))


def joined_reason(layers: Iterable[Layer]) -> str | None:
    """What the files say they are for; None where none says anything."""
    return "; ".join(dict.fromkeys(filter(None, map(reason_of, layers)))) or None


def reason_of(layer: Layer) -> str | None:
    """The text of `#! why` of a file."""
    return layer.table.source.document.argument("why") if isinstance(layer.table, FileTable) else None


def plain_reason(why: str | None) -> str | None:
    """A reason that somebody typed, as one line; None where it says nothing."""
    return " ".join((why or "").split()) or None


def header(
    why: str | None, layers: Sequence[Layer], evidence: Iterable[str], onto: str | None
) -> dict[str, Sequence[str]]:
    """The directives of a patch whose cells come from these layers; see `txtdb.model.writing.table_text`."""
    origin = joined_origin(layer.origin for layer in layers)
    reason = plain_reason(why) or joined_reason(layers)
    given = {"origin": origin, "why": reason, "onto": onto}
    return {**{name: [text] for name, text in given.items() if text}, "evidence": list(evidence)}


def evidence_name(arch: str, line: str) -> str:
    """The file that an evidence line of an arch's file means, by its name below the root."""
    return (PurePosixPath(arch) / EVIDENCE_FOLDER / line.split()[0]).as_posix()
