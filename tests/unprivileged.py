"""Code run without the rights of the superuser, for what file permissions must hold."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


def unprivileged(work: Callable[[], object]) -> object:
    """What `work` returns (plain data). As root it runs in a child process as nobody; what it raises fails the test.

    A fork and no new program, because the interpreter may lie where nobody cannot read it: what the work imports must
    have been imported before.
    """
    if os.name != "posix":
        pytest.skip("file permissions are of another kind here")
    if os.geteuid() != 0:
        return json.loads(json.dumps(work()))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work_as_nobody(work, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    result = json.loads(text)
    assert "error" not in result, result["error"]
    return result["value"]


def _work_as_nobody(work: Callable[[], object], writer: int) -> None:
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        text = json.dumps({"value": work()})
    except BaseException:
        text = json.dumps({"error": traceback.format_exc()})
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        stream.write(text)
    os._exit(0)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A temporary folder that everybody may enter and read; permissions below it are loosened before it goes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            loosen(folder)


def freeze(root: Path) -> dict[str, tuple[int, int]]:
    """Make a tree read-only, folders 0555 and files 0444; its state."""
    for path in (*root.rglob("*"), root):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return state(root)


def loosen(root: Path) -> None:
    """Make the folders of a tree writable again."""
    root.chmod(0o755)
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            loosen(path)


def state(root: Path) -> dict[str, tuple[int, int]]:
    """Path → modification time in nanoseconds and size, of everything in a tree."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}
