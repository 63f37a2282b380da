"""Decisions as functions of samples: every reason, the gate, the tie rule, and what the samples' order may not do."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.cells import (
    NoisyDevice,
    entrants,
    exact,
    exact_blocks,
    measured,
    reading,
    readings,
    run_race,
    with_times,
)
from tests.evidence.made import raced
from txtdb.evidence.decide import decide, finalists, gain_over, valid_entrants
from txtdb.evidence.policy import Finalists, Policy
from txtdb.evidence.samples import LEAST_W, LONGEST_NS, MOST_W, SHORTEST_NS
from txtdb.model.evidence import Block, Decision, Entrant, Measured, Outcome, Reading, Reason, Status

POLICY = Policy()
BAR = POLICY.promotion.min_improvement_pct


def decided(cell: Measured, bar_pct: float = BAR) -> Decision:
    return decide(cell, POLICY, bar_pct)


def with_status(cell: Measured, one: int, status: Status, error: float | None = 0.1) -> Measured:
    changed = Entrant(cell.entrants[one].config, status, error=error)
    return replace(cell, entrants=(*cell.entrants[:one], changed, *cell.entrants[one + 1 :]))


def exhaustive(truth: tuple[float, ...], incumbent: int | None = None, rounds: int = 7) -> Measured:
    depth = tuple((time,) * 100 for time in truth)
    blocks = exact_blocks(truth, rounds, 25)
    return measured(blocks, len(truth), incumbent, strategy="exhaustive", depth=depth)


CASES: dict[Reason, tuple[Callable[[], Measured], Outcome, int | None]] = {
    Reason.GAIN: (lambda: exact((100.0, 90.0), 0), Outcome.PUBLISHED, 1),
    Reason.NO_BASELINE: (lambda: exact((100.0, 90.0)), Outcome.PUBLISHED, 1),
    Reason.INCUMBENT_FAILED: (
        lambda: with_status(exact((100.0, 90.0, 80.0), 2), 2, Status.WRONG_RESULT, 1.5),
        Outcome.PUBLISHED,
        1,
    ),
    Reason.BELOW_BAR: (lambda: exact((100.0, 98.0), 0), Outcome.RETAINED, 1),
    Reason.INCUMBENT_WINS: (lambda: exact((100.0, 100.0), 0), Outcome.RETAINED, 0),
    Reason.NO_CERTIFICATE: (lambda: measured(exact_blocks((100.0, 95.0), 3), 2, 0), Outcome.RETAINED, 1),
    Reason.COMPARED_ONLY: (lambda: exact((100.0, 90.0), 0, publish=False), Outcome.RETAINED, 1),
    Reason.NO_VALID_CANDIDATE: (
        lambda: with_status(exact((100.0,), 0), 0, Status.COMPILE_ERROR),
        Outcome.FAILED,
        None,
    ),
    Reason.STOPPED: (lambda: exact((100.0, 90.0), 0, finished=False), Outcome.UNMEASURED, None),
}


def test_every_reason_has_a_case() -> None:
    assert set(CASES) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_reason(reason: Reason) -> None:
    make, outcome, winner = CASES[reason]
    decision = decided(make())
    assert (decision.reason, decision.outcome, decision.winner) == (reason, outcome, winner)


GATE = [(2.9, Reason.BELOW_BAR), (3.0, Reason.GAIN), (3.1, Reason.GAIN)]


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
@pytest.mark.parametrize("scale", [1.0, 0.1, 1 / 3, 7e5, 1e9 / 7])
@pytest.mark.parametrize(("gain", "reason"), GATE)
def test_row_075_gains_at_the_bar(gain: float, reason: Reason, scale: float, strategy: str) -> None:
    truth = (100.0 * scale, (100 - gain) * scale)
    cell = exact(truth, 0) if strategy == "race" else exhaustive(truth, 0)
    decision = decided(cell)
    assert decision.reason is reason
    assert decision.gain_pct == pytest.approx(gain)
    assert decision.bar_pct == BAR
    assert decision.margin_pct == pytest.approx(gain - BAR, abs=1e-9)


def test_row_075_without_baseline() -> None:
    decision = decided(exact((100.0, 99.0)))
    assert decision.reason is Reason.NO_BASELINE
    assert (decision.gain_pct, decision.bar_pct, decision.floor_pct, decision.margin_pct) == (None,) * 4


def test_the_calibrated_bar_counts_where_it_is_higher() -> None:
    cell = exact((100.0, 95.5), 0)
    assert decided(cell, 4.0).reason is Reason.GAIN
    assert decided(cell, 5.0).reason is Reason.BELOW_BAR
    assert decided(cell, 5.0).bar_pct == 5.0
    assert decided(cell, 0.0).bar_pct == BAR


def test_the_noise_floor_counts_where_it_is_higher() -> None:
    """Blocks of the incumbent alternate by ± 20 %: 3 × 0.2 / √7 of the winner's share, some 23 %, is the floor."""
    rounds = [(100.0 * factor, 90.0) for factor in (1.2, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2)]
    blocks = tuple(Block((0, 1), ((one,) * 25, (other,) * 25)) for one, other in rounds)
    decision = decided(replace(exhaustive((100.0, 90.0), 0), blocks=blocks))
    assert decision.reason is Reason.BELOW_BAR
    assert decision.floor_pct is not None
    assert decision.gain_pct is not None
    assert decision.floor_pct > decision.gain_pct > BAR
    assert decision.bar_pct == decision.floor_pct


