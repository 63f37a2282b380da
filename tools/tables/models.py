"""Which model ranks the candidates of a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.tables import hopper, model
from tools.tables.devices import Device
from tools.tables.model import Floats, Need, Problem
from txtdb.model.values import Value


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a model is believed. `tie`: configs are one speed when their modelled times differ by less.

    `hope`: a candidate that would be faster than the best compiled one by less is not compiled. `launch_s`: what a
    launch costs, in seconds, besides the modelled time of a kernel.
    """

    tie: float
    hope: float
    launch_s: float


_ANALYTIC = Trust(tie=1.05, hope=1.1, launch_s=4e-6)
_MEASURED = Trust(tie=1.01, hope=1.02, launch_s=0.0)  # its model of a kernel has the launch


def trust(device: Device) -> Trust:
    """What is measured is believed more than what is not."""
    return _MEASURED if device.name in hopper.DEVICES else _ANALYTIC


def seconds(device: Device, problem: Problem, configs: Sequence[dict[str, Value]], need: Need) -> Floats:
    """Modelled time of each candidate in each cell, (candidates, query bins, key bins); infinite: it cannot run."""
    own = hopper if device.name in hopper.DEVICES else model
    return own.seconds(device, problem, configs, need)


def version(arch: str) -> str:
    """The version of the model that ranks the candidates of an arch."""
    return hopper.VERSION if arch in hopper.DEVICES else model.VERSION
