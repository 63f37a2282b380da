"""Attention with gradients: a PyTorch autograd function over the kernels, and the one place that knows their arguments.

    out = attention(q, k, v, causal=True)

Which config a launch uses comes from a `choose` function (interface, functional, sizes) → config fields, so that the
same code runs on fixed configs, on a database, and inside a tuner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton

from codegen.kernels.backward import bwd_kernel_dk_dv, bwd_kernel_dq, bwd_kernel_fuse, bwd_preprocess
from codegen.kernels.forward import attn_fwd

HEAD_DIMS = (32, 64, 128, 256)
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
NO_WINDOW = 2**30

Config = Mapping[str, Any]
Choose = Callable[[str, Mapping[str, Any], tuple[int, int]], Config]

_OPTIONS = ("num_warps", "num_stages", "waves_per_eu")


def fixed_choice(iface: str, functional: Mapping[str, Any], sizes: tuple[int, int]) -> Config:
    """A config that fits every architecture that the kernels run on: small tiles, one stage."""
    tile = 32 if functional["BLOCK_DMODEL"] <= 128 and functional["Q_dtype"] != "fp32" else 16
    config = {"BLOCK_M": tile, "num_warps": 4, "num_stages": 1}
    if iface != "bwd_preprocess":
        config["BLOCK_N"] = tile
    if iface == "attn_fwd":
        config["PRE_LOAD_V"] = False
    return config


@dataclass(frozen=True)
class Problem:
    """Everything about a call that is no tensor of the computation.

    `window` is (left, right): how many keys before and behind its diagonal a query sees; None for no limit on that
    side, and no mask at all when both are None. `bottom_right` puts the last query opposite to the last key. With
    `cu_seqlens` Q, K and V are (rows of all sequences, heads, head dim); else (batch, heads, rows, head dim).
    `seed` and `dropout` give the draw of dropout; the same seed gives the same draw in the backward.
    """

    sm_scale: float
    window: tuple[int | None, int | None] = (None, None)
    bottom_right: bool = False
    dropout: float = 0.0
    seed: int = 0
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    max_seqlen_q: int = 0
    max_seqlen_k: int = 0
    fused_backward: bool = False
    choose: Choose = fixed_choice


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    bias: torch.Tensor | None = None,
    sm_scale: float | None = None,
    bottom_right: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    max_seqlen_q: int = 0,
    max_seqlen_k: int = 0,
    fused_backward: bool = False,
    choose: Choose = fixed_choice,
) -> torch.Tensor:
    """softmax(sm_scale * Q K^T + bias) V, differentiable in q, k, v and bias.

    Shapes: q (batch, query heads, rows, head dim), k and v (batch, key heads, keys, head dim), where the query heads
    are a multiple of the key heads; with cumulative lengths (int32, one more than there are sequences) q is (all rows,
    query heads, head dim), and so on. bias broadcasts to (batch, query heads, rows, keys). Rows that see no key are
    zero. Raises ValueError for shapes and types that do not fit.
    """
    default = (None, 0) if causal else (None, None)
    problem = Problem(
        sm_scale=q.shape[-1] ** -0.5 if sm_scale is None else sm_scale,
        window=default if window is None else window,
        bottom_right=bottom_right,
        dropout=dropout,
        seed=seed,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q if cu_seqlens_q is not None else q.shape[-2],
        max_seqlen_k=max_seqlen_k if cu_seqlens_k is not None else k.shape[-2],
        fused_backward=fused_backward,
        choose=choose,
    )
    _check(q, k, v, bias, problem)
    out: torch.Tensor = _Attention.apply(q, k, v, bias, problem)
    return out


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem) -> None:
    varlen = problem.cu_seqlens_q is not None
    if varlen != (problem.cu_seqlens_k is not None):
        raise ValueError("cumulative lengths are needed for both queries and keys")
    if q.dtype not in DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"q, k and v must share one of the types {', '.join(map(str, DTYPES))}")
    dims = 3 if varlen else 4
    if not q.dim() == k.dim() == v.dim() == dims:
        raise ValueError(f"q, k and v must have {dims} dimensions")
    if q.shape[-1] != k.shape[-1] or k.shape != v.shape or q.shape[-1] > HEAD_DIMS[-1]:
        raise ValueError(f"head dims must agree and be at most {HEAD_DIMS[-1]}; k and v must have one shape")
    if heads(q) % heads(k):
        raise ValueError(f"{heads(q)} query heads are no multiple of {heads(k)} key heads")
    if varlen and bias is not None:
        raise ValueError("a bias needs a batch of equal lengths")
    if not 0.0 <= problem.dropout < 1.0:
        raise ValueError("dropout must be at least 0 and below 1")


def heads(tensor: torch.Tensor) -> int:
    """The number of heads of q, k or v."""
    return int(tensor.shape[1])


def functional_of(q: torch.Tensor, bias: torch.Tensor | None, problem: Problem) -> dict[str, Any]:
    """The key values of a call, as the schema of `attn_fwd` names them."""
    head_dim = q.shape[-1]
    block = next(size for size in HEAD_DIMS if size >= head_dim)
    return {
        "Q_dtype": DTYPES[q.dtype],
        "CAUSAL_TYPE": 0 if problem.window == (None, None) else 3,
        "BLOCK_DMODEL": block,
        "ENABLE_DROPOUT": problem.dropout > 0.0,
        "PADDED_HEAD": block != head_dim,
        "BIAS_TYPE": 0 if bias is None else 1,
    }


def launch(
    kernel: Any,
    iface: str,
    grid: Callable[[Config], tuple[int, ...]],
    functional: Mapping[str, Any],
    problem: Problem,
    args: dict[str, Any],
) -> None:
    """Start a kernel with the config that the problem's `choose` gives."""
    config = problem.choose(iface, functional, (problem.max_seqlen_q, problem.max_seqlen_k))
    constants = {name: value for name, value in {**functional, **config}.items() if name in kernel.arg_names}
    options = {name: config[name] for name in _OPTIONS if config.get(name)}
    kernel[grid(config)](**args, **constants, **options)


