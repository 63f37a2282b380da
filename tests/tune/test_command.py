"""`txtdb tune` from end to end, on the simulated device."""

from __future__ import annotations

import json

import pytest

from tests.tune.bench import CELLS, TABLE, invoke, listed, make_bench, shapes
from txtdb.tune import job, publish

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}}
EMPTY = "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n#! origin hand test\n#! end\n"


def test_a_gain_becomes_a_patch_with_its_evidence_and_both_can_be_checked(tmp_path):
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER), "--why", "a new compiler")
    assert done.code == 0
    assert "head_dim=64 seqlen_q=64 seqlen_k=64: BLOCK_M 16→64, gain 20.0 % ± " in done.out
    assert "head_dim=64 seqlen_q=64 seqlen_k=128: kept, it is the fastest" in done.out
    assert "complete 2/2: 1 published, 1 kept" in done.out
    patch = made.patches()["attn_fwd.0010-tuned.dbpatch"].decode().splitlines()
    assert patch[3:5] == ["#! origin measured tuned", "#! why a new compiler"]
    assert patch[5].startswith("#! evidence tuned.json sha256:")
    assert patch[6].startswith("#! onto sha256:")
    assert patch[-6:] == ["", "a = 64 2", "", "[64]", "64 a", "#! end"]
    assert invoke("verify", str(made.root))[0] == 0
    code, out = invoke("explain", str(made.root), "gfxA", "attn_fwd", "head_dim=64", "seqlen_q=64", "seqlen_k=64")
    assert (code, "BLOCK_M=64 num_warps=2" in out) == (0, True)


def test_the_second_patch_gets_the_next_number(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    description = json.loads(made.device.read_text(encoding="utf-8"))
    description["cells"][0]["candidates"][-1]["ns"] = 500.0
    made.device.write_text(json.dumps({**description, "source": "newer"}), encoding="utf-8")
    assert made.tune("--cells", listed(tmp_path, CELL), "--name", "again").code == 0
    assert list(made.patches()) == [
        "attn_fwd.0010-tuned.dbpatch",
        "attn_fwd.0020-again.dbpatch",
        "again.json",
        "tuned.json",
    ]


def test_a_run_that_changes_nothing_writes_no_patch_but_keeps_its_evidence_beside_the_journal(tmp_path):
    made = make_bench(tmp_path)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, made.patches()) == (0, {})
    assert "nothing changes: no patch is written" in done.out
    assert made.evidence()["state"] == "complete 1/1"


def test_evidence_goes_where_it_is_asked_for(tmp_path):
    made = make_bench(tmp_path)
    out = tmp_path / "evidence.json"
    assert made.tune("--cells", listed(tmp_path, CELL), "--evidence-out", str(out)).code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["iface"] == "attn_fwd"


def test_both_strategies_come_to_the_same_decision(tmp_path):
    noise = {"call_pct": 1.0, "outlier_share": 0.01}
    made = make_bench(tmp_path, TIMES, noise=noise)
    cells = listed(tmp_path, CELL)
    decisions = []
    for strategy in ("race", "exhaustive"):
        assert made.tune("--cells", cells, "--strategy", strategy, "--name", strategy).code == 0
        for path in (made.root / "gfxA").glob("*.dbpatch"):
            path.unlink()
        decisions.append(made.evidence(strategy)["cells"][0]["decision"])
    race, search = decisions
    assert (race["winner"], race["outcome"]) == (search["winner"], search["outcome"]) == (4, "published")
    assert race["total_ns"] < search["total_ns"] / 5


def test_an_own_table_holds_every_measured_cell(tmp_path):
    made = make_bench(tmp_path, TIMES, files={"gfxA/attn_fwd.txtdb": None})
    done = made.tune("--keys", "head_dim=64", "--table")
    assert done.code == 0
    text = (made.root / "gfxA" / "attn_fwd.txtdb").read_text(encoding="utf-8")
    assert "#! evidence tuned.json sha256:" in text
    assert "#! onto" not in text
    assert invoke("verify", str(made.root))[0] == 0
    table = text[text.index("[64]") :].splitlines()
    assert len(table) >= 3
    assert "BLOCK_M=64 num_warps=2, where there was none" in done.out


