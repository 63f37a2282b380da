"""How far a build is: what is done, what is compiled right now, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.aot.wording import counted
from txtdb.wording import duration


@dataclass(frozen=True, slots=True)
class Standing:
    """`done` and `total` count images, `failed` those of them that could not be built.

    `running` has for each image that is compiled now its name and for how many seconds, the longest first. `seconds`
    tells how long each one took that this run compiled. At most `limit_s` seconds go to one, in `jobs` processes.
    """

    done: int
    total: int
    failed: int
    running: Sequence[tuple[str, float]]
    seconds: Sequence[float]
    jobs: int
    limit_s: float

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest may take; None before one is done.

        An image is expected to take the mean time of those that are done. One that has taken longer already may go on
        until the limit.
        """
        if not self.seconds:
            return None
        mean = sum(self.seconds) / len(self.seconds)
        left = [self._left_of(spent, mean) for _, spent in self.running]
        waiting = max(0, self.total - self.done - len(left))
        return max([(sum(left) + waiting * mean) / self.jobs, *left])

    @property
    def is_late(self) -> bool:
        """Whether an image takes longer than those that are done did, so that the time left is that to the limit."""
        return bool(self.seconds and self.running) and self.running[0][1] > sum(self.seconds) / len(self.seconds)

    def _left_of(self, spent: float, mean: float) -> float:
        return mean - spent if spent <= mean else max(0.0, self.limit_s - spent)


Progress = Callable[[Standing], None]


def left_text(standing: Standing) -> str:
    """`about 3 min left`, or `up to 5 min left` where only the limit is known; empty where nothing is known or left."""
    left = standing.left_s
    if left is None or standing.done == standing.total:
        return ""
    return f"{'up to' if standing.is_late else 'about'} {duration(left)} left"


def longest_text(standing: Standing, with_name: bool = True) -> str:
    """What is compiled for the longest time; empty where nothing is."""
    if not standing.running:
        return ""
    name, seconds = standing.running[0]
    return f"longest {name} for {duration(seconds)}" if with_name else f"the longest since {duration(seconds)}"


def standing_text(standing: Standing) -> str:
    """All of it as a line."""
    failed = f"{standing.failed} failed" if standing.failed else ""
    told = [f"{standing.done}/{counted(standing.total, 'image')}", failed, longest_text(standing), left_text(standing)]
    return ", ".join(filter(None, told))