def strides(tensor: torch.Tensor, letters: str, name: str) -> dict[str, int]:
    """`stride_<name><letter>` for batch, head and row; a tensor of all sequences has no batch."""
    by_axis = (0, tensor.stride(1), tensor.stride(0)) if tensor.dim() == 3 else tensor.stride()[:3]
    return {f"stride_{name}{letter}": stride for letter, stride in zip(letters, by_axis, strict=True)}


def bias_arguments(bias: torch.Tensor | None, like: torch.Tensor, letter: str, argument: str) -> dict[str, Any]:
    """A bias (or its gradient) and its four strides; without one a stand-in that nothing reads."""
    names = [f"stride_{letter}{axis}" for axis in "zhmn"]
    given = (0, 0, 0, 0) if bias is None else bias.stride()
    return {argument: like if bias is None else bias, **dict(zip(names, given, strict=True))}


def common_arguments(q: torch.Tensor, k: torch.Tensor, problem: Problem) -> dict[str, Any]:
    """The arguments that all kernels but the preprocessing share."""
    left, right = (NO_WINDOW if side is None else side for side in problem.window)
    varlen = problem.cu_seqlens_q is not None
    return {
        "cu_seqlens_q": problem.cu_seqlens_q if varlen else q,
        "cu_seqlens_k": problem.cu_seqlens_k if varlen else k,
        "num_seqlens": problem.cu_seqlens_q.numel() - 1 if problem.cu_seqlens_q is not None else 0,
        "num_heads_q": heads(q),
        "num_heads_k": heads(k),
        "max_seqlen_q": problem.max_seqlen_q,
        "max_seqlen_k": problem.max_seqlen_k,
        "head_dim": q.shape[-1],
        "sm_scale": problem.sm_scale,
        "dropout_p": problem.dropout,
        "seed": problem.seed,
        "window_left": left,
        "window_right": right,
        "bottom_right": int(problem.bottom_right),
    }


