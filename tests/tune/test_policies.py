"""The policy of a run: defaults, families, files and options."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.tune.bench import CELLS, invoke, listed, make_bench
from txtdb.cli import tuning
from txtdb.evidence.policy import Policy, described
from txtdb.faults import Span
from txtdb.tune.devices import DeviceMissing
from txtdb.tune.tunable_faults import TunableFault

CELL = CELLS[0]
TIMES = {CELL: {(64, 2): 800.0}}


class Family:
    """As much of a tunable as a command that measures nothing asks for."""

    iface = "attn_fwd"

    def __init__(self, **measurement):
        self.measurement = measurement

    def policy(self, usual):
        return replace(usual, measurement=replace(usual.measurement, **self.measurement))


def test_a_family_of_kernels_replaces_fields_of_the_policy(monkeypatch):
    monkeypatch.setattr(tuning, "find_tunable", lambda iface: Family(calls=7, fill=64))
    words = ("tune", "attn_fwd", "--show-policy", "--format", "json", "--set", "measurement.fill=32")
    code, out = invoke(*words)
    measurement = json.loads(out)["policy"]["measurement"]
    assert (code, measurement["calls"], measurement["fill"]) == (0, 7, 32)
    code, out = invoke("tune", "--show-policy", "--format", "json")
    assert json.loads(out)["policy"]["measurement"]["calls"] == 100, "without an interface it is the usual policy"


def test_a_family_with_an_impossible_policy_is_refused(monkeypatch):
    monkeypatch.setattr(tuning, "find_tunable", lambda iface: Family(calls=0))
    code, out = invoke("tune", "attn_fwd", "--show-policy")
    assert code == 2
    assert "tunable of attn_fwd: error: policy.measurement.calls is 0" in out


def test_an_offer_that_is_no_tunable_is_told(tmp_path, monkeypatch):
    def broken(iface):
        raise TunableFault("entry point attn_fwd (x:y) is no tunable: it has no call", Span("x:y"))

    monkeypatch.setattr(tuning, "find_tunable", broken)
    done = make_bench(tmp_path).tune("--all", "--device", "gpu")
    assert done.code == 2
    assert "x:y: error: entry point attn_fwd (x:y) is no tunable: it has no call [tunable]" in done.err


def test_the_device_measures_by_the_policy_of_family_and_command(tmp_path, monkeypatch):
    opened = []

    def open_measurer(device, *given):
        opened.append(device)
        raise DeviceMissing("enough")

    monkeypatch.setattr(tuning, "find_tunable", lambda iface: Family(fill=64))
    monkeypatch.setattr(tuning, "check_tunable", lambda *given: None)
    monkeypatch.setattr(tuning, "Measurer", open_measurer)
    made = make_bench(tmp_path)
    candidates = tmp_path / "candidates.txt"
    candidates.write_text("BLOCK_M=64 num_warps=4\n", encoding="utf-8")
    options = ("--all", "--device", "gpu:index=1", "--candidates", str(candidates))
    monkeypatch.setattr(Family, "narrow", lambda self, task, configs: configs, raising=False)
    assert made.tune(*options, "--set", "measurement.flush_cache=false").code == 2
    assert opened == ["gpu:index=1,fill=64,flush=0"]


def test_the_policy_is_shown_with_a_reason_for_each_number():
    code, out = invoke("tune", "--show-policy", "--set", "race.delta_pct=0.5")
    assert code == 0
    for row in described(Policy()):
        assert row.name in out
        assert row.reason in out
    assert "0.5 (default 1.0)" in out
    code, out = invoke("tune", "--show-policy", "--format", "json")
    assert json.loads(out)["policy"]["promotion"]["min_improvement_pct"] == 3.0


def test_a_policy_file_changes_what_it_names(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"promotion": {"min_improvement_pct": 25.0}}', encoding="utf-8")
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL), "--policy", str(path))
    assert "kept, the gain is below the bar, gain 20.0 %" in done.out
    assert made.evidence()["policy"]["promotion"]["min_improvement_pct"] == 25.0


def test_a_policy_file_is_read_once(tmp_path, monkeypatch):
    path, read = tmp_path / "policy.json", []
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(tuning, "named_text", lambda path: path and (read.append(path) or ("policy.json", "{}")))
    assert make_bench(tmp_path).tune("--all", "--dry-run", "--policy", str(path)).code == 0
    assert read == [path]


def test_a_policy_that_asks_for_less_than_verify_is_told(tmp_path):
    made = make_bench(tmp_path, TIMES)
    loose = ("--set", "promotion.min_improvement_pct=0", "--set", "race.error_budget=0.5")
    err = made.tune("--cells", listed(tmp_path, CELL), *loose).err
    assert "policy promotion.min_improvement_pct is 0; at least 3 is asked for" in err
    assert err.count("`txtdb verify` refuses what is published so") == 2
    code, text = invoke("verify", str(made.root))
    assert (code, "bar-changed" in text) == (1, True)
    often = (
        "measurement.warm_up=0",
        "measurement.calls=1",
        "measurement.fill=1",
        "measurement.flush_cache=false",
        "measurement.block_warm_up=0",
        "finalists.calls=1",
        "finalists.count=1",
    )
    made = make_bench(tmp_path / "often", TIMES)
    sets = [word for change in often for word in ("--set", change)]
    done = made.tune("--cells", listed(tmp_path, CELL), "--strategy", "exhaustive", *sets)
    assert done.err.count("`txtdb verify` refuses what is published so") == len(often)
    assert invoke("verify", str(made.root))[1].count("[bar-changed]") == len(often)
    strict = make_bench(tmp_path / "strict", TIMES)
    assert "verify" not in strict.tune("--cells", listed(tmp_path, CELL)).err
