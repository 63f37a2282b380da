"""Single merges with a result written by hand."""

from __future__ import annotations

import re

import pytest

from tests.build import F1, F2, TABLE_B, patch, table
from tests.merge.drawn import load, no_defaults, resolved
from txtdb.cli.merging import report_lines
from txtdb.merge import result
from txtdb.merge.conflicts import content_text
from txtdb.merge.result import Merged, merge_ancestors, merge_files
from txtdb.merge.threeway import SIDES, Three
from txtdb.syntax import print_source

FILES = Three(*SIDES)
FIRST = TABLE_B.replace("64 a*3", "64 b a*2")
LAST = TABLE_B.replace("64 a*3", "64 a*2 c")


def merge(base: str | None, ours: str, theirs: str, defaults: dict[str, str] | None = None) -> Merged:
    data = Three(base.encode() if base is not None else None, ours.encode(), theirs.encode())
    merged, faults = merge_files(data, FILES, lambda _: defaults or {})
    assert faults == ()
    assert merged is not None
    return merged


def clean(base: str | None, ours: str, theirs: str, defaults: dict[str, str] | None = None) -> str:
    """The text of a merge without conflict, the same for both sides."""
    one, other = merge(base, ours, theirs, defaults), merge(base, theirs, ours, defaults)
    assert not one.has_conflict
    assert one.text == other.text
    load(one.text)
    return one.text


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_row_034_two_cells_of_one_run() -> None:
    merged = merge(TABLE_B, FIRST, LAST)
    assert merged.text == TABLE_B.replace("64 a*3", "64 b a c")
    assert (merged.counts.ours, merged.counts.theirs, merged.counts.both) == (1, 1, 0)


def test_row_033_a_reformat_does_not_collide_with_a_change() -> None:
    reformatted = edited(TABLE_B, ("64 a*3", "64 a*1  a*2"), ("128 a b*2", "\n128 a b b"))
    assert clean(TABLE_B, reformatted, LAST) == LAST


def test_row_033_new_letters_do_not_collide_with_a_change() -> None:
    def renamed(text: str) -> str:
        other = dict(zip("abcd", "dcba", strict=True))
        return print_source(load(re.sub(r"\b[a-d]\b", lambda found: other[found[0]], text)))

    assert clean(TABLE_B, renamed(TABLE_B), LAST) == renamed(LAST)


def test_row_030_merging_what_is_the_same_changes_no_byte() -> None:
    assert clean(TABLE_B, TABLE_B, TABLE_B) == TABLE_B


def test_row_116_line_ends_are_no_change() -> None:
    assert clean(TABLE_B.replace("\n", "\r\n"), FIRST, LAST.replace("\n", "\r\n")) == clean(TABLE_B, FIRST, LAST)


def test_row_029_a_default_that_one_side_writes_out_is_no_change() -> None:
    spelled = edited(
        TABLE_B,
        ("num_stages\n", "num_stages waves_per_eu\n"),
        ("32 true 2 1", "32 true 2 1 0"),
        ("64 true 4 1", "64 true 4 1 0"),
        ("64 false 4 2", "64 false 4 2 0"),
        ("128 false 8 2", "128 false 8 2 0"),
    )
    assert clean(TABLE_B, spelled, LAST, {"waves_per_eu": "0"}) == spelled.replace("64 a*3", "64 a*2 c")


def test_row_029_without_a_default_fields_are_what_is_written() -> None:
    spelled = table("gfxB", {F1: ["64 a*3"]}, fields="BLOCK_M new", palette={"a": "32 1"})
    plain = table("gfxB", {F1: ["64 a*3"]}, fields="BLOCK_M", palette={"a": "32"})
    other = table("gfxB", {F1: ["64 a*2 b"]}, fields="BLOCK_M", palette={"a": "32", "b": "64"})
    merged = merge(plain, spelled, other)
    assert "no schema gives the missing ones a default" in merged.clash
    assert resolved(merged.text, "ours") == spelled
    assert resolved(merged.text, "theirs") == other
    assert clean(plain, spelled, plain) == spelled


