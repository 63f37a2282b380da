"""A run that is killed again and again ends as one that is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tune.bench import CELLS, Bench, make_bench

KILLS = 50

# Winners, ties, and a candidate of each kind of fault that no time limit is needed for.
TIMES = {cell: {(32, 4): 900.0 - 7 * place, (64, 2): 905.0 - 7 * place} for place, cell in enumerate(CELLS[:9:2])}
FAULTS = {
    (CELLS[0], (16, 4)): [{"stage": "compile", "kind": "raise"}],
    (CELLS[1], (16, 4)): [{"stage": "check", "kind": "abort"}],
    (CELLS[2], (64, 4)): [{"stage": "time", "kind": "kill", "first": 2}],
    (CELLS[3], (64, 4)): [{"stage": "check", "kind": "value", "value": 3.0}],
}
NOISE = {"call_pct": 2.0, "outlier_share": 0.02, "drift_pct": 5.0}


def bench(folder: Path) -> Bench:
    made = make_bench(folder, TIMES, faults=FAULTS, noise=NOISE)
    made.settings = (*made.settings, "run.retries=1")
    return made


def killing(made: Bench, kills: int, length: int, seed: int = 1) -> dict[str, object]:
    arguments = made.arguments("--keys", "head_dim=64")
    numbers = [str(number) for number in (seed, kills, length)]
    command = [sys.executable, "-m", "tests.tune.killing", *numbers, str(made.root.parent), "--", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")
def test_row_077_killed_50_times_at_random_points_the_patch_is_the_same_byte_for_byte(tmp_path):
    undisturbed, disturbed = bench(tmp_path / "a"), bench(tmp_path / "b")
    assert undisturbed.tune("--keys", "head_dim=64").code == 0
    found = killing(disturbed, KILLS, undisturbed.journal().read_bytes().count(b"\n"))
    assert (found["kills"], found["code"]) == (KILLS, 0)
    assert list(undisturbed.patches()) == ["attn_fwd.0010-tuned.dbpatch", "tuned.json"]
    assert disturbed.patches() == undisturbed.patches()
    assert no_worker_left(disturbed)


def no_worker_left(made: Bench) -> bool:
    """Whether the workers of killed tuners have ended by themselves."""
    for _ in range(100):
        listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if str(made.device) not in listing:
            return True
        time.sleep(0.1)
    return False
