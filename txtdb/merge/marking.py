"""Conflict hunks, as git writes them: ours, the base, theirs, between markers.

Each part stands alone, so that a file without the markers and without two of the parts is valid. What the symbols
mean is told in comments in the base's part, which goes away with the choice of either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from txtdb.merge.conflicts import content_of, content_text
from txtdb.merge.plan import Clash, Plan
from txtdb.merge.threeway import SIDES, Three
from txtdb.merge.versions import origin_text, told_apart
from txtdb.model.table import Cells
from txtdb.syntax.grid import encode_cells, merge_rows

_OURS, _BASE, _CUT, _THEIRS = "<<<<<<< ours", "||||||| base", "=======", ">>>>>>> theirs"


def directive_hunk(lines: Three[str | None]) -> list[str]:
    """A header line that both sides changed differently."""
    return _hunk(lines.map(lambda line: [line] if line else []), [])


def clash_text(clash: Clash) -> str:
    """Whole files against each other, with the reason why nothing in them could be merged."""
    texts = clash.versions.map(lambda version: version.text.splitlines())
    return "\n".join([*_hunk(texts, [f"# This file cannot be merged by cell: {clash.reason}."]), ""])


def row_hunk(plan: Plan, number: int, first: int, stop: int) -> list[str]:
    """Rows `first` to behind `stop` of block `number`: in each part all that was merged, and one version's cells of
    what was not.

    A version that sets nothing there has transparent rows, so that no choice leaves the block without rows.
    """
    height, width = plan.grid.shape.rows, plan.grid.shape.width
    conflicts, cells, *sides = (
        array[number].reshape(height, width)[first:stop] for array in (plan.conflicts, plan.cells, *plan.sides)
    )
    parts = Three(*(_row_lines(plan, first, np.where(conflicts, side, cells)) for side in sides))
    comments: list[str] = []
    for row in range(stop - first):
        comments += _explained(plan, first + row, conflicts[row].tolist(), [side[row].tolist() for side in sides])
    return _hunk(parts, comments)


def _hunk(parts: Three[list[str]], explanation: list[str]) -> list[str]:
    return [_OURS, *parts.ours, _BASE, *explanation, *parts.base, _CUT, *parts.theirs, _THEIRS]


def _row_lines(plan: Plan, first: int, cells: Cells) -> list[str]:
    rows: list[tuple[int, str, tuple[str, ...]]] = [
        (number, encode_cells(row, plan.palette.symbols), ()) for number, row in enumerate(cells.tolist(), first)
    ]
    return [line for line, _ in merge_rows(plan.grid.shape, rows)]


def _explained(plan: Plan, row: int, conflicts: list[bool], sides: list[list[int]]) -> Iterator[str]:
    """Comments: for each run of equal conflicts in a row where it is, and what each version has."""
    shape = plan.grid.shape
    bins = shape.axes[-1][1]
    label = [f"{name}={value}" for (name, _), value in zip(shape.label_axes, shape.row_bins(row), strict=True)]
    triples = zip(*sides, strict=True)
    cells = [triple if conflict else None for conflict, triple in zip(conflicts, triples, strict=True)]
    origins = told_apart(plan.versions.map(origin_text))
    column = 0
    for triple, run in groupby(cells):
        last = column + len(list(run)) - 1
        if triple:
            span = f"{bins[column]}-{bins[last]}" if last > column else f"{bins[column]}"
            yield f"# {' '.join([*label, f'{shape.axes[-1][0]}={span}'])}"
            for side, origin, cell in zip(SIDES, origins, triple, strict=True):
                yield f"#   {side:<6}  {content_text(content_of(plan, cell))}{f' ({origin})' if origin else ''}"
        column = last + 1