def test_fields_that_both_sides_add_come_in_a_fixed_order() -> None:
    def one(fields: str, config: str) -> str:
        return table("gfxB", {F1: ["64 a*3"]}, fields=fields, palette={"a": config})

    text = clean(one("x", "1"), one("x b", "1 7"), one("x a", "1 0"), {"a": "0", "b": "7"})
    assert "#! config x a b\n\na = 1 0 7\n" in text


NEW_OURS = edited(FIRST, ("d = 128 false 8 2\n", "d = 128 false 8 2\ne = 64 true 8 1\n"), ("64 b a*2", "64 e a*2"))
NEW_THEIRS = edited(LAST, ("d = 128 false 8 2\n", "d = 128 false 8 2\ne = 32 true 8 1\n"), ("64 a*2 c", "64 a*2 e"))


def test_new_symbols_that_clash_are_ordered_by_what_they_mean() -> None:
    text = clean(TABLE_B, NEW_OURS, NEW_THEIRS)
    assert "e = 32 true 8 1\nf = 64 true 8 1\n" in text
    assert "\n64 f a e\n" in text


def test_a_new_symbol_without_clash_stays() -> None:
    ours = NEW_OURS.replace("e = 64", "g = 64").replace("64 e a*2", "64 g a*2")
    text = clean(TABLE_B, ours, NEW_THEIRS)
    assert "e = 32 true 8 1\ng = 64 true 8 1\n" in text


def test_one_config_that_both_add_gets_the_smaller_symbol() -> None:
    theirs = edited(LAST, ("d = 128 false 8 2\n", "d = 128 false 8 2\nh = 64 true 8 1\n"), ("64 a*2 c", "64 a*2 h"))
    text = clean(TABLE_B, NEW_OURS, theirs)
    assert "e = 64 true 8 1\n\n" in text
    assert "\n64 e a e\n" in text


def test_symbols_of_the_base_stay_where_one_side_gives_them_another_meaning() -> None:
    """Ours edits the entry `d` to what comes before it in rank, theirs uses the old one in one more cell."""
    ours = edited(TABLE_B, ("d = 128 false 8 2", "d = 128 false 4 2"))
    text = clean(TABLE_B, ours, edited(TABLE_B, ("64 a*3", "64 a*2 d")))
    assert "d = 128 false 8 2\ne = 128 false 4 2\n" in text
    assert "\n64 a*2 d\n" in text
    assert "\n256 b c e\n" in text


def test_an_entry_that_one_side_removed_stays_where_the_other_uses_it() -> None:
    base = edited(TABLE_B, ("d = 128 false 8 2\n", "d = 128 false 8 2\ne = 32 true 8 1\n"))
    assert clean(base, TABLE_B, base) == TABLE_B
    assert "e = 32 true 8 1\n" in clean(base, TABLE_B, edited(base, ("64 a*3", "64 a*2 e")))


def test_blocks_rows_and_cells_that_one_side_removes() -> None:
    base = table("gfxB", {F1: ["64 a*3", "128 a b*2"], F2: ["64-256 a*3"]})
    fewer = table("gfxB", {F1: ["64 a*3", "128 . b*2"]})
    other = edited(base, ("64 a*3", "64 b a*2"))
    assert clean(base, fewer, other) == edited(fewer, ("64 a*3", "64 b a*2"))


def test_a_block_removed_and_changed_conflicts_in_the_changed_cells() -> None:
    base = table("gfxB", {F1: ["64 a*3"], F2: ["64-256 a*3"]})
    changed = edited(table("gfxB", {F1: ["64 b a*2"], F2: ["64-256 a*3"]}), ("64-256 a*3", "64-128 a*3\n256 a*2 b"))
    removed = table("gfxB", {F1: ["64 a*3"]})
    merged = merge(base, removed, changed)
    assert [dict(cell.at) for cell in merged.cells] == [{"seqlen_q": 256, "seqlen_k": 256}]
    assert [content_text(content) for content in merged.cells[0].contents][1] == "nothing"
    assert "\n64 b a*2\n" in merged.text
    assert print_source(load(resolved(merged.text, "theirs"))).endswith(f"[{F2}]\n256 .*2 b\n#! end\n")
    assert F2 not in print_source(load(resolved(merged.text, "ours")))


