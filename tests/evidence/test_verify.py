"""Verification: what was measured is proven, and each change of a sample, a cell or the bar is found by name.

`edited` changes a run after it was decided; `published_files` writes it with fresh digests, as somebody would who wants
the change to pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.build import F1, SCHEMA, TABLE_B, make_db, patch, table
from tests.evidence.cells import reading
from tests.evidence.made import (
    config,
    decided,
    published_files,
    raced,
    rows_of,
    run_of,
    schema,
    wide_palette,
    with_sample,
)
from tools.bench.verifying import make_database
from txtdb.evidence.calibration import calibration_of
from txtdb.evidence.decide import decide
from txtdb.evidence.files import evidence_digest, write_evidence
from txtdb.evidence.policy import Policy, as_json, described
from txtdb.evidence.recompute import lax
from txtdb.evidence.verify import Verification, verify
from txtdb.layers.database import open_database
from txtdb.model.evidence import CellEvidence, Decision, Evidence, Outcome, Reason, Status, TrialEvidence

EVIDENCE = "gfxB/evidence/run.json"
PATCH = "gfxB/attn_fwd.0010-run.dbpatch"
TABLE = "gfxB/attn_fwd.txtdb"
LAX = replace(Policy(), promotion=replace(Policy().promotion, min_improvement_pct=1.0))
Files = Mapping[str, str | None]


@cache
def the_run() -> Evidence:
    """Published with a gain and without a baseline, retained for a tie and for a gain below the bar, failed."""
    return run_of(
        [
            decided(raced({"a": 20, "b": 10, "c": 10.5}, incumbent="a")),
            decided(raced({"c": 10, "b": 11}, at=(64, 128))),
            decided(raced({"a": 10, "b": 10.5, "d": 12}, at=(64, 256), incumbent="a")),
            decided(raced({"a": 10.2, "b": 10}, at=(128, 64), incumbent="a", noise=0.0005)),
            decided(
                raced({"d": 10, "b": 9, "c": 9.3}, at=(128, 128), incumbent="d", failing={"d": Status.WRONG_RESULT})
            ),
            decided(raced({"d": 10}, at=(128, 256), failing={"d": Status.CRASH})),
        ]
    )


def verified(folder: Path, files: Files, asked: Policy | None = None, overlays: Files | None = None) -> Verification:
    root = make_db(folder, files)
    above = (
        [make_db(folder, {**dict.fromkeys(("gfxA/attn_fwd.txtdb", TABLE)), **overlays}, "above")] if overlays else []
    )
    database = open_database(root, above)
    return verify(database, database.archs, asked or Policy())


def told(found: Verification) -> list[tuple[str, str]]:
    return [(item.fault.rule, item.fault.message) for item in found.objections]


def rules(found: Verification) -> list[str]:
    return [rule for rule, _ in told(found)]


def edited(number: int, **decision: Any) -> Evidence:
    """The run with some members of one decision restated."""
    run = the_run()
    cells = list(run.cells)
    cells[number] = replace(cells[number], decision=replace(cells[number].decision, **decision))
    return replace(run, cells=tuple(cells))


def with_cell(number: int, cell: CellEvidence) -> Evidence:
    run = the_run()
    return replace(run, cells=(*run.cells[:number], cell, *run.cells[number + 1 :]))


def test_the_run_has_each_outcome() -> None:
    found = [(cell.decision.outcome, cell.decision.reason) for cell in the_run().cells]
    assert found == [
        (Outcome.PUBLISHED, Reason.GAIN),
        (Outcome.PUBLISHED, Reason.NO_BASELINE),
        (Outcome.RETAINED, Reason.INCUMBENT_WINS),
        (Outcome.RETAINED, Reason.BELOW_BAR),
        (Outcome.PUBLISHED, Reason.INCUMBENT_FAILED),
        (Outcome.FAILED, Reason.NO_VALID_CANDIDATE),
    ]


def test_an_untouched_patch_is_proven(tmp_path: Path) -> None:
    found = verified(tmp_path, published_files(the_run()))
    assert told(found) == []
    counts = found.counts
    assert (counts.files, counts.evidence, counts.decisions, counts.cells) == (1, 1, 6, 3)


def test_a_database_that_claims_nothing(tmp_path: Path) -> None:
    found = verified(tmp_path, {})
    assert (found.objections, found.counts.files) == ((), 0)


# samples


@pytest.mark.parametrize("number", range(5))
def test_every_changed_sample_is_found(tmp_path: Path, number: int) -> None:
    """A nanosecond more in one call; digests were computed anew."""
    cell = the_run().cells[number]
    block = cell.measured.blocks[2]
    times = (block.times[0][0] + 1.0, *block.times[0][1:])
    files = published_files(with_cell(number, with_sample(cell, 2, 0, times)))
    ((rule, message),) = told(verified(tmp_path, files))
    assert rule == "decision-not-reproduced"
    assert message.startswith(f"cells[{number}] [fp16 0 64] {','.join(map(str, cell.measured.at))}: ")
    assert "is stated as" in message


def test_a_faster_winner_with_the_sum_mended(tmp_path: Path) -> None:
    """All calls of the winner made 10 % faster, and the sum of all samples with them."""
    cell = the_run().cells[0]
    changed = cell
    for number in range(len(cell.measured.blocks)):
        place = cell.measured.blocks[number].order.index(1)
        times = cell.measured.blocks[number].times[place]
        changed = with_sample(changed, number, place, [time * 0.9 for time in times])
    total = decide(changed.measured, Policy(), 3.0).total_ns
    changed = replace(changed, decision=replace(changed.decision, total_ns=total))
    ((rule, message),) = told(verified(tmp_path, published_files(with_cell(0, changed))))
    assert rule == "decision-not-reproduced"
    assert "gain_pct is stated as 50.0719, recomputed it is 55.0647" in message


def test_a_sample_that_is_no_time(tmp_path: Path) -> None:
    """NaN in the winner's calls: it cannot win."""
    cell = the_run().cells[0]
    place = cell.measured.blocks[1].order.index(1)
    files = published_files(with_cell(0, with_sample(cell, 1, place, [float("nan"), 1e4, 1e4])))
    ((rule, message),) = told(verified(tmp_path, files))
    assert rule == "decision-not-reproduced"
    assert "winner is stated as 1, recomputed it is 2" in message


