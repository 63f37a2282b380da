"""The tunable of docs/tunables.md is right on the CPU, as the page says; the rest of the page is run as others are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.needs import NEEDS_TRITON
from tools.docs.examples import REPO, Fence, fences

pytestmark = NEEDS_TRITON
pytest.importorskip("torch", reason="torch is not installed")


TEXT = (REPO / "docs" / "tunables.md").read_text(encoding="utf-8")
VERDICT = re.compile(r"^    ((?:fp|bf)16 .*)$", re.MULTILINE)


@pytest.fixture
def page(tmp_path):
    """The folder with the page's modules."""
    for fence in fences(TEXT):
        if isinstance(fence, Fence) and (fence.file or "").endswith(".py"):
            (tmp_path / str(fence.file)).write_text("\n".join([*fence.lines, ""]), encoding="utf-8")
    return tmp_path


def run(page, command):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": path, "TRITON_INTERPRET": "1", "PYTHONPATH": f"{REPO}{os.pathsep}{page}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=page, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_is_right_on_the_cpu(page):
    printed = VERDICT.findall(TEXT)[:4]
    assert all(line.endswith(" right") for line in printed)
    assert run(page, "python try_on_cpu.py") == printed


def test_a_kernel_that_leaves_results_out_is_wrong(page):
    commands = re.findall(r"^    \$ (cp softmax_kernel.*|.*try_on_cpu.*mv.*)$", TEXT, re.MULTILINE)
    assert len(commands) == 2
    assert run(page, " && ".join(commands)) == VERDICT.findall(TEXT)[4:]


def test_a_nan_behind_a_small_error_is_wrong(page):
    errors = "import try_on_cpu as t; t.device.check = lambda *_: 0.004; t.device.confirm = lambda *_: float('nan'); "
    assert run(page, f'python -c "{errors}print(t.verdict(t.task, t.config))"')[-1] == "wrong: (0.004, nan) tolerances"


def test_a_candidate_that_fails_is_told(page):
    (page / "softmax_kernel.py").write_text("raise RuntimeError('no such kernel')\n", encoding="utf-8")
    assert run(page, "python try_on_cpu.py")[0] == "fp16 256 failed: crash: RuntimeError: no such kernel"
