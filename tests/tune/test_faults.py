"""What candidates do to the tuner, and what that costs: themselves."""

from __future__ import annotations

import json
import signal
import time
from itertools import count
from typing import Any

import pytest

from tests.tune.bench import CELLS, CONFIGS, TABLE, Bench, invoke, listed, make_bench
from txtdb.tune.measuring import Measurer

CELL, OTHER = CELLS[0], CELLS[1]
FAST, GOOD = (64, 4), (64, 2)
# The fast candidate would win if it were right; the good one is the next.
TIMES = {cell: {FAST: 500.0, GOOD: 800.0} for cell in CELLS}


def bench(tmp_path: Any, *faults: dict[str, Any], cells: Any = (CELL,), config: Any = FAST, **more: Any) -> Bench:
    struck = {(cell, config): list(faults) for cell in cells} if faults else {}
    return make_bench(tmp_path, TIMES, faults=struck, **more)


def status_of(made: Bench, config: Any, cell: int = 0) -> tuple[str, str]:
    """(status, detail) of a candidate in the evidence."""
    evidence = made.evidence()
    number = evidence["configs"].index(list(config))
    (found,) = [entrant for entrant in evidence["cells"][cell]["entrants"] if entrant[0] == number]
    return found[1], found[3]


def winner_of(made: Bench, cell: int = 0) -> list[int] | None:
    evidence = made.evidence()
    found = evidence["cells"][cell]
    winner = found["decision"]["winner"]
    return None if winner is None else evidence["configs"][found["entrants"][winner][0]]


FAULTS = {
    "compile_error by an exception": (
        {"stage": "compile", "kind": "raise", "exception": "ValueError"},
        ("compile_error", "ValueError: simulated"),
    ),
    "compile_error that the device tells": (
        {"stage": "compile", "kind": "fault", "status": "compile_error", "message": "no such tile"},
        ("compile_error", "no such tile"),
    ),
    "out_of_resources": (
        {"stage": "compile", "kind": "fault", "status": "out_of_resources", "message": "shared memory"},
        ("out_of_resources", "shared memory"),
    ),
    "out_of_resources by an exception": (
        {"stage": "check", "kind": "raise", "exception": "MemoryError"},
        ("out_of_resources", "MemoryError: simulated"),
    ),
    "crash of the compiler": ({"stage": "compile", "kind": "abort"}, ("crash", "Aborted")),
    "crash in the check": ({"stage": "check", "kind": "kill"}, ("crash", "Killed")),
    "crash in the race": ({"stage": "time", "kind": "abort", "first": 1}, ("crash", "Aborted")),
    "crash by an exception": (
        {"stage": "time", "kind": "raise", "exception": "RuntimeError"},
        ("crash", "RuntimeError: simulated"),
    ),
    "wrong_result": (
        {"stage": "check", "kind": "value", "value": 1.5},
        ("wrong_result", "the error is 1.5 times the tolerance"),
    ),
    "half a character in what is said": (
        {"stage": "check", "kind": "raise", "message": "no file \udce9.so"},
        ("crash", "RuntimeError: no file ?.so"),
    ),
    "NaN in the results": (
        {"stage": "check", "kind": "value", "value": "nan"},
        ("wrong_result", "a result is not a number"),
    ),
    "a time of zero": ({"stage": "time", "kind": "value", "value": 0.0}, ("wrong_result", "a call took 0.0 ns")),
    "a negative time": ({"stage": "time", "kind": "value", "value": -5.0}, ("wrong_result", "a call took -5.0 ns")),
    "a time that is NaN": ({"stage": "time", "kind": "value", "value": "nan"}, ("wrong_result", "a call took nan ns")),
    "an endless time": ({"stage": "time", "kind": "value", "value": "inf"}, ("wrong_result", "a call took inf ns")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_its_candidate_alone(tmp_path, name):
    fault, expected = FAULTS[name]
    made = bench(tmp_path, fault)
    made.settings = (*made.settings, "run.retries=1")
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, status_of(made, FAST)) == (0, expected)
    assert [status_of(made, config)[0] for config in CONFIGS if config != FAST] == ["ok"] * (len(CONFIGS) - 1)
    assert winner_of(made) == list(GOOD)
    assert f"faults: 1 {expected[0]}" in done.out


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_row_057_a_candidate_that_aborts_its_worker_is_a_crash_and_all_others_are_measured(tmp_path, strategy):
    made = bench(tmp_path, {"stage": "time", "kind": "abort"}, cells=(CELL, OTHER))
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER), "--strategy", strategy)
    assert done.code == 0
    for cell in (0, 1):
        assert status_of(made, FAST, cell) == ("crash", "Aborted")
        assert winner_of(made, cell) == list(GOOD)
    assert "faults: 2 crash" in done.out
    assert [record["status"] for record in made.records() if record["is"] == "verdict"].count("crash") == 2