def test_without_new_digests_the_digest_tells_too(tmp_path: Path) -> None:
    run = the_run()
    files = published_files(with_cell(0, with_sample(run.cells[0], 2, 0, [1.0, 2.0, 3.0])))
    old = published_files(run)
    assert files[PATCH] != old[PATCH]
    found = rules(verified(tmp_path, {**files, PATCH: old[PATCH]}))
    assert found == ["digest-mismatch", "decision-not-reproduced"]


# decisions


CHANGED_DECISIONS: dict[str, tuple[int, dict[str, Any], str]] = {
    "a larger gain": (0, {"gain_pct": 60.0}, "gain_pct is stated as 60, recomputed it is 50.0719"),
    "a lower floor": (0, {"floor_pct": 0.0}, "floor_pct is stated as 0, recomputed it is 0."),
    "another margin": (0, {"margin_pct": 50.0}, "margin_pct is stated as 50"),
    "a certificate": (5, {"certified": True}, "certified is stated as True, recomputed it is False"),
    "another reason": (0, {"reason": Reason.NO_BASELINE}, "reason is stated as no-baseline, recomputed it is gain"),
    "another winner": (0, {"winner": 2}, "winner is stated as 2, recomputed it is 1"),
    "another incumbent": (0, {"incumbent": 2}, "incumbent is stated as 2, recomputed it is 0"),
    "a sum": (0, {"total_ns": 1.0}, "total_ns is stated as 1, recomputed"),
    "standings": (0, {"standings": ()}, "standings is stated as of entrants []"),
}


@pytest.mark.parametrize("name", sorted(CHANGED_DECISIONS))
def test_every_changed_member_of_a_decision(tmp_path: Path, name: str) -> None:
    number, change, message = CHANGED_DECISIONS[name]
    rows = rows_of(cell for cell in the_run().cells if cell.decision.outcome is Outcome.PUBLISHED)
    files = published_files(edited(number, **change), rows=rows)
    ((rule, words),) = [item for item in told(verified(tmp_path, files)) if item[0] != "cell-not-proven"]
    assert rule == "decision-not-reproduced"
    assert message in words


def test_a_standing_that_was_changed(tmp_path: Path) -> None:
    first, *rest = the_run().cells[0].decision.standings
    files = published_files(edited(0, standings=(replace(first, slower=0.2), *rest)))
    ((rule, message),) = told(verified(tmp_path, files))
    assert (rule, "`slower` of entrant 0 is stated as 0.2" in message) == ("decision-not-reproduced", True)


