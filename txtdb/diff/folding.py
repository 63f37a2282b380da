"""Equal edits of one functional in neighbouring cells, joined into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txtdb.diff.edits import CellEdit
from txtdb.model.schema import Schema


@dataclass(frozen=True, slots=True)
class FoldedEdit:
    """Equal edits of one functional in a block of neighbouring bins: from `first` to `last` on every axis."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    edits: tuple[CellEdit, ...]


@dataclass(slots=True)
class _Block:
    first: tuple[int, ...]
    last: tuple[int, ...]
    edits: list[CellEdit]


def fold_edits(schema: Schema, edits: Sequence[CellEdit]) -> list[FoldedEdit]:
    """Edits of one functional, in grid order, with equal neighbours joined: along the last axis, then over rows.

    Neighbours are so on the declared grid: a bin without an edit between two parts them.
    """
    places = _bin_places(schema, edits)
    runs: list[_Block] = []
    for edit in edits:
        if runs and _continues(runs[-1], edit, places[-1]):
            runs[-1].last = edit.bins
            runs[-1].edits.append(edit)
        else:
            runs.append(_Block(edit.bins, edit.bins, [edit]))
    blocks = _join_rows(runs, places[-2]) if len(places) > 1 else runs
    return [FoldedEdit(block.first, block.last, tuple(block.edits)) for block in blocks]


def _bin_places(schema: Schema, edits: Sequence[CellEdit]) -> list[dict[int, int]]:
    """Bin → its place among the declared bins and those of the edits, for each axis."""
    arch_schema = schema.for_arch(edits[0].arch)
    declared = arch_schema.bins if arch_schema else tuple(axis.bins for axis in schema.axes)
    grids = (sorted({*own, *(edit.bins[axis] for edit in edits)}) for axis, own in enumerate(declared))
    return [{value: place for place, value in enumerate(bins)} for bins in grids]


def _continues(run: _Block, edit: CellEdit, places: dict[int, int]) -> bool:
    adjacent = places[edit.bins[-1]] == places[run.last[-1]] + 1
    return adjacent and run.last[:-1] == edit.bins[:-1] and _same_change(run.edits[0], edit)


def _same_change(one: CellEdit, other: CellEdit) -> bool:
    return one.old == other.old and one.new == other.new


def _join_rows(runs: list[_Block], places: dict[int, int]) -> list[_Block]:
    """Runs of the same columns in consecutive rows become one block."""
    blocks: list[_Block] = []
    open_blocks: dict[tuple[int, ...], _Block] = {}
    for run in runs:
        columns = (*run.first[:-2], run.first[-1], run.last[-1])
        above = open_blocks.get(columns)
        if above and places[run.first[-2]] == places[above.last[-2]] + 1 and _same_change(above.edits[0], run.edits[0]):
            above.last = run.last
            above.edits += run.edits
        else:
            blocks.append(run)
            open_blocks[columns] = run
    return blocks
