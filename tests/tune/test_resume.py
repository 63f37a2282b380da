"""Runs that ended early are taken up again, and runs that are done measure nothing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.tune.bench import CELLS, CONFIGS, TABLE, Bench, listed, make_bench
from txtdb.evidence.policy import Policy
from txtdb.model.schema import ArchSection, Derived, FixedKey, Key, Schema
from txtdb.model.values import ValueType
from txtdb.tune import job
from txtdb.tune.device import DeviceFacts
from txtdb.tune.journal import journal_name
from txtdb.tune.measuring import Measurer
from txtdb.tune.session import Settings, identity_of, run_session

TEN = CELLS[:10]
TIMES = {cell: {(64, 2): 700.0 + place} for place, cell in enumerate(TEN) if place % 2 == 0}


def kill_after(made: Bench, cells: int, *options: str) -> None:
    """Kill the tuner as soon as so many cells are done."""
    process = made.start(*options)
    start = time.monotonic()
    while sum(record["is"] == "done" for record in records(made)) < cells:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - start < 60
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def records(made: Bench) -> list[dict[str, Any]]:
    """The journal's records while it is being written: without a last line that is not whole yet."""
    text = "".join(path.read_text(encoding="utf-8") for path in made.journals.glob("*.journal"))
    return [json.loads(line.partition(" ")[2]) for line in text.split("\n")[:-1]]


def measured(found: list[dict[str, Any]]) -> dict[str, int]:
    """Cell → measurements."""
    counts: dict[str, int] = {}
    for record in found:
        if record["is"] == "times":
            counts[record["cell"]] = counts.get(record["cell"], 0) + 1
    return counts


def label(cell: Any) -> str:
    return f"{cell[0]} @ {cell[1]},{cell[2]}"


@pytest.fixture
def undisturbed(tmp_path):
    made = make_bench(tmp_path / "undisturbed", TIMES)
    assert made.tune("--cells", listed(tmp_path, *TEN)).code == 0
    return made


def test_row_077_a_run_killed_after_4_of_10_cells_measures_the_other_6(tmp_path, undisturbed):
    made = make_bench(tmp_path / "b", TIMES)
    cells = listed(tmp_path, *TEN)
    kill_after(made, 4, "--cells", cells)
    before = measured(records(made))
    assert made.tune("--cells", cells).code == 0
    after = measured(made.records())
    assert [after[label(cell)] for cell in TEN[:4]] == [before[label(cell)] for cell in TEN[:4]]
    assert after == measured(undisturbed.records())
    assert made.patches() == undisturbed.patches()


def test_row_079_candidates_reversed_and_cells_shuffled_find_their_measurements(tmp_path, undisturbed):
    made = make_bench(tmp_path / "b", TIMES)
    forward = [f"BLOCK_M={block} num_warps={warps}\n" for block, warps in CONFIGS]
    candidates, cells = tmp_path / "candidates.txt", listed(tmp_path, *TEN)
    candidates.write_text("".join(forward), encoding="utf-8")
    kill_after(made, 4, "--cells", cells, "--candidates", str(candidates))
    candidates.write_text("".join(reversed(forward)), encoding="utf-8")
    listed(tmp_path, *TEN[5:], *reversed(TEN[:5]))
    assert made.tune("--cells", cells, "--candidates", str(candidates)).code == 0
    assert measured(made.records()) == measured(undisturbed.records())
    assert made.patches() == undisturbed.patches()


def test_row_081_a_candidate_that_kills_the_tuner_is_found_at_the_next_start_and_skipped(tmp_path):
    faults = {(CELLS[0], (64, 4)): [{"stage": "check", "kind": "kill-parent"}]}
    made = make_bench(tmp_path, TIMES, faults=faults, may_kill_parent=True)
    cells = listed(tmp_path, *CELLS[:2])
    first = made.start("--cells", cells)
    first.communicate(timeout=60)
    assert first.returncode == -signal.SIGKILL
    second = made.start("--cells", cells)
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "faults: 1 crash" in out
    statuses = {r["config"]: r["status"] for r in made.records() if r["is"] == "verdict" and r["cell"] == "64 @ 64,64"}
    assert statuses["BLOCK_M=64 num_warps=4"] == "crash"
    assert list(statuses.values()).count("ok") == 5


