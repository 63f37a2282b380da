"""Watts of a candidate, for `--select energy`: what is ranked then is time × watts.

The call is captured into a graph that holds about a millisecond of work, so that the device never waits for the host,
and the graph is replayed while the energy counter (or, without one, the power reading) passes many of its updates. A
call that cannot be captured is launched in a loop; the device then waits between calls, draws less than at work, and
the reading is corrected for that share of the time. The path is part of what is recorded.

`Powered` is what a device offers beside `Device` when it has sensors; devices without it cannot select by energy.
Nothing here is used where latency selects.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from txtdb.evidence.watts import EAGER, GRAPH, LEAST_WINDOWS
from txtdb.model.evidence import Reading
from txtdb.tune.device import Config, Task
from txtdb.tune.gpu_timing import Mark
from txtdb.tune.sensors import Sensor

EAGER_VARIABLE = "TXTDB_EAGER"
_LOG = logging.getLogger(__name__)


class CannotCapture(Exception):
    """A call cannot be put into a graph; the text says why."""


class Work(Protocol):
    """A candidate's call on a device."""

    def capture(self, calls: int) -> None:
        """Put so many calls into one graph. Raises CannotCapture."""

    def replay(self) -> None:
        """Queue the graph."""

    def call(self) -> None:
        """Queue one call."""

    def mark(self) -> Mark:
        """Queue a mark."""

    def wait(self) -> None:
        """Wait for all that is queued."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How long power is sampled, each number with its reason beside it. Seconds."""

    graph_s: float = 1e-3  # long beside a launch (10 µs), short beside a sensor's update (20 to 100 ms)
    ahead: int = 32  # graphs in the queue: longer than the slowest reading of a sensor
    settle_s: float = 0.3  # clocks and voltages have followed the load
    settle_mean_s: float = 1.5  # without an energy counter: power readings are means over a second on many devices
    trials: int = 3  # a throttled trial is dropped, the others remain
    updates: int = 10  # of the sensor in each trial
    least_updates: int = 10  # in all that is kept: the ends of a window are known to within one
    least_trials: int = LEAST_WINDOWS  # that are kept: by how much they differ is the noise of the watts
    longest_s: float = 3.0  # of one trial: a sensor that does not update by then is of no use
    poll_s: float = 2e-3  # shorter than any sensor's update


def power_contract(sampling: Sampling) -> dict[str, Any]:
    """How watts are taken, for the timing contract: watts of another contract are not comparable. Seconds."""
    return {**asdict(sampling), "eager": _is_forced()}


def reading_of(given: Mapping[str, Any]) -> Reading:
    """The reading that `asdict` made a JSON object of."""
    return Reading(**{**given, "windows": tuple(given["windows"])})


def path_text(reading: Reading) -> str:
    """How a reading was taken: `power: eager (TXTDB_EAGER=1), 1 of 3 windows dropped`."""
    how = f"power: {reading.path}" + (f" ({reading.reason})" if reading.reason else "")
    dropped = f"{reading.dropped} of {reading.trials} windows dropped" if reading.dropped else ""
    return ", ".join(filter(None, (how, dropped, "" if reading.reliable else "not reliable")))


class Powered(Protocol):
    """A device that can tell the watts of a candidate."""

    def power_contract(self) -> Mapping[str, Any]:
        """What identifies watts of this device beside what identifies times, see `power_contract`."""

    def power(self, task: Task, config: Config) -> Reading:
        """Watts while nothing but the candidate runs. Raises CandidateFault where it cannot be measured."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The clock, and how to wait, in seconds; tests bring their own."""

    now: Callable[[], float] = time.perf_counter
    nap: Callable[[float], None] = time.sleep


def sample(
    work: Work,
    sensor: Sensor,
    seconds: float,
    sampling: Sampling,
    logged: set[str],
    surroundings: Surroundings = Surroundings(),
) -> Reading:
    """The watts of a call that takes so many seconds when its arguments are in the cache.

    Why calls are launched one by one is logged once for each reason: `logged` holds those that were.
    """
    calls = max(1, round(sampling.graph_s / seconds))
    reason = _not_captured(work, calls)
    if reason and reason not in logged:
        logged.add(reason)
        _LOG.warning("power is sampled over single launches: %s", reason)
    idle = _idle(work, sensor, sampling, surroundings) if reason else None
    queue = _Queue(work, calls, bool(reason), sampling, surroundings)
    queue.run(sampling.settle_mean_s if sensor.joules() is None else sampling.settle_s)
    trials = [_trial(queue, sensor, sampling, surroundings) for _ in range(sampling.trials)]
    work.wait()
    return _reading(trials, sensor.source, calls, seconds, reason, idle, sampling)


def _not_captured(work: Work, calls: int) -> str:
    """Why there is no graph; empty where there is one."""
    if _is_forced():
        return f"{EAGER_VARIABLE}=1"
    try:
        work.capture(calls)
    except CannotCapture as error:
        return str(error) or "the call cannot be captured"
    return ""


def _is_forced() -> bool:
    return os.environ.get(EAGER_VARIABLE) == "1"


