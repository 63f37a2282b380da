"""What the rules look at: the database, the day, and each resolved table on its declared grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from txtdb.check.finding import CellRef
from txtdb.evidence.named import EvidenceFile, open_evidence
from txtdb.faults import Fault, Severity, Span
from txtdb.layers.database import Database, LoadedFile
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import Schema
from txtdb.model.table import UNSET, Cells
from txtdb.model.values import Functional

Mask = npt.NDArray[np.bool_]
Place = tuple[str, str]

# Faults of a file after which its cells are still what their author meant.
_HARMLESS = frozenset({"illegal-config", "duplicate-config"})


def harmless(faults: Iterable[Fault]) -> bool:
    """Whether cells can be judged in spite of the faults of their files."""
    return all(fault.severity is not Severity.ERROR or fault.rule in _HARMLESS for fault in faults)


@dataclass(frozen=True)
class DeclaredView:
    """A resolved table on the grid that the schema declares for its arch.

    `cells` and `winner` have shape (declared functionals, `bins` of axis 1, …). `missing_bins` are declared bins that
    no layer has, by axis; they are not in `bins`.
    """

    table: ResolvedTable
    functionals: tuple[Functional, ...]
    bins: tuple[tuple[int, ...], ...]
    missing_bins: tuple[tuple[int, ...], ...]
    cells: Cells
    winner: npt.NDArray[np.int16]

    @cached_property
    def index(self) -> dict[Functional, int]:
        """Declared functional → its place."""
        return {functional: place for place, functional in enumerate(self.functionals)}

    @cached_property
    def own(self) -> Mask:
        """Cells that a layer of this very arch set, not one of its bases."""
        of_arch = [layer.arch == self.table.arch for layer in self.table.layers]
        return np.array([*of_arch, False])[self.winner]

    def refs(self, mask: Mask) -> tuple[CellRef, ...]:
        """The cells of a mask, in grid order."""
        names = self.table.schema.key_names
        keys = [tuple(zip(names, functional, strict=True)) for functional in self.functionals]
        return tuple(
            CellRef(keys[first], tuple(bins[place] for bins, place in zip(self.bins, rest, strict=True)))
            for first, *rest in np.argwhere(mask).tolist()
        )

    def carry(self, other: DeclaredView, mask: Mask) -> Mask:
        """A mask on another view's grid, carried to this one; cells that the other does not have are False."""
        places = [_places(self.functionals, other.functionals)]
        places += [_places(own, theirs) for own, theirs in zip(self.bins, other.bins, strict=True)]
        carried: Mask = np.pad(mask, [(0, 1)] * mask.ndim)[np.ix_(*places)]
        return carried


def _places(own: tuple[object, ...], theirs: tuple[object, ...]) -> list[int]:
    """Where each own item stands among theirs; -1 (the padding) where it does not."""
    index = {item: place for place, item in enumerate(theirs)}
    return [index.get(item, -1) for item in own]


