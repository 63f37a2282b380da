"""What `txtdb tune --dry-run` says of the device and of the journal that the run would go on with."""

from __future__ import annotations

import json

import pytest

from tests.tune.bench import CELLS, describe, listed, make_bench

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}}
NOTHING_NEW = {(16, 2): 500.0}


def told(made, *options):
    """Exit code and the numbers of a dry run."""
    done = made.tune(*options, "--dry-run", "--format", "json")
    return done.code, json.loads(done.out)


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_cells_that_a_journal_has_are_told_and_not_in_the_estimate(tmp_path, strategy):
    made = make_bench(tmp_path, dict.fromkeys(CELLS, NOTHING_NEW))
    options = ("--strategy", strategy)
    one, both = listed(tmp_path, CELL), None
    whole = told(made, "--cells", one, *options)[1]
    assert whole["journal"] is None
    assert made.tune("--cells", one, *options).code == 0
    (tmp_path / "both").mkdir()
    both = listed(tmp_path / "both", CELL, OTHER)
    code, found = told(made, "--cells", both, *options)
    assert (code, found["cells"], found["candidates"]) == (0, 2, 12)
    assert found["journal"] == {"file": made.journal().as_posix(), "cells": 1, "candidates": 6}
    assert found["estimate_s"] == whole["estimate_s"] > 0
    line = f"{made.journal().as_posix()} has 1 cell and 6 candidates of these already: the time is for the rest"
    assert line in made.tune("--cells", both, *options, "--dry-run").out
    assert told(made, "--cells", one, *options)[1]["estimate_s"] == 0


def test_candidates_that_were_checked_are_not_in_the_estimate(tmp_path):
    made = make_bench(tmp_path, dict.fromkeys(CELLS, NOTHING_NEW))
    cells, few = listed(tmp_path, CELL), tmp_path / "few.txt"
    few.write_text("BLOCK_M=32 num_warps=2\n", encoding="utf-8")
    before = told(made, "--cells", cells)[1]
    assert made.tune("--cells", cells, "--candidates", str(few)).code == 0
    after = told(made, "--cells", cells)[1]
    assert after["journal"]["cells"] == 0
    assert after["journal"]["candidates"] == 2  # the one that is named, and the incumbent
    assert 0 < after["estimate_s"] < before["estimate_s"]


def test_a_dry_run_reads_a_journal_and_leaves_it_as_it_is(tmp_path):
    made = make_bench(tmp_path, dict.fromkeys(CELLS, NOTHING_NEW))
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    data = made.journal().read_bytes()
    made.journal().write_bytes(data[:-5])
    done = made.tune("--cells", cells, "--dry-run")
    assert (done.code, "the last line is incomplete" in done.err) == (0, True)
    assert made.journal().read_bytes() == data[:-5]


def test_a_damaged_journal_is_told_and_refused_as_the_run_does(tmp_path):
    made = make_bench(tmp_path, dict.fromkeys(CELLS, NOTHING_NEW))
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    lines = made.journal().read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:5], b"0" + lines[5][1:-9] + b"\n", *lines[6:]])
    made.journal().write_bytes(damaged)
    done = made.tune("--cells", cells, "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert ":6:1: error: the line is damaged [journal]" in done.err
    done = made.tune("--cells", cells, "--dry-run", "--repair")
    assert (done.code, "the journal is cut here" in done.err) == (0, True)
    assert made.journal().read_bytes() == damaged


def test_a_journal_of_another_run_is_told(tmp_path):
    made = make_bench(tmp_path, dict.fromkeys(CELLS, NOTHING_NEW))
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    options = ("--cells", cells, "--journal", str(made.journal()), "--strategy", "exhaustive")
    for more in ((), ("--dry-run",)):
        done = made.tune(*options, *more)
        assert (done.code, "this journal is of another run" in done.err) == (2, True)


def test_cells_that_the_simulated_device_lacks_are_refused_before_anything_is_measured(tmp_path):
    made = make_bench(tmp_path, cells=CELLS[:2])
    for more in ((), ("--dry-run",)):
        done = made.tune("--all", *more)
        assert (done.code, made.journals.exists()) == (2, False)
        text = 'the simulated device has no cell {"head_dim": 64} {"seqlen_k": 256, "seqlen_q": 64}'
        assert f"{text}, and nothing of 15 more of the 18 cells [device]" in done.err
    assert made.tune("--cells", listed(tmp_path, *CELLS[:2]), "--dry-run").code == 0


def test_a_description_of_other_configs_is_refused_and_one_of_some_is_taken(tmp_path):
    made = make_bench(tmp_path)
    description = describe({})
    for cell in description["cells"]:
        for candidate in cell["candidates"]:
            candidate["config"]["block_m"] = candidate["config"].pop("BLOCK_M")
    made.device.write_text(json.dumps(description), encoding="utf-8")
    done = made.tune("--cells", listed(tmp_path, CELL), "--dry-run")
    assert done.code == 2
    assert "the simulated device has none of the candidates in cell" in done.err
    description = describe({})
    for cell in description["cells"]:
        del cell["candidates"][1:]
    made.device.write_text(json.dumps(description), encoding="utf-8")
    assert made.tune("--cells", listed(tmp_path, CELL), "--dry-run").code == 0