def test_row_081_so_is_one_that_kills_it_while_it_is_timed(tmp_path):
    faults = {(CELLS[0], (64, 2)): [{"stage": "time", "kind": "kill-parent", "first": 1}]}
    made = make_bench(tmp_path, TIMES, faults=faults, may_kill_parent=True)
    cells = listed(tmp_path, CELLS[0])
    codes = []
    for _ in range(3):
        process = made.start("--cells", cells)
        process.communicate(timeout=60)
        codes.append(process.returncode)
    assert codes == [-signal.SIGKILL, 0, 0]
    assert made.evidence()["cells"][0]["decision"]["winner"] == 0


def test_row_081_one_that_ends_the_tuner_whatever_stands_between_is_skipped_after_some_starts(tmp_path):
    """As when the machine goes down: here the records are made that such ends leave behind."""
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells).code == 0
    path = made.journal()
    lines = path.read_bytes().splitlines(keepends=True)
    begin = {"is": "begin", "step": "check", "config": "BLOCK_M=64 num_warps=2", "cell": "64 @ 64,64"}
    path.write_bytes(lines[0] + 3 * line(begin))
    forget(made)
    assert made.tune("--cells", cells).code == 0
    entrant = made.evidence()["cells"][0]["entrants"][4]
    assert entrant[1:] == ["crash", None, "the tuner ended 3 times while it ran"]


def line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(text), text)


def test_row_082_a_torn_tail_is_dropped_with_a_warning_and_the_run_goes_on(tmp_path, undisturbed):
    whole = undisturbed.patches()
    path = undisturbed.journal()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    forget(undisturbed)
    done = undisturbed.tune("--cells", listed(tmp_path, *TEN))
    assert done.code == 0
    assert "warning: the last line is incomplete: it is dropped [journal]" in done.err
    assert undisturbed.patches() == whole


def forget(made: Bench) -> None:
    """Take back what was published."""
    for patch in (made.root / made.arch).glob("*.dbpatch"):
        patch.unlink()
    shutil.rmtree(made.root / made.arch / "evidence", ignore_errors=True)


def test_row_082_a_damaged_line_is_told_with_its_number_and_cut_off_on_request(tmp_path, undisturbed):
    whole = undisturbed.patches()
    path = undisturbed.journal()
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:40], b"\0" * 30 + b"\n", *lines[41:]])
    path.write_bytes(damaged)
    forget(undisturbed)
    cells = listed(tmp_path, *TEN)
    done = undisturbed.tune("--cells", cells)
    assert done.code == 2
    assert f"{path.name}:41:1: error: the line is damaged [journal]" in done.err
    assert "--repair" in done.err
    assert path.read_bytes() == damaged
    assert undisturbed.tune("--cells", cells, "--repair").code == 0
    assert undisturbed.patches() == whole
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged[sum(map(len, lines[:40])) :]


def test_row_083_a_finished_run_measures_nothing_again_and_gives_the_same_bytes(tmp_path, undisturbed):
    whole, journal = undisturbed.patches(), undisturbed.journal().read_bytes()
    forget(undisturbed)
    assert undisturbed.tune("--cells", listed(tmp_path, *TEN)).code == 0
    assert undisturbed.patches() == whole
    assert undisturbed.journal().read_bytes() == journal


def test_row_030_tuning_again_over_the_own_patch_changes_and_measures_nothing(tmp_path, undisturbed):
    whole, journal = undisturbed.patches(), undisturbed.journal().read_bytes()
    done = undisturbed.tune("--cells", listed(tmp_path, *TEN), "--name", "again")
    assert "nothing changes: no patch is written" in done.out
    assert (done.code, undisturbed.patches()) == (0, whole)
    assert undisturbed.journal().read_bytes() == journal


def test_row_085_the_journal_of_another_arch_is_refused_and_left_alone(tmp_path):
    made = make_bench(tmp_path, TIMES, files={"gfxB/attn_fwd.txtdb": TABLE.replace("gfxA", "gfxB")})
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells).code == 0
    path, before = made.journal(), made.journal().read_bytes()
    made.arch = "gfxB"
    done = made.tune("--cells", cells, "--journal", str(path))
    assert done.code == 2
    assert "this journal is of another run: arch is gfxA, not gfxB" in done.err
    assert path.read_bytes() == before
    assert made.patches() == {}


@pytest.mark.parametrize("change", ["policy", "device", "strategy"])
def test_runs_that_measure_otherwise_have_journals_of_their_own(tmp_path, change):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells).code == 0
    if change == "policy":
        made.settings = (*made.settings, "race.block_calls=5")
    if change == "device":
        description = json.loads(made.device.read_text(encoding="utf-8"))
        made.device.write_text(json.dumps({**description, "device": {"name": "other"}}), encoding="utf-8")
    options = ("--strategy", "exhaustive") if change == "strategy" else ()
    made.tune("--cells", cells, *options, "--name", "other")
    assert len(list(made.journals.glob("*.journal"))) == 2


