"""The Python interface: lookups by name, their faults and three answers, and pins as a layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import txtdb
from tests.build import F1, IFACE, SCHEMA, config_values, make_db, patch, table
from txtdb.layers.resolved import ResolvedTable

WITH_FIXED = SCHEMA.replace(
    "[[axis]]",
    '[[key]]\nname = "alibi"\ntype = "bool"\nfixed = false\n\n[[absent]]\ncausal = 1\nhead_dim = 128\n\n[[axis]]',
    1,
)
GIVEN: dict[str, Any] = {"dtype": "fp16", "causal": 0, "head_dim": 64, "seqlen_q": 64, "seqlen_k": 64}


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedTable:
    return txtdb.load(make_db(tmp_path, {"schema/attn_fwd.toml": WITH_FIXED}))["gfxA"][IFACE]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (
        {"seqlen": 5},
        "attn_fwd has no key or axis `seqlen`; it has alibi, causal, dtype, head_dim, seqlen_k, seqlen_q",
    ),
    "missing key": ({"dtype": ...}, "attn_fwd: `dtype` is missing"),
    "missing axis": ({"seqlen_q": ...}, "attn_fwd: `seqlen_q` is missing"),
    "both missing": ({"dtype": ..., "seqlen_q": ...}, "attn_fwd: `dtype`, `seqlen_q` are missing"),
    "bool for an int": ({"causal": False}, "causal must be int, not bool False"),
    "int for an enum": ({"dtype": 16}, "dtype must be enum, not int 16"),
    "text for an int": ({"head_dim": "64"}, "head_dim must be int, not name '64'"),
    "float for a size": ({"seqlen_q": 64.0}, "seqlen_q must be int, not float 64.0"),
    "bool for a size": ({"seqlen_q": True}, "seqlen_q must be int, not bool True"),
    "none": ({"seqlen_q": None}, "seqlen_q must be int, not NoneType None"),
    "negative size": ({"seqlen_q": -1}, "seqlen_q is -1; a size is not negative"),
    "no value of an enum": ({"dtype": "fp32"}, "dtype has no value `fp32`; it has bf16, fp16"),
    "fixed key of another type": ({"alibi": 0}, "alibi must be bool, not int 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_lookup_that_makes_no_sense(resolved: ResolvedTable, case: str) -> None:
    changes, message = WRONG[case]
    given = {name: value for name, value in {**GIVEN, **changes}.items() if value is not ...}
    for ask in (resolved.lookup, resolved.explain):
        with pytest.raises(txtdb.LookupFault) as error:
            ask(**given)
        assert str(error.value) == message


def test_the_answers(resolved: ResolvedTable) -> None:
    config = resolved.lookup(**GIVEN)
    assert isinstance(config, txtdb.Config)
    assert dict(config) == {"BLOCK_M": 32, "PRE_LOAD_V": True, "num_warps": 2, "num_stages": 1, "waves_per_eu": 0}
    assert str(config) == "BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1 waves_per_eu=0"
    assert resolved.lookup(**GIVEN, alibi=False) == config
    unsupported: list[dict[str, Any]] = [
        {"alibi": True},
        {"causal": 5},
        {"dtype": "bf16"},
        {"causal": 1, "head_dim": 128},
    ]
    for changes in unsupported:
        assert resolved.lookup(**{**GIVEN, **changes}) is txtdb.UNSUPPORTED
        assert resolved.explain(**{**GIVEN, **changes}).answer is txtdb.UNSUPPORTED
    assert str(txtdb.NO_KERNEL) == "no kernel"


@pytest.mark.parametrize("size", [0, 1, 64, 65, 256, 257, 10**30])
def test_every_size_has_an_answer(resolved: ResolvedTable, size: int) -> None:
    assert isinstance(resolved.lookup(**{**GIVEN, "seqlen_q": size, "seqlen_k": size}), txtdb.Config)


def test_configs_are_mappings(resolved: ResolvedTable) -> None:
    config = resolved.lookup(**GIVEN)
    assert isinstance(config, txtdb.Config)
    assert len({config, resolved.lookup(**GIVEN)}) == 1
    with pytest.raises(TypeError):
        config["BLOCK_M"] = 1  # type: ignore[index]
    with pytest.raises(KeyError):
        config["BLOCK_X"]


def test_names_of_archs_and_interfaces(tmp_path: Path) -> None:
    database = txtdb.load(make_db(tmp_path))
    assert list(database) == ["gfxA", "gfxB"]
    assert list(database["gfxA"]) == [IFACE]
    assert database["BETA:xnack-"].arch.name == "gfxB"
    with pytest.raises(txtdb.FaultError, match="unknown arch `gfxC`"):
        database["gfxC"]
    with pytest.raises(txtdb.FaultError, match="no interface `attn_bwd`"):
        database["gfxA"]["attn_bwd"]


def test_load_refuses_a_wrong_schema_with_all_faults(tmp_path: Path) -> None:
    schema = SCHEMA.replace('type = "bool"', 'type = "boolean"').replace("min = 1", 'min = "1"')
    with pytest.raises(txtdb.FaultError) as error:
        txtdb.load(make_db(tmp_path, {"schema/attn_fwd.toml": schema}))
    assert [fault.message for fault in error.value.faults] == [
        "config 'PRE_LOAD_V': unknown type `boolean`",
        "config num_stages: `min` must be an int, and stands at int fields only",
    ]


PIN = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = [64, 128], seqlen_k = 64 }
config = { BLOCK_M = 128, PRE_LOAD_V = false, num_warps = 8, num_stages = 2 }
reason = "wrong results"
until = 2020-01-01
"""


