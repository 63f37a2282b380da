"""A resolved table: lookups with their three answers, and the explanation of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from txtdb.layers.resolve import Bins, Fold, HistoryEntry, Layer, bin_index, cell_history, functional_label
from txtdb.model.schema import ArchSchema, FixedKey, Key, Schema
from txtdb.model.table import UNSET, Cells, ConfigPool
from txtdb.model.values import Functional, Value, ValueType, has_type, print_value, print_values, type_of
from txtdb.wording import plural


class Absent(Enum):
    """The two answers of a lookup that are no config."""

    NO_KERNEL = "no kernel"
    UNSUPPORTED = "unsupported"

    def __str__(self) -> str:
        return self.value


NO_KERNEL = Absent.NO_KERNEL
UNSUPPORTED = Absent.UNSUPPORTED


class LookupFault(ValueError):
    """A lookup that makes no sense: an unknown or missing name, a value of the wrong type, a negative size.

    `hint` says what to do about it, and may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


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
class Attempt:
    """One functional that a lookup tried, and every layer that set the cell it looked at, winner first."""

    functional: Functional
    history: tuple[HistoryEntry, ...]

    @property
    def has_config(self) -> bool:
        """Whether the lookup ended here."""
        return bool(self.history) and self.history[0].config is not None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a lookup gives what it gives.

    `bins` is where the sizes fell. `attempts` are the functionals in the order they were looked up: the asked one, then
    its fallbacks, up to the one that answered. `layers` are all layers of the table, lowest first. `reason` says why
    the answer is `unsupported`, and is empty otherwise. As a text it is a few lines for people.
    """

    arch: str
    iface: str
    query: Query
    answer: Config | Absent
    bins: tuple[int, ...]
    attempts: tuple[Attempt, ...]
    layers: tuple[Layer, ...]
    reason: str = ""

    def __repr__(self) -> str:
        return f"<Explanation {self.arch} {self.iface} {functional_label(self.query.functional)}: {self.answer}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        asked, sizes = functional_label(self.query.functional), ",".join(map(str, self.query.sizes))
        yield f"{self.arch} {self.iface} {asked} {sizes}"
        yield f"  answer  {self.answer}{f', {self.reason}' if self.reason else ''}"
        yield f"  bins    {','.join(map(str, self.bins)) or 'none'}"
        if self.answered_by not in (None, self.query.functional):
            yield f"  taken by fallback from {functional_label(self.attempts[-1].functional)}"
        if self.winner:
            origin = f", {self.winner.layer.origin}" if self.winner.layer.origin else ""
            yield f"  {'masked' if self.winner.config is None else 'set by'}  {self.winner.span}{origin}"

    @property
    def tried(self) -> tuple[Functional, ...]:
        """The functionals that were looked up."""
        return tuple(attempt.functional for attempt in self.attempts)

    @property
    def answered_by(self) -> Functional | None:
        """The functional whose cell is the answer; None where there is no config."""
        return self.attempts[-1].functional if self.attempts[-1].has_config else None

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The layers that set the cell that answered, winner first; without an answer those of the asked functional."""
        return self.attempts[-1 if self.answered_by else 0].history

    @property
    def winner(self) -> HistoryEntry | None:
        """The layer entry that decided."""
        return self.history[0] if self.history else None

    @property
    def searched(self) -> tuple[str, ...]:
        """The files of all layers, lowest first, each once."""
        return tuple(dict.fromkeys(layer.file for layer in self.layers))


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

    def __repr__(self) -> str:
        counts = (len(self.functionals), "functional"), (len(self.layers), "layer")
        functionals, layers = (f"{count} {plural(count, word)}" for count, word in counts)
        bins = "×".join(str(len(own)) for own in self.bins)
        return f"<ResolvedTable {self.arch} {self.iface}: {functionals}, {bins} bins, {layers}>"

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
        negative size. A fixed key may be left out, and so may a fallback key, which then has its fallback value.
        """
        query = self.query(given)
        return UNSUPPORTED if query is None else self._answer(query)[0]

    def explain(self, /, **given: Value) -> Explanation:
        """The same answer as `lookup`, with all that led to it."""
        query = self._read(given)
        reason = self._unsupported(query.functional, given)
        answer, bins = (UNSUPPORTED, self._fall(query)[1]) if reason else self._answer(query)
        return Explanation(
            self.arch, self.iface, query, answer, bins, self._attempts(query, bins, answer), self.layers, reason
        )

    def query(self, given: Mapping[str, Value]) -> Query | None:
        """Check a lookup's names and types; None when a fixed key has another value than its one."""
        query = self._read(given)
        return None if self._other_fixed(given) else query

    def config(self, number: int, functional: Functional) -> Config:
        """The config of a cell, with the fields that the functional derives."""
        return Config({**self.schema.config_dict(self.pool[number]), **self.schema.derived_values(functional)})

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
        result.flags.writeable = False
        return result

    @cached_property
    def _empty_grid(self) -> Cells:
        grid = np.full(tuple(map(len, self.bins)), UNSET, np.int32)
        grid.flags.writeable = False
        return grid

    @cached_property
    def _names(self) -> frozenset[str]:
        schema = self.schema
        return frozenset((*schema.key_names, *schema.axis_names, *(key.name for key in schema.fixed_keys)))

    def _read(self, given: Mapping[str, Value]) -> Query:
        """A lookup with its names, types and enum values checked."""
        for name in given:
            if name not in self._names:
                raise LookupFault(f"{self.iface} has no key or axis `{name}`; it has {', '.join(sorted(self._names))}")
        for fixed in self.schema.fixed_keys:
            if fixed.name in given:
                _typed(fixed.name, given[fixed.name], fixed.type)
        whole = {**self.fallbacks, **given}
        missing = [f"`{name}`" for name in (*self.schema.key_names, *self.schema.axis_names) if name not in whole]
        if missing:
            be, hint = "is" if len(missing) == 1 else "are", self._names_text()
            raise LookupFault(f"{self.iface}: {', '.join(missing)} {be} missing", hint)
        functional = tuple(_key_value(key, whole[key.name]) for key in self.schema.keys)
        return Query(functional, tuple(_size(name, whole[name]) for name in self.schema.axis_names))

    def _names_text(self) -> str:
        """What a lookup needs and may have, for a hint."""
        schema = self.schema
        may = [*self.fallbacks, *(key.name for key in schema.fixed_keys)]
        needed = [name for name in schema.key_names if name not in self.fallbacks]
        optional = f"; {', '.join(may)} may be left out" if may else ""
        return f"a lookup names the keys {', '.join(needed)} and the axes {', '.join(schema.axis_names)}{optional}"

    @cached_property
    def fallbacks(self) -> dict[str, Value]:
        """Fallback key → the value that its other values fall back to."""
        return {key.name: key.fallback for key in self.schema.keys if key.fallback is not None}

    def _other_fixed(self, given: Mapping[str, Value]) -> FixedKey | None:
        """The first fixed key that was given another value than its one."""
        return next((key for key in self.schema.fixed_keys if given.get(key.name, key.value) != key.value), None)

    def _unsupported(self, functional: Functional, given: Mapping[str, Value]) -> str:
        """Why a lookup is unsupported; empty where it is supported."""
        fixed = self._other_fixed(given)
        if fixed:
            return f"{fixed.name} is always {print_value(fixed.value)}"
        schema, section = self.schema, self.arch_schema.section
        for key, value, domain in zip(schema.keys, functional, self.arch_schema.domains, strict=True):
            if value not in domain:
                return f"{key.name} has no value {print_value(value)} on {self.arch}; it has {print_values(domain)}"
        values = schema.functional_dict(functional)
        for predicate in (*schema.absent, *section.unsupported):
            if predicate.matches(values):
                where = "" if predicate in schema.absent else f" on {self.arch}"
                given_text = " ".join(f"{name}={print_value(values[name])}" for name, _ in predicate.terms)
                return f"{given_text} is declared not to exist{where}"
        return ""

    def _fall(self, query: Query) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the sizes fall: positions on the axes, and the bins there. Both are empty for a table without bins."""
        pairs = [(bins, bin_index(bins, size)) for bins, size in zip(self.bins, query.sizes, strict=True) if bins]
        return tuple(place for _, place in pairs), tuple(bins[place] for bins, place in pairs)

    def _answer(self, query: Query) -> tuple[Config | Absent, tuple[int, ...]]:
        """The answer, and the bins where the sizes fell."""
        places, bins = self._fall(query)
        if not self.arch_schema.supports(query.functional):
            return UNSUPPORTED, bins
        for functional in self.schema.donors(query.functional) if places else ():
            number = self.fold.index.get(functional)
            if number is not None and (cell := int(self.cells[(number, *places)])) >= 0:
                return self.config(cell, query.functional), bins
        return NO_KERNEL, bins

    def _attempts(self, query: Query, bins: tuple[int, ...], answer: Config | Absent) -> tuple[Attempt, ...]:
        """What the lookup looked at, in turn, up to the first config."""
        if answer is UNSUPPORTED:
            return (Attempt(query.functional, ()),)
        attempts: list[Attempt] = []
        for functional in self.schema.donors(query.functional):
            history = cell_history(self.layers, self.pool, functional, bins) if bins else ()
            attempts.append(Attempt(functional, tuple(history)))
            if attempts[-1].has_config:
                break
        return tuple(attempts)


def _typed(name: str, value: Value, kind: ValueType) -> None:
    if not has_type(value, kind):
        raise LookupFault(f"{name} must be {kind}, not {type_of(value)} {value!r}")


def _key_value(key: Key, value: Value) -> Value:
    _typed(key.name, value, key.type)
    if key.type is ValueType.ENUM and value not in key.values:
        raise LookupFault(f"{key.name} has no value `{value}`; it has {', '.join(map(str, key.values))}")
    return value


def _size(name: str, value: Value) -> int:
    _typed(name, value, ValueType.INT)
    assert isinstance(value, int)
    if value < 0:
        raise LookupFault(f"{name} is {value}; a size is not negative")
    return value