def test_row_058_a_candidate_that_never_ends_is_a_timeout_and_is_not_tried_again(tmp_path):
    made = bench(tmp_path, {"stage": "check", "kind": "hang"})
    made.settings = (*made.settings, "run.call_limit_s=0.5")
    start = time.monotonic()
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER))
    assert time.monotonic() - start < 30
    assert (done.code, status_of(made, FAST)) == (0, ("timeout", "no answer in 0.5 s"))
    assert (winner_of(made, 0), winner_of(made, 1)) == (list(GOOD), list(FAST))
    begun = [
        r for r in made.records() if r["is"] == "begin" and r["step"] == "check" and "64 num_warps=4" in r["config"]
    ]
    assert len([record for record in begun if record["cell"] == "64 @ 64,64"]) == 1


def test_row_058_a_compiler_that_never_ends_is_a_timeout(tmp_path):
    made = bench(tmp_path, {"stage": "compile", "kind": "hang"})
    made.settings = (*made.settings, "run.compile_limit_s=0.5")
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert status_of(made, FAST) == ("timeout", "no answer in 0.5 s")


@pytest.mark.parametrize("exception", ["RuntimeError", "ValueError", "SomethingOfTheCompiler"])
def test_row_060_any_exception_is_recorded_with_its_type(tmp_path, exception):
    made = bench(tmp_path, {"stage": "compile", "kind": "raise", "exception": exception})
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert status_of(made, FAST) == ("compile_error", f"{exception}: simulated")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_row_060_an_interrupt_ends_the_run_cleanly_and_it_goes_on_later(tmp_path, number):
    made = bench(tmp_path, {"stage": "check", "kind": "hang"}, cells=(OTHER,))
    process = made.start("--cells", listed(tmp_path, CELL, OTHER))
    wait_for(lambda: any(begun["cell"] == "64 @ 64,128" for begun in hanging(made, "begin")))
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "stopped: the same command goes on from here" in out
    assert made.patches() == {}
    evidence = made.evidence()
    assert evidence["state"] == "partial 1/2"
    found = [
        (cell["at"]["seqlen_k"], cell["decision"]["outcome"], cell["decision"]["reason"]) for cell in evidence["cells"]
    ]
    assert found == [(64, "published", "gain"), (128, "unmeasured", "stopped")]
    assert "not measured: 1 cell" in out and "not_run" not in out
    assert made.measurements() > 0


def test_a_candidate_during_which_a_person_ends_the_run_again_and_again_is_not_to_blame(tmp_path):
    made = bench(tmp_path, {"stage": "check", "kind": "hang"})
    made.settings = (*made.settings, "run.call_limit_s=60")
    for _ in range(4):
        before = len(hanging(made, "begin"))
        process = made.start("--cells", listed(tmp_path, CELL))
        wait_for(lambda known=before: len(hanging(made, "begin")) > known)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 1
    assert hanging(made, "verdict") == []


def hanging(made: Bench, kind: str) -> list[dict[str, Any]]:
    """The records of a kind of the check of the fast candidate."""
    wanted = {"is": kind, "step": "check", "config": "BLOCK_M=64 num_warps=4"}
    return [record for record in tuned_records(made) if wanted.items() <= record.items()]


