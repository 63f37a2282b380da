"""The race: blocks of a few calls of each entrant, until all but the winner are proven slower or no faster.

An entrant is eliminated when it is proven slower than the leader by more than delta, or screened out when each of its
calls so far was slower than the leader by far. The race is certified when no contender is left that may be faster than
the leader by more than delta. docs/tuning.md has the formulas and says what holds by theory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import add, sub
from types import MappingProxyType
from typing import Literal

from txtdb.evidence.policy import Policy
from txtdb.evidence.samples import (
    Comparison,
    all_acceptable,
    all_sound,
    compare,
    median,
    medians_and_least,
    trimmed_mean,
)
from txtdb.model.evidence import Block

State = Literal["running", "certified", "undecided"]
# The calls of those who ran in a block and are in the race.
_Run = dict[int, tuple[float, ...]]

_ABSENT = math.nan
# Every block is looked at until so many, then one in so many: late ones change little, and each look has its price.
_EACH_UNTIL = 16
_THEN_EACH = 4


def block_order(seed: int, cell_label: str, number: int, survivors: Iterable[int]) -> tuple[int, ...]:
    """The random order of a block's entrants: a function of its arguments, whatever ran before."""

    def key(entrant: int) -> bytes:
        return hashlib.sha256(f"{seed}\n{cell_label}\n{number}\n{entrant}".encode()).digest()

    return tuple(sorted(survivors, key=key))


def _is_look(blocks: int, max_blocks: int) -> bool:
    return blocks <= _EACH_UNTIL or blocks % _THEN_EACH == 0 or blocks == max_blocks


