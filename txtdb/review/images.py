"""How many distinct kernel images the tables of an arch name, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.values import Functional, Value
from txtdb.review.records import Images

# Interface, functional and the config fields that make another binary.
Image = tuple[str, Functional, tuple[tuple[str, Value], ...]]


def count_images(old: Database, new: Database, archs: Iterable[str]) -> Iterator[Images]:
    """The counts of some archs, over all kernel interfaces."""
    for arch in sorted(archs):
        before, after = (_arch_images(database, arch) for database in (old, new))
        yield Images(arch, len(before), len(after), len(after - before), len(before - after))


def _arch_images(database: Database, arch: str) -> set[Image]:
    kernels = (iface for place, iface in database.places() if place == arch)
    tables = (database.resolve(arch, iface).table for iface in kernels if database.schemas[iface].kind == "kernel")
    return {image for table in tables if table is not None for image in _table_images(table)}


def _table_images(table: ResolvedTable) -> Iterator[Image]:
    binary = [(place, item.name) for place, item in enumerate(table.schema.config) if item.binary]
    present = np.unique(table.cells[table.cells >= 0]).tolist()
    fields = {number: tuple((name, table.pool[number][place]) for place, name in binary) for number in present}
    for functional, grid in zip(table.functionals, table.cells, strict=True):
        for number in set(grid[grid >= 0].tolist()):
            yield table.iface, functional, fields[number]
