"""Functionals as numbers: a mixed radix over the places of the key values in their declared domains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.values import Functional, functional_rank


def code_count(schema: Schema) -> int:
    """How many codes there are: the product of the sizes of the declared key domains."""
    return prod(len(key.values) for key in schema.keys)


def key_codes(schema: Schema) -> list[tuple[int, ...]]:
    """For each key what each of its declared values adds to a code. The last key counts in ones."""
    weight, result = code_count(schema), []
    for key in schema.keys:
        weight //= len(key.values)
        result.append(tuple(place * weight for place in range(len(key.values))))
    return result


@dataclass(frozen=True)
class KeySpace:
    """The functionals that an interface supports on an arch, sorted, with what the tables need to know of each.

    `donors` are the functionals that a lookup of it tries in turn, itself first. `declared` are the places of those
    that need no fallback.
    """

    functionals: tuple[Functional, ...]
    codes: tuple[int, ...]
    donors: tuple[tuple[Functional, ...], ...]
    declared: tuple[int, ...]

    @cached_property
    def depth(self) -> int:
        """The longest chain of donors."""
        return max(map(len, self.donors), default=1)


class KeySpaces:
    """Makes key spaces; archs of equal domains share one."""

    def __init__(self) -> None:
        self._spaces: dict[tuple[object, ...], KeySpace] = {}

    def of(self, arch_schema: ArchSchema) -> KeySpace:
        """The key space of an interface on an arch."""
        section = arch_schema.section
        place = (arch_schema.schema.iface, section.domains, section.unsupported)
        if place not in self._spaces:
            self._spaces[place] = _key_space(arch_schema)
        return self._spaces[place]


def _key_space(arch_schema: ArchSchema) -> KeySpace:
    schema = arch_schema.schema
    functionals = tuple(sorted(arch_schema.supported, key=functional_rank))
    declared = frozenset(arch_schema.declared)
    codes = [dict(zip(key.values, own, strict=True)) for key, own in zip(schema.keys, key_codes(schema), strict=True)]
    return KeySpace(
        functionals,
        tuple(sum(own[value] for own, value in zip(codes, functional, strict=True)) for functional in functionals),
        tuple(tuple(schema.donors(functional)) for functional in functionals),
        tuple(place for place, functional in enumerate(functionals) if functional in declared),
    )
