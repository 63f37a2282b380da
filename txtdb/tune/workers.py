"""Worker processes, seen from the tuner: whatever a candidate does to one costs that candidate only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.worker import MEASURE

# A device is opened, and its libraries are loaded, within this.
START_LIMIT_S = 300.0
# A process above a candidate that was killed by it is gone within this.
_FALL_S = 0.2
_TAIL = 2000
_COMMAND = (sys.executable, "-m", "txtdb.tune.worker")
# A process that only starts another one, and ends as that does.
_SHIELD_CODE = """
import os, subprocess, sys
code = subprocess.call(sys.argv[1:])
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
_SHIELD = (sys.executable, "-S", "-c", _SHIELD_CODE)


class WorkerLost(Exception):
    """A worker that gave no answer: `status` is `timeout` or `crash`."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


class Worker:
    """One process with a device, in a session of its own, so that what it starts ends with it.

    `shielded`: the process that does the work stands below another one, so that a candidate that kills the process
    above its own does not reach the tuner. `measures`: it will run candidates, not only compile them.
    """

    def __init__(self, device: str, shielded: bool = False, measures: bool = False) -> None:
        self._device, self.shielded = device, shielded
        self._is_ready = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._process = subprocess.Popen(
            [*(_SHIELD if shielded else ()), *_COMMAND, device, *([MEASURE] if measures else ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

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
        for stream in (self._process.stdin, self._process.stdout, self._errors):
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
        late = threading.Event()
        timer = threading.Timer(limit_s, self._give_up, [late])
        timer.daemon = True
        timer.start()
        try:
            line = self._line(request)
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise WorkerLost(*((Status.TIMEOUT, f"no answer in {limit_s:g} s") if late.is_set() else self._ending()))
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _line(self, request: Mapping[str, Any] | None) -> bytes:
        assert self._process.stdin and self._process.stdout
        if request is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
        return self._process.stdout.readline()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self.kill()

    def fell(self) -> bool:
        """Whether the process above the one that works is gone."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_FALL_S)
        return self._process.returncode is not None

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
        if self._process.poll() is None or self.shielded:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
