"""The simulated device. What it proves: how code behaves on given samples and faults; nothing about hardware."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import pytest

from txtdb.model.evidence import Reading, Status
from txtdb.tune.description import Description, Sensor, read_description
from txtdb.tune.device import CandidateFault, Device, Task
from txtdb.tune.power import EAGER_VARIABLE
from txtdb.tune.simulate import NotDescribed, SimulatedDevice, open_simulated
from txtdb.tune.simulated_power import SimulatedSensor, Timeline

TASK = Task("attn_fwd", "gfxB", {"dtype": "fp16"}, {"seqlen_q": 64})
FAST, SLOW = {"block": 64}, {"block": 32}


def described(*faults: dict[str, Any], noise: dict[str, Any] | None = None, **more: Any) -> Description:
    """One cell with a candidate of 100 ns, which has the faults, and one of 200 ns."""
    candidates = [
        {"config": FAST, "ns": 100.0, "error": 0.25, "watts": 300.0, "faults": list(faults)},
        {"config": SLOW, "ns": 200.0},
    ]
    cell: dict[str, Any] = {"functional": dict(TASK.functional), "at": dict(TASK.at), "candidates": candidates}
    quiet: dict[str, Any] = {"call_pct": 0.0, "outlier_share": 0.0}
    data: dict[str, Any] = {"cells": [cell | more], "noise": quiet | (noise or {})}
    found, problems = read_description(data)
    assert found is not None, problems
    return found


def device(*faults: dict[str, Any], noise: dict[str, Any] | None = None, **more: Any) -> SimulatedDevice:
    return SimulatedDevice(described(*faults, noise=noise, **more))


def test_a_number_that_is_too_large_is_a_fault_of_the_description() -> None:
    candidate = {"config": FAST, "ns": 10**400}
    cell = {"functional": dict(TASK.functional), "at": dict(TASK.at), "candidates": [candidate]}
    found, faults = read_description({"cells": [cell]})
    assert found is None
    assert [fault.message for fault in faults] == [
        "description.cells[0].candidates[0].ns must be a number, not a number of more than 18 digits"
    ]


def test_it_is_a_device() -> None:
    made: Device = device()
    assert made.facts("attn_fwd").device == {"name": "simulated"}
    made.compile(TASK, FAST)
    assert made.check(TASK, FAST) == 0.25
    assert made.time(TASK, FAST, 1, 3, 0) == [100.0] * 3
    assert not made.throttled()


NOISY = {"call_pct": 1.0, "outlier_share": 0.1, "drift_pct": 5.0}


def test_samples_do_not_depend_on_what_was_asked_before() -> None:
    one, other = device(noise=NOISY), device(noise=NOISY)
    first = [one.time(TASK, FAST, 1, 3, number) for number in range(3)]
    other.time(TASK, SLOW, 25, 100, 0)
    assert other.time(TASK, FAST, 1, 3, 2) == first[2]
    assert len({tuple(times) for times in first}) == 3


def test_samples_differ_by_seed_cell_and_config() -> None:
    found = described(noise=NOISY)
    seeded = SimulatedDevice(Description(found.cells, seed=1, noise=found.noise))
    times = [item.time(TASK, config, 0, 3, 0)[0] / ns for item, config, ns in [
        (SimulatedDevice(found), FAST, 100), (SimulatedDevice(found), SLOW, 200), (seeded, FAST, 100)
    ]]  # fmt: skip
    assert len(set(times)) == 3


def test_the_order_of_names_does_not_matter() -> None:
    cell = {
        "functional": {"a": 1, "b": 2},
        "at": {"q": 1, "k": 2},
        "candidates": [{"config": {"x": 1, "y": 2}, "ns": 5.0}],
    }
    found, faults = read_description({"cells": [cell]})
    assert found is not None, faults
    turned = Task("i", "a", {"b": 2, "a": 1}, {"k": 2, "q": 1})
    straight = Task("i", "a", {"a": 1, "b": 2}, {"q": 1, "k": 2})
    made = SimulatedDevice(found)
    assert made.time(turned, {"y": 2, "x": 1}, 0, 3, 4) == made.time(straight, {"x": 1, "y": 2}, 0, 3, 4)


def test_a_confirmation_is_answered_at_all_sizes_of_a_bin() -> None:
    smaller = Task("attn_fwd", "gfxB", TASK.functional, {"seqlen_q": 33})
    made = device({"stage": "confirm", "kind": "value", "value": 1.5})
    assert (made.check(TASK, FAST), made.confirm(smaller, FAST), made.confirm(smaller, SLOW)) == (0.25, 1.5, 0.0)
    assert made.confirm(TASK, FAST) == 1.5
    for ask in (made.compile, made.check, lambda task, config: made.time(task, config, 0, 1, 0)):
        with pytest.raises(NotDescribed):
            ask(smaller, FAST)


@pytest.mark.parametrize(
    ("task", "config"),
    [
        (TASK, {"block": 128}),
        (TASK, {"block": "64"}),
        (TASK, {"block": 64, "warps": 4}),
        (Task("attn_fwd", "gfxB", {"dtype": "bf16"}, {"seqlen_q": 64}), FAST),
        (Task("attn_fwd", "gfxB", {"dtype": "fp16"}, {"seqlen_q": 128}), FAST),
    ],
)
def test_it_answers_only_for_what_it_was_given(task: Task, config: dict[str, Any]) -> None:
    made = device()
    for ask in (
        lambda: made.compile(task, config),
        lambda: made.check(task, config),
        lambda: made.time(task, config, 0, 1, 0),
        lambda: made.watts(task, config),
    ):
        with pytest.raises(NotDescribed, match="has no c"):
            ask()


def test_noise_is_as_described() -> None:
    times = device(noise={"call_pct": 2.0}).time(TASK, FAST, 0, 4000, 0)
    logs = [math.log(time / 100) for time in times]
    assert mean(logs) == pytest.approx(0, abs=0.002)
    assert math.sqrt(mean(value**2 for value in logs)) == pytest.approx(0.02, rel=0.05)


def test_outliers_are_as_described() -> None:
    noise = {"outlier_share": 0.05, "outlier_least_pct": 20.0, "outlier_most_pct": 500.0}
    times = device(noise=noise).time(TASK, FAST, 0, 4000, 0)
    slow = [time for time in times if time > 100]
    assert len(slow) == pytest.approx(200, abs=50)
    assert (min(slow) >= 120, max(slow) <= 600.0001) == (True, True)
    assert median(slow) == pytest.approx(100 + 20 * 2 ** (1 / 1.5), rel=0.05)


def test_drift_is_common_to_the_entrants_of_a_block() -> None:
    made = device(noise={"drift_pct": 10.0, "drift_period": 40.0, "trend_pct": 0.5})
    ratios = [made.time(TASK, SLOW, 0, 1, n)[0] / made.time(TASK, FAST, 0, 1, n)[0] for n in range(40)]
    times = [made.time(TASK, FAST, 0, 1, n)[0] for n in range(40)]
    assert max(times) / min(times) > 1.15
    assert all(ratio == pytest.approx(2, rel=0.03) for ratio in ratios)


def test_row_072_first_calls_are_slower_until_they_are_warm() -> None:
    made = device(noise={"warm_up_calls": 5, "warm_up_factor": 1.3})
    assert made.time(TASK, FAST, 0, 7, 0) == [130.0] * 5 + [100.0] * 2
    assert made.time(TASK, FAST, 4, 2, 0) == [130.0, 100.0]
    assert made.time(TASK, FAST, 5, 2, 0) == [100.0] * 2


def test_a_timer_with_steps() -> None:
    assert device(noise={"quantum_ns": 64.0}).time(TASK, SLOW, 0, 1, 0) == [192.0]


def test_kernels_that_change_their_arguments_are_reset_before_each_call() -> None:
    made = device(in_place=True)
    made.check(TASK, FAST)
    made.time(TASK, FAST, 2, 3, 0)
    assert made.calls == made.resets == 6
    plain = device()
    plain.time(TASK, FAST, 2, 3, 0)
    assert (plain.calls, plain.resets) == (5, 0)


@pytest.mark.parametrize("stage", ["compile", "check", "time"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("ValueError", ValueError), ("KeyboardInterrupt", KeyboardInterrupt), ("MemoryError", MemoryError)],
)
def test_it_raises_any_exception_at_any_stage(stage: str, name: str, kind: type[BaseException]) -> None:
    made = device({"stage": stage, "kind": "raise", "exception": name, "message": "boo"})
    with pytest.raises(kind, match="boo"):
        run_stage(made, stage)
    made.time(TASK, SLOW, 0, 1, 0)


def run_stage(made: SimulatedDevice, stage: str) -> None:
    made.compile(TASK, FAST)
    if stage != "compile":
        made.check(TASK, FAST)
    if stage == "time":
        made.time(TASK, FAST, 0, 1, 0)


def test_an_exception_that_nobody_knows() -> None:
    made = device({"stage": "compile", "kind": "raise", "exception": "MLIRError"})
    with pytest.raises(Exception, match="simulated") as raised:
        made.compile(TASK, FAST)
    assert type(raised.value).__name__ == "MLIRError"


def test_candidate_faults_have_the_status_that_is_given() -> None:
    made = device({"stage": "compile", "kind": "fault", "status": "out_of_resources", "message": "shared memory"})
    with pytest.raises(CandidateFault) as raised:
        made.compile(TASK, FAST)
    assert (raised.value.status, raised.value.detail) == (Status.OUT_OF_RESOURCES, "shared memory")


@pytest.mark.parametrize("value", [0.0, -3.0, "inf", "nan"])
def test_row_073_times_and_errors_that_are_none(value: float | str) -> None:
    expected = pytest.approx(float(value), nan_ok=True)
    times = device({"stage": "time", "kind": "value", "value": value}).time(TASK, FAST, 0, 2, 0)
    assert times == [expected] * 2
    assert device({"stage": "check", "kind": "value", "value": value}).check(TASK, FAST) == expected


def test_a_fault_strikes_between_two_measurements_only() -> None:
    made = device({"stage": "time", "kind": "value", "value": -1.0, "first": 1, "last": 2})
    assert [made.time(TASK, FAST, 0, 1, number) for number in range(4)] == [[100.0], [-1.0], [-1.0], [100.0]]


def test_throttling_slows_down_and_is_told_once() -> None:
    made = device({"stage": "time", "kind": "throttle", "first": 1, "last": 1})
    assert made.time(TASK, FAST, 0, 1, 1) == [200.0]
    assert made.throttled()
    assert not made.throttled()
    assert made.time(TASK, FAST, 0, 1, 2) == [100.0]


CHILD = """
    import sys
    from txtdb.tune.device import Task
    from txtdb.tune.simulate import open_simulated
    device = open_simulated(sys.argv[1])
    device.time(Task("attn_fwd", "gfxB", {"dtype": "fp16"}, {"seqlen_q": 64}), {"block": 64}, 0, 1, 0)
    print("returned")
