"""Some functionals of a resolved table as grids: what a lookup gives in each cell, and which layer says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from txtdb.layers.resolve import Layer
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, UNSET, Cells, FileTable
from txtdb.model.values import Functional, Value, functional_rank
from txtdb.syntax.symbols import next_symbols, symbol_rank


@dataclass(frozen=True)
class Grid:
    """One functional. The arrays have the shape of the table's bins.

    `cells` holds config numbers of the pool, UNSET or MASKED; `winner` the number of the layer that set the cell, or
    -1; `donor` which functional of `Schema.donors` gave it: 0 is the functional itself, 1 its first fallback.
    """

    functional: Functional
    supported: bool
    cells: Cells
    winner: npt.NDArray[np.int16]
    donor: npt.NDArray[np.int16]


@dataclass(frozen=True)
class View:
    """Some functionals of one resolved table."""

    table: ResolvedTable
    grids: tuple[Grid, ...]

    @cached_property
    def counts(self) -> dict[int, int]:
        """Config number → cells that hold it, the most frequent first."""
        counts = Counter(cell for grid in self.grids for cell in grid.cells.ravel().tolist() if cell >= 0)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], functional_rank(self.table.pool[item[0]]))))

    @cached_property
    def layer_counts(self) -> dict[int, int]:
        """Layer number → cells that it decides, masked ones included, lowest layer first."""
        counts = Counter(number for grid in self.grids for number in grid.winner.ravel().tolist() if number >= 0)
        return dict(sorted(counts.items()))

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """Places of the config fields that differ between the view's configs; all of them for a single config."""
        configs = [self.table.pool[number] for number in self.counts]
        places = range(len(self.table.schema.config))
        return tuple(place for place in places if len({config[place] for config in configs}) > 1) or tuple(places)

    @cached_property
    def symbols(self) -> dict[int, str]:
        """Config number → symbol, in symbol order: that of the own table where it has one, else of another file."""
        names: dict[int, str] = {}
        for layer in _own_first(self.table):
            _take_symbols(names, layer, self.counts)
        free = iter(next_symbols(names.values()))
        every = {number: names.get(number) or next(free) for number in self.counts}
        return dict(sorted(every.items(), key=lambda item: symbol_rank(item[1])))


def _own_first(table: ResolvedTable) -> list[Layer]:
    return sorted(table.layers, key=lambda layer: (layer.kind != "table" or layer.arch != table.arch, layer.root))


def _take_symbols(names: dict[int, str], layer: Layer, used: Mapping[int, int]) -> None:
    if not isinstance(layer.table, FileTable):
        return
    taken = set(names.values())
    for entry, number in zip(layer.table.source.document.palette, layer.table.palette, strict=True):
        if number is not None and number in used and number not in names and entry.symbol not in taken:
            names[number] = entry.symbol


def make_view(table: ResolvedTable, given: Mapping[str, Value]) -> View:
    """The functionals with the given key values: those that have rows or should have them.

    Functionals that live by a fallback alone are among them only when a fallback key is given.
    """
    schema, arch_schema = table.schema, table.arch_schema
    chosen = {*table.functionals, *arch_schema.declared}
    if any(name in given for name in table.fallbacks):
        chosen |= arch_schema.supported
    wanted = [given.get(name) for name in schema.key_names]
    matching = (f for f in chosen if all(w in (None, v) for w, v in zip(wanted, f, strict=True)))
    return View(table, tuple(make_grid(table, f) for f in sorted(matching, key=functional_rank)))


def make_grid(table: ResolvedTable, functional: Functional) -> Grid:
    """What lookups of one functional give: its own cells, and where they have no config those of its fallbacks."""
    shape = tuple(map(len, table.bins))
    cells, winner, donor = np.full(shape, UNSET, np.int32), np.full(shape, -1, np.int16), np.zeros(shape, np.int16)
    for number, candidate in enumerate(table.schema.donors(functional)):
        place = table.fold.index.get(candidate)
        if place is None:
            continue
        theirs = table.cells[place]
        take = ((cells < 0) & (theirs >= 0)) | ((cells == UNSET) & (theirs == MASKED))
        cells, winner = np.where(take, theirs, cells), np.where(take, table.winner[place], winner)
        donor = np.where(take, np.int16(number), donor)
    return Grid(functional, table.arch_schema.supports(functional), cells, winner, donor)


def view_json(view: View) -> dict[str, Any]:
    """A view as plain data. A cell is a place in `configs`, or "hole" or "masked"; a winner is a place in `layers`."""
    table, schema = view.table, view.table.schema
    places: dict[int, Any] = {number: place for place, number in enumerate(view.counts)}
    places |= {UNSET: "hole", MASKED: "masked"}
    return {
        "arch": table.arch,
        "iface": table.iface,
        "axes": [{"name": n, "bins": list(b)} for n, b in zip(schema.axis_names, table.bins, strict=True)],
        "configs": [
            {"symbol": view.symbols[number], "cells": count, "config": schema.config_dict(table.pool[number])}
            for number, count in view.counts.items()
        ],
        "layers": [layer_json(layer) for layer in table.layers],
        "functionals": [
            {
                "functional": schema.functional_dict(grid.functional),
                "derived": schema.derived_values(grid.functional),
                "supported": grid.supported,
                "cells": _named(grid.cells.tolist(), places),
                "layers": _named(grid.winner.tolist(), {-1: None}),
                "fallbacks": grid.donor.tolist(),
            }
            for grid in view.grids
        ],
    }


def _named(nested: Any, names: Mapping[int, Any]) -> Any:
    """Numbers of a nested list replaced by their names, where they have one."""
    return [_named(item, names) for item in nested] if isinstance(nested, list) else names.get(nested, nested)


def layer_json(layer: Layer) -> dict[str, Any]:
    """A layer as plain data."""
    return {
        "kind": layer.kind,
        "arch": layer.arch,
        "root": layer.root,
        "number": layer.number,
        "file": layer.file,
        "origin": layer.origin,
        "evidence": list(layer.evidence),
    }


def layer_text(layer: Layer, arch: str) -> str:
    """What a layer is, seen from one arch: `base gfx1100`, `own table`, `patch 10`, `pins`, in an overlay or not."""
    kind = {"table": "table", "pins": "pins"}.get(layer.kind, f"patch {layer.number}")
    name = f"base {layer.arch}, {kind}" if layer.arch != arch else f"own {kind}" if kind == "table" else kind
    return f"{name}, overlay {layer.root}" if layer.root else name


def base_archs(layers: Sequence[Layer], arch: str) -> list[str]:
    """The archs that a table inherits from, the nearest first."""
    return list(dict.fromkeys(layer.arch for layer in reversed(layers) if layer.arch != arch))
