"""The same resolution as the package's, written again with dictionaries and without arrays.

A table is a list of layers, lowest first. What a table holds at a point is asked of its top layer; what that leaves
open is what a lookup of the table below gives at that point. The grid of a table are the bins of all its layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.strategies import ConfigValues, Functional, LayerSpec, SchemaSpec

Point = tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """A layer that set a cell: the bins that it is written for, and the config or None for a mask."""

    file: str
    at: Point
    config: ConfigValues | None


def grid(layers: Sequence[LayerSpec]) -> list[list[int]]:
    """The bins of a table on each axis."""
    with_cells = [layer for layer in layers if layer.functionals]
    return [sorted(set().union(*axis)) for axis in zip(*(layer.axes for layer in with_cells), strict=True)]


def fall(layers: Sequence[LayerSpec], sizes: Point) -> Point | None:
    """Where sizes fall on a table's grid."""
    axes = grid(layers)
    if not axes:
        return None
    return tuple(next((b for b in bins if b >= size), bins[-1]) for bins, size in zip(axes, sizes, strict=True))


def history(layers: Sequence[LayerSpec], functional: Functional, sizes: Point) -> list[Found]:
    """Every layer that set the cell where sizes fall, the winner first."""
    at = fall(layers, sizes)
    if at is None:
        return []
    *below, top = layers
    content = top.cells.get((functional, at), ...)
    own = [] if content is ... else [Found(top.file, at, content)]
    return own + (history(below, functional, at) if below else [])


def lookup(schema: SchemaSpec, layers: Sequence[LayerSpec], functional: Functional, sizes: Point) -> ConfigValues | str:
    """A config, "no kernel" or "unsupported"."""
    if not schema.exists(functional):
        return "unsupported"
    for asked in donors(schema, functional):
        found = history(layers, asked, sizes)
        if found and found[0].config is not None:
            return found[0].config
    return "no kernel"


def donors(schema: SchemaSpec, functional: Functional) -> list[Functional]:
    """The functional itself, then with one fallback key after the other at its fallback, those before it included."""
    tried, values = [functional], list(functional)
    for number, key in enumerate(schema.keys):
        if key.fallback is not None and values[number] != key.fallback:
            values[number] = key.fallback
            tried.append(tuple(values))
    return tried
