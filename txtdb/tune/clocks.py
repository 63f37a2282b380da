"""Clocks and power caps that a run changes, and how they come back whatever ends the run.

What was set before is written to a file, flushed to the disk, before anything changes. It comes back at the end of the
block, after an exception, SIGINT or SIGTERM; after SIGKILL the next start finds the file (`recover`). The run that
changed something has the file to itself, so that nobody puts back what a run that lives still needs. A device does not
tell whether its clock was locked before: a lock that somebody else set is lost.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeVar

from txtdb.locking import lock
from txtdb.tune.sensors import ClockSettings, NoSensor, open_sensor

_T = TypeVar("_T")


class ClocksRefused(Exception):
    """The clocks or the power cap of a device cannot be changed as a run asks."""


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
    """The settings of one device, changed only where a request differs from the one before.

    `touched`: something was changed, or may have been.
    """

    settings: ClockSettings
    touched: bool = False
    _asked: Requested = Requested()

    def request(self, requested: Requested) -> dict[str, Any]:
        """Set what is new. What was asked for and what is there, for the evidence. Raises OSError."""
        if requested.clock_mhz is not None and requested.clock_mhz != self._asked.clock_mhz:
            self._change(self.settings.lock_clock, requested.clock_mhz)
        if requested.power_cap_w is not None and requested.power_cap_w != self._asked.power_cap_w:
            self._change(self.settings.set_power_cap, requested.power_cap_w)
        self._asked = requested
        observed = Observed(self.settings.clock_mhz(), self.settings.power_cap_w())
        return {"requested": asdict(requested), "observed": asdict(observed)}

    def _change(self, change: Callable[[_T], None], value: _T) -> None:
        """What the device refuses has changed nothing."""
        before, self.touched = self.touched, True
        try:
            change(value)
        except OSError:
            self.touched = before
            raise


@contextmanager
def arranged(
    sensor: Mapping[str, Any] | None, requested: Requested, tell: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A run on a device: what a killed run left is put back, then clocks are changed for as long as the block lasts.

    `sensor` is the `name` of the device's sensors and whether it is `amd`, None for a device without; `tell` takes a
    line about what was put back or could not be. Gives what was asked for and what is there. Where nothing is asked
    for it gives nothing, and the driver is not even loaded unless there is something to put back. Raises ClocksRefused.
    """
    with ExitStack() as stack:
        if requested == Requested():
            _put_back_left(sensor, tell)
            told = {}
        else:
            told = _changed(sensor, requested, tell, stack)
        yield told


def _changed(
    sensor: Mapping[str, Any] | None, requested: Requested, tell: Callable[[str], None], stack: ExitStack
) -> dict[str, Any]:
    if sensor is None:
        raise ClocksRefused("this device has no clocks that can be changed")
    state = state_file(sensor["name"])
    try:
        settings = _settings(sensor)
        if recover(settings, state):
            tell(_PUT_BACK)
        return stack.enter_context(held(settings, requested, state)).request(requested)
    except FileExistsError as error:
        raise ClocksRefused("another run has changed the clocks of this device") from error
    except (NoSensor, OSError) as error:
        raise ClocksRefused(str(error)) from error


def _put_back_left(sensor: Mapping[str, Any] | None, tell: Callable[[str], None]) -> None:
    """Put back what a killed run left changed, if there is anything; a device that refuses stops no run."""
    state = None if sensor is None else state_file(sensor["name"])
    if sensor is None or state is None or not state.exists():
        return
    try:
        if recover(_settings(sensor), state):
            tell(_PUT_BACK)
    except (NoSensor, ClocksRefused, OSError) as error:
        tell(f"an earlier run has left clocks changed, and they cannot be put back: {error}")


_PUT_BACK = "clocks that an earlier run left changed are back as they were"


def _settings(sensor: Mapping[str, Any]) -> ClockSettings:
    found = open_sensor(sensor["name"], sensor["amd"])
    if not isinstance(found, ClockSettings):
        raise ClocksRefused("clocks of AMD devices cannot be changed yet")
    return found


@contextmanager
def held(settings: ClockSettings, requested: Requested, state: Path) -> Iterator[Clocks]:
    """A block in which clocks may be changed, through what it gives, and after which they are as before.

    A request that asks for nothing touches neither device nor file. Raises FileExistsError while another run holds
    the file, and OSError where the device refuses.
    """
    clocks = Clocks(settings)
    if requested == Requested():
        yield clocks
        return
    before = {"clock": requested.clock_mhz is not None, "power_cap_w": _cap(settings, requested)}
    with _terminated_as_exception(), _written(state, before):
        try:
            clocks.request(requested)
            yield clocks
        finally:
            if clocks.touched:
                _put_back(settings, before)
            state.unlink()


def recover(settings: ClockSettings, state: Path) -> bool:
    """Put back what a file says was there, which is removed last; whether there was such a file of a run that is gone.

    Raises OSError where the device refuses; the file stays then.
    """
    try:
        stream = state.open("rb")
    except FileNotFoundError:
        return False
    with stream:
        if not lock(stream) or not _is_there(state, stream):
            return False
        _put_back(settings, json.load(stream))
        state.unlink()
    return True


def _put_back(settings: ClockSettings, before: dict[str, Any]) -> None:
    if before["clock"]:
        settings.free_clock()
    if before["power_cap_w"] is not None:
        settings.set_power_cap(before["power_cap_w"])


def _is_there(state: Path, stream: IO[bytes]) -> bool:
    """Whether a file still has its name: somebody else may have been faster."""
    try:
        return os.path.samestat(state.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


def state_file(device: str) -> Path:
    """Where the settings of a device are kept while they are changed: one place for all runs of a user."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "txtdb" / f"clocks-{device}.json"


def _cap(settings: ClockSettings, requested: Requested) -> float | None:
    return None if requested.power_cap_w is None else settings.power_cap_w()


@contextmanager
def _written(state: Path, before: dict[str, Any]) -> Iterator[None]:
    """On the disk under its name, whole and locked, before anything is changed. The lock ends with the block."""
    state.parent.mkdir(parents=True, exist_ok=True)
    part = state.with_suffix(f".{os.getpid()}")
    with part.open("wb") as stream:
        lock(stream)
        try:
            stream.write(json.dumps(before).encode())
            stream.flush()
            os.fsync(stream.fileno())
            os.link(part, state)
        finally:
            part.unlink()
        _sync_folder(state.parent)
        yield


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