def sequences(q: torch.Tensor, problem: Problem) -> int:
    """How many sequences a call has."""
    return problem.cu_seqlens_q.numel() - 1 if problem.cu_seqlens_q is not None else int(q.shape[0])


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    problem: Problem,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Launch attn_fwd. `lse` is float32, (batch, heads, rows), or (heads, all rows) for sequences in one batch."""
    functional = functional_of(q, bias, problem)
    args = {
        "Q": q, "K": k, "V": v, "Out": out, "Lse": lse,
        **strides(q, "zhm", "q"), **strides(k, "zhn", "k"), **strides(v, "zhn", "v"), **strides(out, "zhm", "o"),
        **lse_strides(lse), **bias_arguments(bias, q, "b", "Bias"), **common_arguments(q, k, problem),
    }  # fmt: skip
    count = sequences(q, problem)
    launch(
        attn_fwd,
        "attn_fwd",
        lambda config: (triton.cdiv(problem.max_seqlen_q, config["BLOCK_M"]), heads(q), count),
        functional,
        problem,
        args,
    )


def lse_strides(lse: torch.Tensor) -> dict[str, int]:
    """Batch and head strides of a row statistic."""
    return {"stride_lz": 0 if lse.dim() == 2 else lse.stride(0), "stride_lh": lse.stride(-2)}


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
    ) -> torch.Tensor:
        q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        rows = (heads(q), q.shape[0]) if q.dim() == 3 else tuple(q.shape[:3])
        lse = torch.empty(rows, dtype=torch.float32, device=q.device)
        wide = None if bias is None else bias.expand(*q.shape[:3], k.shape[2])
        if q.numel():
            forward(q, k, v, wide, problem, out, lse)
        ctx.save_for_backward(q, k, v, bias, out, lse)
        ctx.problem = problem
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, bias, out, lse = ctx.saved_tensors
        do = grads[0] if grads[0].stride(-1) == 1 else grads[0].contiguous()
        dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
        wide = None if bias is None else bias.expand(*q.shape[:3], k.shape[2])
        dbias = torch.zeros_like(wide, memory_format=torch.contiguous_format) if ctx.needs_input_grad[3] else None
        if q.numel() or k.numel():
            backward(q, k, v, wide, ctx.problem, out, lse, do, dq, dk, dv, dbias)
        return dq, dk, dv, None if dbias is None else dbias.sum_to_size(bias.shape), None


def backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    problem: Problem,
    out: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    dq: torch.Tensor,
    dk: torch.Tensor,
    dv: torch.Tensor,
    dbias: torch.Tensor | None,
) -> None:
    """Launch the backward kernels: the row sums, then dK, dV and dQ in two launches or, fused, in one."""
    functional = functional_of(q, bias, problem)
    delta = torch.empty_like(lse)
    count = sequences(q, problem)
    shared = common_arguments(q, k, problem)
    preprocess(functional, problem, out, do, delta, shared, count)
    common = {
        "Q": q, "K": k, "V": v, "DOut": do, "Lse": lse, "Delta": delta,
        **strides(q, "zhm", "q"), **strides(k, "zhn", "k"), **strides(v, "zhn", "v"), **strides(do, "zhm", "do"),
        **lse_strides(lse), **bias_arguments(bias, q, "b", "Bias"), **shared,
    }  # fmt: skip
    keys = {"DK": dk, "DV": dv, **strides(dk, "zhn", "dk"), **strides(dv, "zhn", "dv")}
    queries = {
        "DQ": dq, **strides(dq, "zhm", "dq"), **bias_arguments(dbias, q, "db", "DBias"),
        "store_dbias": int(dbias is not None),
    }  # fmt: skip

    def tiles_k(config: Config) -> int:
        return int(triton.cdiv(problem.max_seqlen_k, config["BLOCK_N"]))

    def tiles_q(config: Config) -> int:
        return int(triton.cdiv(problem.max_seqlen_q, config["BLOCK_M"]))

    if problem.fused_backward:
        launch(
            bwd_kernel_fuse, "bwd_kernel_fuse",
            lambda c: (tiles_k(c) * heads(k) + tiles_q(c) * heads(q), 1, count),
            functional, problem, {**common, **keys, **queries},
        )  # fmt: skip
        return
    launch(
        bwd_kernel_dk_dv,
        "bwd_kernel_dk_dv",
        lambda c: (tiles_k(c), heads(k), count),
        functional,
        problem,
        {**common, **keys},
    )
    launch(
        bwd_kernel_dq,
        "bwd_kernel_dq",
        lambda c: (tiles_q(c), heads(q), count),
        functional,
        problem,
        {**common, **queries},
    )


def preprocess(
    functional: Mapping[str, Any],
    problem: Problem,
    out: torch.Tensor,
    do: torch.Tensor,
    delta: torch.Tensor,
    shared: Mapping[str, Any],
    count: int,
) -> None:
    """Launch bwd_preprocess: delta = row sums of O x dO."""
    names = ("cu_seqlens_q", "num_seqlens", "max_seqlen_q", "head_dim")
    args = {
        "Out": out, "DOut": do, "Delta": delta, **strides(out, "zhm", "o"), **strides(do, "zhm", "do"),
        **lse_strides(delta), **{name: shared[name] for name in names},
    }  # fmt: skip
    launch(
        bwd_preprocess,
        "bwd_preprocess",
        lambda config: (triton.cdiv(problem.max_seqlen_q, config["BLOCK_M"]), heads(out), count),
        functional,
        problem,
        args,
    )
