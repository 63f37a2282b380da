"""Findings: faults with the arch and interface they are about, the cells they touch and the archs that inherit them."""

from __future__ import annotations

from dataclasses import dataclass

from txtdb.faults import Fault, Severity, Span
from txtdb.model.values import Value


@dataclass(frozen=True, slots=True)
class CellRef:
    """One cell: (key name, value) pairs of its functional and its bins, in schema order."""

    functional: tuple[tuple[str, Value], ...]
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, told once, where it originates."""

    rule: str
    severity: Severity
    span: Span
    message: str
    hint: str = ""
    arch: str = ""
    iface: str = ""
    inherited_by: tuple[str, ...] = ()
    cells: tuple[CellRef, ...] = ()

    @property
    def order(self) -> tuple[Span, str, str]:
        """Sort key of reports: by file and position."""
        return self.span, self.rule, self.message


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """A finding of changes that are merged together. `changes` names them, `details` says more of each cell."""

    finding: Finding
    changes: tuple[str, ...]
    details: tuple[str, ...] = ()


def from_fault(fault: Fault, arch: str = "", iface: str = "") -> Finding:
    """A fault met while reading, as a finding."""
    return Finding(fault.rule, fault.severity, fault.span, fault.message, fault.hint, arch, iface)
