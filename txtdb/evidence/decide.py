"""What becomes of a cell: a function of its samples and the policy.

The winner is chosen among those that are tied for the fastest: the incumbent if it is one of them; else, of those whose
gain over the incumbent reaches the bar, if any, the one that the nearest neighbouring cell uses; else the first by
config. It replaces the incumbent when its gain reaches the bar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from txtdb.evidence.finalists import Rounds, finalists, is_right
from txtdb.evidence.policy import Policy
from txtdb.evidence.race import Race
from txtdb.evidence.samples import Comparison, all_acceptable, all_sound, quantile, total
from txtdb.evidence.watts import usable_watts, watts_floor
from txtdb.model.evidence import Decision, Measured, Outcome, Reason, Standing
from txtdb.model.values import functional_rank

__all__ = ["decide", "finalists", "gain_over", "replay", "valid_entrants"]

# Percent: what rounding makes of a gain of exactly 3 % stays a gain of 3 %.
_ROUNDING_PCT = 1e-9


@dataclass(frozen=True, slots=True)
class _Result:
    """What the samples say: who is right, who of these has watts if those are needed, who is tied for the fastest."""

    right: tuple[int, ...]
    valid: tuple[int, ...]
    tied: tuple[int, ...]
    compared: Callable[[int, int], Comparison]
    is_proven: Callable[[int], bool]
    eliminated: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Gain:
    """What a winner saves of the incumbent's time, the noise floor of that, and the bar; percent."""

    gain_pct: float
    floor_pct: float
    bar_pct: float

    @property
    def reaches(self) -> bool:
        return self.gain_pct >= self.bar_pct - _ROUNDING_PCT


def valid_entrants(measured: Measured) -> tuple[int, ...]:
    """Entrants that are right, have a time for each of their calls and, where energy decides, watts."""
    return _with_watts(measured, _right_entrants(measured))


def replay(measured: Measured, policy: Policy) -> Race:
    """The race of the valid entrants over the blocks.

    A tuner whose entrant turns out to be invalid while the race runs goes on from this.
    """
    return _replay(measured, policy, valid_entrants(measured))


def decide(measured: Measured, policy: Policy, bar_pct: float) -> Decision:
    """The decision of a cell.

    `bar_pct` is the calibrated bar; neither the policy's least improvement nor the noise floor is ever undercut.
    """
    if not measured.finished:
        return _without_winner(measured, Outcome.UNMEASURED, Reason.STOPPED)
    result = _race_result(measured, policy) if measured.strategy == "race" else _round_result(measured, policy)
    if not result.valid:
        return _without_winner(measured, Outcome.FAILED, Reason.NO_VALID_CANDIDATE)
    if not result.tied:
        return _without_winner(measured, Outcome.RETAINED, Reason.NO_CERTIFICATE)
    return _with_winner(measured, result, policy, max(bar_pct, policy.promotion.min_improvement_pct))


def gain_over(measured: Measured, policy: Policy, entrant: int, other: int) -> tuple[float, float] | None:
    """What an entrant saves of another's time, or energy where that decides, and the noise floor of that; percent.

    It is negative where the entrant needs more. They are compared over the blocks that both ran in, as a winner is with
    its incumbent; None where either is not valid, or where fewer than two blocks had both. Nothing was proven of this
    pair before, so that few blocks make the more noise, by Student's distribution, in a race too.
    """
    valid = {entrant, other} & set(valid_entrants(measured))
    found = Rounds(measured.blocks, valid, policy, usable_watts(measured)).compared(entrant, other)
    if not found.freedom:
        return None
    errors = max(policy.finalists.sigma, quantile(found.freedom, policy.race.error_budget / 2))
    return 0.0 - 100 * math.expm1(found.mean), _floor(measured, found, (entrant, other), policy, errors)


def _with_winner(measured: Measured, result: _Result, policy: Policy, least: float) -> Decision:
    gains = {one: _gain(measured, result, one, policy, least) for one in result.tied}
    winner = _winner(measured, gains)
    gain, proven = gains[winner], result.is_proven(winner)
    outcome, reason = _gate(measured, result.right, winner, gain, proven)
    return Decision(
        outcome=outcome,
        reason=reason,
        winner=winner,
        incumbent=measured.incumbent,
        certified=proven,
        gain_pct=gain.gain_pct if gain else None,
        bar_pct=gain.bar_pct if gain else None,
        floor_pct=gain.floor_pct if gain else None,
        margin_pct=gain.gain_pct - gain.bar_pct if gain else None,
        total_ns=_total(measured),
        standings=tuple(_standings(result, winner)),
    )


def _without_winner(measured: Measured, outcome: Outcome, reason: Reason) -> Decision:
    return Decision(outcome, reason, None, measured.incumbent, False, None, None, None, None, _total(measured), ())


def _standings(result: _Result, winner: int) -> Iterator[Standing]:
    for one in result.valid:
        found = result.compared(one, winner)
        if one != winner and found.freedom:
            yield Standing(one, found.blocks, found.mean, found.spread, result.eliminated.get(one))


