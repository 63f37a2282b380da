"""Spans and faults: the values in which everything that a user got wrong is told.

A user's mistake is never an exception inside the library: functions return their data together with
the faults they found, so that one run reports all of them. Exceptions mean bugs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a fault weighs. A warning fails only a strict check."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A piece of one file. Lines and columns count from 1; the last column belongs to the span.

    Line 0 means the file as a whole, for a source (a missing file, a TOML value) that has no position.
    """

    file: str
    line: int = 0
    column: int = 0
    last_line: int = 0
    last_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: which rule says so, where, what, and what to do about it."""

    rule: str
    span: Span
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        text = f"{self.span}: {self.severity}: {self.message} [{self.rule}]"
        return f"{text}\n    {self.hint}" if self.hint else text


class FaultError(Exception):
    """Raised by the convenience interface (`txtdb.load`, table access) when data cannot be used.

    `faults` holds every fault of the run, in file order.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def errors(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Only those faults that forbid the use of the data."""
    return tuple(fault for fault in faults if fault.severity is Severity.ERROR)
