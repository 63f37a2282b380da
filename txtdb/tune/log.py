"""What a journal holds of one cell: verdicts, measurements, stages, and what was in flight when the tuner ended.

Records of a cell, beside `cell`, its label; a config is named by its text (`BLOCK_M=64 num_warps=4`):

    {"is": "begin", "step": …, "config": …}                      the step is about to run
    {"is": "landed", "step": …, "config": …}                     the tuner outlived it, whatever it gave
    {"is": "compiled", "config": …}
    {"is": "verdict", "step": …, "config": …, "status": …, "detail": …, "error": …}    of a confirmation that is well
                                                                 the detail has the shapes
    {"is": "watts", "config": …, "reading": {…}}
    {"is": "stage", "field": [config, …], "entrants": [config, …]}    a race or the finalists' rounds start
    {"is": "block", "stage": n, "order": [config, …]}            its next block starts
    {"is": "times", "stage": n, "config": …, "times": [ns, …], "dropped": calls}
    {"is": "done", "stage": n, "winner": config}                 the stage has a winner, confirmed where it is new
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from txtdb.model.evidence import Reading, Status
from txtdb.tune.journal import Journal, Record
from txtdb.tune.power import reading_of

# The stages of measurements of one candidate by itself: to full depth, and a few calls before watts are read.
DEPTH, GLANCE = -1, -2


class Step(StrEnum):
    """What is done with a candidate."""

    COMPILE = "compile"
    CHECK = "check"
    TIME = "time"
    POWER = "power"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a candidate; `error` is None where no result was compared."""

    status: Status
    detail: str = ""
    error: float | None = None


@dataclass
class BlockLog:
    """A block: the order in which its entrants run, and the times of those that did."""

    order: tuple[str, ...]
    times: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass
class Stage:
    """A race or the finalists' rounds of some entrants; `candidates` are all that the cell had then.

    `winner` is None until the stage is done, and where it has none.
    """

    number: int
    candidates: frozenset[str]
    entrants: frozenset[str]
    blocks: list[BlockLog] = field(default_factory=list)
    winner: str | None = None


class CellLog:
    """The state of one cell. `write` is the only way to change it, and the journal has it first."""

    def __init__(self, label: str, journal: Journal, records: Iterable[Record]) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.compiled: set[str] = set()
        self.confirmed: dict[str, str] = {}
        self.watts: dict[str, Reading] = {}
        self.depth: dict[str, tuple[float, ...]] = {}
        self.glances: dict[str, tuple[float, ...]] = {}
        self.stages: list[Stage] = []
        self.measured: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        # How often the tuner ended while a step ran, until the step comes to its end.
        self.deaths: dict[tuple[Step, str], int] = {}
        self._in_flight: Counter[tuple[Step, str]] = Counter()
        self._label, self._journal = label, journal
        self._mutex = threading.Lock()
        for record in records:
            self._take(record)
        self.deaths = self._deaths()

    def _deaths(self) -> dict[tuple[Step, str], int]:
        """What is in flight at the end of the records. In a block no entrant has a record of its own for that."""
        deaths = +self._in_flight
        if self.stages and self.stages[-1].blocks:
            waiting = self.waiting(self.stages[-1].blocks[-1])
            deaths.update((Step.TIME, config) for config in waiting[:1])
        return deaths

    def waiting(self, block: BlockLog) -> list[str]:
        """The entrants of a block that have not run yet, in their order."""
        return [one for one in block.order if one not in block.times and self.is_right(one)]

    def is_right(self, config: str) -> bool:
        """Whether a candidate ran and its results were right."""
        verdict = self.verdicts.get(config)
        return verdict is not None and verdict.status is Status.OK

    def write(self, record: Record, *, force: bool = False) -> None:
        """Add a record. Threads may call this."""
        with self._mutex:
            self._journal.append({**record, "cell": self._label}, force=force)
            self._take(record)

    def begin(self, step: Step, config: str) -> None:
        """Note that a step is about to run."""
        self.write({"is": "begin", "step": step, "config": config}, force=step is Step.CHECK)

    def landed(self, step: Step, config: str) -> None:
        """Note that the tuner outlived a step."""
        self.write({"is": "landed", "step": step, "config": config})

    def judge(self, step: Step, config: str, verdict: Verdict) -> None:
        """Note what a step found."""
        error = None if verdict.error is None else repr(verdict.error)
        given = {"status": verdict.status, "detail": verdict.detail, "error": error}
        self.write({"is": "verdict", "step": step, "config": config, **given})

    def _take(self, record: Record) -> None:
        _TAKE[record["is"]](self, record)

    def _begin(self, record: Record) -> None:
        self._in_flight[Step(record["step"]), record["config"]] += 1

    def _has_landed(self, record: Record) -> None:
        self._landed(Step(record["step"]), record["config"])

    def _compiled(self, record: Record) -> None:
        self.compiled.add(record["config"])

    def _verdict(self, record: Record) -> None:
        step, config, status = Step(record["step"]), record["config"], Status(record["status"])
        self._landed(step, config)
        error = None if record["error"] is None else float(record["error"])
        if step is Step.CONFIRM and status is Status.OK:
            self.confirmed[config] = record["detail"]
        else:
            self.verdicts[config] = Verdict(status, record["detail"], error)

    def _watts(self, record: Record) -> None:
        self._landed(Step.POWER, record["config"])
        self.watts[record["config"]] = reading_of(record["reading"])

    def _stage(self, record: Record) -> None:
        self.stages.append(Stage(len(self.stages), frozenset(record["field"]), frozenset(record["entrants"])))

    def _block(self, record: Record) -> None:
        self.stages[record["stage"]].blocks.append(BlockLog(tuple(record["order"])))

    def _times(self, record: Record) -> None:
        config, times = record["config"], tuple(record["times"])
        self._landed(Step.TIME, config)
        self.measured[config] += 1
        self.dropped[config] += record["dropped"]
        if not times:
            return
        if record["stage"] in (DEPTH, GLANCE):
            (self.depth if record["stage"] == DEPTH else self.glances)[config] = times
        else:
            self.stages[record["stage"]].blocks[-1].times[config] = times

    def _done(self, record: Record) -> None:
        self.stages[record["stage"]].winner = record["winner"]

    def _landed(self, step: Step, config: str) -> None:
        self._in_flight.pop((step, config), None)
        self.deaths.pop((step, config), None)


_TAKE: Mapping[str, Any] = {
    "begin": CellLog._begin,
    "landed": CellLog._has_landed,
    "compiled": CellLog._compiled,
    "verdict": CellLog._verdict,
    "watts": CellLog._watts,
    "stage": CellLog._stage,
    "block": CellLog._block,
    "times": CellLog._times,
    "done": CellLog._done,
}