"""


def written(tmp_path: Path, kind: str, **more: Any) -> Path:
    fault = {"stage": "time", "kind": kind}
    candidate = {"config": FAST, "ns": 100.0, "faults": [fault]}
    cell = {"functional": dict(TASK.functional), "at": dict(TASK.at), "candidates": [candidate]}
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"cells": [cell], **more}))
    return path


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize(("kind", "number"), [("abort", "SIGABRT"), ("kill", "SIGKILL")])
def test_a_process_that_dies(tmp_path: Path, kind: str, number: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(written(tmp_path, kind))]
    found = subprocess.run(command, capture_output=True, check=False)
    assert found.returncode == -getattr(signal, number)
    assert found.stdout == b""


def test_a_process_that_hangs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(written(tmp_path, "hang"))]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, check=False, timeout=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals")
def test_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = written(tmp_path, "kill-parent", may_kill_parent=True)
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {textwrap.dedent(CHILD)!r}, {str(path)!r}])"
    )
    found = subprocess.run([sys.executable, "-c", parent], stderr=subprocess.DEVNULL, check=False)
    assert found.returncode == -signal.SIGKILL


def test_a_parent_is_killed_only_where_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a fault kills the parent process") as raised:
        open_simulated(str(written(tmp_path, "kill-parent")))
    assert "may_kill_parent" in str(raised.value)


def cell_with(**candidate: Any) -> dict[str, Any]:
    return {"cells": [{"functional": {}, "at": {}, "candidates": [{"config": {}, "ns": 1.0, **candidate}]}]}


def cell_twice() -> dict[str, Any]:
    data = cell_with()
    data["cells"][0]["candidates"] *= 2
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "description must be an object"),
        ({}, "description.cells is missing"),
        ({"cells": {}}, "description.cells must be a list"),
        ({"cells": [], "sead": 1}, "description: unknown name `sead`"),
        ({"cells": [], "seed": 1.5}, "description.seed must be of type int"),
        ({"cells": [], "seed": True}, "description.seed must be of type int"),
        ({"cells": [], "noise": {"call_pct": "1"}}, "description.noise.call_pct must be a number"),
        ({"cells": [], "sensor": {"update_s": 0}}, "description.sensor.update_s must be above 0"),
        ({"cells": [], "sensor": {"launch_us": "nan"}}, "description.sensor.launch_us must be above 0"),
        ({"cells": [], "sensor": {"update": 1}}, "description.sensor: unknown name `update`"),
        (cell_with(faults=[{"stage": "time", "kind": "eager"}]), "a fault is `eager`, and not at the stage `power`"),
        (cell_with(faults=[{"stage": "time", "kind": "fault", "status": "ok"}]), "a fault has the status ok"),
        ({"cells": [{"at": {}, "candidates": []}]}, "description.cells[0].functional is missing"),
        (cell_with(error=True), "description.cells[0].candidates[0].error must be a number"),
        (cell_with(config=[]), "description.cells[0].candidates[0].config must be of type object"),
        (
            cell_with(faults=[{"stage": "run", "kind": "hang"}]),
            "description.cells[0].candidates[0].faults[0].stage is 'run'",
        ),
        (cell_with(faults=[{"stage": "time"}]), "description.cells[0].candidates[0].faults[0].kind is missing"),
    ],
)
def test_what_is_no_description(data: object, message: str) -> None:
    found, faults = read_description(data, "device.json")
    assert found is None
    assert [(fault.rule, fault.span.file) for fault in faults] == [("simulated-device", "device.json")]
    assert message in faults[0].message


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="no valid JSON"):
        open_simulated(str(path))


def sensor_over(timeline: Timeline, seed: int = 0, **model: Any) -> SimulatedSensor:
    return SimulatedSensor(Sensor(**model), timeline, random.Random(seed), lambda window: False)


def test_a_sensor_shows_a_mean_of_the_past() -> None:
    """Updates each 0.1 s of the mean since the one before, 0.05 s ago; 150 W from 1.0 s to 1.2 s over 50 W."""
    timeline = Timeline(150.0, 50.0, now_s=1.0)
    timeline.queue(0.2)
    sensor, shown = sensor_over(timeline, counts_energy=False, noise_pct=0.0), []
    for now in (1.05, 1.15, 1.25, 1.35, 1.45):
        timeline.now_s = now
        shown.append(sensor.watts())
    assert shown == pytest.approx([50.0, 100.0, 150.0, 100.0, 50.0])
    assert sensor.joules() is None


def test_a_sensor_counts_energy() -> None:
    """At 1.45 s what was drawn until 1.35 s: 50 W all the time, 100 W more for 0.2 s."""
    timeline = Timeline(150.0, 50.0, now_s=1.0)
    timeline.queue(0.2)
    sensor = sensor_over(timeline, noise_pct=0.0)
    timeline.now_s = 1.45
    assert sensor.joules() == pytest.approx(50 * (1.35 + 0.05) + 100 * 0.2)
    timeline.now_s = 1.49
    before = sensor.joules()
    timeline.now_s = 1.51
    assert (sensor.joules() or 0) == pytest.approx((before or 0) + 5)


def test_a_sensor_is_noisy_but_repeats_itself() -> None:
    def shown(seed: int) -> list[float]:
        timeline, found = Timeline(50.0, 50.0), []
        sensor = sensor_over(timeline, seed, counts_energy=False, noise_pct=2.0)
        for number in range(400):
            timeline.now_s = 0.1 * number + 0.15
            found.append(sensor.watts())
        return found

    assert mean(shown(4)) == pytest.approx(50, rel=0.01)
    assert stdev(shown(4)) == pytest.approx(1, rel=0.15)
    assert len(set(shown(4))) == 400
    assert shown(4) == shown(4) != shown(5)


def test_updates_that_drop_out_come_with_the_next() -> None:
    timeline, values = Timeline(50.0, 50.0), set()
    sensor = sensor_over(timeline, noise_pct=0.0, dropped_share=0.5)
    for number in range(200):
        timeline.now_s = 0.1 * number + 0.15
        values.add(sensor.joules())
    assert 70 < len(values) < 130
    assert max(filter(None, values)) == pytest.approx(50 * 20, rel=0.03)


def test_true_watts() -> None:
    assert device().watts(TASK, FAST) == 300.0


@pytest.fixture
def free_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EAGER_VARIABLE, raising=False)


def sensing(*faults: dict[str, Any], ns: float = 1e5, **sensor: Any) -> Reading:
    """A reading of a device with such a sensor, of a candidate with these faults and 300 W."""
    candidate = {"config": FAST, "ns": ns, "watts": 300.0, "faults": list(faults)}
    cell = {"functional": dict(TASK.functional), "at": dict(TASK.at), "candidates": [candidate]}
    found, problems = read_description({"cells": [cell], "sensor": sensor})
    assert found is not None, problems
    made = SimulatedDevice(found)
    reading = made.power(TASK, FAST)
    assert repr(made.power(TASK, FAST)) == repr(reading), "a reading is the same whenever it is taken"
    assert not made.throttled(), "readings and times throttle apart"
    return reading


@pytest.mark.usefixtures("free_choice")
def test_watts_are_sampled_from_a_graph() -> None:
    reading = sensing()
    assert (reading.path, reading.reason, reading.calls, reading.dropped) == ("graph", "", 10, 0)
    assert (len(reading.windows), reading.updates, reading.reliable) == (3, 30, True)
    assert reading.watts == pytest.approx(300.0, rel=0.005)
    assert len(set(reading.windows)) == 3


@pytest.mark.usefixtures("free_choice")
def test_power_readings_are_sampled_too() -> None:
    reading = sensing(counts_energy=False)
    assert reading.source == "simulated power readings"
    assert reading.watts == pytest.approx(300.0, rel=0.01)


@pytest.mark.usefixtures("free_choice")
def test_a_call_that_cannot_be_captured_is_read_eagerly() -> None:
    """A call of 10 µs that the host launches every 20 µs: half of the time there is none."""
    reading = sensing({"stage": "power", "kind": "eager", "message": "it copies"}, ns=1e4, noise_pct=0.0)
    assert (reading.path, reading.reason) == ("eager", "it copies")
    assert reading.utilization == pytest.approx(0.5, rel=0.03)
    assert reading.raw_watts == pytest.approx(175.0, rel=0.03)
    assert reading.watts == pytest.approx(300.0, rel=0.05)


def test_the_variable_makes_readings_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EAGER_VARIABLE, "1")
    assert sensing().reason == "TXTDB_EAGER=1"
    assert device().power_contract()["eager"] is True


@pytest.mark.usefixtures("free_choice")
def test_row_091_windows_throttle_where_a_fault_says_so() -> None:
    one = sensing({"stage": "power", "kind": "throttle", "first": 1, "last": 1})
    assert (one.dropped, len(one.windows), one.reliable) == (1, 2, True)
    every = sensing({"stage": "power", "kind": "throttle"})
    assert (every.dropped, every.windows, every.watts, every.reliable) == (3, (), None, False)


@pytest.mark.usefixtures("free_choice")
def test_row_090_a_sensor_that_is_too_slow_or_drops_out_is_not_reliable() -> None:
    assert not sensing(update_s=2.0).reliable
    assert not sensing(dropped_share=0.95).reliable
    assert sensing(dropped_share=0.3).reliable


@pytest.mark.usefixtures("free_choice")
@pytest.mark.parametrize("value", [0.0, -3.0, "nan"])
def test_watts_that_are_none(value: float | str) -> None:
    windows = sensing({"stage": "power", "kind": "value", "value": value}, noise_pct=0.0).windows
    assert windows == pytest.approx([float(value)] * len(windows), nan_ok=True, abs=1e-6)


def test_readings_fail_where_a_fault_says_so() -> None:
    with pytest.raises(CandidateFault, match="no sensor"):
        sensing({"stage": "power", "kind": "fault", "status": "not_run", "message": "no sensor"})
    made = device({"stage": "power", "kind": "raise", "exception": "OSError"})
    assert made.time(TASK, FAST, 0, 1, 0) == [100.0]
    with pytest.raises(OSError, match="simulated"):
        made.power(TASK, FAST)


def test_the_sensor_is_part_of_how_watts_are_taken() -> None:
    assert device().power_contract()["sensor"]["update_s"] == 0.1
    assert "sensor" not in json.dumps(device().facts("attn_fwd").contract)
