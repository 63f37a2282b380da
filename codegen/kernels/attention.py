"""Attention with gradients: a PyTorch autograd function over the kernels, and the one place that knows their arguments.

    out = attention(q, k, v, causal=True)

Which config a launch uses comes from a `choose` function (interface, functional, sizes) → config fields, and who
launches from a `launch` function, so that the same code runs on fixed configs, on a database, inside a tuner and on
images that were compiled ahead of time. Only `jit_launch` needs Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

HEAD_DIMS = (32, 64, 128, 256)
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}

# The longest sequence: places in it and halves of them are exact in float32, as which the backward masks them.
MAX_SEQLEN = 2**22
# CUDA's limit of a grid in y and z.
MAX_GRID = 2**16 - 1
# Sides of a window are cut to this, so that no sum of two leaves 32 bits.
NO_WINDOW = 2**29
# Offsets inside a tile of at most 256 rows are 32 bits wide.
MAX_ROW_STRIDE = 2**23
# Tensor descriptors need addresses and strides that are multiples of so many bytes.
COPY_BYTES = 16

Config = Mapping[str, Any]
Choose = Callable[[str, Mapping[str, Any], tuple[int, int]], Config]
Grid = Callable[[Config], tuple[int, ...]]
Args = dict[str, Any]
# (interface, grid of a config, functional, config, the kernel's other arguments by name)
Launch = Callable[[str, Grid, Mapping[str, Any], Config, Args], None]

# The operator of the backward, and the back end of it that makes dK, dV and dQ in one launch.
BACKWARD = "op_attn_bwd"
FUSED = "triton_fused"

_COPIED_STRIDES = frozenset(
    f"stride_{name}" for name in ["qz", "qh", "qm", "kz", "kh", "kn", "vz", "vh", "vn", "doz", "doh", "dom"]
)


def fixed_choice(iface: str, functional: Mapping[str, Any], sizes: tuple[int, int]) -> Config:
    """A config that fits every architecture that the kernels run on: small tiles, one stage."""
    tile = 32 if functional["BLOCK_DMODEL"] <= 128 and functional["Q_dtype"] != "fp32" else 16
    config = {"BLOCK_M": tile, "num_warps": 4, "num_stages": 1}
    if iface != "bwd_preprocess":
        config["BLOCK_N"] = tile
    if iface == "attn_fwd":
        config["PRE_LOAD_V"] = False
    return config


def jit_launch(iface: str, grid: Grid, functional: Mapping[str, Any], config: Config, arguments: Args) -> None:
    """Start a kernel, compiled for the current device when it is new."""
    # Not above: images of a pack are launched where there is no Triton.
    from codegen.kernels.jit import KERNELS, start

    start(KERNELS[iface], grid(config), compiled_values(functional, config, arguments), arguments)


def compiled_values(functional: Mapping[str, Any], config: Config, arguments: Args) -> dict[str, Any]:
    """What a kernel is compiled for. `TENSOR_COPY`, a matter of speed alone, is left out where tensors forbid it."""
    values = {**functional, **config}
    if values.get("TENSOR_COPY"):
        values["TENSOR_COPY"] = copyable(arguments)
    return values


def copyable(arguments: Args) -> bool:
    """Whether tensor descriptors can describe the matrices that a launch reads in its loops."""
    matrices = [arguments[name] for name in ("Q", "K", "V", "DOut") if name in arguments]
    per_element = matrices[0].element_size()
    bytes_of = [stride * per_element for name, stride in arguments.items() if name in _COPIED_STRIDES]
    bytes_of += [tensor.data_ptr() for tensor in matrices]
    return all(count % COPY_BYTES == 0 for count in bytes_of)


@dataclass(frozen=True)
class Problem:
    """Everything about a call that is no tensor of the computation.

    `window` is (left, right): how many keys before and behind its diagonal a query sees, None for no limit on that
    side, and no mask at all when both are None. Either may be negative. `bottom_right` puts the last query opposite
    to the last key. With `cu_seqlens` Q, K and V are (rows of all sequences, heads, head dim), else (batch, heads,
    rows, head dim). The same `seed` gives the same draw of `dropout`, also in the backward. `choose` gives the config
    of a launch, `launch` makes it. `fused_backward` makes dK, dV and dQ in one launch; None asks `choose` for the
    `backend` of `op_attn_bwd`.
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
    fused_backward: bool | None = False
    choose: Choose = fixed_choice
    launch: Launch = jit_launch

    @property
    def varlen(self) -> bool:
        """Whether all sequences are rows of one batch entry, parted by cumulative lengths."""
        return self.cu_seqlens_q is not None


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
    fused_backward: bool | None = False,
    choose: Choose = fixed_choice,
    launch: Launch = jit_launch,
) -> torch.Tensor:
    """softmax(sm_scale * Q K^T + bias) V, differentiable in q, k, v and bias. See `attention_with_lse`."""
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
        launch=launch,
    )
    return attention_with_lse(q, k, v, bias, problem)[0]


