"""A file held against its schema: types, names, and what is left out when something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import F1, SCHEMA, TABLE_B, table
from tests.strategies import LAW
from txtdb.faults import Fault
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import MASKED, UNSET, ConfigPool, FileTable, build_table, config_text, functional_text
from txtdb.model.values import ValueType, can_be_written, has_type, parse_value, print_value, text_type
from txtdb.syntax import read
from txtdb.syntax.symbols import next_symbols, symbol_at, symbol_rank


def schema() -> Schema:
    found, faults = read_schema(SCHEMA.encode(), "attn_fwd.toml", "attn_fwd")
    assert found is not None, faults
    return found


def build(text: str, pool: ConfigPool | None = None) -> tuple[FileTable, list[Fault]]:
    source, faults = read(text.encode(), "gfxB/attn_fwd.txtdb")
    assert source is not None, faults
    return build_table(source, schema(), "gfxB", ConfigPool() if pool is None else pool)


def told(text: str) -> list[tuple[str, int, int, int, str]]:
    return [(f.rule, f.span.line, f.span.column, f.span.last_column, f.message) for f in build(text)[1]]


def test_cells_by_hand() -> None:
    """Rows 64 a*3, 128 a b*2, 256 b c d, with `.` and `-` for two of them."""
    pool = ConfigPool()
    found, faults = build(TABLE_B.replace("64 a*3", "64 a . -"), pool)
    assert faults == []
    assert found.functionals == (("fp16", 0, 64),)
    assert found.bins == ((64, 128, 256), (64, 128, 256))
    assert found.cells.tolist() == [[[0, UNSET, MASKED], [0, 1, 1], [1, 2, 3]]]
    assert pool[3] == (128, False, 8, 2, 0)
    assert found.cells.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        found.cells[0] = 0


def test_spans_of_cells() -> None:
    """Line 15 is the block's head; row 128 is `128 a b*2`."""
    found, _ = build(TABLE_B.replace("128 a b*2", "128  a   b*2").replace("256 b c d", ""))
    spans = [str(found.cell_span(0, (1, column))).partition(":")[2] for column in range(3)]
    assert spans == ["17:6", "17:10", "17:10"]
    assert str(found.cell_span(0, (2, 0))) == "gfxB/attn_fwd.txtdb:15:1"
    assert str(found.block_span(0)) == "gfxB/attn_fwd.txtdb:15:1"


def test_spans_of_cells_in_a_range_and_without_labels() -> None:
    found, _ = build(table("gfxB", {F1: ["64-256 a b*2"]}))
    assert {found.cell_span(0, (row, 2)).column for row in range(3)} == {10}
    one = SCHEMA.replace('[[axis]]\nname = "seqlen_q"\nbins = [64, 128, 256]\n', "")
    axis, faults = read_schema(one.encode(), "attn_fwd.toml", "attn_fwd")
    assert axis is not None, faults
    text = table("gfxB", {F1: ["a b*2"]}, axes={"seqlen_k": "64 128 256"})
    source, _ = read(text.encode(), "gfxB/attn_fwd.txtdb")
    assert source is not None
    flat, _ = build_table(source, axis, "gfxB", ConfigPool())
    assert [flat.cell_span(0, (column,)).column for column in range(3)] == [1, 3, 3]


