"""Which entrants of an exhaustive search are looked at again, and what their rounds say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from txtdb.evidence.policy import Policy
from txtdb.evidence.samples import Comparison, all_acceptable, compare, median
from txtdb.model.evidence import Block, Entrant, Status
from txtdb.model.values import functional_rank


def is_right(entrant: Entrant) -> bool:
    """Whether an entrant ran and its results were compared and right. A NaN error is none that is small."""
    return entrant.status is Status.OK and entrant.error is not None and 0.0 <= entrant.error <= 1.0


def finalists(
    depth: Sequence[Sequence[float]],
    entrants: Sequence[Entrant],
    incumbent: int | None,
    policy: Policy,
    watts: Mapping[int, float] | None = None,
) -> tuple[int, ...]:
    """The entrants of the rounds, sorted: the fastest few by the median of their calls, and the incumbent.

    With `watts`, of the entrants that have some, it is the few with the least median × watts of these. Entrants that
    are wrong or have a call without a time are none. Equal ones go by config.
    """
    valid = [number for number, entrant in enumerate(entrants) if is_right(entrant) and all_acceptable(depth[number])]
    ranked = valid if watts is None else [number for number in valid if number in watts]
    cost = {number: median(depth[number]) * (watts[number] if watts else 1.0) for number in ranked}
    ranked = sorted(ranked, key=lambda number: (cost[number], functional_rank(entrants[number].config)))
    chosen = set(ranked[: policy.finalists.count])
    return tuple(sorted(chosen | {number for number in valid if number == incumbent}))


class Rounds:
    """The finalists' rounds: every pair is compared over the rounds that both ran in, all of them in one look."""

    def __init__(self, blocks: Sequence[Block], valid: set[int], policy: Policy, watts: Mapping[int, float]) -> None:
        self._delta = math.log1p(policy.race.delta_pct / 100)
        self._floor = policy.race.floor_pct / 100
        self._budget = policy.race.error_budget / 2
        self._values = [_values(block, valid, watts) for block in blocks]
        self.entrants = tuple(sorted(set().union(*self._values)))

    def compared(self, entrant: int, other: int) -> Comparison:
        """The logarithm of (the entrant's value / the other's) over the rounds that both ran in."""
        both = [values[entrant] - values[other] for values in self._values if entrant in values and other in values]
        return compare(both, self._floor)

    @property
    def tied(self) -> tuple[int, ...]:
        """The entrants whose mean is within delta of the fastest's, the fastest among them."""
        slower = {one: self._slowness(one) for one in self.entrants}
        least = min(slower.values(), default=0.0)
        return tuple(one for one in self.entrants if slower[one] - least <= self._delta)

    def is_proven(self, winner: int) -> bool:
        """Whether every other finalist is proven not faster than the winner by more than delta."""
        others = [one for one in self.entrants if one != winner]
        found = [self.compared(other, winner) for other in others]
        tail = self._budget / max(len(others), 1)
        return all(item.mean - item.bound(tail) >= -self._delta for item in found)

    def _slowness(self, entrant: int) -> float:
        """The mean, over all entrants, of how much slower one is than they are."""
        return math.fsum(self.compared(entrant, other).mean for other in self.entrants) / len(self.entrants)


def _values(block: Block, valid: set[int], watts: Mapping[int, float]) -> dict[int, float]:
    runs = zip(block.order, block.times, strict=True)
    return {one: math.log(median(times)) + math.log(watts.get(one, 1.0)) for one, times in runs if one in valid}
