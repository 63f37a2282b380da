"""One cell, measured: candidates are admitted, then raced or searched exhaustively, and the winner is confirmed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar

from txtdb.evidence.decide import decide, finalists, replay
from txtdb.evidence.named import stands_for
from txtdb.evidence.policy import Policy
from txtdb.evidence.race import block_order
from txtdb.evidence.samples import median
from txtdb.evidence.watts import usable_watts
from txtdb.model.evidence import Block, CellEvidence, Decision, Entrant, Measured, Status
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues, config_text
from txtdb.model.values import Functional, functional_rank
from txtdb.tune.choosing import shapes_in_bin
from txtdb.tune.device import CandidateFault, Task
from txtdb.tune.fields import Cell, CellPlan, full_config, task_of
from txtdb.tune.log import DEPTH, GLANCE, BlockLog, CellLog, Stage, Step, Verdict
from txtdb.tune.measuring import MOST_THROTTLED, Compilers, Measurer, Notes, Throttled
from txtdb.tune.power import path_text

RACE = "race"
EXHAUSTIVE = "exhaustive"
STRATEGIES = (RACE, EXHAUSTIVE)

# A candidate during which the tuner ended so often is taken for the cause, though it ran behind a shield.
MOST_DEATHS = 3

_T = TypeVar("_T")


class Streaks:
    """Faults in a row of each functional, until its first candidate is right."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[Functional, int | None] = {}

    def note(self, functional: Functional, is_right: bool) -> None:
        """Take the verdict of a candidate."""
        row = self._rows.get(functional, 0)
        self._rows[functional] = None if row is None or is_right else row + 1

    def given_up(self, functional: Functional) -> int:
        """How many of its candidates failed, all that were tried, if that is enough; else 0."""
        row = self._rows.get(functional)
        return row if row is not None and row >= self._most else 0


@dataclass(frozen=True)
class Bench:
    """What all cells of a run share. `tick` is called after each candidate and each measurement."""

    arch_schema: ArchSchema
    policy: Policy
    strategy: str
    publish: bool
    by_energy: bool
    bar_pct: float
    measurer: Measurer
    compilers: Compilers
    streaks: Streaks
    tick: Callable[[], None]

    def task(self, cell: Cell) -> Task:
        """A cell as the device is told of it."""
        return task_of(self.arch_schema.schema, self.arch_schema.section.arch, cell)


