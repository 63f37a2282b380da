"""The timing loop on a stream in simulated time: what is timed, and which samples are thrown away."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault
from txtdb.tune.gpu_timing import Mark, Sequence, times

FLUSH_US, LAUNCH_US, HOST_US = 85.0, 30.0, 3.0


@dataclass
class FakeStream:
    """A host and a device with clocks in µs. Queueing takes the host time; the device waits for what is not queued."""

    host: float = 0.0
    device: float = 0.0
    flushes: int = 0
    waits: int = 0
    stalls: list[float] = field(default_factory=list)

    def run(self, host_us: float, device_us: float) -> None:
        self.host += host_us
        self.device = max(self.device, self.host) + device_us

    def mark(self) -> FakeMark:
        self.run(HOST_US, 0.0)
        return FakeMark(self, self.device)

    def flush(self) -> None:
        self.flushes += 1
        self.run(HOST_US, FLUSH_US)

    def spin(self, microseconds: float) -> None:
        self.run(HOST_US, microseconds)

    def wait(self) -> None:
        self.waits += 1
        self.host = max(self.host, self.device)

    def kernel(self, microseconds: float) -> None:
        """A launch; the host may be held up before it."""
        self.host += self.stalls.pop(0) if self.stalls else 0.0
        self.run(LAUNCH_US, microseconds)


@dataclass
class FakeMark:
    stream: FakeStream
    at: float

    def passed(self) -> bool:
        return self.stream.host >= self.at

    def nanoseconds_to(self, later: Mark) -> float:
        assert isinstance(later, FakeMark)
        return (later.at - self.at) * 1e3


def sequence(stream: FakeStream, microseconds: float, flush: bool = True) -> Sequence:
    return Sequence(lambda: stream.kernel(microseconds), lambda: None, flush)


def test_a_kernel_shorter_than_its_launch_is_timed_without_the_gap() -> None:
    stream = FakeStream()
    assert times(stream, sequence(stream, 5.0), 3, 10) == pytest.approx([5000.0] * 10)
    assert (stream.flushes, stream.waits) == (13, 1)


def test_without_flushes_the_device_is_held_up_until_the_host_is_ahead() -> None:
    stream = FakeStream()
    assert times(stream, sequence(stream, 5.0, flush=False), 3, 10) == pytest.approx([5000.0] * 10)
    assert stream.flushes == 0


def test_a_late_launch_is_dropped_and_taken_again() -> None:
    """The host is held up for a millisecond in the third call: the event before it has passed by then."""
    stream = FakeStream(stalls=[0.0, 0.0, 1000.0])
    assert times(stream, sequence(stream, 5.0), 0, 5) == pytest.approx([5000.0] * 5)
    assert stream.waits == 2


def test_a_host_that_is_always_late_gives_no_times() -> None:
    stream = FakeStream(stalls=[1e9] * 1000)
    with pytest.raises(CandidateFault) as caught:
        times(stream, sequence(stream, 5.0), 1, 5)
    assert caught.value.status is Status.TIMEOUT


def test_arguments_are_restored_before_each_call_and_outside_of_its_time() -> None:
    stream, order = FakeStream(), []

    def restore() -> None:
        order.append("restore")
        stream.run(HOST_US, 50.0)

    def launch() -> None:
        order.append("launch")
        stream.kernel(5.0)

    assert times(stream, Sequence(launch, restore, True), 1, 3) == pytest.approx([5000.0] * 3)
    assert order == ["restore", "launch"] * 4
