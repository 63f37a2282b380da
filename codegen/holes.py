"""Declared cells without a config, told as one fault a table."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.dispatch import Hole
from txtdb.faults import Fault, Span
from txtdb.layers.resolve import cell_history, functional_label
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import FileTable
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
    grouped: dict[Functional, list[str]] = {}
    for hole in holes:
        grouped.setdefault(hole.functional, []).append(",".join(map(str, hole.bins)))
    size = 1
    for bins in resolved.arch_schema.bins:
        size *= len(bins)
    texts = [f"{functional_label(f)} {'all' if len(at) == size else ' '.join(at)}" for f, at in grouped.items()]
    hidden = len(texts) - MAX_FUNCTIONALS
    return texts if hidden <= 0 else [*texts[:MAX_FUNCTIONALS], f"and {hidden} more functionals"]


def _span(resolved: ResolvedTable, hole: Hole) -> Span:
    """What masks the cell, else the highest block of its functional, else the highest file."""
    if all(value in own for value, own in zip(hole.bins, resolved.bins, strict=True)):
        history = cell_history(resolved.layers, resolved.pool, hole.functional, hole.bins)
        if history:
            return history[0].span
    for layer in reversed(resolved.layers):
        if hole.functional in layer.index and isinstance(layer.table, FileTable):
            return layer.table.block_span(layer.index[hole.functional])
    return Span(resolved.layers[-1].file)
