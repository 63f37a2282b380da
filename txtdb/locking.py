"""Files and folders that one process has to itself; the system gives them back when it ends, however it ends."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_LOG = logging.getLogger(__name__)
# The errors of file systems that lock nothing.
NOTHING_LOCKED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def lock(stream: IO[bytes]) -> bool:
    """Take a file for this process; whether nobody else has it. Closing the stream gives it back.

    Raises OSError, by one of NOTHING_LOCKED where the file system locks nothing.
    """
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


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Waits for its turn among the processes that ask for the same folder, and says so. No file is made for that.

    Windows locks no folders, and some file systems lock nothing: there nothing waits. Raises OSError for a folder that
    cannot be read.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.warning("waiting for another process that writes in %s", folder.as_posix())
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NOTHING_LOCKED:
                raise
        yield
    finally:
        os.close(handle)
