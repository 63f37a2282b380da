"""`txtdb show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import ARCHS, F1, SCHEMA, make_db, patch, table, write_files
from tests.cli.run import run
from txtdb.cli.layout import Piece, aligned, panels

PATCH = "gfxB/attn_fwd.0010-p.dbpatch"


def grid_of(out: str) -> list[str]:
    """The lines of the first grid, from its bins down."""
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  seqlen_q"))
    return lines[start : lines.index("", start)]


def test_symbols_and_legend(tmp_path: Path) -> None:
    ran = run("show", make_db(tmp_path), "gfxB", "attn_fwd")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == "gfxB attn_fwd  dtype=fp16 causal=0 head_dim=64"
    assert grid_of(ran.out) == [
        "  seqlen_q  64  128  256",
        "        64   a    a    a",
        "       128   a    b    b",
        "       256   b    c    d",
    ]
    assert "  c      1       64       false          4           2\n" in ran.out
    assert "  in every config: waves_per_eu=0\n" in ran.out
    assert ran.out.splitlines()[-1].split() == ["9", "own", "table", (tmp_path / "db/gfxB/attn_fwd.txtdb").as_posix()]


def test_symbols_are_those_of_the_own_file(tmp_path: Path) -> None:
    text = table("gfxB", {F1: ["64-256 x*2 q"]}, palette={"q": "32 true 2 1", "x": "64 true 4 1"})
    ran = run("show", make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}), "gfxB", "attn_fwd")
    assert grid_of(ran.out)[1] == "        64   x    x    q"


def test_config_of_another_file_never_takes_a_symbol_of_the_own_file(tmp_path: Path) -> None:
    other = patch("gfxB", {F1: ["64 a . ."]}, palette={"a": "128 true 1 4"})
    ran = run("show", make_db(tmp_path, {PATCH: other}), "gfxB", "attn_fwd")
    assert grid_of(ran.out)[1] == "        64  e+   a    a"


def test_expand_writes_the_fields_that_differ(tmp_path: Path) -> None:
    ran = run("show", make_db(tmp_path), "gfxB", "attn_fwd", "--expand")
    assert grid_of(ran.out)[3].split() == ["256", "64/true/4/1", "64/false/4/2", "128/false/8/2"]
    assert "cells are BLOCK_M/PRE_LOAD_V/num_warps/num_stages\n  in every config: waves_per_eu=0\n" in ran.out


def test_inherited_cells_are_said_once_where_all_are(tmp_path: Path) -> None:
    ran = run("show", make_db(tmp_path), "gfxA", "attn_fwd", "head_dim=64")
    assert "  every cell is inherited from gfxB\n" in ran.out
    assert "'" not in ran.out


def test_inherited_cells_are_marked_where_some_are(tmp_path: Path) -> None:
    own = table("gfxA", {F1: ["64 . d ."]}, base="gfxB")
    ran = run("show", make_db(tmp_path, {"gfxA/attn_fwd.txtdb": own}), "gfxA", "attn_fwd", "head_dim=64")
    assert grid_of(ran.out)[1] == "        64  a'   d    a'"
    assert "  '  inherited from gfxB\n" in ran.out


def test_holes_masks_and_patches_are_marked(tmp_path: Path) -> None:
    files = {
        "gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . -", "128-256 b*3"]}),
        PATCH: patch("gfxB", {F1: ["256 . . c"]}),
    }
    ran = run("show", make_db(tmp_path, files), "gfxB", "attn_fwd")
    assert grid_of(ran.out)[1:] == [
        "        64  a    .    -",
        "       128  b    b    b",
        "       256  b    b    c+",
    ]
    for legend in (
        "+  set by a patch or an overlay",
        "-  masked: no config, whatever",
        ".  hole: no layer sets this cell",
    ):
        assert legend in ran.out


def test_pins_are_marked(tmp_path: Path) -> None:
    pin = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }
reason = "a test"
until = 2099-01-01
"""
    ran = run("show", make_db(tmp_path, {"gfxB/pins.toml": pin}), "gfxB", "attn_fwd")
    assert grid_of(ran.out)[1] == "        64  b!   a    a"
    assert "  !  pinned\n" in ran.out


PADDED = SCHEMA.replace("[[axis]]", '[[key]]\nname = "padded"\ntype = "bool"\nfallback = false\n[[axis]]', 1)


def padded_db(tmp_path: Path, blocks: dict[str, list[str]]) -> Path:
    text = table("gfxB", blocks, keys="dtype causal head_dim padded")
    return write_files(
        tmp_path / "db",
        {"archs.toml": ARCHS, "schema/attn_fwd.toml": PADDED, "gfxB/attn_fwd.txtdb": text},
    )


