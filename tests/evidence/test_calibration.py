"""Calibration from trials of which the truth is known."""

from __future__ import annotations

import json

import pytest

from tests.evidence.cells import NoisyDevice, exact, run_race
from txtdb.evidence.calibration import calibrate, clopper_pearson
from txtdb.evidence.policy import Policy
from txtdb.model.evidence import Measured

POLICY = Policy()


def trials(gains_pct: list[float]) -> list[Measured]:
    """What a device reports: exact gains of a label over the incumbent, which is the same binary."""
    return [exact((100.0, 100.0 - gain), 0) for gain in gains_pct]


def test_without_false_promotions_the_bar_is_the_policy_s() -> None:
    found = calibrate(trials([0.0] * 100), trials([5.0] * 9 + [1.0]), 5.0, POLICY)
    assert found["bar_pct"] == 3.0
    assert found["false_promotions"]["count"] == 0
    assert found["false_promotions"]["high_pct"] == pytest.approx(3.62, abs=0.01)
    assert found["power"]["pct"] == 90.0
    assert json.loads(json.dumps(found)) == found


def test_one_in_a_hundred_is_allowed() -> None:
    found = calibrate(trials([0.0] * 99 + [4.0]), [], 5.0, POLICY)
    assert found["bar_pct"] == 3.0
    assert found["false_promotions"]["pct"] == 1.0
    assert found["power"]["pct"] is None


def test_the_bar_is_raised_above_the_second_largest_of_a_hundred() -> None:
    found = calibrate(trials([0.0] * 96 + [3.2, 4.25, 4.9, 6.0]), trials([4.0, 5.5]), 5.0, POLICY)
    assert found["bar_pct"] == 5.0
    assert found["false_promotions"]["count"] == 4
    assert found["false_promotions_at_bar"]["count"] == 1
    assert found["power"]["pct"] == 50.0


def test_a_gain_on_the_step_is_below_the_raised_bar() -> None:
    found = calibrate(trials([0.0] * 8 + [5.0, 4.0]), [], 5.0, POLICY)
    assert found["bar_pct"] == 5.1
    assert found["false_promotions_at_bar"]["count"] == 0


def test_a_higher_bar_may_let_another_label_win() -> None:
    """By config the first of two tied labels wins with 3.5 %; above that the other one has 4.2 %."""
    found = calibrate([exact((100.0, 96.5, 95.8), 0)], [], 5.0, POLICY)
    assert found["bar_pct"] == 4.3


def test_noisy_trials() -> None:
    same = [run_race(NoisyDevice((100.0,) * 6, 0.01, seed), 6, 0, POLICY, seed) for seed in range(20)]
    slower = [run_race(NoisyDevice((105.5, 100.0), 0.01, seed), 2, 0, POLICY, seed) for seed in range(20)]
    found = calibrate(same, slower, 5.5, POLICY)
    assert found["false_promotions"]["count"] == 0
    assert found["power"]["count"] == 20
    assert found["without_certificate"] == 0


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 0.3085), (1, 0.0025, 0.4450), (5, 0.1871, 0.8129), (10, 0.6915, 1.0)]
)
def test_bounds_of_ten_trials_as_in_tables(count: int, low: float, high: float) -> None:
    assert clopper_pearson(count, 10) == pytest.approx((low, high), abs=1e-4)