def test_bins_that_both_sides_add() -> None:
    base = table("gfxB", {F1: ["128 a*2"]}, axes={"seqlen_q": "128", "seqlen_k": "64 256"})
    ours = table("gfxB", {F1: ["64 a*2", "128 a*2"]}, axes={"seqlen_q": "64 128", "seqlen_k": "64 256"})
    theirs = table("gfxB", {F1: ["128 a b a"]}, axes={"seqlen_q": "128", "seqlen_k": "64 128 256"})
    assert clean(base, ours, theirs) == table(
        "gfxB", {F1: ["64 a . a", "128 a b a"]}, axes={"seqlen_q": "64 128", "seqlen_k": "64 128 256"}
    )


def test_a_bin_that_one_side_removed_stays_where_the_other_set_a_cell() -> None:
    base = table("gfxB", {F1: ["64-128 a*2"]}, axes={"seqlen_q": "64 128", "seqlen_k": "64 256"})
    ours = table("gfxB", {F1: ["64 a*2"]}, axes={"seqlen_q": "64", "seqlen_k": "64 256"})
    theirs = table("gfxB", {F1: ["64-128 a*2"], F2: ["128 . b"]}, axes={"seqlen_q": "64 128", "seqlen_k": "64 256"})
    expected = table("gfxB", {F1: ["64 a*2"], F2: ["128 . b"]}, axes={"seqlen_q": "64 128", "seqlen_k": "64 256"})
    assert clean(base, ours, theirs) == expected
    assert clean(base, ours, base) == ours


def test_keys_in_another_order_are_the_same_functional() -> None:
    turned = table("gfxB", {"0 64 fp16": ["64 a*2 c", "128 a b*2", "256 b c d"]}, keys="causal head_dim dtype")
    text = clean(TABLE_B, turned, FIRST)
    assert text == turned.replace("64 a*2 c", "64 b a c")


@pytest.mark.parametrize("name", ["origin", "base", "evidence"])
def test_a_directive_that_both_changed(name: str) -> None:
    digest = "sha256:" + "0" * 63
    values = {
        "origin": ["hand x", "hand y", "measured z"],
        "base": ["gfxC", "gfxD", "gfxE"],
        "evidence": [f"run.json {digest}{n}" for n in range(3)],
    }[name]
    texts = [table("gfxB", {F1: ["64 a*3"]}, directives=[f"{name} {value}"]) for value in values]
    merged = merge(*texts)
    assert [item.identity[0] for item in merged.directives] == [name]
    assert [resolved(merged.text, side) for side in ("base", "ours", "theirs")] == texts
    assert clean(texts[0], texts[1], texts[0]) == texts[1]


def test_evidence_that_both_sides_add() -> None:
    def one(*names: str) -> str:
        return table("gfxB", {F1: ["64 a*3"]}, directives=[f"evidence {name} sha256:{'0' * 64}" for name in names])

    assert clean(one("m"), one("m", "z"), one("m", "b")) == one("m", "b", "z")
    assert clean(one("m", "n"), one("n"), one("m", "n", "b")) == one("n", "b")


def test_a_directive_that_one_removes_and_the_other_changes() -> None:
    texts = [table("gfxB", {F1: ["64 a*3"]}, directives=lines) for lines in (["origin hand"], [], ["origin hand x"])]
    merged = merge(*texts)
    assert "<<<<<<< ours\n||||||| base\n#! origin hand\n=======\n#! origin hand x\n>>>>>>> theirs\n" in merged.text
    assert [resolved(merged.text, side) for side in ("base", "ours", "theirs")] == texts