def test_a_retained_cell_that_was_published_with_its_patch(tmp_path: Path) -> None:
    """Decision, cell and digest agree with each other, but not with the samples."""
    files = published_files(edited(3, outcome=Outcome.PUBLISHED, reason=Reason.GAIN))
    assert "128 b b ." in (files[PATCH] or "")
    ((rule, message),) = told(verified(tmp_path, files))
    assert rule == "decision-not-reproduced"
    assert "outcome is stated as published, recomputed it is retained" in message


# the bar


def test_a_stated_bar_that_was_lowered(tmp_path: Path) -> None:
    found = told(verified(tmp_path, published_files(edited(3, bar_pct=1.0, margin_pct=0.9))))
    ((rule, message),) = found
    assert rule == "bar-changed"
    assert "cells[3] [fp16 0 64] 128,64: bar_pct is stated as 1, recomputed it is 3" in message


def test_a_policy_that_was_lowered_with_all_that_follows(tmp_path: Path) -> None:
    """Policy, decisions, patch and digests agree; only who verifies knows that 3 % was asked for."""
    cells = tuple(decided(cell.measured, LAX, 1.0) for cell in the_run().cells)
    assert cells[3].decision.outcome is Outcome.PUBLISHED
    files = published_files(replace(the_run(), cells=cells, policy=as_json(LAX)))
    ((rule, message),) = told(verified(tmp_path, files))
    assert (rule, message) == (
        "bar-changed",
        "policy promotion.min_improvement_pct is 1; at least 3 is asked for",
    )
    assert told(verified(tmp_path / "again", files, LAX)) == []


def test_a_policy_that_was_lowered_by_itself(tmp_path: Path) -> None:
    found = told(verified(tmp_path, published_files(replace(the_run(), policy=as_json(LAX))), LAX))
    assert {rule for rule, _ in found} == {"bar-changed", "decision-not-reproduced"}
    (outcome,) = (message for rule, message in found if rule == "decision-not-reproduced")
    assert "cells[3] [fp16 0 64] 128,64: outcome is stated as retained, recomputed it is published" in outcome


EASIER: tuple[tuple[str, str, float], ...] = (
    ("measurement", "warm_up", 0),
    ("measurement", "calls", 1),
    ("measurement", "block_warm_up", 0),
    ("measurement", "flush_cache", False),
    ("measurement", "fill", 1),
    ("promotion", "max_false_promotion_pct", 50.0),
    ("finalists", "count", 1),
    ("finalists", "rounds", 2),
    ("finalists", "calls", 1),
    ("finalists", "sigma", 0.1),
    ("race", "delta_pct", 20.0),
    ("race", "error_budget", 0.4),
    ("race", "block_calls", 1),
    ("race", "min_blocks", 2),
    ("race", "screen_pct", 1.0),
    ("race", "screen_blocks", 1),
    ("race", "floor_pct", 1e-6),
)


@pytest.mark.parametrize(("group", "name", "value"), EASIER)
def test_every_number_of_the_policy_that_makes_it_easier(tmp_path: Path, group: str, name: str, value: float) -> None:
    policy = replace(Policy(), **{group: replace(getattr(Policy(), group), **{name: value})})
    cells = tuple(decided(cell.measured, policy) for cell in the_run().cells)
    files = published_files(replace(the_run(), cells=cells, policy=as_json(policy)))
    assert [(rule, message.split(" ")[1]) for rule, message in told(verified(tmp_path, files))] == [
        ("bar-changed", f"{group}.{name}")
    ]


def test_what_no_policy_makes_easier() -> None:
    """A number that is new stands in one of the lists."""
    named = {f"{group}.{name}" for group, name, _ in EASIER} | {"promotion.min_improvement_pct"}
    others = {row.name for row in described(Policy())} - named
    assert {name for name in others if not name.startswith("run.")} == {"race.max_blocks", "seed"}


def test_a_policy_that_says_yes_or_no_is_told_so() -> None:
    policy = replace(Policy(), measurement=replace(Policy().measurement, flush_cache=False))
    assert list(lax(policy, Policy())) == ["policy measurement.flush_cache is False; True is asked for"]
    assert list(lax(Policy(), policy)) == []


def test_a_policy_that_is_none(tmp_path: Path) -> None:
    ((rule, message),) = told(verified(tmp_path, published_files(replace(the_run(), policy={"seed": 0}))))
    assert rule == "bad-evidence"
    assert "policy" in message


