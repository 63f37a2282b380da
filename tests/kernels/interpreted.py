"""Runs a group of cases in Triton's interpreter and prints what came out as JSON, one object a line.

A program of its own, because the interpreter is chosen when triton is imported, and tests of the same run need the
compiler. Its argument is the name of the group.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from codegen.kernels.attention import Config, Problem, attention_with_lse
from codegen.kernels.reference import by_pytorch, reference
from tests.kernels.cases import GROUPS, Case
from tools.bench.guarded import Answer, Guarded, by_launches, guarded_like, lse_error


def _dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    """The interpreter keeps bf16 as 16-bit integers and would multiply these: the values go to float32 first."""

    def values(operand: Any) -> Any:
        if operand.dtype.scalar == tl.bfloat16:
            return interpreter._convert_float(operand.data, tl.bfloat16, tl.float32, None).view(np.float32)
        return operand.data

    product = np.matmul(values(a), values(b), dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


interpreter.InterpreterBuilder.create_dot = _dot


def config_of(case: Case, iface: str, functional: Mapping[str, Any]) -> Config:
    """The case's tiles, and options that not every compiler has."""
    config = {"BLOCK_M": case.tile[0], "num_warps": 4, "num_stages": 2, "waves_per_eu": 2, "maxnreg": 128}
    if iface == "bwd_preprocess":
        return config
    config |= {"BLOCK_N": case.tile[1], "TENSOR_COPY": case.copy}
    return {**config, "PRE_LOAD_V": case.early} if iface == "attn_fwd" else config


def problem_of(case: Case) -> Problem:
    """All of a case but its tensors."""
    given: dict[str, Any] = {"max_seqlen_q": case.rows, "max_seqlen_k": case.keys}
    if case.lengths:
        for name, lengths in zip("qk", zip(*case.lengths, strict=True), strict=True):
            ends = torch.tensor([0, *lengths]).cumsum(0)
            given[f"cu_seqlens_{name}"], given[f"max_seqlen_{name}"] = ends.to(torch.int32), max(lengths)
    return Problem(
        sm_scale=case.sm_scale,
        window=case.window,
        bottom_right=case.bottom_right,
        dropout=case.dropout,
        seed=case.seed,
        fused_backward=case.fused,
        choose=lambda iface, functional, sizes: config_of(case, iface, functional),
        **given,
    )


def random(shape: Sequence[int], dtype: torch.dtype, layout: str) -> Guarded:
    """A guarded tensor of normal numbers."""
    return guarded_like(torch.randn(shape).to(dtype), layout)


def shapes_of(case: Case) -> list[tuple[int, ...]]:
    """Of Q, K and V."""
    if case.lengths:
        rows, keys = (sum(lengths) for lengths in zip(*case.lengths, strict=True))
        return [(rows, case.heads, case.head_dim), *[(keys, case.key_heads, case.head_dim)] * 2]
    key = (case.batch, case.key_heads, case.keys, case.head_dim)
    return [(case.batch, case.heads, case.rows, case.head_dim), key, key]


def bias_of(case: Case, dtype: torch.dtype) -> tuple[list[Guarded], torch.Tensor | None]:
    """The bias that a case names, and what guards it."""
    if not case.bias:
        return [], None
    full = (case.batch, case.heads, case.rows, case.keys)
    shapes = {"heads": (1, 1, *full[2:]), "rows": (1, case.heads, 1, case.keys), "matrix": full[2:]}
    turned = case.bias == "turned"
    shape = (*full[:2], case.keys, case.rows) if turned else shapes.get(case.bias, full)
    guarded = random(shape, dtype, "heads")
    if case.bias == "hides keys":
        guarded.tensor[..., ::3] = float("-inf")
    if case.bias == "hides rows":
        guarded.tensor[:, :, 4:6] = float("-inf")
    return [guarded], guarded.tensor.transpose(-1, -2) if turned else guarded.tensor


def run(case: Case) -> dict[str, Any]:
    """The errors of a case, beside those of PyTorch's own attention in the same type, and what became of the memory."""
    torch.manual_seed(1)
    dtype, problem = getattr(torch, case.dtype), problem_of(case)
    guarded = [random(shape, dtype, case.layout) for shape in shapes_of(case)]
    guards, bias = bias_of(case, dtype)
    inputs = [item.tensor for item in guarded] + ([] if bias is None else [bias])
    before = [tensor.clone() for tensor in inputs]
    upstream = random(inputs[0].shape, dtype, case.layout)
    if case.autograd:
        mine, lse, intact = by_autograd(inputs, bias is not None, upstream.tensor, problem)
    else:
        mine, lse, intact = by_launches(inputs[:3], bias, upstream.tensor, problem, case.layout)
    exact, exact_lse = by_reference(inputs, bias is not None, upstream.tensor, problem, torch.float64)
    theirs = by_own(inputs, bias is not None, upstream.tensor, problem)
    names = ("out", "dq", "dk", "dv", "dbias")[: len(exact)]
    return {
        "errors": {name: error(a, b) for name, a, b in zip(names, mine, exact, strict=True)},
        "pytorch": {name: error(a, b) for name, a, b in zip(names, theirs, exact, strict=True)},
        "lse": lse_error(lse, exact_lse),
        "inputs kept": all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True)),
        "guards kept": all(item.intact for item in (*guarded, *guards, upstream)) and intact,
    }


def error(value: torch.Tensor, truth: torch.Tensor) -> float:
    """Root mean square of the error, relative to that of the truth; NaN stays NaN."""
    return float((value.double() - truth).norm() / truth.norm().clamp_min(1e-30)) if truth.numel() else 0.0


def by_autograd(inputs: list[torch.Tensor], biased: bool, upstream: torch.Tensor, problem: Problem) -> Answer:
    """Through PyTorch, which here fills the memory that it hands out with NaN."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out, lse = attention_with_lse(*leaves[:3], leaves[3] if biased else None, problem)
    return [out.detach(), *torch.autograd.grad(out, leaves, upstream)], lse, True


def by_reference(
    inputs: list[torch.Tensor], biased: bool, upstream: torch.Tensor, problem: Problem, dtype: torch.dtype
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """By the definition, in a type."""
    leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
    out, lse = reference(*leaves[:3], leaves[3] if biased else None, problem)
    return [out.detach(), *torch.autograd.grad(out, leaves, upstream.to(dtype))], lse.detach()


def by_own(inputs: list[torch.Tensor], biased: bool, upstream: torch.Tensor, problem: Problem) -> list[torch.Tensor]:
    """By PyTorch's own function, in the inputs' type; with dropout, which that draws in another way, by definition."""
    if problem.dropout:
        return by_reference(inputs, biased, upstream, problem, inputs[0].dtype)[0]
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = by_pytorch(*leaves[:3], leaves[3] if biased else None, problem)
    return [out.detach(), *torch.autograd.grad(out, leaves, upstream)]


def main() -> None:
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN
    for name, case in GROUPS[sys.argv[1]].items():
        print(json.dumps({"case": name, **run(case)}), flush=True)


if __name__ == "__main__":
    main()