def test_an_own_table_is_not_written_over_another(tmp_path):
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--all", "--table")
    assert (done.code, made.journals.exists()) == (2, False)
    assert "there is an own table already" in done.err


def test_a_hole_that_a_default_would_serve_is_filled_with_the_winner_or_the_default(tmp_path):
    schema = {
        "schema/attn_fwd.toml": make_bench(tmp_path / "x").root.joinpath("schema/attn_fwd.toml").read_text()
        .replace("values = [16, 32, 64]\n", "values = [16, 32, 64]\ndefault = 16\n")
        .replace("values = [2, 4]\n", "values = [2, 4]\ndefault = 2\n")
    }  # fmt: skip
    made = make_bench(tmp_path / "y", TIMES, files={**schema, "gfxA/attn_fwd.txtdb": EMPTY})
    done = made.tune("--missing", "--keys", "head_dim=64", "--shapes", shapes(tmp_path, "seqlen_q=1 seqlen_k=65"))
    assert done.code == 0, done.text
    assert "64 . a" in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode() or "64 a" in str(made.patches())
    assert made.evidence()["cells"][0]["incumbent_layer"] == "default"


def with_device_arch(made, arch):
    description = json.loads(made.device.read_text(encoding="utf-8"))
    made.device.write_text(json.dumps({**description, "device": {"name": "some", "arch": arch}}), encoding="utf-8")


def test_a_device_of_another_arch_is_refused_before_anything_is_measured(tmp_path):
    made = make_bench(tmp_path, TIMES)
    with_device_arch(made, "sm_90")
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert (done.code, list(made.journals.glob("*"))) == (2, [])
    assert "--arch: error: the device is sm_90, not gfxA [device]" in done.err
    assert "tune what it is (--root, --arch), or name another device with --device" in done.err


@pytest.mark.parametrize("stated", ["gfxA", "GFXA:sramecc+:xnack-", "MI9"])
def test_a_device_of_the_arch_is_taken_by_each_of_its_names_and_stays_in_the_evidence(tmp_path, stated):
    made = make_bench(tmp_path, TIMES, files={"archs.toml": '[arch.gfxA]\naliases = ["MI9"]\n[arch.gfxB]\n'})
    with_device_arch(made, stated)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    assert made.evidence()["device"]["arch"] == stated
    assert invoke("verify", str(made.root))[0] == 0


@pytest.mark.parametrize("option", ["--dry-run", "--repair"])
def test_a_run_whose_evidence_nobody_could_read_is_refused_before_it_starts(tmp_path, monkeypatch, option):
    monkeypatch.setattr(job, "MAX_BYTES", 1 << 12)
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--all", option)
    assert (done.code, made.journals.exists()) == (2, False)
    assert "18 cells make about 0 MiB of evidence" in done.err
    assert "split the run into 12 or more: by --keys, each with another --name" in done.err


def test_evidence_that_became_too_large_is_not_published_and_nothing_is_lost(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "MAX_BYTES", 2000)
        done = made.tune("--cells", listed(tmp_path, CELL, OTHER))
    assert (done.code, made.patches()) == (1, {})
    assert "bytes, and a file holds 2,000 [size]" in done.err
    assert "nothing is measured again" in done.err
    before = len(made.records())
    assert made.tune("--cells", listed(tmp_path, CELL), "--name", "part").code == 0
    assert len(made.records()) == before


