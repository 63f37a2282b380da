"""The build folder: what is there is used, what is damaged is not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codegen.aot import folder as folder_module
from codegen.aot.folder import BuildFolder
from codegen.aot.pool import _Crew
from codegen.aot.result import Result
from tests.aot.tiny import failed, fake, make_root, plans_of

KEY = "ab" * 32


@pytest.fixture
def built(tmp_path: Path) -> tuple[BuildFolder, Result]:
    _, (plan,) = plans_of(make_root(tmp_path, "gfx942"), "gfx942")
    result, data = fake(plan.wanted[0])
    folder = BuildFolder(tmp_path / "build")
    folder.keep(KEY, result, data)
    return folder, result


def only(folder: BuildFolder, pattern: str) -> Path:
    (path,) = folder.path.rglob(pattern)
    return path


def test_what_is_kept_comes_back(built: tuple[BuildFolder, Result]) -> None:
    folder, result = built
    assert folder.result(KEY) == result
    assert folder.result("cd" * 32) is None
    folder.keep(KEY, failed("timeout"), b"")
    assert folder.result(KEY) == failed("timeout")


def test_a_damaged_image_counts_as_absent(built: tuple[BuildFolder, Result]) -> None:
    folder, result = built
    assert result.binary
    path = only(folder, result.binary.digest)
    path.write_bytes(b"")
    assert folder.result(KEY) is None
    path.unlink()
    assert folder.result(KEY) is None


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_result_that_was_cut_short_counts_as_absent(built: tuple[BuildFolder, Result], cut: int) -> None:
    folder, _ = built
    path = only(folder, f"{KEY}.json")
    path.write_bytes(path.read_bytes()[:cut])
    assert folder.result(KEY) is None


@pytest.mark.parametrize(("old", "new"), [('"ok"', '"lost"'), ('"ok"', '"timeout"'), ('"warps": 4', '"warps": -4')])
def test_a_result_that_is_none_counts_as_absent(built: tuple[BuildFolder, Result], old: str, new: str) -> None:
    folder, _ = built
    path = only(folder, f"{KEY}.json")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert folder.result(KEY) is None


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "\xff", '{"status": "ok"}'])
def test_other_content_counts_as_absent(built: tuple[BuildFolder, Result], text: str) -> None:
    folder, _ = built
    only(folder, f"{KEY}.json").write_text(text, encoding="latin-1")
    assert folder.result(KEY) is None


def test_files_on_their_way_are_gone_afterwards(built: tuple[BuildFolder, Result]) -> None:
    folder, _ = built
    with folder.scratch() as scratch:
        (scratch / "x").write_bytes(b"x")
    assert [path for path in folder.path.iterdir() if path.name.startswith(".")] == []


HOLDING = """
import sys, time
from pathlib import Path
from codegen.aot import BuildFolder
with BuildFolder(Path(sys.argv[1])).scratch() as scratch:
    (scratch / "x").write_bytes(b"x")
    print(scratch.name, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_run_left_goes_and_what_another_one_holds_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    killed, living = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2))
    try:
        assert killed.stdout and living.stdout
        left, held = killed.stdout.readline().strip(), living.stdout.readline().strip()
        killed.kill()
        killed.wait()
        assert (tmp_path / left / "x").exists()
        with BuildFolder(tmp_path).scratch() as scratch:
            assert sorted(path.name for path in tmp_path.iterdir()) == sorted([held, scratch.name])
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


def test_where_nothing_can_be_locked_nothing_of_others_is_removed(tmp_path: Path, monkeypatch: Any) -> None:
    """As on some network file systems; images are built there all the same."""
    other = tmp_path / ".new-other"
    other.mkdir()
    (other / "lock").touch()

    def refused(stream: object) -> bool:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(folder_module, "lock", refused)
    with BuildFolder(tmp_path).scratch() as scratch:
        assert scratch.is_dir() and other.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [".new-other"]


def test_a_worker_that_starts_when_all_are_ended_is_ended(tmp_path: Path) -> None:
    crew = _Crew(tmp_path, 2, 10.0, "")
    crew.end()
    worker = crew._at(1)
    assert worker._process.wait(20) == -signal.SIGKILL
    worker.end()


def environment(pid: int) -> list[bytes]:
    """What a process was started with. Nothing is told until its program is loaded."""
    end = time.monotonic() + 30
    while not (text := Path("/proc", str(pid), "environ").read_bytes()) and time.monotonic() < end:
        time.sleep(0.01)
    return text.split(b"\0")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process was started with")
def test_what_a_killed_worker_leaves_lies_in_the_folder_of_the_run(tmp_path: Path) -> None:
    crew = _Crew(tmp_path, 1, 10.0, "")
    worker = crew._at(0)
    given = environment(worker._process.pid)
    crew.end()
    assert f"TMPDIR={tmp_path / 'worker-0' / 'tmp'}".encode() in given


def test_what_was_killed_before_it_had_a_lock_goes_when_it_is_old(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (".new-old", ".new-young", "old"))
    for path in (old, young, other):
        path.mkdir()
    (old / "x").touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    with BuildFolder(tmp_path).scratch():
        assert (old.exists(), young.exists(), other.exists()) == (False, True, True)
