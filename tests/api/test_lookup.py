"""`txtdb.load(…)[arch][iface].lookup(…)`."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import txtdb
from tests.build import ARCHS, F1, SCHEMA, config_values, make_db, patch, table, write_files
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import Cells
from txtdb.model.values import Value

F1_KEYS: dict[str, Value] = {"dtype": "fp16", "causal": 0, "head_dim": 64}


def b_table(root: Path) -> ResolvedTable:
    return txtdb.load(root)["gfxB"]["attn_fwd"]


def test_config_is_a_mapping_with_defaults_filled_in(tmp_path: Path) -> None:
    config = b_table(make_db(tmp_path)).lookup(**F1_KEYS, seqlen_q=256, seqlen_k=128)
    assert isinstance(config, txtdb.Config)
    assert config == {"BLOCK_M": 64, "PRE_LOAD_V": False, "num_warps": 4, "num_stages": 2, "waves_per_eu": 0}
    assert str(config) == "BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2 waves_per_eu=0"


def test_equal_configs_are_equal_and_hash_alike(tmp_path: Path) -> None:
    resolved = b_table(make_db(tmp_path))
    first, second = (resolved.lookup(**F1_KEYS, seqlen_q=64, seqlen_k=k) for k in (64, 128))
    assert first == second
    assert len({first, second}) == 1


# Bins 64, 128, 256 on both axes; rows `a*3`, `a b*2`, `b c d`. What each pair of sizes must give, worked by hand.
@pytest.mark.parametrize(
    ("q", "k", "block_m", "num_stages"),
    [
        (0, 0, 32, 1),
        (1, 1, 32, 1),
        (64, 64, 32, 1),
        (65, 64, 32, 1),
        (65, 65, 64, 1),
        (128, 129, 64, 1),
        (129, 64, 64, 1),
        (129, 65, 64, 2),
        (256, 256, 128, 2),
        (257, 257, 128, 2),
        (10**9, 64, 64, 1),
        (64, 10**9, 32, 1),
    ],
)
def test_size_takes_the_first_bin_that_is_not_smaller_else_the_last(
    tmp_path: Path, q: int, k: int, block_m: int, num_stages: int
) -> None:
    config = b_table(make_db(tmp_path)).lookup(**F1_KEYS, seqlen_q=q, seqlen_k=k)
    assert isinstance(config, txtdb.Config)
    assert (config["BLOCK_M"], config["num_stages"]) == (block_m, num_stages)


def test_row_110_names_decide_and_not_their_order(tmp_path: Path) -> None:
    resolved = b_table(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a b c", "128-256 d*3"]})}))
    one = resolved.lookup(seqlen_q=64, seqlen_k=128, **F1_KEYS)
    other = resolved.lookup(seqlen_k=128, head_dim=64, seqlen_q=64, causal=0, dtype="fp16")
    swapped = resolved.lookup(seqlen_q=128, seqlen_k=64, **F1_KEYS)
    assert one == other != swapped


def test_three_answers(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . -"]})})
    resolved = b_table(root)
    assert isinstance(resolved.lookup(**F1_KEYS, seqlen_q=64, seqlen_k=64), txtdb.Config)
    assert resolved.lookup(**F1_KEYS, seqlen_q=64, seqlen_k=128) is txtdb.NO_KERNEL
    assert resolved.lookup(**F1_KEYS, seqlen_q=64, seqlen_k=256) is txtdb.NO_KERNEL
    assert resolved.lookup(**F1_KEYS | {"dtype": "bf16"}, seqlen_q=64, seqlen_k=64) is txtdb.UNSUPPORTED
    assert (str(txtdb.NO_KERNEL), str(txtdb.UNSUPPORTED)) == ("no kernel", "unsupported")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": None}, "`dtype` is missing"),
        ({"dtype": None, "seqlen_q": None}, "`dtype`, `seqlen_q` are missing"),
        ({"dtype": "float16"}, "dtype has no value `float16`; it has bf16, fp16"),
        ({"dtype": 16}, "dtype must be enum, not int 16"),
        ({"causal": False}, "causal must be int, not bool False"),
        ({"causal": "0"}, "causal must be int, not name '0'"),
        ({"seqlen_q": -1}, "seqlen_q is -1; a size is not negative"),
        ({"seqlen_q": 64.0}, "seqlen_q must be int, not float 64.0"),
        ({"seqlen_q": True}, "seqlen_q must be int, not bool True"),
        ({"heads": 4}, "has no key or axis `heads`; it has causal, dtype, head_dim, seqlen_k, seqlen_q"),
    ],
)
def test_lookups_that_make_no_sense_raise(tmp_path: Path, change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {**F1_KEYS, "seqlen_q": 64, "seqlen_k": 64, **change}
    resolved = b_table(make_db(tmp_path))
    whole = {name: value for name, value in given.items() if value is not None}
    for method in (resolved.lookup, resolved.explain):
        with pytest.raises(txtdb.LookupFault) as caught:
            method(**whole)  # type: ignore[arg-type]
        assert message in str(caught.value)


MORE_KEYS = """\
[[key]]
name = "padded"
type = "bool"
fallback = false
[[key]]
name = "tail"
type = "int"
values = [0, 1]
fallback = 0
[[key]]
name = "int8"
type = "bool"
fixed = false
[[derived]]
name = "PERSISTENT"
type = "int"
key = "padded"
map = { false = 0, true = 2 }
"""
WIDE = SCHEMA.replace("[[axis]]", f"{MORE_KEYS}[[axis]]", 1)


def wide_table(tmp_path: Path, blocks: dict[str, list[str]]) -> ResolvedTable:
    text = table("gfxB", blocks, keys="dtype causal head_dim padded tail")
    files = {"archs.toml": ARCHS, "schema/attn_fwd.toml": WIDE, "gfxB/attn_fwd.txtdb": text}
    return b_table(write_files(tmp_path / "db", files))


def test_fixed_key_may_be_given_with_its_one_value(tmp_path: Path) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false 0": ["64-256 a*3"]})
    without = resolved.lookup(**F1_KEYS, padded=False, tail=0, seqlen_q=1, seqlen_k=1)
    assert isinstance(without, txtdb.Config)
    assert resolved.lookup(**F1_KEYS, padded=False, tail=0, int8=False, seqlen_q=1, seqlen_k=1) == without
    assert resolved.lookup(**F1_KEYS, padded=False, tail=0, int8=True, seqlen_q=1, seqlen_k=1) is txtdb.UNSUPPORTED
    with pytest.raises(txtdb.LookupFault, match="int8 must be bool"):
        resolved.lookup(**F1_KEYS, padded=False, tail=0, int8=0, seqlen_q=1, seqlen_k=1)


def test_fallback_key_left_out_has_its_fallback_value(tmp_path: Path) -> None:
    blocks = {"fp16 0 64 false 0": ["64-256 a*3"], "fp16 0 64 true 0": ["64-256 d*3"]}
    resolved = wide_table(tmp_path, blocks)
    left_out = resolved.lookup(**F1_KEYS, seqlen_q=1, seqlen_k=1)
    assert left_out == resolved.lookup(**F1_KEYS, padded=False, tail=0, seqlen_q=1, seqlen_k=1)
    assert left_out != resolved.lookup(**F1_KEYS, padded=True, seqlen_q=1, seqlen_k=1)


def test_fallbacks_apply_per_cell_one_key_after_the_other(tmp_path: Path) -> None:
    blocks = {
        "fp16 0 64 false 0": ["64-256 a*3"],
        "fp16 0 64 false 1": ["64 . b ."],
        "fp16 0 64 true 1": ["64 . . c"],
        "fp16 0 64 true 0": ["64-256 d*3"],  # never tried for tail=1: padded is replaced first
    }
    resolved = wide_table(tmp_path, blocks)
    found = [resolved.lookup(**F1_KEYS, padded=True, tail=1, seqlen_q=64, seqlen_k=k) for k in (64, 128, 256)]
    assert [config["BLOCK_M"] for config in found if isinstance(config, txtdb.Config)] == [32, 64, 64]
    assert [config["num_stages"] for config in found if isinstance(config, txtdb.Config)] == [1, 1, 2]


def test_derived_fields_follow_the_asked_functional_and_not_the_donor(tmp_path: Path) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false 0": ["64-256 a*3"]})
    padded = resolved.lookup(**F1_KEYS, padded=True, seqlen_q=1, seqlen_k=1)
    assert isinstance(padded, txtdb.Config)
    assert (padded["PERSISTENT"], padded["BLOCK_M"]) == (2, 32)


def test_effective_grid_is_what_lookups_give(tmp_path: Path) -> None:
    blocks = {"fp16 0 64 false 0": ["64-256 a*2 -"], "fp16 0 64 true 0": ["64 . d -"]}
    resolved = wide_table(tmp_path, blocks)
    grid = resolved.effective(("fp16", 0, 64, True, 0))
    for at in np.ndindex(*grid.shape):
        q, k = (own[place] for own, place in zip(resolved.bins, at, strict=True))
        answer = resolved.lookup(**F1_KEYS, padded=True, seqlen_q=q, seqlen_k=k)
        values = config_values(resolved, int(grid[at]))
        assert (values is None) == (answer is txtdb.NO_KERNEL)
        if isinstance(answer, txtdb.Config) and values is not None:
            assert tuple(answer.values())[:5] == values


def test_arrays_are_read_only(tmp_path: Path) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false 0": ["64-256 a*3"], "fp16 0 64 true 0": ["64 . d -"]})
    arrays: list[Cells] = [resolved.cells, resolved.layers[0].table.cells]
    arrays += [resolved.effective(("fp16", 0, 64, padded, 0)) for padded in (False, True)]
    arrays += [resolved.effective(("fp16", 1, 64, False, 0))]
    assert not any(array.flags.writeable for array in arrays)
    assert not resolved.winner.flags.writeable


@pytest.mark.parametrize("name", ["gfxB", "GFXB", " gfxb ", "beta", "gfxB:sramecc+:xnack-"])
def test_row_054_arch_by_any_of_its_names(tmp_path: Path, name: str) -> None:
    assert txtdb.load(make_db(tmp_path))[name]["attn_fwd"].arch == "gfxB"


def test_row_054_unknown_arch_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(txtdb.FaultError, match=r"unknown arch `gfxBB`.*\n.*did you mean gfxB\?") as caught:
        txtdb.load(make_db(tmp_path))["gfxBB"]
    assert caught.value.faults[0].rule == "unknown-arch"


def test_unknown_interface_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(txtdb.FaultError, match="known are attn_fwd"):
        txtdb.load(make_db(tmp_path))["gfxB"]["attn_bwd"]


def test_archs_and_interfaces_can_be_listed(tmp_path: Path) -> None:
    database = txtdb.load(make_db(tmp_path))
    assert list(database) == ["gfxA", "gfxB"]
    assert list(database["gfxA"]) == ["attn_fwd"]


def test_row_037_faulty_table_raises_with_all_its_faults(tmp_path: Path) -> None:
    text = table("gfxB", {F1: ["64 a*4", "128 a*2"]})
    database = txtdb.load(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))
    with pytest.raises(txtdb.FaultError) as caught:
        database["gfxA"]["attn_fwd"]
    assert [fault.rule for fault in caught.value.faults] == ["row-too-long", "row-too-short"]
    assert [fault.span.line for fault in caught.value.faults] == [13, 14]


def test_root_that_is_none_raises(tmp_path: Path) -> None:
    with pytest.raises(txtdb.FaultError, match="no such folder"):
        txtdb.load(tmp_path / "nowhere")
    with pytest.raises(txtdb.FaultError, match="this is no database"):
        txtdb.load(tmp_path)


def test_overlays_in_the_order_given(tmp_path: Path) -> None:
    low = write_files(tmp_path / "low", {"gfxB/attn_fwd.0099-x.dbpatch": patch("gfxB", {F1: ["64 b c ."]})})
    high = write_files(tmp_path / "high", {"gfxB/attn_fwd.0001-y.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
    root = make_db(tmp_path)

    def blocks(*overlays: Path) -> list[object]:
        resolved = txtdb.load(root, overlays)["gfxB"]["attn_fwd"]
        found = (resolved.lookup(**F1_KEYS, seqlen_q=64, seqlen_k=k) for k in (64, 128, 256))
        return [config["BLOCK_M"] for config in found if isinstance(config, txtdb.Config)]

    assert blocks(low, high) == [128, 64, 32]
    assert blocks(high, low) == [64, 64, 32]
    assert blocks() == [32, 32, 32]


def test_lookup_agrees_with_a_loop_over_the_cells(tmp_path: Path) -> None:
    resolved = txtdb.load(make_db(tmp_path))["gfxA"]["attn_fwd"]
    chance = random.Random(7)
    for _ in range(200):
        sizes = [chance.randrange(400) for _ in resolved.bins]
        functional = chance.choice(resolved.functionals)
        at = [
            next((n for n, b in enumerate(bins) if b >= s), len(bins) - 1)
            for bins, s in zip(resolved.bins, sizes, strict=True)
        ]
        cell = int(resolved.cells[(resolved.functionals.index(functional), *at)])
        given: dict[str, Value] = {
            **resolved.schema.functional_dict(functional),
            "seqlen_q": sizes[0],
            "seqlen_k": sizes[1],
        }
        assert resolved.lookup(**given) == resolved.config(cell, functional)


def test_loading_writes_nothing(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]}
    b_table(root).explain(**F1_KEYS, seqlen_q=1, seqlen_k=1)
    assert {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]} == before


def test_public_names_exist() -> None:
    assert all(hasattr(txtdb, name) for name in txtdb.__all__)