def test_a_confirmation_counts_for_the_shapes_that_it_was_made_at(tmp_path):
    """A bin that goes leaves its shapes to the next one, which the winner is wrong at."""
    cell = CELLS[1]

    def other(seqlen_k: int, error: float) -> dict[str, Any]:
        candidates = [
            {"config": {"BLOCK_M": m, "num_warps": w}, "ns": 1.0, "error": error if (m, w) == (64, 2) else 0.1}
            for m, w in CONFIGS
        ]
        return {"functional": {"head_dim": 64}, "at": {"seqlen_q": 1, "seqlen_k": seqlen_k}, "candidates": candidates}

    made = make_bench(tmp_path, {cell: {(64, 2): 700.0}}, also=[other(1, 7.0), other(128, 0.1)])
    cells = listed(tmp_path, cell)
    assert made.tune("--cells", cells).code == 0
    assert "a = 64 2" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    forget(made)
    for name, old, new in (
        ("schema/attn_fwd.toml", 'name = "seqlen_k"\nbins = [64, 128, 256]', 'name = "seqlen_k"\nbins = [128, 256]'),
        ("gfxA/attn_fwd.txtdb", "seqlen_k 64 128 256", "seqlen_k 128 256"),
        ("gfxA/attn_fwd.txtdb", "a*3", "a*2"),
    ):
        path = made.root / name
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert made.tune("--cells", cells).code == 0
    assert not any("64 2" in text.decode() for name, text in made.patches().items() if name.endswith(".dbpatch"))


def exchanged(text: str, one: str, other: str) -> str:
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


def test_axes_that_change_their_names_do_not_lend_their_samples(tmp_path):
    """The cells 64,128 and 128,64 have the same labels before and after, and are each the other problem."""
    across, along = (64, 64, 128), (64, 128, 64)
    made = make_bench(tmp_path, {across: {(64, 4): 500.0}, along: {(32, 2): 400.0, (64, 4): 3000.0}})
    cells = listed(tmp_path, across, along)
    assert made.tune("--cells", cells).code == 0
    forget(made)
    for name in ("schema/attn_fwd.toml", "gfxA/attn_fwd.txtdb"):
        path = made.root / name
        path.write_text(exchanged(path.read_text(encoding="utf-8"), "seqlen_q", "seqlen_k"), encoding="utf-8")
    assert made.tune("--cells", cells).code == 0
    assert len(list(made.journals.glob("*.journal"))) == 2
    patch = made.patches()["attn_fwd.0010-tuned.dbpatch"].decode()
    assert re.findall(r"^#! axis (.*)|^([ab] = .*)", patch, re.M) == [
        ("seqlen_k 64 128", ""),
        ("seqlen_q 64 128", ""),
        ("", "a = 32 2"),
        ("", "b = 64 4"),
    ]
    assert patch.endswith("[64]\n64 . a\n128 b .\n#! end\n")


def test_keys_of_one_domain_that_change_their_names_do_not_lend_their_samples():
    """Nor do those that become of another type, for the same word is then another value."""
    names = {identity("keys", keys) for keys in (KEYS, KEYS[::-1], tuple(replace(key, type=ENUM) for key in KEYS))}
    assert len(names) == 3


def test_a_fixed_key_and_a_derived_field_tell_journals_apart():
    fixed = {identity("fixed_keys", (FixedKey("page", INT, value),)) for value in (1, 2)}
    maps = (((64, 1), (128, 0)), ((64, 0), (128, 0)), ((128, 0), (64, 1)))
    derived = [identity("derived", (Derived("persistent", INT, "heads", mapping),)) for mapping in maps]
    assert len(fixed) == 2
    assert derived[0] != derived[1]
    assert derived[0] == derived[2], "the order of a map says nothing"


INT, ENUM = ValueType.INT, ValueType.ENUM
KEYS = (Key("heads", INT, (64, 128)), Key("width", INT, (64, 128)))


def identity(member: str, value: Any) -> str:
    """The name of the journal of a schema that has some keys, and one member otherwise."""
    found = replace(Schema("", "attn_fwd", "kernel", KEYS, sections=(ArchSection("gfxA"),)), **{member: value})
    arch_schema = found.for_arch("gfxA")
    assert arch_schema
    settings = Settings("simulated:", Policy(), "race", 1, 3.0)
    return journal_name(identity_of(arch_schema, settings, DeviceFacts({}, {}, {}, "")))


