"""What a plan leaves to a person: each cell that both sides changed differently, with all three contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from txtdb.faults import Span
from txtdb.merge.grid import FunctionalTexts, block_functionals
from txtdb.merge.plan import Plan
from txtdb.merge.threeway import Three
from txtdb.model.table import UNSET
from txtdb.syntax import Source
from txtdb.syntax.grid import run_span
from txtdb.syntax.tree import MASK

# A config as (field, value) pairs, MASK, or None where nothing is set.
Content = tuple[tuple[str, str], ...] | str | None


@dataclass(frozen=True, slots=True)
class CellConflict:
    """One cell in conflict. Spans point at the run that sets it in each version, None where none does."""

    functional: tuple[tuple[str, str], ...]
    at: tuple[tuple[str, int], ...]
    contents: Three[Content]
    spans: Three[Span | None]


def cell_conflicts(plan: Plan) -> Iterator[CellConflict]:
    """All cells in conflict, in the order of the file."""
    axes = plan.grid.shape.axes
    written = plan.versions.map(lambda version: _Written(version.written, plan.grid.keys))
    for first, *places in np.argwhere(plan.conflicts).tolist():
        functional, cell = plan.grid.functionals[first], (first, *places)
        bins = tuple(own[place] for (_, own), place in zip(axes, places, strict=True))
        yield CellConflict(
            tuple(zip(plan.grid.keys, functional, strict=True)),
            tuple((name, value) for (name, _), value in zip(axes, bins, strict=True)),
            Three(*(content_of(plan, int(side[cell])) for side in plan.sides)),
            Three(*(file.span(functional, bins) for file in written)),
        )


def content_of(plan: Plan, number: int) -> Content:
    """What a number in the plan's cells stands for."""
    if number < 0:
        return None if number == UNSET else MASK
    return tuple(zip(plan.palette.fields, plan.palette.values[number], strict=True))


def content_text(content: Content) -> str:
    """A cell's content for people."""
    if content is None:
        return "nothing"
    return "masked" if isinstance(content, str) else " ".join(f"{name}={value}" for name, value in content)


class _Written:
    """Finds cells in a file as it was written."""

    def __init__(self, source: Source, keys: tuple[str, ...]) -> None:
        self._source = source
        self._rows = dict(zip(block_functionals(source.document, keys), source.rows, strict=True))

    def span(self, functional: FunctionalTexts, bins: tuple[int, ...]) -> Span | None:
        """The run that sets a cell."""
        source, shape = self._source, self._source.shape
        if not all(value in own for value, own in zip(bins, shape.places, strict=False)):
            return None
        number = 0
        for value, places, length in zip(bins[:-1], shape.places, shape.lengths, strict=False):
            number = number * length + places[value]
        for row in self._rows.get(functional, ()):
            column = shape.places[-1][bins[-1]]
            if row.first <= number < row.stop and row.cells[column] != UNSET:
                return run_span(row.source, source.file, column, len(shape.axes) > 1)
        return None
