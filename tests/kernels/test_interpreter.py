"""The attention kernels in Triton's interpreter, against attention in float64: every feature, small and odd sizes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("interpreted.py")
ROOT = PROGRAM.parents[2]
# How often the error that the type makes by itself, and how much of the largest value for sums in another order.
TIMES, ROUNDING = 3.0, 4e-6

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
    reason="torch and triton are not installed: the kernels cannot be interpreted",
)


def case_names() -> list[str]:
    """Read off the program's text: importing it would choose the interpreter for this process."""
    text = PROGRAM.read_text(encoding="utf-8")
    table = text[text.index("CASES: dict") : text.index("\n}\n")]
    return [line.split('"')[1] for line in table.splitlines() if line.startswith('    "')]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.interpreted"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {result["case"]: result for result in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", case_names())
def test_case(results: dict[str, dict[str, Any]], case: str) -> None:
    result = results[case]
    for name, error in result["errors"].items():
        assert error <= TIMES * result["floors"][name] + ROUNDING * max(1.0, result["scales"][name]), name
    assert result["lse"] <= ROUNDING
    assert not result["nan"]
    assert result["inputs kept"]
    assert result["guards kept"]


def test_every_case_ran(results: dict[str, dict[str, Any]]) -> None:
    assert sorted(results) == sorted(case_names())
    assert len(results) >= 30
