"""`txtdb tune --select energy`."""

from __future__ import annotations

import re
from statistics import mean
from typing import Any

import pytest

from tests.tune.bench import CELLS, CONFIGS, FIRST, invoke, listed, make_bench

CELL = CELLS[0]
TIMES = {CELL: {(64, 2): 800.0}}
# All others draw 400 W.
FRUGAL = {CELL: {(32, 4): 200.0}}
# An exhaustive search that is soon over.
SHORT = ("--set", "measurement.calls=20", "--set", "finalists.rounds=3", "--set", "finalists.calls=5")


def watts_of(evidence: Any) -> list[float]:
    """The mean watts of each entrant of the first cell."""
    return [mean(reading["windows"]) for reading in evidence["cells"][0]["watts"]]


def test_energy_decides_where_it_is_asked_for(tmp_path):
    made = make_bench(tmp_path, {CELL: {(64, 2): 950.0, (32, 4): 990.0}}, watts=FRUGAL)
    assert made.tune("--cells", listed(tmp_path, CELL), "--select", "energy").code == 0
    assert "a = 32 4" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    evidence = made.evidence()
    assert watts_of(evidence) == pytest.approx([400.0, 400.0, 400.0, 200.0, 400.0, 400.0], rel=0.01)
    reading = evidence["cells"][0]["watts"][3]
    assert (reading["path"], reading["updates"], reading["dropped"], reading["reliable"]) == ("graph", 30, 0, True)
    assert evidence["cells"][0]["entrants"][0][3] == "power: graph"
    assert evidence["contract"]["power"]["updates"] == 10
    assert evidence["cells"][0]["decision"]["floor_pct"] > 0.3
    assert invoke("verify", str(made.root))[0] == 0


def test_gains_of_energy_are_told_as_such(tmp_path):
    """On the console, in the patch, and where what is there stays."""
    made = make_bench(tmp_path, watts=FRUGAL)
    options = ("--cells", listed(tmp_path, CELL), "--select", "energy")
    done = made.tune(*options)
    (said,) = re.findall(r": BLOCK_M 16→32 num_warps 2→4, ([\d.]+) % ± [\d.]+ less energy\n", done.out)
    patch = made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    assert f"\n#! why {said} % less energy, as measured\n" in patch
    again = made.tune(*options, "--name", "again")
    assert "kept, it needs the least energy" in again.out
    assert "fast" not in done.out + again.out
    assert " gain" not in done.out + again.out + patch


def test_why_has_the_range_of_the_gains_of_energy(tmp_path):
    other = CELLS[1]
    made = make_bench(tmp_path, watts={**FRUGAL, other: {(32, 4): 100.0}})
    assert made.tune("--cells", listed(tmp_path, CELL, other), "--select", "energy").code == 0
    patch = made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    assert re.search(r"\n#! why 4\d\.\d % to 7\d\.\d % less energy, as measured\n", patch)


def test_where_time_decides_the_contract_has_nothing_of_power(tmp_path):
    made = make_bench(tmp_path)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert "power" not in made.evidence()["contract"]
    assert "power" not in made.records()[0]["identity"]["contract"]


def test_row_091_readings_that_throttled_or_say_too_little_do_not_rank(tmp_path):
    """The most frugal candidate throttles all the time, the next one in one window of three."""
    faults = {
        (CELL, (32, 4)): [{"stage": "power", "kind": "throttle"}],
        (CELL, (64, 2)): [{"stage": "power", "kind": "throttle", "first": 0, "last": 0}],
    }
    made = make_bench(tmp_path, watts={CELL: {(32, 4): 100.0, (64, 2): 200.0}}, faults=faults)
    assert made.tune("--cells", listed(tmp_path, CELL), "--select", "energy").code == 0
    cell = made.evidence()["cells"][0]
    assert cell["decision"]["winner"] == 4
    assert [(reading["dropped"], len(reading["windows"])) for reading in cell["watts"][3:5]] == [(3, 0), (1, 2)]
    assert cell["entrants"][3][3] == "power: graph, 3 of 3 windows dropped, not reliable"
    assert 3 not in {standing["entrant"] for standing in cell["decision"]["standings"]}
    assert invoke("verify", str(made.root))[0] == 0


def test_a_sensor_that_is_too_slow_ranks_nothing(tmp_path):
    made = make_bench(tmp_path, watts=FRUGAL, sensor={"update_s": 2.0})
    done = made.tune("--cells", listed(tmp_path, CELL), "--select", "energy")
    cell = made.evidence()["cells"][0]
    assert [reading["reliable"] for reading in cell["watts"]] == [False] * 6
    assert (done.code, cell["decision"]["reason"], made.patches()) == (1, "no-valid-candidate", {})
    assert "no valid candidate (6 ok, 6 without a usable reading of watts)" in done.out
    page = tmp_path / "page.html"
    kept = next(made.journals.glob("*.json"))
    assert invoke("tune", "report", str(kept), "--root", str(made.root), "-o", str(page))[0] == 0
    assert page.read_text(encoding="utf-8").count("not reliable</td>") == 6


