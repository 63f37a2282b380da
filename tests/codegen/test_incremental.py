"""A second run reads and writes only what changed, and its result is that of a first run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import Generated, Inputs, Options, Previous, Written, generate, read_index, write
from tests.build import F1, F2, S0, make_db, patch, table
from tests.codegen import databases
from tests.codegen.tools import generated, tree
from txtdb.layers.database import Database, open_database


def again(root: Path, out: Path, **options: object) -> tuple[Database, Generated, Written]:
    """Generate over what lies in the folder already."""
    database, old = open_database(root), read_index(out)
    previous = Previous(out, old) if old else None
    result = generate(database, Options(**options), Inputs(database), previous)  # type: ignore[arg-type]
    assert not result.faults
    return database, result, write(out, result, old)


def reused(result: Generated) -> set[str]:
    return {f"{unit.arch}/{unit.iface}" for unit in result.units if unit.reused}


ALL = {"gfxA/attn_fwd", "gfxB/attn_fwd"}


def test_nothing_changed(tmp_path):
    root, out = make_db(tmp_path), tmp_path / "out"
    generated(root, out)
    before = {path: (out / path).stat().st_mtime_ns for path in tree(out)}
    database, result, written = again(root, out)
    assert reused(result) == ALL
    assert written == Written((), (), len(before))
    assert not database._files, "no table was parsed"
    assert {path: (out / path).stat().st_mtime_ns for path in tree(out)} == before


def edit(name: str, text: str | None) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        if text is None:
            (root / name).unlink()
        else:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)

    return change


PATCH_B = patch("gfxB", {F1: ["64 . d ."]})
PIN = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 128, PRE_LOAD_V = true, num_warps = 8, num_stages = 1 }
reason = "a test"
until = 2030-01-01
"""
TABLE_A, SCHEMA = S0["gfxA/attn_fwd.txtdb"], S0["schema/attn_fwd.toml"]
FIRST, SECOND = "gfxA/attn_fwd.0001-n.dbpatch", "gfxA/attn_fwd.0002-n.dbpatch"
OTHER_BASE = table("gfxA", {F1: ["64-256 a*3"], F2: ["64-256 b*3"]})
OF_HEIR = {"gfxB/attn_fwd"}
# what is done → which tables are not made again
CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "patch of the base added": (edit("gfxB/attn_fwd.0010-x.dbpatch", PATCH_B), set()),
    "patch of the heir added": (edit("gfxA/attn_fwd.0010-x.dbpatch", patch("gfxA", {F2: ["64 . d ."]})), OF_HEIR),
    "patch renumbered": (lambda root: (root / FIRST).rename(root / SECOND), OF_HEIR),
    "patch removed": (edit(FIRST, None), OF_HEIR),
    "pins of the base": (edit("gfxB/pins.toml", PIN), set()),
    "table of the heir changed": (edit("gfxA/attn_fwd.txtdb", TABLE_A.replace("256 c*2 d", "256 c*3")), OF_HEIR),
    "another base": (edit("gfxA/attn_fwd.txtdb", OTHER_BASE), OF_HEIR),
    "schema": (edit("schema/attn_fwd.toml", SCHEMA.replace("max = 4\ndefault", "max = 5\ndefault")), set()),
    "arch facts": (edit("archs.toml", S0["archs.toml"].replace("beta", "gamma")), set()),
    "a comment": (edit("gfxA/attn_fwd.txtdb", TABLE_A.replace("#! key", "# why\n#! key")), OF_HEIR),
    "line ends": (edit("gfxA/attn_fwd.txtdb", TABLE_A.replace("\n", "\r\n")), OF_HEIR),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_result_is_that_of_a_clean_run(name, tmp_path):
    change, kept = CHANGES[name]
    root = make_db(tmp_path, {"gfxA/attn_fwd.0001-n.dbpatch": patch("gfxA", {F2: ["64 c . ."]})})
    out = generated(root, tmp_path / "out")
    change(root)
    _, result, _ = again(root, out)
    assert reused(result) == kept
    assert tree(out) == tree(generated(root, tmp_path / "clean"))


