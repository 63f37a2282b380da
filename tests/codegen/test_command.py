"""`txtdb codegen`: options, exit codes, reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import codegen as package
from codegen.output import depfile_text
from tests.build import F1, F2, SCHEMA, TABLE_B, make_db, patch, table, write_files
from tests.cli.run import Ran, run
from tests.codegen import databases
from tests.codegen.tools import tree

HOLES = {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . a", "128 a*3", "256 a - a"]})}


def codegen(root: Path, out: Path, *options: str | Path) -> Ran:
    return run("codegen", root, "--out", out, *options)


def test_it_writes_and_says_what(tmp_path):
    ran = codegen(make_db(tmp_path), tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "2 tables of 2 archs and 1 interface, 0 of them taken over as they were; 11 kernel images" in ran.out
    assert "13 files written, 0 unchanged, 0 removed" in ran.out
    assert sorted(tree(tmp_path / "out")) == [
        "cpp/archs.h",
        "cpp/attn_fwd.cpp",
        "cpp/attn_fwd.h",
        "cpp/attn_fwd/gfxA.inc",
        "cpp/attn_fwd/gfxB.inc",
        "cpp/support.h",
        "index.json",
        "manifest/gfxA.json",
        "manifest/gfxB.json",
        "python/__init__.py",
        "python/attn_fwd/__init__.py",
        "python/attn_fwd/gfxA.py",
        "python/attn_fwd/gfxB.py",
    ]


def test_a_second_run_says_that_nothing_changed(tmp_path):
    root = make_db(tmp_path)
    codegen(root, tmp_path / "out")
    ran = codegen(root, tmp_path / "out")
    assert "2 of them taken over as they were" in ran.out
    assert "0 files written, 13 unchanged, 0 removed" in ran.out


def test_json_report(tmp_path):
    report = codegen(make_db(tmp_path), tmp_path / "out", "--format", "json").json
    assert report["counts"] == {"archs": 2, "ifaces": 1, "tables": 2, "reused": 0, "images": 11, "holes": 0}
    assert report["faults"] == []
    assert "cpp/attn_fwd.cpp" in report["written"]
    assert [Path(layer).name for layer in report["tables"][0]["layers"]] == ["attn_fwd.txtdb", "attn_fwd.txtdb"]


def test_faults_forbid_every_file(tmp_path):
    root = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": table("gfxA", {F2: ["64-256 q*3"]}, base="gfxB")})
    ran = codegen(root, tmp_path / "out")
    assert ran.code == 1
    assert "[unknown-symbol]" in ran.err
    assert "nothing was written: 1 fault" in ran.out
    assert not (tmp_path / "out").exists()


def test_faults_leave_an_older_output_alone(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    codegen(root, out)
    before = tree(out)
    (root / "gfxA" / "attn_fwd.txtdb").write_text("#! txtdb 1\n")
    assert codegen(root, out).code == 1
    assert tree(out) == before


def test_a_fault_of_a_base_is_told_once(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 q*3"]})})
    assert codegen(root, tmp_path / "out").err.count("[unknown-symbol]") == 1


def test_holes_are_one_fault_a_table_with_every_cell(tmp_path):
    ran = codegen(make_db(tmp_path, HOLES), tmp_path / "out", "--arch", "gfxB", "--format", "json")
    assert ran.code == 1
    [fault] = ran.json["faults"]
    assert fault["rule"] == "hole"
    where = f"masked at {fault['file']}:15: 256,128"
    assert fault["message"] == f"gfxB attn_fwd: 2 cells have no config: [fp16 0 64] 64,128, {where}"
    line = Path(fault["file"]).read_text().splitlines()[fault["line"] - 1]
    assert line == "[fp16 0 64]"
    functional = {"dtype": "fp16", "causal": 0, "head_dim": 64}
    assert [hole["at"] for hole in ran.json["holes"]] == [[64, 128], [256, 128]]
    assert ran.json["holes"][0] == {"arch": "gfxB", "iface": "attn_fwd", "functional": functional, "at": [64, 128]}


def test_a_masked_cell_is_told_at_its_mask(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-128 a*3", "256 a - a"]})})
    [fault] = codegen(root, tmp_path / "out", "--arch", "gfxB", "--format", "json").json["faults"]
    line = (root / "gfxB" / "attn_fwd.txtdb").read_text().splitlines()[fault["line"] - 1]
    assert line[fault["column"] - 1] == "-"
    assert fault["message"].endswith(f"[fp16 0 64] masked at {fault['file']}:{fault['line']}: 256,128")


def test_a_functional_that_is_masked_as_a_whole(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 -*3"]}, palette={})})
    [fault] = codegen(root, tmp_path / "out", "--arch", "gfxB", "--format", "json").json["faults"]
    assert fault["message"].endswith(f"masked at {fault['file']}:{fault['line']}: all")


def test_holes_can_be_accepted(tmp_path):
    root = make_db(tmp_path, HOLES)
    ran = codegen(root, tmp_path / "out", "--on-hole", "none")
    assert ran.code == 0
    assert "gfxB attn_fwd: 2 cells without a config: `no kernel`" in ran.out
    assert "gfxB attn_fwd: 2 cells without" in codegen(root, tmp_path / "out", "--on-hole", "none").out


def test_check_writes_nothing_and_names_what_differs(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    ran = codegen(root, out, "--check")
    assert ran.code == 1
    assert "differs: cpp/archs.h" in ran.out
    assert not out.exists()
    codegen(root, out)
    assert codegen(root, out, "--check").code == 0
    (out / "cpp" / "attn_fwd" / "gfxA.inc").write_text("// edited by hand\n")
    before = tree(out)
    ran = codegen(root, out, "--check")
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if line.startswith("differs")] == ["differs: cpp/attn_fwd/gfxA.inc"]
    assert "1 file not up to date, 12 up to date" in ran.out
    assert tree(out) == before


def test_check_takes_no_short_cut(tmp_path):
    """An index that lies about a file that was changed together with it is found out."""
    root, out = make_db(tmp_path), tmp_path / "out"
    codegen(root, out)
    path = out / "cpp" / "attn_fwd" / "gfxA.inc"
    old = package.index.digest(path.read_bytes())
    path.write_text("// edited by hand\n")
    index = out / "index.json"
    index.write_text(index.read_text().replace(old, package.index.digest(path.read_bytes())))
    ran = codegen(root, out, "--check")
    assert ran.code == 1
    assert "differs: cpp/attn_fwd/gfxA.inc" in ran.out
    assert "differs: index.json" in ran.out


def test_check_names_files_that_are_no_longer_generated(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    codegen(root, out)
    ran = codegen(root, out, "--check", "--lang", "python")
    assert ran.code == 1
    assert "no longer generated: cpp/archs.h" in ran.out


def test_archs_by_alias_and_lists(tmp_path):
    root = make_db(tmp_path)
    codegen(root, tmp_path / "one", "--arch", "BETA:xnack-")
    assert sorted(path for path in tree(tmp_path / "one") if path.startswith("manifest")) == ["manifest/gfxB.json"]
    codegen(root, tmp_path / "two", "--arch", "gfxA;beta")
    codegen(root, tmp_path / "three", "--arch", "gfxA", "--arch", "gfxB")
    assert tree(tmp_path / "two") == tree(tmp_path / "three")


WRONG = {
    "arch": (["--arch", "gfxC"], "known are gfxA, gfxB"),
    "iface": (["--iface", "attn_bwd"], "known are attn_fwd"),
    "language": (["--lang", "rust"], "known are cpp, python"),
    "namespace": (["--namespace", "a b"], "is no C++ namespace"),
    "hole": (["--on-hole", "guess"], "guess"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_usage(name, tmp_path):
    options, message = WRONG[name]
    ran = codegen(make_db(tmp_path), tmp_path / "out", *options)
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out").exists()


def test_no_database_is_usage(tmp_path):
    assert codegen(tmp_path / "none", tmp_path / "out").code == 2


def test_the_output_does_not_go_into_the_database(tmp_path):
    root = make_db(tmp_path)
    ran = codegen(root, root / "out")
    assert ran.code == 2
    assert "inside the database" in ran.err


def test_an_output_that_cannot_be_written_is_the_environments_fault(tmp_path):
    (tmp_path / "out").write_text("a file")
    ran = codegen(make_db(tmp_path), tmp_path / "out")
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_an_arch_without_any_interface_is_a_fault(tmp_path):
    root = databases.operators(tmp_path)
    ran = codegen(root, tmp_path / "out", "--iface", "op", "--arch", "gfxA,gfxB")
    assert ran.code == 1
    assert "no chosen interface exists on gfxB" in ran.err


def test_a_depfile_names_every_input_and_the_folders(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 . d ."]})}, "my db")
    codegen(root, tmp_path / "out", "--depfile", tmp_path / "deps.d")
    target, _, inputs = (tmp_path / "deps.d").read_text().replace("\\\n", " ").partition(":")
    assert target == (tmp_path / "out" / "index.json").as_posix()
    names = [name.replace("\0", " ") for name in inputs.replace("\\ ", "\0").split()]
    expected = [
        "archs.toml",
        "gfxA/attn_fwd.txtdb",
        "gfxB/attn_fwd.0010-x.dbpatch",
        "gfxB/attn_fwd.txtdb",
        "schema/attn_fwd.toml",
    ]
    assert names == [(root / name).as_posix() for name in [*expected, ".", "gfxA", "gfxB", "schema"]]


def test_the_depfile_of_one_arch_has_the_files_of_its_base(tmp_path):
    root = databases.operators(tmp_path)
    codegen(root, tmp_path / "out", "--arch", "gfxB", "--depfile", tmp_path / "deps.d")
    assert (root / "gfxA" / "f.txtdb").as_posix() in (tmp_path / "deps.d").read_text()


def test_depfile_escapes():
    assert depfile_text(Path("a b/c$d"), [Path("e#f")]) == "a\\ b/c$$d: \\\n  e\\#f\n"


def test_cmakedir_is_where_the_module_lies():
    done = subprocess.run([sys.executable, "-m", "codegen", "--cmakedir"], capture_output=True, text=True, check=True)
    assert (Path(done.stdout.strip()) / "TxtdbGenerate.cmake").is_file()


def test_row_118_a_read_only_database_stays_as_it_is(tmp_path):
    root = make_db(tmp_path)
    paths = [root, *sorted(root.rglob("*"))]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in paths}
    try:
        assert codegen(root, tmp_path / "out").code == 0
        assert codegen(root, tmp_path / "out").code == 0
        assert codegen(root, tmp_path / "out", "--check").code == 0
        assert {path: path.stat().st_mtime_ns for path in [root, *sorted(root.rglob("*"))]} == before
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_an_overlay_is_in_the_report(tmp_path):
    root = make_db(tmp_path)
    over = write_files(tmp_path / "over", {"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
    ran = codegen(root, tmp_path / "out", "--overlay", over)
    path = (over / "gfxB" / "attn_fwd.0001-x.dbpatch").as_posix()
    assert f"overlay {path}: gfxA attn_fwd, gfxB attn_fwd" in ran.out
    assert f"overlay {path}: gfxA attn_fwd, gfxB attn_fwd" in codegen(root, tmp_path / "out", "--overlay", over).out


def test_a_depfile_replaces_depfiles_alone(tmp_path):
    root, deps = make_db(tmp_path), tmp_path / "deps.d"
    for out in ("one", "two"):
        assert codegen(root, tmp_path / out, "--depfile", deps).code == 0
    deps.write_text("precious\n")
    ran = codegen(root, tmp_path / "three", "--depfile", deps)
    assert (ran.code, deps.read_text()) == (2, "precious\n")
    assert "which is not replaced" in ran.err
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize("name", ["index.json", "python/__init__.py", "cpp/archs.h", "manifest/gfxA.json"])
def test_files_that_were_never_generated_are_not_replaced(tmp_path, name):
    root, out = make_db(tmp_path), write_files(tmp_path / "out", {name: '{"name": "mine"}\n'})
    ran = codegen(root, out)
    assert (ran.code, tree(out)) == (2, {name: b'{"name": "mine"}\n'})
    assert f"{name}: error: there is a file of this name that is no generated one" in ran.err


def test_generated_files_whose_index_was_lost_are_replaced(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    codegen(root, out)
    whole = tree(out)
    (out / "index.json").unlink()
    for path in out.rglob("*.*"):
        with path.open("a") as stream:
            stream.write("\n")
    assert codegen(root, out).code == 0
    assert tree(out) == whole


KEEP = "to keep them, give each choice its own --out"


def test_what_is_removed_because_it_was_not_asked_for_is_told(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    codegen(root, out)
    ran = codegen(root, out, "--arch", "gfxB", "--lang", "cpp")
    keep = "to keep them, give each choice its own --out"
    assert f"removed: the files of gfxA, which --arch leaves out; {keep}" in ran.err
    assert "removed: the files of python, which --lang leaves out" in ran.err
    assert codegen(root, out, "--arch", "gfxB", "--lang", "cpp").err == ""


def test_what_another_interface_leaves_out_is_no_loss_of_the_database(tmp_path):
    """Interface `flat` exists on gfxB alone: gfxA has nothing of it, and its other tables are still there."""
    flat = {
        f"{place}": text.replace("attn_fwd", "flat")
        for place, text in (
            ("schema/flat.toml", SCHEMA.partition("[arch.gfxA")[0] + "[arch.gfxB]\n"),
            ("gfxB/flat.txtdb", TABLE_B),
        )
    }
    root, out = make_db(tmp_path, flat), tmp_path / "out"
    assert codegen(root, out, "--on-hole", "none").code == 0
    ran = codegen(root, out, "--on-hole", "none", "--iface", "flat")
    assert ran.err == f"removed: the files of attn_fwd, which --iface leaves out; {KEEP}\n"


def test_what_is_removed_because_the_database_lost_it_is_told(tmp_path):
    out = tmp_path / "out"
    codegen(make_db(tmp_path), out)
    one = make_db(tmp_path, {"archs.toml": "[arch.gfxB]\n", "gfxA/attn_fwd.txtdb": None}, "one")
    schema = one / "schema" / "attn_fwd.toml"
    schema.write_text(schema.read_text().partition("[arch.gfxA")[0] + "[arch.gfxB]\n")
    ran = codegen(one, out, "--on-hole", "none")
    assert ran.code == 0, ran.err
    assert ran.err == "removed: the files of gfxA/attn_fwd, for which the database has no tables any more\n"
