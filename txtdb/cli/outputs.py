"""Files that a command is told to write: what may be replaced, and what a failure is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from txtdb.faults import Fault, Span
from txtdb.files import replaced_file

# So many bytes of a file tell what it is.
_HEAD_BYTES = 4096


def other_file_faults(path: Path, starts: Sequence[bytes]) -> list[Fault]:
    """Why a file that is there is not replaced by an output: it does not begin as one, so it is something else."""
    return unlike_faults(path, lambda head: head.startswith(tuple(starts)))


def unlike_faults(path: Path, is_own: Callable[[bytes], bool]) -> list[Fault]:
    """The same, where more than one beginning is right: `is_own` is asked about the first bytes of the file.

    An empty file may be replaced, and what is no file (`/dev/stdout`) is written to. A path that cannot be looked at
    cannot be written either.
    """
    try:
        if _may_be_written(path, is_own):
            return []
    except OSError as error:
        return [unwritable(path, error)]
    message = "there is something else of this name, which is not replaced"
    return [Fault("unwritable", Span(path.as_posix()), message, "name another file")]


def _may_be_written(path: Path, is_own: Callable[[bytes], bool]) -> bool:
    target = replaced_file(path)
    if target is None or not target.exists():
        return True
    if not target.is_file():
        return False
    with target.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    return not head or is_own(head)


def unwritable(path: Path, error: OSError) -> Fault:
    """That a file cannot be written, and why."""
    return Fault("unwritable", Span(path.as_posix()), f"cannot write: {error.strerror or error}")
