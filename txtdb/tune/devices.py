"""The device that a text names: `simulated:FILE`, or one of the entry-point group `txtdb.devices` with what follows."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from txtdb.evidence.policy import Measurement
from txtdb.tune.device import Device
from txtdb.wording import did_you_mean

DEVICES_GROUP = "txtdb.devices"

# name → module and function of this package: text after the colon → Device
_OWN = {"simulated": ("txtdb.tune.simulate", "open_simulated"), "gpu": ("txtdb.tune.gpu", "open_gpu")}
_MEMBERS = ("facts", "compile", "check", "confirm", "time", "throttled")


class DeviceMissing(Exception):
    """There is no such device here, or it cannot be used."""


def device_names() -> list[str]:
    """What a text can name, sorted; nothing is loaded."""
    return sorted({*_OWN, *(point.name for point in entry_points(group=DEVICES_GROUP))})


def runs_kernels(text: str) -> bool:
    """Whether a device runs the kernels of a tunable; the simulated one answers from its description."""
    return simulation_of(text) is None


def needs_tunable(text: str) -> bool:
    """Whether a device can do nothing without a tunable."""
    return text.partition(":")[0] == "gpu"


def open_device(text: str) -> Device:
    """Open a device in this process. Raises DeviceMissing with what is wrong."""
    name, _, rest = text.partition(":")
    try:
        device = _factory(name)(rest)
    except (OSError, ValueError, ImportError) as error:
        raise DeviceMissing(f"device {text}: {_said(error)}") from error
    missing = [member for member in _MEMBERS if not hasattr(device, member)]
    if missing:
        raise DeviceMissing(f"device {text} has no {', '.join(missing)}")
    return device


def _said(error: Exception) -> str:
    """An error for people: the file and why, without a number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def simulation_of(text: str) -> str | None:
    """The file that describes a simulated device; None for a device of another kind."""
    name, _, rest = text.partition(":")
    return rest if name == "simulated" else None


def with_measurement(text: str, measurement: Measurement) -> str:
    """The text for a device that measures as a policy says; a setting that the text has stays."""
    name, _, rest = text.partition(":")
    if name != "gpu":
        return text
    wanted = {"fill": measurement.fill, "flush": int(measurement.flush_cache)}
    given = [item for item in rest.split(",") if item]
    known = {item.partition("=")[0] for item in given}
    return f"gpu:{','.join([*given, *(f'{key}={value}' for key, value in wanted.items() if key not in known)])}"


def known_device(text: str) -> None:
    """Raises DeviceMissing where nothing here has the name that a text begins with; nothing is loaded."""
    name, known = text.partition(":")[0], device_names()
    if name not in known:
        raise DeviceMissing(f"no device is called `{name}`; {did_you_mean(name, known)}known are {', '.join(known)}")


def _factory(name: str) -> Callable[[str], Device]:
    known_device(name)
    if name in _OWN:
        module, function = _OWN[name]
        own: Callable[[str], Device] = getattr(import_module(module), function)
        return own
    points = sorted(entry_points(group=DEVICES_GROUP, name=name), key=lambda point: point.value)
    offered: Callable[[str], Device] = points[0].load()
    return offered