def test_numbers_of_a_decision_worked_by_hand() -> None:
    decision = decided(exact((100.0, 90.0, 400.0), 0))
    assert decision.certified
    assert decision.gain_pct == pytest.approx(10.0)
    assert decision.floor_pct == pytest.approx(3 * 0.1 * 0.9)
    assert decision.margin_pct == pytest.approx(7.0)
    assert decision.total_ns == 30 * 3 * 590.0
    first, second = decision.standings
    assert (first.entrant, first.blocks, first.eliminated) == (0, 30, None)
    assert first.slower == pytest.approx(math.log(100 / 90))
    assert first.spread == 0.001
    assert (second.entrant, second.eliminated) == (2, 1)


def test_any_changed_sample_changes_the_numbers() -> None:
    cell = exact((100.0, 90.0), 0)
    changed = replace(cell, blocks=with_times(cell.blocks, 7, {1: (90.0, 90.0, 90.001)}))
    assert decided(changed) != decided(cell)


@pytest.mark.parametrize("error", [None, 1.0001, math.nan, math.inf, -0.1])
def test_what_is_not_known_to_be_right_never_wins(error: float | None) -> None:
    decision = decided(with_status(exact((100.0, 50.0), 0), 1, Status.OK, error))
    assert decision.winner == 0
    assert decision.outcome is Outcome.RETAINED


def test_an_error_of_exactly_the_tolerance_is_right() -> None:
    assert valid_entrants(with_status(exact((100.0, 50.0)), 1, Status.OK, 1.0)) == (0, 1)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_candidate_that_failed_never_wins(status: Status) -> None:
    assert decided(with_status(exact((100.0, 50.0), 0), 1, status)).winner == 0


@pytest.mark.parametrize("bad", [0.0, -5.0, math.nan, math.inf])
@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_row_073_no_winner_from_samples_that_are_no_times(bad: float, strategy: str) -> None:
    cell = exact((100.0, 90.0, 50.0), 0) if strategy == "race" else exhaustive((100.0, 90.0, 50.0), 0)
    decision = decided(replace(cell, blocks=with_times(cell.blocks, 3, {2: (50.0, bad, 50.0)})))
    assert (decision.reason, decision.winner) == (Reason.GAIN, 1)
    assert [standing.entrant for standing in decision.standings] == [0]
    assert math.isfinite(decision.total_ns)


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
@pytest.mark.parametrize("bad", [5e-324, 0.999, 1.001e18, 1e300])
def test_row_073_times_that_no_device_gives_are_none(bad: float, strategy: str) -> None:
    """In all calls of a candidate: the logarithm of such a ratio may have no exponential."""
    cell = exact((100.0, bad), 0) if strategy == "race" else exhaustive((100.0, bad), 0)
    assert decided(cell).winner == 0
    assert decided(replace(cell, incumbent=1)).reason is Reason.INCUMBENT_FAILED


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_the_largest_ratios_have_numbers(strategy: str) -> None:
    times, watts = (LONGEST_NS, SHORTEST_NS), readings(MOST_W, LEAST_W)
    cell = exact(times, 0, watts=watts) if strategy == "race" else replace(exhaustive(times, 0), watts=watts)
    assert decided(cell).gain_pct == pytest.approx(100)
    slower = decided(replace(cell, incumbent=1))
    assert slower.standings[0].slower == pytest.approx(math.log(1e30))


@pytest.mark.parametrize("power", [5e-324, 0.0, -1.0, 1e10, math.inf, math.nan])
def test_watts_that_no_device_needs_are_none(power: float) -> None:
    assert decided(exact((100.0, 50.0), 0, watts=readings(300.0, power))).winner == 0


