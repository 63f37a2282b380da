"""Cells changed through the library: the text changes there and nowhere else."""

from __future__ import annotations

import difflib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import (
    LAW,
    ConfigValues,
    Functional,
    SchemaSpec,
    layer_specs,
    layer_text,
    schema_specs,
    seeds,
    untidy,
)
from txtdb.model.edit import MASKED, UNSET, edit_cells
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigPool, FileTable, build_table
from txtdb.model.writing import table_text
from txtdb.syntax import Source, print_source, read

Cells = dict[tuple[Functional, tuple[int, ...]], ConfigValues | int]


def schema_of(spec: SchemaSpec) -> Schema:
    schema, faults = read_schema(spec.text(["g"]).encode(), "f.toml", "f")
    assert faults == []
    assert schema is not None
    return schema


def load(text: str, schema: Schema, pool: ConfigPool | None = None) -> tuple[Source, FileTable]:
    source, faults = read(text.encode(), "g/f.txtdb")
    assert faults == []
    assert source is not None
    table, more = build_table(source, schema, "g", ConfigPool() if pool is None else pool)
    assert more == []
    return source, table


def cells_of(table: FileTable, pool: ConfigPool) -> Cells:
    """(functional, bins) → config or MASKED; UNSET is left out."""
    found: Cells = {}
    for number, functional in enumerate(table.functionals):
        for place in product(*(range(len(bins)) for bins in table.bins)):
            cell = int(table.cells[(number, *place)])
            if cell != UNSET:
                at = tuple(bins[index] for bins, index in zip(table.bins, place, strict=True))
                found[functional, at] = MASKED if cell == MASKED else pool[cell]
    return found


@st.composite
def tables(draw: st.DrawFn) -> tuple[SchemaSpec, str]:
    """A schema and the untidy text of a table of it."""
    spec = draw(schema_specs())
    layer = draw(layer_specs(spec, "g/f.txtdb"))
    return spec, untidy(layer_text(spec, layer, draw(seeds)), draw(seeds))


@given(tables(), st.data())
@LAW
def test_an_edit_changes_its_cells_alone(case: tuple[SchemaSpec, str], data: st.DataObject) -> None:
    spec, text = case
    schema, pool = schema_of(spec), ConfigPool()
    source, table = load(text, schema, pool)
    cell = st.tuples(
        st.sampled_from(spec.functionals or [tuple(key.values[0] for key in spec.keys)]),
        st.tuples(*(st.sampled_from(bins) for bins in table.bins)),
    )
    edits = data.draw(st.dictionaries(cell, st.sampled_from([MASKED, UNSET]) | spec.configs, max_size=4))
    expected = cells_of(table, pool)
    for place, new in edits.items():
        expected.pop(place, None)
        if new != UNSET:
            expected[place] = new
    edited = edit_cells(source, schema, edits)
    again, changed = load(edited, schema, pool)
    assert cells_of(changed, pool) == expected
    assert print_source(again) == edited
    symbols = {entry.symbol: entry.values for entry in again.document.palette}
    for entry in source.document.palette:
        assert symbols[entry.symbol][: len(entry.values)] == entry.values


@given(tables(), st.data())
@LAW
def test_one_cell_changed_is_one_row_line(case: tuple[SchemaSpec, str], data: st.DataObject) -> None:
    """At most three where the row comes out of a range or goes into one, and one palette line for a new config."""
    spec, text = case
    schema, pool = schema_of(spec), ConfigPool()
    source, table = load(print_source(load(text, schema)[0]), schema, pool)
    old = cells_of(table, pool)
    if not old:
        return
    place = data.draw(st.sampled_from(sorted(old, key=str)))
    new = _shown(spec, source.document.config_fields, data.draw(spec.configs))
    before, after = print_source(source), edit_cells(source, schema, {place: new})
    minus, plus = _changes(before, after)
    assert not [line for line in minus if not _is_row(line)]
    assert len([line for line in minus if _is_row(line)]) <= 3
    assert len([line for line in plus if _is_row(line)]) <= 3
    others = [line for line in plus if not _is_row(line)]
    is_new = new not in {pool[number] for number in table.palette if number is not None}
    assert len([line for line in others if line]) == is_new
    if old[place] == new:
        assert before == after


