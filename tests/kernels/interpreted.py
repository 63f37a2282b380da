"""Runs attention cases in Triton's interpreter and prints their errors as JSON, one object a line.

A program of its own, because the interpreter is chosen when triton is imported: the compile tests of the same run need
the compiler. Its arguments are the names of cases; without any it runs all.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from codegen.kernels.attention import Problem, attention_with_lse
from codegen.kernels.reference import reference

GUARD = 64
CONVERT = interpreter._convert_float


def _dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    """The interpreter keeps bf16 as 16-bit integers and would multiply these: the values go to float32 first."""

    def values(operand: Any) -> Any:
        if operand.dtype.scalar == tl.bfloat16:
            return CONVERT(operand.data, tl.bfloat16, tl.float32, None).view(np.float32)
        return operand.data

    product = np.matmul(values(a), values(b), dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


interpreter.InterpreterBuilder.create_dot = _dot


@dataclass(frozen=True)
class Case:
    """Shapes, type and options of one call. `lengths` are those of the sequences in one batch entry (queries, keys)."""

    dtype: str = "float32"
    batch: int = 1
    heads: int = 2
    heads_k: int = 1
    rows: int = 37
    keys: int = 53
    head_dim: int = 32
    bias: str = ""
    lengths: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    options: dict[str, Any] = field(default_factory=dict)


CAUSAL = {"window": (None, 0)}
CASES: dict[str, Case] = {
    "plain": Case(),
    "fp16": Case("float16", rows=31, keys=67, head_dim=64),
    "bf16": Case("bfloat16", rows=31, keys=67, head_dim=64),
    "bf16 causal": Case("bfloat16", rows=65, keys=64, options=CAUSAL),
    "one row, one key": Case(rows=1, keys=1),
    "one row": Case(rows=1, keys=41),
    "one key": Case(rows=41, keys=1),
    "causal": Case(options=CAUSAL),
    "causal, more rows than keys": Case(rows=53, keys=37, options=CAUSAL),
    "causal from the last key": Case(options={**CAUSAL, "bottom_right": True}),
    "causal from the last key, rows without keys": Case(rows=53, keys=37, options={**CAUSAL, "bottom_right": True}),
    "window": Case(rows=61, keys=59, options={"window": (5, 3)}),
    "window of one": Case(options={"window": (0, 0), "bottom_right": True}),
    "window to the left": Case(options={"window": (7, None)}),
    "window beside the diagonal": Case(options={"window": (-3, 9), "bottom_right": True}),
    "padded head 40": Case(head_dim=40),
    "padded head 80": Case("float16", rows=17, keys=19, head_dim=80),
    "head 256": Case("float16", rows=17, keys=19, head_dim=256),
    "grouped heads": Case(batch=2, heads=6, heads_k=2, rows=19, keys=23, options=CAUSAL),
    "bias": Case(bias="full"),
    "broadcast bias, causal": Case(batch=2, bias="broadcast", rows=23, keys=29, options=CAUSAL),
    "bias of -inf": Case(bias="masking", rows=23, keys=29),
    "dropout": Case(options={"dropout": 0.3, "seed": 7}),
    "dropout, causal, large seed": Case(heads=4, heads_k=2, options={**CAUSAL, "dropout": 0.5, "seed": 2**40 + 5}),
    "negative scale": Case(options={"sm_scale": -0.3}),
    "zero scale, causal": Case(options={**CAUSAL, "sm_scale": 0.0}),
    "sequences": Case(lengths=((5, 0, 17, 1, 33), (7, 9, 0, 40, 31))),
    "sequences, causal from the last key": Case(
        lengths=((5, 13, 1, 21), (7, 9, 40, 3)), options={**CAUSAL, "bottom_right": True}
    ),
    "sequences, window, dropout": Case(
        "float16", lengths=((8, 0, 16), (7, 9, 11)), options={"window": (4, 3), "dropout": 0.3, "seed": 3}
    ),
    "fused": Case(heads=4, heads_k=2, options={"fused_backward": True}),
    "fused, causal, bias": Case(bias="full", options={**CAUSAL, "fused_backward": True}),
    "fused, sequences": Case(lengths=((5, 0, 17), (7, 9, 0)), options={"fused_backward": True}),
}


def run(case: Case) -> dict[str, Any]:
    """Errors of output, log-sum-exp and gradients, beside those that the type alone makes."""
    torch.manual_seed(1)
    dtype = getattr(torch, case.dtype)
    q, k, v = (_guarded(shape, dtype) for shape in _shapes(case))
    bias = _bias(case, dtype)
    inputs = [q, k, v, *([] if bias is None else [bias])]
    before = [tensor.detach().clone() for tensor in inputs]
    problem = _problem(case)
    out, lse = attention_with_lse(q, k, v, bias, problem)
    upstream = torch.randn(out.shape, dtype=dtype)
    mine = [out, *torch.autograd.grad(out, inputs, upstream)]
    exact, exact_lse = _reference(inputs, bias, problem, torch.float64, upstream)
    rounded, _ = _reference(inputs, bias, problem, dtype, upstream)
    names = ("out", "dq", "dk", "dv", "dbias")
    return {
        "errors": {n: _distance(a, b) for n, a, b in zip(names, mine, exact, strict=False)},
        "floors": {n: _distance(a, b) for n, a, b in zip(names, rounded, exact, strict=False)},
        "scales": {n: float(b.abs().max()) if b.numel() else 0.0 for n, b in zip(names, exact, strict=False)},
        "lse": _distance(torch.nan_to_num(lse, neginf=-1e4), torch.nan_to_num(exact_lse, neginf=-1e4)),
        "nan": any(bool(tensor.isnan().any()) for tensor in mine),
        "inputs kept": all(torch.equal(a, b.detach()) for a, b in zip(before, inputs, strict=True)),
        "guards kept": all(bool((_surroundings(tensor) == 7.0).all()) for tensor in (q, k, v)),
    }


def _shapes(case: Case) -> list[tuple[int, ...]]:
    if case.lengths is not None:
        rows, keys = map(sum, case.lengths)
        return [(rows, case.heads, case.head_dim), *[(keys, case.heads_k, case.head_dim)] * 2]
    rows_of_heads = [(case.heads, case.rows), (case.heads_k, case.keys), (case.heads_k, case.keys)]
    return [(case.batch, heads, rows, case.head_dim) for heads, rows in rows_of_heads]


def _guarded(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A random tensor in the middle of a buffer that is 7 everywhere else."""
    count = int(np.prod(shape))
    buffer = torch.full((count + 2 * GUARD,), 7.0, dtype=dtype)
    tensor = buffer[GUARD : GUARD + count].view(shape)
    tensor.copy_(torch.randn(shape))
    return tensor.requires_grad_()


