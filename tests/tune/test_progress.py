"""What a person sees while a run goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tune.bench import make_bench
from txtdb.layers.database import load
from txtdb.model.evidence import CellEvidence, Decision, Entrant, Evidence, Measured, Outcome, Reason, Standing, Status
from txtdb.tune.fields import Cell, CellPlan
from txtdb.tune.progress import Progress, TrialProgress, summary_lines, summary_of
from txtdb.wording import duration

CONFIGS = ((16, 2), (64, 2))


@pytest.fixture
def schema(tmp_path):
    return load(make_bench(tmp_path).root).schemas["attn_fwd"]


BROKEN = Entrant(CONFIGS[0], Status.WRONG_RESULT, "the error is 5 times the tolerance", error=5.0)
UNBUILT = Entrant(CONFIGS[1], Status.COMPILE_ERROR)


def cell_of(outcome: Outcome, reason: Reason, winner: int | None, publish: bool = True, **more: object) -> CellEvidence:
    entrants = tuple(Entrant(config, Status.OK, error=0.1) for config in CONFIGS)
    measured = Measured((64,), (64, 64), "race", entrants, 0, "file:1:1", (), ((), ()), (), publish=publish)
    given = {"gain_pct": None, "bar_pct": None, "floor_pct": None, "margin_pct": None, **more}
    standings = (Standing(1, 5, 0.1, 0.001, None),)
    decision = Decision(outcome, reason, winner, 0, True, total_ns=1e6, standings=standings, **given)  # type: ignore[arg-type]
    return CellEvidence(measured, decision)


def broken(cell: CellEvidence, status: Status, detail: str) -> CellEvidence:
    """The cell with a last entrant that was at fault."""
    first, last = cell.measured.entrants
    entrants = (first, replace(last, status=status, detail=detail))
    return CellEvidence(replace(cell.measured, entrants=entrants), cell.decision)


def compared(winner: int, *entrants: Entrant) -> CellEvidence:
    """A comparison of an old config with a new one, of which just the winner is valid."""
    cell = cell_of(Outcome.RETAINED, Reason.COMPARED_ONLY, winner, publish=False)
    return CellEvidence(replace(cell.measured, entrants=entrants), replace(cell.decision, standings=()))


def plan() -> CellPlan:
    return CellPlan(Cell((64,), (64, 64)), CONFIGS, CONFIGS[0], "file:1:1", ())


LINES = {
    "published": (
        cell_of(Outcome.PUBLISHED, Reason.GAIN, 1, gain_pct=5.25, floor_pct=0.4),
        "BLOCK_M 16→64, gain 5.2 % ± 0.4",
    ),
    "no baseline": (cell_of(Outcome.PUBLISHED, Reason.NO_BASELINE, 1), "BLOCK_M 16→64, where there was none"),
    "kept": (
        cell_of(Outcome.RETAINED, Reason.INCUMBENT_WINS, 0, gain_pct=0.0, floor_pct=0.1),
        "kept, it is the fastest",
    ),
    "below the bar": (
        cell_of(Outcome.RETAINED, Reason.BELOW_BAR, 1, gain_pct=2.0, floor_pct=0.4),
        "kept, the gain is below the bar, gain 2.0 % ± 0.4",
    ),
    "not proven": (cell_of(Outcome.RETAINED, Reason.NO_CERTIFICATE, None), "kept, nothing is proven faster"),
    "failed": (cell_of(Outcome.FAILED, Reason.NO_VALID_CANDIDATE, None), "no valid candidate (2 ok)"),
    "failed by several ways": (
        broken(cell_of(Outcome.FAILED, Reason.NO_VALID_CANDIDATE, None), Status.COMPILE_ERROR, "no\nsuch  tile"),
        "no valid candidate (1 ok, 1 compile_error: no such tile)",
    ),
    "failed with many words": (
        broken(cell_of(Outcome.FAILED, Reason.NO_VALID_CANDIDATE, None), Status.CRASH, "a" * 1000),
        f"no valid candidate (1 ok, 1 crash: {'a' * 159}…)",
    ),
    "throttled": (cell_of(Outcome.UNMEASURED, Reason.STOPPED, None), "not measured: the device stays throttled"),
    "compared and slower": (
        cell_of(Outcome.RETAINED, Reason.COMPARED_ONLY, 0, publish=False),
        "BLOCK_M 16→64, 10.5 % slower",
    ),
    "compared and faster": (
        cell_of(Outcome.RETAINED, Reason.COMPARED_ONLY, 1, publish=False, gain_pct=4.0, floor_pct=0.4),
        "BLOCK_M 16→64, 4.0 % faster",
    ),
    "compared with a broken old one": (
        compared(1, BROKEN, Entrant(CONFIGS[1], Status.OK, error=0.1)),
        "BLOCK_M 16→64, the old one failed: wrong_result (the error is 5 times the tolerance)",
    ),
    "compared and broken": (
        compared(0, Entrant(CONFIGS[0], Status.OK, error=0.1), UNBUILT),
        "BLOCK_M 16→64, not valid: compile_error",
    ),
    "compared with an old one without watts": (
        compared(1, *(Entrant(config, Status.OK, error=0.1) for config in CONFIGS)),
        "BLOCK_M 16→64, the old one failed: its readings cannot be used",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_each_outcome_has_its_line(schema, name):
    cell, expected = LINES[name]
    lines: list[str] = []
    Progress(schema, [plan()], lines.append, lines.append, lambda: 0.0, 60.0).cell(plan(), cell)
    assert lines == [f"[1/1] head_dim=64 seqlen_q=64 seqlen_k=64: {expected}"]


def test_row_065_the_time_that_is_left_is_told_now_and_then(schema):
    now = [0.0]
    told: list[str] = []
    progress = Progress(schema, [plan()] * 4, lambda line: None, told.append, lambda: now[0], 100.0)
    for moment in (1.0, 11.0, 12.0):
        now[0] = moment
        progress.tick()
    progress.cell(plan(), LINES["kept"][0])
    now[0] = 30.0
    progress.tick()
    assert told == [
        "0/4 cells, 2 measurements, about 89 s left by the estimate",
        "1/4 cells, 4 measurements, about 2 min left",
    ]


def test_cells_that_the_journal_had_do_not_make_the_rest_look_short(schema):
    now = [0.0]
    told: list[str] = []
    progress = Progress(schema, [plan()] * 3, lambda line: None, told.append, lambda: now[0], 60.0)
    progress.cell(plan(), LINES["kept"][0])
    now[0] = 20.0
    progress.tick()
    assert told == ["1/3 cells, 1 measurements, about 20 s left by the estimate"]


def test_a_run_that_takes_longer_than_the_estimate_says_so(schema):
    now = [0.0]
    told: list[str] = []
    progress = Progress(schema, [plan()], lambda line: None, told.append, lambda: now[0], 15.0)
    for moment in (10.0, 20.0):
        now[0] = moment
        progress.tick()
    assert told == [
        "0/1 cells, 1 measurements, about 5 s left by the estimate",
        "0/1 cells, 2 measurements, longer than the estimate of 15 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89.0, "89 s"), (90.0, "2 min"), (7140.0, "119 min"), (7500.0, "2 h 5 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def evidence_of(*cells: CellEvidence, planned: int) -> Evidence:
    return Evidence("attn_fwd", "gfxA", "x", 0, planned, {}, {}, {}, {}, None, cells)


def test_row_064_a_summary_counts_what_is_missing(schema):
    summary = summary_of(evidence_of(LINES["published"][0], LINES["failed"][0], planned=3))
    assert not summary.is_clean
    assert list(summary_lines(schema, summary)) == [
        "partial 2/3: 1 published, 0 kept",
        "no valid candidate: 1 cell",
        "not measured: 1 cell",
        "  head_dim=64: 1 published, 1 failed",
        "device time: 0.002 s in samples",
    ]


def test_a_comparison_that_is_slower_is_not_clean():
    assert not summary_of(evidence_of(LINES["compared and slower"][0], planned=1)).is_clean
    assert summary_of(evidence_of(LINES["compared and faster"][0], planned=1)).is_clean


def test_a_comparison_is_worse_where_the_new_config_is_broken_and_not_where_the_old_one_is():
    assert summary_of(evidence_of(LINES["compared with a broken old one"][0], planned=1)).is_clean
    broken = summary_of(evidence_of(LINES["compared and broken"][0], planned=1))
    assert (broken.worse, broken.is_clean) == (1, False)


def test_the_progress_of_trials_is_told_at_times():
    now, told = [0.0], []
    progress = TrialProgress(told.append, lambda: now[0])
    for done, seconds in ((1, 2.0), (5, 10.0), (6, 12.0), (10, 20.0)):
        now[0] = seconds
        progress.tick(done, 40)
    assert told == [
        "calibration: 5/40 trials, about 70 s left",
        "calibration: 10/40 trials, about 60 s left",
    ]
