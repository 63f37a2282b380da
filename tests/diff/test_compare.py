"""What `txtdb diff` finds in two folders: cells and facts, whatever the letters did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import ARCHS, F1, F2, PALETTE, SCHEMA, TABLE_B, make_db, patch, table
from tests.cli.run import run
from txtdb.diff.compare import compare
from txtdb.diff.edits import DatabaseDiff, EditKind
from txtdb.diff.sides import open_side

B = "gfxB/attn_fwd.txtdb"
A = "gfxA/attn_fwd.txtdb"
P = "gfxB/attn_fwd.0010-x.dbpatch"

Files = dict[str, str | None]


def diff(tmp_path: Path, old: Files, new: Files, effect: bool = False) -> DatabaseDiff:
    """The difference of two changed copies of S0; it must be free of faults."""
    roots = make_db(tmp_path, old, "old"), make_db(tmp_path, new, "new")
    with open_side(str(roots[0]), Path()) as before, open_side(str(roots[1]), Path()) as after:
        found, faults = compare(before, after, effect)
    assert not faults
    return found


def edited(old: str, new: str) -> Files:
    """gfxB's table with one piece of text replaced."""
    assert TABLE_B.count(old) == 1, old
    return {B: TABLE_B.replace(old, new)}


def cells(found: DatabaseDiff) -> list[tuple[str, tuple[int, ...], str]]:
    """(arch, bins, kind) of each edit."""
    return [(edit.arch, edit.bins, str(edit.kind)) for edit in found.cells]


def test_the_same_is_empty(tmp_path: Path) -> None:
    assert not diff(tmp_path, {}, {})


def test_a_changed_cell_has_configs_places_and_sources_of_both_sides(tmp_path: Path) -> None:
    [edit] = diff(tmp_path, {}, edited("128 a b*2", "128 a d b")).cells
    assert (edit.arch, edit.iface, edit.functional, edit.bins) == ("gfxB", "attn_fwd", ("fp16", 0, 64), (128, 128))
    assert edit.kind is EditKind.CHANGED
    config = {"BLOCK_M": 64, "PRE_LOAD_V": True, "num_warps": 4, "num_stages": 1, "waves_per_eu": 0}
    assert isinstance(edit.old, tuple)
    assert isinstance(edit.new, tuple)
    assert dict(edit.old) == config
    assert dict(edit.new) == config | {"BLOCK_M": 128, "PRE_LOAD_V": False, "num_warps": 8, "num_stages": 2}
    assert edit.old_span is not None
    assert edit.new_span is not None
    rows = TABLE_B.splitlines()
    line = rows.index("128 a b*2") + 1
    assert (edit.old_span.line, edit.old_span.column, edit.old_span.last_column) == (line, 7, 9)
    assert (edit.new_span.line, edit.new_span.column, edit.new_span.last_column) == (line, 7, 7)
    assert edit.old_span.file == f"{tmp_path}/old/{B}"
    assert edit.new_source is not None
    assert edit.new_source.origin == "hand test"


def test_added_removed_and_masked_cells(tmp_path: Path) -> None:
    before = edited("128 a b*2", "128 a . -")
    after = edited("128 a b*2", "128 . a .")
    found = diff(tmp_path, before, after)
    assert cells(found) == [
        ("gfxB", (128, 64), "removed"),
        ("gfxB", (128, 128), "added"),
        ("gfxB", (128, 256), "removed"),
    ]
    assert [edit.old for edit in found.cells][2] == "-"


def test_without_effect_only_the_arch_that_changed_is_told(tmp_path: Path) -> None:
    assert {edit.arch for edit in diff(tmp_path, {}, edited("64 a*3", "64 a*2 b")).cells} == {"gfxB"}