class CellRun:
    """The run of one cell. It can be ended anywhere, and taken up again from the cell's log.

    Entrants are numbered in an order that does not depend on how the candidates were listed. After a finished race a
    candidate that is new runs against its winner and the incumbent alone: what they had beaten stays beaten.
    """

    def __init__(self, bench: Bench, plan: CellPlan, log: CellLog) -> None:
        self._bench, self.plan, self._log = bench, plan, log
        schema = bench.arch_schema.schema
        self._task = bench.task(plan.cell)
        self._names = {config: config_text(schema, config) for config in plan.candidates}
        self._field = frozenset(self._names.values())
        self._incumbent = frozenset(self._names[one] for one in (plan.incumbent,) if one is not None)
        self._stage = self._known_stage()
        scope = self._scope()
        self._entrants = sorted((one for one in plan.candidates if self._names[one] in scope), key=functional_rank)
        self._numbers = {self._names[config]: number for number, config in enumerate(self._entrants)}
        self._configs = {self._names[one]: full_config(schema, plan.cell.functional, one) for one in self._entrants}
        self._futures: dict[str, Future[None]] = {}
        self._is_submitted = False
        # Candidates that were not looked at, because so many of their functional's had failed.
        self._given_up: dict[str, int] = {}
        # Those whose watts were not read, and how many times slower than the fastest they are.
        self._slow: dict[str, float] = {}

    def compile_ahead(self, place: int) -> None:
        """Hand to the compilers what will be needed, once; cells of a lesser place are compiled first."""
        if self._is_submitted or self._bench.streaks.given_up(self.plan.cell.functional):
            return
        self._is_submitted = True
        known = self._log.verdicts.keys() | self._log.compiled
        for name in self._order():
            if name not in known and (Step.COMPILE, name) not in self._log.deaths:
                notes, end = self._notes(Step.COMPILE, name), partial(self._compiled_ahead, name)
                self._futures[name] = self._bench.compilers.submit(self._task, self._configs[name], notes, end, place)

    def run(self) -> Measured:
        """Measure the cell to its end.

        Raises Throttled, DeviceMissing, and KeyboardInterrupt where a person ends it.
        """
        for name in self._order():
            self._admit(name)
        while True:
            if self._bench.by_energy:  # again where a winner turned out to be wrong: others are the fastest now
                self._weigh_all()
            measured = self._measure()
            decision = decide(measured, self._bench.policy, self._bench.bar_pct)
            winner = None if decision.winner is None else self._names[self._entrants[decision.winner]]
            if self._is_confirmed(measured, decision):
                if self._stage and self._stage.winner is None and winner:
                    self._log.write({"is": "done", "stage": self._stage.number, "winner": winner}, force=True)
                return measured

    def measured(self, finished: bool = True) -> Measured:
        """What the log holds of the cell."""
        plan = self.plan
        is_exhaustive = self._bench.strategy == EXHAUSTIVE
        names = [self._names[config] for config in self._entrants]
        return Measured(
            functional=plan.cell.functional,
            at=plan.cell.at,
            strategy=self._bench.strategy,
            entrants=tuple(map(self._entrant, self._entrants)),
            incumbent=None if plan.incumbent is None else self._entrants.index(plan.incumbent),
            incumbent_layer=plan.incumbent_layer,
            neighbours=tuple(self._entrants.index(one) for one in plan.neighbours if one in self._entrants),
            depth=tuple(self._log.depth.get(name, ()) if is_exhaustive else () for name in names),
            blocks=self._blocks(),
            finished=finished,
            publish=self._bench.publish,
            dropped=sum(self._log.dropped[name] for name in names),
            watts=tuple(map(self._log.watts.get, names)) if self._bench.by_energy else (),
        )

    def _known_stage(self) -> Stage | None:
        """The race that had all of these candidates: of just these if there is one, else the last.

        One that the incumbent took no part in is none.
        """
        if self._bench.strategy != RACE:
            return None
        wider = [one for one in self._log.stages if self._field <= one.candidates and self._incumbent <= one.entrants]
        same = [stage for stage in wider if stage.candidates == self._field]
        found = same or wider
        return found[-1] if found else None

    def _scope(self) -> frozenset[str]:
        """Those who take part: all, or after a finished race the candidates that are new, its winner, the incumbent."""
        if self._stage:
            return self._stage.entrants
        done = [stage for stage in self._log.stages if stage.winner in self._field]
        if self._bench.strategy != RACE or not done:
            return self._field
        return frozenset({done[-1].winner or "", *self._incumbent, *(self._field - done[-1].candidates)})

    def _order(self) -> Iterable[str]:
        """The incumbent and its neighbours first, so that a broken set-up shows at once."""
        first = (self.plan.incumbent, *self.plan.neighbours, *self.plan.candidates)
        return dict.fromkeys(self._names[one] for one in first if one is not None and self._names[one] in self._numbers)

    def _entrant(self, config: ConfigValues) -> Entrant:
        name = self._names[config]
        if name in self._given_up:
            return Entrant(config, Status.NOT_RUN, f"given up: the first {self._given_up[name]} candidates failed")
        verdict = self._log.verdicts.get(name, Verdict(Status.NOT_RUN))
        path = self._path(name) if verdict.status is Status.OK else ""
        return Entrant(config, verdict.status, verdict.detail or path, verdict.error)

    def _path(self, name: str) -> str:
        """How the watts of a candidate were read, or why they were not; empty where time decides."""
        if name in self._slow:
            return f"power: not read, {self._slow[name]:.1f} times slower than the fastest"
        reading = self._log.watts.get(name)
        return "" if reading is None else path_text(reading)

    # Admission: every candidate is compiled and checked before any is timed.

    def _admit(self, name: str) -> None:
        """Look at a candidate, unless its functional is given up: what compilers found then does not count."""
        functional, streaks = self.plan.cell.functional, self._bench.streaks
        faults = streaks.given_up(functional)
        if faults:
            self._given_up[name] = faults
            return
        if name not in self._log.verdicts:
            self._examine(name)
            self._bench.tick()
        streaks.note(functional, self._log.is_right(name))

    def _examine(self, name: str) -> None:
        """Compile and check a candidate, and note its verdict."""
        config, measurer = self._configs[name], self._bench.measurer
        if name in self._futures:
            self._futures.pop(name).result()
        elif name not in self._log.compiled:
            self._guarded(Step.COMPILE, name, partial(measurer.compile, self._task, config))
        if name in self._log.verdicts:
            return
        error = self._guarded(Step.CHECK, name, partial(self._checked, name))
        if error is not None:
            self._log.judge(Step.CHECK, name, verdict_of(error))

    def _weigh_all(self) -> None:
        """Note the watts of the incumbent and of what is about as fast as the fastest: a reading takes seconds."""
        policy, log = self._bench.policy, self._log
        for name in self._order():
            if log.is_right(name) and name not in log.glances:
                self._time(GLANCE, name, policy.measurement.block_warm_up, policy.race.block_calls)
        pace = {name: median(log.glances[name]) for name in self._order() if log.is_right(name)}
        self._slow.clear()
        for name in sorted(pace, key=lambda one: (pace[one], one)):
            if name in log.watts:
                continue
            factor = pace[name] / self._fastest(pace, pace[name])
            if factor > policy.run.power_factor and name not in self._incumbent:
                self._slow[name] = factor
            else:
                self._weigh(name)

    def _fastest(self, pace: Mapping[str, float], otherwise: float) -> float:
        """The time of the fastest candidate that has watts to be ranked by."""
        ranked = usable_watts(self.measured())
        return min((pace[name] for name in pace if self._numbers[name] in ranked), default=otherwise)

    def _weigh(self, name: str) -> None:
        """Note the reading of a candidate; without one that can be used it takes no part."""
        reading = self._guarded(Step.POWER, name, partial(self._bench.measurer.power, self._task, self._configs[name]))
        if reading is not None:
            self._log.write({"is": "watts", "config": name, "reading": asdict(reading)})

    def _checked(self, name: str, notes: Notes | None) -> float:
        """Compiled again by the process that measures, from the cache: that is no time of the candidate's calls."""
        self._bench.measurer.compile(self._task, self._configs[name])
        return self._bench.measurer.check(self._task, self._configs[name], notes)

    def _guarded(self, step: Step, name: str, action: Callable[[Notes | None], _T], note: bool = True) -> _T | None:
        """What a step gives, or None with its verdict noted.

        A candidate during which the tuner ended before runs behind a shield: it may have been the cause.
        """
        deaths = self._log.deaths.get((step, name), 0)
        if deaths >= MOST_DEATHS:
            self._log.judge(step, name, Verdict(Status.CRASH, f"the tuner ended {deaths} times while it ran"))
            return None
        if deaths:
            self._bench.measurer.shield()
        try:
            return action(self._notes(step, name) if note or deaths else None)
        except CandidateFault as fault:
            self._log.judge(step, name, Verdict(fault.status, fault.detail))
            return None

    def _notes(self, step: Step, name: str) -> Notes:
        return Notes(partial(self._log.begin, step, name), partial(self._log.landed, step, name))

    def _compiled_ahead(self, name: str, fault: CandidateFault | None) -> None:
        """Called in a thread of the compilers."""
        if fault is None:
            self._log.write({"is": "compiled", "config": name})
        else:
            self._log.judge(Step.COMPILE, name, Verdict(fault.status, fault.detail))

    # Measuring: stages of blocks.

    def _measure(self) -> Measured:
        if self._bench.strategy == EXHAUSTIVE:
            self._search()
        elif any(map(self._log.is_right, self._numbers)):
            self._race()
        return self.measured()

    def _race(self) -> None:
        policy = self._bench.policy
        self._stage = self._stage or self._start_stage(self._numbers)
        race = replay(self.measured(), policy)
        while race.survivors and race.state == "running":
            survivors = [self._names[self._entrants[one]] for one in race.survivors]
            self._block(survivors, policy.measurement.block_warm_up, policy.race.block_calls)
            if all(map(self._log.is_right, survivors)):
                race.add(self._blocks()[-1])
            else:  # the race of the others, from its first block on
                race = replay(self.measured(), policy)

    def _search(self) -> None:
        """Every candidate to full depth, then the finalists again, each round in a fresh worker."""
        policy, settings = self._bench.policy, self._bench.policy.measurement
        for name in self._order():
            if self._log.is_right(name) and name not in self._log.depth:
                self._time(DEPTH, name, settings.warm_up, settings.calls)
        while chosen := self._finalists():
            same = [stage for stage in self._log.stages if stage.entrants == frozenset(chosen)]
            self._stage = same[-1] if same else self._start_stage(chosen)
            blocks = self._stage.blocks
            is_whole = not blocks or not self._waiting(blocks[-1])
            if is_whole and len(blocks) >= policy.finalists.rounds:
                return
            if is_whole:
                self._bench.measurer.fresh()
            self._block(chosen, settings.warm_up, policy.finalists.calls)

    def _finalists(self) -> list[str]:
        measured = self.measured()
        watts = usable_watts(measured) if self._bench.by_energy else None
        numbers = finalists(measured.depth, measured.entrants, measured.incumbent, self._bench.policy, watts)
        return [self._names[self._entrants[number]] for number in numbers]

    def _start_stage(self, entrants: Iterable[str]) -> Stage:
        self._log.write({"is": "stage", "field": sorted(self._field), "entrants": sorted(entrants)})
        return self._log.stages[-1]

    def _block(self, entrants: Sequence[str], warm_up: int, calls: int) -> None:
        """Run the next block, or the rest of the one that was begun."""
        stage = self._stage
        assert stage, "it was started"
        if not stage.blocks or not self._waiting(stage.blocks[-1]):
            numbers = [self._numbers[name] for name in entrants]
            order = block_order(self._bench.policy.seed, self.plan.cell.label, len(stage.blocks), numbers)
            names = [self._names[self._entrants[number]] for number in order]
            self._log.write({"is": "block", "stage": stage.number, "order": names})
        for name in self._waiting(stage.blocks[-1]):
            self._time(stage.number, name, warm_up, calls)

    def _waiting(self, block: BlockLog) -> list[str]:
        """The entrants of a block that take part and have not run yet."""
        return [name for name in self._log.waiting(block) if name in self._numbers]

    def _time(self, stage: int, name: str, warm_up: int, calls: int) -> None:
        """One measurement of one candidate, until one is made while the device is not throttled."""
        config, measurer, log = self._configs[name], self._bench.measurer, self._log
        for _ in range(MOST_THROTTLED):
            given = (self._task, config, warm_up, calls, log.measured[name])
            found = self._guarded(Step.TIME, name, partial(measurer.time, *given), note=stage in (DEPTH, GLANCE))
            if found is None:
                return
            times, throttled = found
            kept, dropped = ([], calls) if throttled else (list(times), 0)
            log.write({"is": "times", "stage": stage, "config": name, "times": kept, "dropped": dropped})
            self._bench.tick()
            if not throttled:
                return
        raise Throttled

    def _blocks(self) -> tuple[Block, ...]:
        """The blocks of the last stage that are complete."""
        blocks = []
        for block in self._stage.blocks if self._stage else ():
            if self._waiting(block):
                continue
            order = [name for name in block.order if name in block.times and name in self._numbers]
            if order:
                numbers = tuple(self._numbers[name] for name in order)
                blocks.append(Block(numbers, tuple(block.times[name] for name in order)))
        return tuple(blocks)

    # Confirmation: what the cell is left with once more, at other shapes that lookups answer with the same cell.

    def _is_confirmed(self, measured: Measured, decision: Decision) -> bool:
        """Whether what a decision leaves in the cell is right in all of its bin: a new config, or one that stays.

        A comparison leaves what is there now, which is not the incumbent. One that turned out wrong is out, and the
        cell has to be decided again.
        """
        config = stands_for(CellEvidence(measured, decision))
        names = frozenset({self._names[config]} if config is not None else ())
        if not measured.publish:
            names = self._field - self._incumbent
        return all(self._confirm(name) for name in sorted(names) if self._log.is_right(name))

    def _confirm(self, name: str) -> bool:
        at = self.plan.cell.at
        shapes = shapes_in_bin(self._bench.arch_schema, at) or [at]
        told = " ".join(",".join(map(str, shape)) for shape in shapes)  # others where the bin below is another one
        if self._log.confirmed.get(name) == told:
            return True
        for shape in shapes:
            task = self._bench.task(replace(self.plan.cell, at=shape))
            given = (task, self._configs[name])
            error = self._guarded(Step.CONFIRM, name, partial(self._bench.measurer.confirm, *given))
            if error is None:
                return False
            verdict = verdict_of(error)
            if verdict.status is not Status.OK:
                where = "another shape of its bin" if shape != at else "checked once more"
                detail = f"wrong at {','.join(map(str, shape))}, {where}"
                self._log.judge(Step.CONFIRM, name, replace(verdict, detail=detail))
                return False
        self._log.judge(Step.CONFIRM, name, Verdict(Status.OK, told))
        return True


def verdict_of(error: float) -> Verdict:
    """What the error of a candidate's results means; it is in units of the tolerance."""
    if math.isnan(error):
        return Verdict(Status.WRONG_RESULT, "a result is not a number", error)
    if not 0 <= error <= 1:
        return Verdict(Status.WRONG_RESULT, f"the error is {error:.3g} times the tolerance", error)
    return Verdict(Status.OK, "", error)
