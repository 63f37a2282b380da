"""Layers, lowest first → one resolved table, per cell, with the history of every cell.

A layer's cell wins over everything below it, at the very bin it is written for. Where a layer brings bins that the
table below it lacks, cells that it does not set take what a lookup of the table below gives at that point.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Protocol

import numpy as np
import numpy.typing as npt

from txtdb.faults import Span
from txtdb.model.schema import Schema
from txtdb.model.table import MASKED, UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.values import Functional, functional_rank, print_value, print_values

Bins = tuple[tuple[int, ...], ...]

# What the layer numbers of `Fold.winner` can hold.
MAX_LAYERS = 1 << 15


class LayerTable(Protocol):
    """What a layer needs of a file's cells (`FileTable`, `PinTable`)."""

    @property
    def functionals(self) -> tuple[Functional, ...]:
        """The functionals that it has rows for."""

    @property
    def bins(self) -> Bins:
        """Bins of each axis."""

    @property
    def cells(self) -> Cells:
        """Shape (functionals, bins of axis 1, …): config numbers, UNSET or MASKED."""

    def cell_span(self, functional_index: int, at: tuple[int, ...]) -> Span:
        """Where a cell is set."""


def set_cells(table: LayerTable) -> set[tuple[Functional, tuple[int, ...]]]:
    """The cells that a layer sets, masks among them."""
    return {
        (table.functionals[first], tuple(bins[place] for bins, place in zip(table.bins, at, strict=True)))
        for first, *at in np.argwhere(table.cells != UNSET).tolist()
    }


@dataclass(frozen=True)
class Layer:
    """Something that sets cells of one arch and interface. `kind` is `table`, `patch` or `pins`.

    `root` counts the roots in their order: 0 is the database itself, 1 the first overlay.
    """

    kind: str
    root: int
    arch: str
    file: str
    table: LayerTable = field(repr=False)
    number: int | None = None
    origin: str | None = None
    evidence: tuple[str, ...] = ()

    @cached_property
    def index(self) -> dict[Functional, int]:
        """Functional → its place in the layer's arrays."""
        return {functional: number for number, functional in enumerate(self.table.functionals)}


@dataclass(frozen=True)
class Fold:
    """The outcome of some layers. `winner` holds for each cell the number of the layer that set it, or -1."""

    functionals: tuple[Functional, ...]
    bins: Bins
    cells: Cells
    winner: npt.NDArray[np.int16]

    @cached_property
    def index(self) -> dict[Functional, int]:
        """Functional → its place in the arrays."""
        return {functional: number for number, functional in enumerate(self.functionals)}


def empty_fold(axes: int) -> Fold:
    """No layers."""
    shape = (0,) * (axes + 1)
    return _frozen((), ((),) * axes, np.zeros(shape, np.int32), np.zeros(shape, np.int16))


def bin_index(bins: Sequence[int], value: int) -> int:
    """The first bin that is not smaller than the value; above the last bin the last."""
    return min(bisect_left(bins, value), len(bins) - 1)


def fold_layer(below: Fold, layer: Layer, number: int) -> Fold:
    """Lay one layer over a fold. `number` is what `winner` notes for its cells."""
    table = layer.table
    if not table.functionals:
        return below
    wide = _widen(below, table.functionals, table.bins)
    cells, winner = wide.cells.copy(), wide.winner.copy()
    places = [[bins.index(value) for value in own] for bins, own in zip(wide.bins, table.bins, strict=True)]
    where = np.ix_([wide.index[functional] for functional in table.functionals], *places)
    is_set = table.cells != UNSET
    cells[where] = np.where(is_set, table.cells, cells[where])
    winner[where] = np.where(is_set, np.int16(number), winner[where])
    return _frozen(wide.functionals, wide.bins, cells, winner)


def _widen(fold: Fold, functionals: tuple[Functional, ...], bins: Bins) -> Fold:
    """The same fold on the union of bins and functionals; lookups of it give the same answers."""
    union = tuple(tuple(sorted({*a, *b})) for a, b in zip(fold.bins, bins, strict=True))
    new = [f for f in functionals if f not in fold.index]
    if union == fold.bins and not new:
        return fold
    cells, winner = fold.cells, fold.winner
    if union != fold.bins and fold.functionals:
        sources = [[bin_index(old, value) for value in wide] for old, wide in zip(fold.bins, union, strict=True)]
        where = np.ix_(range(len(fold.functionals)), *sources)
        cells, winner = cells[where], winner[where]
    every = tuple(sorted((*fold.functionals, *new), key=functional_rank))
    positions = {functional: place for place, functional in enumerate(every)}
    shape = (len(every), *map(len, union))
    wide_cells, wide_winner = np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16)
    if fold.functionals:
        kept = [positions[functional] for functional in fold.functionals]
        wide_cells[kept], wide_winner[kept] = cells, winner
    return Fold(every, union, wide_cells, wide_winner)


