"""Schema files: each wrong value is a fault, and nothing in a file raises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contents import FIXED, KERNEL, OPERATOR, Place, changed, mutated, schema
from tests.strategies import LAW, toml_text, toml_values
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.toml import parse_toml


@pytest.mark.parametrize("content", [KERNEL, OPERATOR, FIXED], ids=["kernel", "operator", "fixed"])
def test_the_schemas_are_good(content: dict[str, Any]) -> None:
    assert schema(content)[1] == []


@given(st.sampled_from([KERNEL, OPERATOR, FIXED]), st.data())
@LAW
def test_any_value_anywhere_in_a_schema(content: dict[str, Any], data: st.DataObject) -> None:
    content = mutated(mutated(content, data), data)
    found, faults = schema(content)
    assert (found is None) == bool(faults)
    for fault in faults:
        assert fault.rule in ("schema", "toml")
        assert fault.span.file == "schema/f.toml"
        assert len(str(fault)) < 1000
    if found:
        _use(found)


def _use(found: Schema) -> None:
    """A schema without faults serves all its purposes."""
    for arch in found.archs:
        there = found.for_arch(arch)
        assert there is not None
        assert set(there.declared) <= there.supported
        for functional in there.supported:
            assert found.donors(functional)[0] == functional
            assert len(found.derived_values(functional)) == len(found.derived)
    assert found.fixed_config is None or len(found.fixed_config) == len(found.config)


@given(st.dictionaries(st.sampled_from(["iface", "kind", "key", "axis", "config", "arch", "x"]), toml_values(20)))
@LAW
def test_a_schema_of_anything(content: dict[str, Any]) -> None:
    found, faults = schema(content)
    assert (found is None) == bool(faults)


# name → (place in KERNEL, what stands there, part of a message)
WRONG_KERNEL: dict[str, tuple[Place, object, str]] = {
    "no iface": (("iface",), ..., "schema: `iface` is missing"),
    "another iface": (("iface",), "g", "`iface` is not `f`"),
    "iface of no text": (("iface",), 5, "schema: `iface` must be a text"),
    "unknown kind": (("kind",), "kernal", "unknown kind `kernal`"),
    "keys of no tables": (("key",), ["dtype"], "`key` must be an array of tables (`[[key]]`)"),
    "key without name": (("key", 0, "name"), ..., "key: `name` is missing"),
    "key of an odd name": (("key", 0, "name"), "a b", "key: `a b` is no name"),
    "key without type": (("key", 0, "type"), ..., "key 'dtype': `type` is missing"),
    "unknown type": (("key", 0, "type"), "float", "key 'dtype': unknown type `float`"),
    "key without values": (("key", 0, "values"), ..., "key dtype: `values` is missing"),
    "values of another type": (("key", 1, "values"), [0, True], "key causal: `values` must be a list of int values"),
    "enum value with a blank": (("key", 0, "values", 1), "fp 16", "key dtype: `values` must be a list of enum values"),
    "enum value like a number": (("key", 0, "values", 1), "16", "key dtype: `values` must be a list of enum values"),
    "enum value like a bool": (("key", 0, "values", 1), "true", "key dtype: `values` must be a list of enum values"),
    "number of 19 digits": (("key", 1, "values", 1), 10**18, "key causal: `values` must be a list of int values"),
    "value twice": (("key", 0, "values", 1), "BF16", "value of key dtype `bf16` stands twice"),
    "fallback of no value": (("key", 2, "fallback"), 0, "key padded: fallback 0 is none of its values"),
    "fixed key of another type": (("key", 3, "fixed"), 0, "key alibi: 0 is no bool"),
    "key twice": (("key", 0, "name"), "causal", "key or axis `causal` stands twice"),
    "axis named like a key": (("axis", 0, "name"), "causal", "key or axis `causal` stands twice"),
    "bins that fall": (("axis", 0, "bins"), [64, 16], "axis q: `bins` must be a list of ints"),
    "no bins": (("axis", 0, "bins"), [], "axis q: `bins` must be a list of ints"),
    "bins of floats": (("axis", 0, "bins"), [1.0], "axis q: `bins` must be a list of ints"),
    "lookup rule": (("axis", 0, "lookup"), "floor", "axis q: unknown lookup rule"),
    "min of text": (("config", 1, "min"), "1", "config stages: `min` must be an int"),
    "min of a bool field": (
        ("config", 2),
        {"name": "pre", "type": "bool", "min": 0},
        "config pre: `min` must be an int",
    ),
    "min above max": (("config", 1, "min"), 5, "config stages: min 5 is above max 4"),
    "default outside": (("config", 1, "default"), 9, "config stages: default 9 is outside its domain"),
    "default of another type": (("config", 1, "default"), True, "config stages: default true is outside its domain"),
    "binary of text": (("config", 2, "binary"), "no", "config pre: `binary` must be true or false"),
    "enum field without values": (("config", 3, "values"), ..., "config path: `values` is missing"),
    "derived of no key": (("derived", 0, "key"), "q", "derived persistent: `key` names no key"),
    "map with a gap": (("derived", 0, "map", "3"), ..., "derived persistent: map has no entry for 3"),
    "map of another type": (("derived", 0, "map", "3"), "x", "derived persistent: map entry 3 = 'x' does not fit"),
    "derived named like a field": (("derived", 0, "name"), "BLOCK", "config field `BLOCK` stands twice"),
    "condition on nothing": (("absent", 0), {}, "absent: an empty condition would match everything"),
    "condition on an unknown key": (("absent", 0, "cusal"), 3, "absent: unknown name `cusal`"),
    "condition that never holds": (("absent", 0, "causal"), 1, "absent: causal never is 1"),
    "condition without values": (("absent", 0, "causal"), [], "absent: causal never is a list"),
    "illegal value outside": (("illegal", 0, "stages"), 9, "illegal: stages never is 9"),
    "arch of an odd name": (("arch", "gfx A"), {}, "arch gfx A: `gfx A` is no name"),
    "bins of an unknown axis": (("arch", "gfxA", "bins", "m"), [1], "arch gfxA: bins: unknown name `m`"),
    "domain outside": (("arch", "gfxA", "domain", "dtype"), ["fp8"], "domain of dtype must be a list of its values"),
    "empty domain": (("arch", "gfxA", "domain", "dtype"), [], "domain of dtype must be a list of its values"),
    "like of no arch": (("arch", "gfxB", "like"), "gfxC", "arch gfxB: `like` stands alone"),
    "like of like": (("arch", "gfxC"), {"like": "gfxB"}, "arch gfxC: `like` stands alone"),
    "like and more": (("arch", "gfxB", "bins"), {"q": [16]}, "arch gfxB: `like` stands alone"),
}

# 2 × 512 × 2 functionals on a grid of 5,120 × 2.
LARGE = changed(changed(KERNEL, ("key", 1, "values"), list(range(512))), ("axis", 0, "bins"), list(range(5120)))
LARGE["derived"] = []

LARGE_ON_ONE = changed(LARGE | {"axis": KERNEL["axis"]}, ("arch", "gfxA", "bins", "q"), list(range(5120)))
MANY = changed(KERNEL, ("key", 1, "values"), list(range(300_000))) | {"derived": []}

# name → (content, part of a message)
WRONG_WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": ({**KERNEL, "keys": 1}, "schema: unknown name `keys`"),
    "no keys": (changed(KERNEL, ("key",), ...) | {"absent": [], "derived": [], "arch": {}}, "no keys"),
    "no axes": (changed(KERNEL, ("axis",), ...) | {"arch": {}}, "0 axes; a table has one to four"),
    "arch of no table": (changed(KERNEL, ("arch", "gfxA"), 1) | {}, "arch: `gfxA` must be a table"),
    "too many functionals": (MANY, "schema: 1200000 functionals with 4800000 cells are too many"),
    "too many cells": (LARGE, "schema: 2048 functionals with 20971520 cells are too many"),
    "too many cells on an arch": (LARGE_ON_ONE, "arch gfxA: 2048 functionals with 20971520 cells are too many"),
    "operator with fields": (OPERATOR | {"config": KERNEL["config"]}, "an operator has no config fields"),
    "operator without back ends": (changed(OPERATOR, ("backend",), []), "no back ends"),
    "back end twice": (changed(OPERATOR, ("backend", 1, "name"), "triton"), "backend `triton` stands twice"),
    "back end named like a bool": (
        changed(OPERATOR, ("backend", 1, "name"), "true"),
        "backend true: a back end is not named",
    ),
    "launches of no list": (
        changed(OPERATOR, ("backend", 0, "launches"), "attn_fwd"),
        "backend triton: `launches` must be a list of str values",
    ),
    "kernel with back ends": (KERNEL | {"backend": OPERATOR["backend"]}, "only an operator has back ends"),
    "kernel with a fixed config": (
        KERNEL | {"fixed_config": {"BLOCK": 16}},
        '[fixed_config] belongs to kind = "fixed"',
    ),
    "fixed without its config": (changed(FIXED, ("fixed_config",), ...), '[fixed_config] belongs to kind = "fixed"'),
    "fixed config of another type": (
        changed(FIXED, ("fixed_config", "BLOCK"), True),
        "fixed_config: BLOCK = true is outside its domain",
    ),
    "fixed config of an unknown field": (
        changed(FIXED, ("fixed_config", "BLCK"), 1),
        "fixed_config: unknown name `BLCK`",
    ),
}


@pytest.mark.parametrize("case", WRONG_KERNEL)
def test_wrong_value(case: str) -> None:
    place, value, message = WRONG_KERNEL[case]
    found, faults = schema(changed(KERNEL, place, value))
    assert found is None
    assert [fault for fault in faults if message in fault.message]


@pytest.mark.parametrize("case", WRONG_WHOLE)
def test_wrong_schema(case: str) -> None:
    content, message = WRONG_WHOLE[case]
    found, faults = schema(content)
    assert found is None
    assert [fault for fault in faults if message in fault.message]


def test_iface_must_be_a_name() -> None:
    _, faults = read_schema(toml_text(changed(KERNEL, ("iface",), "a b")).encode(), "schema/a b.toml", "a b")
    assert [fault.message for fault in faults] == ["`a b` is no name for an interface"]


def test_toml_mistakes_have_positions() -> None:
    def faults(data: bytes) -> list[tuple[str, int, int]]:
        return [(fault.rule, fault.span.line, fault.span.column) for fault in parse_toml(data, "x.toml")[1]]

    assert faults(b"a = 1\nb = = 2\n") == [("toml", 2, 5)]
    assert faults(b"a = 1\r\nb = = 2\r\n") == [("toml", 2, 5)]
    assert faults("é = 1\n".encode() + b"a = '\xff'\n") == [("not-utf8", 2, 1)]
    assert faults(b"a = " + b"[" * 100_000) == [("toml", 0, 0)]
    assert faults(b"a = " + b"9" * 5_000) == [("toml", 0, 0)]
    assert faults(b"a = 2026-13-45\n") == [("toml", 1, 9)]


def test_deep_and_huge_values_are_told_shortly() -> None:
    deep = ".".join(["a"] * 5_000)
    for value in (f"{{ {deep} = 1 }}", "0x" + "f" * 5_000, "[" * 90 + "]" * 90, '"' + "x" * 100_000 + '"'):
        for line in (
            'name = "dtype"\ntype = "int"\nfixed',
            'name = "dtype"\ntype',
            "name",
            'name = "a"\ntype = "int"\nvalues',
        ):
            _, faults = read_schema(f'iface = "f"\n[[key]]\n{line} = {value}\n'.encode(), "f.toml", "f")
            assert faults
            assert value.startswith('"') or all(len(fault.message) < 200 for fault in faults)


TYPO = """\
# valeus is no name
iface = "f"
[[key]]
name = "dtype"
type = "enum"
{name} = ["bf16"]
[[axis]]
name = "q"
bins = [16]
[[config]]
name = "BLOCK"
type = "int"
[arch.gfxA]
"""


def typo(text: str) -> list[tuple[int, str, str]]:
    _, faults = read_schema(text.encode(), "schema/f.toml", "f")
    return [(fault.span.line, fault.message, fault.hint) for fault in faults]


def test_a_misspelt_name_is_told_alone_and_what_it_may_have_meant() -> None:
    [(line, message, hint)] = typo(TYPO.format(name="vaules"))
    assert (line, message) == (6, "key dtype: unknown name `vaules`")
    assert hint == "did you mean values? known are fallback, name, type, values"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_place_of_a_misspelt_name(end: str) -> None:
    text = TYPO.format(name="  vaules").replace("\n", end)
    _, [fault] = read_schema(text.encode(), "schema/f.toml", "f")
    assert (fault.span.line, fault.span.column, fault.span.last_column) == (6, 3, 8)


@pytest.mark.parametrize("name", ["valeus", '"v\\u0061leus"'])
def test_a_place_that_is_not_certain_is_not_told(name: str) -> None:
    """The name stands in a comment, too, or is written with escapes."""
    assert [line for line, *_ in typo(TYPO.format(name=name))] == [0]


def test_an_unknown_name_like_none_does_not_hide_what_is_missing() -> None:
    told = [message for _, message, _ in typo(TYPO.format(name="zzz"))]
    assert told == ["key dtype: unknown name `zzz`", "key dtype: `values` is missing"]


@pytest.mark.parametrize(
    ("good", "bad"), [("iface =", "ifcae ="), ("type =", "tpye ="), ("name =", "nmae ="), ("bins =", "bin =")]
)
def test_a_misspelt_name_is_one_fault(good: str, bad: str) -> None:
    [(line, message, _)] = typo(TYPO.format(name="values").replace(good, bad, 1))
    assert "unknown name" in message
    assert line > 0
