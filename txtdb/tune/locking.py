"""Files that one process has to itself. The operating system gives them back when it ends, however it ends."""

from __future__ import annotations

from typing import IO


def lock(stream: IO[bytes]) -> bool:
    """Take a file for this process; whether nobody else has it. Closing the stream gives it back."""
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(stream)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(stream: IO[bytes]) -> bool:
    import msvcrt

    try:
        stream.seek(1 << 40)  # far behind the end: locked bytes cannot be read by others
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True
