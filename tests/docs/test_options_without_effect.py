"""An option that another one disables, or that needs one that is not there, is never a silent no-op."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.build import make_db
from txtdb.cli import main

CELL = "dtype=fp16 causal=0 head_dim=64 seqlen_q=64 seqlen_k=64"
RECORDS = "import records {records} --root {root} --arch gfxB --iface attn_fwd --time ms"

PAIRS = {
    "check ROOT --write-baseline": ("check {root} --write-baseline", ("--write-baseline", "--baseline")),
    "set --why": (f"set {{root}} gfxB attn_fwd {CELL} --why because -- num_warps=4", ("--why", "--patch")),
    "import records --why": (f"{RECORDS} --why because", ("--why", "--patch")),
    "import records --error": (f"{RECORDS} --error err", ("--error", "--max-error")),
    "import records --max-error": (f"{RECORDS} --max-error 0.1", ("--max-error", "--error")),
    "codegen --check --depfile": (
        "codegen {root} --out {root}-out --check --depfile {root}.d",
        ("--check", "--depfile"),
    ),
    "codegen --lang python --namespace": (
        "codegen {root} --out {root}-out --lang python --namespace a",
        ("--namespace", "--lang"),
    ),
}


@pytest.fixture
def places(tmp_path) -> dict[str, Path]:
    records = tmp_path / "records.csv"
    records.write_text(
        "dtype,causal,head_dim,seqlen_q,seqlen_k,BLOCK_M,PRE_LOAD_V,num_warps,num_stages,ms,err\n"
        "fp16,0,64,64,64,32,true,2,1,1.5,0.0\n"
    )
    return {"root": make_db(tmp_path), "records": records}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_row_046_options_that_disable_each_other_are_both_named(name, places):
    line, named = PAIRS[name]
    done = CliRunner().invoke(main, line.format(**places).split(" "))
    assert all(option in done.output for option in named), done.output
    assert done.exit_code in (0, 2), done.output
