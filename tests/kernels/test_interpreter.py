"""The attention kernels in Triton's interpreter, against attention in float64: every feature, small and odd sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.cases import GROUPS
from tests.kernels.needs import NEEDS_TRITON

ROOT = Path(__file__).parents[2]
# How often PyTorch's own error in the same type; the interpreter cuts bf16 off where devices round it. And what sums in
# another order are off by where PyTorch's result is exact.
TIMES, ORDER = 3.0, 1e-6
LSE = 1e-5

pytestmark = NEEDS_TRITON


def interpret(group: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.interpreted", group]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wrong(result: dict[str, Any]) -> list[str]:
    """What is wrong with the result of a case. NaN is no error that is small enough."""
    pairs = {name: (mine, result["pytorch"][name]) for name, mine in result["errors"].items()}
    found = [
        f"{name} is off by {mine:.1e}, PyTorch's by {theirs:.1e}"
        for name, (mine, theirs) in pairs.items()
        if not mine <= TIMES * theirs + ORDER
    ]
    if not result["lse"] <= LSE:
        found.append(f"the log-sum-exp is off by {result['lse']:.1e}")
    return found + [f"not {what}" for what in ("inputs kept", "guards kept") if not result[what]]


@pytest.mark.parametrize("group", GROUPS)
def test_group(group: str) -> None:
    results = interpret(group)
    assert [result["case"] for result in results] == list(GROUPS[group])
    assert {result["case"]: found for result in results if (found := wrong(result))} == {}
