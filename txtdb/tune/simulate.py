"""A simulated device: latencies, noise, drift, faults and power from a description. It proves nothing about hardware.

Samples are a function of the description's seed, the cell, the config and the number of the measurement alone: a run
that was killed and resumed sees the samples of an undisturbed one. Time is simulated: only a hang takes any. What the
description does not hold is not answered.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import math
import multiprocessing
import os
import random
import signal
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

from txtdb.faults import Fault, Span
from txtdb.model.evidence import Reading, Status
from txtdb.model.values import Value
from txtdb.tune.description import Candidate, Cell, Description, Kind, Noise, SimulatedFault, Stage, parse_description
from txtdb.tune.device import CandidateFault, Config, DeviceFacts, Task
from txtdb.tune.power import Sampling, power_contract, sample
from txtdb.tune.simulated_power import SimulatedSensor, SimulatedWork, Timeline

_NORMAL = NormalDist()
# Random numbers of a call: noise, outlier or not, its size.
_DRAWS = 3


class NotDescribed(LookupError):
    """The description does not hold what was asked for."""


def open_simulated(path: str) -> SimulatedDevice:
    """The device that a JSON file describes. Raises OSError where it cannot be read, ValueError with its faults."""
    description, faults = parse_description(Path(path).read_text(encoding="utf-8"), path)
    if description is None:
        raise ValueError("\n".join(map(str, faults)))
    return SimulatedDevice(description)


def find_simulated(path: str) -> SimulatedDevice | list[Fault]:
    """The same with what is wrong as faults, those of a file that cannot be read among them."""
    if not path:
        return [Fault("unreadable", Span("--device"), "no description is named", "say simulated:FILE")]
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "--device simulated:FILE names the description of a device"
        return [Fault("unreadable", Span(path), f"the file cannot be read: {reason}", hint)]
    description, faults = parse_description(text, path)
    return faults if description is None else SimulatedDevice(description)


class SimulatedDevice:
    """Implements `txtdb.tune.device.Device`.

    `calls` counts the calls of kernels, warm-up and accuracy cases included; `resets` how often arguments of kernels
    that change them were restored.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.calls = 0
        self.resets = 0
        self.sampling = Sampling()
        self._throttled = False
        self._logged: set[str] = set()
        self._cells = {cell_label(cell.functional, cell.at): cell for cell in description.cells}
        self._candidates = {
            (label, _text(candidate.config)): candidate
            for label, cell in self._cells.items()
            for candidate in cell.candidates
        }

    def facts(self, iface: str) -> DeviceFacts:
        """What the description says; the same for each interface."""
        given = self.description
        contract = {**given.contract, "seed": given.seed}
        return DeviceFacts(given.device, given.software, contract, given.source)

    def compile(self, task: Task, config: Config) -> None:
        """Strikes faults of the stage `compile`."""
        self._strike(self._candidate(task, config), Stage.COMPILE, 0)

    def check(self, task: Task, config: Config) -> float:
        """The error that the description gives, in units of the tolerance."""
        return self._error(task, config, Stage.CHECK)

    def confirm(self, task: Task, config: Config) -> float:
        """The same for all sizes of a cell's bin: those that are no described cell fall into the next one."""
        return self._error(self._in_bin(task), config, Stage.CONFIRM)

    def _error(self, task: Task, config: Config, stage: Stage) -> float:
        candidate = self._candidate(task, config)
        value = self._strike(candidate, stage, 0)
        self._call(self._cell(task), 1)
        return candidate.error if value is None else value

    def time(self, task: Task, config: Config, warm_up: int, calls: int, number: int) -> list[float]:
        """Samples of the measurement with this number."""
        candidate = self._candidate(task, config)
        value = self._strike(candidate, Stage.TIME, number)
        self._call(self._cell(task), warm_up + calls)
        if value is not None:
            return [value] * calls
        slower = 2.0 if self._throttled else 1.0
        stream = _stream(self.description.seed, cell_label(task.functional, task.at), _text(config), str(number))
        return samples(candidate.ns * slower, self.description.noise, stream, warm_up, calls, number)

    def lack(self, task: Task, configs: Iterable[Config]) -> str:
        """What it lacks where it can measure none of these candidates of a task; else an empty text."""
        label = cell_label(task.functional, task.at)
        if label not in self._cells:
            return f"no cell {label}"
        is_described = any((label, _text(one)) in self._candidates for one in configs)
        return "" if is_described else f"none of the candidates in cell {label}"

    def throttled(self) -> bool:
        """Whether a fault of the kind `throttle` struck since this was last asked."""
        found, self._throttled = self._throttled, False
        return found

    def watts(self, task: Task, config: Config) -> float:
        """The true power of a config."""
        return self._candidate(task, config).watts

    def power(self, task: Task, config: Config) -> Reading:
        """The watts of a candidate, sampled as on a GPU; implements `txtdb.tune.power.Powered`.

        A reading of its own has a stream of its own: it is the same whenever it is taken.
        """
        candidate, model = self._candidate(task, config), self.description.sensor
        value = self._strike(candidate, Stage.POWER, 0)
        faults = [fault for fault in candidate.faults if fault.stage is Stage.POWER]
        timeline = Timeline(candidate.watts if value is None else value, model.idle_watts)
        refusal = next((fault.message for fault in faults if fault.kind is Kind.EAGER), "")
        seconds = candidate.ns * 1e-9
        work = SimulatedWork(timeline, seconds, model.launch_us * 1e-6, refusal)
        stream = _stream(self.description.seed, cell_label(task.functional, task.at), _text(config), Stage.POWER)
        sensor = SimulatedSensor(model, timeline, stream, partial(_throttles, faults))
        return sample(work, sensor, seconds, self.sampling, self._logged, timeline.surroundings)

    def power_contract(self) -> dict[str, Any]:
        """How watts are sampled, and the sensor."""
        return {**power_contract(self.sampling), "sensor": asdict(self.description.sensor)}

    def _in_bin(self, task: Task) -> Task:
        """The task of the cell that answers for these sizes: on each axis the next bin of those described."""
        if cell_label(task.functional, task.at) in self._cells:
            return task
        alike = [cell.at for cell in self.description.cells if dict(cell.functional) == dict(task.functional)]
        above = {axis: [at[axis] for at in alike if at.get(axis, 0) >= size] for axis, size in task.at.items()}
        return replace(task, at={axis: min(bins, default=task.at[axis]) for axis, bins in above.items()})

    def _cell(self, task: Task) -> Cell:
        label = cell_label(task.functional, task.at)
        if label not in self._cells:
            raise NotDescribed(f"the simulated device has no cell {label}")
        return self._cells[label]

    def _candidate(self, task: Task, config: Config) -> Candidate:
        self._cell(task)
        label, text = cell_label(task.functional, task.at), _text(config)
        if (label, text) not in self._candidates:
            raise NotDescribed(f"the simulated device has no candidate {text} in cell {label}")
        return self._candidates[label, text]

    def _call(self, cell: Cell, count: int) -> None:
        self.calls += count
        self.resets += count * cell.in_place

    def _strike(self, candidate: Candidate, stage: Stage, number: int) -> float | None:
        """Strike what faults are due; the value that stands for the result, if any."""
        value = None
        for fault in candidate.faults:
            if fault.stage is stage and (stage is not Stage.TIME or fault.first <= number <= fault.last):
                self._throttled |= fault.kind is Kind.THROTTLE and stage is not Stage.POWER
                value = fault.value if fault.kind is Kind.VALUE else value
                _strike(fault)
        return value