def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the log-sum-exp of each row, of which the output is differentiable in q, k, v and bias.

    q is (batch, query heads, rows, head dim), k and v are (batch, key heads, keys, head dim), where the query heads
    are a multiple of the key heads; with cumulative lengths (int32, one more than there are sequences, the last the
    number of rows) q is (all rows, query heads, head dim), and so on; rows behind the longest sequence that the problem
    names are not computed: what they are is not known. `bias` broadcasts to (batch, query heads, rows, keys), where all
    sequences are of one length. The log-sum-exp is float32, (batch, query heads, rows) or (query heads, all rows). Rows
    that see no key are zero, and their log-sum-exp is -inf. Raises ValueError for shapes and types that do not fit.
    """
    _check_matrices(q, k, v)
    _check_problem(q, k, bias, problem)
    out, lse = _Attention.apply(q, k, v, bias, problem)
    return out, lse


def _check_matrices(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if q.dtype not in DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"q, k and v must share one of the types {', '.join(map(str, DTYPES))}")
    if not (q.dim() == k.dim() == v.dim() and q.dim() in (3, 4)):
        raise ValueError("q, k and v must all have 4 dimensions, or 3 with cumulative lengths")
    if q.shape[-1] != k.shape[-1] or k.shape != v.shape or not 0 < q.shape[-1] <= HEAD_DIMS[-1]:
        raise ValueError(f"head dims must agree and be 1 to {HEAD_DIMS[-1]}; k and v must have one shape")
    if q.dim() == 4 and q.shape[0] != k.shape[0]:
        raise ValueError(f"q has {q.shape[0]} batch entries, k and v have {k.shape[0]}")
    if not heads(k) or heads(q) % heads(k):
        raise ValueError(f"{heads(q)} query heads are no multiple of {heads(k)} key heads")


def _check_problem(q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, problem: Problem) -> None:
    lengths = (problem.cu_seqlens_q, problem.cu_seqlens_k)
    given = [length for length in lengths if length is not None]
    if len(given) != (2 if q.dim() == 3 else 0):
        raise ValueError("cumulative lengths belong to q, k and v of 3 dimensions, for both queries and keys")
    if any(length.dtype != torch.int32 or length.dim() != 1 or not length.numel() for length in given):
        raise ValueError("cumulative lengths must be int32, of one dimension")
    if given and given[0].numel() != given[1].numel():
        raise ValueError("there are as many cumulative lengths for queries as for keys")
    if bias is not None and (problem.varlen or bias.dtype != q.dtype or bias.dim() > 4):
        raise ValueError("a bias has the type of q, at most 4 dimensions, and belongs to a batch of equal lengths")
    if not 0.0 <= problem.dropout < 1.0:
        raise ValueError("dropout must be at least 0 and below 1")
    if max(problem.max_seqlen_q, problem.max_seqlen_k) > MAX_SEQLEN:
        raise ValueError(f"sequences have at most {MAX_SEQLEN} rows")
    if max(heads(q), sequences(q, problem)) > MAX_GRID:
        raise ValueError(f"there are at most {MAX_GRID} query heads, and as many sequences")
    _check_longest("max_seqlen_q", q, problem.max_seqlen_q, problem)
    _check_longest("max_seqlen_k", k, problem.max_seqlen_k, problem)


def _check_longest(name: str, tensor: torch.Tensor, longest: int, problem: Problem) -> None:
    """What lies behind the longest sequence would not be computed. The lengths themselves are on the device."""
    rows, parts = (tensor.shape[0], sequences(tensor, problem)) if problem.varlen else (tensor.shape[-2], 1)
    if longest * parts < rows:
        raise ValueError(f"{name} is {longest}: too little for {rows} rows in all, of this many sequences: {parts}")


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


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose rows are contiguous and not too far apart: the given one where it is such."""
    fits = tensor.stride(-1) == 1 and tensor.stride(0 if tensor.dim() == 3 else 2) < MAX_ROW_STRIDE
    return tensor if fits else tensor.contiguous()