def test_row_073_all_samples_are_no_times() -> None:
    decision = decided(exact((0.0, -1.0), 0))
    assert decision.reason is Reason.NO_VALID_CANDIDATE
    assert decision.winner is None


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_row_073_in_the_depth_of_an_exhaustive_search(bad: float) -> None:
    cell = exhaustive((100.0, 50.0), 0)
    decision = decided(replace(cell, depth=(cell.depth[0], (50.0, bad))))
    assert decision.winner == 0


def test_an_incumbent_without_time_has_failed() -> None:
    cell = exact((100.0, 90.0), 0)
    decision = decided(replace(cell, blocks=with_times(cell.blocks, 29, {0: (100.0, 0.0, 100.0)})))
    assert decision.reason is Reason.INCUMBENT_FAILED
    assert decision.gain_pct is None


def test_a_failed_incumbent_is_replaced_without_certificate_too() -> None:
    cell = with_status(measured(exact_blocks((100.0, 95.0, 90.0), 2), 3, 0), 0, Status.CRASH)
    decision = decided(cell)
    assert (decision.outcome, decision.reason, decision.certified) == (
        Outcome.PUBLISHED,
        Reason.INCUMBENT_FAILED,
        False,
    )


def test_without_certificate_and_baseline_nothing_is_published() -> None:
    decision = decided(measured(exact_blocks((100.0, 95.0), 3), 2))
    assert (decision.outcome, decision.reason, decision.winner) == (Outcome.RETAINED, Reason.NO_CERTIFICATE, 1)


def test_without_any_block_nothing_is_published() -> None:
    for strategy in ("race", "exhaustive"):
        decision = decided(measured((), 2, 0, strategy=strategy))
        assert (decision.reason, decision.winner) == (Reason.NO_CERTIFICATE, None)


def test_ties_go_to_the_incumbent() -> None:
    for incumbent in (0, 1, 2):
        assert decided(exact((100.0, 100.2, 100.4), incumbent)).winner == incumbent


def test_ties_go_to_the_nearest_neighbour_next() -> None:
    cell = exact((100.0, 100.2, 100.4, 150.0), 3, neighbours=(2, 1))
    assert decided(cell).winner == 2
    assert decided(replace(cell, neighbours=(3, 1))).winner == 1


def test_ties_go_by_config_last() -> None:
    cell = exact((100.0, 100.2, 100.4))
    assert decided(cell).winner == 0
    renamed = tuple(replace(entrant, config=(9 - number,)) for number, entrant in enumerate(cell.entrants))
    assert decided(replace(cell, entrants=renamed)).winner == 2


def test_a_neighbour_that_is_slower_by_more_than_delta_is_not_tied() -> None:
    assert decided(exact((100.0, 102.0), neighbours=(1,))).winner == 0


def test_among_the_tied_those_that_reach_the_bar_come_first() -> None:
    """Entrant 1 would win by config with a gain of 2.9 %; the other gains 3.2 %."""
    decision = decided(exact((100.0, 97.1, 96.8), 0))
    assert (decision.reason, decision.winner) == (Reason.GAIN, 2)


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_the_winner_does_not_depend_on_the_numbering(strategy: str) -> None:
    truth = (100.0, 96.0, 96.2, 96.0, 130.0)
    for order in permutations(range(5)):
        times = tuple(truth[one] for one in order)
        cell = exact(times, order.index(0)) if strategy == "race" else exhaustive(times, order.index(0))
        cell = replace(cell, entrants=tuple(entrants(5)[one] for one in order))
        decision = decided(cell)
        assert decision.winner is not None
        assert (decision.reason, order[decision.winner]) == (Reason.GAIN, 1)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.permutations(range(5)))
def test_a_noisy_race_renumbered_has_the_same_decision(seed: int, names: list[int]) -> None:
    found = run_race(NoisyDevice((100.0, 96.5, 97.0, 110.0, 96.6), 0.01, seed), 5, 0, POLICY, seed)
    blocks = [
        Block(tuple(names[one] for one in reversed(block.order)), tuple(reversed(block.times)))
        for block in found.blocks
    ]
    places = [names.index(new) for new in range(5)]
    renamed = replace(
        found,
        blocks=tuple(blocks),
        incumbent=names[0],
        entrants=tuple(found.entrants[place] for place in places),
    )
    old, new = decided(found), decided(renamed)
    assert old.winner is not None
    assert new.winner == names[old.winner]
    assert replace(new, winner=0, incumbent=0, standings=()) == replace(old, winner=0, incumbent=0, standings=())
    assert {standing.entrant: standing.slower for standing in new.standings} == {
        names[standing.entrant]: standing.slower for standing in old.standings
    }


@pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
def test_row_071_rounds_of_an_exhaustive_search(forward: bool) -> None:
    """+20 % over the run: the depths say the wrong thing, the rounds do not."""
    truth = [100.0, 97.0] if forward else [97.0, 100.0]
    device = NoisyDevice(truth, 0.002, seed=2, trend=0.2 / 375)
    depth = device.visit((0, 1), 100)
    blocks = [Block(order, device.visit(order, 25)) for order in [(0, 1), (1, 0)] * 3 + [(0, 1)]]
    cell = measured(blocks, 2, None, strategy="exhaustive", depth=depth)
    assert decided(cell).winner == truth.index(97.0)


@pytest.mark.parametrize("seed", range(5))
def test_row_069_equal_exhaustive_searches_keep_the_incumbent(seed: int) -> None:
    truth = [100.0 + 2 * number / 14 for number in range(15)]
    device = NoisyDevice(truth, 0.03, seed)
    depth = device.visit(range(15), 100)
    chosen = finalists(depth, entrants(15), 7, POLICY)
    blocks = [Block(chosen, device.visit(chosen, 25)) for _ in range(7)]
    cell = measured(blocks, 15, 7, strategy="exhaustive", depth=depth)
    assert decided(cell).outcome is Outcome.RETAINED


def test_finalists_are_the_fastest_few_and_the_incumbent() -> None:
    policy = replace(POLICY, finalists=Finalists(count=2))
    depth = ((5.0,), (4.0,), (1.0, math.nan), (3.0,), (9.0,), ())
    assert finalists(depth, entrants(6), 4, policy) == (1, 3, 4)
    assert finalists(depth, entrants(6), 2, policy) == (1, 3)
    assert finalists(depth, entrants(6), None, policy) == (1, 3)


def test_equal_depths_go_by_config() -> None:
    policy = replace(POLICY, finalists=Finalists(count=1))
    assert finalists(((2.0,), (2.0,)), entrants(2), None, policy) == (0,)
    assert finalists(((2.0,), (2.0,)), entrants(2)[::-1], None, policy) == (1,)


def test_an_exhaustive_search_says_whether_its_winner_is_proven() -> None:
    assert decided(exhaustive((100.0, 90.0), 0)).certified
    assert not decided(exhaustive((100.0, 95.0), 0, rounds=2)).certified


def test_a_single_round_proves_no_gain() -> None:
    decision = decided(exhaustive((100.0, 50.0), 0, rounds=1))
    assert (decision.outcome, decision.reason) == (Outcome.RETAINED, Reason.NO_CERTIFICATE)


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_energy_ranks_by_time_times_watts(strategy: str) -> None:
    truth = (100.0, 90.0, 100.0)
    cell = exact(truth, 0) if strategy == "race" else exhaustive(truth, 0)
    decision = decided(replace(cell, watts=readings(300.0, 400.0, 270.0)))
    assert (decision.reason, decision.winner) == (Reason.GAIN, 2)
    assert decision.gain_pct == pytest.approx(10.0)


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_without_watts_a_candidate_is_not_ranked_and_an_incumbent_stays(strategy: str) -> None:
    cell = exact((100.0, 50.0, 80.0), 0) if strategy == "race" else exhaustive((100.0, 50.0, 80.0), 0)
    assert decided(replace(cell, watts=readings(300.0, None, 300.0))).winner == 2
    decision = decided(replace(cell, watts=readings(None, 300.0, 300.0)))
    assert (decision.outcome, decision.reason) == (Outcome.RETAINED, Reason.NO_CERTIFICATE)


def test_the_noise_of_watts_is_in_the_floor() -> None:
    """A gain of 10 % by watts: two readings of three windows with deviation s, sigma 3 or Student's law at 0.005."""
    cell = exact((100.0, 100.0), 0)
    steady = decided(replace(cell, watts=(reading(300.0), reading(270.0))))
    assert (steady.reason, steady.floor_pct) == (Reason.GAIN, pytest.approx(0.3 * 0.9))
    s = 0.02
    noisy = [reading(*(watts * math.exp(s * x) for x in (-1, 0, 1))) for watts in (300.0, 270.0)]
    decision = decided(replace(cell, watts=tuple(noisy)))
    quantile = 4.604  # of four degrees of freedom, exceeded with probability 0.005
    error = s * math.sqrt(2 / 3)
    assert decision.floor_pct == pytest.approx(90 * math.hypot(0.003, quantile * error), rel=1e-3)
    assert decision.reason is Reason.GAIN
    noisier = tuple(reading(*(watts * math.exp(0.04 * x) for x in (-1, 0, 1))) for watts in (300.0, 270.0))
    below = decided(replace(cell, watts=noisier))
    assert (below.reason, below.bar_pct) == (Reason.BELOW_BAR, below.floor_pct)