def test_a_derived_field_of_another_value_is_measured_anew(tmp_path):
    """What was slow with the one value of `persistent` is fast with the other."""
    made = make_bench(tmp_path)
    schema, device = made.root / "schema" / "attn_fwd.toml", json.loads(made.device.read_text(encoding="utf-8"))
    for cell in device["cells"]:
        both = [(one, value) for one in cell["candidates"] for value in (0, 1)]
        cell["candidates"] = [
            {**one, "config": {**one["config"], "persistent": value}, "ns": 600.0 + abs(1300.0 * value - one["ns"])}
            for one, value in both
        ]
    made.device.write_text(json.dumps(device), encoding="utf-8")
    plain, winners = schema.read_text(encoding="utf-8"), []
    for value in (0, 1):
        derived = (
            f'[[derived]]\nname = "persistent"\ntype = "int"\nkey = "head_dim"\nmap = {{ 64 = {value}, 128 = 0 }}\n'
        )
        schema.write_text(plain.replace("[arch.gfxA]", f"{derived}\n[arch.gfxA]", 1), encoding="utf-8")
        assert made.tune("--cells", listed(tmp_path, CELLS[0]), "--name", f"persistent-{value}").code == 0
        evidence = made.evidence(f"persistent-{value}")
        (cell,) = evidence["cells"]
        winners.append(evidence["configs"][cell["entrants"][cell["decision"]["winner"]][0]])
        forget(made)
    assert winners == [[16, 2], [64, 4]]


def candidates_file(folder: Path, *configs: tuple[int, int]) -> str:
    path = folder / "candidates.txt"
    path.write_text("".join(f"BLOCK_M={block} num_warps={warps}\n" for block, warps in configs), encoding="utf-8")
    return str(path)


def test_an_added_candidate_races_against_the_winner_and_the_incumbent_alone(tmp_path):
    times = {CELLS[0]: {(64, 2): 700.0, (64, 4): 500.0}}
    made = make_bench(tmp_path, times)
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *CONFIGS[:5])).code == 0
    first = len(made.records())
    forget(made)
    done = made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *CONFIGS))
    assert done.code == 0
    new = made.records()[first:]
    assert {record["config"] for record in new if record["is"] == "verdict"} == {"BLOCK_M=64 num_warps=4"}
    timed = {record["config"] for record in new if record["is"] == "times"}
    assert timed == {f"BLOCK_M={block} num_warps={warps}" for block, warps in ((16, 2), (64, 2), (64, 4))}
    assert "num_warps 2→4" in done.out
    size = len(made.records())
    forget(made)
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *CONFIGS)).code == 0
    assert len(made.records()) == size


def test_an_added_candidate_of_an_exhaustive_search_gets_its_depth_and_the_finalists_new_rounds(tmp_path):
    times = {CELLS[0]: {(64, 2): 700.0, (64, 4): 500.0}}
    made = make_bench(tmp_path, times)
    made.settings = (*made.settings, "finalists.count=2")
    options = ("--cells", listed(tmp_path, CELLS[0]), "--strategy", "exhaustive", "--candidates")
    assert made.tune(*options, candidates_file(tmp_path, *CONFIGS[:5])).code == 0
    first = len(made.records())
    forget(made)
    assert made.tune(*options, candidates_file(tmp_path, *CONFIGS)).code == 0
    new = [record for record in made.records()[first:] if record["is"] == "times"]
    assert [record["config"] for record in new if record["stage"] == -1] == ["BLOCK_M=64 num_warps=4"]
    assert len([record for record in new if record["stage"] >= 0]) == 7 * 3


@pytest.mark.parametrize("left", [1, 2, 3])
def test_finalists_rounds_that_end_anywhere_are_taken_up_there(tmp_path, left):
    """Also amid a round: what of it was measured stays, and the rest is measured in a new process."""
    made = make_bench(tmp_path, {CELLS[0]: {(64, 2): 700.0, (64, 4): 690.0}})
    made.settings = (*made.settings, "finalists.count=2")
    options = ("--cells", listed(tmp_path, CELLS[0]), "--strategy", "exhaustive")
    assert made.tune(*options).code == 0
    whole, count, path = made.patches(), made.measurements(), made.journal()
    lines = path.read_bytes().splitlines(keepends=True)
    ends = [place for place, text in enumerate(lines) if b'"is":"times"' in text and b'"stage":0' in text]
    path.write_bytes(b"".join(lines[: ends[5 + left] + 1]))
    forget(made)
    assert made.tune(*options).code == 0
    assert (made.patches(), made.measurements()) == (whole, count)


