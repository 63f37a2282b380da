"""A GPU that PyTorch drives, as a device of the tuner. It runs the candidates of tunables.

Opened by `gpu`, or `gpu:` and settings with commas between them: `index=1` (which device), `fill=65536` (see
`Measurement.fill`) and `flush=0` (leave the L2 cache alone).
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

import torch

from txtdb.evidence.policy import Measurement
from txtdb.model.evidence import ARCH_FACT, Reading, Status
from txtdb.model.values import Value
from txtdb.tune.device import CandidateFault, Config, DeviceFacts, Task
from txtdb.tune.gpu_faults import fault_of
from txtdb.tune.gpu_timing import Mark, Sequence, Stream, times
from txtdb.tune.power import CannotCapture, Sampling, power_contract, sample
from txtdb.tune.sensors import NoSensor, Sensor, open_sensor
from txtdb.tune.tunable import Arguments, Problem, Tunable, find_tunable
from txtdb.tune.tunable_check import check_names, check_reset, check_tolerance

# At least this much is written to replace the L2 cache, and so many times its size.
FLUSH_BYTES, FLUSH_TIMES = 1 << 28, 4
# "CUDA Runtime API", cudaEventElapsedTime: "a resolution of approximately 0.5 microseconds".
EVENT_RESOLUTION_NS = 500
# Calls that tell how long one takes with its arguments in the cache.
WARM_CALLS = 21
# What is told of why a call cannot be captured.
REASON_LENGTH = 200
# PyTorch's wait counts cycles of the processors' clock.
_LEAST_CLOCK_MHZ = 1000


class Event:
    """A CUDA (or HIP) event."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def passed(self) -> bool:
        """Whether the device is behind the event."""
        return bool(self._event.query())

    def nanoseconds_to(self, later: Mark) -> float:
        """Device time to a later event."""
        assert isinstance(later, Event)
        return float(self._event.elapsed_time(later._event)) * 1e6


