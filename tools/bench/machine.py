"""What a program of this folder runs on, for the head of its results."""

from __future__ import annotations

from typing import Any

from txtdb.tune.gpu import GpuDevice, device_facts


def gpu() -> dict[str, Any]:
    """The GPU, its driver and settings, and its clocks, temperature and power as they are now."""
    device = GpuDevice()
    return {"facts": device_facts(device.index, device.sensor), "conditions": device.conditions()}