# calibration


@cache
def calibrated(promotions: int) -> Evidence:
    """The run with a calibration of 100 trials, so many of which promoted the same binary, and its decisions."""
    trials = [trial({"a": 10, "b": 9.5 if n < promotions else 10}, n) for n in range(100)]
    return with_trials([*trials, *(trial({"a": 10.6, "b": 10}, n, twin=True) for n in range(4))])


def trial(times_us: Mapping[str, float], seed: int, twin: bool = False) -> TrialEvidence:
    made = raced(times_us, incumbent="a", seed=seed)
    labels = len(times_us)
    return TrialEvidence(twin, made.functional, made.at, config("a"), "race", labels, ((),) * labels, made.blocks)


def with_trials(trials: Sequence[TrialEvidence]) -> Evidence:
    """The run, with what these trials say, and the decisions at the bar that they demand."""
    found = calibration_of(trials, 6.0, Policy())
    cells = tuple(decided(cell.measured, Policy(), found["bar_pct"]) for cell in the_run().cells)
    return replace(the_run(), calibration=found, cells=cells, trials=tuple(trials))


def recalibrated(run: Evidence, **change: Any) -> Evidence:
    return replace(run, calibration={**(run.calibration or {}), **change})


def one_sample_slower(trial: TrialEvidence) -> TrialEvidence:
    """A trial whose first call took a nanosecond more."""
    first, *others = trial.blocks
    (time, *more), *rows = first.times
    return replace(trial, blocks=(replace(first, times=((time + 1, *more), *rows)), *others))


def test_a_calibrated_bar_is_the_one_that_counts(tmp_path: Path) -> None:
    run = calibrated(5)
    assert (run.calibration or {})["bar_pct"] > 4
    assert run.cells[0].decision.bar_pct == (run.calibration or {})["bar_pct"]
    assert told(verified(tmp_path, published_files(run))) == []
    assert told(verified(tmp_path / "quiet", published_files(calibrated(0)))) == []


def test_a_calibration_that_was_left_out(tmp_path: Path) -> None:
    found = verified(tmp_path, published_files(replace(calibrated(5), calibration=None)))
    assert set(rules(found)) == {"bar-changed"}


def test_a_calibrated_bar_that_was_lowered(tmp_path: Path) -> None:
    """All decisions were made again with the lower bar; the rate of false promotions demands more."""
    cells = the_run().cells
    run = replace(recalibrated(calibrated(5), bar_pct=3.0), cells=cells)
    found = verified(tmp_path, published_files(run))
    ((rule, message),) = told(found)
    bar = (calibrated(5).calibration or {})["bar_pct"]
    assert (rule, message) == ("bar-changed", f"calibration bar_pct is stated as 3, recomputed it is {bar}")


def test_a_rate_that_was_lowered(tmp_path: Path) -> None:
    run = calibrated(5)
    rate = {**(run.calibration or {})["false_promotions"], "pct": 0.5}
    ((rule, message),) = told(verified(tmp_path, published_files(recalibrated(run, false_promotions=rate))))
    assert rule == "bar-changed"
    assert message == "calibration false_promotions.pct is stated as 0.5, recomputed it is 5"


def test_a_sample_of_a_trial_that_was_changed(tmp_path: Path) -> None:
    run = calibrated(5)
    changed = replace(run, trials=(*run.trials[:3], one_sample_slower(run.trials[3]), *run.trials[4:]))
    ((rule, message),) = told(verified(tmp_path, published_files(changed)))
    assert rule == "bar-changed"
    assert message.startswith("calibration total_ns is stated as ")


def test_a_calibrated_bar_that_its_trials_do_not_demand(tmp_path: Path) -> None:
    """The other way round: trials that demand no more than usual, and a bar that is higher all the same."""
    calm = calibrated(0)
    cells = tuple(decided(cell.measured, Policy(), 4.0) for cell in calm.cells)
    ((rule, message),) = told(
        verified(tmp_path, published_files(replace(recalibrated(calm, bar_pct=4.0), cells=cells)))
    )
    assert (rule, message) == ("bar-changed", "calibration bar_pct is stated as 4, recomputed it is 3")


@pytest.mark.parametrize("kind", ["some", "all"])
def test_trials_that_were_left_out(tmp_path: Path, kind: str) -> None:
    run = calibrated(5)
    left = replace(run, trials=run.trials[5:] if kind == "some" else ())
    ((rule, message),) = told(verified(tmp_path, published_files(left)))
    assert rule == "bar-changed"
    assert message == "the calibration has no trials: nothing says what bar they demand" or kind == "some"