def _looks_up_to(blocks: int, max_blocks: int) -> int:
    """How many of the first blocks are looks."""
    found = min(blocks, _EACH_UNTIL) + max(0, blocks // _THEN_EACH - _EACH_UNTIL // _THEN_EACH)
    is_odd_end = blocks == max_blocks and blocks > _EACH_UNTIL and blocks % _THEN_EACH != 0
    return found + is_odd_end


@cache
def _looks(min_blocks: int, max_blocks: int) -> int:
    """How often a race is looked at in which something may be proven."""
    return _looks_up_to(max_blocks, max_blocks) - _looks_up_to(min_blocks - 1, max_blocks)


class Race:
    """What follows from the blocks so far; the same for any order inside blocks and any numbering of the entrants.

    The incumbent is protected: it is in every block, however slow. An entrant with a call that has no time is no
    entrant: the race is that of the others, from its first block on, so that some may come back that it had beaten.
    An entrant that a block lacks is compared over the blocks that it was in. `watts`, where energy decides, are those
    of every entrant: what is compared is time × watts.
    """

    def __init__(
        self,
        entrants: Sequence[int],
        incumbent: int | None,
        policy: Policy,
        watts: Mapping[int, float] | None = None,
    ) -> None:
        self._policy = policy.race
        self._incumbent = incumbent
        self._delta = math.log1p(policy.race.delta_pct / 100)
        self._floor = policy.race.floor_pct / 100
        self._screen = math.log1p(policy.race.screen_pct / 100)
        self._entrants = frozenset(entrants)
        self._weight = {entrant: math.log(watts[entrant]) for entrant in entrants} if watts else {}
        self._valid = set(entrants)
        self._blocks: list[Block] = []
        # How many blocks were seen at a look whose leader nobody asked for yet; 0 where the leader is known.
        self._unled = 0
        self._restart()

    @property
    def survivors(self) -> tuple[int, ...]:
        """The entrants of the next block: contenders, and the incumbent."""
        protected = {one for one in self._valid if one == self._incumbent}
        return tuple(sorted(self._contenders | protected))

    @property
    def eliminated(self) -> Mapping[int, int]:
        """The number of the block (from 0) after which an entrant was proven slower; never the incumbent's."""
        return MappingProxyType({key: value for key, value in self._beaten.items() if key != self._incumbent})

    @property
    def invalid(self) -> frozenset[int]:
        """Entrants with a call that has no time."""
        return self._entrants - self._valid

    @property
    def leader(self) -> int:
        """The fastest contender so far; before the first block the incumbent. LookupError where none is valid."""
        if not self._valid:
            raise LookupError("no entrant of the race is valid")
        if self._unled:
            self._leader = self._fastest(self._unled)
            self._unled = 0
        return self._leader

    @property
    def state(self) -> State:
        """`certified`: the leader is proven within delta of the best. `undecided`: the blocks are used up."""
        if not self._valid:
            return "undecided"
        if self._is_certified:
            return "certified"
        fewest = min(len(self._both(one, one)) for one in self._contenders)
        return "undecided" if fewest >= self._policy.max_blocks else "running"

    @property
    def proven(self) -> tuple[int, ...]:
        """The contenders that are proven within delta of the best, the leader among them; none unless certified."""
        if self.state != "certified":
            return ()
        return tuple(one for one in sorted(self._contenders) if self._is_best(one))

    def add(self, block: Block) -> None:
        """Take the next block. Of its entrants those count that are in the race."""
        self.extend((block,))

    def extend(self, blocks: Sequence[Block]) -> None:
        """Take the next blocks: the same as to add one after the other, and faster."""
        self._blocks += blocks
        runs = self._runs(blocks)
        if not all_sound([times for run in runs for times in run.values()]):
            self._valid -= {one for run in runs for one, times in run.items() if not all_acceptable(times)}
            self._restart()
            runs = self._runs(self._blocks)
        medians, least = medians_and_least([times for run in runs for times in run.values()])
        values, lowest = map(math.log, medians), map(math.log, least)
        if self._weight:
            weights = [self._weight[one] for run in runs for one in run]
            values, lowest = map(add, values, weights), map(add, lowest, weights)
        for run in runs:
            self._take(run, values, lowest)

    def compared(self, entrant: int, other: int) -> Comparison:
        """The logarithm of (the entrant's value / the other's) over the blocks that both ran in."""
        return compare(self._both(entrant, other), self._floor)

    def _restart(self) -> None:
        self._values: dict[int, list[float]] = {entrant: [] for entrant in self._valid}
        self._lowest: dict[int, list[float]] = {entrant: [] for entrant in self._valid}
        self._contenders = set(self._valid)
        self._beaten: dict[int, int] = {}
        self._centres: list[float] = []
        self._is_certified = False
        self._seen = 0
        self._unled = 0
        self._gaps = False
        self._tail = self._tail_of(len(self._valid))
        if self._valid:
            self._leader = self._incumbent if self._incumbent in self._valid else min(self._valid)

    def _runs(self, blocks: Sequence[Block]) -> list[_Run]:
        pairs = (zip(block.order, block.times, strict=True) for block in blocks)
        return [{one: times for one, times in pair if one in self._valid} for pair in pairs]

    def _take(self, run: _Run, values: Iterator[float], lowest: Iterator[float]) -> None:
        """One block of calls that all have times, and a look at all of them."""
        self._record(run, values, lowest)
        self._seen += 1
        if _is_look(self._seen, self._policy.max_blocks) and not self._contenders.isdisjoint(run):
            self._look()

    def _record(self, run: _Run, values: Iterator[float], lowest: Iterator[float]) -> None:
        """The values of those who ran, the next of each iterator; others have a gap only if they run again."""
        seen = self._seen
        for entrant, value, low in zip(run, values, lowest, strict=False):  # the run ends first, and nothing is lost
            mine, mine_lowest = self._values[entrant], self._lowest[entrant]
            missed = seen - len(mine)
            if missed:
                self._gaps = True
                mine += [_ABSENT] * missed
                mine_lowest += [_ABSENT] * missed
            mine.append(value)
            mine_lowest.append(low)

    def _both(self, entrant: int, other: int) -> list[float]:
        """The differences of two entrants' values, in the blocks that both were in."""
        both = map(sub, self._values[entrant], self._values[other])
        return [gap for gap in both if gap == gap] if self._gaps else list(both)

    def _look(self) -> None:
        """Where nothing can be proven, the leader is found when it is asked for."""
        if self._seen < min(self._policy.screen_blocks, self._policy.min_blocks):
            self._unled = self._seen
            self._is_certified = len(self._contenders) == 1
            return
        self._leader = self._fastest(self._seen)
        self._unled = 0
        if self._seen >= self._policy.screen_blocks:
            self._leave({one for one in self._contenders if self._is_screened(one)})
        if self._seen >= self._policy.min_blocks:
            self._leave({one for one in self._contenders if one != self._leader and self._is_slower(one)})
        self._is_certified = self._is_best(self._leader)

    def _leave(self, beaten: set[int]) -> None:
        if beaten:
            self._beaten.update(dict.fromkeys(beaten, self._seen - 1))
            self._contenders -= beaten
            self._centres.clear()

    def _fastest(self, blocks: int) -> int:
        """The contender with the least trimmed mean, over its first blocks, of its value against the block's centre.

        The centre is the median of the contenders' values: no numbering enters. Equal means go to the incumbent.
        """
        contenders = list(self._contenders)
        columns = [self._values[one] for one in contenders]
        is_whole = not self._gaps and min(map(len, columns)) >= blocks
        for number in range(len(self._centres), blocks):
            self._centres.append(_centre(columns, number, is_whole))
        paces = _paces(columns, self._centres, is_whole)
        least = min(paces)
        tied = [one for one, pace in zip(contenders, paces, strict=True) if pace == least]
        return min(tied, key=lambda one: (one != self._incumbent, self._values[one][:blocks], one))

    def _is_screened(self, entrant: int) -> bool:
        """Whether in each common block even the fastest call was slower than the leader's median by `screen_pct`."""
        limit, against = self._screen, self._values[self._leader]
        for lowest, value in zip(self._lowest[entrant], against, strict=False):
            if lowest - value <= limit:
                return False
        return len(self._both(entrant, self._leader)) >= self._policy.screen_blocks

    def _is_slower(self, entrant: int) -> bool:
        """Whether one is proven slower than the leader by more than delta."""
        return self._proven(entrant, self._leader) > self._delta

    def _is_best(self, one: int) -> bool:
        """Whether all other contenders are proven not faster by more than delta."""
        others = (other for other in self._contenders if other != one)
        return all(self._proven(other, one) >= -self._delta for other in others)

    def _proven(self, entrant: int, other: int) -> float:
        """What the logarithm of (the entrant's value / the other's) is proven to be at least."""
        gaps = self._both(entrant, other)
        if len(gaps) < self._policy.min_blocks:
            return -math.inf
        found = compare(gaps, self._floor)
        return found.mean - found.bound(self._tail)

    def _tail_of(self, entrants: int) -> float:
        """Half of the budget for eliminations and half for certificates, each over all pairs and looks."""
        looks = _looks(self._policy.min_blocks, self._policy.max_blocks)
        return self._policy.error_budget / 2 / max(entrants - 1, 1) / looks


def _centre(columns: Sequence[list[float]], number: int, is_whole: bool) -> float:
    """The median of a block's values."""
    if is_whole:
        return median([column[number] for column in columns])
    present = [column[number] for column in columns if number < len(column) and column[number] == column[number]]
    return median(present) if present else _ABSENT


def _paces(columns: Iterable[list[float]], centres: list[float], is_whole: bool) -> list[float]:
    """The trimmed means of the values against the centres."""
    gaps = (list(map(sub, values, centres)) for values in columns)
    if is_whole:
        return list(map(trimmed_mean, gaps))
    present = ([gap for gap in row if gap == gap] for row in gaps)
    return [trimmed_mean(row) if row else math.inf for row in present]
