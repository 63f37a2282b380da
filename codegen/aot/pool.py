"""Worker processes: each image has a time limit, and what goes wrong with one costs that image only."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from codegen.aot.result import CRASH, OUT_OF_RESOURCES, TIMEOUT, Result, result_from
from codegen.aot.spec import Spec
from codegen.aot.target import Target

# Variables with these beginnings change what the compiler does; images must not depend on who builds them.
_FOREIGN = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "DISABLE_", "PTXAS_", "USE_IR_LOC")
_OWN = {"TRITON_ALWAYS_COMPILE": "1", "TRITON_DISABLE_LINE_INFO": "1"}
# What LLVM says before it gives up on a kernel that does not fit.
_TOO_LARGE = ("ran out of registers", "exceeds limit")
_START_LIMIT_S = 300.0
# Between two looks at what is running.
_LOOK_S = 1.0
_TAIL = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """One image to compile, and where its bytes go."""

    number: int
    spec: Spec
    file: Path


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a process is at, and for how many seconds."""

    job: Job
    seconds: float


Watch = Callable[[Sequence[Running]], None]


class CompilerMissing(Exception):
    """No worker could start: the compiler is not installed, or does not work here."""


class SourcesChanged(Exception):
    """The kernels were edited while their images were compiled."""


@dataclass
class _Lost(Exception):
    """A worker that gave no answer; `late` when it was ended for taking too long."""

    late: bool
    text: str


def compiler_ids(targets: Iterable[Target]) -> dict[Target, str]:
    """Names of the compilers of targets. Raises CompilerMissing."""
    asked = list(targets)
    with tempfile.TemporaryDirectory(prefix="txtdb-aot-") as folder:
        worker = _Worker(Path(folder))
        try:
            request = {"ask": "compiler", "targets": [[target.backend, target.processor] for target in asked]}
            names = worker.ask(request, _START_LIMIT_S)["compilers"]
        except _Lost as lost:
            raise CompilerMissing(lost.text.strip().splitlines()[-1] if lost.text.strip() else "no answer") from None
        finally:
            worker.end()
    return dict(zip(asked, names, strict=True))


def compile_all(
    jobs: Iterable[Job],
    workers: int,
    limit_s: float,
    content: str,
    folder: Path,
    watch: Watch = lambda running: None,
) -> Iterator[tuple[Job, Result]]:
    """Compile jobs in worker processes and give each with its result as it is ready; the order is not fixed.

    No job takes longer than `limit_s` seconds. Closing the iterator ends the processes. `content` is the digest of the
    kernels' sources that the jobs were made from; raises SourcesChanged when a worker finds others, and OSError when
    one cannot start. `folder` takes what the processes keep meanwhile, and what those that are ended leave. `watch` is
    called about every second with what is running, the longest first.
    """
    with ThreadPoolExecutor(workers) as threads:
        crew = _Crew(folder, workers, limit_s, content)
        try:
            futures = {threads.submit(crew.compile, job): job for job in jobs}
            for future in _as_completed(futures, lambda: watch(crew.running())):
                yield futures[future], future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            crew.end()


def _as_completed(futures: Iterable[Future[Result]], look: Callable[[], None]) -> Iterator[Future[Result]]:
    """Futures as they end; `look` is called between them, and about every second while none does."""
    ended: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    running = list(futures)
    for future in running:
        future.add_done_callback(ended.put)
    left = len(running)
    while left:
        look()
        try:
            future = ended.get(timeout=_LOOK_S)
        except queue.Empty:
            continue
        left -= 1
        yield future
    look()


class _Crew:
    """The workers of one run. A place without a process gets one when it has a job."""

    def __init__(self, folder: Path, size: int, limit_s: float, content: str) -> None:
        self._folder, self._limit_s, self._content = folder, limit_s, content
        self._workers: list[_Worker | None] = [None] * size
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._begun: dict[int, tuple[Job, float]] = {}
        self._ended = False
        for place in range(size):
            self._free.put(place)

    def compile(self, job: Job) -> Result:
        """Compile one job, in a thread of its own. Raises OSError where no process can start for it."""
        place = self._free.get()
        try:
            return self._compiled_at(place, job)
        finally:
            with self._mutex:
                self._begun.pop(place, None)
            self._free.put(place)

    def _compiled_at(self, place: int, job: Job) -> Result:
        worker = self._at(place)
        try:
            worker.ready(self._content)
            with self._mutex:
                self._begun[place] = job, time.monotonic()
            return result_from(worker.ask(_image_request(job), self._limit_s)["result"])
        except _Lost as lost:
            worker.end()
            self._workers[place] = None
            return _lost_result(lost, self._limit_s)

    def running(self) -> list[Running]:
        """What processes are at, the longest first."""
        now = time.monotonic()
        with self._mutex:
            begun = list(self._begun.values())
        return sorted((Running(job, now - start) for job, start in begun), key=lambda one: -one.seconds)

    def _at(self, place: int) -> _Worker:
        """The process of a place. One that starts when all are ended is ended too, so that its job is lost as well."""
        with self._mutex:
            worker = self._workers[place] = self._workers[place] or _Worker(self._folder / f"worker-{place}")
            if self._ended:
                worker.kill()
        return worker

    def end(self) -> None:
        """End every process; a job that runs is lost."""
        with self._mutex:
            self._ended = True
            workers = [worker for worker in self._workers if worker]
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.end()


def _image_request(job: Job) -> dict[str, Any]:
    return {"ask": "image", "spec": job.spec.json(), "file": str(job.file)}


def _lost_result(lost: _Lost, limit_s: float) -> Result:
    if lost.late:
        return Result(TIMEOUT, f"not done after {limit_s:g} s", limit_s)
    status = OUT_OF_RESOURCES if any(text in lost.text for text in _TOO_LARGE) else CRASH
    return Result(status, lost.text, 0.0)


class _Worker:
    """One worker process in a session of its own, so that the programs that it starts end with it."""

    def __init__(self, folder: Path) -> None:
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        self._is_ready = False
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environment |= {**_OWN, "TRITON_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        self._errors: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (`end` closes it)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "codegen.aot.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )

    def ready(self, content: str) -> None:
        """Wait until the process can take jobs, which does not count as time of a job.

        Raises _Lost, and SourcesChanged when the process has other kernels than those of this digest.
        """
        if not self._is_ready:
            if self.ask({"ask": "kernels"}, _START_LIMIT_S)["content"] != content:
                raise SourcesChanged
            self._is_ready = True

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """The reply to a request. Raises _Lost when there is none in time; the worker is gone then."""
        late = threading.Event()
        timer = threading.Timer(limit_s, self._give_up, [late])
        timer.start()
        try:
            line = self._exchange(json.dumps(request).encode() + b"\n")
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise _Lost(late.is_set(), self._ending())
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _exchange(self, line: bytes) -> bytes:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
        return self._process.stdout.readline()

    def _give_up(self, late: threading.Event) -> None:
        late.set()
        self.kill()

    def _ending(self) -> str:
        """How the process ended, with the last that it said."""
        code = self._process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL))
        said = self._errors.read().decode("utf-8", "replace").strip()
        how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
        return f"{how}: {said}" if said else str(how)

    def kill(self) -> None:
        """End the process and what it started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End the process and let go of everything."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()