COMMENTED = """\
#! txtdb 1
# above the header
#! iface attn_fwd
#! arch gfxB
#! key dtype causal head_dim
#! axis seqlen_q 64 128 256
#! axis seqlen_k 64 128 256
#! config BLOCK_M
# below the header

# the entry
a = 32
b = 64
# below the palette

# the block
[fp16 0 64]
64 a*3
# the row
128 a*3
#! x-tool note
# below the block

# the end
#! end
"""


def test_comments_stay_where_they_are() -> None:
    ours = edited(COMMENTED, ("# the row\n128 a*3", "# the row\n128 b a*2"), ("# the entry", "# the entry, by ours"))
    theirs = edited(COMMENTED, ("64 a*3", "64 a*2 b"), ("# the block\n", "# the block\n# by theirs\n"))
    expected = edited(ours, ("64 a*3", "64 a*2 b"), ("# the block\n", "# the block\n# by theirs\n"))
    assert clean(COMMENTED, ours, theirs) == expected


def test_comments_that_both_sides_change_are_both_kept() -> None:
    ours = edited(COMMENTED, ("# the row\n", "# one\n# ours\n"))
    theirs = edited(COMMENTED, ("# the row\n", "# the row\n# theirs\n"))
    assert clean(COMMENTED, ours, theirs) == edited(COMMENTED, ("# the row\n", "# one\n# ours\n# theirs\n"))


def test_a_new_comment_outlives_what_it_stands_at() -> None:
    base = COMMENTED.replace("#! arch gfxB\n", "#! arch gfxB\n#! origin hand\n")
    ours = edited(
        base, ("#! origin hand\n", ""), ("# the row\n128 a*3\n", ""), ("a*3\n", "b*3\n"), ("# the entry\na = 32\n", "")
    )
    theirs = edited(
        base,
        ("#! origin", "# by theirs 1\n#! origin"),
        ("# the row", "# by theirs 2"),
        ("# the entry", "# by theirs 3"),
    )
    text = clean(base, ours, theirs)
    assert "# below the header\n# by theirs 1\n\n" in text
    assert "# below the palette\n# by theirs 3\n\n" in text
    assert "64 b*3\n# by theirs 2\n128 .*3\n" in text


def test_a_new_comment_keeps_the_bin_of_its_row() -> None:
    ours = edited(COMMENTED, ("# the row\n128 a*3\n", ""), ("axis seqlen_q 64 128 256", "axis seqlen_q 64 256"))
    theirs = edited(COMMENTED, ("# the row", "# the row, by theirs"))
    text = clean(COMMENTED, ours, theirs)
    assert "#! axis seqlen_q 64 128 256\n" in text
    assert "\n# the row, by theirs\n128 .*3\n" in text
    assert clean(COMMENTED, ours, COMMENTED) == ours


def test_patches_merge_alike() -> None:
    base, ours, theirs = (patch("gfxB", {F1: [row]}) for row in ("64 a*3", "64 b a*2", "64 a*2 c"))
    assert clean(base, ours, theirs) == patch("gfxB", {F1: ["64 b a c"]})


def test_files_of_directives_alone() -> None:
    base = "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n#! base gfxB\n#! end\n"
    assert clean(base, edited(base, ("gfxB", "gfxC")), edited(base, ("#! end", "#! origin hand\n#! end"))) == edited(
        base, ("gfxB\n", "gfxC\n#! origin hand\n")
    )
    with_cells = table("gfxA", {F1: ["64 a*3"]}, base="gfxB", directives=())
    assert clean(base, with_cells, edited(base, ("gfxB", "gfxC"))) == edited(with_cells, ("base gfxB", "base gfxC"))
    assert clean(with_cells, base, with_cells) == base


def test_a_file_that_both_add_has_the_cells_of_both() -> None:
    ours, theirs = table("gfxB", {F1: ["64 a*3"]}), table("gfxB", {F1: ["128 b*3"]})
    assert clean(None, ours, theirs) == table("gfxB", {F1: ["64 a*3", "128 b*3"]})
    assert clean("", ours, ours) == ours


