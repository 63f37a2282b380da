"""How a call on a GPU is timed: a pair of events around each launch, without a gap that the host would have made.

Between two events that the host records stands only the call. What comes before them keeps the device busy: the filling
of a buffer that is several times the L2 cache, which also makes each call find its inputs in memory. While that runs,
the host records the first event, launches the call and records the second one. Whether it was early enough is looked at
for each call: as long as the first event has not happened when the launch is queued, the device went from the one to
the other without waiting. A sample that is late is dropped and taken again, with more work for the device before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault

# The lead that late samples are given first, and how often it is doubled: to 0.2 s.
FIRST_LEAD_US = 50.0
MOST_ROUNDS = 12


class Mark(Protocol):
    """A place in the device's queue whose time is taken when the device passes it."""

    def passed(self) -> bool:
        """Whether the device is behind it, without waiting."""

    def nanoseconds_to(self, later: Mark) -> float:
        """Device time from this mark to another; both have been passed."""


class Stream(Protocol):
    """The queue of one device. Calls are queued from the same thread and run in order."""

    def mark(self) -> Mark:
        """Queue a mark."""

    def flush(self) -> None:
        """Queue the filling of a buffer that replaces all of the L2 cache."""

    def spin(self, microseconds: float) -> None:
        """Queue a wait."""

    def wait(self) -> None:
        """Wait until all that is queued has run. Raises RuntimeError when some of it failed."""


@dataclass(frozen=True)
class Sequence:
    """One call and what precedes it outside of its time: `restore` its arguments, then the flush where it is wanted."""

    launch: Callable[[], None]
    restore: Callable[[], None]
    flush: bool


def times(stream: Stream, sequence: Sequence, warm_up: int, calls: int) -> list[float]:
    """Nanoseconds of each of `calls` calls after `warm_up` others that are queued alike.

    Raises CandidateFault (`timeout`) when the host stays behind the device whatever its lead.
    """
    taken: list[float] = []
    lead = 0.0
    for _ in range(MOST_ROUNDS):
        missing = calls - len(taken)
        taken += _round(stream, sequence, warm_up if not taken else 1, missing, lead)
        if len(taken) == calls:
            return taken
        lead = 2 * lead or FIRST_LEAD_US
    raise CandidateFault(Status.TIMEOUT, f"the host is behind the device in {calls - len(taken)} of {calls} calls")


def _round(stream: Stream, sequence: Sequence, warm_up: int, calls: int, lead: float) -> list[float]:
    """The times of those of some calls that were queued early enough."""
    if lead and not sequence.flush:
        stream.spin(lead * (warm_up + calls))
    pairs = [_call(stream, sequence, lead) for _ in range(warm_up + calls)]
    stream.wait()
    return [start.nanoseconds_to(end) for start, end, late in pairs[warm_up:] if not late]


def _call(stream: Stream, sequence: Sequence, lead: float) -> tuple[Mark, Mark, bool]:
    """Queue one call between two marks, and see whether the device was already waiting for it."""
    sequence.restore()
    if sequence.flush:
        if lead:
            stream.spin(lead)
        stream.flush()
    start = stream.mark()
    sequence.launch()
    late = start.passed()
    return start, stream.mark(), late
