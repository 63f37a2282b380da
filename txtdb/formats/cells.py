"""Which cells of a database an export writes, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txtdb.faults import Fault, errors
from txtdb.formats.columns import Mask
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.archs import Arch
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional


@dataclass(frozen=True)
class Exported:
    """The cells of one table that go out: `chosen` has the shape of the table's cells."""

    arch: Arch
    table: ResolvedTable
    chosen: Mask

    @property
    def schema(self) -> Schema:
        """The interface's schema."""
        return self.table.schema

    @property
    def count(self) -> int:
        """How many cells."""
        return int(np.count_nonzero(self.chosen))

    def cells(self) -> Iterator[tuple[Functional, tuple[int, ...], ConfigValues]]:
        """(functional, bins, config) of each cell, in the order of the table."""
        numbers = self.table.cells[self.chosen].tolist()
        for place, number in zip(np.argwhere(self.chosen).tolist(), numbers, strict=True):
            bins = tuple(own[index] for own, index in zip(self.table.bins, place[1:], strict=True))
            yield self.table.functionals[place[0]], bins, self.table.pool[number]


def select_cells(database: Database, archs: Sequence[str], resolved: bool) -> tuple[list[Exported], list[Fault]]:
    """The tables of some archs that have cells to export, and the errors that forbid to.

    An arch's own cells are those that its own table, patches and pins decide; with `resolved` inherited ones count too.
    """
    found: list[Exported] = []
    faults: dict[Fault, None] = {}
    for name, iface in database.places():
        if name not in archs:
            continue
        resolution = database.resolve(name, iface)
        faults.update(dict.fromkeys(errors(resolution.faults)))
        if resolution.table is None:
            continue
        exported = Exported(database.archs[name], resolution.table, _chosen(resolution.table, resolved))
        if exported.count:
            found.append(exported)
    return found, list(faults)


def _chosen(table: ResolvedTable, resolved: bool) -> Mask:
    has_config: Mask = table.cells >= 0
    if resolved:
        return has_config
    # The last entry is for cells that no layer won: their winner is -1.
    own = np.array([*(layer.arch == table.arch for layer in table.layers), False])
    is_own: Mask = own[table.winner]
    return has_config & is_own
