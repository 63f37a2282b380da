"""A resolved table: lookups with their three answers, and the explanation of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from txtdb.layers.resolve import Bins, Fold, HistoryEntry, Layer, bin_index, cell_history, functional_label
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.values import Functional, Value, ValueType, has_type, print_value, type_of


class Absent(Enum):
    """The two answers of a lookup that are no config."""

    NO_KERNEL = "no kernel"
    UNSUPPORTED = "unsupported"

    def __str__(self) -> str:
        return self.value


NO_KERNEL = Absent.NO_KERNEL
UNSUPPORTED = Absent.UNSUPPORTED


class LookupFault(ValueError):
    """A lookup that makes no sense: an unknown or missing name, a value of the wrong type, a negative size."""


class Config(Mapping[str, Value]):
    """A config as a read-only mapping from field name to value, derived fields included."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Value:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return hash(frozenset(self._fields.items()))

    def __repr__(self) -> str:
        return f"Config({self})"

    def __str__(self) -> str:
        return " ".join(f"{name}={print_value(value)}" for name, value in self._fields.items())


@dataclass(frozen=True, slots=True)
class Query:
    """A checked lookup: the functional and the runtime values on the axes."""

    functional: Functional
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a lookup gives what it gives.

    `tried` are the functionals in the order they were looked up: the asked one, then its fallbacks; `bins` is where the
    sizes fell. `history` lists every layer that set the cell of the functional that answered, winner first.
    `searched` names the files of all layers, lowest first.
    """

    arch: str
    iface: str
    query: Query
    answer: Config | Absent
    bins: tuple[int, ...]
    tried: tuple[Functional, ...]
    answered_by: Functional | None
    history: tuple[HistoryEntry, ...]
    searched: tuple[str, ...]

    @property
    def winner(self) -> HistoryEntry | None:
        """The layer entry that decided."""
        return self.history[0] if self.history else None


@dataclass(frozen=True)
class ResolvedTable:
    """The outcome of all layers of one arch and interface. Arrays are read-only.

    `cells` has shape (functionals, bins of axis 1, …) and holds numbers of `pool`, or UNSET or MASKED (no kernel);
    `winner` has the same shape and holds the number of the layer that set the cell, or -1.
    """

    arch: str
    arch_schema: ArchSchema
    pool: ConfigPool
    layers: tuple[Layer, ...]
    fold: Fold

    @property
    def schema(self) -> Schema:
        """The interface's schema."""
        return self.arch_schema.schema

    @property
    def iface(self) -> str:
        """The interface's name."""
        return self.schema.iface

    @property
    def functionals(self) -> tuple[Functional, ...]:
        """The functionals that any layer has rows for, sorted."""
        return self.fold.functionals

    @property
    def bins(self) -> Bins:
        """The union of the bins of all layers, on each axis."""
        return self.fold.bins

    @property
    def cells(self) -> Cells:
        """Config numbers; see the class."""
        return self.fold.cells

    @property
    def winner(self) -> npt.NDArray[np.int16]:
        """Layer numbers; see the class."""
        return self.fold.winner

    def lookup(self, /, **given: Value) -> Config | Absent:
        """The config for key values and sizes, each by name.

        Raises LookupFault for an unknown or missing name, a wrong type, an enum value that does not exist, or a
        negative size. A fixed key may be left out.
        """
        query = self.query(given)
        return UNSUPPORTED if query is None else self._answer(query)[0]

    def explain(self, /, **given: Value) -> Explanation:
        """The same answer as `lookup`, with all that led to it."""
        query = self.query(given) or self._query_of(given)
        searched = tuple(dict.fromkeys(layer.file for layer in self.layers))
        answer, functional, bins = self._answer(query)
        if answer is UNSUPPORTED or self.query(given) is None:
            return Explanation(self.arch, self.iface, query, UNSUPPORTED, bins, (query.functional,), None, (), searched)
        donors = self.schema.donors(query.functional)
        tried = donors[: donors.index(functional) + 1] if functional else donors
        history = cell_history(self.layers, self.pool, functional or query.functional, bins) if bins else []
        return Explanation(
            self.arch, self.iface, query, answer, bins, tuple(tried), functional, tuple(history), searched
        )

    def query(self, given: Mapping[str, Value]) -> Query | None:
        """Check a lookup's names and types; None when a fixed key has another value than its one."""
        names = {*self.schema.key_names, *self.schema.axis_names, *self._fixed}
        for name in given:
            if name not in names:
                raise LookupFault(f"{self.iface} has no key or axis `{name}`; it has {', '.join(sorted(names))}")
        query = self._query_of(given)
        return (
            None if any(name in given and given[name] != value for name, (_, value) in self._fixed.items()) else query
        )

    def config(self, number: int, functional: Functional) -> Config:
        """The config of a cell, with the fields that the functional derives."""
        return Config({**self.schema.config_dict(self.pool[number]), **self.schema.derived_values(functional)})

    def config_values(self, number: int) -> ConfigValues | None:
        """The values of a cell, or None where it holds no config."""
        return None if number < 0 else self.pool[number]

    def at(self, functional: Functional, bins: tuple[int, ...]) -> int:
        """The cell at exact bins of one functional, without fallback."""
        number = self.fold.index.get(functional)
        if number is None:
            return UNSET
        return int(self.cells[(number, *(own.index(value) for own, value in zip(self.bins, bins, strict=True)))])

    def effective(self, functional: Functional) -> Cells:
        """The grid that lookups of a functional see: its own cells, then those of its fallbacks. Read-only."""
        grids = [self.cells[self.fold.index[f]] for f in self.schema.donors(functional) if f in self.fold.index]
        if not grids:
            return self._empty_grid
        result: Cells = grids[0]
        for donor in grids[1:]:
            result = np.where(result < 0, donor, result)
        return result

    @cached_property
    def _empty_grid(self) -> Cells:
        grid = np.full(tuple(map(len, self.bins)), UNSET, np.int32)
        grid.flags.writeable = False
        return grid

    @cached_property
    def _fixed(self) -> dict[str, tuple[ValueType, Value]]:
        return {key.name: (key.type, key.value) for key in self.schema.fixed_keys}

    def _query_of(self, given: Mapping[str, Value]) -> Query:
        functional = tuple(self._typed(given, key.name, key.type) for key in self.schema.keys)
        for key, value in zip(self.schema.keys, functional, strict=True):
            if key.type is ValueType.ENUM and value not in key.values:
                raise LookupFault(f"{key.name} has no value `{value}`; it has {', '.join(map(str, key.values))}")
        for name, (kind, _) in self._fixed.items():
            if name in given:
                self._typed(given, name, kind)
        return Query(functional, tuple(self._size(given, name) for name in self.schema.axis_names))

    def _typed(self, given: Mapping[str, Value], name: str, kind: ValueType) -> Value:
        if name not in given:
            raise LookupFault(f"{self.iface}: `{name}` is missing")
        value = given[name]
        if not has_type(value, kind):
            raise LookupFault(f"{name} must be {kind}, not {type_of(value)} {value!r}")
        return value

    def _size(self, given: Mapping[str, Value], name: str) -> int:
        value = self._typed(given, name, ValueType.INT)
        assert isinstance(value, int)
        if value < 0:
            raise LookupFault(f"{name} is {value}; a size is not negative")
        return value

    def _answer(self, query: Query) -> tuple[Config | Absent, Functional | None, tuple[int, ...]]:
        """Answer, the functional that gave it, and the bins where the sizes fell."""
        places = tuple(bin_index(bins, size) for bins, size in zip(self.bins, query.sizes, strict=True) if bins)
        values = tuple(bins[place] for bins, place in zip(self.bins, places, strict=False))
        if not self.arch_schema.supports(query.functional):
            return UNSUPPORTED, None, values
        for functional in self.schema.donors(query.functional) if places else ():
            number = self.fold.index.get(functional)
            if number is not None and (cell := int(self.cells[(number, *places)])) >= 0:
                return self.config(cell, query.functional), functional, values
        return NO_KERNEL, None, values


def describe_query(schema: Schema, query: Query) -> str:
    """A lookup for people."""
    sizes = " ".join(f"{name}={size}" for name, size in zip(schema.axis_names, query.sizes, strict=True))
    return f"{functional_label(query.functional)} {sizes}"