def test_functional_that_lives_by_fallback_is_shown_when_its_key_is_given(tmp_path: Path) -> None:
    root = padded_db(tmp_path, {"fp16 0 64 false": ["64-256 a*2 b"]})
    without = run("show", root, "gfxB", "attn_fwd")
    assert without.out.count("padded=") == 1
    ran = run("show", root, "gfxB", "attn_fwd", "padded=true")
    assert "padded=true\n  every cell is taken by fallback from padded=false\n" in ran.out
    assert grid_of(ran.out)[1] == "        64   a    a    b"


def test_own_padded_cell_beats_the_fallback(tmp_path: Path) -> None:
    root = padded_db(tmp_path, {"fp16 0 64 false": ["64-256 a*3"], "fp16 0 64 true": ["64 . d ."]})
    ran = run("show", root, "gfxB", "attn_fwd", "padded=true")
    assert grid_of(ran.out)[1] == "        64  a~   d    a~"


def test_cell_that_only_the_fallback_masks_is_masked(tmp_path: Path) -> None:
    root = padded_db(tmp_path, {"fp16 0 64 false": ["64-256 a - -"], "fp16 0 64 true": ["64 - - d"]})
    ran = run("show", root, "gfxB", "attn_fwd", "padded=true")
    assert grid_of(ran.out)[1:3] == ["        64  a~   -    d", "       128  a~   -    -"]


@pytest.mark.parametrize("axes", [1, 3, 4])
def test_other_numbers_of_axes(tmp_path: Path, axes: int) -> None:
    names = ["w", "x", "y", "z"][:axes]
    declared = "".join(f'[[axis]]\nname = "{name}"\nbins = [1, 2]\n' for name in names)
    schema = SCHEMA[: SCHEMA.index("[[axis]]")] + declared + SCHEMA[SCHEMA.index("[[config]]") :]
    rows = {
        1: ["a b"],
        3: ["1,1 a b", "1,2 b*2", "2,1-2 c*2"],
        4: ["1,1,1 a b", "1,1,2 b*2", "1,2,1-2 c*2", "2,1,1-2 d*2", "2,2,1-2 a*2"],
    }[axes]
    text = table("gfxB", {F1: rows}, axes=dict.fromkeys(names, "1 2"))
    files = {"archs.toml": ARCHS, "schema/attn_fwd.toml": schema, "gfxB/attn_fwd.txtdb": text}
    lines = run("show", write_files(tmp_path, files), "gfxB", "attn_fwd").out.splitlines()
    assert lines[1].split() == [names[-1]]
    assert lines[2].split() == [*names[:-1], "1", "2"]
    assert lines[3].split() == [*"1" * (axes - 1), "a", "b"]
    assert lines[4].split()[-2:] == ([] if axes == 1 else ["b", "b"])
    assert len(lines[3 : lines.index("", 3)]) == 2 ** (axes - 1)


OPERATOR = """\
iface = "op"
kind = "operator"
[[key]]
name = "dtype"
type = "enum"
values = ["fp16"]
[[axis]]
name = "n"
bins = [1, 2]
[[backend]]
name = "triton_split"
[[backend]]
name = "asm"
[arch.gfxB]
"""


def test_back_ends_are_shown_by_name(tmp_path: Path) -> None:
    palette = {"a": "triton_split", "b": "asm"}
    text = table(
        "gfxB", {"fp16": ["a b"]}, iface="op", keys="dtype", axes={"n": "1 2"}, fields="backend", palette=palette
    )
    files = {"archs.toml": ARCHS, "schema/op.toml": OPERATOR, "gfxB/op.txtdb": text}
    lines = run("show", write_files(tmp_path, files), "gfxB", "op").out.splitlines()
    assert lines[3].split() == ["triton_split", "asm"]


def test_several_archs_by_alias_and_separators(tmp_path: Path) -> None:
    out = run("show", make_db(tmp_path), "BETA:sramecc+; gfxa", "attn_fwd", "head_dim=64").out
    assert [line.split()[0] for line in out.splitlines() if " attn_fwd " in line] == ["gfxA", "gfxB"]