class TorchStream:
    """PyTorch's current stream of the current device."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        size = max(FLUSH_BYTES, FLUSH_TIMES * int(getattr(properties, "L2_cache_size", 0)))
        self._buffer = torch.empty(size // 4, dtype=torch.int32, device="cuda")
        rate = int(getattr(properties, "clock_rate", 0)) // 1000
        self._cycles = max(rate, _LEAST_CLOCK_MHZ)

    def mark(self) -> Mark:
        """Record an event."""
        return Event()

    def flush(self) -> None:
        """Fill the buffer."""
        self._buffer.zero_()

    def spin(self, microseconds: float) -> None:
        """Let the device count cycles."""
        torch.cuda._sleep(int(microseconds * self._cycles))

    def wait(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()


@dataclass
class GpuDevice:
    """The device. It keeps the arguments of the cell that is timed, and the accuracy cases of its functional.

    A candidate that leaves the device unusable ends the process (`DeviceLost`). Nothing is taken from the device before
    something runs on it: processes that compile leave it alone. `queue` stands in for PyTorch's stream in tests.
    """

    index: int = 0
    measurement: Measurement = field(default_factory=Measurement)
    tunables: Callable[[str], Tunable | None] = find_tunable
    queue: Stream | None = None
    sampling: Sampling = field(default_factory=Sampling)
    _found: dict[str, Tunable] = field(default_factory=dict, repr=False)
    _ready: set[Any] = field(default_factory=set, repr=False)
    _cases: dict[Any, _Case] = field(default_factory=dict, repr=False)
    _confirmed: tuple[Any, list[_Case]] | None = field(default=None, repr=False)
    _timed: _Timed | None = field(default=None, repr=False)
    _logged: set[str] = field(default_factory=set, repr=False)

    @cached_property
    def stream(self) -> Stream:
        """The queue that candidates run in."""
        if self.queue is None:
            torch.cuda.set_device(self.index)
        return self.queue or TorchStream()

    @cached_property
    def sensor(self) -> Sensor | None:
        """The sensors of this very device; None where they cannot be read."""
        try:
            return open_sensor(_uuid(self.index), bool(torch.version.hip))
        except NoSensor:
            return None

    def sensor_name(self) -> dict[str, Any]:
        """By what `open_sensor` finds the sensors and settings of this very device, in any process."""
        return {"name": _uuid(self.index), "amd": bool(torch.version.hip)}

    def wake(self) -> None:
        """Create the context, the queue and what references compute with, in the thread of gradients as well.

        That thread first runs what is no matrix product: cuBLAS warns of a thread whose context nothing has set.
        """
        self.stream.wait()
        one = torch.ones(16, 16, device="cuda", requires_grad=True)
        for product in (one * one, one @ one):
            product.sum().backward()
        torch.cuda.synchronize()

    def prepare(self, task: Task, ask: str) -> None:
        """Make the cases of a check or confirmation with their references, or what a task is timed with."""
        tunable = self._tunable(task.iface)
        if ask == "check":
            for problem in tunable.accuracy_problems(task):
                self._case(tunable, task, problem)
        elif ask == "confirm":
            self._confirming(tunable, task)
        else:
            self._timing(tunable, task)

    def facts(self, iface: str) -> DeviceFacts:
        """What identifies times that this device takes."""
        return DeviceFacts(
            device=device_facts(self.index, self.sensor),
            software=software_facts(),
            contract=contract(self.measurement),
            source=self._tunable(iface).source(),
        )

    def sources(self, iface: str, functionals: Iterable[Mapping[str, Value]]) -> list[str]:
        """What the tunable says of each functional."""
        return [self._tunable(iface).functional_source(values) for values in functionals]

    def compile(self, task: Task, config: Config) -> None:
        """Compile into the compiler's cache on disk; needs and disturbs no device."""
        self._tunable(task.iface).compile(task, config)

    def check(self, task: Task, config: Config) -> float:
        """The largest error over the accuracy cases, in units of the tolerance."""
        tunable = self._tunable(task.iface)
        cases = (self._case(tunable, task, problem) for problem in tunable.accuracy_problems(task))
        return self._worst(tunable, task, config, cases)

    def confirm(self, task: Task, config: Config) -> float:
        """The same over the problems that confirm a candidate at sizes of its bin."""
        tunable = self._tunable(task.iface)
        return self._worst(tunable, task, config, self._confirming(tunable, task))

    def _worst(self, tunable: Tunable, task: Task, config: Config, cases: Iterable[_Case]) -> float:
        worst = 0.0
        self.stream.wait()
        for case in cases:
            error: float = self._guarded(partial(case.error, tunable, task, config))
            if math.isnan(error):
                return error
            worst = max(worst, error)
        return worst

    def time(self, task: Task, config: Config, warm_up: int, calls: int, number: int) -> list[float]:
        """Nanoseconds of each call, by events; the first launch, which may compile and loads the image, is apart."""
        sequence = self._sequence(task, config)

        def run() -> list[float]:
            self._load(task, config, sequence)
            return times(self.stream, sequence, warm_up, calls)

        taken: list[float] = self._guarded(run)
        return taken

    def throttled(self) -> bool:
        """Whether the device lowers its clocks now."""
        return bool(self.sensor and self.sensor.throttle_reasons())

    def conditions(self) -> dict[str, Any]:
        """Clocks, temperature and power as they are now: for the record, not for identity."""
        return self.sensor.conditions() if self.sensor else {}

    def power_contract(self) -> dict[str, Any]:
        """How watts are sampled, and from what."""
        return {**power_contract(self.sampling), "source": self.sensor.source if self.sensor else "none"}

    def power(self, task: Task, config: Config) -> Reading:
        """The watts of a candidate. See `txtdb.tune.power`.

        The cache is not flushed between calls: what is sampled is the candidate at work and nothing else.
        """
        if self.sensor is None:
            raise CandidateFault(Status.NOT_RUN, "the device's sensors cannot be read")
        sequence, sensor = replace(self._sequence(task, config), flush=False), self.sensor

        def run() -> Reading:
            self._load(task, config, sequence)
            seconds = median(times(self.stream, sequence, WARM_CALLS, WARM_CALLS)) * 1e-9
            return sample(TorchWork(sequence, self.stream), sensor, seconds, self.sampling, self._logged)

        reading: Reading = self._guarded(run)
        return reading

    def _load(self, task: Task, config: Config, sequence: Sequence) -> None:
        key = (task.iface, *task.functional.items(), *config.items())
        if key not in self._ready:
            sequence.launch()
            self.stream.wait()
            self._ready.add(key)

    def _tunable(self, iface: str) -> Tunable:
        """Looked for once: entry points are read from the files of every installed package, which takes 35 ms where
        there are 300 of them, ten times as long as a measurement."""
        if iface not in self._found:
            tunable = self.tunables(iface)
            if tunable is None:
                raise CandidateFault(Status.NOT_RUN, f"no tunable of {iface} is installed")
            self._found[iface] = tunable
        return self._found[iface]

    def _sequence(self, task: Task, config: Config) -> Sequence:
        tunable = self._tunable(task.iface)
        timed = self._timing(tunable, task)
        call = partial(tunable.call, task, config, timed.arguments)
        return Sequence(call, timed.restore, self.measurement.flush_cache)

    def _timing(self, tunable: Tunable, task: Task) -> _Timed:
        """What the task is timed with; that of the task before is let go."""
        problem = tunable.timing_problem(task, self.measurement.fill)
        key = _key(task, problem)
        if self._timed is None or self._timed.key != key:
            self._timed = None
            self._timed = self._guarded(lambda: _Timed.of(tunable, task, problem, key))
            assert self._timed
        return self._timed

    def _case(self, tunable: Tunable, task: Task, problem: Problem) -> _Case:
        """An accuracy case with what is right; those of another functional are let go."""
        key = _key(task, problem)
        if self._cases and next(iter(self._cases))[0] != key[0]:
            self._cases.clear()
        if key not in self._cases:
            self._cases[key] = self._guarded(lambda: _Case.of(tunable, task, problem))
        return self._cases[key]

    def _confirming(self, tunable: Tunable, task: Task) -> list[_Case]:
        """The cases that confirm a task; they are long, so that those of the task before are let go."""
        key = (task.iface, *task.functional.items(), *task.at.items())
        if self._confirmed is None or self._confirmed[0] != key:
            self._confirmed = None
            problems = tunable.confirmation_problems(task)
            self._confirmed = key, [self._guarded(partial(_Case.of, tunable, task, problem)) for problem in problems]
        return self._confirmed[1]

    def _guarded(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except RuntimeError as error:
            raise fault_of(error, Status.CRASH) from error


def _key(task: Task, problem: Problem) -> tuple[Any, ...]:
    functional = (task.iface, *task.functional.items())
    return functional, (*sorted(problem.sizes.items()),), problem.seed


@dataclass(frozen=True)
class _Timed:
    """Arguments as they are before the first call, and what puts them back to that."""

    key: tuple[Any, ...]
    arguments: Arguments
    restore: Callable[[], None]

    @staticmethod
    def of(tunable: Tunable, task: Task, problem: Problem, key: tuple[Any, ...]) -> _Timed:
        arguments = tunable.arguments(task, problem)
        return _Timed(key, arguments, _restoring(tunable, arguments))


@dataclass(frozen=True)
class _Case:
    arguments: Arguments
    truth: Mapping[str, torch.Tensor]
    tolerances: Mapping[str, float]
    restore: Callable[[], None]

    @staticmethod
    def of(tunable: Tunable, task: Task, problem: Problem) -> _Case:
        """Raises TunableFault for what would let a wrong kernel pass."""
        arguments = tunable.arguments(task, problem)
        check_reset(tunable, arguments)
        truth = tunable.reference(task, problem, arguments)
        check_names(tunable, truth, tunable.results(arguments))
        tolerances = {name: check_tolerance(tunable, tunable.tolerance(task, problem, name)) for name in truth}
        return _Case(arguments, truth, tolerances, _restoring(tunable, arguments))

    def error(self, tunable: Tunable, task: Task, config: Config) -> float:
        """The largest error of one call in units of the tolerance; NaN where it does not write all of its results."""
        kept = {*tunable.restored, *tunable.zeroed}
        for name, result in tunable.results(self.arguments).items():
            if name not in kept:
                result.fill_(math.nan)
        self.restore()
        tunable.call(task, config, self.arguments)
        results = tunable.results(self.arguments)
        errors = [_difference(results[name], truth) / self.tolerances[name] for name, truth in self.truth.items()]
        return float(torch.stack(errors).max())


def _difference(value: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The largest absolute difference. Equal infinities do not differ; NaN in either gives NaN, which `max` keeps."""
    value = value.to(truth.dtype)
    off = torch.where(value == truth, 0.0, (value - truth).abs())
    return off.max() if off.numel() else off.new_zeros(())


def _restoring(tunable: Tunable, arguments: Arguments) -> Callable[[], None]:
    """What puts arguments back to how they are before a call."""
    kept = [(arguments[name], arguments[name].clone()) for name in tunable.restored]
    zeroed = [arguments[name] for name in tunable.zeroed]

    def restore() -> None:
        for own, original in kept:
            own.copy_(original)
        for own in zeroed:
            own.zero_()

    return restore


@dataclass
class TorchWork:
    """A candidate's call for `txtdb.tune.power`: captured into a graph, or launched one by one."""

    sequence: Sequence
    stream: Stream
    _graph: Any = None

    def capture(self, calls: int) -> None:
        """Put so many calls into one graph. Raises CannotCapture where the call cannot be captured."""
        self.sequence.launch()
        self.stream.wait()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for _ in range(calls):
                    self.sequence.restore()
                    self.sequence.launch()
        except (RuntimeError, CandidateFault) as error:
            torch.cuda.synchronize()
            raise CannotCapture(" ".join(str(error).split())[:REASON_LENGTH]) from error
        self._graph = graph

    def replay(self) -> None:
        """Queue the graph."""
        self._graph.replay()

    def call(self) -> None:
        """Queue one call."""
        self.sequence.restore()
        self.sequence.launch()

    def mark(self) -> Mark:
        """Queue a mark."""
        return self.stream.mark()

    def wait(self) -> None:
        """Wait for all that is queued."""
        self.stream.wait()


def device_facts(index: int, sensor: Sensor | None) -> dict[str, Any]:
    """What the device is, equal as long as nobody changes its settings."""
    properties = torch.cuda.get_device_properties(index)
    facts: dict[str, Any] = {
        "name": properties.name,
        ARCH_FACT: arch_of(properties, bool(torch.version.hip)),
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
    }
    if not torch.version.hip:
        facts["compute_capability"] = f"{properties.major}.{properties.minor}"
    return facts | (sensor.facts() if sensor else {"sensor": "none"})


def arch_of(properties: Any, is_hip: bool) -> str:
    """The arch that a device is, as compilers name it: `gfx942` without feature suffixes, or `sm_90`."""
    if is_hip:
        return str(properties.gcnArchName).partition(":")[0]
    return f"sm_{properties.major}{properties.minor}"


def software_facts() -> dict[str, Any]:
    """Versions of what compiles and launches."""
    import triton

    runtime = {"hip": str(torch.version.hip)} if torch.version.hip else {"cuda": str(torch.version.cuda)}
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": str(triton.__version__),
        **runtime,
    }


def contract(measurement: Measurement) -> dict[str, Any]:
    """How times are taken; times of another contract are not comparable."""
    return {
        "method": "events around each call",
        "resolution_ns": EVENT_RESOLUTION_NS,
        "unit": "ns of device time per call",
        "cache": f"L2 replaced before each call, {FLUSH_BYTES >> 20} MiB or more"
        if measurement.flush_cache
        else "warm",
        "fill": measurement.fill,
        "arguments": "restored or zeroed before each call, outside of the time",
        "late_calls": "dropped and repeated",
    }


def _uuid(index: int) -> str:
    """The device as drivers name it, whatever its number is in this process."""
    return str(getattr(torch.cuda.get_device_properties(index), "uuid", "")) or str(index)


def open_gpu(text: str) -> GpuDevice:
    """The device of a text, see above. Raises ValueError for a setting that is not there, OSError without a GPU."""
    settings = dict(item.partition("=")[::2] for item in text.split(",") if item)
    unknown = set(settings) - {"index", "fill", "flush"}
    if unknown:
        raise ValueError(f"unknown setting `{min(unknown)}`; known are fill, flush, index")
    numbers = {name: int(value) for name, value in settings.items()}
    if not torch.cuda.is_available():
        raise OSError("there is no GPU that PyTorch can use")
    default = Measurement()
    measurement = Measurement(
        fill=numbers.get("fill", default.fill), flush_cache=bool(numbers.get("flush", default.flush_cache))
    )
    return GpuDevice(numbers.get("index", 0), measurement)
