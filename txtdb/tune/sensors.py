"""Power, energy, clocks and temperature of a GPU, as its driver tells them: NVML (NVIDIA) and AMD SMI (AMD).

Both are used through the vendors' own Python packages, `nvidia-ml-py` (module `pynvml`) and `amdsmi`, which are loaded
only here and only when they are asked for. The AMD half follows its documentation; it has never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable


class NoSensor(Exception):
    """The sensors of a device cannot be read here."""


class Sensor(Protocol):
    """The sensors of one device. Readings raise OSError when the driver does not answer."""

    @property
    def source(self) -> str:
        """Where watts come from, for the record."""

    def joules(self) -> float | None:
        """Energy since some moment, in steps; None where the device does not count it."""

    def watts(self) -> float:
        """Power as the device tells it, which may be a mean over the last second."""

    def throttle_reasons(self) -> frozenset[str]:
        """Why the device runs slower than its clocks and its power cap ask for, since this was last asked."""

    def conditions(self) -> dict[str, Any]:
        """Clocks in MHz, temperature in °C and power as they are now."""

    def facts(self) -> dict[str, Any]:
        """What stays as it is while nobody changes settings: driver, highest clocks, power cap in W."""


@runtime_checkable
class ClockSettings(Protocol):
    """The settings of one device that a run may change."""

    def clock_mhz(self) -> int:
        """The processors' clock that the device runs at now."""

    def lock_clock(self, mhz: int) -> None:
        """Ask for one clock; the device may take another that it supports."""

    def free_clock(self) -> None:
        """Leave the clock to the device."""

    def power_cap_w(self) -> float:
        """The cap that was set."""

    def set_power_cap(self, watts: float) -> None:
        """Set the cap."""


# Reasons that tell of a device that is not well. The power cap is not one: it is a setting, and heavy kernels reach it.
_NVML_REASONS = {
    "hardware slowdown": "nvmlClocksEventReasonHwSlowdown",
    "thermal, by software": "nvmlClocksEventReasonSwThermalSlowdown",
    "thermal, by hardware": "nvmlClocksEventReasonHwThermalSlowdown",
    "power brake": "nvmlClocksEventReasonHwPowerBrakeSlowdown",
}
_THERMAL_POLICY = "NVML_PERF_POLICY_THERMAL"


