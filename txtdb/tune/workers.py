"""Worker processes, seen from the tuner: whatever a candidate does to one costs that candidate only."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.worker import MEASURE

# A device is opened, and its libraries are loaded, within this.
START_LIMIT_S = 300.0
# The process above a worker answers within this, unless it is gone or stopped.
_ECHO_S = 1.0
# So often is a process looked for whose pipe says nothing: one that it started may keep the pipe open.
_LOOK_S = 0.2
# No answer is longer: a hundred thousand times have some 2 MB.
_MOST_BYTES = 1 << 26
_TAIL = 2000
_COMMAND = (sys.executable, "-m", "txtdb.tune.worker")
_SHIELD = (sys.executable, "-S", str(Path(__file__).with_name("shield.py")))


class WorkerLost(Exception):
    """A worker that gave no answer: `status` is `timeout` or `crash`."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


def _reply(line: bytes) -> dict[str, Any] | None:
    """An answer, or what a worker says at its start; None for what no worker of this package writes."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reply, dict) or not reply.keys() & {"ready", "missing", "value", "status"}:
        return None
    return reply


class _Echo:
    """Pipes to a shield, which sends back what it is sent.

    A process that was sent a signal that ends it runs nothing of its own any more, so that its silence is certain as
    soon as the signal was sent, while it may take a while to be gone.
    """

    def __init__(self) -> None:
        theirs_in, self._asks = os.pipe()
        self._hears, theirs_out = os.pipe()
        self.theirs = (theirs_in, theirs_out)

    def give_away(self) -> None:
        """Close the ends that the shield has by now."""
        for end in self.theirs:
            os.close(end)

    def answers(self) -> bool:
        """Whether the shield sends back a byte."""
        try:
            os.write(self._asks, b".")
        except BrokenPipeError:
            return False
        ready, _, _ = select.select([self._hears], [], [], _ECHO_S)
        return bool(ready and os.read(self._hears, 1))

    def close(self) -> None:
        """Close the own ends."""
        for end in (self._asks, self._hears):
            os.close(end)


class Worker:
    """One process with a device, in a session of its own, so that what it starts ends with it.

    `shielded`: the process that does the work stands below another one, so that a candidate that kills the process
    above its own does not reach the tuner. `measures`: it will run candidates, not only compile them.
    """

    def __init__(self, device: str, shielded: bool = False, measures: bool = False) -> None:
        self._device, self.shielded = device, shielded
        self._is_ready = self._killed = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        command = [*_COMMAND, device, *([MEASURE] if measures else ())]
        self._echo = _Echo() if shielded else None
        self._process = subprocess.Popen(
            [*_SHIELD, *map(str, self._echo.theirs), *command] if self._echo else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            pass_fds=self._echo.theirs if self._echo else (),
        )
        if self._echo:
            self._echo.give_away()

    def ask(self, request: Mapping[str, Any], limit_s: float) -> Any:
        """The value that answers a request.

        Raises CandidateFault when the worker says so, WorkerLost when it gives no answer in time (it is gone then), and
        DeviceMissing when it has no device.
        """
        self.ready()
        reply = self._exchange({**request, "limit_s": limit_s}, limit_s)
        if "status" in reply:
            raise CandidateFault(Status(reply["status"]), reply["detail"])
        return reply["value"]

    def close(self) -> None:
        """End the process and let go of everything."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors, self._echo):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()

    def ready(self) -> None:
        """Wait until the device is open, which does not count as time of a candidate. Raises DeviceMissing."""
        if self._is_ready:
            return
        try:
            reply = self._exchange(None, START_LIMIT_S)
        except WorkerLost as lost:
            raise DeviceMissing(f"device {self._device}: its process ended at the start: {lost.detail}") from lost
        if "missing" in reply:
            raise DeviceMissing(reply["missing"])
        self._is_ready = True

    def _exchange(self, request: Mapping[str, Any] | None, limit_s: float) -> dict[str, Any]:
        end = time.monotonic() + limit_s
        if request is not None:
            self._send(request)
        line = self._line(end)
        if line is None:
            late = time.monotonic() >= end
            self.kill()
            raise WorkerLost(*((Status.TIMEOUT, f"no answer in {limit_s:g} s") if late else self._ending()))
        reply = _reply(line)
        if reply is None:
            self.kill()
            raise WorkerLost(Status.CRASH, f"something else wrote where answers are expected: {line[:80]!r}")
        return reply

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _line(self, end: float) -> bytes | None:
        """The next line; None when there is none until `end`, or none can come any more.

        The end of the pipe is not waited for: a process that a candidate started may hold it open for ever.
        """
        assert self._process.stdout
        pipe, found = self._process.stdout.fileno(), bytearray()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while len(found) < _MOST_BYTES:
            left = end - time.monotonic()
            gone = self._is_gone()  # before the pipe is looked at: what was written until then is in it
            if poll.poll(0 if gone else 1000 * max(min(left, _LOOK_S), 0)):
                data = os.read(pipe, 1 << 16)
                found += data
                if found.endswith(b"\n"):
                    return bytes(found)
                if not data:
                    return None
            elif gone or left <= 0:
                return None
        return None

    def _is_gone(self) -> bool:
        return self._killed or self._process.poll() is not None

    def fell(self) -> bool:
        """Whether the process above the one that works is gone, or does nothing any more."""
        return self._echo is not None and not self._echo.answers()

    def _ending(self) -> tuple[Status, str]:
        """How the process ended, with the last that it said."""
        code = self._process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL))
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
        return Status.CRASH, f"{how}: {said[-1]}" if said else str(how)

    def kill(self) -> None:
        """End the process and what it started; whoever waits for its answer gets none."""
        self._killed = True
        if self._process.poll() is None or self.shielded:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
