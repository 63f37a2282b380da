"""Files written whole: a reader, or a crash, sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Another process that holds the target open makes a replacement fail on Windows; scanners let go within moments.
RETRY_PAUSES_S = (0.01, 0.05, 0.1, 0.25, 0.5)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block that names no file, as that of a full disk, names this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def atomic_write(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one in the same folder; missing folders are made.

    Raises OSError when that fails, with the old file as it was and the temporary one removed. A target that another
    process holds is tried again for about a second; the error after that is a PermissionError that says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            stream.write(data)
        temporary.chmod(_mode(path))
        _replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def write_if_changed(path: Path, data: bytes) -> bool:
    """Write a file unless it holds just that; whether it was written. A file left alone keeps its time.

    Raises OSError as `atomic_write` does.
    """
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        pass
    atomic_write(path, data)
    return True


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, else those of a new one; `mkstemp` gives none but the owner's."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _replace(temporary: Path, path: Path) -> None:
    for pause in RETRY_PAUSES_S:
        try:
            temporary.replace(path)
            return
        except PermissionError:
            time.sleep(pause)
    try:
        temporary.replace(path)
    except PermissionError as error:
        reason = "another process holds the file, or the folder is read-only; the old file is as it was"
        raise PermissionError(error.errno, reason, str(path)) from error