def test_pins_lie_above_the_patches_of_their_root(tmp_path: Path) -> None:
    """Also when they have expired: only their removal ends them. An overlay's patch lies above them."""
    files = {"gfxB/pins.toml": PIN, "gfxB/attn_fwd.99-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]})}
    root = make_db(tmp_path, files)
    resolved = txtdb.load(root)["gfxB"][IFACE]
    blocks = [values[0] if (values := config_values(resolved, n)) else None for n in resolved.cells.ravel().tolist()]
    assert blocks == [128, 32, 32, 128, 64, 64, 64, 64, 128]
    winner = resolved.explain(**GIVEN).winner
    assert winner is not None
    assert (winner.layer.kind, winner.span.line, winner.layer.origin) == ("pins", 1, "hand")
    over = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 c . ."]})}, "over")
    above = txtdb.load(root, [over])["gfxB"][IFACE].lookup(**GIVEN)
    assert isinstance(above, txtdb.Config)
    assert above["num_stages"] == 2
    assert above["BLOCK_M"] == 64


def test_heirs_inherit_pins(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/pins.toml": PIN})
    config = txtdb.load(root)["gfxA"][IFACE].lookup(**GIVEN)
    assert isinstance(config, txtdb.Config)
    assert config["BLOCK_M"] == 128


def test_a_pin_without_axes_holds_everywhere(tmp_path: Path) -> None:
    pin = PIN.replace("at = { seqlen_q = [64, 128], seqlen_k = 64 }\n", "")
    resolved = txtdb.load(make_db(tmp_path, {"gfxB/pins.toml": pin}))["gfxB"][IFACE]
    assert {config_values(resolved, n) for n in resolved.cells.ravel().tolist()} == {(128, False, 8, 2, 0)}


def test_a_table_of_many_layers_that_is_too_large(tmp_path: Path) -> None:
    """Each patch is small; the union of their bins is not."""
    files = {}
    for number in (1, 2):
        bins = " ".join(str(10_000 * number + n) for n in range(2_100))
        text = patch("gfxB", {F1: [f"{10_000 * number} .*2099 b"]}, axes={"seqlen_q": bins, "seqlen_k": bins})
        files[f"gfxB/attn_fwd.{number}-x.dbpatch"] = text
    resolution = txtdb.load(make_db(tmp_path, files)).resolve("gfxB", IFACE)
    assert resolution.table is None
    assert [fault.rule for fault in resolution.faults] == ["too-large"]
    assert resolution.faults[0].message == "gfxB attn_fwd: 3 layers with 17665209 cells are too many"