def test_with_effect_every_heir_that_gets_the_cell_is_told(tmp_path: Path) -> None:
    found = diff(tmp_path, {}, edited("64 a*3", "64 a*2 b"), effect=True)
    assert cells(found) == [("gfxA", (64, 256), "changed"), ("gfxB", (64, 256), "changed")]
    assert {str(edit.new_span).rpartition("/new/")[2].partition(":")[0] for edit in found.cells} == {B}


def test_with_effect_an_heir_with_a_cell_of_its_own_is_not_told(tmp_path: Path) -> None:
    own: Files = {A: table("gfxA", {F1: ["64 . . c"], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    found = diff(tmp_path, own, own | edited("64 a*3", "64 a*2 b"), effect=True)
    assert cells(found) == [("gfxB", (64, 256), "changed")]


def test_with_effect_a_pin_hides_a_change_below_it(tmp_path: Path) -> None:
    pins: Files = {
        "gfxB/pins.toml": '[[pin]]\niface = "attn_fwd"\nfunctional = { dtype = "fp16", causal = 0, head_dim = 64 }\n'
        "at = { seqlen_q = 64, seqlen_k = 256 }\n"
        "config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }\n"
        'reason = "a test"\nuntil = 2030-01-01\n'
    }
    assert not diff(tmp_path, pins, pins | edited("64 a*3", "64 a*2 d"), effect=True).cells


def test_with_effect_a_new_bin_is_a_difference_where_lookups_change(tmp_path: Path) -> None:
    """Worked by hand: a patch at 96 takes 65 to 96 from the 128 column of its row, and leaves 97 to 128 alone.

    The functional that gfxA has by itself gets a hole there: its base, which has the bin now, has no such functional.
    """
    axes = {"seqlen_q": "64", "seqlen_k": "96"}
    found = diff(tmp_path, {}, {P: patch("gfxB", {F1: ["64 d"]}, axes=axes)}, effect=True)
    assert cells(found) == [
        ("gfxA", (64, 96), "changed"),
        ("gfxA", (64, 96), "removed"),
        ("gfxA", (128, 96), "removed"),
        ("gfxA", (256, 96), "removed"),
        ("gfxB", (64, 96), "changed"),
    ]


def test_with_effect_a_bin_that_takes_lookups_away_is_a_difference(tmp_path: Path) -> None:
    """An own table that names 300 and sets nothing there makes a hole of what 256 to 300 had from above."""
    axes = {"seqlen_q": "64 128 256", "seqlen_k": "64 128 256 300 512"}
    rows = ["64 a*3 . a", "128 a b*2 . b", "256 b c d . d"]
    wide = table("gfxB", {F1: rows}, axes=axes)
    narrow = table("gfxB", {F1: ["64 a*4", "128 a b*3", "256 b c d*2"]}, axes=axes | {"seqlen_k": "64 128 256 512"})
    found = diff(tmp_path, {B: narrow}, {B: wide}, effect=True)
    assert {(edit.bins[1], str(edit.kind)) for edit in found.cells} == {(300, "removed")}


def test_row_033_runs_written_otherwise_are_no_difference(tmp_path: Path) -> None:
    assert not diff(tmp_path, {}, edited("64 a*3", "64 a a*2"))


def test_re_encoding_alone_is_no_difference(tmp_path: Path) -> None:
    """Other symbols, key order, field order, block order, ranges taken apart, comments, blank lines."""
    other = """\
#! txtdb 1
# the same
#! arch gfxB
#! iface attn_fwd
#! origin hand test
#! key head_dim dtype causal
#! axis seqlen_q 64 128 256
#! axis seqlen_k 64 128 256
#! config num_stages waves_per_eu BLOCK_M PRE_LOAD_V num_warps
z = 1 0 32 true 2
b = 1 0 64 true 4

y = 2 0 64 false 4
A = 2 0 128 false 8
[64 fp16 0]
64 z z z
128 z*1 b*2
# here
256 b y A
#! end
"""
    assert not diff(tmp_path, {}, {B: other})


def test_row_029_a_field_written_at_its_default_is_no_difference(tmp_path: Path) -> None:
    fields = "BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu"
    written = {symbol: f"{config} 0" for symbol, config in PALETTE.items()}
    spelled = table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"]}, fields=fields, palette=written)
    assert not diff(tmp_path, {}, {B: spelled})


def test_row_029_a_new_field_of_the_schema_is_told_once_and_changes_no_cell(tmp_path: Path) -> None:
    field = '[[config]]\nname = "waves_per_eu"\ntype = "int"\nmin = 0\nmax = 4\ndefault = 0\n'
    before = SCHEMA.replace(field, "")
    assert before != SCHEMA
    repeats = patch(
        "gfxB",
        {F1: ["64 a . ."]},
        fields="BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu",
        palette={"a": "32 true 2 1 0"},
    )
    found = diff(tmp_path, {"schema/attn_fwd.toml": before}, {P: repeats})
    assert not found.cells
    assert [(fact.part, fact.path) for fact in found.facts if fact.part != "header"] == [
        ("file", ""),
        ("schema", "config.waves_per_eu"),
    ]


def test_a_new_field_stands_at_its_default_in_the_old_config(tmp_path: Path) -> None:
    field = '[[config]]\nname = "waves_per_eu"\ntype = "int"\nmin = 0\nmax = 4\ndefault = 0\n'
    before: Files = {"schema/attn_fwd.toml": SCHEMA.replace(field, "")}
    make_db(tmp_path, before, "old")
    make_db(tmp_path, edited("64 a*3", "64 a*2 b"), "new")
    out = run("diff", tmp_path / "old", tmp_path / "new").out
    assert "BLOCK_M 32→64, num_warps 2→4" in out
    assert "waves_per_eu" not in out.partition("schema")[0]


def test_a_bool_is_not_the_int_that_python_takes_it_for(tmp_path: Path) -> None:
    """PRE_LOAD_V becomes an int: every cell has another config now, although True == 1."""
    ints = SCHEMA.replace('name = "PRE_LOAD_V"\ntype = "bool"', 'name = "PRE_LOAD_V"\ntype = "int"\nvalues = [0, 1]')
    palette = {s: c.replace("true", "1").replace("false", "0") for s, c in PALETTE.items()}
    new = {
        "schema/attn_fwd.toml": ints,
        B: table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"]}, palette=palette),
        A: table("gfxA", {F2: ["64-128 b*3", "256 c*2 d"]}, palette=palette, base="gfxB"),
    }
    assert len(diff(tmp_path, {}, new).cells) == 18


def test_row_100_a_new_config_at_the_top_of_the_palette_is_one_added_config(tmp_path: Path) -> None:
    config = "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n\n"
    found = diff(tmp_path, {}, edited(config, config + "e = 64 true 8 1\n"))
    assert not found.cells
    [fact] = found.facts
    assert (fact.part, fact.file, fact.old) == ("palette", B, None)
    assert fact.new == "BLOCK_M=64 PRE_LOAD_V=true num_stages=1 num_warps=8"


def test_a_config_that_a_cell_takes_up_is_told_by_the_cell(tmp_path: Path) -> None:
    found = diff(tmp_path, {}, edited("d = 128 false 8 2", "d = 128 false 8 2\ne = 64 true 8 1") | edited_row())
    assert not [fact for fact in found.facts if fact.part == "palette"]


def edited_row() -> Files:
    text = TABLE_B.replace("d = 128 false 8 2", "d = 128 false 8 2\ne = 64 true 8 1").replace("64 a*3", "64 a*2 e")
    return {B: text}


def test_row_116_line_ends_are_no_difference(tmp_path: Path) -> None:
    mixed = TABLE_B.replace("\n", "\r\n", 5)
    for text in (TABLE_B.replace("\n", "\r\n"), mixed):
        crlf = {
            name: content.replace("\n", "\r\n")
            for name, content in (("archs.toml", ARCHS), ("schema/attn_fwd.toml", SCHEMA))
        }
        assert not diff(tmp_path, {}, {B: text, **crlf})


def test_row_036_counts_by_functional_with_configs_evidence_and_exit_codes(tmp_path: Path) -> None:
    """2 changed, 1 added, 1 removed."""
    old = make_db(tmp_path, edited("128 a b*2", "128 . b*2"), "old")
    digest = "sha256:" + "0" * 64
    text = TABLE_B.replace("#! origin hand test", f"#! origin measured run-2\n#! evidence run-2.json {digest}")
    text = text.replace("64 a*3", "64 b a .").replace("256 b c d", "256 b c c")
    new = make_db(tmp_path, {B: text}, "new")
    done = run("diff", old, new)
    assert done.code == 1
    assert "dtype=fp16 causal=0 head_dim=64: 2 changed, 1 added, 1 removed" in done.out
    assert "~ seqlen_q=64 seqlen_k=64: BLOCK_M 32→64, num_warps 2→4" in done.out
    assert "- seqlen_q=64 seqlen_k=256: BLOCK_M=32" in done.out
    assert "+ seqlen_q=128 seqlen_k=64: BLOCK_M=32" in done.out
    assert f"new: 3 cells of {new}/{B}, measured run-2, evidence run-2.json" in done.out
    assert f"old: 3 cells of {old}/{B}, hand test" in done.out
    assert f"header {B} evidence: added: run-2.json {digest}" in done.out
    summary = run("diff", old, new, "--format", "json").json["summary"]
    assert summary == [
        {
            "arch": "gfxB",
            "iface": "attn_fwd",
            "functional": {"dtype": "fp16", "causal": 0, "head_dim": 64},
            "changed": 2,
            "added": 1,
            "removed": 1,
        }
    ]
    assert run("diff", old, old).code == 0
    assert run("diff", old, tmp_path / "absent").code == 2


def test_row_037_a_broken_row_is_an_error(tmp_path: Path) -> None:
    old, new = make_db(tmp_path, {}, "old"), make_db(tmp_path, edited("128 a b*2", "128 a b"), "new")
    done = run("diff", old, new)
    assert done.code == 2
    assert "[row-too-short]" in done.err
    assert not done.out


def test_an_illegal_config_is_shown_all_the_same(tmp_path: Path) -> None:
    """A review of the change that mends it must be possible."""
    old, new = make_db(tmp_path, edited("a = 32 true", "a = 100 true"), "old"), make_db(tmp_path, {}, "new")
    done = run("diff", old, new)
    assert done.code == 1
    assert "BLOCK_M 100→32" in done.out


def test_a_new_arch_and_a_new_interface_are_all_added(tmp_path: Path) -> None:
    archs = ARCHS.replace("[arch.gfxA]\n", "").replace("compute_units = 304\n", "", 1)
    before: Files = {A: None, "archs.toml": archs, "schema/attn_fwd.toml": SCHEMA}
    found = diff(tmp_path, before, {})
    assert {(edit.arch, str(edit.kind)) for edit in found.cells} == {("gfxA", "added")}
    assert len(found.cells) == 9


def test_an_arch_that_leaves_archs_toml_is_removed_with_its_cells(tmp_path: Path) -> None:
    archs = ARCHS.replace("[arch.gfxA]\n", "").replace("compute_units = 304\n", "", 1)
    found = diff(tmp_path, {}, {"archs.toml": archs})
    assert {(edit.arch, str(edit.kind)) for edit in found.cells} == {("gfxA", "removed")}


def test_a_table_whose_keys_changed_is_one_fact(tmp_path: Path) -> None:
    schema = SCHEMA.replace(
        '[[axis]]\nname = "seqlen_q"', '[[key]]\nname = "bias"\ntype = "bool"\n[[axis]]\nname = "seqlen_q"'
    )
    blocks = {f"{F1} false": ["64 a*3", "128 a b*2", "256 b c d"]}
    new: Files = {
        "schema/attn_fwd.toml": schema,
        B: table("gfxB", blocks, keys="dtype causal head_dim bias"),
        A: table("gfxA", {f"{F2} true": ["64-256 b*3"]}, keys="dtype causal head_dim bias", base="gfxB"),
    }
    found = diff(tmp_path, {}, new)
    assert not found.cells
    facts = [fact for fact in found.facts if fact.part == "table"]
    assert [fact.file for fact in facts] == ["gfxA/attn_fwd", "gfxB/attn_fwd"]
    assert facts[0].new is not None
    assert "bias (bool)" in facts[0].new


def test_keys_are_matched_by_name(tmp_path: Path) -> None:
    """The schema names them in another order; the files are as they were."""
    key = '[[key]]\nname = "head_dim"\ntype = "int"\nvalues = [64, 128]\n'
    schema = SCHEMA.replace(key, "").replace('[[key]]\nname = "dtype"', key + '[[key]]\nname = "dtype"')
    found = diff(tmp_path, {}, {"schema/attn_fwd.toml": schema} | edited("64 a*3", "64 a*2 b"))
    assert [(edit.functional, edit.bins) for edit in found.cells] == [((64, "fp16", 0), (64, 256))]


@pytest.mark.parametrize("style", ["text", "json", "markdown"])
def test_every_form_has_the_change(tmp_path: Path, style: str) -> None:
    old, new = make_db(tmp_path, {}, "old"), make_db(tmp_path, edited("64 a*3", "64 b*3"), "new")
    done = run("diff", old, new, "--format", style)
    assert done.code == 1
    if style == "json":
        assert [cell["at"] for cell in done.json["cells"]] == [[64, 64], [64, 128], [64, 256]]
        assert done.json["cells"][0]["new_source"]["origin"] == "hand test"
    else:
        assert "seqlen_q=64 seqlen_k=64..256" in done.out
        assert "BLOCK_M 32→64, num_warps 2→4" in done.out
    assert "(3 cells)" in done.out or style == "json"


def test_effect_in_text_tells_heirs_in_one_line(tmp_path: Path) -> None:
    old, new = make_db(tmp_path, {}, "old"), make_db(tmp_path, edited("64 a*3", "64 b*3"), "new")
    out = run("diff", old, new, "--effect").out
    assert out.count("BLOCK_M 32→64") == 1
    assert "gfxB attn_fwd: 3 changed\n  also in gfxA" in out
    assert "6 cells (6 changed) in 2 archs" in out


def test_markdown_escapes_what_would_break_its_table(tmp_path: Path) -> None:
    old = make_db(tmp_path, {}, "old")
    new = make_db(tmp_path, edited("#! origin hand test", "#! origin hand a|b <b>*x*</b>"), "new")
    out = run("diff", old, new, "--format", "markdown").out
    assert "hand a\\|b \\<b\\>\\*x\\*\\</b\\>" in out


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    old, new = make_db(tmp_path, {}, "old"), make_db(tmp_path, {B: None}, "new")
    (new / B).parent.mkdir()
    (new / B).symlink_to("nowhere")
    done = run("diff", old, new)
    assert done.code == 2
    assert "[unreadable]" in done.err


def test_a_read_only_tree_is_enough(tmp_path: Path) -> None:
    old, new = make_db(tmp_path, {}, "old"), make_db(tmp_path, edited("64 a*3", "64 b*3"), "new")
    before = sorted((path.as_posix(), path.stat().st_mtime_ns) for path in new.rglob("*"))
    for path in (*new.rglob("*"), new):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert run("diff", old, new, "--effect").code == 1
    assert sorted((path.as_posix(), path.stat().st_mtime_ns) for path in new.rglob("*")) == before