def tuned_records(made: Bench) -> list[dict[str, Any]]:
    return made.records() if list(made.journals.glob("*.journal")) else []


def wait_for(condition: Any, limit_s: float = 60.0) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < limit_s, "it never came about"
        time.sleep(0.01)


def test_row_062_a_fast_candidate_with_too_large_an_error_never_wins_and_errors_are_kept_unrounded(tmp_path):
    errors = {FAST: 0.2 / 0.1, GOOD: 0.04 / 0.1}
    made = make_bench(tmp_path, TIMES, errors=errors)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert status_of(made, FAST)[0] == "wrong_result"
    assert winner_of(made) == list(GOOD)
    evidence = made.evidence()
    kept = {tuple(evidence["configs"][e[0]]): e[2] for e in evidence["cells"][0]["entrants"]}
    assert {config: kept[config] for config in errors} == errors


def test_row_064_a_cell_without_a_valid_candidate_keeps_its_incumbent_and_others_are_published(tmp_path):
    faults = {(CELL, config): [{"stage": "check", "kind": "value", "value": 9.0}] for config in CONFIGS}
    made = make_bench(tmp_path, TIMES, faults=faults)
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER))
    assert done.code == 1
    detail = "wrong_result: the error is 9 times the tolerance"
    assert f"no valid candidate (6 {detail})\n" in done.out
    assert f"no valid candidate: 1 cell\n  {detail}\n" in done.out
    (kept,) = made.journals.glob("*-tuned.json")
    assert f"all that was said of candidates is in {kept.as_posix()}\n" in done.out
    patch = made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    assert "#! axis seqlen_k 128" in patch  # the other cell's bin alone
    assert made.evidence()["state"] == "complete 2/2"
    assert made.evidence()["cells"][0]["decision"]["outcome"] == "failed"


def test_row_065_a_functional_that_always_fails_is_given_up_and_the_run_ends(tmp_path):
    failing = [cell for cell in CELLS if cell[0] == 128]
    fault = [{"stage": "compile", "kind": "fault", "status": "compile_error", "message": "no such dtype"}]
    faults = {(cell, config): fault for cell in failing for config in CONFIGS}
    made = make_bench(tmp_path, TIMES, faults=faults)
    made.settings = (*made.settings, "run.faults_in_a_row=8")
    cells = [CELLS[0], *failing]
    done = made.tune("--cells", listed(tmp_path, *cells))
    assert done.code == 1
    assert [line.partition(" ")[0] for line in done.out.splitlines()[: len(cells)]] == [
        f"[{number}/{len(cells)}]" for number in range(1, len(cells) + 1)
    ]
    statuses = [entrant[1] for cell in made.evidence()["cells"][1:] for entrant in cell["entrants"]]
    assert (statuses.count("compile_error"), statuses.count("not_run")) == (8, 9 * 6 - 8)
    assert "  head_dim=64: 1 published" in done.out
    assert f"  head_dim=128: {len(failing)} failed" in done.out
    assert "given up: the first 8 candidates failed" in status_of(made, FAST, 9)[1]


def test_a_functional_with_one_right_candidate_is_not_given_up(tmp_path):
    fault = [{"stage": "compile", "kind": "raise"}]
    faults = {(CELL, config): fault for config in CONFIGS if config != (16, 2)}
    made = make_bench(tmp_path, TIMES, faults=faults)
    made.settings = (*made.settings, "run.faults_in_a_row=2")
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert [entrant[1] for entrant in made.evidence()["cells"][0]["entrants"]].count("compile_error") == 5


def test_an_incumbent_that_is_wrong_is_told_and_replaced(tmp_path):
    made = bench(tmp_path, {"stage": "check", "kind": "value", "value": 2.0}, config=(16, 2))
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert done.code == 0
    assert "because the incumbent failed: wrong_result (the error is 2 times the tolerance)" in done.out
    assert "a = 64 4" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    assert made.evidence()["cells"][0]["decision"]["reason"] == "incumbent-failed"


