"""Clocks and caps that a run changes come back, whatever ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tune.power_fakes import FakeSettings
from txtdb.tune import clocks as clocks_module
from txtdb.tune.clocks import Clocks, ClocksRefused, Requested, arranged, held, recover, state_file

ROOT = Path(__file__).parents[2]
ASKED = Requested(clock_mhz=1200, power_cap_w=400.0)
CHILD = textwrap.dedent(
    """
    import sys, time
    from dataclasses import dataclass, field
    from pathlib import Path
    from tests.tune.power_fakes import FakeSettings
    from txtdb.tune.clocks import Requested, held

    class Log(list):
        def append(self, item):
            with open(sys.argv[2], "a") as stream:
                print(*item, file=stream, flush=True)

    settings = FakeSettings(log=Log())
    with held(settings, Requested(1200, 400.0), Path(sys.argv[1])):
        print("held", flush=True)
        if sys.argv[3] == "raise":
            raise RuntimeError("in mid-run")
        time.sleep(60)
    """
)


def ended(tmp_path: Path, how: str | signal.Signals) -> tuple[list[str], Path]:
    """A run that holds clocks and is ended; what it set in turn, and its file."""
    state, log = tmp_path / "state.json", tmp_path / "log"
    way = "raise" if how == "raise" else "wait"
    command = [sys.executable, "-c", CHILD, str(state), str(log), way]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout and child.stdout.readline() == "held\n"
        if isinstance(how, signal.Signals):
            time.sleep(0.1)
            child.send_signal(how)
        child.wait(30)
    return log.read_text().splitlines(), state


@pytest.mark.parametrize("how", ["raise", signal.SIGINT, signal.SIGTERM], ids=str)
def test_row_086_clocks_come_back(tmp_path: Path, how: str | signal.Signals) -> None:
    log, state = ended(tmp_path, how)
    assert log == ["lock 1200", "cap 400.0", "free None", "cap 700.0"]
    assert not state.exists()


def test_row_086_after_sigkill_the_next_start_puts_clocks_back(tmp_path: Path) -> None:
    log, state = ended(tmp_path, signal.SIGKILL)
    assert log == ["lock 1200", "cap 400.0"]
    settings = FakeSettings(clock=1200, cap=400.0)
    assert recover(settings, state)
    assert (settings.clock, settings.cap) == (1980, 700.0)
    assert not recover(settings, state)


def test_the_file_is_there_before_anything_is_changed(tmp_path: Path) -> None:
    state = tmp_path / "state.json"

    class Watching(FakeSettings):
        def lock_clock(self, mhz: int) -> None:
            assert json.loads(state.read_text()) == {"clock": True, "power_cap_w": 700.0}
            super().lock_clock(mhz)

    with held(Watching(), ASKED, state):
        pass
    assert list(tmp_path.iterdir()) == []


def test_two_runs_cannot_hold_the_clocks_of_one_device(tmp_path: Path) -> None:
    state, settings = tmp_path / "state.json", FakeSettings()
    with held(settings, ASKED, state), pytest.raises(FileExistsError), held(settings, ASKED, state):
        pass
    assert settings.cap == 700.0


def test_row_088_what_was_asked_for_and_what_is_there_are_told_apart() -> None:
    settings = FakeSettings()
    clocks = Clocks(settings)
    told = clocks.request(Requested(clock_mhz=200))
    assert told["requested"] == {"clock_mhz": 200, "power_cap_w": None}
    assert told["observed"] == {"clock_mhz": 210, "power_cap_w": 700.0}


def test_row_088_nothing_is_set_twice() -> None:
    settings = FakeSettings()
    clocks = Clocks(settings)
    for _ in range(3):
        clocks.request(Requested(clock_mhz=200))
    assert settings.log == [("lock", 200)]
    clocks.request(Requested(clock_mhz=300))
    assert settings.log == [("lock", 200), ("lock", 300)]


def test_a_start_leaves_alone_what_a_run_that_lives_has_changed(tmp_path: Path) -> None:
    state, settings = tmp_path / "state.json", FakeSettings()
    with held(settings, ASKED, state):
        assert not recover(settings, state)
        assert settings.log == [("lock", 1200), ("cap", 400.0)]
        assert state.exists()


class Refusing(FakeSettings):
    """A device whose settings belong to an administrator."""

    def lock_clock(self, mhz: int) -> None:
        raise OSError("nvmlDeviceSetGpuLockedClocks: Insufficient Permissions")

    def free_clock(self) -> None:
        raise OSError("nvmlDeviceResetGpuLockedClocks: Insufficient Permissions")


def test_a_device_that_refuses_is_left_as_it_was_and_leaves_no_file(tmp_path: Path) -> None:
    settings = Refusing()
    with pytest.raises(OSError, match="SetGpuLockedClocks"), held(settings, ASKED, tmp_path / "state.json"):
        raise AssertionError("the block does not start")
    assert (settings.log, list(tmp_path.iterdir())) == ([], [])


SENSOR = {"name": "GPU-1", "amd": False}


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told; the state's folder is a temporary one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return []


def opens(monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    def open_sensor(name: str, amd: bool) -> object:
        assert settings is not None, "no driver is needed"
        return settings

    monkeypatch.setattr(clocks_module, "open_sensor", open_sensor)


def test_a_run_that_asks_for_nothing_does_not_even_load_the_driver(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, None)
    with arranged(SENSOR, Requested(), lines.append) as told:
        assert (told, lines) == ({}, [])


def test_clocks_are_changed_for_a_block(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FakeSettings()
    opens(monkeypatch, settings)
    with arranged(SENSOR, ASKED, lines.append) as told:
        assert told["observed"] == {"clock_mhz": 1200, "power_cap_w": 400.0}
    assert (settings.clock, settings.cap) == (1980, 700.0)
    assert not state_file("GPU-1").exists()


@pytest.mark.parametrize("requested", [Requested(), ASKED], ids=["nothing", "clocks"])
def test_row_086_a_start_puts_back_what_a_killed_run_left(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, requested: Requested
) -> None:
    settings = FakeSettings(clock=990, cap=300.0)
    opens(monkeypatch, settings)
    state_file("GPU-1").parent.mkdir()
    state_file("GPU-1").write_text('{"clock": true, "power_cap_w": 650.0}')
    with arranged(SENSOR, requested, lines.append):
        assert settings.log[:2] == [("free", None), ("cap", 650.0)]
    assert (settings.clock, settings.cap) == (1980, 650.0)
    assert lines == ["clocks that an earlier run left changed are back as they were"]


def test_what_cannot_be_put_back_stops_no_run(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opens(monkeypatch, Refusing())
    state_file("GPU-1").parent.mkdir()
    state_file("GPU-1").write_text('{"clock": true, "power_cap_w": null}')
    with arranged(SENSOR, Requested(), lines.append):
        assert "cannot be put back: nvmlDeviceResetGpuLockedClocks" in lines[0]
    assert state_file("GPU-1").exists()


@pytest.mark.parametrize(
    ("sensor", "settings", "message"),
    [
        (None, None, "has no clocks"),
        (SENSOR, Refusing(), "Insufficient Permissions"),
        ({"name": "1", "amd": True}, object(), "AMD"),
    ],
)
def test_clocks_that_cannot_be_changed_are_refused(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, sensor: Any, settings: object, message: str
) -> None:
    opens(monkeypatch, settings)
    with pytest.raises(ClocksRefused, match=message), arranged(sensor, ASKED, lines.append):
        pass


def test_clocks_that_another_run_has_changed_are_refused(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = FakeSettings()
    opens(monkeypatch, settings)
    with arranged(SENSOR, ASKED, lines.append):
        with pytest.raises(ClocksRefused, match="another run"), arranged(SENSOR, Requested(990), lines.append):
            pass
        assert settings.clock == 1200


def test_a_run_that_asks_for_nothing_touches_nothing(tmp_path: Path) -> None:
    settings = FakeSettings()
    with held(settings, Requested(), tmp_path / "state.json"):
        assert list(tmp_path.iterdir()) == []
    assert settings.log == []


def test_the_file_of_a_device_is_one_for_all_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_file("GPU-1") == tmp_path / "txtdb" / "clocks-GPU-1.json"
