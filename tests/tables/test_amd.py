"""The tables of `amd/`: whole, true to what they say of themselves, and made of compiled images only."""

from __future__ import annotations

from pathlib import Path

import pytest

import txtdb
from codegen.aot.plan import make_plans
from codegen.aot.resources import read_resources
from tools.tables.roots import BACKWARD, FIXED, FORWARD, KERNELS, ROOTS
from tools.tables.writing import PATCH, origin
from txtdb.model.values import print_values

REPO = Path(__file__).resolve().parents[2]
AMD = REPO / "amd"
ROOT = ROOTS["amd"]
ARCHS = sorted((*ROOT.own, *ROOT.heirs))
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


@pytest.fixture(scope="module")
def database() -> txtdb.Database:
    return txtdb.load(AMD)


def test_every_arch_has_every_interface(database: txtdb.Database) -> None:
    assert sorted(database.archs) == ARCHS
    for schema in database.schemas.values():
        assert sorted(schema.archs) == ARCHS


@pytest.mark.parametrize("arch", ARCHS)
def test_every_image_that_a_lookup_can_ask_for_was_compiled(database: txtdb.Database, arch: str) -> None:
    plans, faults = make_plans(database, [arch], [])
    assert not faults
    assert {plan.schema.iface for plan in plans} == {*KERNELS, *FIXED}
    for plan in plans:
        path = AMD / arch / f"{plan.schema.iface}.resources"
        known, wrong = read_resources(path.read_bytes(), path.name)
        assert known and not wrong
        for wanted in plan.wanted:
            entry = known.blocks[print_values(wanted.functional)].entry(print_values(wanted.config))
            assert entry and entry.status == "ok", f"{path}: {wanted.name}"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("iface", [*KERNELS, FORWARD, BACKWARD])
def test_every_file_says_that_it_is_modelled(arch: str, iface: str) -> None:
    for path in AMD.glob(f"{arch}/{iface}.*"):
        if path.suffix in (".txtdb", ".dbpatch"):
            assert f"#! origin {origin(arch)}\n" in path.read_text()


@pytest.mark.parametrize("arch", ARCHS)
def test_lookups_find_configs(database: txtdb.Database, arch: str) -> None:
    forward = database[arch]["attn_fwd"].lookup(**LOOKUP)
    assert forward["BLOCK_M"] >= 16
    assert database[arch][BACKWARD].lookup(**LOOKUP)["backend"] in ("triton_split", "triton_fused")
    assert database[arch]["attn_fwd"].lookup(**{**LOOKUP, "PADDED_HEAD": True}) is txtdb.UNSUPPORTED
    assert database[arch]["bwd_kernel_dq"].lookup(**{**LOOKUP, "Q_dtype": "fp32"}) is txtdb.UNSUPPORTED


def test_explain_says_that_nothing_was_measured(database: txtdb.Database) -> None:
    assert "not measured" in str(database["gfx1103"]["attn_fwd"].explain(**LOOKUP))


def test_patches_set_cells_with_few_queries(database: txtdb.Database) -> None:
    few = {**LOOKUP, "Max_seqlen_q": 16, "Max_seqlen_k": 8192}
    for arch in ROOT.patched:
        explanation = str(database[arch]["attn_fwd"].explain(**few))
        assert (AMD / arch / f"attn_fwd.{PATCH}.dbpatch").exists()
        assert "attn_fwd.txtdb" in explanation


def test_few_images(database: txtdb.Database) -> None:
    """A functional has one to four configs at the median, and never more than seven."""
    for arch in ROOT.own:
        for plan in make_plans(database, [arch], KERNELS)[0]:
            counts = sorted(
                sum(wanted.functional == functional for wanted in plan.wanted)
                for functional in {wanted.functional for wanted in plan.wanted}
            )
            assert counts[len(counts) // 2] <= 4, plan.place
            assert counts[-1] <= 7, plan.place
