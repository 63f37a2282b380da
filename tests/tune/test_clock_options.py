"""`txtdb tune --clocks` and what becomes of the settings."""

from __future__ import annotations

from tests.tune.bench import CELLS, listed, make_bench
from tests.tune.power_fakes import FakeSettings
from txtdb.cli import tuning
from txtdb.tune import clocks

CELL = CELLS[0]
TIMES = {CELL: {(64, 2): 800.0}}


def held(monkeypatch, tmp_path, settings):
    """Gives the simulated device clocks and a cap."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tuning.Measurer, "sensor", lambda self: {"name": "GPU-1", "amd": False})
    monkeypatch.setattr(clocks, "open_sensor", lambda name, amd: settings)


def test_clocks_are_changed_for_the_run_and_told_in_the_evidence(tmp_path, monkeypatch):
    settings = FakeSettings()
    held(monkeypatch, tmp_path, settings)
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL), "--clocks", "1207", "--power-cap", "400")
    assert done.code == 0
    assert settings.log == [("lock", 1207), ("cap", 400.0), ("free", None), ("cap", 700.0)]
    assert made.evidence()["device"]["clocks"] == {
        "requested": {"clock_mhz": 1207, "power_cap_w": 400.0},
        "observed": {"clock_mhz": 1200, "power_cap_w": 400.0},
    }
    asked = made.records()[0]["identity"]["device"]["clocks"]
    assert asked == {"requested": {"clock_mhz": 1207, "power_cap_w": 400.0}}


def test_without_the_options_no_setting_is_touched(tmp_path, monkeypatch):
    held(monkeypatch, tmp_path, None)
    made = make_bench(tmp_path)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert "clocks" not in made.evidence()["device"]
    assert not (tmp_path / "state").exists()


def test_row_086_the_next_run_puts_back_the_clocks_of_a_killed_one(tmp_path, monkeypatch):
    settings = FakeSettings(clock=990)
    held(monkeypatch, tmp_path, settings)
    state = clocks.state_file("GPU-1")
    state.parent.mkdir(parents=True)
    state.write_text('{"clock": true, "power_cap_w": null}', encoding="utf-8")
    done = make_bench(tmp_path).tune("--cells", listed(tmp_path, CELL))
    assert (done.code, settings.log, state.exists()) == (0, [("free", None)], False)
    assert "clocks that an earlier run left changed are back" in done.err


def test_a_device_without_clocks_is_refused(tmp_path):
    made = make_bench(tmp_path)
    done = made.tune("--cells", listed(tmp_path, CELL), "--clocks", "1200")
    assert (done.code, list(made.journals.glob("*"))) == (2, [])
    assert "clocks cannot be changed: this device has no clocks" in done.err