def _throttles(faults: Sequence[SimulatedFault], window: int) -> bool:
    """Whether a fault of a reading's throttles in one of its windows."""
    return any(fault.kind is Kind.THROTTLE and fault.first <= window <= fault.last for fault in faults)


def cell_label(functional: Mapping[str, Value], at: Mapping[str, int]) -> str:
    """One text per cell, whatever the order of the names."""
    return f"{_text(functional)} {_text(at)}"


def samples(ns: float, noise: Noise, stream: random.Random, warm_up: int, calls: int, number: int) -> list[float]:
    """Times of `calls` calls of a kernel that takes `ns`, after `warm_up` untimed ones, in the given measurement.

    The place of a measurement within its block is random: clocks drift between the entrants of a block too.
    """
    moment = number + stream.random()
    swing = noise.drift_pct / 100 * math.sin(2 * math.pi * moment / noise.drift_period)
    pace = ns * (1 + swing) * (1 + noise.trend_pct / 100 * moment)
    found = []
    for index in range(warm_up, warm_up + calls):
        draws = [stream.random() for _ in range(_DRAWS)]
        cold = noise.warm_up_factor if index < noise.warm_up_calls else 1.0
        found.append(_on_timer(pace * cold * _factor(noise, *draws), noise.quantum_ns))
    return found


def _factor(noise: Noise, normal: float, is_outlier: float, size: float) -> float:
    """What noise makes of a call, from three numbers uniform in [0, 1)."""
    factor = math.exp(noise.call_pct / 100 * _NORMAL.inv_cdf(max(normal, 1e-300)))
    if is_outlier >= noise.outlier_share:
        return factor
    slower = noise.outlier_least_pct * math.pow(1 - size, -1 / noise.outlier_exponent)
    return factor * (1 + min(slower, noise.outlier_most_pct) / 100)


def _on_timer(time_ns: float, quantum_ns: float) -> float:
    return math.floor(time_ns / quantum_ns) * quantum_ns if quantum_ns else time_ns


def _stream(seed: int, *names: str) -> random.Random:
    digest = hashlib.sha256("\n".join([str(seed), *names]).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def _text(values: Mapping[str, Value]) -> str:
    return json.dumps(dict(values), sort_keys=True)


def _strike(fault: SimulatedFault) -> None:
    """What ends the call, the process or its parent; other kinds do nothing here."""
    match fault.kind:
        case Kind.FAULT:
            raise CandidateFault(fault.status, fault.message)
        case Kind.RAISE:
            raise _exception(fault.exception)(fault.message)
        case Kind.HANG:
            while True:
                clock.sleep(3600)
        case Kind.ABORT:
            os.abort()
        case Kind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Kind.KILL_PARENT:
            parent = multiprocessing.parent_process()
            os.kill(parent.pid if parent and parent.pid else os.getppid(), signal.SIGKILL)
            raise CandidateFault(Status.CRASH, fault.message)
        case Kind.VALUE | Kind.THROTTLE | Kind.EAGER:
            pass


def _exception(name: str) -> type[BaseException]:
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return known
    return type(name, (Exception,), {})
