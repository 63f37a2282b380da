"""Merges in the real database: a file of 21,600 cells."""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

import pytest

from tests.merge.drawn import no_defaults
from tests.merge.repository import Repository
from txtdb.layers.database import Database, load
from txtdb.merge.expanded import expanded
from txtdb.merge.result import merge_files
from txtdb.merge.threeway import Three
from txtdb.model.edit import CellEdits, edit_cells
from txtdb.model.table import MASKED, ConfigValues
from txtdb.model.values import Functional
from txtdb.syntax import Source, print_source

ARCH, IFACE = "gfx942", "attn_fwd"
CELLS = 21_600
MERGE_LIMIT_S = 1.0

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def database(real_db: Path) -> Database:
    return load(real_db)


@pytest.fixture(scope="module")
def source(database: Database) -> Source:
    ((_, file),) = database.layer_files(ARCH, IFACE)
    found = database.file(file).source
    assert found is not None
    return found


def edits(database: Database, seed: int, count: int, parity: int) -> CellEdits:
    """Other configs, or a mask, in cells whose bins have an even or odd sum of positions."""
    table, chance = database[ARCH][IFACE], random.Random(seed)
    functionals = sorted(table.arch_schema.declared, key=str)
    pool = [table.pool[number] for number in range(len(table.pool))]
    made: dict[tuple[Functional, tuple[int, ...]], ConfigValues | int] = {}
    while len(made) < count:
        places = [chance.randrange(len(bins)) for bins in table.bins]
        if sum(places) % 2 == parity:
            at = tuple(bins[place] for bins, place in zip(table.bins, places, strict=True))
            made[chance.choice(functionals), at] = chance.choice([*pool, MASKED])
    return made


def test_disjoint_edits_of_both_sides_are_all_there(database: Database, source: Source) -> None:
    schema, base = database.schemas[IFACE], print_source(source)
    ours, theirs = edits(database, 1, 2500, 0), edits(database, 2, 2500, 1)
    texts = [base, edit_cells(source, schema, ours), edit_cells(source, schema, theirs)]
    data: Three[bytes | None] = Three(*(text.encode() for text in texts))
    merged, _ = merge_files(data, Three(*texts), no_defaults)
    swapped, _ = merge_files(Three(data.base, data.theirs, data.ours), Three(*texts), no_defaults)
    assert merged is not None and swapped is not None
    assert not merged.has_conflict
    assert merged.text == swapped.text
    assert 4000 < merged.counts.ours + merged.counts.theirs <= 5000
    both = edit_cells(source, schema, {**ours, **theirs})
    assert configs_of(merged.text) == configs_of(both)


def configs_of(text: str) -> list[str]:
    """The cells with their configs; not the palette."""
    return [line for line in expanded(text.encode()).decode().splitlines() if line.startswith("[")]


@pytest.fixture
def folder(database: Database, source: Source, tmp_path: Path) -> Repository:
    schema = database.schemas[IFACE]
    made = Repository(tmp_path)
    made.write(
        {
            "base.txtdb": print_source(source),
            "ours.txtdb": edit_cells(source, schema, edits(database, 1, 2500, 0)),
            "theirs.txtdb": edit_cells(source, schema, edits(database, 2, 2500, 1)),
        }
    )
    return made


def test_a_merge_of_21600_cells_takes_at_most_a_second(folder: Repository, database: Database) -> None:
    """Processor time of the process, its start included: one thread, so it is the wall time where no one else works."""
    assert database[ARCH][IFACE].cells.size == CELLS
    command = [sys.executable, "-c", "from txtdb.cli import main; main()", "merge"]
    before = _seconds_of_children()
    folder.run(*command, "base.txtdb", "ours.txtdb", "theirs.txtdb", "-o", "out.txtdb")
    assert _seconds_of_children() - before <= MERGE_LIMIT_S


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
