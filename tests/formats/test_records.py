"""Choosing the best record of each cell, and the file that it goes into."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

import txtdb
from tests.build import F1, F2, PALETTE, make_db, patch, table
from tests.formats.measured import AT, TIMED, best, counts, record, run, write_csv, write_json
from txtdb.faults import Severity
from txtdb.files import atomic_write
from txtdb.formats.cells import select_cells
from txtdb.formats.flat import csv_files, json_files
from txtdb.formats.record_columns import Reading
from txtdb.formats.record_import import PatchPlan, RecordImport, import_records

CONFIG = (128, True, 8, 2, 0)


def rules(result: RecordImport) -> list[str]:
    return [fault.rule for fault in (*result.refused, *result.faults)]


def write(result: RecordImport) -> str:
    """Write the planned file; its text comes back."""
    assert result.target, result
    atomic_write(result.target.path, result.target.text.encode())
    return result.target.text


# Which record wins


def test_the_least_time_wins_whatever_the_order(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    records = [record(us=12.0, num_warps=8), record(us=11.0, num_warps=4), record(us=13, num_warps=2)]
    for order in permutations(records):
        result = run(root, write_json(tmp_path / "r.json", order))
        assert best(result) == {AT: (128, True, 4, 2, 0)}
        assert counts(result) == (3, 0, 2)
        assert result.complete


def test_equal_times_go_to_the_lesser_config_whatever_the_order(tmp_path: Path) -> None:
    """Field by field in the schema's order, smaller first, false before true."""
    root = make_db(tmp_path)
    configs = [(32, True, 8), (32, False, 8), (128, False, 1), (32, False, 4)]
    records = [record(us=5, BLOCK_M=m, PRE_LOAD_V=p, num_warps=w) for m, p, w in configs]
    for order in permutations(records):
        one, other = write_json(tmp_path / "a.json", order[:2]), write_json(tmp_path / "b.json", order[2:])
        assert best(run(root, one, other)) == {AT: (32, False, 4, 2, 0)}