def _total(measured: Measured) -> float:
    visits = chain(measured.depth, chain.from_iterable(block.times for block in measured.blocks))
    return total(chain.from_iterable(visits))


def _right_entrants(measured: Measured) -> tuple[int, ...]:
    """Entrants whose results are right and whose calls all have times."""
    spoiled = {one for one, times in enumerate(measured.depth) if times and not all_acceptable(times)}
    if not all_sound(list(chain.from_iterable(block.times for block in measured.blocks))):
        for block in measured.blocks:
            runs = zip(block.order, block.times, strict=True)
            spoiled |= {one for one, times in runs if not all_acceptable(times)}
    return tuple(one for one, entrant in enumerate(measured.entrants) if is_right(entrant) and one not in spoiled)


def _with_watts(measured: Measured, right: tuple[int, ...]) -> tuple[int, ...]:
    known = usable_watts(measured)
    return tuple(one for one in right if one in known) if measured.watts else right


def _replay(measured: Measured, policy: Policy, valid: tuple[int, ...]) -> Race:
    incumbent = measured.incumbent if measured.incumbent in valid else None
    race = Race(valid, incumbent, policy, usable_watts(measured))
    race.extend(measured.blocks)
    return race


def _race_result(measured: Measured, policy: Policy) -> _Result:
    right = _right_entrants(measured)
    valid = _with_watts(measured, right)
    race = _replay(measured, policy, valid)
    proven = race.proven
    tied = proven or ((race.leader,) if valid and measured.blocks else ())
    return _Result(right, valid, tied, race.compared, proven.__contains__, race.eliminated)


def _round_result(measured: Measured, policy: Policy) -> _Result:
    right = _right_entrants(measured)
    valid = _with_watts(measured, right)
    rounds = Rounds(measured.blocks, set(valid), policy, usable_watts(measured))
    return _Result(right, valid, rounds.tied, rounds.compared, rounds.is_proven, {})


def _gain(measured: Measured, result: _Result, winner: int, policy: Policy, least: float) -> _Gain | None:
    """None where there is no incumbent that it can be compared with.

    An incumbent that wins gains nothing; in a comparison the floor is then that of the loss of the other one.
    """
    incumbent = measured.incumbent
    found = result.compared(winner, incumbent) if incumbent in result.valid and incumbent is not None else None
    if found is None or not found.freedom or incumbent is None:
        return None
    others = () if measured.publish else (one for one in result.valid if one != incumbent)
    rival = winner if winner != incumbent else next(iter(others), incumbent)
    compared = result.compared(rival, incumbent)
    floor = _floor(measured, compared, (rival, incumbent), policy, _errors(measured, compared, policy))
    return _Gain(0.0 - 100 * math.expm1(found.mean), floor, max(least, floor))


def _floor(measured: Measured, found: Comparison, pair: tuple[int, int], policy: Policy, errors: float) -> float:
    """The noise of a gain or loss, percent: so many standard errors. A gain of g has (1 - g) times that of the
    logarithm.
    """
    watts = watts_floor(measured, *pair, policy) if pair[0] != pair[1] else 0.0
    return 100 * math.hypot(errors * found.spread, watts) * math.exp(found.mean)


def _errors(measured: Measured, found: Comparison, policy: Policy) -> float:
    """How many standard errors are noise: more where a few rounds tell them, and the best of several is taken.

    A race takes no look at who is ahead before it is proven.
    """
    if measured.strategy == "race" or not found.freedom:
        return policy.finalists.sigma
    rivals = len({one for block in measured.blocks for one in block.order}) - 1
    tail = policy.race.error_budget / 2 / max(rivals, 1)
    return max(policy.finalists.sigma, quantile(found.freedom, tail))


def _winner(measured: Measured, gains: Mapping[int, _Gain | None]) -> int:
    """The tie rule, over those that are tied for the fastest."""
    if measured.incumbent in gains and measured.incumbent is not None:
        return measured.incumbent
    tied = [one for one, gain in gains.items() if gain and gain.reaches] or list(gains)
    near = [one for one in measured.neighbours if one in tied]
    return near[0] if near else min(tied, key=lambda one: functional_rank(measured.entrants[one].config))


def _gate(
    measured: Measured, right: tuple[int, ...], winner: int, gain: _Gain | None, proven: bool
) -> tuple[Outcome, Reason]:
    """An incumbent that fails is replaced by a winner without certificate too: any right config is better than it."""
    if not measured.publish:
        return Outcome.RETAINED, Reason.COMPARED_ONLY
    if measured.incumbent is not None and measured.incumbent not in right:
        return Outcome.PUBLISHED, Reason.INCUMBENT_FAILED
    if measured.strategy == "race" and not proven:
        return Outcome.RETAINED, Reason.NO_CERTIFICATE
    if measured.incumbent is None:
        return Outcome.PUBLISHED, Reason.NO_BASELINE
    if winner == measured.incumbent:
        return Outcome.RETAINED, Reason.INCUMBENT_WINS
    if gain is None:
        return Outcome.RETAINED, Reason.NO_CERTIFICATE
    return (Outcome.PUBLISHED, Reason.GAIN) if gain.reaches else (Outcome.RETAINED, Reason.BELOW_BAR)
