"""`python -m tools.tables` on a small root: compiled, written, and unchanged by running it again."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import txtdb
from tools.tables.writing import REST, origin

REPO = Path(__file__).resolve().parents[2]

MODELLED = origin("sm_90")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

# One functional a data type: what is compiled in a test should take seconds.
SMALL = """[arch.sm_90]
domain = { CAUSAL_TYPE = [0], ENABLE_DROPOUT = [false], PADDED_HEAD = [false], BIAS_TYPE = [0] }

[[arch.sm_90.unsupported]]
Q_dtype = "fp32"

[[arch.sm_90.unsupported]]
BLOCK_DMODEL = [32, 128, 256]
"""
FIXED = SMALL.replace("CAUSAL_TYPE = [0], ENABLE_DROPOUT = [false], ", "").replace(", BIAS_TYPE = [0]", "")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "nvidia"
    (root / "schema").mkdir(parents=True)
    (root / "archs.toml").write_text((REPO / "nvidia" / "archs.toml").read_text())
    for path in (REPO / "nvidia" / "schema").glob("*.toml"):
        text = path.read_text()
        section = FIXED if path.stem == "bwd_preprocess" else SMALL
        (root / "schema" / path.name).write_text(text[: text.index("[arch.sm_90]")] + section)
    return root


def make(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.tables", str(root), "--build", str(root.parent / "build"), "--jobs", "2"]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)


def test_tables_are_made_once(root: Path) -> None:
    first = make(root)
    names = [Path(line).name for line in first.stdout.splitlines()]
    assert sorted(names) == sorted(
        [f"{iface}.{suffix}" for iface in ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
         for suffix in ("txtdb", "resources")]
        + ["bwd_preprocess.resources", "op_attn_fwd.txtdb", "op_attn_bwd.txtdb"]
    )  # fmt: skip
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    again = make(root)
    assert again.stdout == ""
    assert "0 compiled" in again.stderr
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert txtdb.load(root)["sm_90"]["attn_fwd"].lookup(
        Q_dtype="fp16", CAUSAL_TYPE=0, BLOCK_DMODEL=64, ENABLE_DROPOUT=False, PADDED_HEAD=False, BIAS_TYPE=0,
        Max_seqlen_q=4096, Max_seqlen_k=4096,
    )["BLOCK_M"] >= 16  # fmt: skip


def test_a_measured_table_stays_and_a_patch_has_the_rest(root: Path) -> None:
    make(root)
    own = root / "sm_90" / "attn_fwd.txtdb"
    text = own.read_text().replace(f"#! origin {origin('sm_90')}", "#! origin measured here")
    own.write_text(re.sub(r"\[fp16 .*(?=#! end)", "", text, flags=re.DOTALL))
    before = own.read_bytes()
    said = make(root)
    patch = own.with_name(f"attn_fwd.{REST}.dbpatch")
    assert [Path(line).name for line in said.stdout.splitlines()] == [patch.name]
    assert own.read_bytes() == before
    assert [line for line in patch.read_text().splitlines() if line.startswith("[")] == ["[fp16 0 64 false false 0]"]
    table = txtdb.load(root)["sm_90"]["attn_fwd"]
    for dtype, said in (("bf16", "measured here"), ("fp16", MODELLED)):
        at = {"Q_dtype": dtype, "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 64, "ENABLE_DROPOUT": False, "PADDED_HEAD": False}
        assert said in str(table.explain(**at, BIAS_TYPE=0, Max_seqlen_q=512, Max_seqlen_k=512))
    assert make(root).stdout == ""
