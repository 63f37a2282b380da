"""A build that is ended from outside. The compiler is a stand-in that never answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from codegen import aot_command
from tests.aot.tiny import make_root
from txtdb.cli import main

STAND_IN = """\
import os, pathlib, time
pathlib.Path(os.environ["STAND_IN_STARTED"]).write_text(str(os.getpid()))
time.sleep(120)
"""
COMMAND = (sys.executable, "-c", "from txtdb.cli import main; main()", "aot", "build")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_build_that_is_ended_says_how_to_go_on_and_leaves_nothing_running(tmp_path: Path, number: int) -> None:
    root, started = make_root(tmp_path, "gfx942"), tmp_path / "started"
    (tmp_path / "fake" / "triton").mkdir(parents=True)
    (tmp_path / "fake" / "triton" / "__init__.py").write_text(STAND_IN)
    out, folder = tmp_path / "one.pack", tmp_path / "build"
    process = subprocess.Popen(
        [*COMMAND, str(root), "--out", str(out), "--build", str(folder), "--jobs", "1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "fake"), "STAND_IN_STARTED": str(started)},
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 60
    while not started.exists() or not started.read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, "stopped: the same command goes on from here\n")
    assert not out.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_is_ended_while_the_pack_is_written_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    root, out = make_root(tmp_path, "gfx942"), tmp_path / "packs" / "one.pack"
    out.parent.mkdir()

    def written(path: Path, *_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)
        path.touch()

    monkeypatch.setattr(aot_command, "_build", lambda *_: SimpleNamespace(faults=(), tables=(), compilation=None))
    monkeypatch.setattr(aot_command, "pack_manifest", lambda *_: None)
    monkeypatch.setattr(aot_command, "write_pack", written)
    done = CliRunner().invoke(main, ["aot", "build", str(root), "--out", str(out), "--build", str(tmp_path / "build")])
    assert (done.exit_code, done.stderr) == (1, "stopped: the same command goes on from here\n")
    assert not out.exists()