def test_json(tmp_path: Path) -> None:
    own = table("gfxA", {F1: ["64 . d -"]}, base="gfxB")
    ran = run(
        "show", make_db(tmp_path, {"gfxA/attn_fwd.txtdb": own}), "gfxA", "attn_fwd", "head_dim=64", "--format", "json"
    )
    (shown,) = ran.json["tables"]
    assert (shown["arch"], shown["iface"]) == ("gfxA", "attn_fwd")
    assert shown["axes"][1] == {"name": "seqlen_k", "bins": [64, 128, 256]}
    (functional,) = shown["functionals"]
    assert functional["functional"] == {"dtype": "fp16", "causal": 0, "head_dim": 64}
    first, second, third = functional["cells"][0]
    assert shown["configs"][first]["config"]["BLOCK_M"] == 32
    assert shown["configs"][second]["config"] == {
        "BLOCK_M": 128,
        "PRE_LOAD_V": False,
        "num_warps": 8,
        "num_stages": 2,
        "waves_per_eu": 0,
    }
    assert third == "masked"
    assert [shown["layers"][place]["arch"] for place in functional["layers"][0]] == ["gfxB", "gfxA", "gfxA"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gfxZ", "attn_fwd"], "known are gfxA, gfxB"),
        ([",", "attn_fwd"], "known are gfxA, gfxB"),
        (["gfxB", "attn_bwd"], "did you mean attn_fwd? known are attn_fwd"),
        (["gfxB", "attn_fwd", "head_dims=64"], "did you mean head_dim? known are causal, dtype, head_dim"),
        (["gfxB", "attn_fwd", "dtype=float16"], "it has bf16 fp16"),
        (["gfxB", "attn_fwd", "causal=false"], "causal: expected int, found bool `false`"),
        (["gfxB", "attn_fwd", "causal"], "`causal` is no NAME=VALUE"),
        (["gfxB", "attn_fwd", "causal="], "causal has no value"),
        (["gfxB", "attn_fwd", "causal=0", "causal=1"], "`causal` is given twice"),
        (["gfxB", "attn_fwd", "--expand", "--format", "json"], "--expand has no effect on --format json"),
    ],
)
def test_usage_faults_exit_2_and_say_what_there_is(tmp_path: Path, args: list[str], message: str) -> None:
    ran = run("show", make_db(tmp_path), *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_root_that_is_none_exits_2(tmp_path: Path) -> None:
    assert run("show", tmp_path / "nowhere", "gfxB", "attn_fwd").code == 2
    assert "this is no database" in run("show", tmp_path, "gfxB", "attn_fwd").err


def test_no_such_functional_exits_1(tmp_path: Path) -> None:
    ran = run("show", make_db(tmp_path), "gfxB", "attn_fwd", "dtype=bf16")
    assert ran.code == 1
    assert "gfxB attn_fwd: no functional has dtype=bf16" in ran.err


def test_row_037_faulty_table_is_not_shown(tmp_path: Path) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . . ."]})})
    ran = run("show", root, "gfxB", "attn_fwd")
    assert (ran.code, ran.out) == (1, "")
    assert f"{(root / PATCH).as_posix()}:14:" in ran.err


def test_fault_of_a_common_base_is_told_once(tmp_path: Path) -> None:
    root = make_db(tmp_path, {PATCH: patch("gfxB", {F1: ["64 b . . ."]})})
    assert run("show", root, "gfxA,gfxB", "attn_fwd").err.count("row-too-long") == 1


def test_overlay_lies_above(tmp_path: Path) -> None:
    overlay = write_files(tmp_path / "over", {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 d . ."]})})
    ran = run("show", make_db(tmp_path), "gfxB", "attn_fwd", "--overlay", overlay)
    assert grid_of(ran.out)[1] == "        64  d+   a    a"
    assert "own table, overlay 1" in ran.out


def test_panels_repeat_the_labels_in_a_narrow_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txtdb.cli.showing.window_width", lambda: 40)
    out = run("show", make_db(tmp_path), "gfxB", "attn_fwd", "--expand").out
    heads = [line.split() for line in out.splitlines() if line.startswith("  seqlen_q")]
    assert heads == [["seqlen_q", "64"], ["seqlen_q", "128", "256"]] or heads == [
        ["seqlen_q", "64", "128"],
        ["seqlen_q", "256"],
    ]
    grid_lines = out[: out.index("cells are")].splitlines()[1:]
    assert all(len(line) <= 40 for line in grid_lines)


def test_panel_ranges_by_hand() -> None:
    # Two blanks of indent and the label column of 8 + 2 leave 18 of 30 columns: 5 + 2 + 5 + 2 = 14, a third makes 21.
    assert list(panels([8, 5, 5, 5], 1, 30)) == [range(1, 3), range(3, 4)]
    assert list(panels([8, 5, 5, 5], 1, None)) == [range(1, 4)]
    assert list(panels([8, 50, 50], 1, 30)) == [range(1, 2), range(2, 3)]


def test_colours_do_not_shift_columns() -> None:
    lines = list(aligned([[Piece("a", {"fg": "red"}), "1"], ["bbb", "22"]], indent=""))
    assert [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in lines] == ["  a   1", "bbb  22"]


def test_no_colours_outside_a_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in run("show", make_db(tmp_path), "gfxB", "attn_fwd").out
