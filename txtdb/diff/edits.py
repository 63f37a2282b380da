"""Differences as data: frozen records of changed cells and facts, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from txtdb.faults import Span
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, Value

# A config as (field, value) pairs in schema order; MASK for `-`; None where no cell is set.
Content = tuple[tuple[str, Value], ...] | str | None

MASK: str = "-"


class EditKind(StrEnum):
    """What happened to a cell."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class CellSource:
    """What a content comes from: the file that sets it, and what that file says of its origin and evidence."""

    file: str
    origin: str | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellEdit:
    """One cell that is not what it was. Spans point at the runs that set it, None where nothing sets it."""

    arch: str
    iface: str
    functional: Functional
    bins: tuple[int, ...]
    old: Content
    new: Content
    old_span: Span | None
    new_span: Span | None
    old_source: CellSource | None = None
    new_source: CellSource | None = None

    @property
    def kind(self) -> EditKind:
        """Changed, added or removed."""
        if self.old is None:
            return EditKind.ADDED
        return EditKind.REMOVED if self.new is None else EditKind.CHANGED

    @property
    def place(self) -> tuple[str, str, Functional, tuple[int, ...]]:
        """Arch, interface, functional and bins: what names the cell."""
        return self.arch, self.iface, self.functional, self.bins


@dataclass(frozen=True, slots=True)
class FactEdit:
    """A difference outside the cells: `part` is schema, archs, pins, evidence, header or table.

    `path` names the place inside the file; `old` and `new` are texts, None where there was or is nothing. A `table`
    fact says that the cells of a table cannot be compared, because its keys or axes are others now.
    """

    part: str
    file: str
    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class DatabaseDiff:
    """All differences of two databases: cells by arch, interface, functional and bins, then facts by file and path.

    `schemas` gives for each interface the schema to read the functionals by: the new side's, else the old one's.
    """

    cells: tuple[CellEdit, ...]
    facts: tuple[FactEdit, ...]
    schemas: dict[str, Schema]

    def __bool__(self) -> bool:
        return bool(self.cells or self.facts)
