"""What a request of the tuner names and cannot be used ends the program, with what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from txtdb.cli.common import EXIT_USAGE, fail
from txtdb.faults import Fault, FaultError, Span
from txtdb.tune.clocks import ClocksRefused
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.tunable_faults import TunableFault, lacks_own_need
from txtdb.wording import install_hint


@contextmanager
def usage_faults() -> Iterator[None]:
    """Ends the program where a side, the device, a tunable or the journal cannot be used."""
    try:
        yield
    except FaultError as error:
        fail(error.faults, EXIT_USAGE)
    except TunableFault as error:
        fail([error.fault()], EXIT_USAGE)
    except ImportError as error:
        message = f"what the device needs is not installed: {error}"
        hint = install_hint("tune") if lacks_own_need(error) else ""
        fail([Fault("device", Span("--device"), message, hint)], EXIT_USAGE)
    except ClocksRefused as error:
        fail([Fault("device", Span("--clocks"), f"clocks cannot be changed: {error}", "")], EXIT_USAGE)
    except DeviceMissing as error:
        fail([Fault("device", Span("--device"), str(error), "")], EXIT_USAGE)
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EPIPE):  # standard output
            raise
        if error.filename is None:  # the device's driver
            fail([Fault("device", Span("--device"), str(error), "")], EXIT_USAGE)
        span = Span(Path(error.filename).as_posix())
        fail([Fault("unwritable", span, f"cannot write: {error.strerror}", "")], EXIT_USAGE)


def named_text(path: Path | None) -> tuple[str, str] | None:
    """(name, text) of a file."""
    if path is None:
        return None
    try:
        return path.as_posix(), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        _unreadable(path, error)


def bytes_of(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        _unreadable(path, error)


def _unreadable(path: Path, error: Exception) -> NoReturn:
    fail([Fault("unreadable", Span(path.as_posix()), f"the file cannot be read: {error}", "")], EXIT_USAGE)