def _shown(spec: SchemaSpec, fields: list[str], config: ConfigValues) -> ConfigValues:
    """The config with those fields at their default that the file leaves out."""
    pairs = zip(spec.fields, config, strict=True)
    return tuple(value if f.name in fields or f.default is None else f.default for f, value in pairs)


def _changes(before: str, after: str) -> tuple[list[str], list[str]]:
    diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm=""))[2:]
    minus, plus = ([line[1:] for line in diff if line.startswith(sign)] for sign in "-+")
    return minus, plus


def _is_row(line: str) -> bool:
    return bool(line) and "=" not in line and line[0] not in "#["


@given(tables())
@LAW
def test_written_text_is_canonical(case: tuple[SchemaSpec, str]) -> None:
    """table_text gives what the printer gives for it, and the same cells."""
    spec, text = case
    schema, pool = schema_of(spec), ConfigPool()
    _, table = load(text, schema, pool)
    written = table_text(schema, "g", table.functionals, table.bins, table.cells, pool, {"origin": ["hand x"]})
    source, again = load(written, schema, pool)
    assert print_source(source) == written
    assert cells_of(again, pool) == cells_of(table, pool)


HEADER = """\
#! txtdb 1
#! iface f
#! arch g
#! key k
#! axis m 16 32 64 128
#! axis n 16 32
#! config warps
"""
SCHEMA = """\
iface = "f"
[[key]]
name = "k"
type = "enum"
values = ["x", "y", "z"]
[[axis]]
name = "m"
bins = [16, 32, 64, 128]
[[axis]]
name = "n"
bins = [16, 32]
[[config]]
name = "warps"
type = "int"
values = [1, 2, 4, 8]
[[config]]
name = "stages"
type = "int"
values = [1, 2, 3]
default = 1
[arch.g]
"""


def small(body: str, header: str = HEADER) -> tuple[Source, Schema]:
    schema, faults = read_schema(SCHEMA.encode(), "f.toml", "f")
    assert schema is not None, faults
    source, found = read(f"{header}{body}#! end\n".encode(), "g/f.txtdb")
    assert source is not None
    assert found == []
    return source, schema


def test_a_range_comes_apart_into_three() -> None:
    source, schema = small("\na = 1\nb = 2\n\n[x]\n16-128 a*2\n")
    after = edit_cells(source, schema, {(("x",), (32, 32)): (2, 1)})
    assert _changes(print_source(source), after) == (["16-128 a*2"], ["16 a*2", "32 a b", "64-128 a*2"])


def test_a_new_config_takes_the_next_symbol_and_no_freed_one() -> None:
    """`b` is free, and stays so."""
    source, schema = small("\na = 1\nc = 2\n\n[x]\n16 a*2\n")
    minus, plus = _changes(print_source(source), edit_cells(source, schema, {(("x",), (16, 16)): (8, 1)}))
    assert (minus, plus) == (["16 a*2"], ["d = 8", "16 d a"])


def test_a_field_that_leaves_its_default_is_written_out_for_all() -> None:
    source, schema = small("\na = 1\nb = 2\n\n[x]\n16 a b\n")
    text = edit_cells(source, schema, {(("x",), (16, 16)): (1, 3)})
    assert "#! config warps stages\n\na = 1 1\nb = 2 1\nc = 1 3\n\n[x]\n16 c b\n" in text


def test_a_default_written_out_is_the_same_config() -> None:
    header = HEADER.replace("#! config warps", "#! config stages warps")
    source, schema = small("\na = 1 4\n\n[x]\n16 a .\n", header)
    assert "16 a*2\n" in edit_cells(source, schema, {(("x",), (16, 32)): (4, 1)})


def test_a_block_that_sets_nothing_any_more_goes() -> None:
    source, schema = small("\na = 1\n\n[x]\n16 a .\n\n[y]\n16 a*2\n")
    text = edit_cells(source, schema, {(("x",), (16, 16)): UNSET})
    assert "[x]" not in text
    assert "\na = 1\n\n[y]\n16 a*2\n" in text


