"""The Markdown form: what it says, that its length is bounded, and that texts of a database are no markup."""

from __future__ import annotations

import re

import pytest

from tests.build import ARCHS, F1, F2, SCHEMA, table
from tests.review.cases import TABLE_A, gain, make_review, measured
from tests.review.hostile import hostile_files
from txtdb.review.markdown import MAX_CHARACTERS, as_markdown, code


def test_a_review_as_a_comment(tmp_path):
    cells = [gain((64, 64), 12.5, 2), gain((64, 128), 1, 2)]
    text = as_markdown(make_review(tmp_path, {}, measured(cells, ("64 b b .", "128 x . ."))))
    lines = text.splitlines()
    assert "**3 cells: 3 changed; in 1 functional of 1 table; 1 more arch changes with them.**" in lines
    assert "| `gfxB` | `attn_fwd` | 1 | 3 | 0 | 0 | +6.8 % (+1.0 … +12.5), 2 of 3 cells | `gfxA` |" in lines
    where = "`dtype=fp16 causal=0 head_dim=64` | `seqlen_q=64 seqlen_k=64..128` | `BLOCK_M 32→64, num_warps 2→4`"
    assert f"| {where} | +6.8 % (+1.0 … +12.5), 2 of 2 cells | `within-noise` `inherited` |" in lines
    assert "- `illegal` 1 (the schema forbids this config here, or its back end has no kernel to launch)" in lines
    assert "left out" not in text


def test_functionals_that_change_alike_share_a_line(tmp_path):
    def child(first: list[str], second: list[str]) -> dict[str, str]:
        return {TABLE_A: table("gfxA", {F1: first, F2: second}, base="gfxB")}

    quiet, loud = ["64 b . .", "128-256 . . ."], ["64 d . .", "128-256 . . ."]
    low, high = ["64-128 b*3", "256 c*2 d"], ["64 d b*2", "128 b*3", "256 c*2 d"]
    alike = as_markdown(make_review(tmp_path / "alike", child(quiet, low), child(loud, high)))
    assert "`dtype=fp16 causal=0 head_dim=64` and 1 more functional " in alike
    opposite = as_markdown(make_review(tmp_path / "opposite", child(loud, low), child(quiet, high)))
    assert "more functional" not in opposite


@pytest.fixture(scope="module")
def big_review(tmp_path_factory):
    """More changes than a comment holds: 60 archs of 9 cells, each with another config."""
    names = [f"gfxM{number}" for number in range(60)]
    palette = {
        f"{letter}": f"{m} {p} {w} {s}"
        for letter, (m, p, w, s) in zip(
            "abcdefghijkl",
            ((m, p, w, s) for m in (32, 64) for p in ("true", "false") for w in (1, 2, 4) for s in (1,)),
            strict=True,
        )
    }
    files = {
        "archs.toml": ARCHS + "".join(f"[arch.{name}]\n" for name in names),
        "schema/attn_fwd.toml": SCHEMA + "".join(f'[arch.{name}]\nlike = "gfxB"\n' for name in names),
    }
    old = {**files, **{f"{n}/attn_fwd.txtdb": table(n, {F1: ["64-256 a*3"]}, palette=palette) for n in names}}
    rows = ["64 b c d", "128 e f g", "256 h i j"]
    new = {**files, **{f"{n}/attn_fwd.txtdb": table(n, {F1: rows}, palette=palette) for n in names}}
    return make_review(tmp_path_factory.mktemp("big"), old, new)


def test_the_length_is_bounded_and_the_rest_counted(big_review):
    text = as_markdown(big_review)
    assert len(text) <= MAX_CHARACTERS
    rows = [line for line in text.splitlines() if line.startswith("| `dtype")]
    left_out = int(re.search(r"([\d,]+) cells of 540 left out here for length", text)[1])
    assert len(rows) + left_out == len(big_review.cells) == 540
    assert all(f"### `{item.arch}`" in text for item in big_review.tables)


@pytest.mark.parametrize("limit", [200, 2_000, 9_000, 25_000])
def test_any_bound_holds(big_review, limit):
    assert len(as_markdown(big_review, limit)) <= limit + 200


def test_hostile_texts_stand_in_code_spans(tmp_path):
    text = as_markdown(make_review(tmp_path, {}, hostile_files()))
    for line in text.splitlines():
        outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        assert not re.search(r"<|@everyone|\]\(|\$\{", outside), line
        if line.startswith("|"):
            assert not re.search(r"(?<!\\)\|pipe", line)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a", "`a`"),
        ("", ""),
        (" \n ", ""),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        ("a|b", "`a\\|b`"),
        ("a\nb\x1bc\u2028d", "`a b c d`"),
        ("x" * 300, f"`{'x' * 200}…`"),
    ],
)
def test_code_spans(text, span):
    assert code(text) == span
