"""Files written whole: a reader, or a crash, sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Another process that holds the target open makes a replacement fail on Windows; scanners let go within moments.
RETRY_PAUSES_S = (0.01, 0.05, 0.1, 0.25, 0.5)
# Bytes of a target's name in that of its temporary file.
_MOST_NAMED = 200
# Links that are followed from one to the next; no system takes more.
_MOST_LINKS = 40


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

    A link is replaced as well, not followed: one in a database may lead anywhere. For a file that a user names see
    `write_output`.

    Raises OSError when that fails, with the old file as it was and the temporary one removed. A target that another
    process holds is tried again for about a second; the error after that is a PermissionError that says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=temporary_prefix(path), suffix=".tmp")
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
    with suppress(FileNotFoundError):
        if not path.is_symlink() and path.read_bytes() == data:
            return False
    atomic_write(path, data)
    return True


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user names, unless it holds just that.

    A link stays one: the file that it leads to is replaced. What is no file (`/dev/null`, a pipe), and streams of a
    process (`/dev/stdout`), are written to and not replaced. Raises OSError as `atomic_write` does.
    """
    place = replaced_file(path)
    if place is None:
        with naming(path), _opened(path) as stream:
            stream.write(data)
    else:
        write_if_changed(place, data)


def replaced_file(path: Path) -> Path | None:
    """What an output at a path replaces, or makes: links are followed. None where it is written to instead.

    Raises OSError where the path cannot be looked at.
    """
    if _is_stream(path):
        return None
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None
    return path.resolve()


def _is_stream(path: Path) -> bool:
    """Whether a path names an open file of a process, or leads to one: such a link tells the file but is none to it."""
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent), path.name)
        if path.parts[:2] == ("/", "proc") or path.parts[:3] == ("/", "dev", "fd"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return False


def _opened(path: Path) -> IO[bytes]:
    """A stream to what is there. Standard output goes on where it is: opened anew, the file behind it would be cut."""
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), path.stat()):
                return os.fdopen(os.dup(number), "wb")
    return path.open("wb")


def temporary_prefix(path: Path) -> str:
    """How the name of a target's temporary file begins: cut, for the target's may be as long as names are."""
    return f".{os.fsdecode(os.fsencode(path.name)[:_MOST_NAMED])}."


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
