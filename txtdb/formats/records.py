"""Measurement records of any tuner → the best config of each cell. docs/import-export.md tells the rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from txtdb.faults import Fault, Severity
from txtdb.formats.record_columns import ARCH_NAME, FileColumns, Reading, classify, value_text
from txtdb.formats.record_files import Record, RecordFile
from txtdb.model.archs import Arch, find_arch
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues, functional_text
from txtdb.model.values import Functional, Value, ValueType, functional_rank, parse_value, print_value

_DTYPES = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32"}
_BOOLS = {"true": True, "false": False, "1": True, "0": False}

Cell = tuple[Functional, tuple[int, ...]]


@dataclass(frozen=True)
class Selection:
    """The best config of each cell, and what became of the records.

    With anything in `refused` nothing may be used. `faults` tell of single records that were left out, and warn.
    """

    best: Mapping[Cell, ConfigValues] = field(default_factory=dict)
    refused: tuple[Fault, ...] = ()
    faults: tuple[Fault, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    records: int = 0
    invalid: int = 0
    superseded: int = 0
    of_other_archs: int = 0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A valid record: less is better, by device first, then by time, then by config, then by place."""

    device_rank: int
    time: float
    config: ConfigValues
    record: Record

    @property
    def rank(self) -> tuple[int, float, list[tuple[int, int, str]]]:
        return self.device_rank, self.time, functional_rank(self.config)


