"""What may stand in the tables of one interface: keys, axes, config fields, and which functionals exist.

The grid and the set of functionals are declared here, so that absence can be found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from txtdb.model.values import Functional, Value, ValueType, functional_rank, has_type


@dataclass(frozen=True, slots=True)
class Key:
    """A dimension of the functional. A lookup of another value than `fallback` may fall back to it."""

    name: str
    type: ValueType
    values: tuple[Value, ...]
    fallback: Value | None = None


@dataclass(frozen=True, slots=True)
class FixedKey:
    """A key that a lookup may give, but only with this value."""

    name: str
    type: ValueType
    value: Value


@dataclass(frozen=True, slots=True)
class Axis:
    """A runtime dimension with its representative values, in increasing order."""

    name: str
    bins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field of a config. `values` or the range `minimum` … `maximum` is what may stand there.

    `binary` tells whether another value makes another kernel image.
    """

    name: str
    type: ValueType
    values: tuple[Value, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    default: Value | None = None
    binary: bool = True

    def admits(self, value: Value) -> bool:
        """Whether a value of the right type lies in the domain."""
        if self.type is ValueType.BOOL:
            return not self.values or value in self.values
        if self.minimum is not None and isinstance(value, int) and value < self.minimum:
            return False
        if self.maximum is not None and isinstance(value, int) and value > self.maximum:
            return False
        return not self.values or value in self.values

    def domain_text(self) -> str:
        """The domain, for messages."""
        if self.values:
            return " ".join(map(str, self.values))
        low = "" if self.minimum is None else str(self.minimum)
        return (
            f"{low}..{'' if self.maximum is None else self.maximum}" if (low or self.maximum is not None) else self.type
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """A field that every config of a functional gets from one key: `mapping[key value]`."""

    name: str
    type: ValueType
    key: str
    mapping: tuple[tuple[Value, Value], ...]

    def covers(self, value: Value) -> bool:
        """Whether there is a derived value for a key value."""
        return any(given == value for given, _ in self.mapping)

    def of(self, value: Value) -> Value:
        """The derived value for a key value that it covers."""
        return next(result for given, result in self.mapping if given == value)


@dataclass(frozen=True, slots=True)
class Predicate:
    """Matches when every named key or field has one of the listed values."""

    terms: tuple[tuple[str, tuple[Value, ...]], ...]

    def matches(self, values: dict[str, Value]) -> bool:
        """Whether the values match; a name that is not there does not."""
        return all(name in values and values[name] in allowed for name, allowed in self.terms)


@dataclass(frozen=True, slots=True)
class Backend:
    """A choice of an operator and the kernel interfaces that it launches (none for an external kernel)."""

    name: str
    launches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchSection:
    """What a schema says of one arch: its bins and domains where they differ, and what it does not support."""

    arch: str
    bins: tuple[tuple[str, tuple[int, ...]], ...] = ()
    domains: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    unsupported: tuple[Predicate, ...] = ()
    illegal: tuple[Predicate, ...] = ()


@dataclass(frozen=True)
class Schema:
    """All that one schema file declares. `kind` is `kernel`, `operator` or `fixed` (one config, no table)."""

    file: str
    iface: str
    kind: str
    keys: tuple[Key, ...]
    fixed_keys: tuple[FixedKey, ...] = ()
    axes: tuple[Axis, ...] = ()
    config: tuple[ConfigField, ...] = ()
    derived: tuple[Derived, ...] = ()
    backends: tuple[Backend, ...] = ()
    absent: tuple[Predicate, ...] = ()
    illegal: tuple[Predicate, ...] = ()
    fixed_config: tuple[Value, ...] | None = None
    sections: tuple[ArchSection, ...] = ()
    _for_arch: dict[str, ArchSchema | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """Names of the keys, in declared order: the order of a functional's values."""
        return tuple(key.name for key in self.keys)

    @cached_property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes, in declared order: the order of a cell's bins."""
        return tuple(axis.name for axis in self.axes)

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """Names of the config fields, in declared order: the order of a config's values."""
        return tuple(config.name for config in self.config)

    @property
    def archs(self) -> tuple[str, ...]:
        """The archs on which this interface exists."""
        return tuple(section.arch for section in self.sections)

    def for_arch(self, arch: str) -> ArchSchema | None:
        """The schema as it holds on one arch; None where the interface does not exist there."""
        if arch not in self._for_arch:
            section = next((section for section in self.sections if section.arch == arch), None)
            self._for_arch[arch] = ArchSchema(self, section) if section else None
        return self._for_arch[arch]

    def functional_dict(self, functional: Functional) -> dict[str, Value]:
        """Key name → value."""
        return dict(zip(self.key_names, functional, strict=True))

    def config_dict(self, values: tuple[Value, ...]) -> dict[str, Value]:
        """Config field name → value."""
        return dict(zip(self.field_names, values, strict=True))

    def derived_values(self, functional: Functional) -> dict[str, Value]:
        """The derived fields of a functional's configs; not those of key values that the schema does not have."""
        given = self.functional_dict(functional)
        return {item.name: item.of(given[item.key]) for item in self.derived if item.covers(given[item.key])}

    def kernel_values(self, functional: Functional) -> dict[str, Value]:
        """All that a functional says to its kernel: keys, fixed keys and derived fields."""
        fixed = {key.name: key.value for key in self.fixed_keys}
        return {**self.functional_dict(functional), **fixed, **self.derived_values(functional)}

    def donors(self, functional: Functional) -> list[Functional]:
        """The functionals that a lookup tries in turn: itself, then with one fallback key after the other replaced."""
        tried = [functional]
        for index, key in enumerate(self.keys):
            if key.fallback is not None and functional[index] != key.fallback:
                tried.append((*tried[-1][:index], key.fallback, *tried[-1][index + 1 :]))
        return tried


@dataclass(frozen=True)
class ArchSchema:
    """A schema as it holds on one arch."""

    schema: Schema
    section: ArchSection

    @cached_property
    def bins(self) -> tuple[tuple[int, ...], ...]:
        """Declared bins of each axis."""
        own = dict(self.section.bins)
        return tuple(own.get(axis.name, axis.bins) for axis in self.schema.axes)

    @cached_property
    def domains(self) -> tuple[tuple[Value, ...], ...]:
        """Declared values of each key."""
        own = dict(self.section.domains)
        return tuple(own.get(key.name, key.values) for key in self.schema.keys)

    def supports(self, functional: Functional) -> bool:
        """Whether the functional exists here; a lookup of one that does not answers `unsupported`."""
        if any(value not in domain for value, domain in zip(functional, self.domains, strict=True)):
            return False
        values = self.schema.functional_dict(functional)
        return not any(p.matches(values) for p in (*self.schema.absent, *self.section.unsupported))

    @cached_property
    def supported(self) -> frozenset[Functional]:
        """Every functional that exists here."""
        return frozenset(filter(self.supports, product(*self.domains)))

    @cached_property
    def declared(self) -> tuple[Functional, ...]:
        """The functionals that a complete table holds, sorted: those that need no fallback."""
        needed = (
            f for f in self.supported if all(k.fallback in (None, v) for k, v in zip(self.schema.keys, f, strict=True))
        )
        return tuple(sorted(needed, key=functional_rank))

    def illegal(self, config: tuple[Value, ...]) -> str | None:
        """Why a config may not be used here, or None."""
        for item, value in zip(self.schema.config, config, strict=True):
            if not has_type(value, item.type) or not item.admits(value):
                return f"{item.name} = {value} is outside its domain ({item.domain_text()})"
        values = self.schema.config_dict(config)
        for predicate in (*self.schema.illegal, *self.section.illegal):
            if predicate.matches(values):
                return "forbidden: " + ", ".join(f"{n} in {{{', '.join(map(str, v))}}}" for n, v in predicate.terms)
        return None
