"""A table as one plane of cells, and the cells in which two planes differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from txtdb.diff.edits import MASK, CellEdit, Content
from txtdb.faults import Span
from txtdb.layers.resolve import Bins, Layer, bin_index
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import Schema
from txtdb.model.table import MASKED, UNSET, Cells, ConfigPool
from txtdb.model.values import Functional, functional_rank


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


def resolved_plane(table: ResolvedTable) -> Plane:
    """What lookups see: all layers, bases included."""
    fold = table.fold
    return Plane(
        table.arch, table.schema, table.pool, table.layers, fold.functionals, fold.bins, fold.cells, fold.winner, True
    )


def written_plane(table: ResolvedTable) -> Plane:
    """What the arch's own files write: its tables, patches and pins, without what it inherits."""
    own = [number for number, layer in enumerate(table.layers) if layer.arch == table.arch]
    tables = [table.layers[number].table for number in own]
    functionals = tuple(sorted({f for t in tables for f in t.functionals}, key=functional_rank))
    axes = range(len(table.schema.axes))
    bins = tuple(tuple(sorted({b for t in tables if t.functionals for b in t.bins[axis]})) for axis in axes)
    shape = (len(functionals), *map(len, bins))
    cells, winner = np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16)
    index = {functional: place for place, functional in enumerate(functionals)}
    for number, own_table in zip(own, tables, strict=True):
        if own_table.functionals:
            places = [[have.index(b) for b in mine] for have, mine in zip(bins, own_table.bins, strict=True)]
            where = np.ix_([index[f] for f in own_table.functionals], *places)
            is_set = own_table.cells != UNSET
            cells[where] = np.where(is_set, own_table.cells, cells[where])
            winner[where] = np.where(is_set, np.int16(number), winner[where])
    return Plane(table.arch, table.schema, table.pool, table.layers, functionals, bins, cells, winner, False)


def empty_plane(like: Plane) -> Plane:
    """A plane of the same table without cells."""
    shape = (0,) * (len(like.bins) + 1)
    cells, winner = np.zeros(shape, np.int32), np.zeros(shape, np.int16)
    return Plane(like.arch, like.schema, like.pool, (), (), ((),) * len(like.bins), cells, winner, like.fills)


def plane_edits(old: Plane, new: Plane) -> Iterator[CellEdit]:
    """The cells in which two planes of one arch and interface differ, in grid order.

    Configs are compared by content: a field that one side's schema does not have counts as the other's default.
    """
    functionals = tuple(sorted({*old.functionals, *new.functionals}, key=functional_rank))
    bins = tuple(tuple(sorted({*a, *b})) for a, b in zip(old.bins, new.bins, strict=True))
    sources = [_sources(plane, functionals, bins) for plane in (old, new)]
    before, after = (_take(plane, where) for plane, where in zip((old, new), sources, strict=True))
    numbers = _translation(old, new)
    differing = np.argwhere(numbers[before] != after)
    for first, *at in differing.tolist():
        values = tuple(own[place] for own, place in zip(bins, at, strict=True))
        cell = (first, *at)
        yield CellEdit(
            new.arch,
            new.schema.iface,
            functionals[first],
            values,
            _content(old, int(before[cell])),
            _content(new, int(after[cell])),
            _span(old, sources[0], cell),
            _span(new, sources[1], cell),
        )


def _sources(plane: Plane, functionals: tuple[Functional, ...], bins: Bins) -> list[list[int]]:
    """Where each functional and bin of the common grid stands in the plane; -1 where it does not."""
    index = {functional: place for place, functional in enumerate(plane.functionals)}
    rows = [index.get(functional, -1) for functional in functionals]
    return [
        rows,
        *([_place(have, value, plane.fills) for value in wide] for have, wide in zip(plane.bins, bins, strict=True)),
    ]


def _place(have: tuple[int, ...], value: int, fills: bool) -> int:
    if value in have:
        return have.index(value)
    return bin_index(have, value) if fills and have else -1


def _take(plane: Plane, sources: list[list[int]]) -> Cells:
    """The plane's cells on the common grid."""
    padded = np.pad(plane.cells, [(0, 1)] * plane.cells.ndim, constant_values=UNSET)
    taken: Cells = padded[np.ix_(*sources)]
    return taken


def _translation(old: Plane, new: Plane) -> Cells:
    """Old config number → new config number of the same content (-3 where there is none), marks at the end."""
    known = {new.pool[number]: number for number in range(len(new.pool))}
    translated = []
    for number in range(len(old.pool)):
        given = old.schema.config_dict(old.pool[number])
        values = tuple(given.get(item.name, item.default) for item in new.schema.config)
        # A field that the new schema dropped must have stood at its default to be nothing.
        dropped = any(
            given[item.name] != item.default for item in old.schema.config if item.name not in new.schema.field_names
        )
        translated.append(-3 if dropped else known.get(values, -3))  # type: ignore[arg-type]
    return np.array([*translated, MASKED, UNSET], np.int32)


def _content(plane: Plane, cell: int) -> Content:
    if cell == UNSET:
        return None
    return MASK if cell == MASKED else tuple(plane.schema.config_dict(plane.pool[cell]).items())


def _span(plane: Plane, sources: list[list[int]], cell: tuple[int, ...]) -> Span | None:
    """The run that sets a cell of the common grid."""
    places = [where[index] for where, index in zip(sources, cell, strict=True)]
    if -1 in places:
        return None
    number = int(plane.winner[tuple(places)])
    if number < 0:
        return None
    layer = plane.layers[number]
    values = [bins[place] for bins, place in zip(plane.bins, places[1:], strict=True)]
    own = [bin_index(bins, value) for bins, value in zip(layer.table.bins, values, strict=True)]
    return layer.table.cell_span(layer.index[plane.functionals[places[0]]], tuple(own))
