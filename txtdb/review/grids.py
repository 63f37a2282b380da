"""The cells of changed functionals as arrays of content numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from txtdb.diff.edits import MASK, Content
from txtdb.layers.resolve import Bins, bin_index
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, UNSET, Cells
from txtdb.model.values import Functional, functional_rank


@dataclass(frozen=True)
class Grids:
    """What lookups give in some functionals.

    `cells` has shape (functionals, bins of axis 1, …) and holds places in `contents`.
    """

    bins: Bins
    contents: tuple[Content, ...]
    cells: Cells


def make_grids(
    old: ResolvedTable | None, new: ResolvedTable | None, functionals: tuple[Functional, ...], more: Iterable[Content]
) -> Grids:
    """The new side's cells on the bins of both sides; `contents` holds those of the cells and `more`, sorted."""
    tables = [table for table in (old, new) if table is not None]
    axes = range(max(len(table.bins) for table in tables))
    bins = tuple(tuple(sorted({b for table in tables for b in table.bins[axis]})) for axis in axes)
    numbers = _cells(new, functionals, bins)
    present = np.unique(numbers).tolist()
    contents = tuple(sorted({*(content_of(new, n) for n in present), *more}, key=_content_rank))
    places = {content: place for place, content in enumerate(contents)}
    translation = np.array([places[content_of(new, n)] for n in present], np.int32)
    cells: Cells = translation[np.searchsorted(present, numbers)]
    cells.flags.writeable = False
    return Grids(bins, contents, cells)


def _cells(table: ResolvedTable | None, functionals: tuple[Functional, ...], bins: Bins) -> Cells:
    cells = np.full((len(functionals), *map(len, bins)), UNSET, np.int32)
    if table is None or not table.functionals:
        return cells
    places = [[bin_index(have, value) for value in own] for have, own in zip(table.bins, bins, strict=True)]
    known = [(place, table.fold.index[f]) for place, f in enumerate(functionals) if f in table.fold.index]
    cells[[place for place, _ in known]] = table.cells[np.ix_([row for _, row in known], *places)]
    return cells


def content_of(table: ResolvedTable | None, number: int) -> Content:
    """What a cell's number means."""
    if table is None or number == UNSET:
        return None
    return MASK if number == MASKED else tuple(table.schema.config_dict(table.pool[number]).items())


def _content_rank(content: Content) -> tuple[int, list[tuple[int, int, str]]]:
    """Configs by their values, then masked cells, then nothing."""
    if isinstance(content, tuple):
        return 0, functional_rank(tuple(value for _, value in content))
    return (2, []) if content is None else (1, [])