@pytest.mark.parametrize("empty", ["ours", "theirs"])
def test_an_empty_side_is_no_version_for_an_ancestor_either(empty: str) -> None:
    base, other = TABLE_B.encode(), LAST.encode()
    data: Three[bytes | None] = Three(base, *((b"", other) if empty == "ours" else (other, b"")))
    merged, faults = merge_files(data, FILES, no_defaults)
    assert merged is None
    assert [(fault.rule, fault.span.file) for fault in faults] == [("no-magic", empty)]
    assert merge_ancestors(data, no_defaults) is None


@pytest.mark.parametrize("wrong", [("#! arch gfxB\n", ""), ("#! arch gfxB", "#! arch gfxA"), ("#! end\n", "")])
def test_a_clean_result_that_lost_its_identity_or_its_end_is_never_given(
    monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, str]
) -> None:
    broken = edited(FIRST, wrong)
    monkeypatch.setattr(result, "marked_text", lambda plan: broken)
    with pytest.raises(AssertionError, match="same identity"):
        merge(TABLE_B, FIRST, LAST)


@pytest.mark.parametrize(
    ("reason", "theirs"),
    [
        ("kinds of file", FIRST.replace("#! txtdb", "#! dbpatch")),
        ("keys", edited(FIRST, ("head_dim", "dim"))),
        ("axes", edited(FIRST, ("axis seqlen_k", "axis seqlen_v"))),
    ],
)
def test_versions_that_cannot_be_laid_over_each_other(reason: str, theirs: str) -> None:
    data: Three[bytes | None] = Three(TABLE_B.encode(), LAST.encode(), theirs.encode())
    merged, _ = merge_files(data, FILES, no_defaults)
    assert merged is not None
    assert reason in merged.clash
    assert [resolved(merged.text, side) for side in ("ours", "theirs")] == [LAST, theirs]
    assert clean(TABLE_B, TABLE_B, theirs) == clean(TABLE_B, theirs, theirs) == theirs
    assert merge_ancestors(data, no_defaults) == TABLE_B


def test_a_grid_that_no_memory_holds_is_not_made() -> None:
    def one(first: int) -> str:
        bins = " ".join(str(first + 3 * n) for n in range(40))
        axes = dict.fromkeys(("seqlen_q", "seqlen_k", "z", "w"), bins)
        return table("gfxB", {F1: [f"{first},{first},{first} a .*39"]}, axes=axes)

    assert "a file has at most" in merge(one(1), one(2), one(3)).clash


def test_a_conflict_is_written_as_git_writes_it() -> None:
    ours = edited(FIRST, ("origin hand test", "origin measured run-1"))
    theirs = edited(TABLE_B, ("64 a*3", "64 c a b"))
    assert merge(TABLE_B, ours, theirs).text == edited(
        TABLE_B,
        ("origin hand test", "origin measured run-1"),
        (
            "64 a*3\n",
            "<<<<<<< ours\n"
            "64 b a b\n"
            "||||||| base\n"
            "# seqlen_q=64 seqlen_k=64\n"
            "#   base    BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1 (origin hand test)\n"
            "#   ours    BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1 (origin measured run-1)\n"
            "#   theirs  BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2 (origin hand test)\n"
            "64 a*2 b\n"
            "=======\n"
            "64 c a b\n"
            ">>>>>>> theirs\n",
        ),
    )


def test_rows_in_conflict_make_one_hunk_and_equal_ones_a_range() -> None:
    base, ours, theirs = (
        table("gfxB", {F1: rows}) for rows in (["64-256 a*3"], ["64-256 b*3"], ["64-128 c*3", "256 d*3"])
    )
    text = merge(base, ours, theirs).text
    hunk = [line for line in text[text.index("<<<<<<<") :].splitlines() if line[0] != "#"]
    assert hunk == [
        "<<<<<<< ours",
        "64-256 b*3",
        "||||||| base",
        "64-256 a*3",
        "=======",
        "64-128 c*3",
        "256 d*3",
        ">>>>>>> theirs",
    ]
    assert "# seqlen_q=64 seqlen_k=64-256\n" in text


