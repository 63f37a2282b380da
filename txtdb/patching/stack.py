"""The layers of one table, taken apart and laid over each other anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from txtdb.faults import Span
from txtdb.layers.bases import BaseLink, Links, base_order
from txtdb.layers.database import Database
from txtdb.layers.resolve import Bins, Fold, Layer, bin_index, empty_fold, fold_layer, ground_digest
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import UNSET, Cells, FileTable
from txtdb.model.values import Functional, functional_rank

Place = tuple[str, str]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CellTable:
    """Cells of a file that is not written yet; see `txtdb.model.table.FileTable` for the arrays."""

    functionals: tuple[Functional, ...]
    bins: Bins
    cells: Cells

    def cell_span(self, functional_index: int, at: tuple[int, ...]) -> Span:
        """No place: there is no file."""
        return Span("")


@dataclass(frozen=True)
class Stack:
    """The layers of one table of a single root, lowest first: base, own table, patches by number, pins."""

    table: ResolvedTable

    @cached_property
    def patches(self) -> tuple[Layer, ...]:
        """The arch's own patches, in the order in which they apply."""
        return tuple(layer for layer in self._own if layer.kind == "patch")

    @cached_property
    def own_table(self) -> Layer | None:
        """The arch's own table."""
        return next((layer for layer in self._own if layer.kind == "table"), None)

    @cached_property
    def pins(self) -> tuple[Layer, ...]:
        """The arch's own pins: one layer, or none."""
        return tuple(layer for layer in self._own if layer.kind == "pins")

    @cached_property
    def base(self) -> tuple[Layer, ...]:
        """What `#! base` brings."""
        return tuple(layer for layer in self.table.layers if layer.arch != self.table.arch)

    @cached_property
    def _own(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.table.layers if layer.arch == self.table.arch)

    @property
    def below_patches(self) -> tuple[Layer, ...]:
        """Base and own table."""
        return (*self.base, *([self.own_table] if self.own_table else []))

    @property
    def below_pins(self) -> tuple[Layer, ...]:
        """All that a further patch lies over."""
        return (*self.below_patches, *self.patches)

    def under(self, patch: Layer) -> tuple[Layer, ...]:
        """The layers that a patch lies over."""
        return (*self.below_patches, *self.patches[: self.place_of(patch)])

    def place_of(self, patch: Layer) -> int:
        """Where a patch stands among the patches."""
        return next(number for number, other in enumerate(self.patches) if other.file == patch.file)

    def fold(self, layers: Iterable[Layer]) -> Fold:
        """The outcome of some layers."""
        fold = empty_fold(len(self.table.schema.axes))
        for number, layer in enumerate(layers):
            fold = fold_layer(fold, layer, number)
        return fold

    def digest(self, below: Fold, table: CellTable | FileTable) -> str:
        """The digest for `#! onto` of a patch with these cells."""
        return ground_digest(self.table.schema, self.table.pool, below, table)

    def is_stale(self, patch: Layer) -> bool:
        """Whether the ground of a patch is not what its `#! onto` says."""
        assert isinstance(patch.table, FileTable), "a patch is a file"
        onto = patch.table.source.document.argument("onto")
        return onto is not None and onto != self.digest(self.fold(self.under(patch)), patch.table)


def stack_of(database: Database, place: Place) -> Stack:
    """The stack of a table that resolves."""
    table = database.resolve(*place).table
    assert table is not None, "the caller has seen to faults"
    return Stack(table)


def cut(fold: Fold, functionals: Sequence[Functional], bins: Bins) -> tuple[Cells, npt.NDArray[np.int16]]:
    """What lookups of a fold give on a grid, and which layer set it: both of shape (functionals, bins of axis 1, …)."""
    rows = [fold.index.get(functional, -1) for functional in functionals]
    shape = (len(rows), *map(len, bins))
    if not fold.functionals or not rows:
        return np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16)
    places = [[bin_index(have, value) for value in own] for have, own in zip(fold.bins, bins, strict=True)]
    where = np.ix_(rows, *places)
    cells, winner = fold.cells[where], fold.winner[where]
    absent = np.array(rows) < 0
    cells[absent], winner[absent] = UNSET, -1
    return cells, winner


def spread(layer: Layer, functionals: Sequence[Functional], bins: Bins) -> Cells:
    """The cells of one layer on a larger grid; UNSET where it says nothing."""
    table = layer.table
    cells = np.full((len(functionals), *map(len, bins)), UNSET, np.int32)
    if table.functionals:
        places = [[have.index(value) for value in own] for have, own in zip(bins, table.bins, strict=True)]
        rows = [functionals.index(functional) for functional in table.functionals]
        cells[np.ix_(rows, *places)] = table.cells
    return cells


def union_grid(layers: Iterable[Layer], axes: int) -> tuple[tuple[Functional, ...], Bins]:
    """All functionals and bins that some layers name."""
    tables = [layer.table for layer in layers if layer.table.functionals]
    functionals = sorted({functional for table in tables for functional in table.functionals}, key=functional_rank)
    bins = (sorted({value for table in tables for value in table.bins[axis]}) for axis in range(axes))
    return tuple(functionals), tuple(map(tuple, bins))


def ordered_places(database: Database) -> list[Place]:
    """Every table, bases before their heirs."""
    order: dict[Place, None] = {}
    for arch, iface in database.places():
        order.update(((name, iface), None) for name in base_order(arch, _links(database, iface)))
    known = frozenset(database.places())
    return [place for place in order if place in known]


def ancestors(database: Database, place: Place) -> set[Place]:
    """The tables that one inherits from."""
    arch, iface = place
    return {(name, iface) for name in base_order(arch, _links(database, iface))} - {place}


def _links(database: Database, iface: str) -> Links:
    def links(arch: str) -> list[BaseLink]:
        tables = (listing.tables.get((arch, iface)) for listing in database.listings)
        named = (database.base_of(table) for table in tables if table)
        return [BaseLink(arch, *found) for found in named if found]

    return links


def stale_patches(database: Database, iface: str) -> Iterator[tuple[str, Layer]]:
    """(arch, patch) of every patch of an interface whose ground moved."""
    for arch, name in database.places():
        table = database.resolve(arch, name).table if name == iface else None
        if table is not None:
            stack = Stack(table)
            yield from ((arch, patch) for patch in stack.patches if stack.is_stale(patch))
