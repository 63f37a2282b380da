"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from txtdb import files
from txtdb.files import atomic_write, write_if_changed


class Holder:
    """Another process that holds the target: `os.replace` fails that many times, then works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.calls, self._times, self._real = 0, times, os.replace
        monkeypatch.setattr(os, "replace", self)
        monkeypatch.setattr(files.time, "sleep", lambda _: None)

    def __call__(self, source: str, target: str) -> None:
        self.calls += 1
        if self.calls <= self._times:
            raise PermissionError(errno.EACCES, "held")
        self._real(source, target)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_its_folders_are_made(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a" / "b" / "c.txt", b"new")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"new"
    assert names(tmp_path / "a" / "b") == ["c.txt"]


def test_an_old_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o640)
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_row_122_a_file_that_is_held_for_a_moment_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    holder = Holder(monkeypatch, times=2)
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert holder.calls == 3
    assert names(tmp_path) == ["x"]


def test_row_122_a_file_that_is_held_for_good_stays_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    Holder(monkeypatch, times=1000)
    with pytest.raises(PermissionError, match="another process holds the file") as caught:
        atomic_write(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_other_errors_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def full(source: str, target: str) -> None:
        calls.append(source)
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        atomic_write(tmp_path / "x", b"new")
    assert len(calls) == 1
    assert names(tmp_path) == []


def test_an_interrupted_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "x", b"new")
    assert names(tmp_path) == []


def test_a_file_with_that_content_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert write_if_changed(path, b"same")
    os.utime(path, ns=(1, 1))
    assert not write_if_changed(path, b"same")
    assert path.stat().st_mtime_ns == 1
    assert write_if_changed(path, b"other")
    assert path.read_bytes() == b"other"
