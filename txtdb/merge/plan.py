"""Three versions → what the merged file holds, cell by cell, and where they conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from txtdb.merge.comments import Comments, Place, merge_comments
from txtdb.merge.grid import Grid, cells_on, common_grid, kept_bins
from txtdb.merge.header import MergedDirective, merge_header
from txtdb.merge.palette import Palette, merge_palette, read_configs
from txtdb.merge.threeway import Three
from txtdb.merge.versions import Version
from txtdb.model.table import UNSET, Cells
from txtdb.syntax import Shape
from txtdb.syntax.grid import MAX_CELLS

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Clash:
    """Versions that do not say the same kind of thing, so that there are no cells to merge."""

    versions: Three[Version]
    reason: str


@dataclass(frozen=True)
class Plan:
    """The merged file. `cells`, `sides` and `conflicts` have shape (functionals, bins of axis 1, …) of `grid`.

    Cells are numbers of configs in `palette`, or marks. `cells` has the base's where both sides changed one
    differently, which `conflicts` tells. `header` does not hold what grid and palette say: key, axis and config.
    """

    versions: Three[Version]
    header: tuple[MergedDirective, ...]
    palette: Palette
    grid: Grid
    cells: Cells
    sides: Three[Cells]
    conflicts: Mask
    comments: Comments

    @property
    def has_conflict(self) -> bool:
        """Whether anything is left for a person to decide."""
        return bool(self.conflicts.any()) or any(directive.is_conflict for directive in self.header)


def make_plan(versions: Three[Version], defaults: Mapping[str, str]) -> Plan | Clash:
    """Merge three versions. `defaults` are the values of config fields that a version does not write out."""
    reason = _reason(versions)
    if reason:
        return Clash(versions, reason)
    grid = common_grid(versions)
    if grid.size > MAX_CELLS:
        return Clash(versions, f"together they have {grid.size} cells; a file has at most {MAX_CELLS}")
    configs = read_configs(versions, defaults)
    pairs = zip(versions, configs.entries, strict=True)
    sides = Three(*(cells_on(grid, version, numbers) for version, numbers in pairs))
    cells, conflicts = merge_cells(sides)
    palette = merge_palette(versions, configs, _used(cells, sides, conflicts))
    if palette is None:
        return Clash(versions, "their configs have different fields, and no schema gives the missing ones a default")
    header, comments = tuple(merge_header(versions)), merge_comments(versions, grid, configs.entries)
    return _cut(Plan(versions, header, palette, grid, cells, sides, conflicts, comments))


def merge_cells(sides: Three[Cells]) -> tuple[Cells, Mask]:
    """The merged cells, and which of them are conflicts: they have the base's content."""
    by_ours, by_theirs = sides.ours != sides.base, sides.theirs != sides.base
    conflicts = by_ours & by_theirs & (sides.ours != sides.theirs)
    cells = np.where(by_ours, sides.ours, sides.theirs)
    return np.where(conflicts, sides.base, cells), conflicts


def _reason(versions: Three[Version]) -> str:
    """Why versions cannot be laid over each other; empty where they can."""
    facts: tuple[tuple[str, list[Sequence[str]]], ...] = (
        ("kinds of file", [version.document.kind for version in versions]),
        ("keys", [sorted(version.document.keys) for version in versions]),
        ("axes", [version.axis_names for version in versions]),
    )
    for what, found in facts:
        there = [item for item in found if item]
        if any(item != there[0] for item in there):
            return f"their {what} are not the same"
    return ""


def _used(cells: Cells, sides: Three[Cells], conflicts: Mask) -> set[int]:
    """Numbers of all configs that the file needs, with each side of a conflict."""
    found = np.concatenate([cells.ravel(), *(side[conflicts] for side in sides)])
    return {number for number in np.unique(found).tolist() if number >= 0}


def _cut(plan: Plan) -> Plan:
    """Without the blocks and bins of which nothing is left. What has a comment stays."""
    grid, is_set = plan.grid, (plan.cells != UNSET) | plan.conflicts
    labels = {label for place, _, label in plan.comments if place is Place.ROW}
    commented = {names for place, names, _ in plan.comments if place in (Place.BLOCK, Place.ROW, Place.BLOCK_END)}
    blocks = [n for n, functional in enumerate(grid.functionals) if is_set[n].any() or functional in commented]
    bins = kept_bins(grid, plan.versions, _needed_bins(grid, is_set, labels), bool(blocks))
    where = np.ix_(blocks, *bins)
    axes = ((name, tuple(own[n] for n in kept)) for (name, own), kept in zip(grid.shape.axes, bins, strict=True))
    shape = Shape(tuple((name, own) for name, own in axes if own))
    return replace(
        plan,
        grid=Grid(grid.keys, tuple(grid.functionals[n] for n in blocks), shape),
        cells=plan.cells[where],
        sides=plan.sides.map(lambda side: side[where]),
        conflicts=plan.conflicts[where],
    )


def _needed_bins(grid: Grid, is_set: Mask, labels: set[tuple[int, ...]]) -> list[set[int]]:
    """Positions on each axis where something is set, or where a comment stands in front of a row."""
    needed = []
    for axis in range(len(grid.shape.axes)):
        others = tuple(other for other in range(is_set.ndim) if other != axis + 1)
        needed.append(set(np.flatnonzero(is_set.any(axis=others)).tolist()))
    for label in labels:
        for axis, value in enumerate(label):
            needed[axis].add(grid.shape.places[axis][value])
    return needed
