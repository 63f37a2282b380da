"""The simulated device's power: a timeline of work and gaps, calls that are queued on it, and a sensor over it.

`txtdb.tune.power` samples it as it samples a GPU. Its seconds are simulated: a reading takes milliseconds. Nothing of
it says how real sensors behave.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from txtdb.tune.description import Sensor
from txtdb.tune.gpu_timing import Mark
from txtdb.tune.power import CannotCapture, Surroundings

_NORMAL = NormalDist()
# Work that starts so soon after other work starts at its end: rounding, no gap.
_NO_GAP_S = 1e-12


@dataclass
class Timeline:
    """When the device works, and what it draws then and else. Seconds since the start of a reading, watts."""

    busy_w: float
    idle_w: float
    now_s: float = 0.0
    _starts: list[float] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    # How long the device had worked before each span of work.
    _before: list[float] = field(default_factory=list)

    @property
    def end_s(self) -> float:
        """When all that is queued will have run."""
        return self._ends[-1] if self._ends else 0.0

    @property
    def surroundings(self) -> Surroundings:
        """The clock of this timeline."""
        return Surroundings(now=lambda: self.now_s, nap=self.pass_time)

    def pass_time(self, seconds: float) -> None:
        """Let the host wait."""
        self.now_s += seconds

    def queue(self, seconds: float) -> None:
        """Queue work behind what there is."""
        start = max(self.now_s, self.end_s)
        if self._ends and start - self.end_s < _NO_GAP_S:
            self._ends[-1] += seconds
            return
        self._before.append(self._before[-1] + self._ends[-1] - self._starts[-1] if self._ends else 0.0)
        self._starts.append(start)
        self._ends.append(start + seconds)

    def joules(self, until_s: float) -> float:
        """Energy from the start to some moment; before the start the device was idle."""
        place = bisect_right(self._starts, until_s) - 1
        busy = 0.0 if place < 0 else self._before[place] + min(self._ends[place], until_s) - self._starts[place]
        return self.idle_w * until_s + (self.busy_w - self.idle_w) * busy


@dataclass(frozen=True)
class _Mark:
    timeline: Timeline
    at_s: float

    def passed(self) -> bool:
        return self.timeline.now_s >= self.at_s

    def nanoseconds_to(self, later: Mark) -> float:
        assert isinstance(later, _Mark)
        return (later.at_s - self.at_s) * 1e9


@dataclass
class SimulatedWork:
    """Calls of `seconds` each, see `txtdb.tune.power.Work`. With a `refusal` they cannot be captured.

    A launch takes the host `launch_s`, and so does the replay of a graph.
    """

    timeline: Timeline
    seconds: float
    launch_s: float
    refusal: str = ""
    _calls: int = 0

    def capture(self, calls: int) -> None:
        """Remember how many calls a graph holds. Raises CannotCapture."""
        if self.refusal:
            raise CannotCapture(self.refusal)
        self._calls = calls

    def replay(self) -> None:
        """Queue the graph."""
        self.timeline.pass_time(self.launch_s)
        self.timeline.queue(self._calls * self.seconds)

    def call(self) -> None:
        """Queue one call."""
        self.timeline.pass_time(self.launch_s)
        self.timeline.queue(self.seconds)

    def mark(self) -> Mark:
        """Behind all that is queued."""
        return _Mark(self.timeline, max(self.timeline.now_s, self.timeline.end_s))

    def wait(self) -> None:
        """Let the time pass until all has run."""
        self.timeline.now_s = max(self.timeline.now_s, self.timeline.end_s)


class SimulatedSensor:
    """Implements `txtdb.tune.sensors.Sensor` as a description has it.

    Each update shows, with noise, the energy up to `lag_s` ago, or the mean power since the update before.
    `is_throttled` says of each window, by its number in the reading, whether the device throttles in it.
    """

    def __init__(
        self, model: Sensor, timeline: Timeline, stream: random.Random, is_throttled: Callable[[int], bool]
    ) -> None:
        self._model, self._timeline, self._stream, self._is_throttled = model, timeline, stream, is_throttled
        self._updates, self._asked = 0, 0
        self._shown_until_s = -model.lag_s
        self._joules, self._watts = 0.0, timeline.idle_w

    @property
    def source(self) -> str:
        """What the numbers are."""
        return "simulated energy counter" if self._model.counts_energy else "simulated power readings"

    def joules(self) -> float | None:
        """The counter; None for a sensor without."""
        self._update()
        return self._joules if self._model.counts_energy else None

    def watts(self) -> float:
        """The mean power that the last update showed."""
        self._update()
        return self._watts

    def throttle_reasons(self) -> frozenset[str]:
        """Asked at the begin and at the end of each window, as sampling does."""
        window, is_end = divmod(self._asked, 2)
        self._asked += 1
        return frozenset({"simulated"}) if is_end and self._is_throttled(window) else frozenset()

    def conditions(self) -> dict[str, Any]:
        """Nothing: there are neither clocks nor temperatures."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Nothing that stays."""
        return {}

    def _update(self) -> None:
        """Take the updates that were due until now; what one that dropped out lacks is in the next."""
        due = math.floor(self._timeline.now_s / self._model.update_s)
        while self._updates < due:
            self._updates += 1
            normal, drop = self._stream.random(), self._stream.random()
            if drop < self._model.dropped_share:
                continue
            until_s = self._updates * self._model.update_s - self._model.lag_s
            noise = 1 + self._model.noise_pct / 100 * _NORMAL.inv_cdf(max(normal, 1e-300))
            energy = (self._timeline.joules(until_s) - self._timeline.joules(self._shown_until_s)) * noise
            self._watts = energy / (until_s - self._shown_until_s)
            self._joules += energy
            self._shown_until_s = until_s
