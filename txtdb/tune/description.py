"""The description of a simulated device: plain JSON → records, strictly.

```json
{
  "seed": 1,
  "noise": {"call_pct": 1.0, "outlier_share": 0.01, "drift_pct": 5.0, "warm_up_calls": 5, "warm_up_factor": 1.3},
  "cells": [
    {
      "functional": {"dtype": "fp16"}, "at": {"seqlen_q": 64},
      "candidates": [
        {"config": {"block_m": 64}, "ns": 10000.0, "error": 0.1, "watts": 300.0},
        {"config": {"block_m": 32}, "ns": 12000.0, "faults": [{"stage": "time", "kind": "hang"}]}
      ]
    }
  ]
}
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, get_type_hints

from txtdb.faults import Fault, Span
from txtdb.model.evidence import Status
from txtdb.model.toml import shown
from txtdb.model.values import Value
from txtdb.wording import did_you_mean

RULE = "simulated-device"


class Stage(StrEnum):
    """When a fault strikes."""

    COMPILE = "compile"
    CHECK = "check"
    CONFIRM = "confirm"  # a check at another size of the cell's bin
    TIME = "time"
    POWER = "power"  # a reading of the watts


class Kind(StrEnum):
    """What a fault does."""

    FAULT = "fault"  # CandidateFault with `status` and `message`
    RAISE = "raise"  # the exception class `exception`; a name that Python does not know makes a new Exception
    HANG = "hang"  # never returns
    ABORT = "abort"  # os.abort
    KILL = "kill"  # SIGKILL of the own process
    KILL_PARENT = "kill-parent"  # SIGKILL of the tuner; only where the description says `may_kill_parent`
    VALUE = "value"  # times, the error or the watts are `value`
    THROTTLE = "throttle"  # times are doubled and the device says that it throttled
    EAGER = "eager"  # the call cannot be captured into a graph, because of `message`; at the stage `power`


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """A fault. At the stage `time` it strikes from measurement `first` to `last`, as `Device.time` numbers them.

    At the stage `power` one that throttles strikes from window `first` to `last` of the candidate's reading.
    """

    stage: Stage
    kind: Kind
    exception: str = "RuntimeError"
    message: str = "simulated"
    status: Status = Status.CRASH
    value: float = 0.0
    first: int = 0
    last: int = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """The truth of one config: nanoseconds of a call, the error of its results in tolerances, watts."""

    config: Mapping[str, Value]
    ns: float
    error: float = 0.0
    watts: float = 100.0
    faults: tuple[SimulatedFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell with all the candidates that may be asked for. `in_place`: its kernels change their arguments.

    `at` names a bin: results are as right at the sizes that it is the next bin for, of those described.
    """

    functional: Mapping[str, Value]
    at: Mapping[str, int]
    candidates: tuple[Candidate, ...]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Noise:
    """What stands between the truth and a sample. Percentages are of the time.

    Calls are log-normal with standard deviation `call_pct`; a share of them is slower by a Pareto variable with
    exponent `outlier_exponent` from `outlier_least_pct`, cut at `outlier_most_pct`. Times swing by ± `drift_pct`
    within `drift_period` measurements and grow by `trend_pct` per measurement. The first `warm_up_calls` calls of a
    measurement are slower by `warm_up_factor`. A timer with steps of `quantum_ns` cuts off (0: it has none).
    """

    call_pct: float = 1.0
    outlier_share: float = 0.01
    outlier_exponent: float = 1.5
    outlier_least_pct: float = 20.0
    outlier_most_pct: float = 500.0
    drift_pct: float = 0.0
    drift_period: float = 20.0
    trend_pct: float = 0.0
    warm_up_calls: int = 0
    warm_up_factor: float = 1.0
    quantum_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Sensor:
    """The sensor of the device's power.

    It changes every `update_s` seconds but for a share of `dropped_share` of its updates, and shows what was `lag_s`
    seconds ago, with normal noise of `noise_pct` percent for each update: joules since some moment, or without
    `counts_energy` the mean watts since the update before. The device draws `idle_watts` between calls, each of which
    takes the host `launch_us` microseconds.
    """

    update_s: float = 0.1
    lag_s: float = 0.05
    noise_pct: float = 0.5
    dropped_share: float = 0.0
    counts_energy: bool = True
    idle_watts: float = 50.0
    launch_us: float = 20.0


@dataclass(frozen=True, slots=True)
class Description:
    """A simulated device. `device`, `software`, `contract` and `source` are what it tells of itself."""

    cells: tuple[Cell, ...]
    seed: int = 0
    noise: Noise = Noise()
    sensor: Sensor = Sensor()
    may_kill_parent: bool = False
    device: Mapping[str, Any] = field(default_factory=lambda: {"name": "simulated"})
    software: Mapping[str, Any] = field(default_factory=lambda: {"simulation": 1})
    contract: Mapping[str, Any] = field(default_factory=lambda: {"method": "simulated"})
    source: str = "simulated"


