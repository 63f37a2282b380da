"""`txtdb log` asked for what is no cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import S0, TABLE_B
from tests.cli.run import run
from tests.merge.repository import make_repository

KEYS = ("dtype=fp16", "causal=0", "head_dim=64")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_repository(tmp_path / "r", {f"amd/{name}": text for name, text in S0.items()}, drivers=False)
    monkeypatch.chdir(made.path)


@pytest.mark.usefixtures("repository")
def test_a_size_that_is_no_bin_is_told_the_bins() -> None:
    ran = run("log", "amd", "gfxB", "attn_fwd", *KEYS, "seqlen_q=64", "seqlen_k=100")
    assert (ran.code, ran.out) == (2, "")
    assert "100 is no bin of seqlen_k" in ran.err
    assert "its bins are 64 128 256" in ran.err


@pytest.mark.usefixtures("repository")
def test_a_bin_that_is_not_declared_may_have_a_history() -> None:
    wide = TABLE_B.replace("seqlen_k 64 128 256", "seqlen_k 64 128 256 512").replace("64 a*3", "64 a*4")
    Path("amd/gfxB/attn_fwd.txtdb").write_text(wide.replace("a b*2", "a b*3").replace("b c d", "b c d*2"))
    ran = run("log", "amd", "gfxB", "attn_fwd", *KEYS, "seqlen_q=64", "seqlen_k=512")
    assert (ran.code, ran.err) == (0, "")
    assert "not committed yet" in ran.out
