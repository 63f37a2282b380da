"""What git compares in place of the text: configs written out."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given

from tests.build import F1, S0, TABLE_B, table
from tests.merge.drawn import Drawn, drawn, spelled
from tests.merge.repository import make_repository
from tests.mutants import mutants
from tests.strategies import LAW, seeds
from txtdb.cli import main
from txtdb.merge.expanded import expanded
from txtdb.syntax import print_source, read

B = "gfxB/attn_fwd.txtdb"
A64 = "BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1"
B64 = "BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1"


def lines(text: str) -> list[str]:
    return expanded(text.encode()).decode().splitlines()


def test_a_line_for_each_run_of_each_row() -> None:
    text = table("gfxB", {F1: ["64-128 a*2 -", "256 . b a"]}, directives=["origin hand"])
    assert lines(text) == [
        "#! txtdb 1",
        "#! iface attn_fwd",
        "#! arch gfxB",
        "#! origin hand",
        "#! key dtype causal head_dim",
        "#! axis seqlen_q 64 128 256",
        "#! axis seqlen_k 64 128 256",
        "#! config BLOCK_M PRE_LOAD_V num_warps num_stages",
        "",
        f"config {A64}",
        f"config {B64}",
        "",
        f"[fp16 0 64] seqlen_q=64 seqlen_k=64-128: {A64}",
        "[fp16 0 64] seqlen_q=64 seqlen_k=256: masked",
        f"[fp16 0 64] seqlen_q=128 seqlen_k=64-128: {A64}",
        "[fp16 0 64] seqlen_q=128 seqlen_k=256: masked",
        f"[fp16 0 64] seqlen_q=256 seqlen_k=128: {B64}",
        f"[fp16 0 64] seqlen_q=256 seqlen_k=256: {A64}",
        "#! end",
    ]


def test_one_axis_and_three() -> None:
    one = table("gfxB", {F1: ["a b*2"]}, axes={"m": "1 2 3"})
    assert f"[fp16 0 64] m=2-3: {B64}" in lines(one)
    three = table("gfxB", {F1: ["1,2 a b"]}, axes={"m": "1", "n": "2", "k": "3 4"})
    assert f"[fp16 0 64] m=1 n=2 k=4: {B64}" in lines(three)


def test_comments_stay() -> None:
    text = (
        TABLE_B.replace("#! arch", "# one\n#! arch").replace("b = ", "# two\nb = ").replace("128 a", "# three\n128 a")
    )
    shown = lines(text.replace("#! end", "# four\n#! end"))
    assert shown[shown.index("# one") + 1] == "#! arch gfxB"
    assert shown[shown.index("# two") + 1] == f"config {B64}"
    assert shown[shown.index("# three") + 1].startswith("[fp16 0 64] seqlen_q=128 seqlen_k=64:")
    assert shown[-2:] == ["# four", "#! end"]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"no table\r\n"], ids=["empty", "binary", "text"])
def test_what_is_no_table_is_shown_as_it_is(data: bytes, tmp_path: Path) -> None:
    assert expanded(data) == data
    (tmp_path / "file").write_bytes(data)
    ran = CliRunner().invoke(main, ["git", "textconv", str(tmp_path / "file")])
    assert (ran.exit_code, ran.stdout_bytes) == (0, data)


ROW_128 = [f"[fp16 0 64] seqlen_q=128 seqlen_k=64: {A64}", f"[fp16 0 64] seqlen_q=128 seqlen_k=128-256: {B64}"]
CONFLICT = ["<<<<<<< ours", "128 a*3", "||||||| base", "# why", "128 a b*2", "=======", "128 b*3", ">>>>>>> theirs"]
# What is replaced in the file, by what, and the lines of the expanded form that go and come.
FAULTS = {
    "unknown symbol": ("128 a b*2", "128 a q*2", ROW_128, ["128 a q*2"]),
    "short row": ("128 a b*2", "128 a b", ROW_128, ["128 a b"]),
    "row twice": ("128 a b*2", "128 a b*2\n128 a*3", [], ["128 a*3"]),
    "tab": ("128 a b*2", "128\ta b*2", ROW_128, ["128\ta b*2"]),
    "conflict": ("128 a b*2", "\n".join(CONFLICT), ROW_128, CONFLICT),
    "marker left behind": ("128 a b*2", "=======\n128 a b*2", [], ["======="]),
    "unknown directive": ("#! origin", "#! orgin", ["#! origin hand test"], ["#! orgin hand test"]),
    "entry of no use": ("d = 128", "? = 1\nd = 128", [], ["? = 1"]),
    "entry behind the blocks": ("#! end", "e = 1 true 1 1\n#! end", [], ["e = 1 true 1 1"]),
    "row above the blocks": ("\n[fp16", "\n64 a*3\n[fp16", [], ["64 a*3"]),
    "text after the end": ("#! end", "#! end\n64 a*3", [], ["64 a*3"]),
    "truncated": ("#! end\n", "", ["#! end"], []),
    "head without rows": ("#! end", "[fp16 1 64]\n#! end", [], ["[fp16 1 64]"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows_as_the_line_that_it_is(name: str) -> None:
    old, new, gone, come = FAULTS[name]
    text = TABLE_B.replace(old, new, 1)
    assert read(text.encode(), "f.txtdb")[1]
    before, after = lines(TABLE_B), lines(text)
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert [line[2:] for line in changes if line[0] == "-"] == gone
    assert [line[2:] for line in changes if line[0] == "+"] == come


def test_a_malformed_entry_shows_its_symbol_in_the_cells() -> None:
    shown = lines(TABLE_B.replace("b = 64 true 4 1", "b = 64, true 4 1"))
    assert "b = 64, true 4 1" in shown
    assert "[fp16 0 64] seqlen_q=128 seqlen_k=128-256: b" in shown
    assert f"[fp16 0 64] seqlen_q=128 seqlen_k=64: {A64}" in shown


def test_an_entry_of_the_wrong_length_shows_its_values_in_the_cells() -> None:
    shown = lines(TABLE_B.replace("b = 64 true 4 1", "b = 64 true 4"))
    assert "config 64 true 4" in shown
    assert "[fp16 0 64] seqlen_q=128 seqlen_k=128-256: 64 true 4" in shown


def test_a_malformed_head_stands_in_front_of_its_cells() -> None:
    shown = lines(TABLE_B.replace("[fp16 0 64]", "[fp16 0 64"))
    assert "[fp16 0 64 seqlen_q=128 seqlen_k=128-256: " + B64 in shown


def test_a_byte_order_mark_shows() -> None:
    assert lines("\ufeff" + TABLE_B) == ["\ufeff#! txtdb 1", *lines(TABLE_B)[1:]]


@pytest.mark.parametrize("seed", range(4))
def test_no_file_is_too_broken(seed: int) -> None:
    """What cannot be read is there as it is: of a conflict each line."""
    files = [TABLE_B.encode(), TABLE_B.replace("128 a b*2", "\n".join(CONFLICT)).encode()]
    for data in mutants(files, 200, seed):
        shown = expanded(data)
        source, faults = read(data, "f.txtdb")
        if source and any(fault.rule == "conflict-marker" for fault in faults):
            markers = (b"<<<<<<<", b">>>>>>>")
            assert [shown.count(marker) for marker in markers] == [data.count(marker) for marker in markers]


@given(three=drawn(), seed=seeds)
@LAW
def test_it_is_the_same_for_every_layout(three: Drawn, seed: int) -> None:
    text = spelled(three.base, three.axes, seed)
    source, _ = read(text.encode(), "f")
    assert source is not None
    assert expanded(text.encode()) == expanded(print_source(source).encode())


def test_row_116_line_ends_do_not_show() -> None:
    assert expanded(TABLE_B.replace("\n", "\r\n").encode()) == expanded(TABLE_B.encode())


def test_diff_show_and_log_show_configs(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.commit({B: TABLE_B.replace("64 a*3", "64 a*2 b")}, "retune")
    expected = [
        f"-[fp16 0 64] seqlen_q=64 seqlen_k=64-256: {A64}",
        f"+[fp16 0 64] seqlen_q=64 seqlen_k=64-128: {A64}",
        f"+[fp16 0 64] seqlen_q=64 seqlen_k=256: {B64}",
    ]
    for command in (("diff", "HEAD~1"), ("show",), ("log", "-p", "-1")):
        shown = made.git(*command, "-U0").out.splitlines()
        assert [line for line in shown if line.startswith(("+[", "-["))] == expected
    words = made.git("diff", "HEAD~1", "--word-diff", "-U0").out
    assert "BLOCK_M=64" in words


def test_the_head_of_a_hunk_names_the_functional(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.commit({B: TABLE_B.replace("256 b c d", "256 b c a")})
    (head,) = [line for line in made.git("diff", "HEAD~1", "-U0").out.splitlines() if line.startswith("@@")]
    assert head.endswith("@@ [fp16 0 64]")


def test_row_033_a_reformat_shows_nothing(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.commit({B: TABLE_B.replace("64 a*3", "64 a a*2").replace("a = 32", "\na  = 32")})
    assert "\n@@" not in made.git("diff", "HEAD~1").out


def test_one_fault_is_a_few_lines_of_a_diff(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.commit({B: TABLE_B.replace("256 b c d", "256 b c")})
    changed = [line for line in made.git("show", "-U0").out.splitlines() if line.startswith(("+", "-"))]
    assert changed[2:] == [*(f"-{line}" for line in lines(TABLE_B) if "seqlen_q=256" in line), "+256 b c"]