def test_trials_of_another_strategy_say_nothing(tmp_path: Path) -> None:
    trials = [replace(trial, strategy="exhaustive") for trial in calibrated(0).trials]
    found = told(verified(tmp_path, published_files(with_trials(trials))))
    assert found == [("bar-changed", "the calibration is of another strategy than the cells, which are by race")]


def test_trials_of_times_say_nothing_of_energy(tmp_path: Path) -> None:
    run = with_energy((300.0,) * 3, (200.0,) * 3, (300.0,) * 3)
    trials = calibrated(0)
    found = told(
        verified(tmp_path, published_files(replace(run, calibration=trials.calibration, trials=trials.trials)))
    )
    assert found == [("bar-changed", "the trials of the calibration are of times, and the cells are decided by energy")]


# energy


def with_energy(*windows: tuple[float, ...]) -> Evidence:
    """A run of one cell that is decided by energy; the watts in the windows of each reading."""
    cell = raced({"a": 10, "b": 10, "c": 10}, incumbent="a")
    return run_of([decided(replace(cell, watts=tuple(reading(*own) for own in windows)))])


def test_a_decision_by_energy_is_made_again_from_its_readings(tmp_path: Path) -> None:
    run = with_energy((300.0, 301.0, 299.0), (200.0, 201.0, 199.0), (250.0, 250.0, 250.0))
    decision = run.cells[0].decision
    assert (decision.outcome, decision.winner) == (Outcome.PUBLISHED, 1)
    assert told(verified(tmp_path, published_files(run))) == []


def test_a_window_of_watts_that_was_changed(tmp_path: Path) -> None:
    """The mean is the same: the floor tells, which has the noise of the windows."""
    (steady,) = with_energy((300.0,) * 3, (250.0, 251.0, 249.0), (300.0,) * 3).cells
    (noisy,) = with_energy((300.0,) * 3, (200.0, 250.0, 300.0), (300.0,) * 3).cells
    assert (steady.decision.reason, noisy.decision.reason) == (Reason.GAIN, Reason.BELOW_BAR)
    ((rule, message),) = told(verified(tmp_path, published_files(run_of([replace(noisy, decision=steady.decision)]))))
    assert rule == "decision-not-reproduced"
    assert "outcome is stated as published, recomputed it is retained" in message


@pytest.mark.parametrize(
    "change", [{"bar_pct": None}, {"bar_pct": True}, {"false_promotions": {}}, {"false_promotions": 3}]
)
def test_a_calibration_without_its_numbers(tmp_path: Path, change: dict[str, Any]) -> None:
    found = verified(tmp_path, published_files(recalibrated(calibrated(0), **change)))
    assert rules(found) == ["bar-changed"]


# cells


def test_a_cell_with_another_config(tmp_path: Path) -> None:
    found = verified(tmp_path, published_files(the_run(), rows=["64 d c .", "128 . b ."]))
    (objection,) = found.objections
    assert objection.fault.rule == "cell-not-proven"
    assert "[fp16 0 64] 64,64 is BLOCK_M=128" in objection.fault.message
    assert "its evidence decides for BLOCK_M=64" in objection.fault.message
    assert (objection.fault.span.line, objection.fault.span.column) == (17, 4)
    assert objection.cells == ((("fp16", 0, 64), (64, 64)),)


def test_a_cell_more(tmp_path: Path) -> None:
    found = verified(tmp_path, published_files(the_run(), rows=["64 b c .", "128 . b .", "256 . d -"]))
    (objection,) = found.objections
    assert objection.fault.rule == "cell-not-proven"
    assert "2 cells without a decision in the evidence of this file; the first is [fp16 0 64] 256,128" in str(
        objection.fault
    )
    assert [at for _, at in objection.cells] == [(256, 128), (256, 256)]


def test_a_masked_cell(tmp_path: Path) -> None:
    ((rule, message),) = told(verified(tmp_path, published_files(the_run(), rows=["64 b - .", "128 . b ."])))
    assert (rule, "64,128 is masked" in message) == ("cell-not-proven", True)


def test_a_cell_less(tmp_path: Path) -> None:
    found = verified(tmp_path, published_files(the_run(), rows=["64 b . .", "128 . b ."]))
    (objection,) = found.objections
    assert objection.fault.rule == "cell-left-out"
    assert objection.fault.message == "run.json published 1 cell that no file which names it sets"
    assert [at for _, at in objection.cells] == [(64, 128)]


