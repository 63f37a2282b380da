"""The starter database: true to its rule, complete, and unchanged by running the program again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import txtdb
from tools.starter.__main__ import BASES, IFACE, OWN_TABLES, PATCHED, files
from tools.starter.rule import Problem, choose, few_queries
from txtdb.layers.resolve import ground_digest
from txtdb.model.archs import Arch

REPO = Path(__file__).resolve().parents[2]
AMD = REPO / "amd"
CDNA3 = Arch("gfx942", wave_size=64, lds_bytes=65536, vgpr_budget=512)
RDNA3 = Arch("gfx1100", wave_size=32, lds_bytes=65536, vgpr_budget=256)

EXISTING = sorted((*OWN_TABLES, *BASES))
LOOKUP = {
    "Q_dtype": "bf16",
    "CAUSAL_TYPE": 0,
    "BLOCK_DMODEL": 128,
    "ENABLE_DROPOUT": False,
    "PADDED_HEAD": False,
    "BIAS_TYPE": 0,
    "Max_seqlen_q": 4096,
    "Max_seqlen_k": 4096,
}


def problem(**changes: object) -> Problem:
    given = {"dtype": "bf16", "head_dim": 128, "dropout": False, "bias": False, "seqlen_q": 4096, "seqlen_k": 4096}
    return Problem(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def database() -> txtdb.Database:
    return txtdb.load(AMD)


def test_the_example_worked_by_hand_in_the_readme():
    config = choose(CDNA3, problem())
    assert config == {
        "BLOCK_M": 128,
        "BLOCK_N": 64,
        "PRE_LOAD_V": False,
        "waves_per_eu": 1,
        "num_warps": 4,
        "num_stages": 1,
    }


@pytest.mark.parametrize(
    ("arch", "changes", "field", "expected"),
    [
        (CDNA3, {"head_dim": 64}, "num_stages", 2),  # 4 * 64 * 64 * 2 = 32768, half of the local memory
        (CDNA3, {"head_dim": 256}, "BLOCK_N", 32),  # 2 * 64 * 256 * 2 = 65536 is too much
        (CDNA3, {"head_dim": 256, "dtype": "fp32"}, "BLOCK_N", 16),  # 2 * 32 * 256 * 4 = 65536 as well
        (CDNA3, {"head_dim": 256, "dtype": "fp32"}, "BLOCK_M", 64),  # 128 rows: 128 * 2176 / 1024 = 272 of 256
        (CDNA3, {"bias": True}, "BLOCK_N", 32),
        (CDNA3, {"dropout": True, "bias": True}, "BLOCK_N", 32),
        (CDNA3, {"seqlen_k": 16}, "BLOCK_N", 16),
        (CDNA3, {"seqlen_q": 16}, "num_warps", 2),
        (RDNA3, {}, "BLOCK_M", 64),  # 64 * (128 * 6 + 32 * 8) / (4 * 4 * 32) = 128 of 128
        (RDNA3, {"head_dim": 256}, "BLOCK_M", 32),  # 32 * (256 * 6 + 32 * 8) / 512 = 112; 64 rows: 224
    ],
)
def test_the_rule_in_numbers_worked_by_hand(arch, changes, field, expected):
    assert choose(arch, problem(**changes))[field] == expected


def test_few_queries_trades_half_the_tile_for_a_stage():
    few = problem(seqlen_q=16)
    changed = few_queries(few, choose(CDNA3, few))
    assert changed is not None
    assert (changed["BLOCK_N"], changed["num_stages"]) == (32, 2)


@pytest.mark.parametrize(
    "changes", [{"seqlen_q": 64}, {"seqlen_q": 16, "seqlen_k": 2048}, {"seqlen_q": 16, "bias": True}]
)
def test_few_queries_leaves_other_cells_alone(changes):
    cell = problem(**changes)
    assert few_queries(cell, choose(CDNA3, cell)) is None


def test_running_the_program_again_changes_nothing(tmp_path):
    copy = tmp_path / "amd"
    shutil.copytree(AMD, copy)
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    done = subprocess.run(
        [sys.executable, "-m", "tools.starter", str(copy)], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert done.stdout == "unchanged\n"
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [(["--help"], 0, "usage: python -m tools.starter"), (["nowhere"], 2, "no such folder"), (["a", "b"], 2, "usage:")],
)
def test_the_program_explains_itself(arguments, code, text):
    done = subprocess.run(
        [sys.executable, "-m", "tools.starter", *arguments], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_layer_file_of_the_database_is_made_by_the_program():
    made = {path.relative_to(AMD).as_posix() for path in files(AMD)}
    there = {path.relative_to(AMD).as_posix() for pattern in ("*.txtdb", "*.dbpatch") for path in AMD.rglob(pattern)}
    assert made == there


def test_the_interface_exists_on_just_these_archs(database):
    assert [arch for arch, _ in database.places()] == EXISTING
    assert sorted(set(database) - set(EXISTING)) == ["gfx1250", "gfx90a"]


@pytest.mark.parametrize("arch", EXISTING)
def test_every_declared_cell_has_a_config(database, arch):
    table = database[arch][IFACE]
    assert table.functionals == table.arch_schema.declared
    assert (table.cells >= 0).all()
    assert not database.resolve(arch, IFACE).faults


@pytest.mark.parametrize(("heir", "base"), sorted(BASES.items()))
def test_heirs_answer_as_their_base(database, heir, base):
    assert (database[heir][IFACE].cells == database[base][IFACE].cells).all()


@pytest.mark.parametrize("arch", PATCHED)
def test_patches_stand_on_the_ground_they_name(database, arch):
    resolution = database.resolve(arch, IFACE)
    assert resolution.table is not None
    own, patch = resolution.table.layers
    (_, file) = database.layer_files(arch, IFACE)[1]
    document = database.file(file).source.document
    without = txtdb.layers.resolve.fold_layer(txtdb.layers.resolve.empty_fold(2), own, 0)
    digest = ground_digest(resolution.table.schema, resolution.table.pool, without, patch.table)
    assert document.argument("onto") == digest
    assert document.argument("why")
    assert (resolution.table.winner == 1).sum() == (patch.table.cells >= 0).sum() > 0


def test_other_interfaces_are_declared_and_exist_nowhere_yet(database):
    assert sorted(database.schemas) == [
        "attn_fwd",
        "bwd_kernel_dk_dv",
        "bwd_kernel_dq",
        "bwd_kernel_fuse",
        "bwd_preprocess",
        "op_attn_bwd",
        "op_attn_fwd",
    ]
    assert all(not schema.archs for name, schema in database.schemas.items() if name != IFACE)


def test_a_padded_head_takes_the_config_of_the_unpadded_one(database):
    table = database["gfx942"][IFACE]
    assert table.lookup(**{**LOOKUP, "PADDED_HEAD": True}) == table.lookup(**LOOKUP)


@pytest.mark.parametrize("name", ["MI300X", "mi325x", "gfx942:sramecc+:xnack-"])
def test_products_name_their_arch(database, name):
    assert database[name].arch.name == "gfx942"


def test_facts_of_gfx950():
    arch = txtdb.load(AMD)["gfx950"].arch
    assert (arch.wave_size, arch.lds_bytes, arch.vgpr_budget) == (64, 160 * 1024, 512)
    assert (arch.compute_units, arch.xcds) == (8 * 32, 8)


def test_tables_are_small():
    sizes = {path.name: path.stat().st_size for path in AMD.rglob("*.txtdb")}
    assert max(sizes.values()) < 8_000
