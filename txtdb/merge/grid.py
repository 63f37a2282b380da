"""The grid that all versions share, and each version's cells on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from txtdb.merge.threeway import Three, merge_names, merge_sets
from txtdb.merge.versions import Version
from txtdb.model.table import MASKED, UNSET, Cells
from txtdb.syntax import Document, Shape
from txtdb.syntax.printer import functional_rank

FunctionalTexts = tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """Every functional and every bin that any version has. `functionals` give their values in the order of `keys`."""

    keys: tuple[str, ...]
    functionals: tuple[FunctionalTexts, ...]
    shape: Shape

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.functionals) * self.shape.size


def common_grid(versions: Three[Version]) -> Grid:
    """The common grid of versions with the same keys and axes."""
    keys = merge_names(versions.map(lambda version: tuple(version.document.keys)))
    found = {functional for version in versions for functional in block_functionals(version.document, keys)}
    axes: dict[str, set[int]] = {}
    for version in versions:
        for name, bins in version.source.shape.axes:
            axes.setdefault(name, set()).update(bins)
    shape = Shape(tuple((name, tuple(sorted(bins))) for name, bins in axes.items()))
    return Grid(keys, tuple(sorted(found, key=lambda values: functional_rank(list(values)))), shape)


def block_functionals(document: Document, keys: tuple[str, ...]) -> list[FunctionalTexts]:
    """The functional of each block, its values in the order of `keys`."""
    own = document.keys
    order = [own.index(name) for name in keys] if own else []
    values = (block.values for block in document.blocks)
    return [tuple(texts[place] for place in order) for texts in values]


def cells_on(grid: Grid, version: Version, numbers: list[int]) -> Cells:
    """A version's cells, of shape (functionals, bins of axis 1, …) of the grid.

    `numbers` gives for each palette entry of the version what its cells hold.
    """
    cells = np.full((len(grid.functionals), *grid.shape.lengths), UNSET, np.int32)
    source = version.source
    if source.document.blocks:
        index = {functional: place for place, functional in enumerate(grid.functionals)}
        rows = [index[functional] for functional in block_functionals(source.document, grid.keys)]
        pairs = zip(grid.shape.places, source.shape.axes, strict=True)
        columns = [[places[value] for value in bins] for places, (_, bins) in pairs]
        cells[np.ix_(rows, *columns)] = _own_cells(version, numbers)
    return cells


def _own_cells(version: Version, numbers: list[int]) -> Cells:
    shape = version.source.shape
    blank = [UNSET] * shape.width
    flat: list[int] = []
    for rows in version.source.rows:
        lines = [blank] * shape.rows
        for row in rows:
            lines[row.first : row.stop] = [row.cells] * (row.stop - row.first)
        for line in lines:
            flat += line
    # The marks are -1 and -2: they index the end.
    table = np.array([*numbers, MASKED, UNSET], np.int32)
    own: Cells = table[np.array(flat, np.int32)].reshape(-1, *shape.lengths)
    return own


def kept_bins(grid: Grid, versions: Three[Version], needed: list[set[int]], has_blocks: bool) -> list[list[int]]:
    """Positions on each axis of the grid of the bins that the merged file has; all empty where it has no axes.

    `needed` are positions that must stay. No axis is left without bins where another has some.
    """
    axes = [versions.map(_own_bins(name)) for name, _ in grid.shape.axes]
    merged = [merge_sets(own) for own in axes]
    if not has_blocks and not any(merged):
        return [[] for _ in axes]
    wanted = [bins or own.ours | own.theirs | own.base for bins, own in zip(merged, axes, strict=True)]
    triples = zip(grid.shape.axes, wanted, needed, strict=True)
    return [
        [place for place, value in enumerate(bins) if value in merged_bins or place in must]
        for (_, bins), merged_bins, must in triples
    ]


def _own_bins(axis: str) -> Callable[[Version], set[int]]:
    return lambda version: set(dict(version.source.shape.axes).get(axis, ()))