def _frozen(functionals: tuple[Functional, ...], bins: Bins, cells: Cells, winner: npt.NDArray[np.int16]) -> Fold:
    cells.flags.writeable = False
    winner.flags.writeable = False
    return Fold(functionals, bins, cells, winner)


def fold_layers(layers: Iterable[Layer], start: Fold, first_number: int = 0) -> Iterator[Fold]:
    """The folds after each layer, from `start` on; `first_number` layers are in `start` already."""
    fold = start
    for number, layer in enumerate(layers, first_number):
        fold = fold_layer(fold, layer, number)
        yield fold


def ground_digest(schema: Schema, pool: ConfigPool, below: Fold, table: LayerTable) -> str:
    """The digest for `#! onto`: of the content under the cells that a patch sets, independent of symbols and order."""
    lines = []
    for number, functional in enumerate(table.functionals):
        for place in np.argwhere(table.cells[number] != UNSET).tolist():
            values = tuple(bins[index] for bins, index in zip(table.bins, place, strict=True))
            config = _below_at(below, functional, values)
            content = "none" if config < 0 else content_text(schema, pool[config])
            key = " ".join(f"{n}={print_value(v)}" for n, v in sorted(zip(schema.key_names, functional, strict=True)))
            lines.append(f"{key} @ {' '.join(map(str, values))} : {content}")
    return "sha256:" + sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _below_at(below: Fold, functional: Functional, values: tuple[int, ...]) -> int:
    number = below.index.get(functional)
    if number is None:
        return UNSET
    return int(below.cells[(number, *(bin_index(b, v) for b, v in zip(below.bins, values, strict=True)))])


def content_text(schema: Schema, config: ConfigValues) -> str:
    """A config by field names, fields at their default left out: the same in every spelling."""
    pairs = zip(schema.config, config, strict=True)
    return " ".join(sorted(f"{item.name}={print_value(value)}" for item, value in pairs if value != item.default))


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One layer that set a cell: `values` are the bins it was written for, `config` None where it masks."""

    layer: Layer
    functional: Functional
    values: tuple[int, ...]
    config: ConfigValues | None
    span: Span


def cell_history(
    layers: Sequence[Layer], pool: ConfigPool, functional: Functional, values: tuple[int, ...]
) -> list[HistoryEntry]:
    """Every layer that set a cell, the winner first. `values` are bins of the resolved table."""
    stages = list(_stage_bins(layers))
    entries = []
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        stage = stages[number]
        if not stage:
            break
        # Below a layer the cell is what a lookup there gives: at the bins of that stage.
        values = tuple(bins[bin_index(bins, value)] for bins, value in zip(stage, values, strict=True))
        entry = _entry(layer, pool, functional, values)
        if entry:
            entries.append(entry)
    return entries


def _entry(layer: Layer, pool: ConfigPool, functional: Functional, values: tuple[int, ...]) -> HistoryEntry | None:
    number = layer.index.get(functional)
    if number is None or any(value not in bins for value, bins in zip(values, layer.table.bins, strict=True)):
        return None
    at = tuple(bins.index(value) for value, bins in zip(values, layer.table.bins, strict=True))
    cell = int(layer.table.cells[(number, *at)])
    if cell == UNSET:
        return None
    config = None if cell == MASKED else pool[cell]
    return HistoryEntry(layer, functional, values, config, layer.table.cell_span(number, at))


def _stage_bins(layers: Sequence[Layer]) -> Iterator[Bins]:
    """The bins of the table that layers up to and including each one make."""
    bins: Bins = ()
    for layer in layers:
        if layer.table.functionals:
            own = layer.table.bins
            bins = tuple(tuple(sorted({*a, *b})) for a, b in zip(bins or ((),) * len(own), own, strict=True))
        yield bins


def functional_label(functional: Functional) -> str:
    """A functional as its block's head."""
    return f"[{print_values(functional)}]"
