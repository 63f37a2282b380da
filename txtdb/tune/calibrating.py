"""Trials whose truth is known: one config under several labels, and against a twin that is slower by a known share.

The twin's times are those of the same config, times 1 + the share: so its truth is known without a second kernel. The
trials of a run are spread over some of its cells, each with the cell's incumbent, or else its first candidate that is
right.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as count_from
from itertools import islice
from typing import Any

from txtdb.evidence.calibration import calibration_of
from txtdb.evidence.finalists import finalists
from txtdb.evidence.policy import Policy
from txtdb.evidence.race import Race, block_order
from txtdb.model.evidence import Block, Entrant, Status, TrialEvidence
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues
from txtdb.model.values import parse_value, print_value
from txtdb.tune.cell_run import EXHAUSTIVE
from txtdb.tune.device import CandidateFault, Task
from txtdb.tune.fields import Cell, CellPlan, full_config, task_of
from txtdb.tune.journal import Journal, Record
from txtdb.tune.measuring import MOST_THROTTLED, Measurer, Throttled

# Labels of one config in a trial of equals; the first stands for the incumbent. A race of eight takes 2.3 times as many
# calls, and a promotion of one of three others tells the same of the bar as one of seven.
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


@dataclass(frozen=True)
class Calibrated:
    """What trials say, as evidence states it (see `calibration_of`), and their samples."""

    stated: Mapping[str, Any]
    trials: tuple[TrialEvidence, ...]


# The label of a trial and that of its cell, and the config.
_Key = tuple[str, str, ConfigValues]
# (label, calls of warm-up, calls) → the times of the calls
_Measure = Callable[[int, int, int], tuple[float, ...]]


class Calibrator:
    """Runs the trials of a run by its strategy, from the journal where it holds them.

    The journal keeps which config a cell's trials are of: what a run publishes changes incumbents, and the same command
    then finds its trials all the same. A config that the schema no longer has is none: its trials do not count.
    """

    def __init__(
        self, arch_schema: ArchSchema, policy: Policy, strategy: str, journal: Journal, measurer: Measurer
    ) -> None:
        self._schema, self._arch = arch_schema.schema, arch_schema.section.arch
        self._policy, self._strategy, self._journal, self._measurer = policy, strategy, journal, measurer
        known = [record for record in journal.records if record.get("cell") == TRIALS]
        self._done = {
            (record["trial"], record["of"], config): record
            for record in known
            if record["is"] == "trial" and (config := self._known(record["config"])) is not None
        }
        self._subjects = {
            record["of"]: config
            for record in known
            if record["is"] == "subject" and (config := self._known(record["config"])) is not None
        }
        # The measurements of trials in their order, by what they are of: a trial that was ended goes on from them.
        self._parts: dict[_Key, deque[Record]] = defaultdict(deque)
        for record in known:
            if record["is"] == "trial-times" and (config := self._known(record["config"])) is not None:
                self._parts[record["trial"], record["of"], config].append(record)
        self._measured: Counter[str] = Counter()

    def run(self, plans: Sequence[CellPlan], count: int, tick: Callable[[int, int], None]) -> Calibrated:
        """Make `count` trials of equals, and those with a twin. `tick` is told how many are done, and of how many.

        The measurements of a cell's config are numbered through all trials. Those of a cell follow each other: a device
        makes its inputs once then. Raises CandidateFault where no cell has a config that is right, and Throttled.
        """
        found = (subject for plan in _spread(plans) if (subject := self._subject(plan)) is not None)
        subjects = list(islice(found, min(count, SUBJECTS)))
        if not subjects:
            raise CandidateFault(Status.NOT_RUN, "no cell has a config that is right")
        planned = plan_trials(count)
        by_subject = sorted(range(len(planned)), key=lambda place: planned[place].number % len(subjects))
        made: dict[int, TrialEvidence] = {}
        for place in by_subject:
            made[place] = self._trial(planned[place], *subjects[planned[place].number % len(subjects)])
            tick(len(made), len(planned))
        trials = [made[place] for place in range(len(planned))]
        return Calibrated(calibration_of(trials, SLOWER_PCT, self._policy), tuple(trials))

    def _known(self, named: Mapping[str, str]) -> ConfigValues | None:
        """A config of the journal as the schema has it today; None where it has it no longer."""
        if set(named) != set(self._schema.field_names):
            return None
        values = [parse_value(named[field.name], field.type) for field in self._schema.config]
        fits = zip(self._schema.config, values, strict=True)
        config = tuple(value for field, value in fits if value is not None and field.admits(value))
        return config if len(config) == len(values) else None

    def _named(self, config: ConfigValues) -> dict[str, str]:
        return dict(zip(self._schema.field_names, map(print_value, config), strict=True))

    def _subject(self, plan: CellPlan) -> tuple[Cell, ConfigValues] | None:
        """The config of a cell's trials: the one that they had before, else the incumbent if it is right."""
        label = plan.cell.label
        if label not in self._subjects:
            order = dict.fromkeys(filter(None, (plan.incumbent, *plan.candidates)))
            config = next((config for config in order if self._is_right(plan.cell, config)), None)
            if config is None:
                return None
            self._subjects[label] = config
            self._journal.append({"is": "subject", "cell": TRIALS, "of": label, "config": self._named(config)})
        return plan.cell, self._subjects[label]

    def _is_right(self, cell: Cell, config: ConfigValues) -> bool:
        """Whether a config is right, and can be timed: behind a shield, for nobody has tried it yet."""
        task, given = self._candidate(cell, config)
        settings = self._policy.measurement.block_warm_up, self._policy.race.block_calls
        self._measurer.shield()
        try:
            self._measurer.compile(task, given)
            if not 0 <= self._measurer.check(task, given) <= 1:
                return False
            self._measurer.time(task, given, *settings, 0)
        except CandidateFault:
            return False
        return True

    def _candidate(self, cell: Cell, config: ConfigValues) -> tuple[Task, Mapping[str, Any]]:
        return task_of(self._schema, self._arch, cell), full_config(self._schema, cell.functional, config)

    def _trial(self, trial: Trial, cell: Cell, config: ConfigValues) -> TrialEvidence:
        """A trial's samples, measured unless the journal has them."""
        record = self._done.get((trial.label, cell.label, config))
        if record is None:
            record = self._record(trial, cell, config)
            self._journal.append(record)
        self._measured[cell.label] += record["measurements"]
        return TrialEvidence(
            twin=trial.twin,
            functional=cell.functional,
            at=cell.at,
            config=config,
            strategy=self._strategy,
            labels=trial.labels,
            depth=tuple(map(tuple, record["depth"])),
            blocks=tuple(Block(tuple(order), tuple(map(tuple, times))) for order, times in record["blocks"]),
        )

    def _record(self, trial: Trial, cell: Cell, config: ConfigValues) -> Record:
        first = self._measured[cell.label]
        numbers = count_from(first)
        self._measurer.compile(*self._candidate(cell, config))
        measure = partial(self._times, trial, cell, config, numbers)
        depth: list[tuple[float, ...]] = []
        if self._strategy == EXHAUSTIVE:
            settings = self._policy.measurement
            depth = [measure(label, settings.warm_up, settings.calls) for label in range(trial.labels)]
            blocks = self._rounds(trial, cell, config, depth, measure)
        else:
            blocks = self._race(trial, measure)
        plain = [[block.order, block.times] for block in blocks]
        found = {"measurements": next(numbers) - first, "depth": depth, "blocks": plain}
        of = {"of": cell.label, "config": self._named(config)}
        return {"is": "trial", "cell": TRIALS, "trial": trial.label, **of, **found}

    def _race(self, trial: Trial, measure: _Measure) -> list[Block]:
        race, blocks = Race(range(trial.labels), 0, self._policy), list[Block]()
        settings = (self._policy.measurement.block_warm_up, self._policy.race.block_calls)
        while race.state == "running":
            order = block_order(self._policy.seed, trial.label, len(blocks), race.survivors)
            blocks.append(Block(order, tuple(measure(label, *settings) for label in order)))
            race.add(blocks[-1])
        return blocks

    def _rounds(
        self, trial: Trial, cell: Cell, config: ConfigValues, depth: Sequence[Sequence[float]], measure: _Measure
    ) -> list[Block]:
        """The finalists' rounds, each in a fresh process."""
        equals = [Entrant(config, Status.OK, error=0.0)] * trial.labels
        chosen = finalists(depth, equals, 0, self._policy)
        settings = (self._policy.measurement.warm_up, self._policy.finalists.calls)
        blocks = []
        for number in range(self._policy.finalists.rounds):
            if len(self._parts[trial.label, cell.label, config]) < len(chosen):
                self._measurer.fresh()
                self._measurer.compile(*self._candidate(cell, config))
            order = block_order(self._policy.seed, trial.label, number, chosen)
            blocks.append(Block(order, tuple(measure(label, *settings) for label in order)))
        return blocks

    def _times(
        self,
        trial: Trial,
        cell: Cell,
        config: ConfigValues,
        numbers: Iterator[int],
        label: int,
        warm_up: int,
        calls: int,
    ) -> tuple[float, ...]:
        """Calls of one label, measured unless the journal has them.

        A measurement during which the device throttled is made again.
        """
        parts = self._parts[trial.label, cell.label, config]
        if parts:
            known = parts.popleft()
            for _ in range(known["attempts"]):
                next(numbers)
            return tuple(known["times"])
        factor = 1 + SLOWER_PCT / 100 if trial.twin and label == 0 else 1.0
        task, given = self._candidate(cell, config)
        for attempt in range(MOST_THROTTLED):
            times, throttled = self._measurer.time(task, given, warm_up, calls, next(numbers))
            if not throttled:
                found = [time * factor for time in times]
                of = {"trial": trial.label, "of": cell.label, "config": self._named(config)}
                record = {"is": "trial-times", "cell": TRIALS, **of, "attempts": attempt + 1, "times": found}
                self._journal.append(record)
                return tuple(found)
        raise Throttled
