"""Clocks and power caps that a run changes, and how they come back whatever ends the run.

What was set before is written to a file, flushed to the disk, before anything changes. It comes back at the end of the
block, after an exception, SIGINT or SIGTERM; after SIGKILL the next start finds the file (`recover`). A device does not
tell whether its clock was locked before: a lock that somebody else set is lost.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from txtdb.tune.sensors import ClockSettings


@dataclass(frozen=True, slots=True)
class Requested:
    """What a run asks for; None leaves a setting alone."""

    clock_mhz: int | None = None
    power_cap_w: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What the device made of it."""

    clock_mhz: int
    power_cap_w: float


@dataclass
class Clocks:
    """The settings of one device, changed only where a request differs from the one before."""

    settings: ClockSettings
    _asked: Requested = Requested()

    def request(self, requested: Requested) -> dict[str, Any]:
        """Set what is new. What was asked for and what is there, for the evidence."""
        if requested.clock_mhz is not None and requested.clock_mhz != self._asked.clock_mhz:
            self.settings.lock_clock(requested.clock_mhz)
        if requested.power_cap_w is not None and requested.power_cap_w != self._asked.power_cap_w:
            self.settings.set_power_cap(requested.power_cap_w)
        self._asked = requested
        observed = Observed(self.settings.clock_mhz(), self.settings.power_cap_w())
        return {"requested": asdict(requested), "observed": asdict(observed)}


@contextmanager
def held(settings: ClockSettings, requested: Requested, state: Path) -> Iterator[Clocks]:
    """A block in which clocks may be changed, through what it gives, and after which they are as before.

    A request that asks for nothing touches neither device nor file. Raises FileExistsError while another run holds
    the file.
    """
    clocks = Clocks(settings)
    if requested == Requested():
        yield clocks
        return
    _write(state, {"clock": requested.clock_mhz is not None, "power_cap_w": _cap(settings, requested)})
    with _terminated_as_exception():
        try:
            clocks.request(requested)
            yield clocks
        finally:
            recover(settings, state)


def recover(settings: ClockSettings, state: Path) -> bool:
    """Put back what a file says was there; whether there was such a file. It is removed last."""
    try:
        before = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    if before["clock"]:
        settings.free_clock()
    if before["power_cap_w"] is not None:
        settings.set_power_cap(before["power_cap_w"])
    state.unlink()
    return True


def state_file(device: str) -> Path:
    """Where the settings of a device are kept while they are changed: one place for all runs of a user."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "txtdb" / f"clocks-{device}.json"


def _cap(settings: ClockSettings, requested: Requested) -> float | None:
    return None if requested.power_cap_w is None else settings.power_cap_w()


def _write(state: Path, before: dict[str, Any]) -> None:
    """On the disk under its name, whole, before anything is changed."""
    state.parent.mkdir(parents=True, exist_ok=True)
    part = state.with_suffix(f".{os.getpid()}")
    with part.open("w", encoding="utf-8") as stream:
        json.dump(before, stream)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(part, state)
    finally:
        part.unlink()
    _sync_folder(state.parent)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _terminated_as_exception() -> Iterator[None]:
    """SIGTERM unwinds like SIGINT does, so that blocks end. Signals belong to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
