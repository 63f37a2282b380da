"""Contents of schema files in plain data, and the ways in which the tests spoil them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.strategies import toml_text, toml_values
from txtdb.faults import Fault
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema

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
Place = tuple[str | int, ...]


def paths(value: object, path: Place = ()) -> Iterator[Place]:
    """Every place in a structure."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from paths(item, (*path, name))


def changed(content: dict[str, Any], path: Place, value: object) -> dict[str, Any]:
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
