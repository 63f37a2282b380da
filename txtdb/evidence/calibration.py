"""Calibration: how often the decision promotes the same binary under another label, and what bar that takes.

A trial is a cell whose truth is known: the entrants are one binary under many labels, or one of them is slowed down by
a known share. Trials are decided as cells are. docs/tuning.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from txtdb.evidence.decide import decide
from txtdb.evidence.policy import Policy
from txtdb.evidence.samples import total
from txtdb.model.evidence import Decision, Entrant, Measured, Reason, Status, TrialEvidence

# Of the bounds of a rate: each tail has half of the rest.
CONFIDENCE = 0.95
# Where the incumbent of a trial comes from.
TRIAL_LAYER = "calibration"


def clopper_pearson(count: int, trials: int) -> tuple[float, float]:
    """Exact bounds of a rate of which `count` of `trials` are known (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv  # loaded where a run is calibrated, not where evidence is only read

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, trials - count + 1, tail))
    high = 1.0 if count == trials else float(betaincinv(count + 1, trials - count, 1 - tail))
    return low, high


def calibrate(
    same: Sequence[Measured], slower: Sequence[Measured], slower_pct: float, policy: Policy
) -> dict[str, Any]:
    """What trials say of the bar, as a plain JSON object.

    same: trials of one binary under many labels; slower: trials whose incumbent takes `slower_pct` percent more than
    the one other entrant. Where the promotions among `same` are more than the policy allows, `bar_pct` is the least
    bar, in steps of 0.1 %, with which they are not; else it is the policy's. `power` is for the bar that results.
    Trials that were not decided (a race without certificate) count as no promotion and are counted.
    """
    usual = policy.promotion.min_improvement_pct
    at_usual = _decided(same, policy, usual)
    bar, at_bar = _raised(same, policy, at_usual)
    found = _decided(slower, policy, bar)
    return {
        "bar_pct": bar,
        "false_promotions": _rate(at_usual),
        "false_promotions_at_bar": _rate(at_bar),
        "power": {"slower_pct": slower_pct, **_rate(found)},
        "without_certificate": sum(not item.certified for item in (*at_bar, *found)),
    }


def measured_of(trial: TrialEvidence) -> Measured:
    """A trial as the cell that it stands for."""
    return Measured(
        functional=trial.functional,
        at=trial.at,
        strategy=trial.strategy,
        entrants=(Entrant(trial.config, Status.OK, error=0.0),) * trial.labels,
        incumbent=0,
        incumbent_layer=TRIAL_LAYER,
        neighbours=(),
        depth=trial.depth,
        blocks=trial.blocks,
    )


def calibration_of(trials: Sequence[TrialEvidence], slower_pct: float, policy: Policy) -> dict[str, Any]:
    """What the trials of a run say, as its evidence states it: see `calibrate`; with the sum of all samples."""
    same, slower = ([measured_of(trial) for trial in trials if trial.twin is twin] for twin in (False, True))
    times = chain.from_iterable(chain(trial.depth, *(block.times for block in trial.blocks)) for trial in trials)
    labels = max((trial.labels for trial in trials), default=0)
    found = calibrate(same, slower, slower_pct, policy)
    return {"labels": labels, **found, "total_ns": total(chain.from_iterable(times))}


def _decided(trials: Sequence[Measured], policy: Policy, bar_pct: float) -> list[Decision]:
    return [decide(trial, policy, bar_pct) for trial in trials]


def _raised(trials: Sequence[Measured], policy: Policy, decisions: list[Decision]) -> tuple[float, list[Decision]]:
    """The least bar that lets through no more than is allowed, and the decisions with it.

    Decided again at each bar: among tied entrants a higher one may let another win.
    """
    allowed = math.floor(policy.promotion.max_false_promotion_pct / 100 * len(trials) + 1e-9)
    bar = policy.promotion.min_improvement_pct
    while len(gains := _promoted_gains(decisions)) > allowed:
        bar = max(math.floor(gains[allowed] * 10) + 1, math.floor(bar * 10) + 1) / 10
        decisions = _decided(trials, policy, bar)
    return bar, decisions


def _promoted_gains(decisions: Sequence[Decision]) -> list[float]:
    """Largest first. A cell that is published for another reason than its gain is no false promotion."""
    return sorted((item.gain_pct for item in decisions if _is_promoted(item) and item.gain_pct), reverse=True)


def _is_promoted(decision: Decision) -> bool:
    return decision.reason is Reason.GAIN


def _rate(decisions: Sequence[Decision]) -> dict[str, Any]:
    count, trials = sum(map(_is_promoted, decisions)), len(decisions)
    if not trials:
        return {"trials": 0, "count": 0, "pct": None, "low_pct": None, "high_pct": None}
    low, high = clopper_pearson(count, trials)
    return {"trials": trials, "count": count, "pct": 100 * count / trials, "low_pct": 100 * low, "high_pct": 100 * high}
