"""`txtdb schema show`."""

from __future__ import annotations

from pathlib import Path

from tests.build import SCHEMA, make_db
from tests.cli.run import run

MORE_KEYS = """\
[[key]]
name = "padded"
type = "bool"
fallback = false
[[key]]
name = "int8"
type = "bool"
fixed = false
"""
CONDITIONS = """\
[[absent]]
causal = 1
head_dim = [64, 128]
[[illegal]]
BLOCK_M = 128
num_warps = [1, 2]
[[derived]]
name = "PERSISTENT"
type = "int"
key = "causal"
map = { 0 = 0, 1 = 2 }

"""
EXTRA = SCHEMA.replace("[[axis]]", f"{MORE_KEYS}[[axis]]", 1).replace("[arch.gfxA]", f"{CONDITIONS}[arch.gfxA]")

FIXED = """\
iface = "prep"
kind = "fixed"
[[key]]
name = "d"
type = "int"
values = [1, 2]
[[config]]
name = "num_warps"
type = "int"
binary = false
[fixed_config]
num_warps = 4
[arch.gfxB]
"""

OPERATOR = """\
iface = "op"
kind = "operator"
[[key]]
name = "dtype"
type = "enum"
values = ["bf16", "fp16"]
[[key]]
name = "causal"
type = "int"
values = [0, 1]
[[key]]
name = "head_dim"
type = "int"
values = [64, 128]
[[axis]]
name = "seqlen_q"
bins = [64]
[[axis]]
name = "seqlen_k"
bins = [64]
[[backend]]
name = "triton"
launches = ["attn_fwd", "prep"]
[[backend]]
name = "asm"
[arch.gfxB]
"""


def lines_of(root: Path, *args: str) -> list[str]:
    ran = run("schema", "show", root, *args)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def test_text(tmp_path: Path) -> None:
    lines = lines_of(make_db(tmp_path), "attn_fwd")
    assert lines[0].startswith("attn_fwd  kernel  ")
    assert "  dtype     enum  bf16 fp16" in lines
    assert "  seqlen_q  64 128 256" in lines
    assert "  num_stages    int   1..4" in lines
    assert "  PRE_LOAD_V    bool  any" in lines
    assert "  waves_per_eu  int   0..4       default 0" in lines
    assert lines[lines.index("archs") :] == [
        "archs",
        "  gfxA  functionals: 2, cells: 18",
        "    dtype: fp16",
        "    causal: 0",
        "  gfxB  functionals: 1, cells: 9",
        "    dtype: fp16",
        "    causal: 0",
        "    head_dim: 64",
    ]


def test_all_kinds_of_keys_and_conditions(tmp_path: Path) -> None:
    lines = lines_of(make_db(tmp_path, {"schema/attn_fwd.toml": EXTRA}), "attn_fwd")
    assert "  padded    bool  false true  falls back to false" in lines
    assert "  int8      bool  false       fixed" in lines
    assert "  causal=1 head_dim=64,128" in lines
    assert "  BLOCK_M=128 num_warps=1,2" in lines
    assert "  PERSISTENT  int  from causal  0->0 1->2" in lines


def test_archs_that_say_the_same_stand_together(tmp_path: Path) -> None:
    schema = SCHEMA[: SCHEMA.index("[arch.gfxA]")]
    own = "[arch.gfxA]\nbins.seqlen_k = [64, 512]\nunsupported = [{ causal = 1 }]\n"
    same = '[arch.gfxB]\nlike = "gfxA"\n'
    lines = lines_of(make_db(tmp_path, {"schema/attn_fwd.toml": schema + own + same}), "attn_fwd")
    assert lines[lines.index("archs") + 1 :] == [
        "  gfxA gfxB  functionals: 4, cells: 24",
        "    seqlen_k: 64 512",
        "    unsupported: causal=1",
    ]


def test_values_that_are_missing_are_said_where_that_is_shorter(tmp_path: Path) -> None:
    schema = SCHEMA[: SCHEMA.index("[arch.gfxA]")] + "[arch.gfxA]\nbins.seqlen_q = [64, 128]\n[arch.gfxB]\n"
    lines = lines_of(make_db(tmp_path, {"schema/attn_fwd.toml": schema}), "attn_fwd", "--arch", "gfxA")
    assert lines[lines.index("archs") + 1 :] == [
        "  gfxA  functionals: 8, cells: 48",
        "    seqlen_q without 256",
    ]


def test_fixed_interface(tmp_path: Path) -> None:
    lines = lines_of(make_db(tmp_path, {"schema/prep.toml": FIXED}), "prep")
    assert lines[0].startswith("prep  fixed  ")
    assert "  num_warps  int  any  not part of the image" in lines
    assert lines[lines.index("fixed config") + 1] == "  num_warps  4"


def test_operator(tmp_path: Path) -> None:
    lines = lines_of(
        make_db(tmp_path, {"schema/prep.toml": FIXED.replace('"d"', '"head_dim"'), "schema/op.toml": OPERATOR}), "op"
    )
    assert "  triton  launches attn_fwd prep" in lines
    assert "  asm     an external kernel" in lines


def test_json_has_the_same_content(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"schema/attn_fwd.toml": EXTRA})
    told = run("schema", "show", root, "attn_fwd", "--arch", "beta", "--format", "json").json
    assert (told["iface"], told["kind"]) == ("attn_fwd", "kernel")
    assert told["keys"][3] == {"name": "padded", "type": "bool", "values": [False, True], "fallback": False}
    assert told["keys"][0]["fallback"] is None
    assert told["fixed_keys"] == [{"name": "int8", "type": "bool", "value": False}]
    assert told["axes"][0] == {"name": "seqlen_q", "bins": [64, 128, 256]}
    assert told["config"][4]["default"] == 0
    assert told["absent"] == [{"causal": [1], "head_dim": [64, 128]}]
    assert told["illegal"] == [{"BLOCK_M": [128], "num_warps": [1, 2]}]
    assert told["derived"][0]["map"] == [[0, 0], [1, 2]]
    (arch,) = told["archs"]
    assert (arch["arch"], arch["functionals"], arch["cells"]) == ("gfxB", 1, 9)
    assert arch["domains"]["head_dim"] == [64]


def test_unknown_names_exit_2(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    ran = run("schema", "show", root, "attn_fwdd")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean attn_fwd? known are attn_fwd" in ran.err
    assert run("schema", "show", root, "attn_fwd", "--arch", "gfxZ").code == 2