def test_a_block_with_a_comment_stays_with_a_transparent_row() -> None:
    source, schema = small("\na = 1\n\n# why x\n[x]\n16 a .\n")
    text = edit_cells(source, schema, {(("x",), (16, 16)): UNSET})
    assert "\n# why x\n[x]\n16 .*2\n" in text
    assert read(text.encode(), "g/f.txtdb")[1] == []


def test_a_commented_row_that_sets_nothing_any_more_stays() -> None:
    source, schema = small("\na = 1\n\n[x]\n16 a*2\n# why 64\n64 a .\n")
    text = edit_cells(source, schema, {(("x",), (64, 16)): UNSET})
    assert "16 a*2\n# why 64\n64 .*2\n" in text


def test_a_new_functional_gets_a_block_in_its_place() -> None:
    source, schema = small("\na = 1\n\n[x]\n16 a*2\n\n[z]\n16 a*2\n")
    minus, plus = _changes(print_source(source), edit_cells(source, schema, {(("y",), (128, 32)): MASKED}))
    assert minus == []
    assert sorted(plus) == ["", "128 . -", "[y]"]


def test_edits_know_their_limits() -> None:
    source, schema = small("\na = 1\n\n[x]\n16 a*2\n")
    with pytest.raises(KeyError, match="17 is no bin of axis m"):
        edit_cells(source, schema, {(("x",), (17, 16)): UNSET})
    with pytest.raises(AssertionError, match="given by its values"):
        edit_cells(source, schema, {(("x",), (16, 16)): 0})
    bare, faults = read(b"#! txtdb 1\n#! iface f\n#! arch g\n#! end\n", "g/f.txtdb")
    assert bare is not None
    assert faults == []
    with pytest.raises(KeyError, match="has no grid"):
        edit_cells(bare, schema, {(("x",), (16, 16)): UNSET})
    for header in (
        HEADER.replace("warps", "waves"),
        HEADER.replace("warps", "stages"),
        HEADER.replace("key k", "key q"),
    ):
        with pytest.raises(KeyError, match="has no grid"):
            edit_cells(small("", header)[0], schema, {(("x",), (16, 16)): UNSET})


def test_entries_of_the_wrong_length_do_not_stop_an_edit() -> None:
    """Their file has faults and an edit is not to be published; but it is no crash."""
    schema = small("")[1]
    text = HEADER.replace("warps", "warps stages") + "a = 1 1\nb = 2\n[x]\n16 a*2\n#! end\n"
    source, faults = read(text.encode(), "g/f.txtdb")
    assert source is not None
    assert [fault.rule for fault in faults] == ["config-length"]
    assert "\nc = 2 1\n" in edit_cells(source, schema, {(("x",), (16, 16)): (2, 1)})


def test_symbols_by_frequency() -> None:
    """The config of the most runs is `a`; equal ones are ordered by content."""
    schema, pool = small("")[1], ConfigPool()
    one, two, four = (pool.intern((warps, 1)) for warps in (1, 2, 4))
    grid = np.array([[[four, two], [two, four], [one, four], [UNSET, UNSET]]], np.int32)
    text = table_text(schema, "g", [("x",)], ((16, 32, 64, 128), (16, 32)), grid, pool)
    assert text.split("\n\n")[1] == "a = 4\nb = 2\nc = 1"
    assert text.split("\n\n")[2] == "[x]\n16 a b\n32 b a\n64 c a\n#! end\n"


def test_an_entry_that_loses_its_last_cell_is_dropped_where_that_is_asked_for() -> None:
    """Not one with a comment, nor one that was unused before."""
    source, schema = small("\na = 1\nb = 2\n# why 4\nc = 4\nd = 8\n\n[x]\n16 a b\n32 c .\n\n[y]\n16 b .\n")
    edits = {(("x",), (16, 16)): (2, 1), (("x",), (32, 16)): MASKED, (("y",), (16, 16)): UNSET}
    text = edit_cells(source, schema, edits, drop_lost=True)
    assert text.endswith("\nb = 2\n# why 4\nc = 4\nd = 8\n\n[x]\n16 b*2\n32 - .\n#! end\n")
    assert "\na = 1\nb = 2\n" in edit_cells(source, schema, edits)
