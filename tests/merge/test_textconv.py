"""What git compares in place of the text: configs written out."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given

from tests.build import F1, S0, TABLE_B, table
from tests.merge.drawn import Drawn, drawn, spelled
from tests.merge.repository import make_repository
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


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"no table\r\n",
        TABLE_B.replace("256 b c d", "256 b c").encode(),
        TABLE_B.replace("64 a*3", "<<<<<<< ours\n64 a*3").encode(),
        TABLE_B.replace("#! end\n", "").encode(),
    ],
    ids=["empty", "binary", "text", "short row", "conflict", "truncated"],
)
def test_what_cannot_be_read_is_shown_as_it_is(data: bytes, tmp_path: Path) -> None:
    assert expanded(data) == data
    (tmp_path / "file").write_bytes(data)
    ran = CliRunner().invoke(main, ["git", "textconv", str(tmp_path / "file")])
    assert (ran.exit_code, ran.stdout_bytes) == (0, data)


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


def test_a_broken_version_is_shown_as_it_is(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.commit({B: TABLE_B.replace("256 b c d", "256 b c")})
    assert "+256 b c\n" in made.git("show").out
