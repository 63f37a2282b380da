"""The vendors' libraries through stand-ins: which of their functions are called, and what is made of the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from txtdb.tune.sensors import AmdSensor, NoSensor, open_nvml

UUIDS = ["GPU-aaaa-1", "GPU-bbbb-2"]


class NvmlError(Exception):
    pass


def nvml(**changes: Any) -> Any:
    """A module as `pynvml` is one; handles are numbers."""
    answers: dict[str, Any] = {
        "nvmlDeviceGetTotalEnergyConsumption": 123456,
        "nvmlDeviceGetPowerUsage": 456789,
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetEnforcedPowerLimit": 700000,
        "nvmlDeviceGetPowerManagementLimit": 650000,
        "nvmlDeviceGetTemperature": 41,
        "nvmlDeviceGetViolationStatus": SimpleNamespace(violationTime=5),
        **changes,
    }
    log: list[tuple[Any, ...]] = []

    def function(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            log.append((name, *arguments))
            answer = answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    names = [*answers, "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"]
    functions = {name: function(name) for name in [*names, "nvmlDeviceSetPowerManagementLimit", "nvmlInit"]}
    return SimpleNamespace(
        **functions,
        log=log,
        answers=answers,
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        NVML_PERF_POLICY_THERMAL=1,
        nvmlClocksEventReasonHwSlowdown=8,
        nvmlClocksEventReasonSwThermalSlowdown=0x20,
        nvmlClocksEventReasonHwThermalSlowdown=0x40,
        nvmlClocksEventReasonHwPowerBrakeSlowdown=0x80,
        nvmlDeviceGetCount=lambda: len(UUIDS),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: UUIDS[handle].encode(),
        nvmlSystemGetDriverVersion=lambda: b"580.1",
        nvmlDeviceGetClockInfo=lambda handle, kind: {1: 1700, 2: 3201}[kind],
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: {1: 1980, 2: 3201}[kind],
    )


@pytest.mark.parametrize("name", ["bbbb-2", "GPU-BBBB-2", "1"])
def test_the_device_is_found_by_uuid_or_number(name: str) -> None:
    module = nvml()
    open_nvml(module, name).watts()
    assert module.log[-1] == ("nvmlDeviceGetPowerUsage", 1)


@pytest.mark.parametrize("name", ["cccc", "", "2"])
def test_another_device_is_never_taken(name: str) -> None:
    with pytest.raises(NoSensor):
        open_nvml(nvml(), name)


def test_units_are_joules_watts_and_megahertz() -> None:
    sensor = open_nvml(nvml(), "0")
    assert (sensor.joules(), sensor.watts(), sensor.clock_mhz()) == (123.456, 456.789, 1700)
    assert sensor.conditions()["celsius"] == 41
    assert sensor.facts() == {
        "driver": "580.1",
        "most_sm_mhz": 1980,
        "most_memory_mhz": 3201,
        "power_cap_w": 700.0,
        "sensor": "NVML total energy counter",
    }


def test_without_a_counter_power_is_read() -> None:
    sensor = open_nvml(nvml(nvmlDeviceGetTotalEnergyConsumption=NvmlError("Not Supported")), "0")
    assert sensor.joules() is None
    assert sensor.source == "NVML power readings"


@pytest.mark.parametrize(("bits", "found"), [(0x1, False), (0x4, False), (0x8, True), (0x20, True), (0x84, True)])
def test_row_091_heat_and_slowdowns_throttle_a_power_cap_does_not(bits: int, found: bool) -> None:
    assert bool(open_nvml(nvml(nvmlDeviceGetCurrentClocksEventReasons=bits), "0").throttle_reasons()) == found


def test_row_091_heat_between_two_askings_is_seen() -> None:
    module = nvml()
    sensor = open_nvml(module, "0")
    assert not sensor.throttle_reasons()
    module.answers["nvmlDeviceGetViolationStatus"] = SimpleNamespace(violationTime=9)
    assert sensor.throttle_reasons() == {"thermal"}
    assert not sensor.throttle_reasons()


def test_settings_go_to_the_device() -> None:
    module = nvml()
    sensor = open_nvml(module, "1")
    sensor.lock_clock(1200)
    sensor.set_power_cap(400.5)
    sensor.free_clock()
    assert sensor.power_cap_w() == 650.0
    assert module.log[-4:-1] == [
        ("nvmlDeviceSetGpuLockedClocks", 1, 1200, 1200),
        ("nvmlDeviceSetPowerManagementLimit", 1, 400500),
        ("nvmlDeviceResetGpuLockedClocks", 1),
    ]


def test_a_driver_that_does_not_answer_is_an_error() -> None:
    sensor = open_nvml(nvml(nvmlDeviceGetPowerUsage=NvmlError("GPU is lost")), "0")
    with pytest.raises(OSError, match="GPU is lost"):
        sensor.watts()


def test_amd_energy_is_counted_in_units_of_its_resolution() -> None:
    """By the documentation alone: nothing here has met the library."""
    smi = SimpleNamespace(
        AmdSmiException=NvmlError,
        amdsmi_get_energy_count=lambda handle: {"energy_accumulator": 2_000_000, "counter_resolution": 15.3},
        amdsmi_get_power_info=lambda handle: {"current_socket_power": "N/A", "average_socket_power": 310},
        amdsmi_get_gpu_metrics_info=lambda handle: {"throttle_status": True},
    )
    sensor = AmdSensor(smi, 0)
    assert (sensor.joules(), sensor.watts()) == (pytest.approx(30.6), 310.0)
    assert sensor.throttle_reasons()
