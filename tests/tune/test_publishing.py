"""How a run is published in a root that others change, or that cannot be written; and broken sides of a comparison."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.tune.bench import CELLS, FIRST, SCHEMA, TABLE, Bench, listed, make_bench
from tests.unprivileged import public_folder, unprivileged
from txtdb.layers.database import load
from txtdb.locking import alone_in
from txtdb.patching import files
from txtdb.patching.stack import Stack
from txtdb.tune import job

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}, OTHER: {(64, 2): 800.0}}
# The table with other contents in the first cell, or in the one beside it.
FIRST_CHANGED = TABLE.replace("a = 16 2", "a = 16 2\nb = 32 4").replace(
    "[64]\n64-256 a*3", "[64]\n64 b a*2\n128-256 a*3"
)
BESIDE_CHANGED = FIRST_CHANGED.replace("64 b a*2", "64 a b a")
WIDE_TABLE = TABLE.replace("a = 16 2", "a = 64 2")


def meanwhile(monkeypatch, change):
    """Let `change` happen once, after the next run has measured all of its cells."""
    run, waiting = job.run_session, [change]

    def run_session(*given):
        found = run(*given)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(job, "run_session", run_session)


def writes(path: Path, text: str):
    return lambda: path.write_text(text, encoding="utf-8")


def shut(monkeypatch, is_shut):
    """Let folders look as if nobody may write in them."""
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: access(path, mode) and not (mode == os.W_OK and is_shut(Path(path)))
    )


def stale_patches(made: Bench) -> list[str]:
    stack = Stack(load(made.root)["gfxA"]["attn_fwd"])
    return [patch.file for patch in stack.patches if stack.is_stale(patch)]


def test_two_runs_at_once_on_one_root_get_two_numbers(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    rival = Bench(made.root, made.device, tmp_path / "others")
    (tmp_path / "x").mkdir()
    others = listed(tmp_path / "x", OTHER)
    meanwhile(monkeypatch, lambda: rival.tune("--cells", others, "--name", "rival"))
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    patches = [name for name in made.patches() if name.endswith(".dbpatch")]
    assert patches == ["attn_fwd.0010-rival.dbpatch", "attn_fwd.0020-tuned.dbpatch"]
    assert stale_patches(made) == []


def test_two_runs_at_once_for_one_cell_publish_it_once(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    rival, cells = Bench(made.root, made.device, tmp_path / "others"), listed(tmp_path, CELL)
    meanwhile(monkeypatch, lambda: rival.tune("--cells", cells, "--name", "rival"))
    done = made.tune("--cells", cells)
    assert done.code == 1
    assert "0010-rival.dbpatch" in done.err
    assert "1 of the 1 cell to write was changed during the run [ground-moved]" in done.err
    assert "run the same command again" in done.err
    assert list(made.patches()) == ["attn_fwd.0010-rival.dbpatch", "rival.json"]
    again = made.tune("--cells", cells)
    assert (again.code, "nothing changes: no patch is written" in again.out) == (0, True)


def test_a_run_whose_ground_moved_writes_nothing_and_the_same_command_publishes(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL, OTHER)
    meanwhile(monkeypatch, writes(made.root / "gfxA" / "attn_fwd.txtdb", FIRST_CHANGED))
    done = made.tune("--cells", cells)
    assert (done.code, made.patches()) == (1, {})
    assert "1 of the 2 cells to write was changed during the run" in done.err
    kept = made.measurements()
    assert made.tune("--cells", cells).code == 0
    assert made.measurements() >= kept > 0
    assert "attn_fwd.0010-tuned.dbpatch" in made.patches()
    assert stale_patches(made) == []


def test_a_cell_that_the_patch_does_not_set_may_change_during_the_run(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    meanwhile(monkeypatch, writes(made.root / "gfxA" / "attn_fwd.txtdb", BESIDE_CHANGED))
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert "attn_fwd.0010-tuned.dbpatch" in made.patches()
    assert stale_patches(made) == []


CHANGES = {
    "another schema": ("schema/attn_fwd.toml", SCHEMA.replace("[16, 32, 64]", "[16, 64]"), "the schema was changed"),
    "a broken schema": ("schema/attn_fwd.toml", "iface = ", "schema/attn_fwd.toml"),
    "a broken table": ("gfxA/attn_fwd.txtdb", TABLE.replace("a*3", "b*3"), "gfxA/attn_fwd.txtdb"),
    "a cell that is gone": (
        "gfxA/attn_fwd.txtdb",
        TABLE.replace("[64]\n64-256 a*3\n\n", ""),
        "gfxA: error: 1 of the 1",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_root_that_was_changed_otherwise_is_told_and_not_written(tmp_path, monkeypatch, name):
    file, text, expected = CHANGES[name]
    made = make_bench(tmp_path, TIMES)
    meanwhile(monkeypatch, writes(made.root / file, text))
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, made.patches()) == (1, {})
    assert expected in done.err


def test_an_own_table_that_came_during_the_run_is_not_replaced(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES, files={"gfxA/attn_fwd.txtdb": None})
    own = made.root / "gfxA" / "attn_fwd.txtdb"
    own.parent.mkdir(exist_ok=True)
    meanwhile(monkeypatch, writes(own, TABLE))
    done = made.tune("--cells", listed(tmp_path, CELL), "--table")
    assert (done.code, own.read_text(encoding="utf-8")) == (1, TABLE)
    assert "there is an own table already" in done.err


@pytest.mark.parametrize("place", ["gfxA", "gfxA/evidence"])
def test_a_root_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, monkeypatch, place):
    made = make_bench(tmp_path, TIMES)
    folder = made.root / place
    folder.mkdir(exist_ok=True)
    shut(monkeypatch, folder.__eq__)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, made.journals.exists()) == (2, False)
    assert f"{folder.as_posix()}: error: no file can be written here [unwritable]" in done.err


def test_a_root_without_the_arch_s_folder_is_told_too_when_none_can_be_made(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES, files={"gfxA/attn_fwd.txtdb": None})
    assert not (made.root / "gfxA").exists()
    shut(monkeypatch, made.root.__eq__)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, made.journals.exists()) == (2, False)
    assert "no file can be written here" in done.err


def test_a_comparison_and_a_dry_run_need_no_root_that_can_be_written(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES, files={"gfxA/attn_fwd.txtdb": WIDE_TABLE})
    old, cells = make_bench(tmp_path / "old"), listed(tmp_path, CELL)
    shut(monkeypatch, lambda path: made.root in path.parents)
    assert made.tune("--cells", cells, "--dry-run").code == 0
    assert made.tune("--cells", cells, "--compare", str(old.root)).code == 0
    assert made.tune("--cells", cells).code == 2


def test_row_118_a_read_only_root_is_told_to_an_unprivileged_user_before_anything_is_measured():
    with public_folder() as folder:
        made = make_bench(folder, TIMES)
        cells = listed(folder, CELL)
        made.journals.mkdir()
        made.journals.chmod(0o777)
        (made.root / "gfxA").chmod(0o555)

        def work():
            done = made.tune("--cells", cells)
            return [done.code, done.err, [path.name for path in made.journals.iterdir()]]

        code, err, journals = unprivileged(work)
    assert (code, journals) == (2, [])
    assert "gfxA: error: no file can be written here" in err


def test_a_comparison_with_an_old_config_that_fails_its_check_says_so_and_is_clean(tmp_path):
    made = make_bench(tmp_path, files={"gfxA/attn_fwd.txtdb": WIDE_TABLE}, errors={(16, 2): 1.5})
    old = make_bench(tmp_path / "old")
    done = made.tune("--cells", listed(tmp_path, CELL), "--compare", str(old.root))
    assert done.code == 0
    assert "BLOCK_M 16→64, the old one failed: wrong_result (the error is 1.5 times the tolerance)" in done.out
    assert "worse than before" not in done.out


def test_a_comparison_with_a_new_config_that_fails_its_check_is_worse(tmp_path):
    made = make_bench(tmp_path, files={"gfxA/attn_fwd.txtdb": WIDE_TABLE}, errors={(64, 2): 1.5})
    old = make_bench(tmp_path / "old")
    done = made.tune("--cells", listed(tmp_path, CELL), "--compare", str(old.root))
    assert done.code == 1
    assert "BLOCK_M 16→64, not valid: wrong_result (the error is 1.5 times the tolerance)" in done.out
    assert "worse than before: 1 cell" in done.out


def test_runs_that_end_at_once_wait_for_each_other(tmp_path):
    made = make_bench(tmp_path, TIMES)
    runs = []
    with alone_in(made.root):
        for name, cell in (("one", CELL), ("two", OTHER)):
            own = tmp_path / name
            own.mkdir()
            run = Bench(made.root, made.device, own / "journals")
            runs.append((run, run.start("--cells", listed(own, cell), "--name", name)))
        limit = time.monotonic() + 60
        while not all(list(run.journals.glob("*.json")) for run, _ in runs):
            assert time.monotonic() < limit
            time.sleep(0.05)
        time.sleep(0.3)  # both are done but for the writing, and would write now
        assert made.patches() == {}
    for _, process in runs:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert f"waiting for another process that writes in {made.root}" in err
    patches = sorted(name for name in made.patches() if name.endswith(".dbpatch"))
    assert [name.split("-")[0] for name in patches] == ["attn_fwd.0010", "attn_fwd.0020"]


def test_a_name_that_has_evidence_is_told_before_anything_is_measured(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    (tmp_path / "x").mkdir()
    others, before = listed(tmp_path / "x", OTHER), made.measurements()
    for more in ((), ("--dry-run",)):
        done = made.tune("--cells", others, *more)
        assert (done.code, made.measurements()) == (2, before)
        assert "there is evidence of another run of this name: nothing that this run finds could be written" in done.err
        assert "add --name tuned-2" in done.err
    assert "of this name" not in made.tune("--cells", others, "--name", "tuned-2").err


def test_a_run_that_was_ended_before_its_patch_was_written_goes_on_under_its_name(tmp_path):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    (patch,) = (made.root / "gfxA").glob("*.dbpatch")
    patch.unlink()
    before = made.measurements()
    done = made.tune("--cells", cells)
    assert (done.code, made.measurements(), patch.exists()) == (0, before, True)


FEW = ("--set", "finalists.count=2", "--set", "measurement.calls=20", "--set", "finalists.rounds=3")


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("strategy", "times"),
    [
        pytest.param(("--strategy", "exhaustive", *FEW), {FIRST: 2000.0}, id="the incumbent was no finalist"),
        pytest.param(("--candidates", "few"), {}, id="the neighbours have another config now"),
    ],
)
def test_a_run_that_was_done_with_others_beside_it_is_no_other_run(tmp_path, options, strategy, times):
    """What it published changes which candidates are compared: that costs some calls, and changes nothing."""
    few = tmp_path / "few"
    few.write_text("BLOCK_M=64 num_warps=2\n", encoding="utf-8")
    strategy = [str(few) if word == "few" else word for word in strategy]
    made = make_bench(tmp_path, {cell: {(64, 2): 800.0, **times} for cell in CELLS[:3]})
    cells = listed(tmp_path, *CELLS[:3])
    assert made.tune("--cells", cells, *strategy).code == 0
    published = made.patches()
    done = made.tune("--cells", cells, *strategy, *options)
    assert (done.code, made.patches()) == (0, published), done.text


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_the_command_of_a_run_that_has_published_ends_well_again(tmp_path, options):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    before, published = made.measurements(), made.patches()
    done = made.tune("--cells", cells, *options)
    assert (done.code, made.measurements(), made.patches()) == (0, before, published)
    assert "of this name" not in done.err
    assert options or "nothing changes: no patch is written" in done.out


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"source": "newer"}, {"device": {"name": "new"}}, {"software": {"simulation": 2}}]
)
def test_a_name_of_another_device_s_evidence_is_told_before_anything_is_measured(tmp_path, change):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    (patch,) = (made.root / "gfxA").glob("*.dbpatch")
    patch.unlink()
    description = json.loads(made.device.read_text(encoding="utf-8"))
    made.device.write_text(json.dumps({**description, **change}), encoding="utf-8")
    done = made.tune("--cells", cells)
    assert (done.code, len(list(made.journals.glob("*.journal")))) == (2, 1)
    assert "there is evidence of another run of this name" in done.err


@pytest.mark.parametrize(
    "more",
    [("--strategy", "exhaustive"), ("--select", "energy"), ("--set", "race.delta_pct=0.5")],
)
def test_a_name_of_a_run_that_was_asked_otherwise_is_told_before_anything_is_measured(tmp_path, more):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    (patch,) = (made.root / "gfxA").glob("*.dbpatch")
    patch.unlink()
    before = made.measurements()
    done = made.tune("--cells", cells, *more)
    assert (done.code, made.measurements()) == (2, before)
    assert "there is evidence of another run of this name" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_wait_says_how_to_go_on_and_has_let_go_of_the_device(tmp_path, number):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELL)
    with alone_in(made.root):
        process = made.start("--cells", cells)
        while "waiting for another process" not in process.stderr.readline():
            assert process.poll() is None
        assert not made.patches()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "the same command goes on from here" in out + err
    before = made.measurements()
    assert made.tune("--cells", cells).code == 0
    assert made.measurements() == before
    assert len(made.patches()) == 2


def test_evidence_is_written_before_the_patch_that_names_it_and_an_interrupt_undoes_both(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    cells, put, seen = listed(tmp_path, CELL), files.atomic_write, []

    def interrupted(path, data):
        put(path, data)
        seen.append(path.name)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "atomic_write", interrupted)
    done = made.tune("--cells", cells)
    assert (done.code, seen) == (1, ["tuned.json", "attn_fwd.0010-tuned.dbpatch"])
    assert made.patches() == {}
    assert made.tune("--cells", cells).code == 0
    assert len(made.patches()) == 2


def test_where_folders_cannot_be_locked_a_run_is_published_all_the_same(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    flock = fcntl.flock

    def refuses(file, how):
        if isinstance(file, int):
            raise OSError(errno.ENOLCK, "No locks available")
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", refuses)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert len(made.patches()) == 2
