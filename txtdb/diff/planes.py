"""A table as one plane of cells, and the cells in which two planes differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from txtdb.diff.edits import MASK, CellEdit, CellSource, Content
from txtdb.faults import Span
from txtdb.layers.resolve import Bins, Layer, bin_index
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import Schema
from txtdb.model.table import MASKED, UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.values import Functional, functional_rank

# What no cell holds: a config of one side that the other cannot have.
_FOREIGN = -3


@dataclass(frozen=True)
class Plane:
    """Cells of one arch and interface. `cells` and `winner` have shape (functionals, bins of axis 1, …).

    `fills` tells what stands at a bin that the plane does not have: what a lookup gives there (a resolved table), or
    nothing (the cells that files write).
    """

    arch: str
    schema: Schema
    pool: ConfigPool
    layers: tuple[Layer, ...]
    functionals: tuple[Functional, ...]
    bins: Bins
    cells: Cells
    winner: npt.NDArray[np.int16]
    fills: bool

    @cached_property
    def sources(self) -> tuple[CellSource, ...]:
        """What each layer says of its cells' origin."""
        return tuple(CellSource(layer.file, layer.origin, layer.evidence) for layer in self.layers)


def resolved_plane(table: ResolvedTable) -> Plane:
    """What lookups see: all layers, bases included."""
    fold = table.fold
    return Plane(
        table.arch, table.schema, table.pool, table.layers, fold.functionals, fold.bins, fold.cells, fold.winner, True
    )


def written_plane(table: ResolvedTable) -> Plane:
    """What the arch's own files write: its tables, patches and pins, without what it inherits."""
    own = tuple(layer for layer in table.layers if layer.arch == table.arch)
    return layers_plane(table.arch, table.schema, table.pool, own)


def layers_plane(arch: str, schema: Schema, pool: ConfigPool, layers: tuple[Layer, ...]) -> Plane:
    """What some files write, laid over each other at the very bins that they name."""
    tables = [layer.table for layer in layers]
    functionals = tuple(sorted({f for table in tables for f in table.functionals}, key=functional_rank))
    bins = tuple(
        tuple(sorted({b for table in tables if table.functionals for b in table.bins[axis]}))
        for axis in range(len(schema.axes))
    )
    shape = (len(functionals), *map(len, bins))
    cells, winner = np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16)
    index = {functional: place for place, functional in enumerate(functionals)}
    for number, table in enumerate(tables):
        if table.functionals:
            places = [[have.index(b) for b in mine] for have, mine in zip(bins, table.bins, strict=True)]
            where = np.ix_([index[f] for f in table.functionals], *places)
            is_set = table.cells != UNSET
            cells[where] = np.where(is_set, table.cells, cells[where])
            winner[where] = np.where(is_set, np.int16(number), winner[where])
    return Plane(arch, schema, pool, layers, functionals, bins, cells, winner, False)


def empty_plane(like: Plane) -> Plane:
    """A plane of the same table without cells."""
    shape = (0,) * (len(like.bins) + 1)
    cells, winner = np.zeros(shape, np.int32), np.zeros(shape, np.int16)
    return Plane(like.arch, like.schema, like.pool, (), (), ((),) * len(like.bins), cells, winner, like.fills)


def incomparable(old: Schema, new: Schema) -> tuple[str, str] | None:
    """What keys and axes were and are, where they differ so that no cell of one has a counterpart in the other."""
    before, after = (({key.name: key.type for key in schema.keys}, schema.axis_names) for schema in (old, new))
    return None if before == after else (_grid_text(old), _grid_text(new))


def _grid_text(schema: Schema) -> str:
    keys = ", ".join(f"{key.name} ({key.type})" for key in schema.keys)
    return f"keys {keys}; axes {', '.join(schema.axis_names)}"


def plane_edits(old: Plane, new: Plane) -> Iterator[CellEdit]:
    """The cells in which two comparable planes of one interface differ, in grid order.

    Keys are matched by name. Configs are compared by content: a field that one side's schema does not have counts as
    the other's default.
    """
    order = [old.schema.key_names.index(name) for name in new.schema.key_names]
    named = [tuple(functional[place] for place in order) for functional in old.functionals]
    functionals = tuple(sorted({*named, *new.functionals}, key=functional_rank))
    bins = tuple(tuple(sorted({*a, *b})) for a, b in zip(old.bins, new.bins, strict=True))
    before, after = _Cut(old, named, functionals, bins), _Cut(new, new.functionals, functionals, bins)
    differing = np.argwhere(_translation(old, new)[before.cells] != after.cells)
    was, now = _Contents(old, new.schema), _Contents(new, new.schema)
    for cell in map(tuple, differing.tolist()):
        first, *at = cell
        yield CellEdit(
            new.arch,
            new.schema.iface,
            functionals[first],
            tuple(own[place] for own, place in zip(bins, at, strict=True)),
            was.content(int(before.cells[cell])),
            now.content(int(after.cells[cell])),
            *_spans(before, after, cell),
            *_sources(before, after, cell),
        )


