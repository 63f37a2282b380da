"""A worker process: it owns a device and answers requests, one JSON line each, until its input ends.

    python -m txtdb.tune.worker DEVICE [--measure]

With `--measure` the device is made ready to run candidates before that is said; without, it compiles alone.
The first line that it writes is `{"ready": true}`, or `{"missing": text}` when there is no such device. A request is
`{"ask": name, …, "limit_s": seconds}`, with one of the names of `_ANSWERS`; its answer is `{"value": …}`, or
`{"status": …, "detail": …}` where the candidate is at fault.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import entry_points
from typing import IO, Any

from txtdb.model.evidence import Reading, Status
from txtdb.tune.device import CandidateFault, Config, Device, Task
from txtdb.tune.devices import DeviceMissing, open_device
from txtdb.tune.shield import end_with_parent
from txtdb.tune.tunable import TUNABLES_GROUP
from txtdb.tune.tunable_faults import lines_passed

# How much longer than its limit a request lives when nobody ends it: the tuner is gone, or its signal was lost.
_GRACE_S = 5.0
MEASURE = "--measure"


def main(arguments: list[str]) -> int:
    """Serve until the input ends; the exit code is 2 where there is no device."""
    end_with_parent()
    requests, answers = _own_pipes()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    try:
        device = open_device(arguments[0])
        if MEASURE in arguments:
            _optional(device, "wake")
    except DeviceMissing as error:
        _answer(answers, {"missing": str(error)})
        return 2
    _answer(answers, {"ready": True})
    while True:
        request = json.loads(lines.get())
        faulthandler.dump_traceback_later(request["limit_s"] + _GRACE_S, exit=True)
        _answer(answers, _served(device, request))
        faulthandler.cancel_dump_traceback_later()


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the tuner, kept from what kernels and compilers read and print."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, answers


def _read(requests: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Take requests as they come. At the end of the input nobody waits for an answer any more."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def _answer(answers: IO[bytes], message: Mapping[str, Any]) -> None:
    """Half characters, which names of files may have and no journal takes, are replaced."""
    answers.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    answers.flush()


def _served(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    ask = request["ask"]
    try:
        return {"value": _ANSWERS[ask](device, request)}
    except CandidateFault as fault:
        return {"status": fault.status, "detail": fault.detail}
    except MemoryError as error:
        return {"status": Status.OUT_OF_RESOURCES, "detail": _told(error)}
    except Exception as error:  # whatever a candidate's code raises costs the candidate, not the run
        status = Status.COMPILE_ERROR if ask == "compile" else Status.CRASH
        return {"status": status, "detail": f"{_told(error)}{_place(error)}"}


def _place(error: BaseException) -> str:
    """The line of a tunable that raised; empty for what another's code did."""
    packages = {point.module.partition(".")[0] for point in entry_points(group=TUNABLES_GROUP)}
    own = [(name, line) for name, line in lines_passed(error) if name.partition(".")[0] in packages]
    return f" ({own[-1][0]}, line {own[-1][1]})" if own else ""


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().removesuffix(":")


def _facts(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(device.facts(request["iface"]))


def _sources(device: Device, request: Mapping[str, Any]) -> list[str]:
    """Digests of what functionals compile, of a device that can tell."""
    found: list[str] = _optional(device, "sources", request["iface"], request["functionals"]) or []
    return found


def _optional(device: Device, name: str, *given: Any) -> Any:
    """What a method gives that not every device has; None where it is not there."""
    method: Callable[..., Any] | None = getattr(device, name, None)
    return None if method is None else method(*given)


def _conditions(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    """Clocks, temperature and power of now, of a device that can tell."""
    found: dict[str, Any] = _optional(device, "conditions") or {}
    return found


def _sensor(device: Device, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """By what name the tuner finds the device's sensors; None for a device without."""
    found: dict[str, Any] | None = _optional(device, "sensor_name")
    return found


def _prepare(device: Device, request: Mapping[str, Any]) -> None:
    _optional(device, "prepare", Task(**request["task"]), request["for"])


def _compile(device: Device, request: Mapping[str, Any]) -> None:
    device.compile(*_candidate(request))


def _check(device: Device, request: Mapping[str, Any]) -> str:
    """As a text, which says all numbers, NaN too, and every digit."""
    return repr(float(device.check(*_candidate(request))))


def _confirm(device: Device, request: Mapping[str, Any]) -> str:
    return repr(float(device.confirm(*_candidate(request))))


def _time(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    given = (request["warm_up"], request["calls"], request["number"])
    times = device.time(*_candidate(request), *given)
    return {"times": [repr(float(time)) for time in times], "throttled": bool(device.throttled())}


def _power(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    power: Callable[[Task, Config], Reading] | None = getattr(device, "power", None)
    if power is None:
        raise CandidateFault(Status.NOT_RUN, "the device has no power sensor")
    return asdict(power(*_candidate(request)))


def _power_contract(device: Device, request: Mapping[str, Any]) -> dict[str, Any]:
    """How the device takes watts; asked for where energy decides."""
    found: dict[str, Any] = _optional(device, "power_contract") or {}
    return found


def _candidate(request: Mapping[str, Any]) -> tuple[Task, Config]:
    return Task(**request["task"]), request["config"]


_ANSWERS: Mapping[str, Callable[[Device, Mapping[str, Any]], Any]] = {
    "facts": _facts,
    "sources": _sources,
    "conditions": _conditions,
    "sensor": _sensor,
    "prepare": _prepare,
    "compile": _compile,
    "check": _check,
    "confirm": _confirm,
    "time": _time,
    "power": _power,
    "power_contract": _power_contract,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
