"""Baseline: known findings that do not fail a check, one line each, and only for as long as they are there.

A line is `<identity> <rule> <file> <message>`. The identity covers the rule, the file below the root, the arch, the
interface and the cells, but no line numbers, so that edits elsewhere leave it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from txtdb.check.finding import Finding
from txtdb.faults import Severity, Span
from txtdb.model.values import print_value

# How every baseline that was written begins.
BASELINE_START = b"# txtdb baseline "
_HEADER = f"{BASELINE_START.decode()}1: known findings; a line whose finding is gone is a finding itself"
_LINE = re.compile(r"([0-9a-f]{16}) (\S+) (.*)")
_LINE_NUMBER = re.compile(r"\bline \d+")


@dataclass(frozen=True, slots=True)
class Compared:
    """Findings that the baseline does not know (with its stale lines among them), and those that it knows."""

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]


def identity(finding: Finding, root: Path) -> str:
    """16 hex digits that name a finding, wherever the root lies and whatever stands above it in the file."""
    cells = sorted(
        f"{' '.join(f'{name}={print_value(value)}' for name, value in cell.functional)} @ {cell.at}"
        for cell in finding.cells
    )
    message = "" if cells else _LINE_NUMBER.sub("line", finding.message)
    parts = (finding.rule, _below(finding.span.file, root), finding.arch, finding.iface, message, *cells)
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def baseline_text(findings: Iterable[Finding], root: Path) -> str:
    """The baseline file that knows all of these findings."""
    lines = {f"{identity(f, root)} {f.rule} {_below(f.span.file, root)} {f.message}" for f in findings}
    return "\n".join([_HEADER, *sorted(lines, key=lambda line: line.split(" ", 2)[1:])]) + "\n"


def compare(findings: Iterable[Finding], text: str, file: str, root: Path) -> Compared:
    """Hold findings against the text of a baseline file."""
    entries = dict(_entries(text))
    new: list[Finding] = []
    known: list[Finding] = []
    met: set[str] = set()
    for finding in findings:
        name = identity(finding, root)
        met.add(name)
        (known if name in entries else new).append(finding)
    new.extend(_stale(file, number, line) for name, (number, line) in entries.items() if name not in met)
    return Compared(tuple(new), tuple(known))


def _entries(text: str) -> Iterable[tuple[str, tuple[int, str]]]:
    """(identity, (line number, line)); a line that is none counts as stale, so that nothing is ignored in silence."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            match = _LINE.fullmatch(line.strip())
            yield (match[1] if match else line), (number, line)


def _stale(file: str, number: int, line: str) -> Finding:
    return Finding(
        "stale-baseline",
        Severity.ERROR,
        Span(file, number, 1, number, max(1, len(line))),
        f"this finding is gone: {line}",
        "remove the line",
    )


def _below(file: str, root: Path) -> str:
    return file.removeprefix(root.as_posix() + "/")