def test_a_dry_run_says_how_much_there_is_to_do_and_touches_nothing(tmp_path):
    made = make_bench(tmp_path)
    done = made.tune("--all", "--dry-run", "--format", "json")
    work = json.loads(done.out)
    assert (done.code, work["cells"], work["candidates"]) == (0, 18, 18 * 6)
    assert work["estimate_s"] > 0
    assert not made.journals.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--all", "--set", "race.delta=1"), "the policy has no number `race.delta`"),
        (("--all", "--set", "race.delta_pct=fast"), "must be of type float"),
        (("--all", "--missing"), "--all and --missing exclude each other: give one of them"),
        (
            ("--cells", __file__, "--all", "--keys", "head_dim=64"),
            "--cells lists all cells that are measured: leave out --all and --keys, or --cells",
        ),
        ((), "say which cells"),
        (("--keys", "head_dim=96"), "head_dim has no value 96"),
        (("--all", "--name", "a b"), "`a b` is no name of a patch"),
        (("--all", "--name", "a" * 101), "more than 100 characters"),
        (("--keys", ""), "no key is named"),
        (("--keys", ","), "no key is named"),
        (("--all", "--evidence-out", f"{__file__}/evidence.json"), "[unwritable]"),
        (
            ("--all", "--device", "simulated:nowhere.json"),
            "nowhere.json: error: the file cannot be read: No such file or directory [unreadable]",
        ),
        (("--all", "--device", "simulated:/"), "/: error: the file cannot be read: Is a directory [unreadable]"),
        (("--all", "--device", "simulated"), "no description is named"),
        (("--all", "--device", f"simulated:{__file__}"), "test_command.py: error: no valid JSON"),
        (("--all", "--calibrate", "9", "--select", "energy"), "--calibrate finds the bar of times"),
        (("--all", "--device", "gpu"), "error: "),  # there is no PyTorch, or no such schema for the kernels
        (("--all", "--device", "gpus"), "no device is called `gpus`; did you mean gpu?"),
    ],
)
def test_a_wrong_request_ends_with_2_before_anything_is_measured(tmp_path, options, message):
    made = make_bench(tmp_path)
    for more in ((), ("--dry-run",)):
        done = made.tune(*options, *more)
        if more and "gpu" in options:  # which is not opened for that, and need not be there
            continue
        assert done.code == 2
        assert message in done.err
    assert not list(made.journals.glob("*.journal"))


@pytest.mark.parametrize("fact", [float("nan"), 1e999, [[[[[[[[[[0]]]]]]]]]]])
def test_facts_of_a_device_that_evidence_cannot_hold_are_refused_before_anything_is_measured(tmp_path, fact):
    made = make_bench(tmp_path, device={"name": "simulated", "fact": fact})
    done = made.tune("--all")
    assert done.code == 2
    assert "its facts cannot be kept: device.fact" in done.err
    assert not list(made.journals.glob("*.journal"))


def test_json_is_the_only_thing_on_stdout(tmp_path):
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL), "--format", "json")
    found = json.loads(done.out)
    assert found["cells"] == {"published": 1, "retained": 0, "failed": 0, "unmeasured": 0}
    assert found["files"] == ["gfxA/evidence/tuned.json", "gfxA/attn_fwd.0010-tuned.dbpatch"]
    assert "[1/1] head_dim=64" in done.err


def test_row_118_a_database_that_is_read_only_can_be_tuned_without_changing_it(tmp_path):
    """By a comparison; a run that may publish is refused, see test_publishing."""
    made = make_bench(tmp_path, TIMES, files={"gfxA/attn_fwd.txtdb": TABLE.replace("a = 16 2", "a = 64 2")})
    old = make_bench(tmp_path / "old")
    for path in made.root.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    made.root.chmod(0o555)
    before = {path: path.stat().st_mtime_ns for path in made.root.rglob("*")}
    try:
        assert made.tune("--cells", listed(tmp_path, CELL), "--compare", str(old.root)).code == 0
        assert {path: path.stat().st_mtime_ns for path in made.root.rglob("*")} == before
    finally:
        made.root.chmod(0o755)
        for path in made.root.rglob("*"):
            path.chmod(0o755)
