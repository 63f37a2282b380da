"""Tensors of a problem, aligned so that all problems of a functional look the same to the compiler."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from codegen.kernels.attention import Problem as Attention
from codegen.kernels.reference import reference
from codegen.tuning.problems import ALIGNED, DROPOUT, SEED, lengths
from txtdb.tune.device import Task
from txtdb.tune.tunable import Problem

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
# Scores that are held at once while the sums of rows are computed for a problem that is timed.
MOST_SCORES = 1 << 26


@dataclass(frozen=True)
class Inputs:
    """Q, K, V and the gradient of the output as `attention` takes them; the bias is (batch, heads, rows, keys)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor
    bias: torch.Tensor | None


def attention_of(task: Task, problem: Problem, device: str) -> Attention:
    """The problem as the kernels' own functions take it."""
    sizes = problem.sizes
    window = (sizes.get("window_left"), sizes.get("window_right"))
    ends: list[torch.Tensor | None] = [None, None]
    longest = [sizes["rows"], sizes["keys"]]
    if sizes.get("ragged"):
        columns = list(zip(*lengths(problem), strict=True))
        ends = [torch.tensor([0, *column]).cumsum(0).to(torch.int32).to(device) for column in columns]
        longest = [max(column) for column in columns]
    return Attention(
        sm_scale=sizes["head_dim"] ** -0.5,
        window=window,
        bottom_right=bool(sizes.get("bottom_right")),
        dropout=DROPOUT if task.functional["ENABLE_DROPOUT"] else 0.0,
        seed=SEED,
        cu_seqlens_q=ends[0],
        cu_seqlens_k=ends[1],
        max_seqlen_q=longest[0],
        max_seqlen_k=longest[1],
    )


def inputs_of(task: Task, problem: Problem, device: str) -> Inputs:
    """Normal numbers, equal for equal problems on one device; without values on the device `meta`."""
    sizes = problem.sizes
    dtype = DTYPES[str(task.functional["Q_dtype"])]
    generator = None if device == "meta" else torch.Generator(device).manual_seed(problem.seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    query: tuple[int, ...]
    key: tuple[int, ...]
    if sizes.get("ragged"):
        rows, keys = (sum(column) for column in zip(*lengths(problem), strict=True))
        query, key = (rows, sizes["heads"], sizes["head_dim"]), (keys, sizes["key_heads"], sizes["head_dim"])
    else:
        query = (sizes["batch"], sizes["heads"], sizes["rows"], sizes["head_dim"])
        key = (sizes["batch"], sizes["key_heads"], sizes["keys"], sizes["head_dim"])
    bias = None
    if task.functional["BIAS_TYPE"]:
        one = normal(1, sizes["heads"], sizes["rows"], _padded(sizes["keys"]))[..., : sizes["keys"]]
        bias = one.expand(sizes["batch"], -1, -1, -1)
    return Inputs(normal(*query), normal(*key), normal(*key), normal(*query), bias)


def _padded(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


def aligned_sums(q: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
    """A row statistic of q as `row_sums` gives it, with rows that are apart by multiples of `ALIGNED`."""
    shape = (q.shape[1], q.shape[0]) if q.dim() == 3 else tuple(q.shape[:3])
    full = torch.full((*shape[:-1], _padded(shape[-1])), fill, dtype=torch.float32, device=q.device)
    return full[..., : shape[-1]]


def aligned_like(bias: torch.Tensor) -> torch.Tensor:
    """Room for the gradient of a bias, zero."""
    shape = (*bias.shape[:-1], _padded(bias.shape[-1]))
    return torch.zeros(shape, dtype=bias.dtype, device=bias.device)[..., : bias.shape[-1]]


def row_statistics(inputs: Inputs, attention: Attention) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-sum-exp and Delta (the sum of output × its gradient) of each row, in float32.

    Large problems, which are timed, are computed in parts, in float32, and without dropout: their results are not
    compared, and their time does not depend on it.
    """
    scores = inputs.q.numel() // inputs.q.shape[-1] * attention.max_seqlen_k
    if attention.varlen or scores <= MOST_SCORES:
        return _exact_statistics(inputs, attention)
    plain = Attention(attention.sm_scale, attention.window, attention.bottom_right)
    size = max(1, MOST_SCORES // (inputs.q.shape[2] * inputs.k.shape[2]))
    total = inputs.q.shape[0] * inputs.q.shape[1]
    parts = [_part(inputs, slice(first, min(first + size, total)), plain) for first in range(0, total, size)]
    lse, delta = (torch.cat(column).view(inputs.q.shape[:3]) for column in zip(*parts, strict=True))
    return lse, delta


def _part(inputs: Inputs, part: slice, plain: Attention) -> tuple[torch.Tensor, torch.Tensor]:
    """The statistics of some heads, counted through all sequences, as one batch entry. K and V have as many heads."""
    q, k, v, do = (tensor.flatten(0, 1)[part].float()[None] for tensor in (inputs.q, inputs.k, inputs.v, inputs.do))
    bias = None
    if inputs.bias is not None:
        heads = torch.arange(part.start, part.stop, device=q.device) % inputs.bias.shape[1]
        bias = inputs.bias[0, heads].float()[None]
    out, lse = reference(q, k, v, bias, plain)
    return lse[0], (out * do).sum(-1)[0]


def _exact_statistics(inputs: Inputs, attention: Attention) -> tuple[torch.Tensor, torch.Tensor]:
    q, k, v = (tensor.double() for tensor in (inputs.q, inputs.k, inputs.v))
    out, lse = reference(q, k, v, None if inputs.bias is None else inputs.bias.double(), attention)
    delta = (out * inputs.do.double()).sum(-1)
    return lse.float(), (delta.transpose(0, 1) if attention.varlen else delta).float()
