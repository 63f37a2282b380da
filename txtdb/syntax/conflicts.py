"""Conflicts that git left in a file: which lines they take, and the one fault that each of them is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from txtdb.faults import Fault, Span

CONFLICT = "conflict-marker"

# Ours, the base, the line between, theirs.
MARKER = r"^(<{7}|\|{7}|={7}|>{7})( .*)?$"
_MARKER = re.compile(MARKER)


def is_marker(line: str) -> bool:
    """Whether a line is one that git puts around or between the parts of a conflict."""
    return _MARKER.match(line) is not None


def conflict_regions(lines: Sequence[str]) -> dict[int, int]:
    """First → last line, from 1, of each `<<<<<<<` … `>>>>>>>`. Markers outside of these belong to no conflict."""
    regions, first = {}, 0
    for number, line in enumerate(lines, 1):
        if line[:7] not in ("<" * 7, ">" * 7) or not is_marker(line):
            continue
        if line[0] == ">" and first:
            regions[first] = number
        first = number if line[0] == "<" else 0
    return regions


def region_fault(file: str, first: int, lines: Sequence[str]) -> Fault:
    """The fault that a conflict is; `lines` are all of its own, and `first` is the number of the first."""
    last = first + len(lines) - 1
    span = Span(file, first, 1, last, len(lines[-1]))
    hint = "keep one part, delete the markers, then `txtdb fmt`"
    return Fault(CONFLICT, span, f"unresolved merge conflict, lines {first}–{last}", hint)
