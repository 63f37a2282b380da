"""A database in which some cells were tuned anew, for benchmarks of what compares two databases."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np

from txtdb.layers.database import Database, open_database
from txtdb.layers.listing import LayerFile
from txtdb.model.edit import edit_cells
from txtdb.model.table import ConfigValues, FileTable

Place = tuple[LayerFile, tuple[int, ...]]


def retune(root: Path, out: Path, cells: int, seed: int = 0) -> None:
    """Copy a database and give `cells` of its tables' cells another config that their own table knows.

    The cells are drawn from all tables alike, so that they lie in as many functionals as they can.
    """
    shutil.copytree(root, out)
    database = open_database(root)
    chooser = random.Random(seed)
    files = [file for file in database.listings[0].tables.values() if _distinct(database, file) > 1]
    sizes = [int((_table(database, file).cells >= 0).sum()) for file in files]
    drawn = sorted(chooser.sample(range(sum(sizes)), cells))
    start = 0
    for file, size in zip(files, sizes, strict=True):
        own = [number - start for number in drawn if start <= number < start + size]
        if own:
            (out / file.name).write_bytes(_retuned(database, file, own, chooser).encode())
        start += size


def _table(database: Database, file: LayerFile) -> FileTable:
    table = database.file(file).table
    assert table is not None, f"{file.name} cannot be read"
    return table


def _distinct(database: Database, file: LayerFile) -> int:
    table = _table(database, file)
    return len(np.unique(table.cells[table.cells >= 0]))


def _retuned(database: Database, file: LayerFile, chosen: list[int], chooser: random.Random) -> str:
    table = _table(database, file)
    pool = database.pool(file.iface)
    known = np.unique(table.cells[table.cells >= 0]).tolist()
    places = np.argwhere(table.cells >= 0)[chosen].tolist()
    edits: dict[tuple[tuple[bool | int | str, ...], tuple[int, ...]], ConfigValues | int] = {}
    for functional, *at in places:
        now = int(table.cells[(functional, *at)])
        bins = tuple(values[place] for values, place in zip(table.bins, at, strict=True))
        edits[table.functionals[functional], bins] = pool[chooser.choice([number for number in known if number != now])]
    return edit_cells(table.source, database.schemas[file.iface], edits)
