"""The GPU device on the CPU, with a tunable whose kernels are PyTorch's own: arguments, errors and faults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tuning.test_timing import FakeStream
from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault, Config, Task
from txtdb.tune.gpu_faults import DeviceLost, fault_of
from txtdb.tune.tunable import Problem
from txtdb.tune.tunable_faults import TunableFault

torch = pytest.importorskip("torch", reason="torch is not installed")

from txtdb.tune.gpu import GpuDevice, device_facts, open_gpu  # noqa: E402 after the skip

TASK = Task("double", "any", {"kind": 1}, {"size": 4})


@dataclass
class Doubling:
    """`x` is doubled in place and `sum` is added to; `mode` of a config is what goes wrong."""

    iface: str = "double"
    restored: Sequence[str] = ("x",)
    zeroed: Sequence[str] = ("sum",)
    made: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def source(self) -> str:
        return "sha256:0"

    def functional_source(self, values: Mapping[str, Any]) -> str:
        return f"digest {values['kind']}"

    def timing_problem(self, task: Task, fill: int) -> Problem:
        return Problem({"size": fill})

    def accuracy_problems(self, task: Task) -> list[Problem]:
        return [Problem({"size": size}, seed) for seed, size in enumerate((1, 3, 7))]

    def confirmation_problems(self, task: Task) -> list[Problem]:
        return [Problem({"size": task.at["size"]}, 9)]

    def arguments(self, task: Task, problem: Problem) -> dict[str, Any]:
        size = problem.sizes["size"]
        x = torch.arange(1, size + 1, dtype=torch.float32)
        self.made.append({"x": x, "sum": torch.full((1,), 9.0), "extra": torch.zeros(size)})
        return self.made[-1]

    def compile(self, task: Task, config: Config) -> None:
        raise AssertionError("nothing is compiled here")

    def call(self, task: Task, config: Config, arguments: Mapping[str, Any]) -> None:
        self.calls += 1
        x, mode = arguments["x"], config.get("mode")
        if mode == "lost":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if mode == "crash":
            raise RuntimeError("something else")
        arguments["sum"] += x.sum()
        x *= 2
        if mode != "unwritten":
            arguments["extra"].copy_(x)
        if mode == "off":
            arguments["extra"][-1] += 0.02

    def results(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {name: arguments[name] for name in ("x", "sum", "extra")}

    def reference(self, task: Task, problem: Problem, arguments: Mapping[str, Any]) -> dict[str, Any]:
        x = arguments["x"].double()
        return {"x": 2 * x, "sum": x.sum()[None], "extra": 2 * x}

    def tolerance(self, task: Task, problem: Problem, name: str) -> float:
        return 0.01

    def narrow(self, task: Task, configs: Sequence[Config]) -> Sequence[Config]:
        return configs


def device(tunable: Doubling) -> GpuDevice:
    return GpuDevice(tunables=lambda iface: tunable, queue=FakeStream())


def test_sources_are_those_of_the_tunable() -> None:
    assert device(Doubling()).sources("double", [{"kind": 1}, {"kind": 2}]) == ["digest 1", "digest 2"]


def test_the_tunable_is_looked_for_once() -> None:
    """To read the entry points of 300 packages takes ten times as long as a measurement."""
    doubling, asked = Doubling(), []
    device = GpuDevice(tunables=lambda iface: asked.append(iface) or doubling, queue=FakeStream())
    for number in range(3):
        device.check(TASK, {})
        device.time(TASK, {}, 1, 2, number)
    assert asked == ["double"]


def test_row_067_arguments_are_restored_before_each_check() -> None:
    """A kernel in place and one that adds: without it the second check would see the results of the first."""
    tunable = Doubling()
    checked = device(tunable)
    assert [checked.check(TASK, {}) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert len(tunable.made) == 3, "one set of arguments for each case"


def test_row_067_arguments_are_restored_before_each_timed_call() -> None:
    tunable = Doubling()
    timed = device(tunable)
    timed.measurement = type(timed.measurement)(fill=5)
    timed.time(TASK, {}, 2, 3, 0)
    arguments = tunable.made[0]
    assert arguments["x"].tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert arguments["sum"].tolist() == [15.0]


def test_row_067_arguments_are_restored_to_what_they_were_before_the_first_measurement() -> None:
    tunable = Doubling()
    timed = device(tunable)
    timed.measurement = type(timed.measurement)(fill=3)
    for number in range(3):
        timed.time(TASK, {}, 1, 2, number)
    assert len(tunable.made) == 1
    assert tunable.made[0]["x"].tolist() == [2.0, 4.0, 6.0]


def test_what_a_task_needs_is_made_before_its_first_candidate() -> None:
    tunable = Doubling()
    prepared = device(tunable)
    prepared.measurement = type(prepared.measurement)(fill=3)
    for ask in ("check", "confirm", "time", "power"):
        prepared.prepare(TASK, ask)
    assert (len(tunable.made), tunable.calls) == (5, 0)
    prepared.check(TASK, {})
    prepared.confirm(TASK, {})
    prepared.time(TASK, {}, 0, 1, 0)
    assert len(tunable.made) == 5


def test_a_confirmation_has_problems_of_its_own_and_lets_those_of_the_task_before_go() -> None:
    tunable = Doubling()
    confirmed = device(tunable)
    longer = Task("double", "any", {"kind": 1}, {"size": 6})
    assert [confirmed.confirm(task, {"mode": "off"}) for task in (TASK, TASK, longer)] == pytest.approx([2.0] * 3, 1e-3)
    assert [len(made["x"]) for made in tunable.made] == [4, 6]
    assert confirmed._confirmed and len(confirmed._confirmed[1]) == 1


@pytest.mark.parametrize(
    ("properties", "is_hip", "arch"),
    [
        ({"major": 9, "minor": 0}, False, "sm_90"),
        ({"major": 12, "minor": 1}, False, "sm_121"),
        ({"major": 9, "minor": 4, "gcnArchName": "gfx942:sramecc+:xnack-"}, True, "gfx942"),
        ({"major": 11, "minor": 0, "gcnArchName": "gfx1100"}, True, "gfx1100"),
    ],
)
def test_a_device_states_its_arch(
    properties: dict[str, Any], is_hip: bool, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"name": "some GPU", "multi_processor_count": 132, "total_memory": 1 << 37, **properties}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(**known))
    monkeypatch.setattr(torch.version, "hip", "6.4" if is_hip else None)
    assert device_facts(0, None)["arch"] == arch


def test_to_open_the_device_and_to_compile_needs_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Config] = []

    class Compiling(Doubling):
        def compile(self, task: Task, config: Config) -> None:
            compiled.append(config)

    def refused(*given: object) -> None:
        raise AssertionError("a context is created")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_lazy_init", refused)
    monkeypatch.setattr(torch.cuda, "set_device", refused)
    opened = open_gpu("")
    opened.tunables = lambda iface: Compiling()
    opened.compile(TASK, {"mode": "x"})
    assert compiled == [{"mode": "x"}]
    with pytest.raises(AssertionError, match="a context is created"):
        opened.wake()


def test_an_error_is_in_units_of_the_tolerance() -> None:
    assert device(Doubling()).check(TASK, {"mode": "off"}) == pytest.approx(2.0, rel=1e-3)


NO_TOLERANCES = [-1, 0, math.inf, math.nan, None, "1e-3", True]


@pytest.mark.parametrize(
    ("member", "value", "told"),
    [
        ("reference", {}, "reference(…) gave {}, not the right results by name"),
        ("reference", None, "reference(…) gave None, not the right results"),
        ("reference", {"C": torch.zeros(1)}, "not the results that `reference` has: C"),
        ("results", {"x": torch.zeros(1)}, "not the results that `reference` has: x, sum, extra"),
        *(("tolerance", value, f"tolerance(…) gave {value!r}, not a finite number above 0") for value in NO_TOLERANCES),
    ],
)
def test_a_tunable_that_would_let_wrong_kernels_pass_is_told(
    monkeypatch: pytest.MonkeyPatch, member: str, value: object, told: str
) -> None:
    monkeypatch.setattr(Doubling, member, lambda self, *given: value)
    for ask in ("check", "confirm"):
        with pytest.raises(TunableFault) as caught:
            getattr(device(Doubling()), ask)(TASK, {"mode": "off"})
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"restored": ("xx",)}, "restored names xx; the arguments are x, sum, extra"),
        ({"zeroed": ("summ",)}, "zeroed names summ; the arguments are x, sum, extra"),
        ({"zeroed": ("sum", "x")}, "zeroed names x, which `restored` names as well"),
    ],
)
def test_arguments_that_are_put_back_have_to_be_there(names: dict[str, Sequence[str]], told: str) -> None:
    with pytest.raises(TunableFault) as caught:
        device(Doubling(**names)).check(TASK, {})
    assert told in str(caught.value)


def test_what_is_not_written_is_no_result() -> None:
    """Results are NaN before a call, also in the second check of the same case."""
    checked = device(Doubling())
    assert checked.check(TASK, {}) == 0.0
    assert math.isnan(checked.check(TASK, {"mode": "unwritten"}))


def test_a_fault_that_leaves_the_device_well_costs_the_candidate() -> None:
    with pytest.raises(CandidateFault) as caught:
        device(Doubling()).check(TASK, {"mode": "crash"})
    assert caught.value.status is Status.CRASH


def test_a_fault_that_breaks_the_device_ends_the_process() -> None:
    with pytest.raises(SystemExit, match="illegal memory access"):
        device(Doubling()).check(TASK, {"mode": "lost"})


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CUDA out of memory. Tried to allocate 2 GiB", Status.OUT_OF_RESOURCES),
        ("Triton Error [CUDA]: out of resource", Status.OUT_OF_RESOURCES),
        ("ptxas fatal: (C7602) Register allocation failed", Status.OUT_OF_RESOURCES),
        ("PassManager::run failed", Status.COMPILE_ERROR),
    ],
)
def test_shortages_are_told_from_other_faults(text: str, status: Status) -> None:
    assert fault_of(RuntimeError(text), Status.COMPILE_ERROR).status is status


def test_the_end_of_a_long_message_is_kept() -> None:
    detail = fault_of(ValueError("begin " + "x" * 1000 + " end"), Status.CRASH).detail
    assert detail.startswith("ValueError: begin") and detail.endswith(" end") and len(detail) < 320


def test_a_lost_device_is_no_exception_that_a_worker_survives() -> None:
    with pytest.raises(DeviceLost):
        fault_of(RuntimeError("misaligned address"), Status.CRASH)
    assert not issubclass(DeviceLost, Exception)


def test_settings_of_the_device_are_checked() -> None:
    with pytest.raises(ValueError, match="fil"):
        open_gpu("fil=3")