def test_a_failed_cell_proves_nothing(tmp_path: Path) -> None:
    ((rule, message),) = told(verified(tmp_path, published_files(the_run(), rows=["64 b c .", "128 . b d"])))
    assert (rule, message) == (
        "cell-not-proven",
        "1 cell without a decision in the evidence of this file; the first is [fp16 0 64] 128,256",
    )


def test_a_decision_for_another_functional_proves_nothing(tmp_path: Path) -> None:
    cells = tuple(replace(c, measured=replace(c.measured, functional=("bf16", 0, 64))) for c in the_run().cells)
    found = verified(tmp_path, published_files(replace(the_run(), cells=cells)))
    assert rules(found) == ["cell-left-out", "cell-not-proven"]


def test_a_whole_table_with_retained_cells_is_proven(tmp_path: Path) -> None:
    """The incumbents of retained cells stand in the table as well."""
    data = write_evidence(the_run(), schema())
    directives = ("origin measured run", f"evidence run.json {evidence_digest(data)}")
    rows = rows_of(the_run().cells)
    assert rows == ["64 b c a", "128 a b ."]
    files = {TABLE: table("gfxB", {F1: rows}, directives=directives), EVIDENCE: data.decode()}
    assert told(verified(tmp_path, files)) == []
    other = {**files, TABLE: table("gfxB", {F1: ["64 b c a", "128 b b ."]}, directives=directives)}
    assert rules(verified(tmp_path / "other", other)) == ["cell-not-proven"]


@pytest.mark.parametrize(
    ("origin", "rows", "expected"),
    [
        ("modelled mixed: measured run; modelled model-1", ["64 b c a", "128 a b d"], []),
        ("modelled mixed: measured run; modelled model-1", ["64 b b a", "128 a b d"], ["cell-not-proven"]),
        ("modelled model-1", ["64 b c a", "128 a b d"], ["cell-not-proven"]),
        ("measured mixed: measured run; measured two", ["64 b c a", "128 a b d"], ["cell-not-proven"]),
    ],
)
def test_where_measured_cells_are_folded_with_others_those_with_a_decision_are_judged(
    tmp_path: Path, origin: str, rows: list[str], expected: list[str]
) -> None:
    """As `txtdb patch squash` makes such files; 128 × 256 has no decision."""
    data = write_evidence(the_run(), schema())
    directives = (f"origin {origin}", f"evidence run.json {evidence_digest(data)}")
    files = {TABLE: table("gfxB", {F1: rows}, directives=directives), EVIDENCE: data.decode()}
    assert rules(verified(tmp_path, files)) == expected


def test_a_run_that_only_compared_proves_nothing(tmp_path: Path) -> None:
    """Its cells are retained, but nobody asked whether they should be."""
    run = the_run()
    cells = tuple(decided(replace(cell.measured, publish=False)) for cell in run.cells)
    files = published_files(replace(run, cells=cells), rows=["128 a . ."])
    assert rules(verified(tmp_path, files)) == ["cell-not-proven"]


def _two_runs() -> tuple[Evidence, Evidence, dict[str, str]]:
    """Two runs over one cell, the second of which won another config, and their evidence."""
    first = run_of([decided(raced({"a": 20, "b": 10}, incumbent="a"))], name="one")
    later = run_of(
        [
            decided(raced({"b": 10, "d": 8}, incumbent="b", seed=1)),
            decided(raced({"c": 10}, at=(128, 64), seed=1)),
        ],
        name="two",
    )
    files = {f"gfxB/evidence/{run.name}.json": write_evidence(run, schema()).decode() for run in (first, later)}
    return first, later, files


def _naming(files: Mapping[str, str]) -> tuple[str, ...]:
    lines = (f"evidence {Path(name).name} {evidence_digest(text.encode())}" for name, text in files.items())
    return ("origin measured one; two", "why a test", *lines)


def test_a_patch_of_several_runs_is_proven_by_any(tmp_path: Path) -> None:
    *_, evidence = _two_runs()
    squashed = {PATCH: patch("gfxB", {F1: ["64 d . .", "128 c . ."]}, directives=_naming(evidence))}
    assert told(verified(tmp_path, {**evidence, **squashed})) == []
    older = {PATCH: patch("gfxB", {F1: ["64 b . .", "128 c . ."]}, directives=_naming(evidence))}
    assert told(verified(tmp_path / "older", {**evidence, **older})) == []
    wrong = {PATCH: patch("gfxB", {F1: ["64 c . .", "128 c . ."]}, directives=_naming(evidence))}
    ((rule, message),) = told(verified(tmp_path / "wrong", {**evidence, **wrong}))
    assert (rule, "decides for BLOCK_M=64" in message, " or BLOCK_M=128" in message) == ("cell-not-proven", True, True)


