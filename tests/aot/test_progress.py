"""How far a build is, and what it does where no compiler can start."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codegen import aot_progress
from codegen.aot import build as building
from codegen.aot import pool
from codegen.aot.build import Workshop, compile_specs
from codegen.aot.folder import BuildFolder
from codegen.aot.pool import Job, Running, compile_all
from codegen.aot.result import Result
from codegen.aot.sources import Sources
from codegen.aot.standing import Standing, left_text, standing_text
from codegen.aot_progress import Lines, shown_progress
from tests.aot.test_spec import GFX942, SM_90, spec
from tests.aot.tiny import COMPILER, failed, make_root
from txtdb.cli import main

LIMIT_S = 300.0


def standing(running: Sequence[tuple[str, float]] = (), seconds: Sequence[float] = (), done: int = 10) -> Standing:
    return Standing(done, 20, 0, running, seconds, 2, LIMIT_S)


def test_a_worker_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    """As where the disk is full: a place without a process is given back, so that no job waits for it for ever."""
    (tmp_path / "worker-0").touch()
    ended: list[BaseException] = []

    def run() -> None:
        try:
            list(compile_all([Job(number, None, tmp_path / str(number)) for number in range(3)], 1, 5, "", tmp_path))  # type: ignore[arg-type]
        except OSError as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert len(ended) == 1


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, folder: Path) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(building, "compiler_ids", lambda targets: dict.fromkeys(targets, COMPILER))
    monkeypatch.setattr(pool, "_Worker", Full)
    out = tmp_path / "x.pack"
    words = ["aot", "build", make_root(tmp_path, "gfx942"), "--out", out, "--build", tmp_path / "build", "--jobs", 1]
    done = CliRunner().invoke(main, [*map(str, words)])
    assert (done.exit_code, "No space left on device" in done.stderr) == (2, True)


def test_the_time_left_is_that_of_what_is_done() -> None:
    assert left_text(standing()) == "", "nothing is known"
    assert left_text(standing(seconds=[4.0, 8.0], done=20)) == "", "nothing is left"
    assert left_text(standing(seconds=[4.0, 8.0])) == "about 30 s left"
    assert left_text(standing([("a", 2.0), ("b", 1.0)], [4.0, 8.0])) == "about 28 s left"


def test_the_time_left_knows_the_limit() -> None:
    """Three small ones that stand at their limit are not done in the mean time of the others."""
    stuck = [("a", 290.0), ("b", 200.0)]
    assert left_text(standing(stuck, [1.0], done=18)) == "up to 2 min left"
    assert left_text(standing([("a", 301.0)], [1.0], done=19)) == "up to 0 s left"


def test_a_line_says_what_takes_longest() -> None:
    text = standing_text(Standing(3, 20, 1, [("gfx942 attn_fwd-a", 95.0), ("b", 1.0)], [1.0], 2, LIMIT_S))
    assert text == "3/20 images, 1 failed, longest gfx942 attn_fwd-a for 2 min, up to 3 min left"
    assert standing_text(standing()) == "10/20 images"


def test_lines_come_at_times() -> None:
    now, told = [0.0], list[str]()
    lines = Lines(told.append, lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        lines.show(standing(done=second))
    assert told == ["10/20 images", "20/20 images"]


def test_a_bar_has_the_time_left_and_is_drawn_again_when_nothing_more_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with shown_progress() as show:
        for seconds in (1.0, 100.0):
            show(standing([("stuck", seconds)], [3.0], done=19))
    said = capsys.readouterr().err
    assert "about 2 s left, the longest since 1 s" in said
    assert "up to 3 min left, the longest since 2 min" in said


def test_without_a_terminal_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aot_progress, "_QUIET_S", 0.0)
    with shown_progress() as show:
        show(standing())
    assert capsys.readouterr().err == "10/20 images\n"


def test_compiling_tells_what_runs_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, told = Sources(), list[Standing]()
    specs = [spec(kernels, GFX942), spec(kernels, SM_90)]

    def compiled(jobs: Sequence[Job], *given: Any) -> Any:
        *_, watch = given
        for job in jobs:
            watch([Running(job, 5.0)])
            yield job, failed("crash")
        watch([])

    monkeypatch.setattr(building, "compiler_ids", lambda targets: dict.fromkeys(targets, COMPILER))
    monkeypatch.setattr(building, "compile_all", compiled)
    shop = Workshop(BuildFolder(tmp_path), 1, progress=told.append, kernels=kernels)
    compile_specs(specs, shop, {specs[0]: "first"})
    assert [one.running for one in told] == [[("first", 5.0)], [("attn_fwd", 5.0)], []]
    assert [(one.done, one.failed, one.total) for one in told] == [(0, 0, 2), (1, 1, 2), (2, 2, 2)]


def test_what_runs_is_told_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __init__(self, folder: Path) -> None: ...
        def ready(self, content: str) -> None: ...
        def kill(self) -> None: ...
        def end(self) -> None: ...
        def ask(self, request: object, limit_s: float) -> dict[str, Any]:
            time.sleep(0.3)
            return {"result": Result("crash", "", 0.3).json()}

    monkeypatch.setattr(pool, "_Worker", Slow)
    monkeypatch.setattr(pool, "_image_request", lambda job: {})
    monkeypatch.setattr(pool, "_LOOK_S", 0.02)
    seen: list[list[Running]] = []
    jobs = [Job(number, None, tmp_path) for number in range(2)]  # type: ignore[arg-type]
    assert len(list(compile_all(jobs, 1, 5, "", tmp_path, lambda running: seen.append(list(running))))) == 2
    assert {one.job.number for running in seen for one in running} == {0, 1}
    assert max(one.seconds for running in seen for one in running) > 0.1
    assert seen[-1] == []
