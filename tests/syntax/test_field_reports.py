"""Rows of the list of public reports about tuning databases: those about reading one file."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

import txtdb
from tests.build import F1, IFACE, S0, TABLE_B, config_values, make_db, patch, table
from txtdb.faults import Fault
from txtdb.model.values import ValueType
from txtdb.syntax import print_source, read


def faults(root: Path, arch: str = "gfxB") -> tuple[Fault, ...]:
    database = txtdb.open_database(root)
    return (*database.faults, *database.resolve(arch, IFACE).faults)


def told(root: Path) -> list[tuple[str, int, str]]:
    return [(fault.rule, fault.span.line, fault.message) for fault in faults(root)]


def fmt(text: str) -> str:
    source, found = read(text.encode(), "gfxB/attn_fwd.txtdb")
    assert found == []
    assert source is not None
    return print_source(source)


def cells(root: Path) -> list[object]:
    resolved = txtdb.load(root)["gfxB"][IFACE]
    return [config_values(resolved, number) for number in resolved.cells.ravel().tolist()]


TWO_BLOCKS = table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"], "fp16 1 64": ["64-256 a*3"]})


def test_row_001_a_line_of_blanks_is_an_empty_line(tmp_path: Path) -> None:
    text = TWO_BLOCKS.replace("256 b c d\n\n[", "256 b c d\n  \n[")
    assert text != TWO_BLOCKS
    assert fmt(text) == fmt(TWO_BLOCKS) == TWO_BLOCKS
    plain, blank = (make_db(tmp_path, {"gfxB/attn_fwd.txtdb": t}, n) for n, t in (("p", TWO_BLOCKS), ("b", text)))
    assert cells(plain) == cells(blank)
    # A diagnostic near it names its own line, not the end of the file.
    line = TWO_BLOCKS.split("\n").index("256 b c d") + 1
    bad = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text.replace("256 b c d\n  \n", "256 b c d\n  ?\n")}, "bad")
    assert [(rule, at) for rule, at, _ in told(bad)] == [("indented", line + 1)]


def test_row_003_comments_inside_a_record_are_legal_and_stay(tmp_path: Path) -> None:
    text = TABLE_B.replace(f"[{F1}]\n", f"[{F1}]\n# measured twice\n").replace("128 a", "# noisy\n128 a")
    assert text.count("#") == TABLE_B.count("#") + 2
    assert fmt(text) == text
    assert cells(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}, "c")) == cells(make_db(tmp_path))


# Every field of S0's schema with values of every kind; whether it may stand there by the schema.
VALUES = ("0", "1", "2", "4", "5", "8", "9", "32", "128", "129", "true", "false", "True", "-1", "4.0", "fp16")
FIELDS = {"BLOCK_M": "32", "PRE_LOAD_V": "true", "num_warps": "2", "num_stages": "1", "waves_per_eu": "0"}


@pytest.mark.parametrize(("field", "value"), list(product(FIELDS, VALUES)))
def test_row_004_loader_and_schema_agree(tmp_path: Path, field: str, value: str) -> None:
    """The verdict of loading a table and that of the declared domain are the same for every value."""
    config = {**FIELDS, field: value}
    text = table("gfxB", {F1: ["64-256 a*3"]}, fields=" ".join(config), palette={"a": " ".join(config.values())})
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text})
    item = next(item for item in txtdb.load(root).schemas[IFACE].config if item.name == field)
    typed: object = {"true": True, "false": False}.get(value, int(value) if value.lstrip("-").isdigit() else value)
    fits = type(typed) is (bool if item.type is ValueType.BOOL else int) and item.admits(typed)
    assert bool(faults(root)) == (not fits)


def test_row_005_a_block_without_cells_is_an_error_and_nothing_of_its_patch_applies(tmp_path: Path) -> None:
    text = patch("gfxB", {F1: ["64 d . ."], "fp16 1 64": []})
    line = text.split("\n").index("[fp16 1 64]") + 1
    root = make_db(tmp_path, {"gfxB/attn_fwd.0020-x.dbpatch": text})
    assert told(root) == [("empty-block", line, "[fp16 1 64] has no rows")]
    with pytest.raises(txtdb.FaultError, match=rf"attn_fwd.0020-x.dbpatch:{line}:1: error: \[fp16 1 64\] has no rows"):
        txtdb.load(root)["gfxB"][IFACE]
    with pytest.raises(txtdb.FaultError, match="has no rows"):
        txtdb.load(root)["gfxA"][IFACE]


def test_row_007_types_are_kept_apart(tmp_path: Path) -> None:
    """0 for a bool, true and 4.0 for an int: three errors with the expected and the found type."""
    text = TABLE_B.replace("a = 32 true 2 1", "a = 32 0 4.0 true")
    assert [message for _, _, message in told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))] == [
        "PRE_LOAD_V: expected bool, found int `0`",
        "num_warps: expected int, found float `4.0`",
        "num_stages: expected int, found bool `true`",
    ]


def test_row_007_values_have_the_types_of_the_schema(tmp_path: Path) -> None:
    resolved = txtdb.load(make_db(tmp_path))["gfxB"][IFACE]
    answer = resolved.lookup(dtype="fp16", causal=0, head_dim=64, seqlen_q=64, seqlen_k=64)
    assert isinstance(answer, txtdb.Config)
    assert {name: type(value) for name, value in answer.items()} == {
        "BLOCK_M": int,
        "PRE_LOAD_V": bool,
        "num_warps": int,
        "num_stages": int,
        "waves_per_eu": int,
    }


def test_row_008_a_key_more_than_the_schema_has(tmp_path: Path) -> None:
    """The field is named, also when only the block has a value more."""
    text = table("gfxB", {f"{F1} 7": ["64 a*3"]}, keys="dtype causal head_dim window")
    assert [message for _, _, message in told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))] == [
        "the schema has no key `window`"
    ]
    text = TABLE_B.replace(f"[{F1}]", f"[{F1} 7]")
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}, "one")
    assert [(rule, message) for rule, _, message in told(root)] == [("functional-length", "4 values for 3 names")]
    assert "dtype causal head_dim" in faults(root)[0].hint


@pytest.mark.parametrize("number", range(1, len(TABLE_B.splitlines())))
def test_row_008_no_line_is_skipped(tmp_path: Path, number: int) -> None:
    """Whichever line is spoilt, something is said about that very line."""
    lines = TABLE_B.splitlines()
    if not lines[number]:
        return
    lines[number] += " ?"
    if lines[number].startswith("#! origin"):
        return  # free words
    database = txtdb.open_database(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": "\n".join(lines) + "\n"}))
    assert number + 1 in [fault.span.line for fault in database.resolve("gfxB", IFACE).faults]


def test_row_009_one_functional_twice(tmp_path: Path) -> None:
    """Keys are mapped by the header, so that a functional has one spelling in a file; fmt orders other spellings."""
    text = TABLE_B.replace("#! end", "\n[  fp16  0 64 ]\n64 a*3\n#! end")
    first, second = (n for n, line in enumerate(text.split("\n"), 1) if line.startswith("["))
    assert told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text})) == [
        ("duplicate-functional", second, f"[  fp16  0 64 ] stands already in line {first}")
    ]
    loose = TABLE_B.replace(f"[{F1}]", "[  fp16  0 64 ]")
    assert fmt(loose) == TABLE_B
    for value in ("064", "+64", "-0", "64.0"):
        other = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": TABLE_B.replace(f"[{F1}]", f"[fp16 0 {value}]")}, value)
        assert [rule for rule, _, _ in told(other)] == ["key-type"]


def test_row_009_another_order_of_keys_is_the_same_functional(tmp_path: Path) -> None:
    other = table("gfxB", {"64 fp16 0": ["64 a*3", "128 a b*2", "256 b c d"]}, keys="head_dim dtype causal")
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": other}, "other")
    assert cells(root) == cells(make_db(tmp_path))
    assert txtdb.load(root)["gfxB"][IFACE].functionals == (("fp16", 0, 64),)


def test_row_011_configs_that_differ_in_one_optional_field(tmp_path: Path) -> None:
    """Two ids after reading, run-length encoding and patching; each cell answers what is written in it."""
    fields = "BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu"
    palette = {"a": "32 true 2 1 0", "b": "32 true 2 1 3"}
    own = table("gfxB", {F1: ["64 a b b", "128-256 a*3"]}, fields=fields, palette=palette)
    over = patch("gfxB", {F1: ["256 . . b"]}, fields=fields, palette=palette)
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": own, "gfxB/attn_fwd.1-x.dbpatch": over})
    resolved = txtdb.load(root)["gfxB"][IFACE]
    waves = [values[-1] if (values := config_values(resolved, n)) else None for n in resolved.cells.ravel().tolist()]
    assert waves == [0, 3, 3, 0, 0, 0, 0, 0, 3]
    assert len(set(resolved.cells.ravel().tolist())) == 2


def test_row_035_conflict_markers_have_their_own_name(tmp_path: Path) -> None:
    text = TABLE_B.replace("128 a b*2\n", "<<<<<<< ours\n128 a b*2\n=======\n128 b a*2\n>>>>>>> theirs\n")
    line = text.split("\n").index("<<<<<<< ours") + 1
    found = told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))
    assert found == [("conflict-marker", line, f"unresolved merge conflict, lines {line}–{line + 4}")]


@pytest.mark.parametrize("marker", ["<<<<<<< ours", "||||||| base", "=======", ">>>>>>> theirs"])
def test_row_035_a_marker_that_was_left_behind(tmp_path: Path, marker: str) -> None:
    text = TABLE_B.replace("128 a b*2\n", f"{marker}\n128 a b*2\n")
    line = text.split("\n").index(marker) + 1
    assert told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text})) == [
        ("conflict-marker", line, f"unresolved merge conflict, line {line}")
    ]


def test_row_035_two_values_for_one_cell(tmp_path: Path) -> None:
    text = TABLE_B.replace("128 a b*2\n", "64-128 a b*2\n")
    first = text.split("\n").index("64 a*3") + 1
    assert told(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text})) == [
        ("rows-overlap", first + 1, f"64 stands already in line {first}")
    ]


@pytest.mark.parametrize("mixed", [False, True])
def test_row_116_crlf_reads_like_lf(tmp_path: Path, mixed: bool) -> None:
    """In every kind of file; fmt writes LF, and spans and last fields have no trailing CR."""
    chance = random.Random(1)

    def ends(text: str) -> str:
        return "".join(line + ("\n" if mixed and chance.random() < 0.5 else "\r\n") for line in text.splitlines())

    files = {**S0, "gfxB/attn_fwd.1-x.dbpatch": patch("gfxB", {F1: ["64 . . d"]})}
    plain, crlf = (
        make_db(tmp_path, files, "lf"),
        make_db(tmp_path, {n: ends(t or "") for n, t in files.items()}, "crlf"),
    )
    assert b"\r\n" in (crlf / "gfxB" / "attn_fwd.txtdb").read_bytes()
    assert cells(plain) == cells(crlf)
    one, two = (txtdb.load(root)["gfxB"][IFACE] for root in (plain, crlf))
    assert one.layers[1].origin == two.layers[1].origin == "hand test"
    assert fmt(ends(TABLE_B)) == TABLE_B
    short = ends(TABLE_B.replace("64 a*3", "64 a*2"))
    span = faults(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": short}, "short"))[0].span
    assert (span.column, span.last_column) == (1, 6)
