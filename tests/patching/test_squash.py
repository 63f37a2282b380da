"""`txtdb patch squash`: patches folded into the table or into one patch."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.build import F1, F2, TABLE_B, make_db, patch, table
from tests.cli.run import Ran, run

B, A = "gfxB/attn_fwd.txtdb", "gfxA/attn_fwd.txtdb"


def line(data: str) -> str:
    return f"sha256:{sha256(data.encode()).hexdigest()}"


ONE = patch(
    "gfxB", {F1: ["64 b . ."]}, directives=("origin measured run-1", "why one", f"evidence run-1.json {line('{}')}")
)
TWO = patch(
    "gfxB", {F1: ["64 c b ."]}, directives=("origin measured run-2", "why two", f"evidence run-2.json {line('[]')}")
)
THREE = patch("gfxB", {F1: ["256 - d ."]}, directives=("origin hand by me", "why three"))
FILES: dict[str, str | None] = {
    "gfxB/attn_fwd.0010-one.dbpatch": ONE,
    "gfxB/attn_fwd.0020-two.dbpatch": TWO,
    "gfxB/attn_fwd.0030-three.dbpatch": THREE,
    "gfxB/evidence/run-1.json": "{}",
    "gfxB/evidence/run-2.json": "[]",
}


def squash(root: Path, *args: str) -> Ran:
    return run("patch", "squash", root, "gfxB", "attn_fwd", *args)


def resolved(root: Path) -> list[str]:
    texts = [run("resolve", root, arch, "attn_fwd").out for arch in ("gfxA", "gfxB")]
    return ["".join(row for row in text.splitlines(True) if "#! origin" not in row) for text in texts]


def patches(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.dbpatch"))


def test_all_into_the_table(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    before = resolved(root)
    done = squash(root)
    assert done.code == 0, done.err
    assert resolved(root) == before
    assert patches(root) == []
    assert (root / B).read_text() == (
        "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxB\n"
        "#! origin hand mixed: hand by me; hand test; measured run-1; measured run-2\n"
        f"#! evidence run-1.json {line('{}')}\n#! evidence run-2.json {line('[]')}\n"
        "#! key dtype causal head_dim\n#! axis seqlen_q 64 128 256\n#! axis seqlen_k 64 128 256\n"
        "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n\n"
        "a = 32 true 2 1\nb = 64 true 4 1\nc = 64 false 4 2\nd = 128 false 8 2\n\n"
        "[fp16 0 64]\n64 c b a\n128 a b*2\n256 - d*2\n#! end\n"
    )


def test_entries_that_lose_their_last_cell_go_and_the_database_is_clean(tmp_path: Path) -> None:
    """`c` and `d` are used in the last row alone, which the patch sets; `z` was unused before."""
    text = TABLE_B.replace("\nd = 128 false 8 2\n", "\nd = 128 false 8 2\nz = 32 false 2 1\n")
    last = patch("gfxB", {F1: ["256 a*3"]})
    root = make_db(tmp_path, {B: text, "gfxB/attn_fwd.0010-x.dbpatch": last})
    before = resolved(root)
    assert squash(root).code == 0
    assert resolved(root) == before
    assert "a = 32 true 2 1\nb = 64 true 4 1\nz = 32 false 2 1\n\n" in (root / B).read_text()
    assert [finding["message"] for finding in run("check", root, "--format", "json").json["findings"]] == [
        "no row uses `z`"
    ]


def test_symbols_and_comments_of_the_table_survive(tmp_path: Path) -> None:
    commented = (
        TABLE_B.replace("128 a b*2", "# narrow\n128 a b*2").replace("b = 64 true 4 1\n", "").replace("b*2", "z*2")
    )
    commented = commented.replace("256 b", "256 z").replace(
        "\nd = 128 false 8 2\n", "\nd = 128 false 8 2\nz = 64 true 4 1\n"
    )
    root = make_db(tmp_path, {**FILES, B: commented})
    before = resolved(root)
    assert squash(root).code == 0
    assert resolved(root) == before
    text = (root / B).read_text()
    assert "# narrow\n128 a z*2\n" in text
    assert "64 c z a\n" in text


def test_new_bins_come_into_the_table(tmp_path: Path) -> None:
    """Worked by hand: 96 splits 65…128; what the patch leaves alone there stays what 128 has."""
    wide = patch("gfxB", {F1: ["64 . d"]}, axes={"seqlen_q": "64", "seqlen_k": "64 96"})
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": wide, A: None})
    before = run("resolve", root, "gfxB", "attn_fwd").out.splitlines()[4:]
    assert squash(root).code == 0
    text = (root / B).read_text()
    assert "#! axis seqlen_k 64 96 128 256\n" in text
    assert "64 a d a*2\n128 a b*3\n256 b c*2 d\n" in text
    assert run("resolve", root, "gfxB", "attn_fwd").out.splitlines()[4:] == before


def test_a_fallthrough_to_the_base_stays_one(tmp_path: Path) -> None:
    """gfxA sets nothing at 96 and lets its base show through; folding a patch at 96 must not change that."""
    wide = patch("gfxA", {F1: ["64 d"]}, axes={"seqlen_q": "64", "seqlen_k": "96"})
    root = make_db(tmp_path, {"gfxA/attn_fwd.0010-x.dbpatch": wide})
    before = resolved(root)
    assert run("patch", "squash", root, "gfxA", "attn_fwd").code == 0
    assert resolved(root) == before
    assert "[fp16 0 64]\n64 . d .*2\n" in (root / A).read_text()


def test_into_a_table_of_directives_alone_and_into_none(tmp_path: Path) -> None:
    inherits = table("gfxA", {}, base="gfxB")
    own = patch("gfxA", {F2: ["64-256 b*3"], F1: ["64 d . ."]})
    root = make_db(tmp_path, {A: inherits, "gfxA/attn_fwd.0010-x.dbpatch": own})
    before = resolved(root)
    assert run("patch", "squash", root, "gfxA", "attn_fwd").code == 0
    assert resolved(root) == before
    assert (root / A).read_text().startswith("#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n#! base gfxB\n")
    alone = make_db(tmp_path, {A: None, "gfxA/attn_fwd.0010-x.dbpatch": own}, "alone")
    assert run("patch", "squash", alone, "gfxA", "attn_fwd").code == 0
    assert (alone / A).is_file()


def test_into_one_patch(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    before = resolved(root)
    assert squash(root, "10", "20", "--into", "narrow").code == 0
    assert resolved(root) == before
    assert patches(root) == ["attn_fwd.0020-narrow.dbpatch", "attn_fwd.0030-three.dbpatch"]
    text = (root / "gfxB/attn_fwd.0020-narrow.dbpatch").read_text()
    assert text.startswith(
        "#! dbpatch 1\n#! iface attn_fwd\n#! arch gfxB\n#! origin measured mixed: measured run-1; measured run-2\n"
        f"#! why one; two\n#! evidence run-1.json {line('{}')}\n#! evidence run-2.json {line('[]')}\n#! onto sha256:"
    )
    assert text.endswith("a = 64 false 4 2\nb = 64 true 4 1\n\n[fp16 0 64]\n64 a b\n#! end\n")
    assert "[stale-onto]" not in run("check", root).out


def test_into_a_patch_of_a_given_number_and_reason(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    assert squash(root, "10", "20", "--into", "0015-narrow", "--why", "both").code == 0
    assert "#! why both\n" in (root / "gfxB/attn_fwd.0015-narrow.dbpatch").read_text()


def test_a_patch_between_keeps_its_cells(tmp_path: Path) -> None:
    """10 and 20 set the first cell; folding 10 and 30 on top of 20 leaves it to 20."""
    root = make_db(tmp_path, FILES)
    before = resolved(root)
    assert squash(root, "10", "30", "--into", "ends").code == 0
    assert resolved(root) == before
    text = (root / "gfxB/attn_fwd.0030-ends.dbpatch").read_text()
    assert "\n64 " not in text
    assert "#! evidence run-1.json" in text  # what it was made from is named though nothing of it counts


@pytest.mark.parametrize("into", ["table", "0005-low"])
def test_passing_under_a_patch_that_sets_the_cells_is_refused(tmp_path: Path, into: str) -> None:
    """20 wins over 10 now; in the table, or under 10, it would not."""
    root = make_db(tmp_path, FILES)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = squash(root, "20", "--into", into)
    assert done.code == 1
    assert "[would-change]" in done.err
    assert "seqlen_q=64 seqlen_k=64" in done.out
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_the_ground_of_the_others_must_stay(tmp_path: Path) -> None:
    """30 and 40 set the same config at a cell, so no lookup changes; but 30's ground would be 40's cell."""
    same = patch("gfxB", {F1: ["64 d . ."]})
    root = make_db(tmp_path, {"gfxB/attn_fwd.0030-x.dbpatch": same})
    assert run("patch", "rebase", root / "gfxB/attn_fwd.0030-x.dbpatch").code == 0
    (root / "gfxB/attn_fwd.0040-y.dbpatch").write_text(same)
    done = squash(root, "40")
    assert done.code == 1
    assert "a folded patch sets them as well" in done.err


def test_heirs_keep_their_answers_and_their_grounds(tmp_path: Path) -> None:
    over = patch("gfxA", {F1: ["64 d . ."]})
    root = make_db(tmp_path, {**FILES, "gfxA/attn_fwd.0010-x.dbpatch": over})
    assert run("patch", "rebase", root / "gfxA/attn_fwd.0010-x.dbpatch").code == 0
    before = resolved(root)
    assert squash(root).code == 0
    assert resolved(root) == before
    assert "[stale-onto]" not in run("check", root).out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["15"], "no patch 15 here"),
        (["10", "--into", "a b"], "is no name of a patch"),
        (["10", "--into", "0020-x"], "has this number"),
        (["10", "--why", "x"], "--why has no effect"),
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, args: list[str], message: str) -> None:
    done = squash(make_db(tmp_path, FILES), *args)
    assert done.code == 2
    assert message in done.err


def test_without_patches(tmp_path: Path) -> None:
    done = squash(make_db(tmp_path))
    assert (done.code, "has no patch here" in done.err) == (2, True)


def test_a_faulty_table_is_left_alone(tmp_path: Path) -> None:
    done = squash(make_db(tmp_path, {**FILES, B: TABLE_B.replace("128 a b*2", "128 a b")}))
    assert (done.code, "[row-too-short]" in done.err) == (1, True)


def test_a_second_squash_says_each_origin_once(tmp_path: Path) -> None:
    root = make_db(tmp_path, FILES)
    squash(root, "10", "20")
    squash(root, "30")
    assert "#! origin hand mixed: hand by me; hand test; measured run-1; measured run-2\n" in (root / B).read_text()


def test_cells_that_evidence_decided_and_a_hand_set_otherwise_are_told(tmp_path: Path) -> None:
    hand = patch("gfxB", {F1: ["64 d . ."]}, directives=("origin hand by me", "why it crashes"))
    files = {**FILES, "gfxB/attn_fwd.0030-three.dbpatch": hand}
    ran = squash(make_db(tmp_path, files), "--dry-run")
    told = "gfxB/attn_fwd.0030-three.dbpatch: sets 1 cell by hand that evidence decided: `txtdb verify` will refuse"
    assert told in ran.out
    assert "by hand" not in squash(make_db(tmp_path, FILES, "other"), "--dry-run").out
