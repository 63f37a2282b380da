"""Export, and the way there and back."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import txtdb
from tests.build import F1, make_db, patch
from tests.formats.source import (
    KERNEL,
    Row,
    import_to,
    kernel_database,
    kernel_rows,
    rows_of,
    write_source,
)
from txtdb.files import atomic_write
from txtdb.formats.cells import Exported, select_cells
from txtdb.formats.flat import csv_files, json_files
from txtdb.formats.sqlite_export import sqlite_files


def selected(root: Path, resolved: bool = False, archs: Sequence[str] | None = None) -> list[Exported]:
    database = txtdb.load(root)
    tables, faults = select_cells(database, archs or list(database.archs), resolved)
    assert not faults
    return tables


def export_to(folder: Path, root: Path, resolved: bool = False) -> Path:
    for name, data in sqlite_files(selected(root, resolved)):
        atomic_write(folder / name, data)
    return folder


def unpacked(tmp_path: Path, rows: Sequence[Row] | None = None) -> Path:
    """A source in plain files, so that its rows can be compared."""
    return write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})


def test_rows_and_columns_return(tmp_path: Path) -> None:
    source = unpacked(tmp_path)
    import_to(source, tmp_path / "db")
    out = export_to(tmp_path / "out", tmp_path / "db")
    assert rows_of(out) == rows_of(source)
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.sqlite3")) == [
        "gfx1/attn_fwd.sqlite3",
        "gfx2/attn_fwd.sqlite3",
    ]


CELLS = st.tuples(
    st.sampled_from(["gfx1_mod0", "gfx1_mod1", "gfx2_mod0"]),
    st.sampled_from(["torch.float16", "torch.bfloat16", "torch.float32"]),
    st.integers(0, 5).map(lambda power: 16 << power),
    st.integers(0, 3),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
)
CONFIGS = st.tuples(
    st.sampled_from([0, 2]),
    st.sampled_from([1, 2]),
    st.sampled_from([16, 48, 256]),
    st.sampled_from([0, 1]),
    st.sampled_from([1, 8]),
)


@settings(max_examples=40)
@given(st.dictionaries(CELLS, CONFIGS, min_size=1, max_size=30), st.booleans())
def test_any_rows_return(cells: dict[Row, Row], with_base: bool) -> None:
    """There and back is the identity, whatever is missing, fixed, derived, at its default, or padded."""
    with TemporaryDirectory() as folder:
        rows = [(*cell, *config) for cell, config in cells.items()]
        archs = sorted({str(cell[0]).removesuffix("_mod0") for cell in cells})
        source = unpacked(Path(folder), rows)
        bases = [(child, archs[0]) for child in archs[1:]] if with_base else []
        result = import_to(source, Path(folder) / "db", bases)
        assert result.complete, result.faults
        assert rows_of(export_to(Path(folder) / "out", Path(folder) / "db")) == rows_of(source)


def test_operators_and_gpu_names_return(tmp_path: Path) -> None:
    source = write_source(tmp_path / "src")
    import_to(source, tmp_path / "db")
    found = rows_of(export_to(tmp_path / "out", tmp_path / "db"))
    wanted = rows_of(source)
    places = [("gfx1_mod0", "FLASH$op_attn_fwd"), ("gfx2_mod0", "FLASH$op_attn_fwd")]
    assert {place: found[place] for place in places} == wanted
    assert (tmp_path / "out" / "op_database.sqlite3").is_file()


def test_what_was_exported_can_be_imported(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    export_to(tmp_path / "src2" / "src", tmp_path / "db")
    import_to(tmp_path / "src2" / "src", tmp_path / "db2")
    for path in (tmp_path / "db").rglob("*.*"):
        assert (tmp_path / "db2" / path.relative_to(tmp_path / "db")).read_bytes() == path.read_bytes()


def test_exports_are_equal_to_the_byte(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    assert list(sqlite_files(selected(tmp_path / "db"))) == list(sqlite_files(selected(tmp_path / "db")))


def test_inherited_cells_go_out_only_when_asked_for(tmp_path: Path) -> None:
    source = unpacked(tmp_path, kernel_rows(["gfx1_mod0"]) + kernel_rows(["gfx2_mod0"])[:1])
    import_to(source, tmp_path / "db", [("gfx2", "gfx1"), ("gfx3", "gfx1")])
    own, every = (rows_of(export_to(tmp_path / name, tmp_path / "db", name == "all")) for name in ("own", "all"))
    assert own == rows_of(source)
    counts = {gpu: len(rows) for (gpu, _), (_, rows) in every.items()}
    assert counts == {"gfx1_mod0": 24, "gfx2_mod0": 24, "gfx3_mod0": 24}
    base = [row[1:] for row in every["gfx1_mod0", KERNEL][1]]
    assert [row[1:] for row in every["gfx3_mod0", KERNEL][1]] == base


def test_patches_and_pins_are_own_cells_and_masked_ones_go(tmp_path: Path) -> None:
    root = make_db(
        tmp_path,
        {
            "gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 d - ."]}),
            "gfxA/attn_fwd.0010-x.dbpatch": patch("gfxA", {F1: ["256 . . d"]}),
        },
    )
    by_arch = {table.arch.name: list(table.cells()) for table in selected(root)}
    cells = {at: config[0] for functional, at, config in by_arch["gfxB"]}
    assert len(cells) == 8
    assert (64, 128) not in cells
    assert (cells[64, 64], cells[64, 256]) == (128, 32)
    assert [(at, config[0]) for functional, at, config in by_arch["gfxA"] if functional == ("fp16", 0, 64)] == [
        ((256, 256), 128)
    ]


def test_only_the_archs_asked_for(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    assert {table.arch.name for table in selected(tmp_path / "db", archs=["gfx2"])} == {"gfx2"}


def test_a_database_with_errors_is_not_exported(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": "#! txtdb 1\n"})
    _, faults = select_cells(txtdb.open_database(root), ["gfxA", "gfxB"], False)
    assert faults[0].rule == "truncated"
    assert len(faults) == len(set(faults))


def test_csv_has_a_record_for_each_cell(tmp_path: Path) -> None:
    files = dict(csv_files(selected(make_db(tmp_path))))
    assert sorted(files) == ["gfxA/attn_fwd.csv", "gfxB/attn_fwd.csv"]
    rows = list(csv.DictReader(files["gfxB/attn_fwd.csv"].decode().splitlines()))
    assert len(rows) == 9
    assert rows[3] == {
        "arch": "gfxB",
        "iface": "attn_fwd",
        "dtype": "fp16",
        "causal": "0",
        "head_dim": "64",
        "seqlen_q": "128",
        "seqlen_k": "64",
        "BLOCK_M": "32",
        "PRE_LOAD_V": "true",
        "num_warps": "2",
        "num_stages": "1",
        "waves_per_eu": "0",
    }


def test_json_has_the_types_of_the_schema_and_the_derived_fields(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    records = json.loads(dict(json_files(selected(tmp_path / "db")))["gfx2/attn_fwd.json"])
    assert len(records) == 12
    assert records[-1] == {
        "arch": "gfx2",
        "iface": "attn_fwd",
        "Q_dtype": "bf16",
        "CAUSAL_TYPE": 3,
        "PADDED_HEAD": False,
        "BIAS_TYPE": 0,
        "Max_seqlen_q": 128,
        "Max_seqlen_k": 128,
        "GRID_CU_MULTIP": 2,
        "BLOCK_M": 128,
        "PRE_LOAD_V": True,
        "num_warps": 4,
        "PERSISTENT_TYPE": 2,
    }
    assert records[0]["PRE_LOAD_V"] is False


@pytest.mark.parametrize("writer", [sqlite_files, csv_files, json_files])
def test_nothing_to_export_is_no_file(writer: object, tmp_path: Path) -> None:
    assert list(writer([])) == []  # type: ignore[operator]
