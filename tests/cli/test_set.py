"""`txtdb set`."""

from __future__ import annotations

from pathlib import Path

import pytest

import txtdb
from tests.build import F1, SCHEMA, TABLE_B, make_db, patch, table
from tests.cli.run import Ran, run
from txtdb.layers.resolve import empty_fold, fold_layers, ground_digest

KEYS = ("dtype=fp16", "causal=0", "head_dim=64")
CELL = (*KEYS, "seqlen_q=64", "seqlen_k=128")
PATCH = "gfxB/attn_fwd.0010-p.dbpatch"


def set_cell(root: Path, *words: str, arch: str = "gfxB") -> Ran:
    return run("set", root, arch, "attn_fwd", *words)


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that are gone, and lines that are new."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


def answer(root: Path, arch: str = "gfxB", seqlen_k: int = 128) -> object:
    resolved = txtdb.load(root)[arch]["attn_fwd"]
    return resolved.lookup(dtype="fp16", causal=0, head_dim=64, seqlen_q=64, seqlen_k=seqlen_k)


def test_known_config_changes_one_row(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    ran = set_cell(root, *CELL, "--", "BLOCK_M=64", "num_warps=4")
    assert (ran.code, ran.err) == (0, "")
    after = (root / "gfxB/attn_fwd.txtdb").read_text()
    assert changed_lines(TABLE_B, after) == (["64 a*3"], ["64 a b a"])
    assert "attn_fwd.txtdb: written\n  the cell gives  BLOCK_M=64 PRE_LOAD_V=true num_warps=4" in ran.out
    assert f"{root.as_posix()}/gfxB/attn_fwd.txtdb:16:6" in ran.out


def test_new_config_adds_one_palette_line(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    set_cell(root, *CELL, "--", "num_warps=8")
    after = (root / "gfxB/attn_fwd.txtdb").read_text()
    assert changed_lines(TABLE_B, after) == (["64 a*3"], ["e = 32 true 8 1", "64 a e a"])


def test_fields_left_out_stay_as_the_cell_has_them(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    set_cell(root, *KEYS, "seqlen_q=256", "seqlen_k=256", "--", "num_stages=3")
    assert "e = 128 false 8 3\n" in (root / "gfxB/attn_fwd.txtdb").read_text()


def test_row_inside_a_range_becomes_three(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 a*3"]})})
    set_cell(root, *KEYS, "seqlen_q=128", "seqlen_k=128", "--", "num_warps=8")
    after = (root / "gfxB/attn_fwd.txtdb").read_text()
    assert after.endswith("64 a*3\n128 a b a\n256 a*3\n#! end\n")


def test_what_stands_already_is_not_written(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    file = root / "gfxB/attn_fwd.txtdb"
    time = file.stat().st_mtime_ns
    ran = set_cell(root, *CELL, "--", "num_warps=2")
    assert (ran.code, file.stat().st_mtime_ns) == (0, time)
    assert "unchanged" in ran.out


def test_mask_and_unset(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    assert set_cell(root, *CELL, "--", "-").code == 0
    assert answer(root) is txtdb.NO_KERNEL
    assert "\n64 a - a\n" in (root / "gfxB/attn_fwd.txtdb").read_text()
    assert set_cell(root, *CELL, "--", ".").code == 0
    assert "\n64 a . a\n" in (root / "gfxB/attn_fwd.txtdb").read_text()


def test_cell_of_a_child_goes_into_its_own_table(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    set_cell(root, *CELL, "--", "num_warps=8", arch="gfxA")
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == TABLE_B
    assert "\n[fp16 0 64]\n64 . e .\n" in (root / "gfxA/attn_fwd.txtdb").read_text()
    assert answer(root, "gfxA")["num_warps"] == 8  # type: ignore[index]


def test_table_of_directives_alone_gets_its_grid(tmp_path: Path) -> None:
    text = table("gfxA", {}, base="gfxB").replace("#! arch", "# a child\n#! arch")
    root = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": text})
    file = root / "gfxA/attn_fwd.txtdb"
    assert set_cell(root, *CELL, "--", "num_warps=8", arch="gfxA").code == 0
    assert file.read_text() == (
        "#! txtdb 1\n#! iface attn_fwd\n# a child\n#! arch gfxA\n#! base gfxB\n#! origin hand test\n"
        "#! key dtype causal head_dim\n#! axis seqlen_q 64 128 256\n#! axis seqlen_k 64 128 256\n"
        "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n"
        "\na = 32 true 8 1\n\n[fp16 0 64]\n64 . a .\n#! end\n"
    )


def test_patch_is_started_with_a_reason(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    ran = set_cell(root, "--patch", "0010-p", "--why", "faster  here", *CELL, "--", "num_warps=8")
    assert ran.code == 0
    assert (root / PATCH).read_text() == patch(
        "gfxB",
        {F1: ["64 . a ."]},
        palette={"a": "32 true 8 1"},
        directives=("origin hand", "why faster here"),
    )
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == TABLE_B
    assert f"{(root / PATCH).as_posix()}:14:6" in ran.out


def test_patch_that_is_there_is_changed(tmp_path: Path) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . ."]})})
    set_cell(root, *CELL, "--patch", "0010-p", "--", "BLOCK_M=64", "num_warps=4")
    assert (root / PATCH).read_text() == patch("gfxB", {F1: ["64 b*2 ."]})


def test_change_under_a_higher_layer_says_that_it_has_no_effect(tmp_path: Path) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 . b ."]})})
    ran = set_cell(root, *CELL, "--", "num_warps=8")
    assert ran.code == 0
    assert "a higher layer: the change has no effect" in ran.out


def ground(root: Path) -> str:
    """The digest under the patch, computed from the layers by hand."""
    resolved = txtdb.load(root)["gfxB"]["attn_fwd"]
    *_, below = fold_layers(resolved.layers[:1], empty_fold(2))
    return ground_digest(resolved.schema, resolved.pool, below, resolved.layers[1].table)


def test_ground_of_a_patch_is_renewed_for_its_new_cells(tmp_path: Path) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . ."]})})
    old = ground(root)
    make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . ."]}, directives=("origin hand", "why x", f"onto {old}"))})
    assert set_cell(root, *CELL, "--patch", "0010-p", "--", "num_warps=8").code == 0
    new = ground(root)
    assert new != old
    assert f"#! onto {new}\n" in (root / PATCH).read_text()


def test_ground_that_moved_is_not_covered_up(tmp_path: Path) -> None:
    stale = "sha256:" + "0" * 64
    text = patch("gfxB", {F1: ["64 b . ."]}, directives=("origin hand", "why x", f"onto {stale}"))
    root = make_db(tmp_path, {PATCH: text})
    ran = set_cell(root, *CELL, "--patch", "0010-p", "--", "num_warps=8")
    assert (ran.code, ran.out) == (1, "")
    assert f"{(root / PATCH).as_posix()}:6:9: error: the cells under this patch are not what it was made" in ran.err
    assert f"look at them with `txtdb patch rebase {(root / PATCH).as_posix()}`" in ran.err
    assert (root / PATCH).read_text() == text
    [stale] = run("check", root, "--format", "json").json["findings"]
    assert (stale["rule"], stale["line"], stale["column"]) == ("stale-onto", 6, 9)
    assert stale["hint"] in ran.err


def test_bin_that_the_file_lacks_points_at_its_axis(tmp_path: Path) -> None:
    axes = {"seqlen_q": "64 256", "seqlen_k": "64 256"}
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 a*2"]}, axes=axes)})
    ran = set_cell(root, *CELL, "--", "num_warps=8")
    assert ran.code == 1
    assert "attn_fwd.txtdb:7:1: error: 128 is no bin of seqlen_k in this file" in ran.err


def test_key_and_field_of_one_name_are_told_apart_by_the_dashes(tmp_path: Path) -> None:
    schema = SCHEMA.replace('name = "BLOCK_M"', 'name = "head_dim"')
    text = TABLE_B.replace("BLOCK_M", "head_dim")
    root = make_db(tmp_path, {"schema/attn_fwd.toml": schema, "gfxB/attn_fwd.txtdb": text, "gfxA/attn_fwd.txtdb": None})
    assert set_cell(root, *CELL, "--", "head_dim=128").code == 0
    assert "e = 128 true 2 1\n" in (root / "gfxB/attn_fwd.txtdb").read_text()


def test_json(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    told = set_cell(root, "--format", "json", *CELL, "--", "num_warps=8").json
    assert (told["file"], told["changed"]) == ((root / "gfxB/attn_fwd.txtdb").as_posix(), True)
    assert told["explanation"]["config"]["num_warps"] == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*CELL,), "nothing to set"),
        ((*CELL, "--"), "nothing to set"),
        ((*CELL, "--", "num_warps=3"), "num_warps = 3 is outside its domain (1 2 4 8)"),
        ((*CELL, "--", "num_warps=true"), "num_warps: expected int, found bool `true`"),
        ((*CELL, "--", "PRE_LOAD_V=1"), "PRE_LOAD_V: expected bool, found int `1`"),
        ((*CELL, "--", "warps=4"), "did you mean num_warps? known are BLOCK_M"),
        ((*KEYS, "seqlen_q=64", "seqlen_k=65", "--", "-"), "65 is no bin of seqlen_k"),
        ((*KEYS, "seqlen_q=64", "--", "-"), "`seqlen_k` is missing"),
        ((*KEYS, "seqlen_q=64", "--", "-"), "a lookup names the keys dtype, causal, head_dim and the axes"),
        (("dtype=bf16", *CELL[1:], "--", "-"), "no such functional on gfxB"),
        ((*CELL, "--patch", "0020-q", "--", "-"), "say with --why what it is for"),
        ((*CELL, "--patch", "../0020-q", "--why", "x", "--", "-"), "is no name of a patch"),
        ((*CELL, "--patch", "10-q", "--why", "x", "--", "-"), "another patch has this number"),
        ((*CELL, "--patch", "0010-p", "--why", "x", "--", "-"), "has its `#! why` already"),
        ((*CELL, "--why", "x", "--", "-"), "--why has no effect without --patch"),
    ],
)
def test_requests_that_make_no_sense_exit_2_and_write_nothing(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . ."]})})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    ran = set_cell(root, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_field_without_value_and_default_must_be_given(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 . . a"]})})
    ran = set_cell(root, *KEYS, "seqlen_q=64", "seqlen_k=64", "--", "num_warps=8")
    assert ran.code == 2
    assert "`BLOCK_M` is missing" in ran.err


def test_two_archs_are_no_cell(tmp_path: Path) -> None:
    assert set_cell(make_db(tmp_path), *CELL, "--", "-", arch="gfxA,gfxB").code == 2


WHOLE = ("BLOCK_M=32", "PRE_LOAD_V=true", "num_warps=8", "num_stages=1")
STARTED = (
    "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxB\n#! origin hand\n"
    "#! key dtype causal head_dim\n#! axis seqlen_q 64 128 256\n#! axis seqlen_k 64 128 256\n"
    "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n"
    "\na = 32 true 8 1\n\n[fp16 0 64]\n64 . a .\n#! end\n"
)
EMPTY = {"gfxB/attn_fwd.txtdb": None, "gfxA/attn_fwd.txtdb": None}
HEAD = STARTED.partition("\na =")[0]


@pytest.mark.parametrize("there", [None, f"{HEAD.partition('#! key')[0]}#! end\n", f"{HEAD}#! end\n"])
def test_a_table_is_started_by_its_first_cell(tmp_path: Path, there: str | None) -> None:
    root = make_db(tmp_path, {**EMPTY, "gfxB/attn_fwd.txtdb": there})
    ran = set_cell(root, *CELL, "--", *WHOLE)
    assert (ran.code, ran.err) == (0, "")
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == STARTED
    assert answer(root)["num_warps"] == 8  # type: ignore[index]


def test_a_table_is_started_under_the_patches_that_are_there(tmp_path: Path) -> None:
    root = make_db(tmp_path, {**EMPTY, PATCH: patch("gfxB", {F1: ["64 b . ."]})})
    assert set_cell(root, *CELL, "--", *WHOLE).code == 0
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == STARTED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*CELL, "--", *WHOLE[:2], "num_warps=3", WHOLE[3]), "num_warps = 3 is outside its domain (1 2 4 8)"),
        ((*CELL, "--", "PRE_LOAD_V=yes"), "PRE_LOAD_V: expected bool"),
        ((*KEYS, "seqlen_q=64", "seqlen_k=65", "--", *WHOLE), "65 is no bin of seqlen_k"),
        ((*CELL, "--", "num_warps=8"), "`BLOCK_M` is missing"),
        ((*CELL, "--", "."), "there is no such table: it leaves the cell alone already"),
    ],
)
def test_a_wrong_word_is_told_where_there_is_no_data_yet(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    root = make_db(tmp_path, EMPTY)
    ran = set_cell(root, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "no-data" not in ran.err
    assert not (root / "gfxB/attn_fwd.txtdb").exists()


def test_wrong_words_are_told_before_what_is_wrong_with_the_table(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": TABLE_B.replace("64 a*3", "64 a*4")})
    assert "expected bool" in set_cell(root, *CELL, "--", "PRE_LOAD_V=1").err


def test_the_last_cell_of_a_table_can_be_taken_back(tmp_path: Path) -> None:
    root = make_db(tmp_path, {**EMPTY, "gfxB/attn_fwd.txtdb": STARTED})
    ran = set_cell(root, *CELL, "--", ".")
    assert (ran.code, "the cell gives  no kernel" in ran.out) == (0, True)


def test_what_check_says_of_an_empty_root_starts_it(tmp_path: Path) -> None:
    told = run("check", make_db(tmp_path, EMPTY)).out
    assert "set a first cell with `txtdb set`, tune cells with `txtdb tune … --table`" in told
    assert "name a database folder" not in told


def test_an_overlay_gets_the_cell_of_its_own(tmp_path: Path) -> None:
    root, mine = make_db(tmp_path), tmp_path / "mine"
    mine.mkdir()
    ran = set_cell(root, *CELL, "--overlay", str(mine), "--", "num_warps=8")
    file = mine / "gfxB/attn_fwd.txtdb"
    assert ran.out.startswith(f"{file.as_posix()}: written\n  the cell gives  BLOCK_M=32 PRE_LOAD_V=true num_warps=8")
    assert file.read_text() == STARTED
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == TABLE_B
    ran = set_cell(root, *CELL, "--overlay", str(mine), "--patch", "0010-p", "--why", "x", "--", "num_warps=4")
    assert (mine / PATCH).is_file()
    assert "the cell gives  BLOCK_M=32 PRE_LOAD_V=true num_warps=4" in ran.out
    ran = set_cell(root, *CELL, "--overlay", str(mine), "--", "num_warps=2")
    assert "a higher layer: the change has no effect" in ran.out
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == TABLE_B


def test_a_moved_ground_in_an_overlay_names_what_can_be_done_there(tmp_path: Path) -> None:
    stale = patch("gfxB", {F1: ["64 b . ."]}, directives=("origin hand", "why x", f"onto sha256:{'0' * 64}"))
    root, mine = make_db(tmp_path), tmp_path / "mine"
    (mine / "gfxB").mkdir(parents=True)
    (mine / PATCH).write_text(stale)
    ran = set_cell(root, *CELL, "--overlay", str(mine), "--patch", "0010-p", "--", "num_warps=8")
    assert ran.code == 1
    assert "look at them again, then write `#! onto sha256:" in ran.err


def test_row_037_faulty_table_is_not_edited(tmp_path: Path) -> None:
    broken = TABLE_B.replace("64 a*3", "64 a*4")
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": broken})
    assert set_cell(root, *CELL, "--", "-").code == 1
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == broken


def test_write_that_fails_exits_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> bool:
        raise PermissionError(13, "the folder is read-only", str(path))

    monkeypatch.setattr("txtdb.editing.cells.write_if_changed", refuse)
    root = make_db(tmp_path)
    ran = set_cell(root, *CELL, "--", "-")
    assert ran.code == 2
    assert "cannot write: the folder is read-only" in ran.err
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == TABLE_B


MODELLED = "gfxB/attn_fwd.txtdb"


def modelled(text: str) -> dict[str, str | None]:
    return {MODELLED: text.replace("origin hand test", "origin modelled rule-1")}


def test_a_hand_made_cell_under_another_origin_is_noted(tmp_path: Path) -> None:
    root = make_db(tmp_path, modelled(TABLE_B))
    ran = set_cell(root, *CELL, "--", "num_warps=8")
    assert ran.code == 0
    assert ran.err == (
        f'{(root / MODELLED).as_posix()}: note: the file\'s origin stays "modelled rule-1"; with --patch NNNN-NAME '
        "--why … the change says that it is made by hand\n"
    )
    assert set_cell(root, *CELL, "--", "num_warps=8").err == ""


@pytest.mark.parametrize(
    ("directives", "note"),
    [
        (("origin hand mixed: hand a; measured b",), 'the file\'s origin stays "hand mixed: hand a; measured b"; with'),
        (("origin hand", "evidence"), "the file's evidence does not prove this cell any more; with --patch"),
        (
            ("origin measured b", "evidence"),
            "the file's evidence does not prove this cell any more, and the file's origin stays \"measured b\"; with",
        ),
    ],
)
def test_a_cell_that_the_evidence_does_not_prove_is_noted(
    tmp_path: Path, directives: tuple[str, ...], note: str
) -> None:
    lines = [f"evidence r.json sha256:{'0' * 64}" if line == "evidence" else line for line in directives]
    head = "".join(f"#! {line}\n" for line in lines)
    root = make_db(tmp_path, {MODELLED: TABLE_B.replace("#! origin hand test\n", head)})
    assert note in set_cell(root, *CELL, "--", "num_warps=8").err
    assert set_cell(root, *CELL, "--", "num_warps=8").err == ""


def test_a_new_patch_is_made_by_hand_and_has_no_note(tmp_path: Path) -> None:
    root = make_db(tmp_path, modelled(TABLE_B))
    assert set_cell(root, "--patch", "0010-p", "--why", "faster", *CELL, "--", "num_warps=8").err == ""


def test_a_masked_cell_is_a_hole_and_noted(tmp_path: Path) -> None:
    ran = set_cell(make_db(tmp_path), *CELL, "--", "-")
    assert ran.code == 0
    assert "`txtdb check` and `txtdb codegen` report a masked cell as a hole" in ran.err
    assert run("check", make_db(tmp_path / "b", {MODELLED: TABLE_B.replace("64 a*3", "64 a - a")})).code == 1


def test_a_field_before_the_dashes_is_told_where_it_belongs(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    ran = set_cell(root, *CELL, "num_warps=8")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "num_warps=8: error: num_warps is a config field: write it behind `--` [argument]\n"
        "    like `… -- num_warps=8`\n"
    )
    assert (root / MODELLED).read_text() == TABLE_B