def test_cells_are_chosen_one_by_one(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    records = [record(us=2), record(us=1, seqlen_k=128), record(us=3, seqlen_k=128, num_warps=1)]
    result = run(root, write_json(tmp_path / "r.json", records))
    assert best(result) == {AT: CONFIG, (AT[0], (64, 128)): CONFIG}
    assert counts(result) == (3, 0, 1)


def test_without_times_a_cell_needs_one_config(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    records = [
        record(us=None),
        record(us=None),
        record(us=None, seqlen_k=128),
        record(us=None, seqlen_k=128, num_warps=1),
    ]
    result = run(root, write_json(tmp_path / "r.json", records), reading=Reading())
    assert best(result) == {AT: CONFIG}
    assert rules(result) == ["ambiguous-cell"]
    assert "seqlen" not in result.faults[0].message and "at 64 128 has several configs" in result.faults[0].message
    assert result.faults[0].message.count("r.json:") == 2
    assert counts(result) == (4, 2, 1)


def test_a_declared_default_fills_a_gap_and_counts_as_the_same_config(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    records = [record(us=None), record(us=None, waves_per_eu=0)]
    assert best(run(root, write_json(tmp_path / "r.json", records), reading=Reading())) == {AT: CONFIG}


# Records that cannot be used

BAD_RECORDS = {
    "time zero": ({"us": 0}, "bad-time"),
    "time negative": ({"us": -1.5}, "bad-time"),
    "time nan": ({"us": float("nan")}, "bad-time"),
    "time infinite": ({"us": float("inf")}, "bad-time"),
    "time too large for a float": ({"us": 10**400}, "bad-time"),
    "time missing": ({"us": None}, "bad-time"),
    "time a bool": ({"us": True}, "bad-time"),
    "time a word": ({"us": "RuntimeFailedConfig"}, "bad-measurement"),
    "no config at all": ({"BLOCK_M": None, "PRE_LOAD_V": None, "num_warps": None, "num_stages": None}, "empty-config"),
    "field without default missing": ({"num_stages": None}, "missing-value"),
    "key missing": ({"causal": None}, "missing-value"),
    "size missing": ({"seqlen_q": None}, "missing-value"),
    "bool for an int": ({"num_warps": True}, "wrong-type"),
    "float for an int": ({"num_warps": 4.0}, "wrong-type"),
    "int for a bool": ({"PRE_LOAD_V": 2}, "wrong-type"),
    "unknown dtype": ({"dtype": "fp8"}, "wrong-type"),
    "int for a dtype": ({"dtype": 16}, "wrong-type"),
    "size that is no bin": ({"seqlen_q": 100}, "unknown-bin"),
    "functional that does not exist": ({"head_dim": 128}, "unsupported-functional"),
    "config outside its domain": ({"BLOCK_M": 100}, "illegal-config"),
    "parameter that others lack": ({"UNROLL": 4}, "unknown-parameter"),
    "arch that is unknown": ({"arch": "gfxQ"}, "unknown-arch"),
}


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_a_bad_record_is_named_and_the_next_best_is_taken(tmp_path: Path, case: str) -> None:
    changes, rule = BAD_RECORDS[case]
    path = write_json(tmp_path / "r.json", [record(us=50), record(**{"us": 1, **changes})])
    result = run(make_db(tmp_path), path)
    assert rules(result) == [rule]
    assert (result.faults[0].span.file, result.faults[0].span.line) == (path.as_posix(), 3)
    assert result.faults[0].message.startswith("record 2: ")
    assert best(result) == {AT: CONFIG}
    assert counts(result) == (2, 1, 0)
    assert not result.complete and result.target


def test_a_wrong_result_never_wins(tmp_path: Path) -> None:
    errors = [0.001, 0.02, -0.001, float("nan"), None, "high"]
    records = [record(us=number, err=error) for number, error in zip([9, 1, 2, 3, 4, 5], errors, strict=True)]
    reading = Reading(time="us", error="err", max_error=0.01)
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", records), reading=reading)
    assert best(result) == {AT: CONFIG}
    assert rules(result) == ["wrong-result"] * 4 + ["bad-measurement"]
    assert counts(result) == (6, 5, 0)


def test_records_of_other_archs_are_passed_over(tmp_path: Path) -> None:
    records = [record(arch="gfxA", us=1), record(arch="BETA:sramecc+", us=5)]
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", records))
    assert best(result) == {AT: CONFIG}
    assert result.selection.of_other_archs == 1
    assert counts(result) == (2, 0, 0)
    assert result.complete


def test_values_of_fixed_keys_and_derived_fields_must_agree(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    schema = root / "schema" / "attn_fwd.toml"
    extra = '[[key]]\nname = "alibi"\ntype = "bool"\nfixed = false\n'
    extra += '[[derived]]\nname = "mode"\ntype = "int"\nkey = "causal"\nmap = { 0 = 7, 1 = 8 }\n'
    schema.write_text(schema.read_text() + extra)
    records = [record(us=1, alibi=True, mode=7), record(us=2, alibi=0, mode=8), record(us=3, alibi=False, mode=7)]
    result = run(root, write_json(tmp_path / "r.json", records))
    assert rules(result) == ["fixed-key", "derived-field"]
    assert best(result) == {AT: CONFIG}


# Columns


def test_csv_columns_are_mapped_typed_and_renamed(tmp_path: Path) -> None:
    text = (
        "cu_num,M,N,dtype,tile,preload,num_warps,stages,us,errRatio,kernelName\n"
        "110,64,64,torch.float16,128,1,8,2,12.5,0.0,k_a\n"
        "110,64,128,torch.float16,128,True,8,2,1e1,0.0,k_b\n"
    )
    atomic_write(tmp_path / "tuned.csv", text.encode())
    reading = Reading(
        columns={"M": "seqlen_q", "N": "seqlen_k", "tile": "BLOCK_M", "preload": "PRE_LOAD_V", "stages": "num_stages"},
        values={"causal": "0", "head_dim": "64"},
        time="us",
        error="errRatio",
        max_error=0.05,
        device="cu_num",
        ignored=("kernelName",),
    )
    result = run(make_db(tmp_path), tmp_path / "tuned.csv", reading=reading)
    assert result.complete, rules(result)
    assert best(result) == {AT: CONFIG, (AT[0], (64, 128)): CONFIG}


def test_members_of_objects_are_fields(tmp_path: Path) -> None:
    fields = {name: record()[name] for name in ("BLOCK_M", "PRE_LOAD_V", "num_warps", "num_stages")}
    keys = {name: value for name, value in record().items() if name not in fields}
    path = write_json(tmp_path / "r.json", [{**keys, "config": fields}, {**keys, "config": {**fields, "UNROLL": 2}}])
    result = run(make_db(tmp_path), path)
    assert best(result) == {AT: CONFIG}
    assert "record 2: unknown parameter config.UNROLL" in result.faults[0].message


def test_a_parameter_that_all_records_have_is_unknown_all_the_same(tmp_path: Path) -> None:
    """Inside an object with config fields, every member is a parameter, even a constant one."""
    fields = {name: record()[name] for name in ("BLOCK_M", "PRE_LOAD_V", "num_warps", "num_stages")}
    keys = {name: value for name, value in record().items() if name not in fields}
    path = write_json(tmp_path / "r.json", [{**keys, "config": {**fields, "UNROLL": 2}}] * 2)
    result = run(make_db(tmp_path), path)
    assert rules(result) == ["unknown-parameter"] * 2
    assert result.target is None


def test_columns_that_vary_without_a_meaning_refuse_the_file(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "r.json", [record(tflops=1, unroll=1), record(tflops=1, unroll=1), record(tflops=2, unroll=4)]
    )
    result = run(make_db(tmp_path), path)
    assert rules(result) == ["unknown-parameter"]
    assert "columns without a meaning vary: tflops, unroll" in result.refused[0].message
    assert result.refused[0].span.line == 4
    assert result.target is None
    ignoring = run(make_db(tmp_path), path, reading=Reading(time="us", ignored=("tflops", "unroll")))
    assert ignoring.complete


@pytest.mark.parametrize(
    ("reading", "rule"),
    [
        (Reading(columns={"us": "nothing"}), "unknown-name"),
        (Reading(values={"nothing": "1"}), "unknown-name"),
        (Reading(columns={"absent": "num_warps"}), "missing-column"),
        (Reading(time="absent"), "missing-column"),
        (Reading(device="absent"), "missing-column"),
        (Reading(arguments=("absent",)), "missing-column"),
        (Reading(columns={"us": "num_warps"}), "ambiguous-column"),
        (Reading(values={"num_warps": "4"}), "ambiguous-column"),
    ],
)
def test_options_that_fit_no_column_or_name(tmp_path: Path, reading: Reading, rule: str) -> None:
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", [record()]), reading=reading)
    assert rule in rules(result)
    assert result.target is None


def test_constant_columns_are_arguments_and_are_reported(tmp_path: Path) -> None:
    result = run(
        make_db(tmp_path), write_json(tmp_path / "r.json", [record(batch=4, heads="8"), record(batch=4, heads=8)])
    )
    assert dict(result.selection.arguments) == {"batch": "4", "heads": "8"}


def test_with_arguments_named_other_constants_may_differ(tmp_path: Path) -> None:
    one = write_json(tmp_path / "1.json", [record(batch=4, host="a")])
    other = write_json(tmp_path / "2.json", [record(batch=4, host="b")])
    assert rules(run(make_db(tmp_path), one, other)) == ["argument-differs"]
    assert run(make_db(tmp_path), one, other, reading=Reading(time="us", arguments=("batch",))).complete


def test_an_argument_that_differs_inside_a_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / "r.json", [record(batch=4), record(batch=4), record(batch=8)])
    result = run(make_db(tmp_path), path, reading=Reading(time="us", arguments=("batch",)))
    assert rules(result) == ["argument-differs"]
    assert result.refused[0].message == "record 3: argument batch is 8, and 4 in record 1"


def test_csv_and_json_can_be_mixed(tmp_path: Path) -> None:
    one = write_csv(tmp_path / "1.csv", [record(batch=4, us=3)])
    other = write_json(tmp_path / "2.json", [record(batch=4, us=2, num_warps=4)])
    result = run(make_db(tmp_path), one, other)
    assert best(result) == {AT: (128, True, 4, 2, 0)}


# Devices


def device(tmp_path: Path, *units: int) -> RecordImport:
    records = [record(cu=number, us=place, num_warps=1 << place) for place, number in enumerate(units, 1)]
    return run(make_db(tmp_path), write_json(tmp_path / "r.json", records), reading=Reading(time="us", device="cu"))


def test_a_known_device_beats_an_unknown_one(tmp_path: Path) -> None:
    result = device(tmp_path, 80, 110, 80)
    assert best(result) == {AT: (128, True, 4, 2, 0)}
    assert rules(result) == ["unknown-device"]
    assert "(2 in this file)" in result.faults[0].message
    assert result.complete


def test_board_variants_are_known_and_come_second(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    (root / "archs.toml").write_text((root / "archs.toml").read_text() + "[arch.gfxB_mod1]\ncompute_units = 80\n")
    records = [record(cu=80, us=1, num_warps=1), record(cu=110, us=2), record(cu=80, us=1, seqlen_k=128)]
    result = run(root, write_json(tmp_path / "r.json", records), reading=Reading(time="us", device="cu"))
    assert best(result) == {AT: CONFIG, (AT[0], (64, 128)): CONFIG}
    assert rules(result) == []


def test_without_known_units_the_column_is_not_passed_as_checked(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    (root / "archs.toml").write_text("[arch.gfxA]\n[arch.gfxB]\n")
    result = run(root, write_json(tmp_path / "r.json", [record(cu=110)]), reading=Reading(time="us", device="cu"))
    assert rules(result) == ["unknown-device"]
    assert "archs.toml does not state compute_units" in result.faults[0].hint
    assert result.faults[0].severity is Severity.WARNING


# Where they go


def test_cells_are_merged_into_the_table(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    before = (root / "gfxB" / "attn_fwd.txtdb").read_text().splitlines()
    result = run(root, write_json(tmp_path / "r.json", [record(seqlen_q=128, seqlen_k=64)]))
    after = write(result).splitlines()
    assert [line for line in after if line not in before] == ["e = 128 true 8 2", "128 e b*2"]
    assert [line for line in before if line not in after] == ["128 a b*2"]
    assert result.target and result.target.changed == 1
    assert txtdb.load(root)["gfxB"]["attn_fwd"].lookup(
        dtype="fp16", causal=0, head_dim=64, seqlen_q=128, seqlen_k=64
    ) == {"BLOCK_M": 128, "PRE_LOAD_V": True, "num_warps": 8, "num_stages": 2, "waves_per_eu": 0}


def test_nothing_is_written_when_the_cells_say_so_already(tmp_path: Path) -> None:
    same = record(BLOCK_M=32, num_warps=2, num_stages=1)
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", [same]))
    assert result.target is None
    assert result.complete


def test_a_new_table_has_all_bins_and_leaves_the_rest_open(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": None, "gfxA/attn_fwd.txtdb": None})
    text = write(run(root, write_json(tmp_path / "r 1.json", [record(seqlen_k=128)])))
    assert "#! origin imported r_1.json\n" in text
    assert "#! axis seqlen_q 64 128 256\n#! axis seqlen_k 64 128 256\n" in text
    assert text.endswith("\n[fp16 0 64]\n64 . a .\n#! end\n")


def test_a_table_of_directives_gets_its_first_cells(tmp_path: Path) -> None:
    bare = "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n# measured soon\n#! base gfxB\n#! end\n"
    root = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": bare})
    text = write(run(root, write_json(tmp_path / "r.json", [record()]), arch="gfxA"))
    assert "# measured soon\n#! base gfxB\n" in text
    assert text.endswith("\na = 128 true 8 2\n\n[fp16 0 64]\n64 a .*2\n#! end\n")
    arch = txtdb.load(root)["gfxA"]["attn_fwd"]
    assert arch.winner[arch.fold.index[AT[0]]].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_bin_that_the_table_lacks_asks_for_a_patch(tmp_path: Path) -> None:
    small = {"seqlen_q": "64 128", "seqlen_k": "64 128"}
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-128 a*2"]}, axes=small)})
    path = write_json(tmp_path / "r.json", [record(seqlen_q=256)])
    result = run(root, path)
    assert rules(result) == ["unknown-bin"]
    assert "the table has no seqlen_q 256" in result.refused[0].message
    assert run(root, path, patch=PatchPlan("wide", "")).target


def test_a_table_with_faults_is_not_changed(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxB\n"})
    assert rules(run(root, write_json(tmp_path / "r.json", [record()]))) == ["unusable-table"]


def test_a_patch_holds_the_cells_that_change_and_knows_its_ground(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    same = record(BLOCK_M=32, num_warps=2, num_stages=1, seqlen_k=128)
    path = write_json(tmp_path / "r.json", [record(), same])
    result = run(root, path, patch=PatchPlan("retuned", "  faster\n tiles "))
    assert result.target and result.target.path == root / "gfxB" / "attn_fwd.0010-retuned.dbpatch"
    lines = write(result).splitlines()
    assert lines[:5] == [
        "#! dbpatch 1",
        "#! iface attn_fwd",
        "#! arch gfxB",
        "#! origin imported r.json",
        "#! why faster tiles",
    ]
    assert lines[5].startswith("#! onto sha256:")
    assert lines[6:] == [
        "#! key dtype causal head_dim",
        "#! axis seqlen_q 64",
        "#! axis seqlen_k 64",
        "#! config BLOCK_M PRE_LOAD_V num_warps num_stages",
        "",
        "a = 128 true 8 2",
        "",
        "[fp16 0 64]",
        "64 a",
        "#! end",
    ]
    assert result.target.changed == 1


def test_a_patch_that_would_change_nothing_is_not_made(tmp_path: Path) -> None:
    same = record(BLOCK_M=32, num_warps=2, num_stages=1)
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", [same]), patch=PatchPlan("x", ""))
    assert result.target is None and result.complete


def test_a_patch_lies_on_the_patches_and_under_the_pins(tmp_path: Path) -> None:
    files = {"gfxB/attn_fwd.0013-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})}
    root = make_db(tmp_path, files)
    path = write_json(tmp_path / "r.json", [record(PRE_LOAD_V=False), record(seqlen_k=128)])
    result = run(root, path, patch=PatchPlan("y", ""))
    assert result.target and result.target.path.name == "attn_fwd.0020-y.dbpatch"
    assert "64 . a\n" not in result.target.text and result.target.changed == 1
    assert PALETTE["d"] == "128 false 8 2"


@pytest.mark.parametrize("name", ["0005-y", "0013-y", "../y", "a b", "-y", ""])
def test_names_that_a_patch_cannot_have(tmp_path: Path, name: str) -> None:
    files = {"gfxB/attn_fwd.0013-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})}
    path = write_json(tmp_path / "r.json", [record()])
    assert rules(run(make_db(tmp_path, files), path, patch=PatchPlan(name, ""))) == ["patch-name"]


def test_a_number_may_be_given(tmp_path: Path) -> None:
    result = run(make_db(tmp_path), write_json(tmp_path / "r.json", [record()]), patch=PatchPlan("7-y", ""))
    assert result.target and result.target.path.name == "attn_fwd.0007-y.dbpatch"


@pytest.mark.parametrize(
    ("arch", "iface", "rule"),
    [
        ("gfxC", "attn_fwd", "unknown-arch"),
        ("gfxB", "attn_bwd", "unknown-iface"),
        ("gfxD", "attn_fwd", "unsupported-iface"),
    ],
)
def test_targets_that_do_not_exist(tmp_path: Path, arch: str, iface: str, rule: str) -> None:
    root = make_db(tmp_path)
    (root / "archs.toml").write_text((root / "archs.toml").read_text() + "[arch.gfxD]\n")
    path = write_json(tmp_path / "r.json", [record()])
    assert rules(import_records([path], txtdb.load(root), arch, iface, TIMED)) == [rule]


def test_what_export_wrote_can_be_read(tmp_path: Path) -> None:
    """The flat records of `export csv` and `export json` are records: without times, since one stands for each cell."""
    root = make_db(tmp_path)
    tables, _ = select_cells(txtdb.load(root), ["gfxA"], resolved=False)
    empty = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": table("gfxA", {}, base="gfxB")}, name="empty")
    for name, data in (*csv_files(tables), *json_files(tables)):
        atomic_write(tmp_path / name, data)
        result = run(empty, tmp_path / name, reading=Reading(), arch="gfxA")
        assert result.complete, rules(result)
        assert len(best(result)) == 9
        assert f"\n[{F2}]\n64-128 a*3\n256 b*2 c\n" in (result.target.text if result.target else "")


# Files


def test_json_lines_and_kernel_tuner_caches(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(record(us=number, num_warps=number)) for number in (4, 2, 8))
    atomic_write(tmp_path / "r.jsonl", lines.encode())
    assert best(run(make_db(tmp_path), tmp_path / "r.jsonl")) == {AT: (128, True, 2, 2, 0)}
    cache = {
        "device_name": "GPU",
        "kernel_name": "attn",
        "problem_size": [64, 64],
        "tune_params_keys": ["BLOCK_M", "num_warps"],
        "tune_params": {"BLOCK_M": [64, 128], "num_warps": [4, 8]},
        "cache": {
            "64,4": {"BLOCK_M": 64, "num_warps": 4, "time": 2.0, "times": [2.0, 2.1], "GFLOP/s": 1.0},
            "128,4": {"BLOCK_M": 128, "num_warps": 4, "time": "RuntimeFailedConfig", "times": []},
            "128,8": {"BLOCK_M": 128, "num_warps": 8, "time": 1.0, "times": [1.0], "GFLOP/s": 2.0},
        },
    }
    text = json.dumps(cache, indent=1)
    failed = text.splitlines().index('  "128,4": {') + 1
    atomic_write(tmp_path / "cache.json", text.encode())
    values = {"dtype": "fp16", "causal": "0", "head_dim": "64", "seqlen_q": "64", "seqlen_k": "64"}
    reading = Reading(values={**values, "PRE_LOAD_V": "true", "num_stages": "2"}, time="time")
    result = run(make_db(tmp_path), tmp_path / "cache.json", reading=reading)
    assert best(result) == {AT: CONFIG}
    assert [(f.rule, f.span.line) for f in result.faults] == [("bad-measurement", failed)]
    assert result.selection.arguments["problem_size"] == "[64, 64]"


DAMAGED = {
    "no JSON": ("r.json", '{"us": }', "damaged-records", 1),
    "a list that ends early": ("r.json", '[\n{"us": 1},\n', "damaged-records", 3),
    "a record that ends early": ("r.json", '[\n{"us": 1},\n{"us": 1', "damaged-records", 3),
    "text after the list": ("r.json", '[{"us": 1}]\n{"us": 2}', "damaged-records", 2),
    "a member twice": ("r.json", '\n\n{"us": 1, "us": 2}', "damaged-records", 3),
    "nested without end": ("r.json", "[" * 100_000, "damaged-records", 1),
    "nothing": ("r.json", "", "no-records", 0),
    "an empty list": ("r.json", "[]", "no-records", 0),
    "only a header": ("r.csv", "us,BLOCK_M\n", "no-records", 0),
    "a column twice": ("r.csv", "us,us\n1,2\n", "damaged-records", 1),
    "an open quote": ("r.csv", 'us,BLOCK_M\n1,"2\n', "damaged-records", 2),
    "no UTF-8": ("r.csv", "us\n\udcff\n", "not-utf8", 0),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_refuses_all(tmp_path: Path, case: str) -> None:
    name, text, rule, line = DAMAGED[case]
    atomic_write(tmp_path / name, text.encode("utf-8", "surrogateescape"))
    good = write_json(tmp_path / "good.json", [record()])
    result = run(make_db(tmp_path), good, tmp_path / name)
    assert [(fault.rule, fault.span.line) for fault in result.refused] == [(rule, line)]
    assert result.target is None


def test_a_missing_file_refuses_all(tmp_path: Path) -> None:
    assert rules(run(make_db(tmp_path), tmp_path / "none.json")) == ["unreadable"]


def test_records_of_another_form_are_named_and_left_out(tmp_path: Path) -> None:
    atomic_write(tmp_path / "r.json", f"[{json.dumps(record())},\n7,\n[]]".encode())
    result = run(make_db(tmp_path), tmp_path / "r.json")
    assert [(fault.rule, fault.span.line) for fault in result.faults] == [("bad-record", 2), ("bad-record", 3)]
    assert counts(result) == (3, 2, 0)
    lines = [",".join(record()), ",".join(map(str, record().values())), "1,2,3", ""]
    atomic_write(tmp_path / "r.csv", "\r\n".join(lines).encode("utf-8-sig"))
    result = run(make_db(tmp_path), tmp_path / "r.csv")
    assert [(fault.rule, fault.span.line) for fault in result.faults] == [("bad-record", 3)]
    assert "3 fields for 10 columns" in result.faults[0].message
    assert best(result) == {AT: CONFIG}


def test_lines_of_csv_records_count_line_ends_inside_quotes(tmp_path: Path) -> None:
    lines = ["note," + ",".join(record()), '"a\nb",' + ",".join(map(str, record(us=0).values())), "x,1"]
    atomic_write(tmp_path / "r.csv", "\n".join(lines).encode())
    result = run(make_db(tmp_path), tmp_path / "r.csv", reading=Reading(time="us", ignored=("note",)))
    assert [(fault.rule, fault.span.line) for fault in result.faults] == [("bad-record", 4), ("bad-time", 2)]
