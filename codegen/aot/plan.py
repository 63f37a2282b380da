"""Which images the tables of a database need: per functional those of its cells, each with what it is compiled from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from codegen.aot.sources import Sources
from codegen.aot.spec import Spec, make_spec
from codegen.aot.target import Target, near_arch, target_of
from codegen.dispatch import DispatchTable, fixed_table, tuned_table
from codegen.inputs import Inputs
from codegen.keyspace import KeySpaces
from codegen.names import binary_values, image_name
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional


@dataclass(frozen=True, slots=True)
class Wanted:
    """One image of one functional. `config` holds the fields that change the binary; `cells` counts its cells and
    `rank` is the place of its first config in the table's order.
    """

    name: str
    functional: Functional
    config: ConfigValues
    cells: int
    rank: int


@dataclass(frozen=True)
class TablePlan:
    """The images of one arch and interface; `digest` is that of the dispatch table that asks for them."""

    arch: str
    schema: Schema
    target: Target
    digest: str
    table: DispatchTable
    wanted: tuple[Wanted, ...]

    @property
    def place(self) -> str:
        """`arch/interface`."""
        return f"{self.arch}/{self.schema.iface}"

    @property
    def field_names(self) -> tuple[str, ...]:
        """The config fields that change the binary."""
        return tuple(item.name for item in self.schema.config if item.binary)

    def cells_of(self, wanted: Wanted) -> list[tuple[int, ...]]:
        """The bins of the cells that an image serves; one empty tuple for an interface without axes."""
        row = self.table.space.functionals.index(wanted.functional)
        grid = self.table.grids[self.table.grid_of[row]]
        same = [binary_values(self.schema, config) == wanted.config for config in self.table.configs]
        places = np.flatnonzero(np.array([*same, False])[grid])
        if not self.table.bins:
            return [()] * len(places)
        at = np.unravel_index(places, [len(bins) for bins in self.table.bins])
        columns = [[bins[place] for place in own] for bins, own in zip(self.table.bins, at, strict=True)]
        return list(zip(*columns, strict=True))


def make_plans(database: Database, archs: Iterable[str], ifaces: Iterable[str]) -> tuple[list[TablePlan], list[Fault]]:
    """The plans of all kernel interfaces of some archs, or every fault that forbids them. No interfaces means all."""
    planner = _Planner(database)
    chosen = set(ifaces) or set(database.schemas)
    schemas = [database.schemas[iface] for iface in sorted(chosen) if database.schemas[iface].kind != "operator"]
    plans = [plan for arch in archs for schema in schemas if (plan := planner.plan(arch, schema))]
    if not plans and not planner.faults:
        label = database.listings[0].label
        planner.faults.append(
            Fault(
                "nothing-to-build",
                Span(label),
                "no interface that was asked for has a kernel there",
                "see `txtdb schema show`",
            )
        )
    return plans, list(dict.fromkeys(planner.faults))


def spec_of(plan: TablePlan, wanted: Wanted, sources: Sources) -> Spec | Fault:
    """What an image is compiled from, or why its schema and its kernel do not fit."""
    config = dict(zip(plan.field_names, wanted.config, strict=True))
    keys = plan.schema.kernel_values(wanted.functional)
    spec = make_spec(sources, plan.schema.iface, keys, config, plan.target)
    if isinstance(spec, str):
        return Fault("aot-kernel", Span(plan.schema.file), spec, "the schema and the kernel must agree")
    return spec


class _Planner:
    def __init__(self, database: Database) -> None:
        self.faults: list[Fault] = []
        self._database = database
        self._inputs, self._spaces = Inputs(database), KeySpaces()

    def plan(self, arch: str, schema: Schema) -> TablePlan | None:
        arch_schema, target = schema.for_arch(arch), target_of(self._database.archs[arch])
        if arch_schema is None:
            return None
        if target is None:
            where = Span(self._database.listings[0].label)
            near = near_arch(arch)
            hint = f"{f'did you mean {near}? ' if near else ''}images are made for archs whose names are gfx… or sm_…"
            self.faults.append(Fault("aot-arch", where, f"{arch}: the compiler knows no such processor", hint))
            return None
        table = self._table(arch_schema)
        return TablePlan(arch, schema, target, table.inputs, table, tuple(_wanted(table))) if table else None

    def _table(self, arch_schema: ArchSchema) -> DispatchTable | None:
        arch, schema = arch_schema.section.arch, arch_schema.schema
        digest, space = self._inputs.digest(arch, schema.iface), self._spaces.of(arch_schema)
        if schema.kind == "fixed":
            return fixed_table(arch_schema, space, digest)
        resolution = self._database.resolve(arch, schema.iface)
        wrong = errors(resolution.faults)
        self.faults += wrong
        return None if wrong or resolution.table is None else tuned_table(resolution.table, space, digest)


def _wanted(table: DispatchTable) -> Iterator[Wanted]:
    binary = [binary_values(table.schema, config) for config in table.configs]
    for functional, grid in zip(table.space.functionals, table.grid_of, strict=True):
        counts: Counter[ConfigValues] = Counter()
        ranks: dict[ConfigValues, int] = {}
        for number, count in zip(*np.unique(table.grids[grid], return_counts=True), strict=True):
            if number < len(binary):
                counts[binary[number]] += int(count)
                ranks.setdefault(binary[number], int(number))
        for config, rank in ranks.items():
            name = image_name(table.schema, functional, table.configs[rank])
            yield Wanted(name, functional, config, counts[config], rank)
