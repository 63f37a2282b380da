"""The tunable of docs/tunables.md is right on the CPU, as the page says; the rest of the page is run as others are."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.kernels.needs import NEEDS_TRITON
from tools.docs.examples import REPO, Fence, fences

pytestmark = NEEDS_TRITON
pytest.importorskip("torch", reason="torch is not installed")


def test_the_example_is_right_on_the_cpu(tmp_path):
    text = (REPO / "docs" / "tunables.md").read_text(encoding="utf-8")
    for fence in fences(text):
        if isinstance(fence, Fence) and (fence.file or "").endswith(".py"):
            (tmp_path / str(fence.file)).write_text("\n".join([*fence.lines, ""]), encoding="utf-8")
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": f"{REPO}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "try_on_cpu.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    printed = re.findall(r"^    ((?:fp|bf)16 .*)$", text, re.MULTILINE)
    assert len(printed) == 4
    assert done.stdout.splitlines() == printed, done.stderr