class NvmlSensor:
    """One device through NVML. (NVML API Reference Guide, "Device Queries" and "Device Commands".)"""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._has_counter = self._optional("nvmlDeviceGetTotalEnergyConsumption") is not None
        self._thermal_ns = self._thermal()

    @property
    def source(self) -> str:
        """Which of the two ways watts come from."""
        return "NVML total energy counter" if self._has_counter else "NVML power readings"

    def joules(self) -> float | None:
        """Joules since the driver was loaded."""
        return self._ask("nvmlDeviceGetTotalEnergyConsumption") / 1e3 if self._has_counter else None

    def watts(self) -> float:
        """Watts, a mean over up to a second."""
        return float(self._ask("nvmlDeviceGetPowerUsage")) / 1e3

    def throttle_reasons(self) -> frozenset[str]:
        """What holds the device back."""
        bits = int(self._optional("nvmlDeviceGetCurrentClocksEventReasons") or 0)
        found = {reason for reason, name in _NVML_REASONS.items() if bits & int(getattr(self._nvml, name, 0))}
        before, self._thermal_ns = self._thermal_ns, self._thermal()
        if self._thermal_ns > before:
            found.add("thermal")
        return frozenset(found)

    def conditions(self) -> dict[str, Any]:
        """What can be read of clocks, temperature and power."""
        nvml = self._nvml
        readings = {
            "sm_mhz": self._optional("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "memory_mhz": self._optional("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            "celsius": self._optional("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            "watts": _thousandth(self._optional("nvmlDeviceGetPowerUsage")),
            "clock_event_reasons": self._optional("nvmlDeviceGetCurrentClocksEventReasons"),
        }
        return {name: value for name, value in readings.items() if value is not None}

    def facts(self) -> dict[str, Any]:
        """Driver, highest clocks, power cap."""
        nvml = self._nvml
        readings = {
            "driver": _text(nvml.nvmlSystemGetDriverVersion()),
            "most_sm_mhz": self._optional("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            "most_memory_mhz": self._optional("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
            "power_cap_w": _thousandth(self._optional("nvmlDeviceGetEnforcedPowerLimit")),
            "sensor": self.source,
        }
        return {name: value for name, value in readings.items() if value is not None}

    def clock_mhz(self) -> int:
        """The clock of the device's processors."""
        return int(self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM))

    def lock_clock(self, mhz: int) -> None:
        """Ask for one clock."""
        self._ask("nvmlDeviceSetGpuLockedClocks", mhz, mhz)

    def free_clock(self) -> None:
        """Take back all locks."""
        self._ask("nvmlDeviceResetGpuLockedClocks")

    def power_cap_w(self) -> float:
        """The cap that was set."""
        return float(self._ask("nvmlDeviceGetPowerManagementLimit")) / 1e3

    def set_power_cap(self, watts: float) -> None:
        """Set the cap."""
        self._ask("nvmlDeviceSetPowerManagementLimit", round(watts * 1e3))

    def _thermal(self) -> int:
        """Nanoseconds that the device has lost to heat so far; 0 where it does not count them."""
        policy = getattr(self._nvml, _THERMAL_POLICY, None)
        status = None if policy is None else self._optional("nvmlDeviceGetViolationStatus", policy)
        return 0 if status is None else int(status.violationTime)

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            raise OSError(f"{name}: {error}") from error

    def _optional(self, name: str, *arguments: Any) -> Any:
        """An answer that not every driver and device has."""
        try:
            return self._ask(name, *arguments)
        except (OSError, AttributeError):
            return None


class AmdSensor:
    """One device through AMD SMI. (AMD SMI Python API: `amdsmi_get_energy_count`, `amdsmi_get_power_info`, …)

    Written by the documentation, never run.
    """

    source = "AMD SMI energy accumulator"

    def __init__(self, smi: Any, handle: Any) -> None:
        self._smi, self._handle = smi, handle

    def joules(self) -> float | None:
        """Joules since the driver was loaded."""
        count = self._ask("amdsmi_get_energy_count")
        return float(count["energy_accumulator"]) * float(count["counter_resolution"]) / 1e6

    def watts(self) -> float:
        """Watts, a mean over up to a second."""
        power = self._ask("amdsmi_get_power_info")
        known = (power.get(name) for name in ("current_socket_power", "average_socket_power"))
        return float(next(value for value in known if isinstance(value, int | float)))

    def throttle_reasons(self) -> frozenset[str]:
        """What holds the device back."""
        metrics = self._ask("amdsmi_get_gpu_metrics_info")
        status = metrics.get("throttle_status")
        return frozenset({"throttle status"}) if status is True or (isinstance(status, int) and status) else frozenset()

    def conditions(self) -> dict[str, Any]:
        """What can be read of clocks, temperature and power."""
        smi = self._smi
        clock = self._ask("amdsmi_get_clock_info", smi.AmdSmiClkType.GFX)
        hot, now = smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        return {
            "sm_mhz": clock["clk"],
            "celsius": self._ask("amdsmi_get_temp_metric", hot, now),
            "watts": self.watts(),
        }

    def facts(self) -> dict[str, Any]:
        """Driver, highest clocks, power cap."""
        clock = self._ask("amdsmi_get_clock_info", self._smi.AmdSmiClkType.GFX)
        driver = self._ask("amdsmi_get_gpu_driver_info")
        cap = self._ask("amdsmi_get_power_cap_info")
        return {
            "driver": driver["driver_version"],
            "most_sm_mhz": clock["max_clk"],
            "power_cap_w": float(cap["power_cap"]) / 1e6,
            "sensor": self.source,
        }

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._smi, name)(self._handle, *arguments)
        except self._smi.AmdSmiException as error:
            raise OSError(f"{name}: {error}") from error


def open_sensor(device: str, amd: bool) -> NvmlSensor | AmdSensor:
    """The sensors of the device with a UUID (with or without the vendor's prefix), or a number.

    Raises NoSensor when the vendor's package is missing, its library does not start, or the device is not there.
    """
    try:
        return _open_amd(device) if amd else open_nvml(import_module("pynvml"), device)
    except ImportError as error:
        package = "amdsmi" if amd else "nvidia-ml-py"
        raise NoSensor(f"install the package {package} to read sensors") from error


def open_nvml(nvml: Any, device: str) -> NvmlSensor:
    """The device through NVML; see `open_sensor`."""
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        names = {_text(nvml.nvmlDeviceGetUUID(handle)): handle for handle in handles}
    except nvml.NVMLError as error:
        raise NoSensor(f"NVML: {error}") from error
    return NvmlSensor(nvml, _chosen(device, names))


def _open_amd(device: str) -> AmdSensor:
    smi = import_module("amdsmi")
    try:
        smi.amdsmi_init()
        names = {str(smi.amdsmi_get_gpu_device_uuid(handle)): handle for handle in smi.amdsmi_get_processor_handles()}
    except smi.AmdSmiException as error:
        raise NoSensor(f"AMD SMI: {error}") from error
    return AmdSensor(smi, _chosen(device, names))


def _chosen(device: str, handles: Mapping[str, Any]) -> Any:
    """The handle of a UUID or number."""
    if device.isdigit():
        found = list(handles.values())[int(device) : int(device) + 1]
    else:
        found = [handle for name, handle in handles.items() if device and name.lower().endswith(device.lower())]
    if len(found) != 1:
        raise NoSensor(f"no device {device} has sensors here")
    return found[0]


def _text(value: Any) -> str:
    """Older packages answer with bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _thousandth(value: Any) -> float | None:
    return None if value is None else float(value) / 1e3