def row_sums(q: torch.Tensor) -> torch.Tensor:
    """An empty row statistic (Lse or Delta) for q: (batch, heads, rows), or (heads, all rows)."""
    shape = (heads(q), q.shape[0]) if q.dim() == 3 else tuple(q.shape[:3])
    return torch.empty(shape, dtype=torch.float32, device=q.device)


def strides(tensor: torch.Tensor, letters: str, name: str) -> dict[str, int]:
    """`stride_<name><letter>` for batch, head and row; a tensor of all sequences has no batch."""
    by_axis = (0, tensor.stride(1), tensor.stride(0)) if tensor.dim() == 3 else tensor.stride()[:3]
    return {f"stride_{name}{letter}": stride for letter, stride in zip(letters, by_axis, strict=True)}


def sums_strides(sums: torch.Tensor) -> dict[str, int]:
    """Batch and head strides of a row statistic."""
    return {"stride_lz": 0 if sums.dim() == 2 else sums.stride(0), "stride_lh": sums.stride(-2)}


def bias_arguments(bias: torch.Tensor | None, like: torch.Tensor, letter: str, argument: str) -> Args:
    """A bias (or its gradient) and its four strides; without one a stand-in that nothing reads."""
    names = [f"stride_{letter}{axis}" for axis in "zhmn"]
    # Images take keys that lie one after the other for granted, in a stand-in as well.
    given = (0, 0, 0, 1) if bias is None else bias.stride()
    return {argument: like if bias is None else bias, **dict(zip(names, given, strict=True))}


def length_arguments(q: torch.Tensor, problem: Problem) -> Args:
    """Cumulative lengths, which stand-ins replace that nothing reads in a batch of equal lengths."""
    nothing = torch.empty(1, dtype=torch.int32, device=q.device)
    return {
        "cu_seqlens_q": nothing if problem.cu_seqlens_q is None else problem.cu_seqlens_q.contiguous(),
        "cu_seqlens_k": nothing if problem.cu_seqlens_k is None else problem.cu_seqlens_k.contiguous(),
        "num_seqlens": sequences(q, problem) if problem.varlen else 0,
    }


def common_arguments(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, problem: Problem) -> Args:
    """The arguments that all kernels but the preprocessing share."""
    left, right = (NO_WINDOW if side is None else max(-NO_WINDOW, min(side, NO_WINDOW)) for side in problem.window)
    return {
        "Q": q, "K": k, "V": v,
        **strides(q, "zhm", "q"), **strides(k, "zhn", "k"), **strides(v, "zhn", "v"),
        **length_arguments(q, problem),
        "num_heads_q": heads(q), "num_heads_k": heads(k),
        "max_seqlen_q": problem.max_seqlen_q, "max_seqlen_k": problem.max_seqlen_k, "head_dim": q.shape[-1],
        "sm_scale": problem.sm_scale, "dropout_p": problem.dropout, "seed": problem.seed,
        "window_left": left, "window_right": right, "bottom_right": int(problem.bottom_right),
    }  # fmt: skip


def sequences(q: torch.Tensor, problem: Problem) -> int:
    """How many sequences a call has."""
    return problem.cu_seqlens_q.numel() - 1 if problem.cu_seqlens_q is not None else int(q.shape[0])