def test_a_candidate_that_cannot_be_captured_is_not_ranked_with_those_that_can(tmp_path):
    """By what was read it would be the most frugal one by far."""
    faults = {(CELL, (32, 4)): [{"stage": "power", "kind": "eager", "message": "it copies to the host"}]}
    made = make_bench(tmp_path, watts=FRUGAL, faults=faults)
    assert made.tune("--cells", listed(tmp_path, CELL), "--select", "energy").code == 0
    cell = made.evidence()["cells"][0]
    assert cell["entrants"][3][3] == "power: eager (it copies to the host)"
    assert mean(cell["watts"][3]["windows"]) < 250
    assert (cell["decision"]["outcome"], cell["decision"]["winner"]) == ("retained", 0)


def test_the_variable_that_forces_single_launches_starts_another_journal(tmp_path, monkeypatch):
    made = make_bench(tmp_path, {CELL: {(32, 4): 990.0}}, watts=FRUGAL)
    options = ("--cells", listed(tmp_path, CELL), "--select", "energy")
    monkeypatch.delenv("TXTDB_EAGER", raising=False)
    assert made.tune(*options, "--compare", str(made.root)).code == 0
    assert made.tune(*options).code == 0
    graphs = {path.name for path in made.journals.glob("*.journal")}
    journal = next(iter(graphs))
    monkeypatch.setenv("TXTDB_EAGER", "1")
    assert made.tune(*options, "--name", "eager").code == 0
    assert len({path.name for path in made.journals.glob("*.journal")} - graphs) == 1
    evidence = made.evidence("eager")
    assert evidence["contract"]["power"]["eager"] is True
    assert {reading["path"] for reading in evidence["cells"][0]["watts"]} == {"eager"}
    refused = made.tune(*options, "--journal", str(made.journals / journal), "--name", "more")
    assert (refused.code, "this journal is of another run: contract is" in refused.err) == (2, True)


def test_a_gain_by_noise_of_the_sensor_is_not_published(tmp_path):
    """All draw the same; 40 % of noise for each update makes one look better by more than the bar."""
    made = make_bench(tmp_path, {CELL: dict.fromkeys(CONFIGS, 1000.0)}, sensor={"noise_pct": 40.0})
    assert made.tune("--cells", listed(tmp_path, CELL), "--select", "energy").code == 0
    decision = made.evidence()["cells"][0]["decision"]
    assert (decision["outcome"], decision["reason"]) == ("retained", "below-bar")
    assert decision["bar_pct"] == decision["floor_pct"] > decision["gain_pct"] > 3


def test_watts_are_not_read_of_what_is_slower_by_far(tmp_path):
    """But of the incumbent they always are: here it takes three times as long as the fastest."""
    times = {(16, 2): 3000.0, (16, 4): 2300.0, (32, 2): 1900.0, (64, 2): 1000.0}
    made = make_bench(tmp_path, {CELL: times})
    assert made.tune("--cells", listed(tmp_path, CELL), "--select", "energy").code == 0
    evidence = made.evidence()["cells"][0]
    assert [None if reading is None else reading["path"] for reading in evidence["watts"]] == [
        "graph", None, "graph", "graph", "graph", "graph",
    ]  # fmt: skip
    assert evidence["entrants"][1][3] == "power: not read, 2.3 times slower than the fastest"
    assert evidence["decision"]["outcome"] == "published"
    asked = [record["config"] for record in made.records() if record.get("step") == "power"]
    assert asked and "BLOCK_M=16 num_warps=4" not in asked
    assert invoke("verify", str(made.root))[0] == 0
    size = len(made.records())
    made.tune("--cells", listed(tmp_path, CELL), "--select", "energy", "--name", "again")
    assert [record for record in made.records()[size:] if record["is"] == "watts"] == []


def test_a_higher_factor_reads_watts_of_more(tmp_path):
    made = make_bench(tmp_path, {CELL: {(16, 4): 2300.0, (64, 2): 1000.0}})
    options = ("--select", "energy", "--set", "run.power_factor=3")
    assert made.tune("--cells", listed(tmp_path, CELL), *options).code == 0
    assert None not in made.evidence()["cells"][0]["watts"]


def test_where_time_decides_no_power_is_read(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert not [record for record in made.records() if "watts" in record or record.get("step") == "power"]


def test_exhaustive_finalists_are_those_of_least_energy(tmp_path):
    """The slowest of six draws an eighth: with two finalists it would be none by its time."""
    made = make_bench(tmp_path, watts={CELL: {(64, 4): 50.0}})
    options = ("--strategy", "exhaustive", "--select", "energy", "--set", "finalists.count=2", *SHORT)
    assert made.tune("--cells", listed(tmp_path, CELL), *options).code == 0
    assert "a = 64 4" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()


def test_watts_are_read_of_more_where_the_fastest_turns_out_to_be_wrong(tmp_path):
    """The next one is more than twice as slow as that, and the best of what is left."""
    faults = {(CELL, (64, 2)): [{"stage": "confirm", "kind": "value", "value": 3.0}]}
    times = {CELL: {FIRST: 1500.0, (64, 2): 700.0, (32, 2): 1600.0}}
    made = make_bench(tmp_path, times, watts={CELL: {(32, 2): 30.0}}, faults=faults)
    chosen = tmp_path / "chosen.txt"
    chosen.write_text("BLOCK_M=64 num_warps=2\nBLOCK_M=32 num_warps=2\n", encoding="utf-8")
    options = ("--cells", listed(tmp_path, CELL), "--select", "energy", "--candidates", str(chosen))
    assert made.tune(*options).code == 0
    assert "a = 32 2" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    size = len(made.records())
    made.tune(*options, "--name", "again")
    assert len(made.records()) == size
