"""Schemas, arch facts and pins: each wrong value is a fault with a place, and nothing in a file raises."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import date, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import LAW, toml_text, toml_values
from txtdb.faults import Fault
from txtdb.layers.pins import Pin, pin_table, read_pins
from txtdb.model.archs import Arch, find_arch, read_archs, split_archs
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigPool
from txtdb.model.toml import parse_toml

KERNEL: dict[str, Any] = {
    "iface": "f",
    "kind": "kernel",
    "key": [
        {"name": "dtype", "type": "enum", "values": ["bf16", "fp16"]},
        {"name": "causal", "type": "int", "values": [0, 3]},
        {"name": "padded", "type": "bool", "fallback": False},
        {"name": "alibi", "type": "bool", "fixed": False},
    ],
    "axis": [{"name": "q", "bins": [16, 64], "lookup": "ceil"}, {"name": "k", "bins": [16, 64]}],
    "config": [
        {"name": "BLOCK", "type": "int", "values": [16, 32]},
        {"name": "stages", "type": "int", "min": 1, "max": 4, "default": 1},
        {"name": "pre", "type": "bool", "binary": False},
        {"name": "path", "type": "enum", "values": ["x", "y"]},
    ],
    "derived": [{"name": "persistent", "type": "int", "key": "causal", "map": {"0": 0, "3": 2}}],
    "absent": [{"causal": 3, "dtype": ["fp16"]}],
    "illegal": [{"BLOCK": 16, "stages": [3, 4]}],
    "arch": {
        "gfxA": {
            "bins": {"q": [16]},
            "domain": {"dtype": ["bf16"]},
            "unsupported": [{"causal": 3}],
            "illegal": [{"pre": True}],
        },
        "gfxB": {"like": "gfxA"},
    },
}
OPERATOR: dict[str, Any] = {
    "iface": "f",
    "kind": "operator",
    "key": [{"name": "dtype", "type": "enum", "values": ["bf16"]}],
    "axis": [{"name": "q", "bins": [16]}],
    "backend": [{"name": "triton", "launches": ["attn_fwd"]}, {"name": "asm"}],
    "arch": {"gfxA": {}},
}
FIXED: dict[str, Any] = {
    "iface": "f",
    "kind": "fixed",
    "key": [{"name": "dtype", "type": "enum", "values": ["bf16"]}],
    "config": [{"name": "BLOCK", "type": "int"}],
    "fixed_config": {"BLOCK": 64},
    "arch": {"gfxA": {}},
}
ARCHS: dict[str, Any] = {
    "arch": {
        "gfxA": {"aliases": ["a", "b"], "wave_size": 64, "lds_bytes": 65536, "pack": "p", "gpu": "gfxA_mod0"},
        "gfxB": {"vgpr_budget": 512, "compute_units": 304, "xcds": 8},
    }
}
PINS: dict[str, Any] = {
    "pin": [
        {
            "iface": "f",
            "functional": {"dtype": "bf16", "causal": 0, "padded": False},
            "at": {"q": 16, "k": [16, 64]},
            "config": {"BLOCK": 32, "pre": False, "path": "x"},
            "reason": "why",
            "until": date(2030, 1, 1),
        }
    ]
}

Path = tuple[str | int, ...]


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every place in a structure."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from paths(item, (*path, name))


def changed(content: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    """A copy with one place replaced (`...` removes it)."""
    whole = copy.deepcopy(content)
    inner: Any = whole
    for name in path[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return whole


def mutated(content: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """One place replaced by anything, or removed, or left."""
    places = [path for path in paths(content) if path]
    if not places or data.draw(st.integers(0, 3)) == 0:
        return content
    return changed(content, data.draw(st.sampled_from(places)), data.draw(st.just(...) | toml_values()))


def schema(content: dict[str, Any]) -> tuple[Schema | None, list[Fault]]:
    return read_schema(toml_text(content).encode(), "schema/f.toml", "f")


@cache
def good_schema() -> Schema:
    found, faults = schema(KERNEL)
    assert found is not None, faults
    return found


def pins(content: dict[str, Any]) -> tuple[tuple[Pin, ...], list[Fault]]:
    return read_pins(toml_text(content).encode(), "gfxA/pins.toml", "gfxA", {"f": good_schema()})


@pytest.mark.parametrize("content", [KERNEL, OPERATOR, FIXED], ids=["kernel", "operator", "fixed"])
def test_the_schemas_are_good(content: dict[str, Any]) -> None:
    assert schema(content)[1] == []


def test_the_other_files_are_good() -> None:
    assert read_archs(toml_text(ARCHS).encode(), "archs.toml")[1] == []
    found, faults = pins(PINS)
    assert (len(found), faults) == (1, [])


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


@given(st.data())
@LAW
def test_any_value_anywhere_in_archs(data: st.DataObject) -> None:
    archs, faults = read_archs(toml_text(mutated(ARCHS, data)).encode(), "archs.toml")
    for arch in archs.values():
        assert isinstance(arch.gpu_name, str)
    assert all(fault.rule in ("archs", "toml") and len(str(fault)) < 1000 for fault in faults)


@given(st.data())
@LAW
def test_any_value_anywhere_in_pins(data: st.DataObject) -> None:
    content = mutated(mutated(PINS, data), data)
    found, faults = pins(content)
    assert all(fault.rule in ("pin", "toml") and len(str(fault)) < 1000 for fault in faults)
    wanted = content.get("pin")
    assert faults or len(found) == (len(wanted) if isinstance(wanted, list) else 0)
    if found:
        table = pin_table(found, "gfxA/pins.toml", ConfigPool())
        assert (table.cells >= 0).sum() == sum(len(pin.bins[0]) * len(pin.bins[1]) for pin in found)


# 2 × 512 × 2 functionals on a grid of 5,120 × 2.
LARGE = changed(changed(KERNEL, ("key", 1, "values"), list(range(512))), ("axis", 0, "bins"), list(range(5120)))
LARGE["derived"] = []

WRONG_SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "no iface": (changed(KERNEL, ("iface",), ...), "schema: `iface` is missing"),
    "another iface": (changed(KERNEL, ("iface",), "g"), "`iface` is not `f`"),
    "iface of no text": (changed(KERNEL, ("iface",), 5), "schema: `iface` must be a text"),
    "unknown name": ({**KERNEL, "keys": 1}, "schema: unknown name `keys`"),
    "unknown kind": (changed(KERNEL, ("kind",), "kernal"), "unknown kind `kernal`"),
    "no keys": (changed(KERNEL, ("key",), ...) | {"absent": [], "derived": [], "arch": {}}, "no keys"),
    "keys of no tables": (changed(KERNEL, ("key",), ["dtype"]), "`key` must be an array of tables (`[[key]]`)"),
    "key without name": (changed(KERNEL, ("key", 0, "name"), ...), "key: `name` is missing"),
    "key of an odd name": (changed(KERNEL, ("key", 0, "name"), "a b"), "key: `a b` is no name"),
    "key without type": (changed(KERNEL, ("key", 0, "type"), ...), "key 'dtype': `type` is missing"),
    "unknown type": (changed(KERNEL, ("key", 0, "type"), "float"), "key 'dtype': unknown type `float`"),
    "key without values": (changed(KERNEL, ("key", 0, "values"), ...), "key dtype: `values` is missing"),
    "values of another type": (changed(KERNEL, ("key", 1, "values"), [0, True]), "key causal: `values` must be a list of int values"),
    "enum value with a blank": (changed(KERNEL, ("key", 0, "values", 1), "fp 16"), "key dtype: `values` must be a list of enum values"),
    "enum value like a number": (changed(KERNEL, ("key", 0, "values", 1), "16"), "key dtype: `values` must be a list of enum values"),
    "enum value like a bool": (changed(KERNEL, ("key", 0, "values", 1), "true"), "key dtype: `values` must be a list of enum values"),
    "number of 19 digits": (changed(KERNEL, ("key", 1, "values", 1), 10**18), "key causal: `values` must be a list of int values"),
    "value twice": (changed(KERNEL, ("key", 0, "values", 1), "BF16"), "value of key dtype `bf16` stands twice"),
    "fallback of no value": (changed(KERNEL, ("key", 2, "fallback"), 0), "key padded: fallback 0 is none of its values"),
    "fixed key of another type": (changed(KERNEL, ("key", 3, "fixed"), 0), "key alibi: 0 is no bool"),
    "key twice": (changed(KERNEL, ("key", 0, "name"), "causal"), "key or axis `causal` stands twice"),
    "axis named like a key": (changed(KERNEL, ("axis", 0, "name"), "causal"), "key or axis `causal` stands twice"),
    "no axes": (changed(KERNEL, ("axis",), ...) | {"arch": {}}, "0 axes; a table has one to four"),
    "bins that fall": (changed(KERNEL, ("axis", 0, "bins"), [64, 16]), "axis q: `bins` must be a list of ints, at least one, not negative, and increasing"),
    "no bins": (changed(KERNEL, ("axis", 0, "bins"), []), "axis q: `bins` must be a list of ints, at least one, not negative, and increasing"),
    "bins of floats": (changed(KERNEL, ("axis", 0, "bins"), [1.0]), "axis q: `bins` must be a list of ints, at least one, not negative, and increasing"),
    "lookup rule": (changed(KERNEL, ("axis", 0, "lookup"), "floor"), "axis q: unknown lookup rule"),
    "min of text": (changed(KERNEL, ("config", 1, "min"), "1"), "config stages: `min` must be an int, and stands at int fields only"),
    "min of a bool field": (changed(KERNEL, ("config", 2), {"name": "pre", "type": "bool", "min": 0}), "config pre: `min` must be an int, and stands at int fields only"),
    "min above max": (changed(KERNEL, ("config", 1, "min"), 5), "config stages: min 5 is above max 4"),
    "default outside": (changed(KERNEL, ("config", 1, "default"), 9), "config stages: default 9 is outside its domain"),
    "default of another type": (changed(KERNEL, ("config", 1, "default"), True), "config stages: default true is outside its domain"),
    "binary of text": (changed(KERNEL, ("config", 2, "binary"), "no"), "config pre: `binary` must be true or false"),
    "enum field without values": (changed(KERNEL, ("config", 3, "values"), ...), "config path: `values` is missing"),
    "derived of no key": (changed(KERNEL, ("derived", 0, "key"), "q"), "derived persistent: `key` names no key"),
    "map with a gap": (changed(KERNEL, ("derived", 0, "map", "3"), ...), "derived persistent: map has no entry for 3"),
    "map of another type": (changed(KERNEL, ("derived", 0, "map", "3"), "x"), "derived persistent: map entry 3 = 'x' does not fit"),
    "derived named like a field": (changed(KERNEL, ("derived", 0, "name"), "BLOCK"), "config field `BLOCK` stands twice"),
    "condition on nothing": (changed(KERNEL, ("absent", 0), {}), "absent: an empty condition would match everything"),
    "condition on an unknown key": (changed(KERNEL, ("absent", 0, "cusal"), 3), "absent: unknown name `cusal`"),
    "condition that never holds": (changed(KERNEL, ("absent", 0, "causal"), 1), "absent: causal never is 1"),
    "condition without values": (changed(KERNEL, ("absent", 0, "causal"), []), "absent: causal never is a list"),
    "illegal value outside": (changed(KERNEL, ("illegal", 0, "stages"), 9), "illegal: stages never is 9"),
    "arch of an odd name": (changed(KERNEL, ("arch", "gfx A"), {}), "arch gfx A: `gfx A` is no name"),
    "arch of no table": (changed(KERNEL, ("arch", "gfxA"), 1) | {}, "arch: `gfxA` must be a table"),
    "bins of an unknown axis": (changed(KERNEL, ("arch", "gfxA", "bins", "m"), [1]), "arch gfxA: bins: unknown name `m`"),
    "domain outside": (changed(KERNEL, ("arch", "gfxA", "domain", "dtype"), ["fp8"]), "arch gfxA: domain of dtype must be a list of its values, at least one"),
    "empty domain": (changed(KERNEL, ("arch", "gfxA", "domain", "dtype"), []), "arch gfxA: domain of dtype must be a list of its values, at least one"),
    "like of no arch": (changed(KERNEL, ("arch", "gfxB", "like"), "gfxC"), "arch gfxB: `like` stands alone and names an arch that is written out"),
    "like of like": (changed(KERNEL, ("arch", "gfxC"), {"like": "gfxB"}), "arch gfxC: `like` stands alone and names an arch that is written out"),
    "like and more": (changed(KERNEL, ("arch", "gfxB", "bins"), {"q": [16]}), "arch gfxB: `like` stands alone and names an arch that is written out"),
    "too many functionals": ({**changed(KERNEL, ("key", 1, "values"), list(range(300_000))), "derived": []},
                             "schema: 1200000 functionals with 4800000 cells are too many"),
    "too many cells": (LARGE, "schema: 2048 functionals with 20971520 cells are too many"),
    "too many cells on an arch": (changed(LARGE | {"axis": KERNEL["axis"]}, ("arch", "gfxA", "bins", "q"), list(range(5120))), "arch gfxA: 2048 functionals with 20971520 cells are too many"),
    "operator with fields": (OPERATOR | {"config": KERNEL["config"]}, "an operator has no config fields"),
    "operator without back ends": (changed(OPERATOR, ("backend",), []), "no back ends"),
    "back end twice": (changed(OPERATOR, ("backend", 1, "name"), "triton"), "backend `triton` stands twice"),
    "back end named like a bool": (changed(OPERATOR, ("backend", 1, "name"), "true"), "backend true: a back end is not named like a value of another type"),
    "launches of no list": (changed(OPERATOR, ("backend", 0, "launches"), "attn_fwd"), "backend triton: `launches` must be a list of str values"),
    "kernel with back ends": (KERNEL | {"backend": OPERATOR["backend"]}, "only an operator has back ends"),
    "kernel with a fixed config": (KERNEL | {"fixed_config": {"BLOCK": 16}}, '[fixed_config] belongs to kind = "fixed", and to nothing else'),
    "fixed without its config": (changed(FIXED, ("fixed_config",), ...), '[fixed_config] belongs to kind = "fixed", and to nothing else'),
    "fixed config of another type": (changed(FIXED, ("fixed_config", "BLOCK"), True), "fixed_config: BLOCK = true is outside its domain"),
    "fixed config of an unknown field": (changed(FIXED, ("fixed_config", "BLCK"), 1), "fixed_config: unknown name `BLCK`"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_SCHEMA)
def test_wrong_schema(case: str) -> None:
    content, message = WRONG_SCHEMA[case]
    found, faults = schema(content)
    assert found is None
    assert message in [fault.message for fault in faults]


def test_iface_must_be_a_name() -> None:
    _, faults = read_schema(toml_text(changed(KERNEL, ("iface",), "a b")).encode(), "schema/a b.toml", "a b")
    assert [fault.message for fault in faults] == ["`a b` is no name for an interface"]


WRONG_ARCHS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (ARCHS | {"archs": {}}, "archs.toml: unknown name `archs`"),
    "unknown fact": (changed(ARCHS, ("arch", "gfxA", "wavesize"), 64), "arch gfxA: unknown name `wavesize`"),
    "negative": (changed(ARCHS, ("arch", "gfxA", "wave_size"), -64), "arch gfxA: `wave_size` must be a positive int"),
    "bool": (changed(ARCHS, ("arch", "gfxA", "wave_size"), True), "arch gfxA: `wave_size` must be a positive int"),
    "pack of no text": (changed(ARCHS, ("arch", "gfxA", "pack"), 5), "arch gfxA: `pack` must be a text"),
    "alias twice": (changed(ARCHS, ("arch", "gfxB", "aliases"), ["A"]), "`a` names both gfxA and gfxB"),
    "alias of another arch": (changed(ARCHS, ("arch", "gfxB", "aliases"), ["gfxA:x+"]), "`gfxa` names both gfxA and gfxB"),
    "empty alias": (changed(ARCHS, ("arch", "gfxA", "aliases"), [" "]), "arch gfxA: an alias is empty"),
    "odd name": (changed(ARCHS, ("arch", "a/b"), {}), "arch a/b: `a/b` is no name"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ARCHS)
def test_wrong_archs(case: str) -> None:
    content, message = WRONG_ARCHS[case]
    faults = read_archs(toml_text(content).encode(), "archs.toml")[1]
    assert message in [fault.message for fault in faults]


def pin(**changes: object) -> dict[str, Any]:
    return {"pin": [{**PINS["pin"][0], **changes}]}


WRONG_PINS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (pin(untill=1), "pin: unknown name `untill`"),
    "no reason": (pin(reason=" "), "pin: `reason` is empty"),
    "date of text": (pin(until="2030-01-01"), "pin: `until` must be a date"),
    "date and time": (pin(until=datetime(2030, 1, 1)), "pin: `until` must be a date"),
    "unknown interface": (pin(iface="g"), "pin: no interface `g` on gfxA"),
    "functional with a gap": (pin(functional={"dtype": "bf16"}), "pin: functional needs causal as int"),
    "functional of another type": (pin(functional={"dtype": "bf16", "causal": True, "padded": False}), "pin: functional needs causal as int"),
    "functional that does not exist": (pin(functional={"dtype": "fp16", "causal": 0, "padded": False}), "pin: matches nothing: there is no such functional here"),
    "bin that does not exist": (pin(at={"q": 17}), "pin: matches nothing: 17 is no bin of q"),
    "bin of another arch": (pin(at={"q": 64}), "pin: matches nothing: 64 is no bin of q"),
    "bin of text": (pin(at={"q": "16"}), "pin: matches nothing: '16' is no bin of q"),
    "bin of bool": (pin(at={"q": True}), "pin: matches nothing: true is no bin of q"),
    "no bins": (pin(at={"q": []}), "pin: matches nothing: a list is no bin of q"),
    "unknown axis": (pin(at={"m": 16}), "pin: at: unknown name `m`"),
    "config with a gap": (pin(config={"BLOCK": 32, "pre": False}), "pin: config needs path as enum"),
    "config of another type": (pin(config={"BLOCK": 32.0, "pre": False, "path": "x"}), "pin: config needs BLOCK as int"),
    "config outside": (pin(config={"BLOCK": 48, "pre": False, "path": "x"}), "pin: BLOCK = 48 is outside its domain (16 32)"),
    "config that is illegal": (pin(config={"BLOCK": 32, "pre": True, "path": "x"}), "pin: forbidden: pre in {True}"),
    "pinned twice": ({"pin": PINS["pin"] * 2}, "pin: [bf16 0 false] 16,16 is pinned already in line 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_PINS)
def test_wrong_pins(case: str) -> None:
    content, message = WRONG_PINS[case]
    found, faults = pins(content)
    assert message in [fault.message for fault in faults]
    assert len(found) == (2 if case == "pinned twice" else 0)


def test_a_kernel_of_one_fixed_config_cannot_be_pinned() -> None:
    fixed, _ = schema(FIXED)
    assert fixed is not None
    content = pin(functional={"dtype": "bf16"}, at={}, config={"BLOCK": 32})
    _, faults = read_pins(toml_text(content).encode(), "gfxA/pins.toml", "gfxA", {"f": fixed})
    assert [fault.message for fault in faults] == ["pin: f has one fixed config and no table"]


PIN = """\
iface = "f"
functional = { dtype = "bf16", causal = 0, padded = false }
at = { q = 17 }
config = { BLOCK = 32, pre = false, path = "x" }
reason = '''
[[pin]]
is a head, but not here'''
until = 2030-01-01
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pins_have_positions(end: str) -> None:
    """The head of each pin, also where a text holds what looks like one."""
    text = f"# two pins\n[[pin]]\n{PIN}  [[ pin ]] # the second\n{PIN.replace('17', '16')}".replace("\n", end)
    found, faults = read_pins(text.encode(), "gfxA/pins.toml", "gfxA", {"f": good_schema()})
    assert [(f.span.line, f.span.column, f.span.last_column) for f in faults] == [(2, 1, 7)]
    assert [(p.span.line, p.span.column, p.span.last_column) for p in found] == [(11, 1, 24)]


