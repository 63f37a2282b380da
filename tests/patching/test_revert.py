"""`txtdb patch revert`: a patch removed, or undone by another."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

from tests.build import F1, TABLE_B, make_db, patch, table
from tests.cli.run import run

FIRST = "gfxB/attn_fwd.0010-first.dbpatch"
SECOND = "gfxB/attn_fwd.0020-second.dbpatch"
FILES: dict[str, str | None] = {
    FIRST: patch("gfxB", {F1: ["64 d d .", "256 d . ."]}, directives=("origin measured run-1", "why it is faster")),
    SECOND: patch("gfxB", {F1: ["64 . c ."]}),
}


def lines(root: Path, arch: str = "gfxB") -> str:
    return run("resolve", root, arch, "attn_fwd").out.partition("#! key")[2]


def test_the_topmost_is_removed(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    done = run("patch", "revert", root / SECOND)
    assert done.code == 0
    assert f"{root}/{SECOND}: removed" in done.out
    assert "seqlen_q=64 seqlen_k=128: num_warps" not in done.out
    assert "seqlen_q=64 seqlen_k=128: BLOCK_M 64→128, num_warps 4→8" in done.out
    assert not (root / SECOND).exists()


def test_one_with_another_above_is_undone_where_it_counts(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    without = lines(make_db(tmp_path, {SECOND: FILES[SECOND]}, "without"))
    done = run("patch", "revert", root / FIRST)
    assert done.code == 0
    new = root / "gfxB/attn_fwd.0030-revert-first.dbpatch"
    assert f"{new}: written, 2 cells" in done.out
    text = new.read_text()
    assert "#! origin hand test\n#! why revert attn_fwd.0010-first.dbpatch: it is faster\n#! onto sha256:" in text
    assert text.endswith("a = 32 true 2 1\nb = 64 true 4 1\n\n[fp16 0 64]\n64 a\n256 b\n#! end\n")
    assert lines(root) == without
    assert (root / FIRST).exists()
    assert "[stale-onto]" not in run("check", root).out


def test_what_had_nothing_below_is_masked(tmp_path: Path) -> None:
    hole = {"gfxB/attn_fwd.txtdb": TABLE_B.replace("64 a*3", "64 . a*2")}
    root = make_db(tmp_path, {**FILES, **hole})
    assert run("patch", "revert", root / FIRST, "--why", "wrong results").code == 0
    text = (root / "gfxB/attn_fwd.0030-revert-first.dbpatch").read_text()
    assert "#! why wrong results\n" in text
    assert "\n64 -\n" in text


def test_one_that_does_not_count_anywhere(tmp_path: Path) -> None:
    root = make_db(tmp_path, {FIRST: patch("gfxB", {F1: ["64 . d ."]}), SECOND: FILES[SECOND]})
    done = run("patch", "revert", root / FIRST)
    assert done.code == 2
    assert "there is nothing to revert" in done.err


def test_an_heir_whose_patch_was_made_over_it(tmp_path: Path) -> None:
    """The file stays for it to see what it was made over, and the heir is told to look."""
    over = "gfxA/attn_fwd.0010-mine.dbpatch"
    root = make_db(tmp_path, {FIRST: FILES[FIRST], over: patch("gfxA", {F1: ["64 b . ."]})})
    assert run("patch", "rebase", root / over).code == 0
    done = run("patch", "revert", root / FIRST)
    assert done.code == 0
    assert (root / FIRST).exists()
    assert (root / "gfxB/attn_fwd.0020-revert-first.dbpatch").exists()
    assert f"{root}/{over}: other contents lie under this patch now" in done.out


def test_bins_that_it_brings_reach_heirs(tmp_path: Path) -> None:
    """gfxA has 256 × 64 for all larger sizes. The patch of gfxB brings 512, which ends that, and no patch undoes it."""
    wide = patch("gfxB", {F1: ["256 d . .", "512 . d ."]}, axes={"seqlen_q": "256 512", "seqlen_k": "64 128 256"})
    heir = table("gfxA", {F1: ["256 c . ."]}, base="gfxB", axes={"seqlen_q": "256", "seqlen_k": "64 128 256"})
    files = {FIRST: wide, SECOND: FILES[SECOND], "gfxA/attn_fwd.txtdb": heir}
    root = make_db(tmp_path, files)
    done = run("patch", "revert", root / FIRST)
    assert done.code == 1
    assert "gfxA attn_fwd would answer otherwise than without it, because it brings bins of its own" in done.err
    assert not list(root.rglob("*revert*"))


def test_in_its_own_folder(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    with chdir(root / "gfxB"):
        assert run("patch", "revert", "attn_fwd.0020-second.dbpatch", "--dry-run").code == 0
        assert Path("attn_fwd.0020-second.dbpatch").exists()
        assert run("patch", "revert", "attn_fwd.0020-second.dbpatch").code == 0
        assert not Path("attn_fwd.0020-second.dbpatch").exists()
