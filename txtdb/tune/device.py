"""What the tuner asks of a device. It is met by devices that run kernels and by the simulated one.

A device lives in a worker process. Whatever it raises costs one candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from txtdb.model.evidence import Status
from txtdb.model.values import Value


@dataclass(frozen=True)
class Task:
    """One cell of one arch: key values by name, and the bin of each axis by name."""

    iface: str
    arch: str
    functional: Mapping[str, Value]
    at: Mapping[str, int]


Config = Mapping[str, Value]


@dataclass(frozen=True)
class DeviceFacts:
    """What identifies a measurement beside cell and config: plain JSON objects, equal in equal circumstances.

    device: name, driver, clocks, power cap …, and `arch`, unless the device answers for any; software: versions of the
    compiler and libraries; contract: how times are taken; source: the digest of the kernel's source.
    """

    device: Mapping[str, Any]
    software: Mapping[str, Any]
    contract: Mapping[str, Any]
    source: str


class CandidateFault(Exception):
    """A candidate cannot be measured."""

    def __init__(self, status: Status, detail: str) -> None:
        if status is Status.OK:  # whoever raises this is wrong about one of both
            status, detail = Status.CRASH, f"a fault was told as ok: {detail}"
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


class Device(Protocol):
    """One device. All but `facts` may raise CandidateFault."""

    def facts(self, iface: str) -> DeviceFacts:
        """What identifies measurements of an interface on this device."""

    def compile(self, task: Task, config: Config) -> None:
        """Make a candidate ready to run; results are cached, so that it can be done ahead in another process."""

    def check(self, task: Task, config: Config) -> float:
        """The largest error over the accuracy cases of a task, in units of the tolerance. NaN is no small error."""

    def confirm(self, task: Task, config: Config) -> float:
        """The same over other problems, at sizes of a cell's bin that `task` gives in place of the bin."""

    def time(self, task: Task, config: Config, warm_up: int, calls: int, number: int) -> list[float]:
        """Nanoseconds of device time of each of `calls` calls after `warm_up` untimed ones.

        `number` counts the measurements of this config in this task that the run holds already, those before a restart
        included: a device that runs kernels ignores it, the simulated one draws the same samples for the same number.
        Arguments that the kernel changes are restored before each call, outside of the time.
        """

    def throttled(self) -> bool:
        """Whether the device lowered its clocks since this was last asked."""


class Prepared(Protocol):
    """What a device may offer beside `Device`, so that what it needs is no time of a candidate."""

    def wake(self) -> None:
        """Make the device ready to run candidates; a process that only compiles never asks for it."""

    def prepare(self, task: Task, ask: str) -> None:
        """Make what the first request of a kind about a task needs, such as references.

        Kinds are `check`, `confirm`, `time` and `power`.
        """


class Sourced(Protocol):
    """What a device that runs kernels offers beside `Device`: evidence tells by it what an edit of a kernel changes."""

    def sources(self, iface: str, functionals: Sequence[Mapping[str, Value]]) -> list[str]:
        """For each functional the digest of what its kernel compiles, see `Tunable.functional_source`."""
