"""`txtdb patch rebase`: numbers and grounds over a base that changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import F1, S0, TABLE_B, make_db, patch
from tests.cli.run import Ran, run
from tests.merge.repository import make_repository

B = "gfxB/attn_fwd.txtdb"
MINE = "gfxB/attn_fwd.0010-mine.dbpatch"
THEIRS = "gfxB/attn_fwd.0010-theirs.dbpatch"
MOVED = TABLE_B.replace("64 a*3", "64 c a*2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """S0 with a patch of the first cell of row 64, and the ground that it has."""
    root = make_db(tmp_path, {MINE: patch("gfxB", {F1: ["64 d . ."]})})
    assert rebase(root / MINE).code == 0
    return root


def rebase(*args: str | Path) -> Ran:
    return run("patch", "rebase", *args)


def add(root: Path, name: str, row: str) -> None:
    (root / name).write_text(patch("gfxB", {F1: [row]}), encoding="utf-8")


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.dbpatch"))


def resolved(root: Path) -> str:
    return run("resolve", root, "gfxB", "attn_fwd").out.partition("#! key")[2]


def test_a_patch_without_a_ground_gets_the_one_that_it_has(root: Path) -> None:
    assert "#! onto sha256:" in (root / MINE).read_text()
    assert run("check", root, "--strict").code == 0


def test_where_nothing_moved_nothing_changes(root: Path) -> None:
    before = (root / MINE).read_bytes()
    done = rebase(root / MINE)
    assert (done.code, done.out) == (0, f"{root}/{MINE}: unchanged, 1 cell\n")
    assert (root / MINE).read_bytes() == before


def test_a_number_that_two_have(root: Path) -> None:
    add(root, THEIRS, "256 d . .")
    before = resolved(root)
    done = rebase(root / MINE)
    assert done.code == 0
    assert names(root) == ["attn_fwd.0010-theirs.dbpatch", "attn_fwd.0020-mine.dbpatch"]
    assert f"{root}/gfxB/attn_fwd.0020-mine.dbpatch: written, 1 cell, was {MINE}" in done.out
    assert resolved(root) == before
    assert run("check", root, "--strict").code == 0


def test_a_common_cell_is_told_and_needs_a_look(root: Path) -> None:
    """theirs comes after mine by name and wins now; on top of it mine would win, over other ground."""
    add(root, THEIRS, "64 b . .")
    done = rebase(root / MINE)
    assert done.code == 1
    assert "other contents lie under 1 cell\n" in done.out
    assert "seqlen_q=64 seqlen_k=64: BLOCK_M 32→64, num_warps 2→4" in done.out  # what it lay over, and lies over now
    assert "gfxB attn_fwd: lookups change\n" in done.out
    assert names(root) == ["attn_fwd.0010-mine.dbpatch", "attn_fwd.0010-theirs.dbpatch"]
    assert {"[ground-moved]", "[would-change]"} <= set(done.err.replace("\n", " ").split(" "))


def test_an_accepted_one_lies_on_top(root: Path) -> None:
    add(root, THEIRS, "64 b . .")
    assert rebase(root / MINE, "--accept").code == 0
    assert names(root) == ["attn_fwd.0010-theirs.dbpatch", "attn_fwd.0020-mine.dbpatch"]
    assert "\nc = 128 false 8 2\n" in resolved(root)
    assert "\n64 c a*2\n" in resolved(root)
    assert run("check", root).out.startswith(f"{root}/gfxB/attn_fwd.0010-theirs.dbpatch: warning: every cell")


def test_a_higher_one_on_other_cells_is_left_above(root: Path) -> None:
    add(root, "gfxB/attn_fwd.0030-theirs.dbpatch", "256 d . .")
    assert "unchanged" in rebase(root / MINE).out


def test_a_higher_one_on_a_common_cell(root: Path) -> None:
    add(root, "gfxB/attn_fwd.0030-theirs.dbpatch", "64 b b .")
    before = resolved(root)
    done = rebase(root / MINE)
    assert (done.code, resolved(root)) == (0, before)
    assert names(root) == ["attn_fwd.0010-mine.dbpatch", "attn_fwd.0030-theirs.dbpatch"]
    theirs = f"{root}/gfxB/attn_fwd.0030-theirs.dbpatch"
    assert f"{root}/{MINE}: {theirs} sets 1 cell of it and stays above; --on-top puts" in done.out
    assert rebase(root / MINE, "--format", "json").json["covered"] == [
        {"file": f"{root}/{MINE}", "by": theirs, "cells": 1}
    ]
    assert rebase(root / MINE, "--on-top").code == 1
    done = rebase(root / MINE, "--on-top", "--accept")
    assert (done.code, "stays above" in done.out) == (0, False)
    assert names(root) == ["attn_fwd.0030-theirs.dbpatch", "attn_fwd.0040-mine.dbpatch"]


def test_a_ground_that_moved_below_a_higher_patch_is_renewed_in_place(root: Path) -> None:
    """mine lay over a patch that is gone; a later one sets its cell too, and keeps the last word."""
    add(root, "gfxB/attn_fwd.0005-gone.dbpatch", "64 b . .")
    assert rebase(root / MINE, "--accept").code == 0
    add(root, "gfxB/attn_fwd.0030-later.dbpatch", "64 c . .")
    (root / "gfxB/attn_fwd.0005-gone.dbpatch").unlink()
    [stale] = (f for f in run("check", root, "--format", "json").json["findings"] if f["rule"] == "stale-onto")
    assert f"with `txtdb patch rebase {root}/{MINE}`; with --accept it writes `#! onto sha" in stale["hint"]
    before = resolved(root)
    assert "[would-change]" not in rebase(root / MINE).err
    assert rebase(root / MINE, "--accept").code == 0
    assert (names(root), resolved(root)) == (["attn_fwd.0010-mine.dbpatch", "attn_fwd.0030-later.dbpatch"], before)
    assert "[stale-onto]" not in run("check", root).out
    assert stale["hint"].partition("#! onto ")[2].rstrip("`") in (root / MINE).read_text()


def test_where_another_has_its_number_the_hint_says_that_a_stale_patch_gets_another(root: Path) -> None:
    """It moves over the other patch, so that the digest of the ground that it has now is not the one it will get."""
    (root / B).write_text(MOVED, encoding="utf-8")
    add(root, THEIRS, "64 b . .")
    [stale] = (f for f in run("check", root, "--format", "json").json["findings"] if f["rule"] == "stale-onto")
    words = "with --accept it gives the patch the next free number, as another patch has the same, and renews `#! onto`"
    assert stale["hint"] == f"look at them with `txtdb patch rebase {root}/{MINE}`; {words} there"
    assert rebase(root / MINE, "--accept").code == 0
    assert names(root) == ["attn_fwd.0010-theirs.dbpatch", "attn_fwd.0020-mine.dbpatch"]
    assert "[stale-onto]" not in run("check", root).out


def test_a_series_keeps_its_order(root: Path) -> None:
    add(root, "gfxB/attn_fwd.0020-more.dbpatch", "64 . d .")
    add(root, THEIRS, "256 d . .")
    add(root, "gfxB/attn_fwd.0020-other.dbpatch", "256 . d .")
    assert rebase(root / "gfxB/attn_fwd.0020-more.dbpatch", root / MINE).code == 0
    assert names(root) == [
        "attn_fwd.0010-theirs.dbpatch",
        "attn_fwd.0020-other.dbpatch",
        "attn_fwd.0030-mine.dbpatch",
        "attn_fwd.0040-more.dbpatch",
    ]


def test_ground_that_moved_below_with_what_it_was(root: Path, tmp_path: Path) -> None:
    was = make_db(tmp_path, {}, "was")
    (root / B).write_text(MOVED)
    done = rebase(root / MINE, "--was", was)
    assert done.code == 1
    assert "seqlen_q=64 seqlen_k=64: BLOCK_M 32→64, PRE_LOAD_V true→false, num_warps 2→4, num_stages 1→2" in done.out
    report = rebase(root / MINE, "--was", was, "--format", "json", "--dry-run", "--accept").json
    [cell] = report["ground"]
    assert (cell["at"], cell["old"]["BLOCK_M"], cell["new"]["BLOCK_M"], cell["known"]) == ([64, 64], 32, 64, True)
    assert rebase(root / MINE, "--was", was, "--accept").code == 0
    assert run("check", root, "--strict").code == 0


def test_ground_that_is_not_known_any_more(root: Path) -> None:
    (root / B).write_text(MOVED)
    done = rebase(root / MINE)
    assert done.code == 1
    assert "what it was made over is not known" in done.out
    assert "seqlen_q=64 seqlen_k=64: now BLOCK_M=64 PRE_LOAD_V=false" in done.out


def test_the_ground_is_found_in_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(
        tmp_path / "my repo", {f"a db/{name}": text for name, text in S0.items()}, drivers=False
    )
    monkeypatch.chdir(repository.path)
    repository.commit({f"a db/{MINE}": patch("gfxB", {F1: ["64 d . ."]})})
    assert rebase(Path("a db") / MINE).code == 0
    repository.commit({f"a db/{B}": TABLE_B.replace("256 b", "256 c")})
    repository.commit({f"a db/{B}": MOVED})
    done = rebase(Path("a db") / MINE)
    assert done.code == 1
    assert "seqlen_q=64 seqlen_k=64: BLOCK_M 32→64" in done.out
    monkeypatch.chdir(repository.path / "a db" / "gfxB")
    assert rebase("attn_fwd.0010-mine.dbpatch", "--accept").code == 0


def test_ground_that_moved_without_a_change_of_content_did_not_move(root: Path) -> None:
    """Another symbol, another cell."""
    (root / B).write_text(TABLE_B.replace("a = 32", "z = 32").replace("64 a*3", "64 z*3").replace("128 a", "128 z"))
    assert "unchanged" in rebase(root / MINE).out


def test_a_patch_that_another_lay_over_is_told(root: Path) -> None:
    """mine moves from under theirs; theirs lies over the table then."""
    (root / "gfxB/attn_fwd.0030-theirs.dbpatch").write_text(patch("gfxB", {F1: ["64 b . ."]}))
    assert rebase(root / "gfxB/attn_fwd.0030-theirs.dbpatch").code == 0
    assert "a patch that moves lay under this one" in rebase(root / MINE, "--on-top").err
    done = rebase(root / MINE, "--on-top", "--accept")
    assert done.code == 0
    assert "0030-theirs.dbpatch: other contents lie under this patch now" in done.out


def test_patches_of_two_databases(root: Path, tmp_path: Path) -> None:
    other = make_db(tmp_path, {MINE: patch("gfxB", {F1: ["64 d . ."]})}, "other")
    assert rebase(root / MINE, other / MINE).code == 2


@pytest.mark.parametrize("name", ["gfxB/attn_fwd.0099-x.dbpatch", B, "archs.toml"])
def test_no_such_patch(root: Path, name: str) -> None:
    assert rebase(root / name).code == 2


def test_a_state_that_is_none(root: Path) -> None:
    assert rebase(root / MINE, "--was", root / "nowhere").code == 2