def test_a_cell_that_a_later_run_took_back_is_not_left_out(tmp_path: Path) -> None:
    """Run one published b over a, run two a over b: together they change nothing, and nothing is set."""
    first = run_of([decided(raced({"a": 20, "b": 10}, incumbent="a"))], name="one")
    later = run_of(
        [decided(raced({"b": 20, "a": 10}, incumbent="b", seed=1)), decided(raced({"c": 10}, at=(128, 64)))], name="two"
    )
    evidence = {f"gfxB/evidence/{run.name}.json": write_evidence(run, schema()).decode() for run in (first, later)}
    squashed = {PATCH: patch("gfxB", {F1: ["128 c . ."]}, directives=_naming(evidence))}
    assert told(verified(tmp_path, {**evidence, **squashed})) == []


def test_two_files_that_share_a_run(tmp_path: Path) -> None:
    """What one of them does not set, the other does; the run is looked at once."""
    files = published_files(the_run(), rows=["64 b c ."])
    text = published_files(the_run(), rows=["128 . b ."], patch_name="0020-more")
    found = verified(tmp_path, {**files, **text})
    assert told(found) == []
    assert (found.counts.files, found.counts.evidence, found.counts.decisions) == (2, 1, 6)


def test_an_overlay_is_verified_too(tmp_path: Path) -> None:
    found = verified(tmp_path, {}, overlays=published_files(the_run(), rows=["64 d c .", "128 . b ."]))
    assert rules(found) == ["cell-not-proven"]
    assert "above/gfxB" in found.objections[0].fault.span.file


def test_only_the_chosen_archs_are_looked_at(tmp_path: Path) -> None:
    database = open_database(make_db(tmp_path, published_files(the_run(), rows=["64 d c .", "128 . b ."])))
    assert verify(database, ["gfxA"], Policy()).objections == ()
    assert len(verify(database, ["gfxB"], Policy()).objections) == 1


# evidence that cannot prove anything


def test_evidence_that_is_not_there(tmp_path: Path) -> None:
    files = {**published_files(the_run()), EVIDENCE: None}
    assert told(verified(tmp_path, files)) == [("missing-evidence", "there is no evidence file run.json")]


def test_evidence_outside_its_folder_is_not_read(tmp_path: Path) -> None:
    data = write_evidence(the_run(), schema())
    lines = ("origin measured run", "why a test", f"evidence ../other/run.json {evidence_digest(data)}")
    files = {PATCH: patch("gfxB", {F1: ["64 b . ."]}, directives=lines), "gfxB/other/run.json": data.decode()}
    assert "missing-evidence" in rules(verified(tmp_path, files))


def test_evidence_that_is_none(tmp_path: Path) -> None:
    files = {**published_files(the_run(), digest=evidence_digest(b"{")), EVIDENCE: "{"}
    assert rules(verified(tmp_path, files)) == ["bad-evidence"]


def test_a_run_that_did_not_end(tmp_path: Path) -> None:
    ((rule, message),) = told(verified(tmp_path, published_files(replace(the_run(), planned=7))))
    assert (rule, message) == ("partial-evidence", "the run is not complete: partial 6/7")


def test_evidence_of_another_arch(tmp_path: Path) -> None:
    found = told(verified(tmp_path, published_files(replace(the_run(), arch="gfxA"))))
    assert found == [("unlike-evidence", "run.json is evidence of gfxA, not of gfxB")]


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("gfxA", [("unlike-evidence", "run.json was measured on gfxA, not on gfxB")]),
        ("sm_90", [("unlike-evidence", "run.json was measured on sm_90, not on gfxB")]),
        (5, [("unlike-evidence", "run.json was measured on 5, not on gfxB")]),
        ({"a": 1}, [("unlike-evidence", "run.json was measured on a table, not on gfxB")]),
        ("gfxB\n\x1b[31m", [("unlike-evidence", r"run.json was measured on 'gfxB\n\x1b[31m', not on gfxB")]),
        ("gfxB:sramecc+:xnack-", []),
    ],
)
def test_evidence_of_a_device_of_another_arch(tmp_path: Path, stated: object, found: list[tuple[str, str]]) -> None:
    run = the_run()
    assert told(verified(tmp_path, published_files(replace(run, device={**run.device, "arch": stated})))) == found