class _Cut:
    """A plane cut to a common grid: `cells` has the grid's shape."""

    def __init__(
        self, plane: Plane, named: Sequence[Functional], functionals: tuple[Functional, ...], bins: Bins
    ) -> None:
        self.plane = plane
        index = {functional: place for place, functional in enumerate(named)}
        # Where each functional and bin of the common grid stands in the plane; -1, the padding, where it does not.
        self._where = [[index.get(functional, -1) for functional in functionals]]
        for have, wide in zip(plane.bins, bins, strict=True):
            self._where.append([_place(have, value, plane.fills) for value in wide])
        padded = np.pad(plane.cells, [(0, 1)] * plane.cells.ndim, constant_values=UNSET)
        self.cells: Cells = padded[np.ix_(*self._where)]

    def winner(self, cell: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """The layer that sets a cell of the grid, and the cell's place in the plane; None where nothing sets it."""
        places = tuple(where[index] for where, index in zip(self._where, cell, strict=True))
        number = -1 if -1 in places else int(self.plane.winner[places])
        return None if number < 0 else (number, places)

    def span(self, cell: tuple[int, ...]) -> Span | None:
        """The run that sets a cell."""
        found = self.winner(cell)
        if found is None:
            return None
        number, (first, *places) = found
        layer = self.plane.layers[number]
        values = (bins[place] for bins, place in zip(self.plane.bins, places, strict=True))
        own = tuple(bin_index(bins, value) for bins, value in zip(layer.table.bins, values, strict=True))
        return layer.table.cell_span(layer.index[self.plane.functionals[first]], own)

    def source(self, cell: tuple[int, ...]) -> CellSource | None:
        """What the file that sets a cell says of its origin."""
        found = self.winner(cell)
        return self.plane.sources[found[0]] if found else None


def _place(have: tuple[int, ...], value: int, fills: bool) -> int:
    if value in have:
        return have.index(value)
    return bin_index(have, value) if fills and have else -1


def _spans(before: _Cut, after: _Cut, cell: tuple[int, ...]) -> tuple[Span | None, Span | None]:
    return before.span(cell), after.span(cell)


def _sources(before: _Cut, after: _Cut, cell: tuple[int, ...]) -> tuple[CellSource | None, CellSource | None]:
    return before.source(cell), after.source(cell)


def _translation(old: Plane, new: Plane) -> Cells:
    """Old config number → new config number of the same content (_FOREIGN where there is none), marks at the end."""
    known = {new.pool[number]: number for number in range(len(new.pool))}
    configs = (translated(old.pool[number], old.schema, new.schema) for number in range(len(old.pool)))
    numbers = [_FOREIGN if values is None else known.get(values, _FOREIGN) for values in configs]
    return np.array([*numbers, MASKED, UNSET], np.int32)


def translated(config: ConfigValues, source: Schema, target: Schema) -> ConfigValues | None:
    """A config in another schema's fields; None where that schema cannot say the same.

    A field that one of them does not have must stand at the other's default. A value of another type is none of the
    field's, though Python takes True for 1.
    """
    given = dict(zip(source.config, config, strict=True))
    values = {item.name: value for item, value in given.items()}
    types = {item.name: item.type for item in source.config}
    if any(value != item.default for item, value in given.items() if item.name not in target.field_names):
        return None
    result = []
    for item in target.config:
        value = values.get(item.name, item.default)
        if value is None or types.get(item.name, item.type) is not item.type:
            return None
        result.append(value)
    return tuple(result)


class _Contents:
    """Cells of a plane for people, in the fields of the new schema: those that it added stand at their default."""

    def __init__(self, plane: Plane, schema: Schema) -> None:
        self._plane = plane
        self._added = tuple(
            (item.name, item.default)
            for item in schema.config
            if item.default is not None and item.name not in plane.schema.field_names
        )
        self._dropped = {item.name: item.default for item in plane.schema.config if item.name not in schema.field_names}
        self._known: dict[int, Content] = {UNSET: None, MASKED: MASK}

    def content(self, cell: int) -> Content:
        """The content of a cell; a dropped field at its default is left out."""
        if cell not in self._known:
            given = self._plane.schema.config_dict(self._plane.pool[cell]).items()
            kept = tuple((n, v) for n, v in given if n not in self._dropped or v != self._dropped[n])
            self._known[cell] = (*kept, *self._added)
        return self._known[cell]
