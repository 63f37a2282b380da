"""Candidates, compiled ahead in a pool of processes, checked and timed in one process after the other."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from txtdb.evidence.policy import Run
from txtdb.evidence.samples import acceptable
from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault, Config, DeviceFacts, Task
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.workers import START_LIMIT_S, Worker, WorkerLost

# More compilers than this wait for memory, not for processors.
_MOST_JOBS = 16
# Many updates of a slow sensor, several times, pass within this.
POWER_LIMIT_S = 60.0
# Measurements in a row of one candidate during which the device may be throttled.
MOST_THROTTLED = 5


class Throttled(Exception):
    """The device stays throttled: what it measures says nothing."""


def default_jobs() -> int:
    """Processes that compile: one processor is left to the process that measures."""
    return max(1, min(_MOST_JOBS, (os.cpu_count() or 1) - 1))


def request_of(ask: str, task: Task, config: Config, **more: Any) -> dict[str, Any]:
    """A request about a candidate, for a worker."""
    parts = {"iface": task.iface, "arch": task.arch, "functional": dict(task.functional), "at": dict(task.at)}
    return {"ask": ask, "task": parts, "config": dict(config), **more}


@dataclass(frozen=True)
class Notes:
    """What is noted around each attempt at a step: that it begins, and that the tuner outlived it."""

    begin: Callable[[], None]
    landed: Callable[[], None]


class Measurer:
    """Checks and times candidates, one at a time. Whatever is wrong with one is raised as a CandidateFault.

    A process whose candidate crashed or was late is not used again, and one that has served its batch neither. A
    candidate that crashed is tried again alone, a few times: the one before it may have left the device broken.
    `shielded`: its first process stands below another one from the start.
    """

    def __init__(self, device: str, run: Run, shielded: bool = False) -> None:
        self._device, self._run = device, run
        self._worker: Worker | None = None
        self._served = 0
        self._shielded = shielded

    def facts(self, iface: str) -> DeviceFacts:
        """What identifies measurements of an interface. Raises DeviceMissing."""
        try:
            return DeviceFacts(**self._ask({"ask": "facts", "iface": iface}, START_LIMIT_S, None))
        except CandidateFault as fault:
            raise DeviceMissing(f"device {self._device}: {fault.detail}") from fault

    def conditions(self) -> dict[str, Any]:
        """Clocks, temperature and power as they are now; nothing where the device cannot tell."""
        try:
            found: dict[str, Any] = self._ask({"ask": "conditions"}, START_LIMIT_S, None)
        except CandidateFault:
            return {}
        return found

    def compile(self, task: Task, config: Config, notes: Notes | None = None) -> None:
        """Compile a candidate here, not ahead."""
        self._ask(request_of("compile", task, config), self._run.compile_limit_s, notes)

    def check(self, task: Task, config: Config, notes: Notes | None = None) -> float:
        """The largest error of a candidate's results, in units of the tolerance; it may be NaN."""
        if self._served >= self._run.batch and not self._shielded:
            self.fresh()
        self._served += 1
        return float(self._ask(request_of("check", task, config), self._run.call_limit_s, notes))

    def time(
        self, task: Task, config: Config, warm_up: int, calls: int, number: int, notes: Notes | None = None
    ) -> tuple[tuple[float, ...], bool]:
        """Nanoseconds of each call, and whether the device was throttled meanwhile. Every time is one that can be."""
        request = request_of("time", task, config, warm_up=warm_up, calls=calls, number=number)
        reply = self._ask(request, self._run.call_limit_s, notes)
        times = tuple(map(float, reply["times"]))
        wrong = [time for time in times if not acceptable(time)]
        if wrong or len(times) != calls:
            detail = f"a call took {wrong[0]} ns" if wrong else f"{len(times)} times of {calls} calls"
            raise CandidateFault(Status.WRONG_RESULT, detail)
        return times, reply["throttled"]

    def power(self, task: Task, config: Config, notes: Notes | None = None) -> dict[str, Any]:
        """A reading of the power that a candidate draws, see `txtdb.tune.power.Reading`."""
        reading: dict[str, Any] = self._ask(request_of("power", task, config), POWER_LIMIT_S, notes)
        return reading

    def fresh(self) -> None:
        """Let the next candidate have a new process."""
        if self._worker:
            self._worker.close()
        self._worker, self._served, self._shielded = None, 0, False

    def shield(self) -> None:
        """Let the next candidates have a process that stands below another one."""
        if not self._shielded:
            self.fresh()
        self._shielded = True

    def _ask(self, request: Mapping[str, Any], limit_s: float, notes: Notes | None) -> Any:
        for attempt in range(self._run.retries + 1):
            try:
                return self._once(request, limit_s, notes)
            except CandidateFault as fault:
                if fault.status is not Status.CRASH or attempt == self._run.retries:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _once(self, request: Mapping[str, Any], limit_s: float, notes: Notes | None) -> Any:
        shielded = self._shielded
        worker = self._worker = self._worker or Worker(self._device, shielded)
        worker.ready()
        try:
            value = _noted(worker, request, limit_s, notes)
            if shielded and notes and worker.fell():
                raise CandidateFault(Status.CRASH, "it ended the process above its own")
        except CandidateFault as fault:
            if fault.status in (Status.CRASH, Status.TIMEOUT):
                self.fresh()
                self._shielded = shielded
            raise
        return value

    def close(self) -> None:
        """End the process."""
        self.fresh()


