"""A resolved table made dense: for each supported functional the grid that lookups see, and what is missing in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codegen.keyspace import KeySpace
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.values import Functional, functional_rank

Grids = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

_MARKS = 2  # UNSET and MASKED lie below zero


@dataclass(frozen=True)
class DispatchTable:
    """What is generated for one arch and interface.

    `grids` has shape (different grids, cells of a grid), the last axis running fastest; a cell is a place in `configs`,
    or `len(configs)` where there is none. `grid_of` gives the grid of each functional of `space`. `bins` is empty for
    an interface without axes, whose grids have one cell.
    """

    arch: str
    schema: Schema
    inputs: str
    space: KeySpace
    bins: tuple[tuple[int, ...], ...]
    configs: tuple[ConfigValues, ...]
    grid_of: tuple[int, ...]
    grids: Grids

    @property
    def cell_bytes(self) -> int:
        """Width of a cell in bytes: 1, 2 or 4."""
        return self.grids.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Hole:
    """A declared cell without a config; `bins` are its values on the axes."""

    functional: Functional
    bins: tuple[int, ...]


def tuned_table(resolved: ResolvedTable, space: KeySpace, inputs: str) -> DispatchTable:
    """The dispatch table of a resolved one. `inputs` is the digest of the files that it was resolved from."""
    bins = resolved.bins if resolved.functionals else resolved.arch_schema.bins
    cells = _effective(resolved, space, int(np.prod([len(own) for own in bins])))
    numbers, configs = _used_configs(cells, resolved.pool)
    dtype = np.min_scalar_type(len(configs))
    places = np.full(len(resolved.pool) + _MARKS, len(configs), dtype)
    places[np.array(numbers, np.intp) + _MARKS] = np.arange(len(numbers), dtype=dtype)
    grids, grid_of = _different(places[cells + _MARKS])
    return DispatchTable(resolved.arch, resolved.schema, inputs, space, bins, configs, grid_of, grids)


def fixed_table(arch_schema: ArchSchema, space: KeySpace, inputs: str) -> DispatchTable:
    """The dispatch table of an interface that has one config and is not tuned."""
    schema = arch_schema.schema
    assert schema.fixed_config is not None, "the schema reader has seen to it"
    grid_of = (0,) * len(space.functionals)
    grids = np.zeros((1, 1), np.uint8)
    return DispatchTable(arch_schema.section.arch, schema, inputs, space, (), (schema.fixed_config,), grid_of, grids)


def find_holes(table: DispatchTable, arch_schema: ArchSchema) -> list[Hole]:
    """The cells of the declared functionals and bins that have no config. A bin that no layer has is a hole, too."""
    if not table.bins or not table.space.declared:
        return []
    grids = table.grids[np.array([table.grid_of[place] for place in table.space.declared], np.intp)]
    empty = (grids == len(table.configs)).reshape(-1, *map(len, table.bins))
    for axis, (declared, own) in enumerate(zip(arch_schema.bins, table.bins, strict=True), 1):
        known = {value: place for place, value in enumerate(own)}
        empty = np.take(empty, [known.get(value, 0) for value in declared], axis)
        absent = [place for place, value in enumerate(declared) if value not in known]
        empty[(slice(None),) * axis + (absent,)] = True
    return [
        Hole(
            table.space.functionals[table.space.declared[number]],
            tuple(bins[place] for bins, place in zip(arch_schema.bins, at, strict=True)),
        )
        for number, *at in np.argwhere(empty).tolist()
    ]


def _effective(resolved: ResolvedTable, space: KeySpace, size: int) -> Cells:
    """Shape (functionals of the space, size): for each what its lookups see, in pool numbers or marks."""
    index = resolved.fold.index
    missing = len(index)
    sources = np.full((len(space.functionals), space.depth), missing, np.intp)
    for place, donors in enumerate(space.donors):
        sources[place, : len(donors)] = [index.get(donor, missing) for donor in donors]
    own = np.full((missing + 1, size), UNSET, np.int32)
    if missing:
        own[:missing] = resolved.cells.reshape(missing, size)
    cells: Cells = own[sources[:, 0]]
    for step in range(1, space.depth):
        cells = np.where(cells < 0, own[sources[:, step]], cells)
    return cells


def _used_configs(cells: Cells, pool: ConfigPool) -> tuple[list[int], tuple[ConfigValues, ...]]:
    """The configs that stand in cells, sorted by content: their pool numbers and their values."""
    counts = np.bincount(cells.ravel() + _MARKS, minlength=_MARKS)[_MARKS:]
    numbers = sorted(np.flatnonzero(counts).tolist(), key=lambda number: functional_rank(pool[number]))
    return numbers, tuple(pool[number] for number in numbers)


def _different(rows: Grids) -> tuple[Grids, tuple[int, ...]]:
    """Rows without repeats, in order of first appearance, and for each row which one it is."""
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    which: list[int] = []
    for place, row in enumerate(rows):
        number = numbers.setdefault(row.tobytes(), len(numbers))
        if number == len(first):
            first.append(place)
        which.append(number)
    return rows[np.array(first, np.intp)], tuple(which)