def test_a_hunk_ends_where_the_range_does_and_where_a_comment_stands() -> None:
    axes = {"x": "1 2", "seqlen_q": "64 128", "seqlen_k": "64"}
    rows = ("1,64-128 {0}", "2,64 {0}", "# note", "2,128 {0}")
    texts = [table("gfxB", {F1: [row.format(symbol) for row in rows]}, axes=axes) for symbol in "abc"]
    merged = merge(*texts)
    assert merged.text.count("<<<<<<<") == 3
    assert "# note\n<<<<<<< ours\n2,128 b\n" in merged.text
    for side, text in zip(SIDES, texts, strict=True):
        assert blocks(resolved(merged.text, side)) == blocks(text)


def blocks(text: str) -> str:
    """What stands below the palette, canonical, without the explanations."""
    plain = "".join(line for line in text.splitlines(keepends=True) if not re.match(r"#   |# x=", line))
    return print_source(load(plain)).partition("\n\n[")[2]


def test_evidence_is_named_in_a_conflict_and_decides_nothing() -> None:
    """The times in the evidence of either side may be anything: they come from runs that cannot be compared."""
    digests = [f"sha256:{digit * 64}" for digit in "123"]
    base, ours, theirs = (
        edited(text, ("origin hand test", f"origin measured run\n#! evidence {name}.json {digest}"))
        for text, name, digest in zip(
            (TABLE_B, FIRST, TABLE_B.replace("64 a*3", "64 c a*2")), "xyz", digests, strict=True
        )
    )
    merged = merge(base, ours, theirs)
    assert len(merged.cells) == 1
    assert f"(evidence y.json {digests[1][:19]})\n" in merged.text
    assert merged.origins.theirs == f"origin measured run; evidence z.json {digests[2][:19]}"


def test_a_conflict_does_not_repeat_what_all_versions_say_of_their_origin() -> None:
    run, mixed = f"#! evidence run.json sha256:{'1' * 64}", "origin hand mixed: hand a; measured b"
    base, theirs = (
        edited(text, ("origin hand test", f"{mixed}\n{run}"))
        for text in (TABLE_B, TABLE_B.replace("64 a*3", "64 c a*2"))
    )
    ours = edited(FIRST, ("origin hand test", f"{mixed}; measured c\n{run}"))
    merged = merge(base, ours, theirs)
    assert f"#   base    BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1 ({mixed})\n" in merged.text
    assert f"#   ours    BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1 ({mixed}; measured c)\n" in merged.text
    lines = list(report_lines(merged, "out"))
    own = f"{mixed}; measured c"
    assert [line.rpartition("(")[2] for line in lines[-3:]] == [
        f"{side}:17:4; {origin})" for side, origin in (("base", mixed), ("ours", own), ("theirs", mixed))
    ]
    same = merge(*(text.replace("; measured c", "") for text in (base, ours, theirs)))
    assert "num_stages=1\n#   ours" in same.text
    assert merged.origins.ours == f"{mixed}; measured c; evidence run.json sha256:{'1' * 12}"


def test_spans_point_into_the_files_as_they_are_written() -> None:
    theirs = edited(TABLE_B, ("64 a*3", "\n\n64  c  a*2"))
    (cell,) = merge(TABLE_B, FIRST, theirs).cells
    assert [str(span) for span in cell.spans] == ["base:16:4", "ours:16:4", "theirs:18:5"]


def test_row_035_a_version_with_conflict_markers_is_not_merged() -> None:
    marked = edited(FIRST, ("64 b a*2", "<<<<<<< ours\n64 b a*2\n=======\n64 c a*2\n>>>>>>> theirs"))
    data: Three[bytes | None] = Three(TABLE_B.encode(), marked.encode(), LAST.encode())
    merged, faults = merge_files(data, FILES, no_defaults)
    assert merged is None
    assert ("conflict-marker", "ours", 16) in [(fault.rule, fault.span.file, fault.span.line) for fault in faults]
    assert merge_ancestors(data, no_defaults) is None