def test_a_winner_that_is_wrong_at_another_shape_of_its_bin_does_not_win(tmp_path):
    wrong = {
        "functional": {"head_dim": 64},
        "at": {"seqlen_q": 65, "seqlen_k": 65},
        "candidates": [
            {"config": {"BLOCK_M": 64, "num_warps": 4}, "ns": 1.0, "error": 7.0},
            {"config": {"BLOCK_M": 64, "num_warps": 2}, "ns": 1.0, "error": 1.0},
        ],
    }
    cell = (64, 128, 128)
    made = make_bench(tmp_path, TIMES, also=[wrong])
    done = made.tune("--cells", listed(tmp_path, cell))
    assert done.code == 0
    assert status_of(made, FAST) == ("wrong_result", "wrong at 65,65, another shape of its bin")
    assert winner_of(made) == list(GOOD)


STAYS = {CELL: {(16, 2): 700.0, GOOD: 800.0}}
WRONG_ELSEWHERE = {"stage": "confirm", "kind": "value", "value": 3.0}


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_an_incumbent_that_would_stay_and_is_wrong_elsewhere_in_its_bin_is_replaced(tmp_path, strategy):
    made = make_bench(tmp_path, STAYS, faults={(CELL, (16, 2)): [WRONG_ELSEWHERE]})
    done = made.tune("--cells", listed(tmp_path, CELL), "--strategy", strategy)
    assert done.code == 0
    assert "because the incumbent failed: wrong_result (wrong at 1,1, another shape of its bin)" in done.out
    assert (winner_of(made), made.evidence()["cells"][0]["decision"]["reason"]) == (list(GOOD), "incumbent-failed")
    assert "a = 64 2" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()


def test_an_incumbent_that_stays_below_the_bar_is_confirmed_once(tmp_path):
    made = make_bench(tmp_path, {CELL: {(16, 2): 700.0, GOOD: 690.0}})
    for name in ("once", "again"):
        assert made.tune("--cells", listed(tmp_path, CELL), "--name", name).code == 0
    assert made.evidence("again")["cells"][0]["decision"]["reason"] == "below-bar"
    verdicts = [record for record in made.records() if record["is"] == "verdict" and record["step"] == "confirm"]
    assert [(record["config"], record["status"]) for record in verdicts] == [("BLOCK_M=16 num_warps=2", "ok")]
    begun = [record for record in made.records() if record["is"] == "begin" and record["step"] == "confirm"]
    assert len(begun) == 3, "the smallest shape of the bin, one in the middle, and the last odd one"


def test_a_cell_whose_every_candidate_is_wrong_elsewhere_has_none(tmp_path):
    made = make_bench(tmp_path, STAYS, faults={(CELL, config): [WRONG_ELSEWHERE] for config in CONFIGS})
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 1
    assert made.evidence()["cells"][0]["decision"]["outcome"] == "failed"


@pytest.mark.parametrize("strategy", ["race", "exhaustive"])
def test_a_comparison_confirms_what_is_there_now_and_nothing_else(tmp_path, strategy):
    made, before = make_bench(tmp_path, TIMES), make_bench(tmp_path / "before")
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    given = ("--all", "--compare", str(before.root), "--name", "compared", "--strategy", strategy)
    assert made.tune(*given).code == 0
    (path,) = [path for path in made.journals.glob("*.journal") if '"compare"' in path.read_text(encoding="utf-8")]
    records = [json.loads(line.partition(" ")[2]) for line in path.read_text(encoding="utf-8").splitlines()]
    confirmed = [record["config"] for record in records if record["is"] == "verdict" and record["step"] == "confirm"]
    assert confirmed == ["BLOCK_M=64 num_warps=4"]