WRONG: dict[str, tuple[tuple[str, str], list[tuple[str, int, int, int, str]]]] = {
    "type of a value": (
        ("a = 32 true 2 1", "a = 32 1 2 1"),
        [("value-type", 10, 8, 8, "PRE_LOAD_V: expected bool, found int `1`")],
    ),
    "type of a key": (
        (f"[{F1}]", "[fp16 false 64]"),
        [("key-type", 15, 7, 11, "causal: expected int, found bool `false`")],
    ),
    "number as an enum": ((f"[{F1}]", "[16 0 64]"), [("key-type", 15, 2, 3, "dtype: expected enum, found int `16`")]),
    "unknown key": (
        ("#! key dtype", "#! key dtipe"),
        [
            ("unknown-key", 5, 8, 12, "the schema has no key `dtipe`"),
            ("missing-key", 5, 1, 28, "key `dtype` is missing"),
        ],
    ),
    "unknown field": (
        ("BLOCK_M PRE", "BLOCK_X PRE"),
        [
            ("unknown-field", 8, 11, 17, "the schema has no config field `BLOCK_X`"),
            ("missing-field", 8, 1, 49, "config field `BLOCK_M` is missing and has no default"),
        ],
    ),
    "another axis": (
        ("#! axis seqlen_q", "#! axis seqlen_r"),
        [("axis-names", 6, 1, 27, "the axes are seqlen_r, seqlen_k")],
    ),
    "outside the domain": (
        ("a = 32 true", "a = 48 true"),
        [("illegal-config", 10, 1, 15, "BLOCK_M = 48 is outside its domain (32 64 128)")],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_table(case: str) -> None:
    (old, new), expected = WRONG[case]
    assert TABLE_B.count(old) == 1
    assert told(TABLE_B.replace(old, new)) == expected


def test_a_default_spelt_out_is_the_same_config() -> None:
    """One id in the pool across files, and two entries of one content in a file are a fault."""
    fields, pool = "BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu", ConfigPool()
    one, _ = build(table("gfxB", {F1: ["64 a*3"]}), pool)
    two, _ = build(table("gfxB", {F1: ["64 a*3"]}, fields=fields, palette={"a": "32 true 2 1 0"}), pool)
    assert one.palette == two.palette == (0,)


def test_what_is_wrong_is_left_out() -> None:
    text = table("gfxB", {F1: ["64 a b ."], "fp16 x 64": ["64 a*3"]}).replace("a = 32 true 2 1", "a = 32 true 2 x")
    found, faults = build(text)
    assert [fault.rule for fault in faults] == ["value-type", "key-type"]
    assert found.functionals == (("fp16", 0, 64),)
    assert found.palette == (None, 0)
    assert found.cells[0, 0].tolist() == [UNSET, 0, UNSET]


@pytest.mark.parametrize("name", ["key", "axis", "config"])
def test_a_malformed_directive_is_one_fault(name: str) -> None:
    line = next(line for line in TABLE_B.split("\n") if line.startswith(f"#! {name} "))
    text = TABLE_B.replace(line, f"{line} ?")
    faults = read(text.encode(), "gfxB/attn_fwd.txtdb")[1]
    assert [fault.rule for fault in faults] == ["directive-form"]
    assert told(text) == []


@pytest.mark.parametrize(
    "missing", ["#! key dtype causal head_dim\n", "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n"]
)
def test_tables_without_a_directive_have_no_second_fault(missing: str) -> None:
    assert missing in TABLE_B
    assert told(TABLE_B.replace(missing, "")) == []


def test_texts_for_people() -> None:
    judged = schema()
    assert functional_text(judged, ("fp16", 0, 64)) == "dtype=fp16 causal=0 head_dim=64"
    assert (
        config_text(judged, (32, True, 2, 1, 0)) == "BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1 waves_per_eu=0"
    )


# --- values -----------------------------------------------------------------------------------------------------------

SPELLINGS: dict[str, tuple[Any, Any, Any, str]] = {
    # text: as bool, as int, as enum, what it looks like
    "true": (True, None, None, "bool"),
    "false": (False, None, None, "bool"),
    "True": (None, None, "True", "name"),
    "0": (None, 0, None, "int"),
    "-7": (None, -7, None, "int"),
    "-0": (None, None, "-0", "name"),
    "007": (None, None, "007", "name"),
    "+1": (None, None, "+1", "name"),
    "9" * 18: (None, 10**18 - 1, None, "int"),
    "9" * 19: (None, None, "9" * 19, "name"),
    "1.5": (None, None, None, "float"),
    "4.": (None, None, None, "float"),
    "1.0e5": (None, None, None, "float"),
    "fp16": (None, None, "fp16", "name"),
    "a b": (None, None, None, "name"),
    "": (None, None, None, "name"),
    "é": (None, None, None, "name"),
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_spellings(text: str) -> None:
    *values, looks = SPELLINGS[text]
    found = [parse_value(text, kind) for kind in (ValueType.BOOL, ValueType.INT, ValueType.ENUM)]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]
    assert text_type(text) == looks


@given(st.sampled_from(list(ValueType)), st.booleans() | st.integers() | st.text(max_size=5) | st.floats() | st.none())
@LAW
def test_what_can_be_written_has_one_spelling(kind: ValueType, value: Any) -> None:
    fits = has_type(value, kind) and parse_value(print_value(value), kind) is not None
    assert can_be_written(value, kind) == fits
    if fits:
        again = parse_value(print_value(value), kind)
        assert (type(again), again) == (type(value), value)


# --- symbols ----------------------------------------------------------------------------------------------------------


def test_symbols_in_order() -> None:
    """a … z, A … Z, aa, ab, …: the 53rd is aa, behind aZ comes ba, behind ZZ aaa."""
    first = [symbol_at(number) for number in range(52 + 52 * 52 + 2)]
    assert first[:3] + first[25:28] + first[51:54] == ["a", "b", "c", "z", "A", "B", "Z", "aa", "ab"]
    assert first[103:106] == ["aZ", "ba", "bb"]
    assert first[-3:] == ["ZZ", "aaa", "aab"]
    assert first == sorted(first, key=symbol_rank)


@pytest.mark.parametrize(
    ("there", "following"),
    [([], "a"), (["a", "b"], "c"), (["z"], "A"), (["aa", "Z"], "ab"), (["c"], "d"), (["ZZ"], "aaa")],
)
def test_next_symbols(there: list[str], following: str) -> None:
    assert next(iter(next_symbols(there))) == following
