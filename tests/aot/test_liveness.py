"""Which config fields change the binary, by architecture family: compiled both ways and compared."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from codegen.aot.build import Workshop, compile_specs
from codegen.aot.liveness import FAMILIES, INERT, family, inert_fields
from codegen.aot.result import OK
from codegen.aot.spec import Spec, make_spec
from codegen.aot.target import target_of
from txtdb.layers.database import load
from txtdb.model.archs import Arch
from txtdb.model.schema import ConfigField, Schema
from txtdb.model.values import Value, ValueType

REPO = Path(__file__).parents[2]
ROOT = REPO / "amd"
# Those that have tables of their own: gfx1250 is compiled unlike the rest of its family.
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250", "sm_90")
# The values that are compared: small tiles, which compile fast. Other fields take the first two of their domain.
VALUES: dict[str, tuple[Value, Value]] = {
    "BLOCK_M": (32, 16),
    "BLOCK_N": (32, 16),
    "waves_per_eu": (0, 2),
    "num_warps": (4, 2),
    "num_stages": (1, 2),
}


@cache
def kernels() -> tuple[Schema, ...]:
    return tuple(schema for _, schema in sorted(load(ROOT).schemas.items()) if schema.kind != "operator")


def fields_of(schema: Schema, arch: str) -> list[ConfigField]:
    """The fields of a kernel's configs. On NVIDIA those of its own schemas, and those of AMD's that are listed."""
    found = {field.name: field for field in schema.config if field.binary}
    if arch.startswith("sm_"):
        found |= {field.name: field for field in load(REPO / "nvidia").schemas[schema.iface].config if field.binary}
    return list(found.values())


def two_values(field: ConfigField) -> tuple[Value, Value]:
    if field.type is ValueType.BOOL:
        return False, True
    return VALUES.get(field.name) or (field.values[0], field.values[1])


def keys_of(schema: Schema) -> dict[str, Value]:
    """The functional that compiles least."""
    small = {key.name: min(key.values) for key in schema.keys if key.type is not ValueType.ENUM}
    return {**small, "Q_dtype": "bf16", **{key.name: key.value for key in schema.fixed_keys}}


def compared(shop: Workshop, arch: str) -> dict[tuple[str, str], tuple[Spec, Spec]]:
    """(interface, field) → the specs that differ in it."""
    target = target_of(Arch(arch))
    assert target is not None
    pairs = {}
    for schema in kernels():
        fields = fields_of(schema, arch)
        base = {field.name: two_values(field)[0] for field in fields}
        for field in fields:
            changed = {**base, field.name: two_values(field)[1]}
            made = [make_spec(shop.kernels, schema.iface, keys_of(schema), own, target) for own in (base, changed)]
            one, two = (own for own in made if isinstance(own, Spec))
            pairs[schema.iface, field.name] = one, two
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_every_field_changes_the_binary_or_is_listed_as_inert(shop: Workshop, arch: str) -> None:
    pairs, name = compared(shop, arch), family(arch)
    results = compile_specs([spec for pair in pairs.values() for spec in pair], shop).results
    assert {spec.kernel: result.detail for spec, result in results.items() if result.status != OK} == {}
    digests = {spec: result.binary.digest for spec, result in results.items() if result.binary}
    inert = {(name, iface, field) for (iface, field), (one, two) in pairs.items() if digests[one] == digests[two]}
    assert inert == {entry for entry in INERT if entry[0] == name}


def test_every_table_of_its_own_is_of_a_compared_arch() -> None:
    listings = [load(root).listings[0] for root in (ROOT, REPO / "nvidia")]
    own = {
        file.arch
        for listing in listings
        for file in listing.tables.values()
        if b"#! base " not in file.path.read_bytes()
    }
    assert own == set(ARCHS)


def test_every_arch_of_the_database_belongs_to_a_family() -> None:
    assert {arch for arch in load(ROOT).archs if family(arch) is None} == set()
    assert {family(arch) for arch in ARCHS} == FAMILIES.keys()
    assert family("sm_80") is None


def test_inert_fields_are_fields() -> None:
    known = {(schema.iface, field.name) for schema in kernels() for field in schema.config if field.binary}
    assert {(iface, field) for _, iface, field in INERT} - known == set()
    assert inert_fields("sm_90", "attn_fwd") == {"waves_per_eu"}
    assert inert_fields("gfx942", "attn_fwd") == frozenset()
