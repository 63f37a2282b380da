"""Trials whose truth is known: one config under several labels, and against a twin that is slower by a known share.

The twin's times are those of the same config, times 1 + the share: so its truth is known without a second kernel. The
trials of a run are spread over some of its cells, each with the cell's incumbent, or else its first candidate that is
right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from txtdb.evidence.calibration import calibrate
from txtdb.evidence.policy import Policy
from txtdb.evidence.race import Race, block_order
from txtdb.model.evidence import Block, Entrant, Measured, Status
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues, config_text
from txtdb.tune.device import CandidateFault, Task
from txtdb.tune.fields import Cell, CellPlan, full_config, task_of
from txtdb.tune.journal import Journal, Record
from txtdb.tune.measuring import MOST_THROTTLED, Measurer, Throttled

# Labels of one config in a trial of equals; the first stands for the incumbent.
LABELS = 4
# How much slower the twin is, in percent of the time: twice the usual bar.
SLOWER_PCT = 6.0
# One trial with a twin for so many of equals.
TWIN_EVERY = 4
# Cells that the trials are spread over: the config of each has to be compiled first.
SUBJECTS = 8
# The label of trials in the journal; no cell has it.
TRIALS = "calibration"


@dataclass(frozen=True)
class Trial:
    """One trial: its number among those of its kind. With a twin the incumbent is made slower than the one other."""

    number: int
    twin: bool

    @property
    def label(self) -> str:
        """What the order inside blocks depends on, and how the journal names the trial."""
        return f"{'twin' if self.twin else 'equals'} {self.number}"

    @property
    def labels(self) -> int:
        """How many entrants it has."""
        return 2 if self.twin else LABELS


def plan_trials(count: int) -> list[Trial]:
    """`count` trials of equals, and a quarter as many with a twin."""
    twins = -(-count // TWIN_EVERY)
    return [*(Trial(number, False) for number in range(count)), *(Trial(number, True) for number in range(twins))]


def _spread(plans: Sequence[CellPlan]) -> list[CellPlan]:
    """Plans with SUBJECTS of them first that lie as far apart as they can."""
    step = max(1, -(-len(plans) // SUBJECTS))
    return [plan for first in range(step) for plan in plans[first::step]]


class Calibrator:
    """Runs the trials of a run, from the journal where it holds them."""

    def __init__(self, arch_schema: ArchSchema, policy: Policy, journal: Journal, measurer: Measurer) -> None:
        self._schema, self._arch = arch_schema.schema, arch_schema.section.arch
        self._policy, self._journal, self._measurer = policy, journal, measurer
        self._done = {(record["trial"], record["of"]): record for record in journal.records if record["is"] == "trial"}
        self._measured: dict[str, int] = {}

    def run(self, plans: Sequence[CellPlan], count: int) -> dict[str, Any]:
        """What the trials say, see `txtdb.evidence.calibration.calibrate`.

        The measurements of a config are numbered through all trials. Raises CandidateFault where no cell has a config
        that is right.
        """
        found = (subject for plan in _spread(plans) if (subject := self._subject(plan)) is not None)
        subjects = list(islice(found, min(count, SUBJECTS)))
        if not subjects:
            raise CandidateFault(Status.NOT_RUN, "no cell has a config that is right")
        trials = plan_trials(count)
        measured = [(trial, self._trial(trial, *subjects[trial.number % len(subjects)])) for trial in trials]
        same = [found for trial, found in measured if not trial.twin]
        slower = [found for trial, found in measured if trial.twin]
        return {"labels": LABELS, **calibrate(same, slower, SLOWER_PCT, self._policy)}

    def _subject(self, plan: CellPlan) -> tuple[Cell, ConfigValues] | None:
        """The config of a cell's trials: the incumbent if it is right."""
        order = dict.fromkeys(filter(None, (plan.incumbent, *plan.candidates)))
        return next(((plan.cell, config) for config in order if self._is_right(plan.cell, config)), None)

    def _is_right(self, cell: Cell, config: ConfigValues) -> bool:
        task, given = self._candidate(cell, config)
        try:
            self._measurer.compile(task, given)
            return 0 <= self._measurer.check(task, given) <= 1
        except CandidateFault:
            return False

    def _candidate(self, cell: Cell, config: ConfigValues) -> tuple[Task, Mapping[str, Any]]:
        return task_of(self._schema, self._arch, cell), full_config(self._schema, cell.functional, config)

    def _trial(self, trial: Trial, cell: Cell, config: ConfigValues) -> Measured:
        """A trial's samples, measured unless the journal has them."""
        record = self._done.get((trial.label, self._name(cell, config)))
        if record is None:
            record = self._record(trial, cell, config)
            self._journal.append(record)
        self._count(cell, config, record["measurements"])
        blocks = tuple(Block(tuple(order), tuple(map(tuple, times))) for order, times in record["blocks"])
        return Measured(
            functional=cell.functional,
            at=cell.at,
            strategy="race",
            entrants=(Entrant(config, Status.OK, error=0.0),) * trial.labels,
            incumbent=0,
            incumbent_layer=TRIALS,
            neighbours=(),
            depth=((),) * trial.labels,
            blocks=blocks,
        )

    def _record(self, trial: Trial, cell: Cell, config: ConfigValues) -> Record:
        race, blocks = Race(range(trial.labels), 0, self._policy), list[Block]()
        name = self._name(cell, config)
        first = self._measured.get(name, 0)
        numbers = iter(range(first, first + 10**9))
        while race.state == "running":
            order = block_order(self._policy.seed, trial.label, len(blocks), race.survivors)
            times = tuple(tuple(self._times(trial, label, cell, config, numbers)) for label in order)
            blocks.append(Block(order, times))
            race.add(blocks[-1])
        made = next(numbers) - first
        plain = [[list(block.order), [list(times) for times in block.times]] for block in blocks]
        return {"is": "trial", "cell": TRIALS, "trial": trial.label, "of": name, "measurements": made, "blocks": plain}

    def _times(
        self, trial: Trial, label: int, cell: Cell, config: ConfigValues, numbers: Iterator[int]
    ) -> Iterator[float]:
        """Calls of one label; a measurement during which the device throttled is made again."""
        factor = 1 + SLOWER_PCT / 100 if trial.twin and label == 0 else 1.0
        settings = (self._policy.measurement.block_warm_up, self._policy.race.block_calls)
        task, given = self._candidate(cell, config)
        for _ in range(MOST_THROTTLED):
            times, throttled = self._measurer.time(task, given, *settings, next(numbers))
            if not throttled:
                return (time * factor for time in times)
        raise Throttled

    def _name(self, cell: Cell, config: ConfigValues) -> str:
        return f"{cell.label}: {config_text(self._schema, config)}"

    def _count(self, cell: Cell, config: ConfigValues, measurements: int) -> None:
        name = self._name(cell, config)
        self._measured[name] = self._measured.get(name, 0) + measurements