def _noted(worker: Worker, request: Mapping[str, Any], limit_s: float, notes: Notes | None) -> Any:
    """Ask a worker that is ready. One that is lost is the candidate's fault."""
    if notes:
        notes.begin()
    try:
        return worker.ask(request, limit_s)
    except WorkerLost as lost:
        raise CandidateFault(lost.status, lost.detail) from lost
    finally:
        if notes and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            notes.landed()


class Compilers:
    """A pool of processes that compile candidates ahead, while others are measured."""

    def __init__(self, device: str, jobs: int, run: Run) -> None:
        self._device, self._run = device, run
        self._threads = ThreadPoolExecutor(jobs)
        self._own = threading.local()
        self._workers: list[Worker] = []
        self._mutex = threading.Lock()
        self._closed = False

    def submit(
        self, task: Task, config: Config, notes: Notes, end: Callable[[CandidateFault | None], None]
    ) -> Future[None]:
        """Compile a candidate when a process is free. `notes` and `end` are called in other threads."""
        return self._threads.submit(self._compile, request_of("compile", task, config), notes, end)

    def close(self) -> None:
        """End all processes; what they compile is lost."""
        with self._mutex:
            self._closed = True
            workers = list(self._workers)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        self._threads.shutdown()
        for worker in workers:
            worker.close()

    def _compile(self, request: Mapping[str, Any], notes: Notes, end: Callable[[CandidateFault | None], None]) -> None:
        fault = None
        for _ in range(self._run.retries + 1):
            fault = self._once(request, notes)
            if fault is None or fault.status is not Status.CRASH or self._closed:
                break
        if not self._closed:
            end(fault)

    def _once(self, request: Mapping[str, Any], notes: Notes) -> CandidateFault | None:
        worker = self._worker()
        worker.ready()
        try:
            _noted(worker, request, self._run.compile_limit_s, notes)
        except CandidateFault as fault:
            if fault.status in (Status.CRASH, Status.TIMEOUT):
                self._drop(worker)
            return fault
        return None

    def _worker(self) -> Worker:
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = Worker(self._device)
            with self._mutex:
                self._workers.append(worker)
                if self._closed:
                    worker.kill()
        return worker

    def _drop(self, worker: Worker) -> None:
        with self._mutex:
            self._workers.remove(worker)
        worker.close()
        self._own.worker = None
