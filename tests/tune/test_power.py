"""Watts of a candidate: which way they are sampled, what is trusted, and what is left out."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace

import pytest

from tests.tune.power_fakes import FakeSensor, FakeWork, World
from txtdb.model.evidence import Reading
from txtdb.tune.power import EAGER_VARIABLE, Sampling, path_text, power_contract, reading_of, sample

USUAL = Sampling()


def sampled(work: FakeWork, sensor: FakeSensor, sampling: Sampling = USUAL, logged: set[str] | None = None) -> Reading:
    return sample(work, sensor, work.seconds, sampling, set() if logged is None else logged, work.world.surroundings)


@pytest.fixture(autouse=True)
def free_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EAGER_VARIABLE, raising=False)


@pytest.mark.parametrize("counts", [True, False], ids=["energy counter", "power reading"])
@pytest.mark.parametrize("seconds", [8e-6, 1.1e-3])
def test_a_graph_keeps_the_device_busy(seconds: float, counts: bool) -> None:
    world = World()
    reading = sampled(FakeWork(world, seconds), FakeSensor(world, counts))
    assert reading.path == "graph" and reading.reason == ""
    assert reading.watts == pytest.approx(500.0, rel=0.01)
    assert reading.utilization == pytest.approx(1.0, abs=0.02)
    assert reading.reliable


def test_a_graph_holds_a_millisecond_of_work() -> None:
    world = World()
    assert sampled(FakeWork(world, 8e-6), FakeSensor(world)).calls == 125
    assert sampled(FakeWork(World(), 5e-3), FakeSensor(World())).calls == 1


def test_single_launches_read_low_and_are_corrected() -> None:
    """Calls of 10 µs that the host launches every 30 µs: the device works for a third of the time."""
    world = World()
    reading = sampled(FakeWork(world, 10e-6, refusal="it copies to the host"), FakeSensor(world))
    assert reading.path == "eager" and reading.reason == "it copies to the host"
    assert reading.utilization == pytest.approx(1 / 3, rel=0.05)
    assert reading.raw_watts == pytest.approx(100 + 400 / 3, rel=0.05)
    assert reading.idle_watts == pytest.approx(100.0, rel=0.01)
    assert reading.watts == pytest.approx(500.0, rel=0.03)


def test_long_calls_launched_one_by_one_need_no_correction() -> None:
    world = World()
    reading = sampled(FakeWork(world, 2e-3, refusal="x"), FakeSensor(world))
    assert reading.utilization == pytest.approx(1.0, abs=0.02)
    assert reading.watts == pytest.approx(500.0, rel=0.03)


def test_the_path_tells_the_reason_and_what_was_dropped() -> None:
    world = World()
    assert path_text(sampled(FakeWork(world, 1e-3), FakeSensor(world))) == "power: graph"
    world = World()
    reading = sampled(FakeWork(world, 2e-3, refusal="it copies"), FakeSensor(world, throttled=[2]))
    assert path_text(reading) == "power: eager (it copies), 1 of 3 windows dropped"
    assert path_text(replace(reading, reliable=False, dropped=3)).endswith("3 of 3 windows dropped, not reliable")


def test_each_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    logged: set[str] = set()
    with caplog.at_level(logging.WARNING):
        for refusal in ("a", "a", "b"):
            world = World()
            sampled(FakeWork(world, 1e-4, refusal=refusal), FakeSensor(world), logged=logged)
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["a", "b"]


def test_the_variable_forces_single_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EAGER_VARIABLE, "1")
    world = World()
    work = FakeWork(world, 1e-4)
    reading = sampled(work, FakeSensor(world))
    assert (reading.path, reading.reason) == ("eager", "TXTDB_EAGER=1")
    assert work.calls == 0


@pytest.mark.parametrize(("period_s", "reliable"), [(0.02, True), (0.1, True), (2.0, False)])
def test_row_090_a_window_covers_enough_updates_of_the_sensor(period_s: float, reliable: bool) -> None:
    world = World(period_s=period_s)
    sampling = Sampling()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world), sampling)
    assert (reading.updates >= sampling.least_updates) == reliable
    assert reading.reliable == reliable


def test_row_090_a_sensor_that_never_changes_gives_no_watts() -> None:
    world = World(period_s=1e9)
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world))
    assert (reading.watts, reading.updates, reading.reliable) == (None, 0, False)
    assert world.now_s < 20


def test_row_091_throttled_trials_are_dropped_and_counted() -> None:
    world = World()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world, throttled=(3, 4, 5)), Sampling(trials=10))
    assert (reading.trials, reading.dropped) == (10, 3)
    assert reading.updates == 7 * USUAL.updates
    assert reading.watts == pytest.approx(500.0, rel=0.01)


def test_row_091_when_all_trials_are_throttled_there_are_no_watts() -> None:
    world = World()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world, throttled=range(99)))
    assert (reading.watts, reading.dropped, reading.reliable) == (None, 3, False)


def test_row_091_a_single_window_says_nothing_of_its_noise() -> None:
    world = World()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world, throttled=(1, 3)))
    assert (len(reading.windows), reading.updates, reading.reliable) == (1, USUAL.updates, False)


def test_each_window_has_watts_of_its_own() -> None:
    world = World()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world, throttled=[2]))
    assert reading.windows == pytest.approx([500.0, 500.0], rel=0.01)
    assert reading.watts == pytest.approx(sum(reading.windows) / 2)


def test_a_reading_survives_json() -> None:
    world = World()
    reading = sampled(FakeWork(world, 1e-3), FakeSensor(world))
    assert reading_of(json.loads(json.dumps(asdict(reading)))) == reading


def test_the_contract_of_watts_has_the_sampling_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert power_contract(Sampling(updates=7))["updates"] == 7
    assert power_contract(USUAL) == {**asdict(USUAL), "eager": False}
    monkeypatch.setenv(EAGER_VARIABLE, "1")
    assert power_contract(USUAL)["eager"] is True