def test_two_tuners_do_not_write_one_journal(tmp_path):
    made = make_bench(tmp_path, TIMES)
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells).code == 0
    with made.journal().open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = made.tune("--cells", cells, "--name", "more")
    assert done.code == 2
    assert "another tuner is writing this journal" in done.err


def test_measuring_costs_at_most_the_measurement_in_flight(tmp_path):
    """After any kill, each line of the journal but the last is whole."""
    made = make_bench(tmp_path, TIMES)
    kill_after(made, 1, "--cells", listed(tmp_path, *CELLS[:3]))
    lines = made.journal().read_bytes().split(b"\n")[:-1]
    assert all(crc32(text.partition(b" ")[2]) == int(text.partition(b" ")[0], 16) for text in lines)


def test_a_table_that_was_changed_by_hand_has_its_incumbent_raced_against_the_known_winner(tmp_path):
    times = {CELLS[0]: {(64, 2): 700.0, (64, 4): 500.0}}
    made = make_bench(tmp_path, times)
    cells = listed(tmp_path, CELLS[0])
    few, all_of_them = CONFIGS[:5], CONFIGS
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *few)).code == 0
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *all_of_them), "--name", "b").code == 0
    forget(made)
    table = made.root / "gfxA" / "attn_fwd.txtdb"
    table.write_text(TABLE.replace("a = 16 2", "a = 32 2"), encoding="utf-8")
    before = len(made.records())
    done = made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *all_of_them), "--name", "c")
    assert done.code == 0
    assert "BLOCK_M 32→64 num_warps 2→4, gain" in done.out
    timed = {record["config"] for record in made.records()[before:] if record["is"] == "times"}
    assert timed == {"BLOCK_M=32 num_warps=2", "BLOCK_M=64 num_warps=4"}


def test_fewer_candidates_use_the_measurements_of_more(tmp_path):
    made = make_bench(tmp_path, {CELLS[0]: {(64, 2): 700.0}})
    cells = listed(tmp_path, CELLS[0])
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *CONFIGS)).code == 0
    before, whole = len(made.records()), made.patches()["attn_fwd.0010-tuned.dbpatch"]
    forget(made)
    assert made.tune("--cells", cells, "--candidates", candidates_file(tmp_path, *CONFIGS[3:])).code == 0
    assert len(made.records()) == before
    assert made.patches()["attn_fwd.0010-tuned.dbpatch"].splitlines()[7:] == whole.splitlines()[7:]


def test_a_comparison_measures_although_a_race_knows_both(tmp_path):
    made = make_bench(tmp_path, {CELLS[0]: {(64, 2): 700.0}})
    before = make_bench(tmp_path / "before")
    assert made.tune("--cells", listed(tmp_path, CELLS[0])).code == 0
    assert made.tune("--all", "--compare", str(before.root), "--name", "compared").code == 0
    assert len(list(made.journals.glob("*.journal"))) == 2


def test_runs_that_share_a_journal_have_conditions_of_their_own(tmp_path, monkeypatch) -> None:
    """A second run over the first one's patch, with more candidates: same identity, another start and end."""
    readings = count()
    monkeypatch.setattr(Measurer, "conditions", lambda self: {"celsius": next(readings)})
    made, cells = make_bench(tmp_path, TIMES), listed(tmp_path, *TEN[:2])
    assert made.tune("--cells", cells, "--name", "first").code == 0
    assert made.tune("--cells", cells, "--name", "second").code == 0
    made.journal()  # one, of both
    ends = {name: [made.evidence(name)["device"][when] for when in ("start", "end")] for name in ("first", "second")}
    assert ends == {"first": [{"celsius": 0}, {"celsius": 1}], "second": [{"celsius": 2}, {"celsius": 3}]}


def test_a_run_that_goes_on_keeps_its_start(tmp_path, monkeypatch) -> None:
    readings = count()
    monkeypatch.setattr(Measurer, "conditions", lambda self: {"celsius": next(readings)})
    made, cells = make_bench(tmp_path, TIMES), listed(tmp_path, *TEN)
    monkeypatch.setattr(job, "run_session", lambda *given: replace(run_session(*given), stopped=True))
    assert "stopped: the same command goes on from here" in made.tune("--cells", cells).out
    assert "end" not in made.evidence()["device"]
    monkeypatch.undo()
    monkeypatch.setattr(Measurer, "conditions", lambda self: {"celsius": next(readings)})
    assert made.tune("--cells", cells).code == 0
    assert made.evidence()["device"] == {**made.evidence()["device"], "start": {"celsius": 0}, "end": {"celsius": 1}}