@dataclass
class _Queue:
    """Keeps work in the device's queue, and counts what has run."""

    work: Work
    calls: int
    eager: bool
    sampling: Sampling
    surroundings: Surroundings
    ran: int = 0
    _marks: list[Mark] = field(default_factory=list)

    def fill(self) -> None:
        """Queue until enough is ahead; how many calls have run is then known."""
        while self._marks and self._marks[0].passed():
            self._marks.pop(0)
            self.ran += self.calls
        while len(self._marks) < self.sampling.ahead:
            if self.eager:
                for _ in range(self.calls):
                    self.work.call()
            else:
                self.work.replay()
            self._marks.append(self.work.mark())
            if self.eager:
                return

    def run(self, seconds: float) -> None:
        """Work for some time."""
        end = self.surroundings.now() + seconds
        while self.surroundings.now() < end:
            self.fill()
            self.pause()

    def pause(self) -> None:
        """Let the device work. Single launches leave no time for a pause."""
        if not self.eager or len(self._marks) >= self.sampling.ahead:
            self.surroundings.nap(self.sampling.poll_s)


@dataclass(frozen=True, slots=True)
class _Update:
    """A change of a sensor: when it was seen, what it says (J or W), and how many calls had run."""

    at: float
    value: float
    ran: int


@dataclass(frozen=True, slots=True)
class _Trial:
    updates: tuple[_Update, ...]
    throttled: bool
    counts_energy: bool

    @property
    def seconds(self) -> float:
        return self.updates[-1].at - self.updates[0].at if len(self.updates) > 1 else 0.0

    def utilization(self, seconds: float) -> float:
        """The share of the time in which calls of so many seconds ran."""
        return min(1.0, (self.updates[-1].ran - self.updates[0].ran) * seconds / self.seconds)

    @property
    def watts(self) -> float:
        """Mean power from the first change to the last one."""
        first, last = self.updates[0], self.updates[-1]
        if self.counts_energy:
            return (last.value - first.value) / self.seconds
        spans = zip(self.updates, self.updates[1:], strict=False)
        return sum(before.value * (after.at - before.at) for before, after in spans) / self.seconds


def _trial(queue: _Queue, sensor: Sensor, sampling: Sampling, surroundings: Surroundings) -> _Trial:
    """Work until the sensor has changed often enough."""
    sensor.throttle_reasons()

    def tick() -> int:
        queue.fill()
        queue.pause()
        return queue.ran

    updates = tuple(_changes(sensor, tick, sampling, surroundings))
    return _Trial(updates, bool(sensor.throttle_reasons()), sensor.joules() is not None)


def _changes(
    sensor: Sensor, tick: Callable[[], int], sampling: Sampling, surroundings: Surroundings
) -> Iterator[_Update]:
    """The changes of a sensor until there are enough of them, or it takes too long."""
    begin, last, seen = surroundings.now(), _value(sensor), 0
    while seen <= sampling.updates and surroundings.now() - begin < sampling.longest_s:
        ran = tick()
        value = _value(sensor)
        if value != last:
            seen, last = seen + 1, value
            yield _Update(surroundings.now(), value, ran)


def _value(sensor: Sensor) -> float:
    energy = sensor.joules()
    return sensor.watts() if energy is None else energy


def _idle(work: Work, sensor: Sensor, sampling: Sampling, surroundings: Surroundings) -> float | None:
    """What the device draws right after work, while nothing runs; None where the sensor does not tell in time."""
    work.call()
    work.wait()

    def tick() -> int:
        surroundings.nap(sampling.poll_s)
        return 0

    trial = _Trial(tuple(_changes(sensor, tick, sampling, surroundings)), False, sensor.joules() is not None)
    return trial.watts if len(trial.updates) > 1 else None


def _reading(
    trials: list[_Trial],
    source: str,
    calls: int,
    seconds: float,
    reason: str,
    idle: float | None,
    sampling: Sampling,
) -> Reading:
    """Put the trials that were not throttled together."""
    kept = [trial for trial in trials if not trial.throttled and len(trial.updates) > 1]
    total = sum(trial.seconds for trial in kept)
    updates = sum(len(trial.updates) - 1 for trial in kept)
    at_work = (_corrected(one.watts, one.utilization(seconds), idle) if reason else one.watts for one in kept)
    windows = tuple(watts for watts in at_work if watts is not None)
    return Reading(
        path=EAGER if reason else GRAPH,
        reason=reason,
        source=source,
        calls=calls,
        windows=windows,
        raw_watts=sum(trial.watts * trial.seconds for trial in kept) / total if total else None,
        utilization=sum(trial.utilization(seconds) * trial.seconds for trial in kept) / total if total else 0.0,
        idle_watts=idle,
        updates=updates,
        seconds=total,
        trials=len(trials),
        dropped=sum(trial.throttled for trial in trials),
        reliable=len(windows) >= sampling.least_trials and updates >= sampling.least_updates,
    )


def _corrected(raw: float, utilization: float, idle: float | None) -> float | None:
    """Watts at work, from a mean over work and gaps: raw = utilization × work + (1 - utilization) × idle."""
    if idle is None or not utilization:
        return raw if utilization >= 1.0 else None
    return (raw - (1.0 - utilization) * idle) / utilization
