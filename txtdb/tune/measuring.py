"""Candidates, compiled ahead in a pool of processes, checked and timed in one process after the other."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import PriorityQueue
from typing import Any

from txtdb.evidence.decode import Wrong, plain_object, text
from txtdb.evidence.policy import Run
from txtdb.evidence.samples import acceptable
from txtdb.model.evidence import Reading, Status
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, print_values
from txtdb.tune.device import CandidateFault, Config, DeviceFacts, Task
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.power import reading_of
from txtdb.tune.workers import START_LIMIT_S, Worker, WorkerLost

_LOG = logging.getLogger(__name__)
# More compilers than this wait for memory, not for processors.
_MOST_JOBS = 16
# What a device is told of before a task's first request of its kind.
_PREPARED = ("check", "confirm", "time", "power")
# Many updates of a slow sensor, several times, pass within this.
POWER_LIMIT_S = 60.0
# Measurements in a row of one candidate during which the device may be throttled.
MOST_THROTTLED = 5


class Throttled(Exception):
    """The device stays throttled: what it measures says nothing."""

    def __init__(self) -> None:
        super().__init__("the device stays throttled")


def default_jobs() -> int:
    """Processes that compile: two processors are left, to the process that measures and to the tuner."""
    return max(1, min(_MOST_JOBS, (os.cpu_count() or 1) - 2))


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
        # For each kind of request the task that the process is prepared for.
        self._prepared: dict[str, Any] = {}
        self._reasons: set[str] = set()

    def facts(self, iface: str) -> DeviceFacts:
        """What identifies measurements of an interface. Raises DeviceMissing, too for what evidence cannot hold."""
        try:
            found = self._ask({"ask": "facts", "iface": iface}, START_LIMIT_S, None)
            for name in ("device", "software", "contract"):
                plain_object(found[name], name)
        except CandidateFault as fault:
            raise DeviceMissing(f"device {self._device}: {fault.detail}") from fault
        except Wrong as error:
            raise DeviceMissing(f"device {self._device}: its facts cannot be kept: {error}") from error
        return DeviceFacts(**found)

    def sources(self, schema: Schema, functionals: Iterable[Functional]) -> dict[str, str]:
        """Functional, as files spell it → the digest of what its kernel compiles; nothing where the device cannot tell.

        Raises DeviceMissing for an answer that evidence cannot hold.
        """
        asked = list(functionals)
        values = [schema.kernel_values(functional) for functional in asked]
        try:
            found = self._ask({"ask": "sources", "iface": schema.iface, "functionals": values}, START_LIMIT_S, None)
            pairs = zip(asked, found, strict=True) if found else ()
            return {print_values(functional): text(source, "sources") for functional, source in pairs}
        except CandidateFault:
            return {}
        except (Wrong, ValueError) as error:
            raise DeviceMissing(f"device {self._device}: its sources cannot be kept: {error}") from error

    def conditions(self) -> dict[str, Any]:
        """Clocks, temperature and power as they are now; nothing where the device cannot tell."""
        try:
            return plain_object(self._ask({"ask": "conditions"}, START_LIMIT_S, None), "conditions")
        except (CandidateFault, Wrong):
            return {}

    def sensor(self) -> dict[str, Any] | None:
        """By what name the device's sensors are found (`name`, and whether it is `amd`); None for one without."""
        found: dict[str, Any] | None = self._ask({"ask": "sensor"}, START_LIMIT_S, None)
        return found

    def compile(self, task: Task, config: Config, notes: Notes | None = None) -> None:
        """Compile a candidate here, not ahead."""
        self._ask(request_of("compile", task, config), self._run.compile_limit_s, notes)

    def check(self, task: Task, config: Config, notes: Notes | None = None) -> float:
        """The largest error of a candidate's results, in units of the tolerance; it may be NaN."""
        if self._served >= self._run.batch:
            self.fresh()
        self._served += 1
        return float(self._ask(request_of("check", task, config), self._run.call_limit_s, notes))

    def confirm(self, task: Task, config: Config, notes: Notes | None = None) -> float:
        """The same at sizes of a cell's bin, which `task` gives, with other problems than those of `check`."""
        return float(self._ask(request_of("confirm", task, config), self._run.call_limit_s, notes))

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

    def power_contract(self) -> dict[str, Any]:
        """How the device takes watts, for the timing contract of a run that needs them.

        Raises DeviceMissing for an answer that evidence cannot hold.
        """
        try:
            return plain_object(self._ask({"ask": "power_contract"}, START_LIMIT_S, None), "power")
        except (CandidateFault, Wrong) as error:
            raise DeviceMissing(f"device {self._device}: how it takes watts cannot be kept: {error}") from error

    def power(self, task: Task, config: Config, notes: Notes | None = None) -> Reading:
        """A reading of the power that a candidate draws, see `txtdb.tune.power.sample`.

        Why one is no graph's is logged once for each reason: nobody sees what processes log.
        """
        reading = reading_of(self._ask(request_of("power", task, config), POWER_LIMIT_S, notes))
        reason = reading.reason
        if reason and reason not in self._reasons:
            self._reasons.add(reason)
            _LOG.warning("power is sampled over single launches: %s", reason)
        return reading

    def fresh(self) -> None:
        """Let the next candidate have a new process, behind a shield if this one is."""
        if self._worker:
            self._worker.close()
        self._worker, self._served = None, 0
        self._prepared.clear()

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
        worker = self._worker = self._worker or Worker(self._device, self._shielded, measures=True)
        worker.ready()
        try:
            self._prepare(worker, request)
            value = _noted(worker, request, limit_s, notes)
            if "config" in request and worker.fell():
                raise CandidateFault(Status.CRASH, "it ended the process above its own")
        except CandidateFault as fault:
            # Whatever else is wrong with it: the next candidate must not be taken for the one that ended that process.
            if fault.status in (Status.CRASH, Status.TIMEOUT) or worker.fell():
                self.fresh()
            raise
        return value

    def _prepare(self, worker: Worker, request: Mapping[str, Any]) -> None:
        """Have the device make what all candidates of a task need, which is no time of the first one."""
        kind, task = request["ask"], request.get("task")
        if kind not in _PREPARED or self._prepared.get(kind) == task:
            return
        _noted(worker, {"ask": "prepare", "task": task, "for": kind}, START_LIMIT_S, None)
        self._prepared[kind] = task

    def close(self) -> None:
        """End the process."""
        self.fresh()