def _surroundings(tensor: torch.Tensor) -> torch.Tensor:
    count = tensor.numel() + 2 * GUARD
    buffer = tensor.detach().as_strided((count,), (1,), 0)
    return torch.cat([buffer[:GUARD], buffer[-GUARD:]])


def _bias(case: Case, dtype: torch.dtype) -> torch.Tensor | None:
    if not case.bias:
        return None
    shape = (1, 1, case.rows, case.keys) if case.bias == "broadcast" else (case.batch, case.heads, case.rows, case.keys)
    bias = torch.randn(shape, dtype=dtype)
    if case.bias == "masking":
        bias[..., ::3] = float("-inf")
        bias[:, :, 4] = float("-inf")
    return bias.requires_grad_()


def _problem(case: Case) -> Problem:
    options = {"sm_scale": case.head_dim**-0.5, **case.options}
    if case.lengths is None:
        return Problem(max_seqlen_q=case.rows, max_seqlen_k=case.keys, **options)
    starts = [torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32) for lengths in case.lengths]
    most = [max(lengths) for lengths in case.lengths]
    return Problem(
        cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], max_seqlen_q=most[0], max_seqlen_k=most[1], **options
    )


def _reference(
    inputs: list[torch.Tensor], bias: torch.Tensor | None, problem: Problem, dtype: torch.dtype, upstream: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor]:
    typed = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
    out, lse = reference(typed[0], typed[1], typed[2], typed[3] if bias is not None else None, problem)
    return [out, *torch.autograd.grad(out, typed, upstream.to(dtype))], lse


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.detach().double() - b.detach().double()).abs().max()) if a.numel() else 0.0


def main() -> None:
    # Memory that the kernels are to fill starts as NaN.
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or CASES:
        print(json.dumps({"case": name, **run(CASES[name])}), flush=True)


if __name__ == "__main__":
    main()