@pytest.mark.parametrize(
    "path", ["cpp/attn_fwd/gfxB.inc", "python/attn_fwd/gfxB.py", "manifest/gfxB.json", "cpp/archs.h"]
)
@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_a_damaged_output_is_made_again(path, damage, tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    whole = tree(out)
    if damage == "removed":
        (out / path).unlink()
    else:
        (out / path).write_bytes((out / path).read_bytes() + b" ")
    _, result, written = again(root, out)
    assert path in written.written
    assert tree(out) == whole
    assert reused(result) == (ALL if path == "cpp/archs.h" else {"gfxA/attn_fwd"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format": 1}',
        '{"format": 1, "files": {}, "units": [], "generator": ""}',
        '{"format": 1, "files": [], "units": {}, "generator": ""}',
        '{"format": 2, "files": {}, "units": {}, "generator": ""}',
    ],
)
def test_an_index_that_cannot_be_read_counts_for_nothing(text, tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    whole = tree(out)
    (out / "index.json").write_text(text)
    _, result, _ = again(root, out)
    assert reused(result) == set()
    assert tree(out) == whole


@pytest.mark.parametrize("path", ["../victim.h", "/etc/victim.h", "cpp/../../victim.h", "cpp/victim.txt", "victim.h"])
def test_only_generated_files_are_ever_removed(path, tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    victim = tmp_path / "victim.h"
    victim.write_text("precious")
    content = json.loads((out / "index.json").read_text())
    content["files"][path] = "sha256:0"
    (out / "index.json").write_text(json.dumps(content))
    assert read_index(out) is None
    again(root, out)
    assert victim.read_text() == "precious"


def test_another_program_takes_nothing_over(tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    content = json.loads((out / "index.json").read_text())
    (out / "index.json").write_text(json.dumps(content | {"generator": "sha256:other"}))
    assert reused(again(root, out)[1]) == set()


def test_what_is_no_longer_generated_goes_and_foreign_files_stay(tmp_path):
    root = databases.operators(tmp_path)
    out = generated(root, tmp_path / "out")
    (out / "cpp" / "mine.h").write_text("mine")
    _, _, written = again(root, out, archs=("gfxB",), langs=("cpp",))
    assert "cpp/f/gfxA.inc" in written.removed
    assert "python/__init__.py" in written.removed
    assert not (out / "python").exists()
    left = tree(out)
    assert left.pop("cpp/mine.h") == b"mine"
    assert left == tree(generated(root, tmp_path / "clean", archs=("gfxB",), langs=("cpp",)))


def test_another_language_is_added(tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out", langs=("python",))
    assert reused(again(root, out)[1]) == set()
    assert tree(out) == tree(generated(root, tmp_path / "clean"))


def test_another_namespace_keeps_the_tables(tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    _, result, written = again(root, out, namespace="other::tables")
    assert reused(result) == ALL
    assert set(written.written) == {"cpp/archs.h", "cpp/support.h", "cpp/attn_fwd.h", "cpp/attn_fwd.cpp", "index.json"}
    assert tree(out) == tree(generated(root, tmp_path / "clean", namespace="other::tables"))


def test_holes_that_were_accepted_once_are_not_accepted_for_ever(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . a", "128-256 a*3"]})})
    out = generated(root, tmp_path / "out", on_hole="none")
    database, old = open_database(root), read_index(out)
    assert old is not None
    result = generate(database, Options(), Inputs(database), Previous(out, old))
    assert [fault.rule for fault in result.faults] == ["hole", "hole"]


def test_a_source_changes_with_each_of_its_tables(tmp_path):
    root = make_db(tmp_path)
    out = generated(root, tmp_path / "out")
    _, _, written = again(Path(shutil.copytree(root, tmp_path / "copy")), out)
    assert written.written == ()
    (root / "gfxA/attn_fwd.0001-n.dbpatch").write_text(patch("gfxA", {F2: ["64 c . ."]}))
    _, _, written = again(root, out)
    assert set(written.written) == {
        "cpp/attn_fwd.cpp",
        "cpp/attn_fwd/gfxA.inc",
        "index.json",
        "manifest/gfxA.json",
        "python/attn_fwd/gfxA.py",
    }