@pytest.mark.parametrize("watts", [(300.0, 330.0), (300.0, 270.0)])
def test_a_comparison_has_the_noise_of_both_whichever_wins(watts: tuple[float, float]) -> None:
    """Ten percent more or less by watts that are as noisy: neither is told from the other."""
    noisy = tuple(reading(*(each * math.exp(0.04 * x) for x in (-1, 0, 1))) for each in watts)
    decision = decided(exact((100.0, 100.0), 0, publish=False, watts=noisy))
    assert decision.winner == (0 if watts[1] > 300 else 1)
    assert decision.bar_pct == decision.floor_pct
    assert decision.floor_pct == pytest.approx(100 * watts[1] / 300 * 4.604 * 0.04 * math.sqrt(2 / 3), rel=2e-3)


def test_an_entrant_whose_own_watts_differ_by_more_has_a_floor_of_its_own() -> None:
    calm = readings(300.0, 300.0, 300.0, 200.0)
    wild = (*calm[:3], reading(150.0, 200.0, 250.0))
    cell = exact((100.0,) * 4, 0)
    floors = [decided(replace(cell, watts=watts)).floor_pct or 0.0 for watts in (calm, wild)]
    assert floors[0] < 1 < 40 < floors[1]


def test_gains_by_noise_of_the_sensor_are_not_published() -> None:
    """Twelve labels of one binary whose watts are read with noise of 5 % a window: 400 times, at most 1 % published."""
    draw, published = random.Random(3), 0
    cell = exact((100.0,) * 12, 0)
    for _ in range(400):
        watts = tuple(reading(*(300 * draw.lognormvariate(0, 0.05) for _ in range(3))) for _ in range(12))
        published += decided(replace(cell, watts=watts)).outcome is Outcome.PUBLISHED
    assert published <= 4


def test_readings_of_unlike_paths_are_not_ranked_together() -> None:
    """Single launches read low: the second one is out, and an incumbent that is read so cannot be compared."""
    low = reading(100.0, path="eager", reason="it copies to the host")
    cell = exact((100.0, 100.0, 90.0), 0)
    assert decided(replace(cell, watts=(reading(300.0), low, reading(300.0)))).winner == 2
    decision = decided(replace(cell, watts=(low, reading(300.0), reading(300.0))))
    assert (decision.outcome, decision.reason) == (Outcome.RETAINED, Reason.NO_CERTIFICATE)
    eager = tuple(replace(low, windows=(watts,) * 3) for watts in (300.0, 300.0, 200.0))
    assert decided(replace(cell, watts=eager)).winner == 2


@pytest.mark.parametrize(
    "bad", [reading(100.0, reliable=False), reading(100.0, 100.0, windows=(100.0,)), reading(windows=())]
)
def test_row_090_a_reading_that_says_too_little_ranks_nothing(bad: Reading) -> None:
    decision = decided(exact((100.0, 100.0), 0, watts=(reading(300.0), bad)))
    assert (decision.winner, decision.reason) == (0, Reason.INCUMBENT_WINS)


def test_the_path_of_one_that_is_wrong_does_not_count() -> None:
    cell = exact((100.0, 100.0, 90.0), 0)
    wrong = replace(cell.entrants[1], status=Status.WRONG_RESULT)
    eager = reading(300.0, path="eager", reason="x")
    made = replace(cell, entrants=(cell.entrants[0], wrong, cell.entrants[2]), watts=(eager, reading(300.0), eager))
    assert decided(made).winner == 2


def test_reading_evidence_needs_no_scipy() -> None:
    code = "import sys, txtdb.evidence.decide, txtdb.evidence.calibration; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_two_that_left_a_race_early_are_seldom_told_apart_where_they_are_equal():
    """They share two blocks, of which the spread says little."""
    beyond = 0
    for seed in range(200):
        measured = raced({"a": 10, "b": 30, "c": 30}, incumbent="a", noise=0.01, seed=seed)
        found = gain_over(measured, Policy(), 2, 1)
        beyond += found is not None and abs(found[0]) > found[1]
    assert beyond <= 4
