"""A device with a power sensor in simulated time. It says nothing of how real sensors behave, only what they may do.

Work runs back to back in a queue. At work the device draws `busy_w`, else `idle_w`; the sensor changes every `period_s`
seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from txtdb.tune.power import CannotCapture, Surroundings


@dataclass
class World:
    busy_w: float = 500.0
    idle_w: float = 100.0
    period_s: float = 0.1
    now_s: float = 0.0
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)  # work that ran before a span of it

    def queue(self, seconds: float) -> float:
        """Queue work; when it will have run."""
        start = max(self.now_s, self.end)
        if self.ends and start - self.end < 1e-12:
            self.ends[-1] += seconds
        else:
            self.before.append(self.before[-1] + self.ends[-1] - self.starts[-1] if self.ends else 0.0)
            self.starts.append(start)
            self.ends.append(start + seconds)
        return self.end

    @property
    def end(self) -> float:
        """When all that is queued will have run."""
        return self.ends[-1] if self.ends else 0.0

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    def energy(self, until: float) -> float:
        place = bisect_right(self.starts, until) - 1
        busy = 0.0 if place < 0 else self.before[place] + min(self.ends[place], until) - self.starts[place]
        return self.idle_w * until + (self.busy_w - self.idle_w) * busy

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(now=lambda: self.now_s, nap=self.pass_time)


@dataclass
class FakeMark:
    world: World
    at: float

    def passed(self) -> bool:
        return self.world.now_s >= self.at

    def nanoseconds_to(self, later: Any) -> float:
        return float(later.at - self.at) * 1e9


@dataclass
class FakeWork:
    """Calls of `seconds` each; a launch takes the host `launch_s`, and so does the replay of a graph."""

    world: World
    seconds: float
    launch_s: float = 30e-6
    refusal: str = ""
    calls: int = 0

    def capture(self, calls: int) -> None:
        if self.refusal:
            raise CannotCapture(self.refusal)
        self.calls = calls

    def replay(self) -> None:
        self.world.pass_time(self.launch_s)
        self.world.queue(self.calls * self.seconds)

    def call(self) -> None:
        self.world.pass_time(self.launch_s)
        self.world.queue(self.seconds)

    def mark(self) -> FakeMark:
        return FakeMark(self.world, max(self.world.now_s, self.world.end))

    def wait(self) -> None:
        self.world.now_s = self.mark().at


@dataclass
class FakeSensor:
    """Counts energy unless `counts` is false. `throttled` holds which askings of a trial's end find a reason."""

    world: World
    counts: bool = True
    throttled: Iterable[int] = ()
    trials: int = 0
    asked: int = 0
    source: str = "fake"

    def joules(self) -> float | None:
        return self.world.energy(self._updated()) if self.counts else None

    def watts(self) -> float:
        """The mean over the last period, with digits that tell updates apart."""
        end = self._updated()
        start = max(0.0, end - self.world.period_s)
        return (self.world.energy(end) - self.world.energy(start)) / max(end - start, 1e-9) + end * 1e-9

    def throttle_reasons(self) -> frozenset[str]:
        """Asked at the begin and at the end of each trial."""
        self.asked += 1
        if self.asked % 2:
            return frozenset()
        self.trials += 1
        return frozenset({"thermal"}) if self.trials in set(self.throttled) else frozenset()

    def conditions(self) -> dict[str, Any]:
        return {}

    def facts(self) -> dict[str, Any]:
        return {}

    def _updated(self) -> float:
        return int(self.world.now_s / self.world.period_s + 1e-9) * self.world.period_s


@dataclass
class FakeSettings:
    """Clocks and cap with a log of what was set; the device takes the next clock in steps of `step_mhz`, from 210."""

    clock: int = 1980
    cap: float = 700.0
    step_mhz: int = 15
    log: list[tuple[str, Any]] = field(default_factory=list)

    def clock_mhz(self) -> int:
        return self.clock

    def lock_clock(self, mhz: int) -> None:
        self.log.append(("lock", mhz))
        self.clock = max(210, mhz // self.step_mhz * self.step_mhz)

    def free_clock(self) -> None:
        self.log.append(("free", None))
        self.clock = 1980

    def power_cap_w(self) -> float:
        return self.cap

    def set_power_cap(self, watts: float) -> None:
        self.log.append(("cap", watts))
        self.cap = watts
