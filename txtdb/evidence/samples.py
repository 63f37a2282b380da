"""Times, what is no time, and the comparison of two entrants over blocks.

A block's value of an entrant is the median of its calls. Two entrants are compared by the differences of the logarithms
of their values within each block: what slows a whole block down falls out. The differences of a pair are taken as
independent between blocks; their trimmed mean over its standard error follows Student's law (Tukey and McLaughlin,
1963).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

# No call is shorter: a clock of a GPU ticks about once in that time.
SHORTEST_NS = 1.0
# No call lasts longer (31 years); a sum of acceptable times is finite, and so is the ratio of any two.
LONGEST_NS = 1e18
# No device needs less while it works, or more.
LEAST_W, MOST_W = 1e-3, 1e9
# One difference in so many is left out at either end: a block in which most calls of one entrant were outliers.
TRIM = 16


def acceptable(time_ns: float) -> bool:
    """Whether a number is a time, of SHORTEST_NS to LONGEST_NS: NaN, zero, negative and endless ones are not."""
    return SHORTEST_NS <= time_ns <= LONGEST_NS


def acceptable_watts(watts: float) -> bool:
    """Whether a number is the power of a device, of LEAST_W to MOST_W."""
    return LEAST_W <= watts <= MOST_W


def all_acceptable(times: Sequence[float]) -> bool:
    """Whether there are calls and each has a time."""
    for time in times:
        if not SHORTEST_NS <= time <= LONGEST_NS:
            return False
    return len(times) > 0


def all_sound(visits: Sequence[Sequence[float]]) -> bool:
    """Whether each visit has calls and each of these a time: one look at all, where all are sound as a rule."""
    if not visits:
        return True
    calls = np.fromiter(chain.from_iterable(visits), np.float64)
    return all(visits) and bool(calls.min() >= SHORTEST_NS and calls.max() <= LONGEST_NS)  # NaN is the least of all


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def medians_and_least(visits: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """The median and the least call of each visit; all at once where they have equally many calls, as in a race."""
    lengths = set(map(len, visits))
    if len(lengths) != 1:
        return list(map(median, visits)), list(map(min, visits))
    (length,) = lengths
    calls = np.fromiter(chain.from_iterable(visits), np.float64, len(visits) * length).reshape(-1, length)
    calls.sort(axis=1)
    half = length // 2
    middle = calls[:, half] if length % 2 else (calls[:, half - 1] + calls[:, half]) / 2
    return middle.tolist(), calls[:, 0].tolist()


def total(times: Iterable[float]) -> float:
    """The exact sum, rounded once; of what is no finite number nothing is added."""
    found = np.fromiter(times, np.float64)
    return math.fsum(found[np.abs(found) <= LONGEST_NS].tolist())


class Comparison(NamedTuple):
    """Differences of logarithms over `blocks` blocks: their trimmed mean, its standard error, degrees of freedom.

    With fewer than two blocks there is no standard error: `spread` is infinite and `freedom` is 0.
    """

    blocks: int
    mean: float
    spread: float
    freedom: int

    def bound(self, tail: float) -> float:
        """How far the truth lies from the mean to one side at most, but for a probability of `tail`."""
        return quantile(self.freedom, tail) * self.spread if self.freedom else math.inf


def compare(differences: Sequence[float], floor: float) -> Comparison:
    """The comparison from differences in any order. `floor` is the least standard error: equal times prove little."""
    count = len(differences)
    if count < 2:
        return Comparison(count, differences[0] if count else 0.0, math.inf, 0)
    if count == 2:  # as below, for most entrants leave after two blocks; a sum of two is exact but for one rounding
        mean = (differences[0] + differences[1]) / 2
        low, high = differences[0] - mean, differences[1] - mean
        return Comparison(2, mean, max(math.sqrt((low * low + high * high) * 2) / 2, floor), 1)
    kept = replaced = differences
    cut = count // TRIM
    if cut:
        kept = sorted(differences)[cut : count - cut]
        replaced = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = math.fsum(replaced) / count
    squares = math.fsum([(away := value - centre) * away for value in replaced])
    spread = math.sqrt(squares * count / (count - 1)) / len(kept)
    return Comparison(count, math.fsum(kept) / len(kept), max(spread, floor), len(kept) - 1)


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without one value in TRIM at either end."""
    cut = len(values) // TRIM
    kept = sorted(values)[cut : len(values) - cut] if cut else values
    return math.fsum(kept) / len(kept)


@cache
def quantile(freedom: int, tail: float) -> float:
    """What a variable of Student's law exceeds with probability `tail`."""
    from scipy.special import stdtrit  # loaded where a decision is made, not where evidence is only read

    return -float(stdtrit(freedom, tail))
