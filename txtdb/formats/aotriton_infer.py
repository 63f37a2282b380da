"""The schema of an AOTriton table, read off its rows: docs/import-export.md tells the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from txtdb.formats.aotriton_names import (
    BACKENDS,
    FALLBACK_KEYS,
    HELPER,
    HELPER_CONFIG,
    HELPER_KEYS,
    LAUNCH_FIELDS,
    Role,
    SourceColumn,
)
from txtdb.formats.aotriton_source import Rows
from txtdb.formats.columns import Column
from txtdb.model.schema import (
    ArchSection,
    Axis,
    Backend,
    ConfigField,
    Derived,
    FixedKey,
    Key,
    Predicate,
    Schema,
)
from txtdb.model.schema_file import BACKEND_FIELD
from txtdb.model.values import Value, ValueType

# Fields of which every power of two between the smallest and the largest one seen is sensible.
_TILE_PREFIX = "BLOCK_"
_POWER_FIELDS = ("num_warps",)


def infer_schema(rows: Rows, archs: Column, parents: Mapping[str, str], file: str) -> Schema:
    """The schema of one interface.

    `archs` gives the arch of each row; `parents` maps an arch to the arch that it lies over. `file` is the name that
    the schema's faults carry.
    """
    return _Inference(rows, archs, parents, file).schema()


class _Inference:
    def __init__(self, rows: Rows, archs: Column, parents: Mapping[str, str], file: str) -> None:
        self._rows, self._archs, self._parents, self._file = rows, archs, parents, file
        self._meanings = [m for m in rows.tables[0].meanings if m.name in rows.columns]
        self._seen = {name: column.seen() for name, column in rows.columns.items()}

    def schema(self) -> Schema:
        keys = tuple(self._keys())
        axes = tuple(Axis(m.name, self._sizes(m.name)) for m in self._of(Role.AXIS))
        derived = tuple(self._derived(keys))
        operator = self._rows.iface in BACKENDS
        return Schema(
            file=self._file,
            iface=self._rows.iface,
            kind="operator" if operator else "kernel",
            keys=keys,
            fixed_keys=tuple(self._fixed_keys(keys)),
            axes=axes,
            config=_backend_field(self._rows.iface) if operator else tuple(self._config({d.name for d in derived})),
            derived=derived,
            backends=tuple(Backend(*item) for item in BACKENDS.get(self._rows.iface, ())),
            absent=tuple(self._absent(keys)),
            sections=tuple(self._sections(keys, axes)),
        )

    def _of(self, role: Role) -> list[SourceColumn]:
        return [meaning for meaning in self._meanings if meaning.role is role]

    def _sizes(self, name: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self._seen[name])

    def _keys(self) -> Iterator[Key]:
        """Columns that vary, and those to fall back by; a table needs one key at least."""
        meanings = self._of(Role.KEY)
        varying = [m for m in meanings if len(self._seen[m.name]) > 1 or m.name in FALLBACK_KEYS]
        for meaning in varying or meanings[:1]:
            fallback = FALLBACK_KEYS.get(meaning.name)
            values = self._seen[meaning.name] if fallback is None else (False, True)
            yield Key(meaning.name, meaning.type, values, fallback)

    def _fixed_keys(self, keys: Sequence[Key]) -> Iterator[FixedKey]:
        names = {key.name for key in keys}
        for meaning in self._of(Role.KEY):
            if meaning.name not in names:
                yield FixedKey(meaning.name, meaning.type, self._seen[meaning.name][0])

    def _config(self, derived: set[str]) -> Iterator[ConfigField]:
        for meaning in self._of(Role.CONFIG):
            if meaning.name in derived:
                continue
            seen = self._seen[meaning.name]
            default = seen[0] if len(seen) == 1 else None
            values = () if meaning.type is ValueType.BOOL else _domain(meaning.name, seen)
            yield ConfigField(meaning.name, meaning.type, values, default=default)

    def _derived(self, keys: Sequence[Key]) -> Iterator[Derived]:
        """Launch fields that vary, and that their key decides in every row."""
        by_name = {key.name: key for key in keys}
        for meaning in self._of(Role.CONFIG):
            key = by_name.get(LAUNCH_FIELDS.get(meaning.name, ""))
            mapping = self._function_of(key, meaning.name) if key else None
            if key and mapping and len(self._seen[meaning.name]) > 1:
                yield Derived(meaning.name, meaning.type, key.name, mapping)

    def _function_of(self, key: Key, name: str) -> tuple[tuple[Value, Value], ...] | None:
        """(key value, field value) of all key values, when the first decides the second in every row."""
        together = self._together(key.name, name)
        given, results = self._rows.columns[key.name].values, self._rows.columns[name].values
        pairs = tuple((given[a], results[b]) for a, b in np.argwhere(together).tolist())
        return pairs if [value for value, _ in pairs] == list(key.values) else None

    def _together(self, first: str, second: str) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Which values of two columns stand in one row: shape (values of the first, values of the second)."""
        a, b = self._rows.columns[first], self._rows.columns[second]
        together = np.zeros((len(a.values), len(b.values)), np.bool_)
        together[a.codes, b.codes] = True
        return together

    def _absent(self, keys: Sequence[Key]) -> Iterator[Predicate]:
        """Pairs of key values that never stand in one row, on any arch."""
        for first, second in combinations([key for key in keys if key.fallback is None], 2):
            together = self._together(first.name, second.name)
            others = self._rows.columns[second.name].values
            for place, value in enumerate(self._rows.columns[first.name].values):
                met = {other for other, seen in zip(others, together[place], strict=True) if seen}
                missing = tuple(other for other in second.values if other not in met)
                if missing and value in first.values:
                    yield Predicate(((first.name, (value,)), (second.name, missing)))

    def _sections(self, keys: Sequence[Key], axes: Sequence[Axis]) -> Iterator[ArchSection]:
        seen = set(self._archs.seen())
        heirs = {child for child in self._parents if seen.intersection(self._line(child))}
        for arch in sorted(seen | heirs, key=str):
            codes = [self._archs.values.index(name) for name in self._line(str(arch)) if name in seen]
            rows = np.isin(self._archs.codes, codes)
            bins = {axis.name: self._rows.columns[axis.name].seen(rows) for axis in axes}
            domains = {key.name: self._rows.columns[key.name].seen(rows) for key in keys if key.fallback is None}
            yield ArchSection(
                str(arch),
                tuple((axis.name, tuple(map(int, bins[axis.name]))) for axis in axes if bins[axis.name] != axis.bins),
                tuple((key.name, domains[key.name]) for key in keys if domains.get(key.name, key.values) != key.values),
            )

    def _line(self, arch: str) -> list[str]:
        """An arch and those that it lies over, up to the last; a circle ends where it meets itself."""
        line = [arch]
        while (parent := self._parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        return line


def _backend_field(iface: str) -> tuple[ConfigField, ...]:
    return (ConfigField(BACKEND_FIELD, ValueType.ENUM, tuple(name for name, _ in BACKENDS[iface]), binary=False),)


def _domain(name: str, seen: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values seen; of a tile size or warp count also the powers of two between the smallest and the largest."""
    if not name.startswith(_TILE_PREFIX) and name not in _POWER_FIELDS:
        return seen
    sizes = [int(value) for value in seen]
    powers = {1 << exponent for exponent in range(max(sizes).bit_length()) if sizes[0] < 1 << exponent < sizes[-1]}
    return tuple(sorted(powers.union(sizes)))


def helper_schema(operator: Schema, file: str) -> Schema:
    """The schema of the operator's helper kernel, which is not tuned: it exists wherever the operator does."""
    keys = tuple(key for key in operator.keys if key.name in HELPER_KEYS)
    return Schema(
        file=file,
        iface=HELPER,
        kind="fixed",
        keys=keys,
        fixed_keys=tuple(key for key in operator.fixed_keys if key.name in HELPER_KEYS),
        config=tuple(ConfigField(name, ValueType.INT, (value,)) for name, value in HELPER_CONFIG.items()),
        fixed_config=tuple(HELPER_CONFIG.values()),
        sections=tuple(
            ArchSection(section.arch, (), tuple(item for item in section.domains if item[0] in HELPER_KEYS))
            for section in operator.sections
        ),
    )