@dataclass
class Context:
    """One run of the checks. `compiler` is what kernel images should be made by, for the rules that look at these."""

    database: Database
    today: date
    compiler: str | None = None
    _views: dict[Place, DeclaredView | None] = field(default_factory=dict)
    _evidence: dict[tuple[Path, str], EvidenceFile] = field(default_factory=dict)

    @cached_property
    def files(self) -> list[LoadedFile]:
        """Every layer file whose interface has a schema for its arch, read."""
        return [self.database.file(file) for file in self.layer_files if self._belongs(file)]

    @cached_property
    def layer_files(self) -> list[LayerFile]:
        """Every table and patch of all roots."""
        return [file for listing in self.database.listings for file in listing.layer_files()]

    def _belongs(self, file: LayerFile) -> bool:
        schema = self.database.schemas.get(file.iface)
        return schema is not None and file.arch in self.database.archs and file.arch in schema.archs

    def schema(self, iface: str) -> Schema:
        """The schema of an interface."""
        return self.database.schemas[iface]

    def evidence(self, loaded: LoadedFile, name: str) -> EvidenceFile:
        """The evidence file that one of `files` names, read once however many name it."""
        key = (loaded.file.path.parent / name, loaded.file.iface)
        if key not in self._evidence:
            self._evidence[key] = open_evidence(loaded.file, name, self.schema(loaded.file.iface))
        return self._evidence[key]

    def view(self, place: Place) -> DeclaredView | None:
        """The table of a place on its declared grid; None where its files cannot be trusted to mean what they say."""
        if place not in self._views:
            self._views[place] = self._make_view(place)
        return self._views[place]

    def views(self) -> Iterator[DeclaredView]:
        """All tables that can be judged, in order."""
        return filter(None, map(self.view, self.database.places()))

    def _make_view(self, place: Place) -> DeclaredView | None:
        if place not in self.places:
            return None
        resolution = self.database.resolve(*place)
        usable = resolution.table is not None and harmless(resolution.faults)
        return declared_view(resolution.table) if usable and resolution.table else None

    @cached_property
    def places(self) -> frozenset[Place]:
        """(arch, interface) of every table that the schemas declare."""
        return frozenset(self.database.places())

    def bases(self, place: Place) -> list[DeclaredView]:
        """The tables that a place inherits from directly."""
        tables = [listing.tables[place] for listing in self.database.listings if place in listing.tables]
        named = [found[0] for table in tables if (found := self.database.base_of(table))]
        return list(filter(None, (self.view((base, place[1])) for base in dict.fromkeys(named))))

    @cached_property
    def heirs(self) -> dict[Place, tuple[str, ...]]:
        """The archs that inherit each place, directly or through others, sorted."""
        found: dict[Place, set[str]] = {}
        for place in self.database.places():
            for base in self._ancestors(place, ()):
                found.setdefault((base, place[1]), set()).add(place[0])
        return {place: tuple(sorted(archs)) for place, archs in found.items()}

    def _ancestors(self, place: Place, seen: tuple[str, ...]) -> set[str]:
        direct = {view.table.arch for view in self.bases(place)} - {*seen, place[0]}
        return direct.union(*(self._ancestors((base, place[1]), (*seen, place[0])) for base in direct))

    def originating(self, view: DeclaredView, masks: dict[Place, Mask]) -> Mask:
        """The part of a place's mask that none of its bases has already."""
        place = (view.table.arch, view.table.iface)
        own = masks[place].copy()
        for base in self.bases(place):
            own &= ~view.carry(base, masks[base.table.arch, base.table.iface])
        return own

    def inherited_by(self, view: DeclaredView, part: Mask, masks: dict[Place, Mask]) -> tuple[str, ...]:
        """The heirs in which some cell of `part` is marked as well."""
        iface = view.table.iface
        heirs = self.heirs.get((view.table.arch, iface), ())
        marked = ((heir, self.view((heir, iface))) for heir in heirs)
        return tuple(heir for heir, other in marked if other and (other.carry(view, part) & masks[heir, iface]).any())

    def table_span(self, place: Place) -> Span:
        """The file that stands for a place: its own table, or where it would lie."""
        arch, iface = place
        for listing in self.database.listings:
            if place in listing.tables:
                return Span(listing.tables[place].display)
        return Span(f"{self.database.listings[0].label}/{arch}/{iface}.txtdb")


def declared_view(table: ResolvedTable) -> DeclaredView:
    """Cut a resolved table to its declared grid."""
    functionals, declared = table.arch_schema.declared, table.arch_schema.bins
    bins = tuple(tuple(b for b in own if b in have) for own, have in zip(declared, table.bins, strict=True))
    missing = tuple(tuple(b for b in own if b not in have) for own, have in zip(declared, table.bins, strict=True))
    if not table.functionals:
        shape = (len(functionals), *map(len, bins))
        return DeclaredView(
            table, functionals, bins, missing, np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16)
        )
    places = [[have.index(b) for b in own] for own, have in zip(bins, table.bins, strict=True)]
    rows = [table.fold.index.get(functional, -1) for functional in functionals]
    where = np.ix_(rows, *places)
    absent = np.array([row < 0 for row in rows], bool)
    cells, winner = table.cells[where], table.winner[where]
    cells[absent], winner[absent] = UNSET, -1
    return DeclaredView(table, functionals, bins, missing, cells, winner)