def parse_description(text: str, file: str) -> tuple[Description | None, list[Fault]]:
    """The description that a JSON text holds; None with the faults where it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, [Fault(RULE, Span(file), f"no valid JSON: {error}")]
    return read_description(data, file)


def read_description(data: object, file: str = "simulation") -> tuple[Description | None, list[Fault]]:
    """The same from decoded JSON."""
    reader = _Reader(file)
    found = reader.record(Description, data, "description")
    if found:
        _check(found, reader)
    return (None if reader.faults else found), reader.faults


def _check(description: Description, reader: _Reader) -> None:
    for name in ("noise.drift_period", "noise.outlier_exponent", "sensor.update_s", "sensor.launch_us"):
        if not attrgetter(name)(description) > 0:
            reader.fault(f"description.{name} must be above 0")
    if not description.may_kill_parent and Kind.KILL_PARENT in {fault.kind for fault in _faults(description)}:
        reader.fault("a fault kills the parent process", 'say `"may_kill_parent": true` if that is meant')
    if any(fault.kind is Kind.EAGER and fault.stage is not Stage.POWER for fault in _faults(description)):
        reader.fault("a fault is `eager`, and not at the stage `power`", "only readings of power use graphs")
    if any(fault.kind is Kind.FAULT and fault.status is Status.OK for fault in _faults(description)):
        reader.fault("a fault has the status ok", "a candidate at fault is anything else")
    reader.unlike([(cell.functional, cell.at) for cell in description.cells], "description.cells")
    for number, cell in enumerate(description.cells):
        reader.unlike([candidate.config for candidate in cell.candidates], f"description.cells[{number}].candidates")


def _faults(description: Description) -> Iterator[SimulatedFault]:
    candidates = (candidate for cell in description.cells for candidate in cell.candidates)
    return (fault for candidate in candidates for fault in candidate.faults)


_LISTS = {"cells": Cell, "candidates": Candidate, "faults": SimulatedFault}


class _Reader:
    """JSON → records by their annotations; what is wrong is collected."""

    def __init__(self, file: str) -> None:
        self.span = Span(file)
        self.faults: list[Fault] = []

    def fault(self, message: str, hint: str = "") -> None:
        self.faults.append(Fault(RULE, self.span, message, hint))

    def unlike(self, items: list[Any], where: str) -> None:
        seen = set()
        for number, item in enumerate(items):
            text = json.dumps(item, sort_keys=True)
            if text in seen:
                self.fault(f"{where}[{number}] is there twice")
            seen.add(text)

    def record(self, kind: Any, data: object, where: str) -> Any:
        if not isinstance(data, Mapping):
            self.fault(f"{where} must be an object, not {shown(data)}")
            return None
        known = {item.name: item for item in fields(kind)}
        for name in data:
            if name not in known:
                hint = f"{did_you_mean(str(name), known)}known are {', '.join(known)}"
                self.fault(f"{where}: unknown name `{name}`", hint)
        hints = get_type_hints(kind)
        given = {name: self.value(name, hints[name], data[name], f"{where}.{name}") for name in known if name in data}
        missing = [name for name, item in known.items() if name not in data and _is_required(item)]
        for name in missing:
            self.fault(f"{where}.{name} is missing")
        return None if missing or None in given.values() else kind(**given)

    def value(self, name: str, hint: Any, data: object, where: str) -> Any:
        if name in _LISTS:
            return self.items(_LISTS[name], data, where)
        if hint in (Noise, Sensor):
            return self.record(hint, data, where)
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return self.choice(hint, data, where)
        if hint is float:
            return self.number(data, where)
        expected = dict if hint not in (int, bool, str) else hint
        return data if type(data) is expected else self.fault(f"{where} must be of type {_spoken(expected)}")

    def items(self, kind: Any, data: object, where: str) -> tuple[Any, ...] | None:
        if not isinstance(data, list | tuple):
            self.fault(f"{where} must be a list")
            return None
        found = tuple(self.record(kind, item, f"{where}[{number}]") for number, item in enumerate(data))
        return None if None in found else found

    def choice(self, kind: type[StrEnum], data: object, where: str) -> StrEnum | None:
        if isinstance(data, str) and data in list(kind):
            return kind(data)
        self.fault(f"{where} is {shown(data)}", f"{did_you_mean(str(data), list(kind))}known are {', '.join(kind)}")
        return None

    def number(self, data: object, where: str) -> float | None:
        """A number; `"nan"`, `"inf"` and `"-inf"`, which JSON lacks, are texts."""
        if isinstance(data, int | float | str) and (data in ("nan", "inf", "-inf") or type(data) in (int, float)):
            with suppress(OverflowError):
                return float(data)
        self.fault(f"{where} must be a number, not {shown(data)}")
        return None


def _is_required(item: Any) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _spoken(kind: type) -> str:
    return "object" if kind is dict else kind.__name__
