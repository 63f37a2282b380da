"""`tools.bench.packs` without a GPU: its shapes, what the tables support of them, and its verdicts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tools.bench import packs  # noqa: E402 after the skip
from tools.bench.problems import Case, by_definition  # noqa: E402

TINY = Case("fp16", head_dim=32, rows=9, keys=13, batch=1)


def test_the_shapes_are_many_and_differ() -> None:
    chosen = list(packs.cases())
    assert len({case.name for case in chosen}) == len(chosen) >= 80
    assert {case.dtype for case in chosen} == {"bf16", "fp16", "fp32"}
    assert {32, 64, 80, 128, 256} <= {case.head_dim for case in chosen}


def test_what_the_tables_support(opened: Callable[..., Any]) -> None:
    kernels, _ = opened()
    support = {case: packs.supported(case, kernels) for case in packs.cases()}
    assert all(work is None for case, work in support.items() if case.dtype != "fp16" or case.dropout)
    work = packs.supported(TINY, kernels)
    assert work is not None
    assert work.backward == "split"
    for case, backward in {
        Case("fp16", head_dim=28, rows=90): "fused",
        Case("fp16", head_dim=28, rows=9, fused=True): "fused",
        Case("fp16", head_dim=64): "",
    }.items():
        work = packs.supported(case, kernels)
        assert work is not None
        assert work.backward == backward


def pretend(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    monkeypatch.setattr(packs, "by_pack", lambda kernels, fused: function)


@pytest.mark.parametrize("backward", ["split", ""])
def test_a_right_result(monkeypatch: pytest.MonkeyPatch, backward: str) -> None:
    pretend(monkeypatch, by_definition)
    row = packs.check(packs.Work(TINY, backward), None, "cpu")
    assert (row["good"], row["inputs_kept"], row["against"]) == (True, True, "float64")
    assert list(row["errors"]) == (["out", "dq", "dk", "dv"] if backward else ["out"])
    assert packs.line(row).startswith("ok  forward")


def test_a_gradient_that_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key: dQ and dK are zero, and what rounding leaves of them is not their relative error."""
    pretend(monkeypatch, lambda q, *rest: by_definition(q, *rest) + 1e-7 * q.sum())
    row = packs.check(packs.Work(replace(TINY, dtype="fp32", keys=1), "split"), None, "cpu")
    assert 0.0 < row["errors"]["dq"][0] < 1e-5


def test_bounds() -> None:
    small, usual = Case("bf16", rows=63, keys=900), Case("bf16", rows=64, keys=900)
    assert packs.allowed(small, 1e-3, True) == 8e-3
    assert packs.allowed(small, 1e-2, True) == pytest.approx(3e-2, rel=1e-3)
    assert packs.allowed(usual, 1e-3, True) == pytest.approx(3e-3, rel=1e-2)
    assert packs.allowed(usual, 1e-3, False) == 2e-2


def test_a_result_that_is_nearly_right(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda *given: by_definition(*given) * 1.01)
    row = packs.check(packs.Work(TINY, "split"), None, "cpu")
    assert not row["good"]
    assert packs.line(row).startswith("BAD forward split")


def test_memory_that_nobody_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is NaN, whatever lay there before."""
    pretend(monkeypatch, lambda q, *_: q * 0.0 + torch.empty(q.shape, dtype=q.dtype))
    row = packs.check(packs.Work(TINY, ""), None, "cpu")
    assert not row["good"]
    assert "nan x" in packs.line(row)
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_input_that_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(q: Any, k: Any, v: Any, bias: Any, problem: Any) -> Any:
        out = by_definition(q, k, v, bias, problem)
        k.data.zero_()
        return out

    pretend(monkeypatch, function)
    row = packs.check(packs.Work(TINY, ""), None, "cpu")
    assert not row["inputs_kept"]
    assert "AN INPUT WAS CHANGED" in packs.line(row)


def test_large_shapes_are_compared_with_pytorchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "EXACT_SCORES", 10)
    pretend(monkeypatch, lambda *given: by_definition(*given) * 1.001)
    row = packs.check(packs.Work(TINY, ""), None, "cpu")
    assert (row["good"], row["against"]) == (True, "PyTorch")
    pretend(monkeypatch, lambda *given: by_definition(*given) * 1.1)
    assert not packs.check(packs.Work(TINY, ""), None, "cpu")["good"]


def test_the_call_that_is_checked(opened: Callable[..., Any]) -> None:
    """All of a problem reaches the kernels."""
    kernels, driver = opened()
    case = Case("fp16", head_dim=20, lengths=((3, 4), (5, 2)), heads=4, key_heads=2, window=(3, 1), sm_scale=0.3)
    packs.check(packs.Work(case, "split"), kernels, "cpu")
    first = driver.launches[0].values
    expected = {"num_seqlens": 2, "max_seqlen_q": 5, "max_seqlen_k": 4, "window_left": 3, "window_right": 1}
    assert {name: first[name] for name in expected} == expected
    assert first["sm_scale"] == pytest.approx(0.3)
    assert [launch.iface for launch in driver.launches][-1] == "bwd_kernel_dq"


def test_triton_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.setitem(sys.modules, "triton", sys)
    assert packs.hide_triton() == "loaded by PyTorch, then hidden"
    with pytest.raises(ImportError):
        __import__("triton")


@pytest.mark.parametrize(("bad", "least", "code"), [(0, 2, 0), (0, 3, 1), (1, 2, 1)])
def test_exit_codes(bad: int, least: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = [{"good": number >= bad, "backward": "split"} for number in range(2)]
    report = {
        "shapes": shapes, "host_microseconds": {"launch": 9.5}, "images": 3, "unsupported": ["x"],
        "about": {"triton": "not loaded"},
    }  # fmt: skip
    assert packs._summary(report, least, 1.0) == code
    assert f"{2 - bad} of 2 shapes are right" in capsys.readouterr().out


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["packs", "x.pack", "python", "--out", str(tmp_path / "x.json")])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(packs, "hide_triton", lambda: "not loaded")
    assert packs.main() == 2
    assert "no GPU" in capsys.readouterr().err
