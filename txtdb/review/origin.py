"""Where a changed cell originates: in the arch that wrote it, or in the base that an arch takes it from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from txtdb.diff.edits import CellEdit, DatabaseDiff
from txtdb.layers.database import Database
from txtdb.model.values import Functional

Place = tuple[str, str]
Cell = tuple[Functional, tuple[int, ...]]
Edits = dict[Place, dict[Cell, CellEdit]]


@dataclass(frozen=True)
class Origins:
    """Arch and interface → cell → edit, each edit once.

    `own` are the changes of lookups where they originate, `heirs` the other archs in which lookups change the same
    way. `idle` are the cells that files write otherwise, while lookups give the same. `written` are all cells that
    files write otherwise.
    """

    own: Edits
    heirs: dict[Place, dict[Cell, list[str]]]
    idle: Edits
    written: Edits


def find_origins(database: Database, written: DatabaseDiff, effect: DatabaseDiff) -> Origins:
    """Trace each change of lookups along the bases of the new side."""
    files, lookups = _by_place(written.cells), _by_place(effect.cells)
    tracer = _Tracer(database, files, lookups)
    own: Edits = {}
    heirs: dict[Place, dict[Cell, list[str]]] = {}
    for place, edits in lookups.items():
        for cell, edit in edits.items():
            origin = tracer.origin(place, cell, edit)
            if origin == place:
                own.setdefault(place, {})[cell] = edit
            else:
                heirs.setdefault(origin, {}).setdefault(cell, []).append(place[0])
    idle = {
        place: {cell: edit for cell, edit in edits.items() if cell not in lookups.get(place, {})}
        for place, edits in files.items()
    }
    return Origins(own, heirs, {place: edits for place, edits in idle.items() if edits}, files)


def _by_place(cells: Iterable[CellEdit]) -> Edits:
    found: Edits = {}
    for edit in cells:
        found.setdefault((edit.arch, edit.iface), {})[edit.functional, edit.bins] = edit
    return found


@dataclass(frozen=True)
class _Tracer:
    database: Database
    written: Edits
    lookups: Edits

    def origin(self, place: Place, cell: Cell, edit: CellEdit) -> Place:
        """The place that a change comes from: the first on the way down that writes it or whose base lacks it."""
        seen = {place}
        while cell not in self.written.get(place, {}):
            below = self.base(place)
            same = self.lookups.get(below, {}).get(cell) if below else None
            if below is None or below in seen or same is None or (same.old, same.new) != (edit.old, edit.new):
                return place
            seen.add(below)
            place = below
        return place

    def base(self, place: Place) -> Place | None:
        """The table that a table lies over."""
        tables = (listing.tables[place] for listing in self.database.listings if place in listing.tables)
        found = next(filter(None, map(self.database.base_of, tables)), None)
        return (found[0], place[1]) if found else None