@pytest.mark.parametrize("new_is_faster", [False, True])
def test_a_comparison_tells_of_a_new_config_that_is_wrong_elsewhere_in_its_bin(tmp_path, new_is_faster):
    times = {CELL: {GOOD: 700.0 if new_is_faster else 1300.0}}
    wide = TABLE.replace("a = 16 2\n", "a = 16 2\nb = 64 2\n").replace(
        "[64]\n64-256 a*3", "[64]\n64 b a*2\n128-256 a*3"
    )
    made = make_bench(tmp_path, times, faults={(CELL, GOOD): [WRONG_ELSEWHERE]}, files={"gfxA/attn_fwd.txtdb": wide})
    before = make_bench(tmp_path / "before")
    done = made.tune("--all", "--compare", str(before.root))
    assert (done.code, "worse than before: 1 cell" in done.out) == (1, True)
    assert "BLOCK_M 16→64, not valid: wrong_result (wrong at 1,1, another shape of its bin)" in done.out


def test_each_round_of_the_finalists_has_a_fresh_worker(tmp_path, monkeypatch):
    """And all entrants of a round the same one, for they are compared."""
    workers: list[object] = []
    time_it = Measurer.time

    def noted(self: Measurer, *given: Any, **more: Any) -> Any:
        found = time_it(self, *given, **more)
        workers.append(self._worker)
        return found

    monkeypatch.setattr(Measurer, "time", noted)
    made = make_bench(tmp_path, TIMES)
    made.settings = (*made.settings, "finalists.count=2")
    assert made.tune("--cells", listed(tmp_path, CELL), "--strategy", "exhaustive").code == 0
    rounds = [workers[len(CONFIGS) + 3 * number :][:3] for number in range(7)]
    assert len(workers) == len(CONFIGS) + 3 * 7, "the two fastest, and the incumbent"
    assert all(len(set(map(id, one))) == 1 for one in rounds)
    assert len({id(one[0]) for one in rounds} | {id(workers[0])}) == 8


def test_throttled_measurements_are_made_again_and_counted(tmp_path):
    made = bench(tmp_path, {"stage": "time", "kind": "throttle", "first": 1, "last": 2}, config=GOOD)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert done.code == 0
    assert made.evidence()["cells"][0]["dropped"] == 6
    assert "dropped: 6 calls, because the device throttled" in done.out


THROTTLED = {"stage": "time", "kind": "throttle", "first": 0, "last": 4}


@pytest.mark.parametrize("options", [(), ("--table",)], ids=["patch", "table"])
def test_a_device_that_stays_throttled_decides_nothing_until_the_same_command_goes_on(tmp_path, monkeypatch, options):
    """And what is written then is all there would have been."""
    readings = count()
    monkeypatch.setattr(Measurer, "conditions", lambda self: {"celsius": next(readings)})
    made = bench(tmp_path, THROTTLED, config=GOOD)
    table = made.root / "gfxA" / "attn_fwd.txtdb"
    if options:
        table.unlink()
    given = ("--cells", listed(tmp_path, CELL, OTHER), *options)
    done = made.tune(*given)
    assert done.code == 1
    assert "not measured: the device stays throttled" in done.out
    assert done.out.endswith(
        f"not complete: no {'table' if options else 'patch'} is written; the same command goes on from here\n"
    )
    assert (made.evidence()["state"], made.patches(), table.exists()) == ("partial 1/2", {}, not options)
    assert made.tune(*given).code == 0
    assert made.evidence()["state"] == "complete 2/2"
    assert made.evidence()["device"]["end"] == {"celsius": 1}, "the end is that of the part that came to it"
    assert table.exists() if options else "attn_fwd.0010-tuned.dbpatch" in made.patches()
    assert invoke("verify", str(made.root))[0] == 0


def test_a_comparison_on_a_device_that_stays_throttled_goes_on_too(tmp_path):
    made, before = bench(tmp_path, THROTTLED, config=FAST), make_bench(tmp_path / "before")
    table = made.root / "gfxA" / "attn_fwd.txtdb"
    table.write_text(table.read_text(encoding="utf-8").replace("a = 16 2", "a = 64 4"), encoding="utf-8")
    given = ("--cells", listed(tmp_path, CELL, OTHER), "--compare", str(before.root))
    first, second = made.tune(*given), made.tune(*given)
    assert (first.code, first.out.splitlines()[-1]) == (1, "not complete: the same command goes on from here")
    assert (second.code, second.out.splitlines()[-1]) == (0, "compared: the database stays as it is")
