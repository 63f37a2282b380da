"""pins.toml: hand-made choices above all patches of a root, each with a reason and an end date.

    [[pin]]
    iface = "attn_fwd"
    functional = { Q_dtype = "bf16", CAUSAL_TYPE = 0, BLOCK_DMODEL = 64, ENABLE_DROPOUT = false, BIAS_TYPE = 0 }
    at = { Max_seqlen_q = [1024, 2048], Max_seqlen_k = 1024 }
    config = { BLOCK_M = 64, BLOCK_N = 32, num_warps = 4 }
    reason = "wrong results with the tuned config, see issue 12"
    until = 2026-12-31

An axis that `at` leaves out means all its declared bins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any

import numpy as np

from txtdb.faults import Fault, Span
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.toml import TomlReader, parse_toml, shown
from txtdb.model.values import Functional, Value, can_be_written, functional_rank, print_value, print_values

_TEXT_BLOCK = re.compile(r'("""|\'\'\').*?\1', re.DOTALL)
_HEAD = re.compile(r"[ \t]*\[\[[ \t]*pin[ \t]*\]\][ \t]*(?:#.*)?")
_NAMES = ("iface", "functional", "at", "config", "reason", "until")


@dataclass(frozen=True, slots=True)
class Pin:
    """One pin, typed. `bins` are the pinned values on each axis."""

    iface: str
    functional: Functional
    bins: tuple[tuple[int, ...], ...]
    config: ConfigValues
    reason: str
    until: date
    span: Span


@dataclass(frozen=True)
class PinTable:
    """The pins of one interface as a layer; see `txtdb.model.table.FileTable` for the arrays."""

    file: str
    functionals: tuple[Functional, ...]
    bins: tuple[tuple[int, ...], ...]
    cells: Cells
    pins: tuple[Pin, ...]

    def cell_span(self, functional_index: int, at: tuple[int, ...]) -> Span:
        """The head of the pin that sets a cell."""
        functional = self.functionals[functional_index]
        values = tuple(bins[index] for bins, index in zip(self.bins, at, strict=True))
        matching = (
            p
            for p in self.pins
            if p.functional == functional and all(v in b for v, b in zip(values, p.bins, strict=True))
        )
        return next((p.span for p in matching), Span(self.file))


def read_pins(data: bytes, file: str, arch: str, schemas: Mapping[str, Schema]) -> tuple[tuple[Pin, ...], list[Fault]]:
    """All pins of one file. A pin that matches nothing is a fault."""
    content, faults = parse_toml(data, file)
    if content is None:
        return (), faults
    reader = _PinReader(file, "pin", data=data)
    reader.known(content, ("pin",), "pins.toml")
    tables = reader.tables(content, "pin")
    pins = [
        reader.pin(table, span, arch, schemas)
        for table, span in zip(tables, _head_spans(data, file, len(tables)), strict=True)
    ]
    found = tuple(pin for pin in pins if pin)
    reader.clashes(found)
    return found, reader.faults


def _head_spans(data: bytes, file: str, count: int) -> list[Span]:
    """Where the pins start. When the text and the decoder disagree on their number, no position is invented."""
    text = data.decode("utf-8").replace("\r\n", "\n")
    bare = _TEXT_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    heads = [(number, line) for number, line in enumerate(bare.split("\n"), 1) if _HEAD.fullmatch(line)]
    if len(heads) != count:
        return [Span(file)] * count
    return [Span(file, number, 1, number, len(line)) for number, line in heads]


