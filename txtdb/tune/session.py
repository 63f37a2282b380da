"""A run of the tuner: cell after cell, from a journal that is taken up where it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from txtdb.evidence.decide import decide
from txtdb.evidence.policy import Policy, as_json
from txtdb.interrupts import terminated_as_interrupted
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.evidence import SOURCE_FACT, CellEvidence, Evidence
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Value, print_value
from txtdb.tune.calibrating import Calibrated
from txtdb.tune.cell_run import Bench, CellRun, Streaks
from txtdb.tune.choosing import Ground
from txtdb.tune.device import DeviceFacts
from txtdb.tune.fields import Cell, CellPlan, narrowed, ordered, task_of
from txtdb.tune.journal import Journal, Record
from txtdb.tune.log import CellLog
from txtdb.tune.measuring import Compilers, Measurer, Throttled
from txtdb.tune.tunable import Tunable

SELECT_TIME, SELECT_ENERGY = "time", "energy"


@dataclass(frozen=True)
class Settings:
    """How a run measures. `device` is what `open_device` takes, `bar_pct` the least gain of a challenger."""

    device: str
    policy: Policy
    strategy: str
    jobs: int
    bar_pct: float
    publish: bool = True
    by_energy: bool = False


@dataclass(frozen=True)
class Watcher:
    """Who is told how the run goes on: of each candidate or measurement, and of each cell that is done."""

    tick: Callable[[], None]
    cell: Callable[[CellPlan, CellEvidence], None]


@dataclass(frozen=True)
class Session:
    """What a run gave: all of its cells, and whether it was ended before the last; those left are `unmeasured`."""

    cells: tuple[CellEvidence, ...]
    stopped: bool

    @property
    def is_whole(self) -> bool:
        """Whether every cell was measured to its end: what is published is decided of all cells or of none."""
        return not self.stopped and all(cell.measured.finished for cell in self.cells)


def plan_cell(
    table: ResolvedTable, cell: Cell, ground: Ground, field: Sequence[ConfigValues], tunable: Tunable | None
) -> CellPlan:
    """What is measured for a cell: its field, the incumbent, and what neighbouring cells use."""
    schema = table.schema
    own = narrowed(tunable, schema, task_of(schema, table.arch, cell), cell.functional, field)
    given = (*own, *ground.neighbours, *([ground.incumbent] if ground.incumbent else []))
    neighbours = tuple(config for config in ground.neighbours if config != ground.incumbent)
    return CellPlan(cell, ordered(schema, given), ground.incumbent, ground.layer, neighbours)


def identity_of(arch_schema: ArchSchema, settings: Settings, facts: DeviceFacts) -> dict[str, Any]:
    """What identifies the measurements of a run, cells and candidates apart: the journals of equal ones are one."""
    return {
        "iface": arch_schema.schema.iface,
        "arch": arch_schema.section.arch,
        **_meaning_of(arch_schema.schema),
        "strategy": settings.strategy,
        "purpose": "publish" if settings.publish else "compare",
        "select": SELECT_ENERGY if settings.by_energy else SELECT_TIME,
        "policy": as_json(settings.policy),
        "contract": dict(facts.contract),
        "device": dict(facts.device),
        "software": dict(facts.software),
        "source": facts.source,
    }


def _meaning_of(schema: Schema) -> dict[str, Any]:
    """What a schema adds to the values that label a cell: by these the same label is another problem."""
    return {
        "keys": [[key.name, key.type] for key in schema.keys],
        "axes": schema.axis_names,
        "fixed_keys": {key.name: key.value for key in schema.fixed_keys},
        "derived": {item.name: {item.key: _texts(item.mapping)} for item in schema.derived},
    }


def _texts(mapping: Iterable[tuple[Value, Value]]) -> dict[str, Value]:
    return {print_value(given): result for given, result in mapping}


def run_session(
    arch_schema: ArchSchema,
    plans: Sequence[CellPlan],
    settings: Settings,
    journal: Journal,
    measurer: Measurer,
    watcher: Watcher,
) -> Session:
    """Measure cells in their order. An interrupt or a termination signal ends the run cleanly.

    Raises DeviceMissing when the device cannot be used any more; the journal has all that was measured.
    """
    run, logs = settings.policy.run, _grouped(journal.records)
    with closing(Compilers(settings.device, settings.jobs, run)) as compilers:
        bench = Bench(
            arch_schema,
            settings.policy,
            settings.strategy,
            settings.publish,
            settings.by_energy,
            settings.bar_pct,
            measurer,
            compilers,
            Streaks(run.faults_in_a_row),
            watcher.tick,
        )
        runs = [CellRun(bench, plan, CellLog(plan.cell.label, journal, logs[plan.cell.label])) for plan in plans]
        return _run_all(bench, runs, watcher)


def _run_all(bench: Bench, runs: Sequence[CellRun], watcher: Watcher) -> Session:
    cells: list[CellEvidence] = []
    try:
        with terminated_as_interrupted():
            for number, run in enumerate(runs):
                for place in _ahead(runs, number):
                    runs[place].compile_ahead(place)
                cells.append(_decided(bench, run))
                watcher.cell(run.plan, cells[-1])
    except KeyboardInterrupt:
        return Session((*cells, *(_unmeasured(bench, run) for run in runs[len(cells) :])), stopped=True)
    return Session(tuple(cells), stopped=False)


def _ahead(runs: Sequence[CellRun], number: int) -> list[int]:
    """The cells that are compiled while one is measured: this, the next, and the first of the next functional.

    A functional has images of its own, as a rule for all of its cells, which take longer than a cell is measured.
    """
    own = runs[number].plan.cell.functional
    others = (place for place in range(number + 1, len(runs)) if runs[place].plan.cell.functional != own)
    wanted = (number, number + 1, next(others, number))
    return sorted({place for place in wanted if place < len(runs)})


def _decided(bench: Bench, run: CellRun) -> CellEvidence:
    try:
        measured = run.run()
    except Throttled:
        return _unmeasured(bench, run)
    return CellEvidence(measured, decide(measured, bench.policy, bench.bar_pct))


def _unmeasured(bench: Bench, run: CellRun) -> CellEvidence:
    """A cell that the run did not bring to its end, with what was measured of it."""
    measured = run.measured(finished=False)
    return CellEvidence(measured, decide(measured, bench.policy, bench.bar_pct))


def _grouped(records: Sequence[Record]) -> Mapping[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["cell"]].append(record)
    return groups


def evidence_of(
    arch_schema: ArchSchema,
    name: str,
    planned: int,
    settings: Settings,
    facts: DeviceFacts,
    calibration: Calibrated | None,
    session: Session,
) -> Evidence:
    """The evidence of a run; it holds nothing of when and where the run took place."""
    return Evidence(
        iface=arch_schema.schema.iface,
        arch=arch_schema.section.arch,
        name=name,
        seed=settings.policy.seed,
        planned=planned,
        policy=as_json(settings.policy),
        contract=facts.contract,
        device=facts.device,
        software={**facts.software, SOURCE_FACT: facts.source},
        calibration=calibration.stated if calibration else None,
        cells=session.cells,
        trials=calibration.trials if calibration else (),
    )
