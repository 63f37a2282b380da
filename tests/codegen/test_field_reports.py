"""Reports of what went wrong elsewhere, as far as generated output is concerned; each test names its row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import F1, F2, PALETTE, S0, make_db, patch, table, write_files
from tests.cli.run import run
from tests.codegen import databases
from tests.codegen.tools import Compiled, generated, needs_compiler, python_iface, python_package, tree
from txtdb.layers.database import load

KEYS = {"dtype": "fp16", "causal": 0, "head_dim": 64}


def module(root: Path, out: Path, *overlays: Path) -> Any:
    return python_iface(python_package(generated(root, out, overlays)), "attn_fwd")


def grid(root: Path, out: Path, arch: str = "gfxB", *overlays: Path) -> list[Any]:
    lookup = module(root, out, *overlays).lookup
    return [lookup(arch, **KEYS, seqlen_q=q, seqlen_k=k) for q in (64, 128, 256) for k in (64, 128, 256)]


@needs_compiler
def test_row_011_configs_that_differ_in_a_defaulted_field_are_two(tmp_path):
    palette = {"a": "32 true 2 1 0", "b": "32 true 2 1 3"}
    fields = "BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu"
    text = table("gfxB", {F1: ["64-256 a b a"]}, fields=fields, palette=palette)
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text})
    out = generated(root, tmp_path / "out")
    lookup = python_iface(python_package(out), "attn_fwd").lookup
    assert [lookup("gfxB", **KEYS, seqlen_q=64, seqlen_k=k).waves_per_eu for k in (64, 128, 256)] == [0, 3, 0]
    compiled = Compiled(out, load(root).schemas["attn_fwd"], tmp_path / "build")
    rows = np.array([[1, 0, 64, 64, k] for k in (64, 128, 256)])
    assert [compiled.configs("gfxB")[index][-1] for _, index in compiled.lookup("gfxB", rows)] == [0, 3, 0]
    assert len(set(compiled.names("gfxB", rows))) == 2


def test_row_093_a_cell_that_names_an_unknown_config_is_a_fault(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 a q a"]})})
    ran = run("codegen", root, "--out", tmp_path / "out", "--arch", "gfxB", "--format", "json")
    assert ran.code == 1
    assert [fault["rule"] for fault in ran.json["faults"]] == ["unknown-symbol"]


def test_row_093_two_devices_of_one_arch_have_tables_of_their_own(tmp_path):
    schema = S0["schema/attn_fwd.toml"] + '[arch.gfxB_mod1]\nlike = "gfxB"\n'
    archs = S0["archs.toml"] + "[arch.gfxB_mod1]\ncompute_units = 256\n"
    files = {"schema/attn_fwd.toml": schema, "archs.toml": archs}
    files["gfxB_mod1/attn_fwd.txtdb"] = table("gfxB_mod1", {F1: ["64-256 d*3"]})
    lookup = module(make_db(tmp_path, files), tmp_path / "out").lookup
    tiles = [lookup(arch, **KEYS, seqlen_q=64, seqlen_k=64).BLOCK_M for arch in ("gfxB", "gfxB_mod1")]
    assert tiles == [32, 128]


def test_row_097_a_patch_of_one_size_leaves_the_others_alone(tmp_path):
    axes = {"seqlen_q": "64", "seqlen_k": "64"}
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 d"]}, axes=axes)})
    lookup = module(root, tmp_path / "out").lookup
    plain = module(make_db(tmp_path, name="plain"), tmp_path / "out2").lookup
    for size in (128, 256, 257, 4096):
        assert lookup("gfxB", **KEYS, seqlen_q=size, seqlen_k=size) == plain(
            "gfxB", **KEYS, seqlen_q=size, seqlen_k=size
        )
    assert lookup("gfxB", **KEYS, seqlen_q=64, seqlen_k=64).BLOCK_M == 128
    assert lookup("gfxB", **KEYS, seqlen_q=1, seqlen_k=0).BLOCK_M == 128


def test_row_100_a_new_config_at_the_top_moves_no_cell(tmp_path):
    before = grid(make_db(tmp_path), tmp_path / "out")
    palette = {"e": "32 false 1 1", **PALETTE}
    more = {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c e"]}, palette=palette)}
    after = grid(make_db(tmp_path, more, "more"), tmp_path / "out2")
    assert after[:-1] == before[:-1]
    assert (after[-1].BLOCK_M, before[-1].BLOCK_M) == (32, 128)


def test_row_103_an_override_is_in_the_table(tmp_path):
    over = write_files(tmp_path / "over", {"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
    root = make_db(tmp_path)
    plain, overridden = grid(root, tmp_path / "plain"), grid(root, tmp_path / "out", "gfxB", over)
    assert overridden[0].BLOCK_M == 128
    assert overridden[1:] == plain[1:]
    ran = run("codegen", root, "--overlay", over, "--out", tmp_path / "cli")
    assert "overlay " in ran.out


NO_EFFECT = "override-without-effect"
OVERRIDES = {
    "an unknown config": ({"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 e . ."]})}, "unknown-symbol"),
    "an unsupported functional": ({"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F2: ["64 a . ."]})}, NO_EFFECT),
    "an unknown interface": ({"gfxB/attn_bwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 a . ."]})}, NO_EFFECT),
    "an unknown arch": ({"gfxC/attn_fwd.0001-x.dbpatch": patch("gfxC", {F1: ["64 a . ."]})}, NO_EFFECT),
    "pins of an unknown arch": ({"gfxC/pins.toml": "# none\n"}, NO_EFFECT),
    "another schema": (
        {"schema/attn_fwd.toml": "# other", "gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})},
        NO_EFFECT,
    ),
    "a misspelt file": ({"gfxB/attn_fwd.1-x.dbpatch.txt": ""}, NO_EFFECT),
    "nothing": ({}, NO_EFFECT),
}


def test_row_103_an_overlay_may_repeat_the_schema(tmp_path):
    patches = {"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})}
    over = write_files(
        tmp_path / "over", {**patches, **{name: S0[name] for name in ("archs.toml", "schema/attn_fwd.toml")}}
    )
    assert grid(make_db(tmp_path), tmp_path / "out", "gfxB", over)[0].BLOCK_M == 128


@pytest.mark.parametrize("name", OVERRIDES)
def test_row_103_an_override_that_matches_nothing_is_a_fault(name, tmp_path):
    files, rule = OVERRIDES[name]
    over = write_files(tmp_path / "over", files)
    ran = run("codegen", make_db(tmp_path), "--overlay", over, "--out", tmp_path / "out", "--format", "json")
    assert ran.code == 1
    assert {fault["rule"] for fault in ran.json["faults"]} == {rule}
    assert not (tmp_path / "out").exists()


def test_row_103_a_patch_of_the_database_that_matches_nothing_is_a_fault(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.0001-x.dbpatch": patch("gfxB", {F2: ["64 a . ."]})})
    ran = run("codegen", root, "--out", tmp_path / "out", "--format", "json")
    assert [(fault["rule"], fault["line"]) for fault in ran.json["faults"]] == [(NO_EFFECT, 13)]


def test_row_104_a_missing_functional_is_told_with_the_searched_layers(tmp_path):
    files = {
        "gfxA/attn_fwd.txtdb": table("gfxA", {}, base="gfxB"),
        "gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]}),
    }
    root = make_db(tmp_path, files)
    [fault] = run("codegen", root, "--out", tmp_path / "out", "--format", "json").json["faults"]
    assert fault["message"] == "gfxA attn_fwd: 9 cells have no config: [fp16 0 128] all"
    names = ["gfxB/attn_fwd.txtdb", "gfxB/attn_fwd.0010-x.dbpatch", "gfxA/attn_fwd.txtdb"]
    assert f"searched {', '.join((root / name).as_posix() for name in names)};" in fault["hint"]


def test_row_120_paths_are_short_legal_and_unique(tmp_path):
    out = generated(databases.twelve_keys(tmp_path), tmp_path / "out")
    paths = sorted(tree(out))
    for path in paths:
        assert len(path) <= 120
        assert all(re.fullmatch(r"[A-Za-z0-9_]+(\.[a-z]+)?", part) for part in path.split("/"))
    assert len({path.lower() for path in paths}) == len(paths)