class _PinReader(TomlReader):
    def pin(self, table: dict[str, Any], span: Span, arch: str, schemas: Mapping[str, Schema]) -> Pin | None:
        self.span = span
        before = len(self.faults)
        self.known(table, _NAMES, "pin")
        iface, reason = self.text(table, "iface", "pin"), self.text(table, "reason", "pin")
        until = table.get("until")
        if type(until) is not date:
            self.fault("pin: `until` must be a date", "write it like 2026-12-31, without quotes")
        if not reason.strip():
            self.fault("pin: `reason` is empty", "say why this choice is made by hand")
        schema = schemas.get(iface)
        arch_schema = schema.for_arch(arch) if schema else None
        if arch_schema is None:
            self.fault(f"pin: no interface `{iface}` on {arch}")
            return None
        if arch_schema.schema.kind == "fixed":
            self.fault(f"pin: {iface} has one fixed config and no table", "remove the pin")
            return None
        functional = self.functional(self.table(table, "functional", "pin"), arch_schema)
        bins = self.bins(self.table(table, "at", "pin"), arch_schema)
        config = self.config(self.table(table, "config", "pin"), arch_schema)
        if len(self.faults) > before or functional is None or config is None or type(until) is not date:
            return None
        return Pin(iface, functional, bins, config, reason, until, span)

    def functional(self, given: dict[str, Any], arch_schema: ArchSchema) -> Functional | None:
        schema = arch_schema.schema
        self.known(given, schema.key_names, "pin: functional")
        values: list[Value] = []
        for key in schema.keys:
            value = given.get(key.name)
            if value is None or not can_be_written(value, key.type):
                also = "; a lookup may leave it out, a pin names it" if key.fallback is not None else ""
                example = key.values[0] if key.fallback is None else key.fallback
                hint = f"it has {print_values(key.values)}; add it like `{key.name} = {_toml(example)}`{also}"
                self.fault(f"pin: functional needs {key.name} as {key.type}", hint)
                return None
            values.append(value)
        functional = tuple(values)
        if not arch_schema.supports(functional):
            self.fault(
                "pin: matches nothing: there is no such functional here",
                "correct its values, or remove the pin",
            )
        return functional

    def bins(self, given: dict[str, Any], arch_schema: ArchSchema) -> tuple[tuple[int, ...], ...]:
        names = arch_schema.schema.axis_names
        self.known(given, names, "pin: at")
        chosen = []
        for name, declared in zip(names, arch_schema.bins, strict=True):
            value = given.get(name, list(declared))
            values = value if isinstance(value, list) else [value]
            wrong = [item for item in values if type(item) is not int or item not in declared]
            if wrong or not values:
                self.fault(
                    f"pin: matches nothing: {shown(wrong[0] if wrong else values)} is no bin of {name}",
                    f"its bins are {' '.join(map(str, declared))}",
                )
            chosen.append(tuple(item for item in values if type(item) is int))
        return tuple(chosen)

    def config(self, given: dict[str, Any], arch_schema: ArchSchema) -> ConfigValues | None:
        schema = arch_schema.schema
        self.known(given, schema.field_names, "pin: config")
        values: list[Value] = []
        for item in schema.config:
            value = given.get(item.name, item.default)
            if value is None or not can_be_written(value, item.type):
                self.fault(f"pin: config needs {item.name} as {item.type}", f"add {item.name} to `config`")
                return None
            values.append(value)
        reason = arch_schema.illegal(tuple(values))
        if reason:
            self.fault(f"pin: {reason}")
        return tuple(values)

    def clashes(self, pins: tuple[Pin, ...]) -> None:
        taken: dict[tuple[object, ...], Pin] = {}
        for pin in pins:
            for at in product(*pin.bins):
                other = taken.setdefault((pin.iface, pin.functional, at), pin)
                if other is not pin:
                    self.span = pin.span
                    where = " ".join(map(print_value, pin.functional))
                    self.fault(
                        f"pin: [{where}] {','.join(map(str, at))} is pinned already in line {other.span.line}",
                        "keep one",
                    )
                    break


def _toml(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else print_value(value)


def pin_table(pins: tuple[Pin, ...], file: str, pool: ConfigPool) -> PinTable:
    """The layer that pins of one interface make."""
    axes = len(pins[0].bins)
    bins = tuple(tuple(sorted({value for pin in pins for value in pin.bins[axis]})) for axis in range(axes))
    functionals = tuple(sorted({pin.functional for pin in pins}, key=functional_rank))
    cells = np.full((len(functionals), *map(len, bins)), UNSET, np.int32)
    for pin in pins:
        places = [[b.index(v) for v in values] for b, values in zip(bins, pin.bins, strict=True)]
        cells[np.ix_([functionals.index(pin.functional)], *places)] = pool.intern(pin.config)
    cells.flags.writeable = False
    return PinTable(file, functionals, bins, cells, pins)
