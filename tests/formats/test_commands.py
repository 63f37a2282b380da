"""`txtdb import` and `txtdb export` from the command line: what is written, said, and given back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.build import make_db
from tests.formats.measured import record, write_csv, write_json
from tests.formats.source import (
    import_to,
    kernel_database,
    kernel_rows,
    rows_of,
    write_source,
)
from txtdb.cli import main


def txtdb(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_import_and_export_there_and_back(tmp_path: Path) -> None:
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database()})
    root = tmp_path / "db"
    imported = txtdb("import", "aotriton", source, "--root", root, "--emit-schema", "--base", "gfx3=gfx1")
    assert imported.exit_code == 0
    assert imported.stderr == ""
    assert imported.stdout == (
        "sources 1, tables 2, cells 36, empty tables 0, rows repeated 0, rows left out 0, files written 5\n"
    )
    exported = txtdb("export", "sqlite", root, "--out", tmp_path / "out")
    assert (exported.exit_code, exported.stdout) == (0, "tables 2, cells 36, files 2\n")
    assert rows_of(tmp_path / "out") == rows_of(source)
    assert txtdb("export", "sqlite", root, "--out", tmp_path / "all", "--resolved").stdout.startswith(
        "tables 3, cells 60"
    )


def test_nothing_is_written_when_anything_failed(tmp_path: Path) -> None:
    source = write_source(tmp_path / "src")
    (source / "gfx" / "broken.sqlite3").write_bytes(b"SQLite format 3\0")
    result = txtdb("import", "aotriton", source, "--root", tmp_path / "db", "--emit-schema")
    assert result.exit_code == 1
    assert "broken.sqlite3: error: no SQLite database [damaged-source]" in result.stderr
    assert "nothing was written: 1 fault\n" in result.stderr
    assert not (tmp_path / "db").exists()


def test_partial_writes_what_could_be_read_and_lists_the_rest(tmp_path: Path) -> None:
    rows = kernel_rows()
    rows[3] = (*rows[3][:-1], "four")
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})
    result = txtdb("import", "aotriton", source, "--root", tmp_path / "db", "--emit-schema", "--partial")
    assert result.exit_code == 1
    assert "cells 35" in result.stdout and "rows left out 1" in result.stdout
    assert "row 4: compiler_options$num_warps = 'four' is no INTEGER" in result.stderr
    assert "incomplete: 1 fault\n" in result.stderr
    assert "128 c .\n" in (tmp_path / "db" / "gfx1" / "attn_fwd.txtdb").read_text()


def test_import_report_as_json(tmp_path: Path) -> None:
    source = write_source(tmp_path / "src")
    (source / "x.sqlite3").write_bytes(b"")
    arguments = ("import", "aotriton", source, "--root", tmp_path / "db", "--emit-schema", "--partial")
    report = json.loads(txtdb(*arguments, "--format", "json").stdout)
    assert report["counts"] == {
        "sources": 3,
        "tables": 4,
        "cells": 72,
        "empty_tables": 1,
        "rows_repeated": 0,
        "rows_left_out": 0,
        "files_written": 7,
    }
    assert report["tables"][0] == {"arch": "gfx1", "iface": "attn_fwd", "cells": 24}
    assert len(report["files"]) == 7
    assert [(item["rule"], item["file"].rpartition("/")[2]) for item in report["findings"]] == [
        ("damaged-source", "x.sqlite3")
    ]


@pytest.mark.parametrize("base", ["gfx3", "gfx3=", "=gfx1"])
def test_a_base_without_a_parent_is_usage(tmp_path: Path, base: str) -> None:
    result = txtdb("import", "aotriton", write_source(tmp_path / "src"), "--root", tmp_path / "db", "--base", base)
    assert result.exit_code == 2
    assert "write CHILD=PARENT" in result.stderr


def test_a_source_that_is_not_there_is_usage(tmp_path: Path) -> None:
    assert txtdb("import", "aotriton", tmp_path / "none", "--root", tmp_path / "db").exit_code == 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_root_that_cannot_be_written_is_the_environment(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir(mode=0o555)
    result = txtdb("import", "aotriton", write_source(tmp_path / "src"), "--root", tmp_path / "db", "--emit-schema")
    assert result.exit_code == 2


def test_a_write_that_fails_is_the_environment(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "gfx1").write_text("in the way")
    result = txtdb("import", "aotriton", write_source(tmp_path / "src"), "--root", tmp_path / "db", "--emit-schema")
    assert result.exit_code == 2
    assert "1 files were written before" in result.stderr


def test_records_go_into_the_table(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    path = write_csv(tmp_path / "r.csv", [record(), record(us=20, num_warps=1)])
    arguments = ("import", "records", path, "--root", root, "--arch", "beta", "--iface", "attn_fwd", "--time", "us")
    result = txtdb(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "records 2, invalid 0, superseded 1, of other archs 0, cells 1, cells changed 1, files written 1\n"
    )
    assert "\n64 e a*2\n" in (root / "gfxB" / "attn_fwd.txtdb").read_text()
    assert txtdb(*arguments).stdout.endswith("cells 1, cells changed 0, files written 0\n")


def test_records_with_all_options_as_json(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    item = {name: value for name, value in record(ms=1.0, err=0.0, cu=80, batch=2, flops=3).items() if name != "us"}
    item["warps"] = item.pop("num_warps")
    del item["causal"]
    path = write_json(tmp_path / "r.json", [item, {**item, "err": 1.0, "flops": 4}])
    result = txtdb(
        *("import", "records", path, "--root", root, "--arch", "gfxB", "--iface", "attn_fwd"),
        *("--map", "warps=num_warps", "--value", "causal=0", "--time", "ms", "--error", "err", "--max-error", "0.1"),
        *("--device-column", "cu", "--argument", "batch", "--ignore", "flops"),
        *("--patch", "tuned", "--why", "for the test", "--format", "json"),
    )
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["counts"] == {
        "records": 2,
        "invalid": 1,
        "superseded": 0,
        "of_other_archs": 0,
        "cells": 1,
        "cells_changed": 1,
        "files_written": 1,
    }
    assert report["arguments"] == {"batch": "2"}
    assert report["files"] == [(root / "gfxB" / "attn_fwd.0010-tuned.dbpatch").as_posix()]
    assert sorted((item["rule"], item["severity"]) for item in report["findings"]) == [
        ("unknown-device", "warning"),
        ("wrong-result", "error"),
    ]
    assert txtdb("check", root).exit_code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--error", "err"),
        ("--max-error", "0.1"),
        ("--why", "no patch"),
        ("--map", "a"),
        ("--map", "a=BLOCK_M", "--map", "a=num_warps"),
        ("--value", "causal=0", "--value", "causal=1"),
    ],
)
def test_options_of_records_that_make_no_sense(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = write_json(tmp_path / "r.json", [record()])
    result = txtdb("import", "records", path, "--root", make_db(tmp_path), "--arch", "gfxB", "--iface", "x", *options)
    assert result.exit_code == 2


def test_records_for_what_is_no_database(tmp_path: Path) -> None:
    path = write_json(tmp_path / "r.json", [record()])
    result = txtdb("import", "records", path, "--root", tmp_path, "--arch", "gfxB", "--iface", "attn_fwd")
    assert result.exit_code == 2


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_flat_exports(tmp_path: Path, kind: str) -> None:
    root = make_db(tmp_path)
    result = txtdb("export", kind, root, "--out", tmp_path / "out", "--arch", "beta", "--format", "json")
    assert json.loads(result.stdout) == {
        "counts": {"tables": 1, "cells": 9, "files": 1},
        "files": [(tmp_path / "out" / "gfxB" / f"attn_fwd.{kind}").as_posix()],
    }
    assert list(contents(tmp_path / "out")) == [f"gfxB/attn_fwd.{kind}"]


def test_export_of_an_unknown_arch_and_of_a_broken_database(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    assert txtdb("export", "csv", root, "--out", tmp_path / "out", "--arch", "gfxQ").exit_code == 2
    (root / "gfxB" / "attn_fwd.txtdb").write_text("#! txtdb 1\n")
    result = txtdb("export", "csv", root, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "[truncated]" in result.stderr
    assert not (tmp_path / "out").exists()


def test_export_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "gfxA").write_text("in the way")
    assert txtdb("export", "csv", make_db(tmp_path), "--out", tmp_path / "out").exit_code == 2


def test_overlays_are_exported_as_own_cells(tmp_path: Path) -> None:
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(kernel_rows(["gfx1_mod0"]))})
    import_to(source, tmp_path / "db")
    changed = (tmp_path / "db" / "gfx1" / "attn_fwd.txtdb").read_text().replace("a = 32 false", "a = 64 false")
    (tmp_path / "over" / "gfx1").mkdir(parents=True)
    (tmp_path / "over" / "gfx1" / "attn_fwd.txtdb").write_text(changed)
    out = tmp_path / "out"
    assert txtdb("export", "sqlite", tmp_path / "db", "--overlay", tmp_path / "over", "--out", out).exit_code == 0
    sizes = {row[10] for _, rows in rows_of(out).values() for row in rows}
    assert sizes == {32, 64, 128}
