"""Declared cells without a config, told as one fault a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from codegen.dispatch import Hole
from txtdb.faults import Fault, Span
from txtdb.layers.resolve import cell_history, functional_label
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, FileTable
from txtdb.model.values import Functional

RULE = "hole"
# A table that is empty altogether is told by its first functionals; `--format json` has every cell.
MAX_FUNCTIONALS = 20


def hole_fault(resolved: ResolvedTable, holes: Sequence[Hole]) -> Fault:
    """One fault for all holes of a table, at the first of them."""
    count = len(holes)
    where = "; ".join(_texts(resolved, holes))
    message = (
        f"{resolved.arch} {resolved.iface}: {count} {'cell has' if count == 1 else 'cells have'} no config: {where}"
    )
    searched = ", ".join(dict.fromkeys(layer.file for layer in resolved.layers))
    hint = f"searched {searched}; tune the cells, declare them unsupported, or generate with --on-hole none"
    return Fault(RULE, _span(resolved, holes[0]), message, hint)


def _texts(resolved: ResolvedTable, holes: Sequence[Hole]) -> list[str]:
    """The holes by functional: `[bf16 0 64 false 0] 16,32 16,64`, or `all` where nothing is there."""
    grouped: dict[Functional, list[Hole]] = {}
    for hole in holes:
        grouped.setdefault(hole.functional, []).append(hole)
    shown = list(grouped.items())[:MAX_FUNCTIONALS]
    texts = [f"{functional_label(functional)} {_cells_text(resolved, own)}" for functional, own in shown]
    hidden = len(grouped) - len(shown)
    return [*texts, f"and {hidden} more functionals"] if hidden else texts


def _cells_text(resolved: ResolvedTable, holes: Sequence[Hole]) -> str:
    """The holes of one functional; those that a layer masks behind the others: `16,32, masked at FILE:LINE: 16,64`."""
    size = prod(len(bins) for bins in resolved.arch_schema.bins)
    masks: dict[str, list[str]] = {"": []}
    for hole in holes:
        mask = _mask(resolved, hole)
        where = f"masked at {mask.file}:{mask.line}: " if mask else ""
        masks.setdefault(where, []).append(",".join(map(str, hole.bins)))
    texts = ((at if len(at) < size else ["all"], where) for where, at in masks.items() if at)
    return ", ".join(f"{where}{' '.join(at)}" for at, where in texts)


def _mask(resolved: ResolvedTable, hole: Hole) -> Span | None:
    """Where a cell is masked; None where no layer sets it at all."""
    if any(value not in own for value, own in zip(hole.bins, resolved.bins, strict=True)):
        return None
    if resolved.at(hole.functional, hole.bins) != MASKED:
        return None
    return cell_history(resolved.layers, resolved.pool, hole.functional, hole.bins)[0].span


def _span(resolved: ResolvedTable, hole: Hole) -> Span:
    """What masks the cell, else the highest block of its functional, else the highest file."""
    mask = _mask(resolved, hole)
    if mask:
        return mask
    for layer in reversed(resolved.layers):
        if hole.functional in layer.index and isinstance(layer.table, FileTable):
            return layer.table.block_span(layer.index[hole.functional])
    return Span(resolved.layers[-1].file)