def _fulfil(found: Future[None], run: Callable[[], None]) -> None:
    """Run what a future stands for; what it raises is raised where somebody waits for it."""
    try:
        run()
    except BaseException as error:
        found.set_exception(error)
    else:
        found.set_result(None)


def _noted(worker: Worker, request: Mapping[str, Any], limit_s: float, notes: Notes | None) -> Any:
    """Ask a worker that is ready. One that is lost is the candidate's fault.

    An interrupt may be so too, and is not noted as outlived, unless the candidate runs behind a shield.
    """
    try:
        if notes:
            notes.begin()  # an interrupt may come while that is written, too
        return worker.ask(request, limit_s)
    except WorkerLost as lost:
        raise CandidateFault(lost.status, lost.detail) from lost
    finally:
        if notes and (worker.shielded or not isinstance(sys.exc_info()[1], KeyboardInterrupt)):
            notes.landed()


@dataclass(frozen=True, order=True)
class _Job:
    """What waits to be compiled: those of the least `place` are next, and of these the one that came first."""

    place: int
    number: int
    run: Callable[[], None] = field(compare=False)


class Compilers:
    """A pool of processes that compile candidates ahead, while others are measured."""

    def __init__(self, device: str, jobs: int, run: Run) -> None:
        self._device, self._run = device, run
        self._threads = ThreadPoolExecutor(jobs)
        self._jobs: PriorityQueue[_Job] = PriorityQueue()
        self._numbers = count()
        self._own = threading.local()
        self._workers: list[Worker] = []
        self._mutex = threading.Lock()
        self._closed = False

    def submit(
        self, task: Task, config: Config, notes: Notes, end: Callable[[CandidateFault | None], None], place: int = 0
    ) -> Future[None]:
        """Compile a candidate when a process is free and nothing of a lesser place waits.

        `notes` and `end` are called in other threads.
        """
        found: Future[None] = Future()
        compile_it = partial(self._compile, request_of("compile", task, config), notes, end)
        self._jobs.put(_Job(place, next(self._numbers), partial(_fulfil, found, compile_it)))
        self._threads.submit(self._next)
        return found

    def _next(self) -> None:
        self._jobs.get_nowait().run()

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