@dataclass(frozen=True)
class Call:
    """What the launches of one call share. Grids are (tiles of the rows of one sequence, heads, sequences)."""

    problem: Problem
    functional: dict[str, Any]
    query_heads: int
    key_heads: int
    sequences: int

    def tiles_q(self, config: Config) -> int:
        """Tiles of queries of the longest sequence."""
        return -(-self.problem.max_seqlen_q // int(config["BLOCK_M"]))

    def tiles_k(self, config: Config) -> int:
        """Tiles of keys of the longest sequence."""
        return -(-self.problem.max_seqlen_k // int(config["BLOCK_N"]))

    def by_query(self, config: Config) -> tuple[int, ...]:
        """One program for each tile of queries of a query head."""
        return self.tiles_q(config), self.query_heads, self.sequences

    def by_key(self, config: Config) -> tuple[int, ...]:
        """One program for each tile of keys of a key head."""
        return self.tiles_k(config), self.key_heads, self.sequences

    def by_both(self, config: Config) -> tuple[int, ...]:
        """The programs of `by_key`, then those of `by_query`, numbered through."""
        return self.tiles_k(config) * self.key_heads + self.tiles_q(config) * self.query_heads, 1, self.sequences

    def choice(self, iface: str) -> Config:
        """The config that is chosen for an interface."""
        problem = self.problem
        return problem.choose(iface, self.functional, (problem.max_seqlen_q, problem.max_seqlen_k))

    @property
    def fused(self) -> bool:
        """Whether the backward makes dK, dV and dQ in one launch."""
        given = self.problem.fused_backward
        return bool(self.choice(BACKWARD)["backend"] == FUSED) if given is None else given

    def start(self, iface: str, grid: Grid, arguments: Args) -> None:
        """Launch a kernel with the config that is chosen for it."""
        self.problem.launch(iface, grid, self.functional, self.choice(iface), arguments)


def call_of(q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, problem: Problem) -> Call:
    """The call for tensors and a problem."""
    return Call(problem, functional_of(q, bias, problem), heads(q), heads(k), sequences(q, problem))


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    problem: Problem,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Fill `out`, which is like q, and `lse` from `row_sums`. `bias` is (batch, query heads, rows, keys)."""
    call = call_of(q, k, bias, problem)
    arguments = {
        **common_arguments(q, k, v, problem), **bias_arguments(bias, q, "b", "Bias"),
        "Out": out, **strides(out, "zhm", "o"), "Lse": lse, **sums_strides(lse),
    }  # fmt: skip
    call.start("attn_fwd", call.by_query, arguments)


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
    """Fill the gradients: the row sums, then dK, dV and dQ in two launches or, fused, in one.

    `dbias` is like the bias, and zero before: it is not written where the window hides all of a tile.
    """
    call = call_of(q, k, bias, problem)
    delta = row_sums(q)
    shared = common_arguments(q, k, v, problem)
    gradient = {"DOut": do, **strides(do, "zhm", "do")}
    sums = {"Delta": delta, **sums_strides(delta)}
    names = ("cu_seqlens_q", "num_seqlens", "max_seqlen_q", "head_dim")
    rows = {"Out": out, **strides(out, "zhm", "o"), **gradient, **sums, **{name: shared[name] for name in names}}
    call.start("bwd_preprocess", call.by_query, rows)

    common = {**shared, **bias_arguments(bias, q, "b", "Bias"), **gradient, "Lse": lse, **sums}
    keys = {"DK": dk, "DV": dv, **strides(dk, "zhn", "dk"), **strides(dv, "zhn", "dv")}
    queries = {
        "DQ": dq, **strides(dq, "zhm", "dq"), **bias_arguments(dbias, q, "db", "DBias"),
        "store_dbias": int(dbias is not None),
    }  # fmt: skip
    if call.fused:
        call.start("bwd_kernel_fuse", call.by_both, {**common, **keys, **queries})
    else:
        call.start("bwd_kernel_dk_dv", call.by_key, {**common, **keys})
        call.start("bwd_kernel_dq", call.by_query, {**common, **queries})


def _wide(bias: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | None:
    return None if bias is None else bias.expand(*q.shape[:3], k.shape[2])


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
    ) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = rows_of(q), rows_of(k), rows_of(v)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = row_sums(q)
        if q.numel():
            forward(q, k, v, _wide(bias, q, k), problem, out, lse)
        ctx.save_for_backward(q, k, v, bias, out, lse)
        ctx.mark_non_differentiable(lse)
        ctx.problem = problem
        return out, lse

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, bias, out, lse = ctx.saved_tensors
        dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
        wide = _wide(bias, q, k)
        dbias = None
        if wide is not None and ctx.needs_input_grad[3]:
            dbias = torch.zeros(wide.shape, dtype=wide.dtype, device=q.device)
        if q.numel() or k.numel():
            backward(q, k, v, wide, ctx.problem, out, lse, rows_of(grads[0]), dq, dk, dv, dbias)
        return dq, dk, dv, None if dbias is None else dbias.sum_to_size(bias.shape), None
