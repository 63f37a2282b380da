"""Resolved tables made dense, what is missing in them, and the data that is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.dispatch import DispatchTable, find_holes, tuned_table
from codegen.keyspace import KeySpaces, code_count, key_codes
from tests.build import F1, config_values, make_db, patch, table
from tests.codegen import databases
from tests.codegen.tools import Compiled, generated, needs_compiler
from txtdb.layers.database import load


def dense(root: Path, arch: str, iface: str = "attn_fwd") -> DispatchTable:
    resolved = load(root)[arch][iface]
    return tuned_table(resolved, KeySpaces().of(resolved.arch_schema), "sha256:0")


def holes(root: Path, arch: str) -> list[tuple[object, ...]]:
    database = load(root)
    arch_schema = database.schemas["attn_fwd"].for_arch(arch)
    assert arch_schema is not None
    return [(hole.functional, hole.bins) for hole in find_holes(dense(root, arch), arch_schema)]


def test_codes_count_the_last_key_in_ones(tmp_path):
    schema = load(make_db(tmp_path)).schemas["attn_fwd"]
    assert code_count(schema) == 8
    assert key_codes(schema) == [(0, 4), (0, 2), (0, 1)]


def test_a_table_worked_by_hand(tmp_path):
    found = dense(make_db(tmp_path), "gfxB")
    # Sorted by content: 32 true 2 1 / 64 false 4 2 / 64 true 4 1 / 128 false 8 2, waves_per_eu = 0 each.
    assert [config[0] for config in found.configs] == [32, 64, 64, 128]
    assert [config[1] for config in found.configs] == [True, False, True, False]
    assert found.grids.tolist() == [[0, 0, 0, 0, 2, 2, 2, 1, 3]]
    assert found.grids.dtype == np.uint8


def test_effective_cells_are_those_of_resolve(tmp_path):
    root, overlays = databases.layered(tmp_path, 3)
    for arch in ("gfxA", "gfxB"):
        resolved = load(root, overlays)[arch]["f"]
        found = tuned_table(resolved, KeySpaces().of(resolved.arch_schema), "")
        for functional, grid in zip(found.space.functionals, found.grid_of, strict=True):
            cells = [found.configs[cell] if cell < len(found.configs) else None for cell in found.grids[grid].tolist()]
            expected = [config_values(resolved, cell) for cell in resolved.effective(functional).ravel().tolist()]
            assert cells == expected


def test_equal_grids_stand_once(tmp_path):
    root, _ = databases.layered(tmp_path, 2)
    found = dense(root, "gfxB", "f")
    assert len({grid.tobytes() for grid in found.grids}) == len(found.grids) < len(found.grid_of)


@pytest.mark.parametrize(("configs", "cell_bytes"), [(255, 1), (256, 2)])
def test_cells_have_the_smallest_type_that_also_holds_none(configs, cell_bytes, tmp_path):
    found = dense(databases.many_configs(tmp_path, configs), "gfxA", "f")
    assert (len(found.configs), found.cell_bytes) == (configs, cell_bytes)


def test_no_holes_in_a_complete_table(tmp_path):
    assert holes(make_db(tmp_path), "gfxA") == []


def test_missing_and_masked_cells_are_holes(tmp_path):
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . a", "128 a*3", "256 a - a"]})})
    assert holes(root, "gfxB") == [(("fp16", 0, 64), (64, 128)), (("fp16", 0, 64), (256, 128))]


def test_a_missing_functional_is_holes_all_over(tmp_path):
    root = make_db(
        tmp_path, {"gfxA/attn_fwd.txtdb": "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n#! base gfxB\n#! end\n"}
    )
    assert len(holes(root, "gfxA")) == 9


def test_a_bin_that_no_layer_has_is_holes(tmp_path):
    axes = {"seqlen_q": "64 128", "seqlen_k": "64 128 256"}
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-128 a*3"]}, axes=axes)})
    assert [at for _, at in holes(root, "gfxB")] == [(256, 64), (256, 128), (256, 256)]


def test_a_patch_can_fill_a_hole(tmp_path):
    broken = {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . a", "128-256 a*3"]})}
    broken["gfxB/attn_fwd.0001-fill.dbpatch"] = patch("gfxB", {F1: ["64 . b ."]})
    assert holes(make_db(tmp_path, broken), "gfxB") == []


@needs_compiler
def test_a_table_without_any_config_has_no_empty_arrays(tmp_path):
    masked = {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 -*3"]}, palette={"a": "32 true 2 1"})}
    root = make_db(tmp_path, {**masked, "gfxA/attn_fwd.txtdb": None})
    (root / "schema" / "attn_fwd.toml").write_text(
        (root / "schema" / "attn_fwd.toml")
        .read_text()
        .replace('[arch.gfxA]\ndomain.dtype = ["fp16"]\ndomain.causal = [0]\n', "")
    )
    out = generated(root, tmp_path / "out", on_hole="none")
    text = (out / "cpp" / "attn_fwd" / "gfxB.inc").read_text()
    assert "configs[] = {\n    Config{}\n  };" in text
    compiled = Compiled(out, load(root).schemas["attn_fwd"], tmp_path / "build")
    row = np.array([[1, 0, 64, 64, 64], [0, 0, 64, 64, 64]])
    assert [status for status, _ in compiled.lookup("gfxB", row)] == ["no kernel", "unsupported"]
    assert compiled.configs("gfxB") == []


@needs_compiler
def test_an_arch_without_any_functional_has_no_empty_arrays(tmp_path):
    root = make_db(tmp_path)
    path = root / "schema" / "attn_fwd.toml"
    path.write_text(path.read_text() + "[[arch.gfxB.unsupported]]\ncausal = [0, 1]\n")
    out = generated(root, tmp_path / "out", archs=("gfxB",), on_hole="none")
    compiled = Compiled(out, load(root).schemas["attn_fwd"], tmp_path / "build")
    assert compiled.lookup("gfxB", np.array([[1, 0, 64, 64, 64]])) == [("unsupported", 0)]


@needs_compiler
def test_an_interface_of_no_arch_compiles_and_supports_nothing(tmp_path):
    root = databases.operators(tmp_path)
    out = generated(root, tmp_path / "out", archs=("gfxB",))
    compiled = Compiled(out, load(root).schemas["op"], tmp_path / "build")
    assert compiled.lookup("gfxB", np.array([[0, 0, 64, 0, 8]])) == [("unsupported", 0)]


def test_row_007_literals_have_the_type_of_the_schema(tmp_path):
    out = generated(make_db(tmp_path), tmp_path / "out")
    assert "{32, true, 2, 1, 0}," in (out / "cpp" / "attn_fwd" / "gfxB.inc").read_text()
    assert "(32, True, 2, 1, 0)," in (out / "python" / "attn_fwd" / "gfxB.py").read_text()
    header = (out / "cpp" / "attn_fwd.h").read_text()
    assert "std::int64_t BLOCK_M{};" in header
    assert "bool PRE_LOAD_V{};" in header
    assert "enum class dtype_t : std::uint8_t {\n  bf16,\n  fp16,\n};" in header
