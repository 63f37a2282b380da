"""A schema in short, as plain data and in the words that a text shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from txtdb.model.schema import ArchSchema, ConfigField, Predicate, Schema
from txtdb.model.values import print_value, print_values


@dataclass(frozen=True)
class ArchGroup:
    """Archs on which the schema says the same; `functionals` and `cells` count those of one complete table."""

    archs: tuple[str, ...]
    schema: ArchSchema

    @property
    def functionals(self) -> int:
        """Declared functionals of a table."""
        return len(self.schema.declared)

    @property
    def cells(self) -> int:
        """Cells of a complete table."""
        return self.functionals * prod(map(len, self.schema.bins))


def arch_groups(schema: Schema, archs: Iterable[str]) -> list[ArchGroup]:
    """The given archs that have the interface, those with equal sections together."""
    groups: dict[Any, list[ArchSchema]] = {}
    for arch in archs:
        found = schema.for_arch(arch)
        if found:
            section = found.section
            groups.setdefault((found.bins, found.domains, section.unsupported, section.illegal), []).append(found)
    return [ArchGroup(tuple(item.section.arch for item in members), members[0]) for members in groups.values()]


def differences(group: ArchGroup) -> list[str]:
    """What a group says in place of the schema's common part."""
    schema, found = group.schema.schema, group.schema
    keys = zip(schema.keys, found.domains, strict=True)
    axes = zip(schema.axes, found.bins, strict=True)
    return [
        *(_list_difference(key.name, key.values, own) for key, own in keys if own != key.values),
        *(_list_difference(axis.name, axis.bins, own) for axis, own in axes if own != axis.bins),
        *(f"unsupported: {predicate_text(item)}" for item in found.section.unsupported),
        *(f"illegal: {predicate_text(item)}" for item in found.section.illegal),
    ]


def _list_difference(name: str, common: Sequence[Any], own: Sequence[Any]) -> str:
    """Own values in place of common ones: what is missing, where that is all and the shorter thing to say."""
    missing = [value for value in common if value not in own]
    if set(own) <= set(common) and len(missing) < len(own):
        return f"{name} without {print_values(missing)}"
    return f"{name}: {print_values(own)}"


def predicate_text(predicate: Predicate) -> str:
    """A condition: `causal=3 bias=1,2`."""
    return " ".join(f"{name}={','.join(map(print_value, values))}" for name, values in predicate.terms)


def domain_text(item: ConfigField) -> str:
    """What may stand in a config field."""
    limits = (item.minimum, item.maximum)
    low, high = ("" if limit is None else str(limit) for limit in limits)
    return print_values(item.values) or (f"{low}..{high}" if low or high else "any")


def schema_json(schema: Schema, archs: Sequence[str]) -> dict[str, Any]:
    """A schema, and what it says of some archs, as plain data."""
    fixed = [{"name": key.name, "type": str(key.type), "value": key.value} for key in schema.fixed_keys]
    return {
        "iface": schema.iface,
        "kind": schema.kind,
        "file": schema.file,
        "keys": [
            {"name": key.name, "type": str(key.type), "values": list(key.values), "fallback": key.fallback}
            for key in schema.keys
        ],
        "fixed_keys": fixed,
        "axes": [{"name": axis.name, "bins": list(axis.bins)} for axis in schema.axes],
        "config": [_field_json(item) for item in schema.config],
        "fixed_config": schema.config_dict(schema.fixed_config) if schema.fixed_config else None,
        "derived": [
            {"name": item.name, "type": str(item.type), "key": item.key, "map": [list(pair) for pair in item.mapping]}
            for item in schema.derived
        ],
        "backends": [{"name": item.name, "launches": list(item.launches)} for item in schema.backends],
        "absent": [_predicate_json(item) for item in schema.absent],
        "illegal": [_predicate_json(item) for item in schema.illegal],
        "archs": [entry for group in arch_groups(schema, archs) for entry in _group_json(group)],
    }


def _field_json(item: ConfigField) -> dict[str, Any]:
    return {
        "name": item.name,
        "type": str(item.type),
        "values": list(item.values),
        "min": item.minimum,
        "max": item.maximum,
        "default": item.default,
        "binary": item.binary,
    }


def _predicate_json(predicate: Predicate) -> dict[str, Any]:
    return {name: list(values) for name, values in predicate.terms}


def _group_json(group: ArchGroup) -> list[dict[str, Any]]:
    found = group.schema
    return [
        {
            "arch": arch,
            "functionals": group.functionals,
            "cells": group.cells,
            "domains": dict(zip(found.schema.key_names, map(list, found.domains), strict=True)),
            "bins": dict(zip(found.schema.axis_names, map(list, found.bins), strict=True)),
            "unsupported": [_predicate_json(item) for item in found.section.unsupported],
            "illegal": [_predicate_json(item) for item in found.section.illegal],
        }
        for arch in group.archs
    ]
