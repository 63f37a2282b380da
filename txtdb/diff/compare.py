"""Two databases → all their differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from txtdb.diff.edits import CellEdit, DatabaseDiff, FactEdit
from txtdb.diff.facts import fact_edits, header_edits
from txtdb.diff.planes import (
    Plane,
    empty_plane,
    incomparable,
    layers_plane,
    plane_edits,
    resolved_plane,
    written_plane,
)
from txtdb.diff.sides import Side
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Layer
from txtdb.layers.resolved import ResolvedTable

_BASE = re.compile(rb"^#! base +([^\s]+)", re.MULTILINE)

# Faults that leave no doubt about what the cells say; and a table that is not there yet, which is a difference.
_NO_HINDRANCE = frozenset({"illegal-config", "duplicate-config", "no-data"})

Place = tuple[str, str]
MakePlane = Callable[[ResolvedTable], Plane]


def compare(old: Side, new: Side, effect: bool = False) -> tuple[DatabaseDiff, tuple[Fault, ...]]:
    """Compare two sides.

    Without `effect` the cells are those that each arch's own files write; with it they are the resolved ones, so that
    a change of one arch shows in every arch that inherits it. Where a side is a single file, its cells alone are
    compared. With any error among the faults the differences are not to be trusted.
    """
    if old.only or new.only:
        return _compare_files(old, new, effect)
    comparison = _Comparison(old.database, new.database, effect)
    for place in comparison.places:
        comparison.place(place)
    return comparison.diff(fact_edits(old, new)), comparison.errors


class _Comparison:
    """Gathers the differences of one table after the other."""

    def __init__(self, old: Database, new: Database, effect: bool) -> None:
        self._old, self._new, self._effect = old, new, effect
        self._old_places, self._new_places = frozenset(old.places()), frozenset(new.places())
        self._make: MakePlane = resolved_plane if effect else written_plane
        self._cells: list[CellEdit] = []
        self._facts: list[FactEdit] = []
        self._faults: dict[Fault, None] = dict.fromkeys((*old.faults, *new.faults))

    @property
    def places(self) -> list[Place]:
        """Every table of either side."""
        return sorted(self._old_places | self._new_places)

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Faults that forbid the use of the differences."""
        return tuple(fault for fault in errors(self._faults) if fault.rule not in _NO_HINDRANCE)

    def diff(self, facts: Iterable[FactEdit]) -> DatabaseDiff:
        """All that was gathered."""
        schemas = {**self._old.schemas, **self._new.schemas}
        ordered = sorted((*facts, *self._facts), key=lambda fact: (fact.file, fact.part != "file"))
        return DatabaseDiff(tuple(self._cells), tuple(ordered), schemas)

    def place(self, place: Place) -> None:
        """Compare one table, unless it is the same to the byte."""
        both = place in self._old_places and place in self._new_places
        if not both or not same_bytes(self._old, self._new, place, self._effect):
            before = self._plane(self._old, place) if place in self._old_places else None
            after = self._plane(self._new, place) if place in self._new_places else None
            self.planes(before, after)

    def planes(self, old: Plane | None, new: Plane | None) -> None:
        """Compare two planes, of which one may be missing."""
        some = new or old
        if some is None:
            return
        before, after = old or empty_plane(some), new or empty_plane(some)
        grids = incomparable(before.schema, after.schema)
        if grids:
            self._facts.append(FactEdit("table", f"{after.arch}/{after.schema.iface}", "grid", *grids))
        else:
            self._cells.extend(plane_edits(before, after))

    def file(self, database: Database, file: LayerFile) -> Plane | None:
        """What a single file writes; None where it cannot be read at all."""
        loaded = database.file(file)
        self._faults.update(dict.fromkeys(loaded.faults))
        schema = database.schemas.get(file.iface)
        if schema is None or loaded.table is None or loaded.source is None:
            return None
        document = loaded.source.document
        evidence = tuple(d.argument_text for d in document.directives if d.name == "evidence")
        kind = "table" if file.number is None else "patch"
        layer = Layer(kind, 0, file.arch, file.display, loaded.table, None, document.argument("origin"), evidence)
        return layers_plane(file.arch, schema, database.pool(file.iface), (layer,))

    def _plane(self, database: Database, place: Place) -> Plane | None:
        resolution = database.resolve(*place)
        self._faults.update(dict.fromkeys(resolution.faults))
        return self._make(resolution.table) if resolution.table else None


def _compare_files(old: Side, new: Side, effect: bool) -> tuple[DatabaseDiff, tuple[Fault, ...]]:
    comparison = _Comparison(old.database, new.database, effect)
    files = (_file(old, new.only), _file(new, old.only))
    wrong = _file_fault(old, new, files, effect)
    if wrong:
        return comparison.diff(()), (wrong, *comparison.errors)
    planes = [
        comparison.file(side.database, file) if file else None for side, file in zip((old, new), files, strict=True)
    ]
    comparison.planes(*planes)
    return comparison.diff(header_edits(*files)), comparison.errors


def _file(side: Side, other: str) -> LayerFile | None:
    """The layer file that a side names, else the one of the name that the other side has."""
    wanted = side.only or other
    found = (file for listing in side.database.listings for file in listing.layer_files())
    return next((file for file in found if file.name == wanted), None)


def _file_fault(old: Side, new: Side, files: tuple[LayerFile | None, LayerFile | None], effect: bool) -> Fault | None:
    """Why single files cannot be compared."""
    if effect:
        return Fault("no-side", Span(old.name), "--effect compares whole databases", "name the folders")
    for side, file in zip((old, new), files, strict=True):
        if side.only and file is None:
            return Fault("no-side", Span(side.name), "the file is no table and no patch", "name one, or the folder")
    before, after = files
    if before and after and before.iface != after.iface:
        message = f"{before.iface} cannot be compared with {after.iface}"
        return Fault("no-side", Span(new.name), message, "name two files of one interface")
    return None


def same_bytes(old: Database, new: Database, place: Place, effect: bool) -> bool:
    """Whether everything that makes a table is the same to the byte, so that nothing needs to be read."""
    before, after = (_content(database, place, effect) for database in (old, new))
    return before is not None and before == after


def _content(database: Database, place: Place, effect: bool) -> list[tuple[str, bytes]] | None:
    """(name, bytes) of all files behind a table; None where that cannot be told."""
    archs, iface = [place[0]], place[1]
    schema = database.listings[0].schemas.get(iface)
    if schema is None:
        return None
    content: list[tuple[str, bytes]] = []
    try:
        content.append((schema.name, schema.read_bytes()))
        for arch in archs:  # grows while it is walked: a chain of bases may be longer than Python's stack
            files = [(file.name, file.path.read_bytes()) for _, file in database.layer_files(arch, iface)]
            pins = (listing.pins[arch] for listing in database.listings if arch in listing.pins)
            content += [*files, *((path.name, path.read_bytes()) for path in pins)]
            archs += [base for base in dict.fromkeys(_bases(files)) if effect and base not in archs]
    except OSError:
        return None  # the fault of that file, which reading the table will find
    return content


def _bases(files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    for _, data in files:
        yield from (name.decode(errors="replace") for name in _BASE.findall(data))