def test_pins_without_heads_have_no_invented_positions() -> None:
    faults = pins(pin(at={"q": 17}))[1]
    assert [(fault.span.file, fault.span.line) for fault in faults] == [("gfxA/pins.toml", 0)]


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
        for line in ('name = "dtype"\ntype = "int"\nfixed', 'name = "dtype"\ntype', "name", 'name = "a"\ntype = "int"\nvalues'):
            _, faults = read_schema(f'iface = "f"\n[[key]]\n{line} = {value}\n'.encode(), "f.toml", "f")
            assert faults
            assert value.startswith('"') or all(len(fault.message) < 200 for fault in faults)


# --- names of archs ----------------------------------------------------------------------------------------------------

KNOWN, _ = read_archs(toml_text(ARCHS).encode(), "archs.toml")


@pytest.mark.parametrize("name", ["gfxA", "GFXA", " gfxa ", "gfxA:sramecc+:xnack-", "b", "B:x"])
def test_an_arch_is_known_by_its_names(name: str) -> None:
    found = find_arch(name, KNOWN)
    assert isinstance(found, Arch)
    assert found.name == "gfxA"


def test_an_unknown_arch_lists_the_known_ones() -> None:
    found = find_arch("gfxD", KNOWN)
    assert isinstance(found, Fault)
    assert found.hint == "did you mean gfxA? known are gfxA, gfxB" or found.hint.endswith("known are gfxA, gfxB")
    assert isinstance(find_arch("", KNOWN), Fault)
    assert isinstance(find_arch(":xnack-", KNOWN), Fault)


def test_lists_of_archs() -> None:
    assert split_archs(["gfxA;gfxB, c", "d  e\tf", ""]) == ["gfxA", "gfxB", "c", "d", "e", "f"]


def test_gpu_names() -> None:
    assert Arch("gfx942").gpu_name == "gfx942_mod0"
    assert Arch("gfx942_mod1").gpu_name == "gfx942_mod1"
    assert Arch("gfx942", gpu="MI300").gpu_name == "MI300"