def test_evidence_of_another_interface(tmp_path: Path) -> None:
    found = told(verified(tmp_path, published_files(replace(the_run(), iface="attn_bwd"))))
    assert found == [("unlike-evidence", "iface: this is evidence of attn_bwd, not of attn_fwd")]


def test_measured_cells_without_evidence(tmp_path: Path) -> None:
    files = {TABLE: TABLE_B.replace("origin hand test", "origin measured somewhere")}
    found = verified(tmp_path, files)
    (objection,) = found.objections
    assert (objection.fault.rule, objection.fault.span.line) == ("no-evidence", 4)


def test_a_file_with_faults_is_not_passed(tmp_path: Path) -> None:
    files = published_files(the_run())
    broken = {**files, PATCH: (files[PATCH] or "").replace("64 b c .", "64 b z .")}
    assert rules(verified(tmp_path, broken)) == ["unknown-symbol"]
    lost = {**files, PATCH: "#! dbpatch 1\n"}
    assert "truncated" in rules(verified(tmp_path / "lost", lost))


def test_times_out_of_all_range(tmp_path: Path) -> None:
    """They are no times: their candidate has none."""
    cell = the_run().cells[0]
    changed = cell
    for number, block in enumerate(cell.measured.blocks):
        changed = with_sample(changed, number, block.order.index(1), [5e-324] * 3)
    assert rules(verified(tmp_path, published_files(with_cell(0, changed)))) == ["decision-not-reproduced"]


# size


BINS = tuple(range(64, 64 + 32))


def test_a_thousand_decisions_in_five_seconds(tmp_path: Path) -> None:
    palette = wide_palette(24)
    speeds = {name: 10.0 + (place * 7 % 24) for place, name in enumerate(palette)}
    places = list(product(BINS, BINS))[:1000]
    cells = [decided(raced(speeds, at=at, incumbent="aah", palette=palette)) for at in places]
    rows = [f"{q} aaa*32" for q in BINS[:31]] + [f"{BINS[31]} aaa*8 .*24"]
    bins = " ".join(map(str, BINS))
    axes = {"seqlen_q": bins, "seqlen_k": bins}
    files = published_files(run_of(cells), rows=rows, axes=axes, palette=palette)
    wide = SCHEMA.replace("values = [32, 64, 128]", "values = [16, 32, 64, 128]").replace("max = 4\n", "max = 16\n")
    database = open_database(make_db(tmp_path, {**files, "schema/attn_fwd.toml": wide}))
    start = time.process_time()
    found = verify(database, database.archs, Policy())
    took = time.process_time() - start
    assert (told(found), found.counts.decisions, found.counts.cells) == ([], 1000, 1000)
    assert took < 5, f"{took:.1f} s"


def test_a_hundred_decisions_of_two_hundred_candidates(tmp_path: Path) -> None:
    """1,000 take less than 5 s, start included (tools/bench/verifying.py); this machine's speed is that of its JSON."""
    make_database(tmp_path, 100, 200)
    data = (tmp_path / "gfxS" / "evidence" / "run.json").read_bytes()
    database = open_database(tmp_path)
    ratios = []
    for _ in range(5):  # pairs, since what else the machine does changes
        parsing = _seconds(lambda: json.loads(data))
        ratios.append(_seconds(lambda: verify(database, database.archs, Policy())) / parsing)
    found = verify(database, database.archs, Policy())
    assert (told(found), found.counts.decisions, found.counts.cells) == ([], 100, 100)
    assert min(ratios) < 5, ratios


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def test_decisions_that_nobody_could_have_made(tmp_path: Path) -> None:
    """A config that no candidate has cannot be stated at all; one that was not measured is not the winner."""
    empty = Decision(Outcome.PUBLISHED, Reason.GAIN, None, None, False, None, None, None, None, 0.0, ())
    run = with_cell(1, replace(the_run().cells[1], decision=empty))
    found = verified(tmp_path, published_files(run, rows=["64 b c .", "128 . b ."]))
    assert rules(found) == ["cell-not-proven", "decision-not-reproduced"]
    assert config("c") in {entrant.config for entrant in run.cells[1].measured.entrants}