class _InvalidError(Exception):
    """A record that cannot be used; does not leave this module."""

    def __init__(self, rule: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.rule, self.message, self.hint = rule, message, hint


def select_best(
    files: Sequence[RecordFile], arch_schema: ArchSchema, archs: Mapping[str, Arch], reading: Reading
) -> Selection:
    """Choose the best valid record of each cell. `archs` are those of the database, for names and compute units."""
    columns, refused = classify(files, arch_schema.schema, reading)
    if refused:
        return Selection(refused=tuple(refused))
    return _Selector(arch_schema, archs, reading).run(files, columns)


class _Selector:
    def __init__(self, arch_schema: ArchSchema, archs: Mapping[str, Arch], reading: Reading) -> None:
        self._arch_schema, self._schema, self._reading = arch_schema, arch_schema.schema, reading
        self._arch, self._archs = archs[arch_schema.section.arch], archs
        self._known_units = _device_units(self._arch, archs)
        self._units: dict[tuple[str, str], list[Record]] = {}
        self._faults: list[Fault] = []
        self._of_other_archs = 0

    def run(self, files: Sequence[RecordFile], columns: Sequence[FileColumns]) -> Selection:
        cells: dict[Cell, list[_Candidate]] = {}
        records = valid = 0
        for file, meanings in zip(files, columns, strict=True):
            for record in file.records:
                records += 1
                placed = self._candidate(record, meanings)
                if placed:
                    cells.setdefault(placed[0], []).append(placed[1])
        best: dict[Cell, ConfigValues] = {}
        for cell, candidates in cells.items():
            winner = self._winner(cell, candidates)
            if winner:
                best[cell] = winner.config
                valid += len(candidates)
        self._unknown_units()
        return Selection(
            best=best,
            faults=tuple(self._faults),
            arguments=columns[0].arguments if columns else {},
            records=records,
            invalid=records - valid - self._of_other_archs,
            superseded=valid - len(best),
            of_other_archs=self._of_other_archs,
        )

    def _candidate(self, record: Record, columns: FileColumns) -> tuple[Cell, _Candidate] | None:
        try:
            named = self._named(record, columns)
            if not self._is_of_arch(named):
                self._of_other_archs += 1
                return None
            functional, bins = self._cell(named)
            config = self._config(named, functional)
            self._within_error(record)
            return (functional, bins), _Candidate(self._device_rank(record), self._time(record), config, record)
        except _InvalidError as error:
            self._faults.append(record.fault(error.rule, error.message, error.hint))
            return None

    def _named(self, record: Record, columns: FileColumns) -> dict[str, object]:
        """The record's values by name, with those that hold for all."""
        unknown = [column for column in record.fields if column in columns.unknown and record.fields[column] != {}]
        if unknown:
            hint = f"{self._schema.iface} has the fields {', '.join(self._schema.field_names)}"
            raise _InvalidError("unknown-parameter", f"unknown parameter {', '.join(unknown)}", hint)
        own = {columns.names[column]: value for column, value in record.fields.items() if column in columns.names}
        return {**self._reading.values, **own}

    def _is_of_arch(self, named: Mapping[str, object]) -> bool:
        name = named.get(ARCH_NAME)
        if name is None:
            return True
        found = find_arch(str(name), dict(self._archs))
        if isinstance(found, Fault):
            raise _InvalidError(found.rule, found.message, found.hint)
        return found == self._arch

    def _cell(self, named: Mapping[str, object]) -> Cell:
        functional = tuple(_typed(named, key.name, key.type, key.values) for key in self._schema.keys)
        for fixed in self._schema.fixed_keys:
            if fixed.name in named and _typed(named, fixed.name, fixed.type) != fixed.value:
                raise _InvalidError("fixed-key", f"{fixed.name} can only be {print_value(fixed.value)}")
        if not self._arch_schema.supports(functional):
            text = functional_text(self._schema, functional)
            raise _InvalidError("unsupported-functional", f"{text} does not exist on {self._arch.name}")
        bins = []
        for name, declared in zip(self._schema.axis_names, self._arch_schema.bins, strict=True):
            value = _typed(named, name, ValueType.INT)
            if value not in declared:
                hint = f"its bins are {' '.join(map(str, declared))}"
                raise _InvalidError("unknown-bin", f"{name} = {value} is no bin of {self._arch.name}", hint)
            bins.append(int(value))
        return functional, tuple(bins)

    def _config(self, named: Mapping[str, object], functional: Functional) -> ConfigValues:
        if not any(name in named for name in self._schema.field_names):
            raise _InvalidError(
                "empty-config", "the config is empty", f"it needs {', '.join(self._schema.field_names)}"
            )
        values = []
        for item in self._schema.config:
            if item.name not in named and item.default is not None:
                values.append(item.default)
            else:
                values.append(_typed(named, item.name, item.type, item.values))
        reason = self._arch_schema.illegal(tuple(values))
        if reason:
            raise _InvalidError("illegal-config", reason)
        for name, expected in self._schema.derived_values(functional).items():
            kind = next(item.type for item in self._schema.derived if item.name == name)
            if name in named and _typed(named, name, kind) != expected:
                raise _InvalidError("derived-field", f"{name} can only be {print_value(expected)} here")
        return tuple(values)

    def _within_error(self, record: Record) -> None:
        if self._reading.error is None or self._reading.max_error is None:
            return
        error = _number(record, self._reading.error)
        if not 0 <= error <= self._reading.max_error:
            message = f"{self._reading.error} = {error} is not within 0 … {self._reading.max_error}"
            raise _InvalidError("wrong-result", message, "a wrong result is never the best")

    def _time(self, record: Record) -> float:
        """The time; one for all where none was measured."""
        if self._reading.time is None:
            return 0.0
        time = _number(record, self._reading.time)
        if not (math.isfinite(time) and time > 0):
            raise _InvalidError("bad-time", f"{self._reading.time} = {time}: a time is positive and finite")
        return time

    def _device_rank(self, record: Record) -> int:
        """0 for the arch's own device, 1 for a board variant's, 2 for one that is not known."""
        if self._reading.device is None:
            return 0
        units = value_text(record.fields.get(self._reading.device))
        known = self._known_units.get(units)
        if known is None:
            self._units.setdefault((record.file, units), []).append(record)
        return 2 if known is None else known

    def _unknown_units(self) -> None:
        known = ", ".join(self._known_units) or "none: archs.toml does not state compute_units"
        for (_, units), records in self._units.items():
            message = f"{self._reading.device} = {units}: no known device uses this row ({len(records)} in this file)"
            fault = records[0].fault("unknown-device", message, f"known for {self._arch.name}: {known}")
            self._faults.append(Fault(fault.rule, fault.span, fault.message, fault.hint, Severity.WARNING))

    def _winner(self, cell: Cell, candidates: Sequence[_Candidate]) -> _Candidate | None:
        """The best candidate; None, with a fault, when nothing tells several configs of one device apart."""
        winner = min(candidates, key=lambda candidate: candidate.rank)
        rivals = [c for c in candidates if c.device_rank == winner.device_rank and c.config != winner.config]
        if self._reading.time is not None or not rivals:
            return winner
        places = ", ".join(str(item.record.span) for item in (winner, *rivals))
        text = f"{functional_text(self._schema, cell[0])} at {' '.join(map(str, cell[1]))}"
        message = f"{text} has several configs and no time to choose by: {places}"
        self._faults.append(winner.record.fault("ambiguous-cell", message, "name the column of times with --time"))
        return None


def _device_units(arch: Arch, archs: Mapping[str, Arch]) -> dict[str, int]:
    """Compute units of the arch's devices, as text → rank: 0 for its own, 1 for those of its board variants."""
    ranks = {str(arch.compute_units): 0} if arch.compute_units else {}
    family = arch.name.partition("_mod")[0]
    for other in archs.values():
        if other.compute_units and other.name.partition("_mod")[0] == family:
            ranks.setdefault(str(other.compute_units), 1)
    return ranks


def _typed(named: Mapping[str, object], name: str, kind: ValueType, values: Sequence[Value] = ()) -> Value:
    """A value in its type. Text spells any type; 0 and 1 are bools too; dtypes may have torch's names."""
    if name not in named:
        raise _InvalidError("missing-value", f"{name} is missing", f"map a column to it, or give --value {name}=…")
    raw = named[name]
    value = next(_readings(raw, kind, values), None)
    if value is None:
        hint = f"known are {', '.join(map(print_value, values))}" if kind is ValueType.ENUM else ""
        raise _InvalidError("wrong-type", f"{name} = {raw!r} is no {kind}", hint)
    return value


def _readings(raw: object, kind: ValueType, values: Sequence[Value]) -> Iterator[Value]:
    if kind is ValueType.BOOL:
        text = value_text(raw).lower()
        if isinstance(raw, str | int) and text in _BOOLS:
            yield _BOOLS[text]
    elif kind is ValueType.INT:
        number = raw if isinstance(raw, int) and not isinstance(raw, bool) else parse_value(str(raw), kind)
        if number is not None and isinstance(raw, str | int):
            yield number
    elif isinstance(raw, str):
        plain = raw.removeprefix("torch.")
        yield from (name for name in (raw, plain, _DTYPES.get(plain)) if name in values and name is not None)


def _number(record: Record, column: str) -> float:
    """A number as a measurement tells it; anything else is no measurement."""
    raw = record.fields.get(column)
    try:
        return math.nan if raw is None or isinstance(raw, bool) else float(str(raw))
    except ValueError:
        raise _InvalidError("bad-measurement", f"{column} = {raw!r} is no number") from None
