"""The programs that measure on a GPU, without one: compiling ahead, what is written when they are cut, trials."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tune.bench import make_bench
from tools.bench.tuning_lab import Ahead, Images, Lab, write_rows
from txtdb.evidence.policy import Policy
from txtdb.layers.database import load
from txtdb.model.evidence import Status
from txtdb.tune.calibrating import LABELS, SLOWER_PCT
from txtdb.tune.device import CandidateFault, Config, Task


@dataclass(frozen=True)
class Compiler:
    """Writes down what it compiles; `mode` of a config is what goes wrong, `wait` how long it takes."""

    log: Path
    iface: str = "attn_fwd"

    def compile(self, task: Task, config: Config) -> None:
        with self.log.open("a", encoding="utf-8") as stream:
            print(config.get("number", config.get("BLOCK_M")), file=stream)
        time.sleep(float(config.get("wait", 0)))
        if config.get("mode") == "end":
            os._exit(9)
        if config.get("mode") == "fault":
            raise CandidateFault(Status.COMPILE_ERROR, "refused")

    def narrow(self, task: Task, configs: Any) -> Any:
        return configs


TASK = Task("attn_fwd", "gfxA", {"head_dim": 64}, {"seqlen_q": 64, "seqlen_k": 64})


def items(*configs: dict[str, Any]) -> list[tuple[Task, Config]]:
    return [(TASK, {"number": number, **config}) for number, config in enumerate(configs)]


def test_one_that_ends_its_process_costs_itself_alone(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "log")
    ahead = Ahead(compiler, items({}, {"mode": "end"}, {"mode": "fault"}, {}), 1)
    found = ahead.wait(range(4))
    ahead.close()
    assert found == ["", "crash: the compiler ended with 9", "compile_error: refused", ""]
    assert compiler.log.read_text().split() == ["0", "1", "2", "3"]


def test_the_first_are_there_while_others_are_compiled(tmp_path: Path) -> None:
    ahead = Ahead(Compiler(tmp_path / "log"), items({}, {}, {"wait": 60}), 1)
    begin = time.monotonic()
    assert ahead.wait([0, 1]) == ["", ""]
    assert ahead.done == 2
    ahead.close()
    assert time.monotonic() - begin < 30


def test_images_of_a_functional_are_compiled_once_and_in_the_order_of_the_cells(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "log")
    lab = Lab(cast(Any, None), cast(Any, compiler), load(make_bench(tmp_path).root), "gfxA", Policy())
    cells = [lab.cell({"head_dim": width}, (size, size)) for width in (128, 64) for size in (64, 128)]
    configs = {cell: [(16, 2)] if cell.functional == (128,) else [(32, 2), (64, 2)] for cell in cells}
    with Images(lab, cells, configs, 1) as images:
        assert [images.faults(cell.functional) for cell in cells] == [{}] * 4
    assert compiler.log.read_text().split() == ["16", "32", "64"]


def test_rows_are_a_whole_file_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.json"
    write_rows(path, {"planned": 2}, [{"cell": 1}], "cells")

    def cut(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("txtdb.files.os.replace", cut)
    with pytest.raises(KeyboardInterrupt):
        write_rows(path, {"planned": 2}, [{"cell": 1}, {"cell": 2}], "cells")
    assert json.loads(path.read_text()) == {"planned": 2, "cells": [{"cell": 1}]}


class Clock:
    """A device whose calls all take the same, but for a step of the timer."""

    def __init__(self) -> None:
        self.calls = 0

    def facts(self, iface: str) -> Any:
        raise AssertionError("the program's own head is replaced")

    def check(self, task: Task, config: Config) -> float:
        return 0.1

    def time(self, task: Task, config: Config, warm_up: int, calls: int, number: int) -> list[float]:
        self.calls += 1
        return [1000.0 + self.calls % 2] * calls


def test_a_calibration_has_trials_of_both_kinds_whenever_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from tools.bench import tuning

    monkeypatch.setattr(tuning, "about", lambda lab: {"about": "test"})
    monkeypatch.setattr(tuning, "PLAIN", {"BLOCK_M": 16, "num_warps": 2})
    written: list[int] = []

    def write(path: Path, head: dict[str, Any], rows: list[dict[str, Any]], name: str) -> None:
        write_rows(path, head, rows, name)
        written.append(len(rows))

    monkeypatch.setattr(tuning, "write_rows", write)
    compiler = Compiler(tmp_path / "log")
    lab = Lab(cast(Any, Clock()), cast(Any, compiler), load(make_bench(tmp_path).root), "gfxA", Policy())
    options = cast(Any, SimpleNamespace(trials=16, out=tmp_path))
    assert tuning.calibrate(lab, lab.cell({"head_dim": 64}, (64, 64)), options) == 0
    assert written == [10, 20]
    found = json.loads((tmp_path / "tuning-calibrate.json").read_text())
    names = [row["trial"].split()[0] for row in found["trials"]]
    assert [names[:10].count("equals"), names[:10].count("twin"), names.count("twin")] == [8, 2, 4]
    assert len(found["trials"][0]["blocks"][0][0]) == LABELS
    assert found["calibration"]["power"] == {
        "slower_pct": SLOWER_PCT, "trials": 4, "count": 4, "pct": 100.0, "low_pct": pytest.approx(39.8, abs=0.1),
        "high_pct": 100.0,
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 4, 120])
def test_every_trial_is_run_once(count: int) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from tools.bench.tuning import interleaved
    from txtdb.tune.calibrating import plan_trials

    assert sorted(interleaved(count), key=str) == sorted(plan_trials(count), key=str)
