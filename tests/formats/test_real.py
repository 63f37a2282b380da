"""The real database: there and back, and what is read off it."""

from __future__ import annotations

from pathlib import Path

import pytest

import txtdb
from tests.conftest import REAL_BASES
from tests.formats.source import rows_of
from txtdb.files import atomic_write
from txtdb.formats.aotriton import import_aotriton
from txtdb.formats.archive import open_database
from txtdb.formats.cells import select_cells
from txtdb.formats.sqlite_export import sqlite_files

pytestmark = pytest.mark.real

ROWS = 527_602
PAIRS = 35


def unpack(source: Path, folder: Path) -> Path:
    """The archives of a source as plain files."""
    for path in sorted(source.rglob("*.sqlite3.tar.xz")):
        connection = open_database(path, path.as_posix())
        assert not isinstance(connection, txtdb.Fault)
        name = path.relative_to(source).as_posix().removesuffix(".tar.xz")
        atomic_write(folder / name, connection.serialize())
    return folder


@pytest.mark.slow
def test_every_row_returns(real_source: Path, real_db: Path, tmp_path: Path) -> None:
    """import → text → parse → resolve → export: row for row, column for column, type for type, gpu names included."""
    tables, faults = select_cells(txtdb.load(real_db), list(txtdb.load(real_db).archs), resolved=False)
    assert not faults
    for name, data in sqlite_files(tables):
        atomic_write(tmp_path / "out" / name, data)
    found, wanted = rows_of(tmp_path / "out"), rows_of(unpack(real_source, tmp_path / "src"))
    assert sorted(found) == sorted(wanted)
    assert len(wanted) == PAIRS
    assert sum(len(rows) for _, rows in wanted.values()) == ROWS
    for place, table in wanted.items():
        assert found[place] == table, place


def test_the_text_stays_within_its_size(real_db: Path) -> None:
    assert sum(path.stat().st_size for path in real_db.rglob("*.txtdb")) <= 1_000_000


def test_the_database_is_complete_and_loads(real_db: Path) -> None:
    database = txtdb.load(real_db)
    assert len(database.archs) == 14
    assert sorted(database.schemas) == [
        "attn_fwd",
        "bwd_kernel_dk_dv",
        "bwd_kernel_dq",
        "bwd_kernel_fuse",
        "bwd_preprocess",
        "op_attn_bwd",
        "op_attn_fwd",
    ]
    assert len(database.places()) == 4 * 14 + 14 + 3
    assert all(not database.resolve(arch, iface).faults for arch, iface in database.places())


def test_grids_and_functionals_are_those_of_the_arch(real_db: Path) -> None:
    schema = txtdb.load(real_db).schemas["attn_fwd"]
    small, large = schema.for_arch("gfx1100"), schema.for_arch("gfx942")
    assert small and large
    assert small.bins[0][-1] == 2048 and large.bins[0][-1] == 8192
    assert 512 not in small.domains[2] and 512 in large.domains[2]
    assert (len(small.declared), len(large.declared)) == (198, 216)
    assert [predicate.terms for predicate in schema.absent] == [(("CAUSAL_TYPE", (3,)), ("BIAS_TYPE", (1,)))]
    assert [key.name for key in schema.fixed_keys] == ["USE_ALIBI", "INT8", "INT8_KV", "USE_P_SCALE"]
    assert [(item.name, item.mapping) for item in schema.derived] == [("PERSISTENT_TYPE", ((0, 0), (3, 2)))]


def test_every_heir_has_the_grid_of_its_base(real_db: Path) -> None:
    for schema in txtdb.load(real_db).schemas.values():
        for child, parent in REAL_BASES.items():
            below, above = schema.for_arch(child), schema.for_arch(parent)
            assert (below is None) == (above is None)
            assert below is None or above is None or (below.bins, below.domains) == (above.bins, above.domains)


def test_a_tile_size_of_100_is_illegal_everywhere(real_db: Path) -> None:
    for schema in txtdb.load(real_db).schemas.values():
        for item in schema.config:
            assert not item.name.startswith("BLOCK_") or not item.admits(100)


def test_the_import_over_itself_changes_nothing(real_source: Path, real_db: Path) -> None:
    again = import_aotriton(real_source, real_db, tuple(REAL_BASES.items()), emit_schema=True)
    assert again.complete
    assert sum(again.cells.values()) == ROWS
    assert [path for path, data in again.files.items() if path.read_bytes() != data] == []
