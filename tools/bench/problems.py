"""Attention problems that programs of this folder check, and how a result is held against float64."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from codegen.kernels.attention import Problem
from codegen.kernels.reference import by_pytorch, reference

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
# A result is wrong when its error (root mean square, relative) is more than so many times PyTorch's own.
MULTIPLE = 3.0
# What the log-sum-exp may be off by: it is computed in float32, from products of inputs in the type.
LSE = {"fp16": 1e-4, "bf16": 1e-4, "fp32": 1e-5}
# What both may be off by where PyTorch's result is exact, and what is right where it is not a number.
LEAST = 1e-6
PRECISION = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}
# Truths below this are what float64 leaves of zero.
ZERO = 1e-12
# Two results in 16 bits are this close to each other.
LARGEST_DIFFERENCE = 2e-2

CAUSAL = (None, 0)
UNLIKE = ((1000, 1300), (0, 512), (2049, 0), (1, 777), (1535, 1535))


@dataclass(frozen=True)
class Case:
    """A problem to check. `lengths` are (rows, keys) of each sequence of a batch of unlike ones."""

    dtype: str = "bf16"
    batch: int = 2
    heads: int = 4
    key_heads: int = 4
    rows: int = 1024
    keys: int = 1024
    head_dim: int = 128
    window: tuple[int | None, int | None] = (None, None)
    bottom_right: bool = False
    bias: bool = False
    dropout: float = 0.0
    sm_scale: float | None = None
    lengths: tuple[tuple[int, int], ...] = ()
    copy: bool = False
    fused: bool = False

    def divided(self, by: int) -> Case:
        """The same with shorter sequences."""
        lengths = tuple((-(-rows // by), -(-keys // by)) for rows, keys in self.lengths)
        return replace(self, rows=-(-self.rows // by), keys=-(-self.keys // by), lengths=lengths)

    @property
    def name(self) -> str:
        """What differs from the default."""
        default = asdict(Case())
        return " ".join(f"{key}={value}" for key, value in asdict(self).items() if value != default[key]) or "default"


def problem_of(case: Case, device: str, **hooks: Any) -> Problem:
    """What a case asks for. `hooks` are further fields of the problem."""
    given: dict[str, Any] = {"max_seqlen_q": case.rows, "max_seqlen_k": case.keys}
    if case.lengths:
        for name, lengths in zip(("q", "k"), zip(*case.lengths, strict=True), strict=True):
            ends = torch.tensor([0, *lengths]).cumsum(0)
            given[f"cu_seqlens_{name}"] = ends.to(torch.int32).to(device)
            given[f"max_seqlen_{name}"] = max(lengths)
    return Problem(
        sm_scale=case.head_dim**-0.5 if case.sm_scale is None else case.sm_scale,
        window=case.window,
        bottom_right=case.bottom_right,
        dropout=case.dropout,
        seed=1 << 40 | 12345,
        **{"fused_backward": case.fused, **given, **hooks},
    )


def inputs_of(case: Case, device: str) -> tuple[list[torch.Tensor], torch.Tensor | None, torch.Tensor]:
    """Q, K and V, the bias, and a gradient of the output."""
    torch.manual_seed(zlib.crc32(case.name.encode()))
    if case.lengths:
        rows, keys = (sum(lengths) for lengths in zip(*case.lengths, strict=True))
        shapes = [(rows, case.heads, case.head_dim), *[(keys, case.key_heads, case.head_dim)] * 2]
    else:
        shapes = [(case.batch, case.heads, case.rows, case.head_dim)]
        shapes += [(case.batch, case.key_heads, case.keys, case.head_dim)] * 2
    matrices = [torch.randn(shape, device=device, dtype=DTYPES[case.dtype]) for shape in shapes]
    bias = torch.randn(1, case.heads, case.rows, case.keys, device=device, dtype=DTYPES[case.dtype])
    return matrices, bias if case.bias else None, torch.randn(shapes[0], device=device, dtype=DTYPES[case.dtype])


Function = Callable[..., torch.Tensor]
Inputs = tuple[list[torch.Tensor], torch.Tensor | None, torch.Tensor]
NAMES = ("out", "dq", "dk", "dv", "dbias")


def results(
    function: Function,
    matrices: list[torch.Tensor],
    bias: torch.Tensor | None,
    do: torch.Tensor,
    problem: Problem,
    backward: bool = True,
) -> list[torch.Tensor]:
    """Output and, with `backward`, gradients of a way to compute attention."""
    leaves = [tensor.detach().requires_grad_(backward) for tensor in (*matrices, *([] if bias is None else [bias]))]
    out = function(*leaves[:3], leaves[3] if bias is not None else None, problem)
    return [out, *torch.autograd.grad(out, leaves, do.to(out.dtype))] if backward else [out]


def by_definition(*given: Any) -> torch.Tensor:
    """The output of `reference`, without the log-sum-exp."""
    return reference(*given)[0]


def exact_results(inputs: Inputs, problem: Problem, backward: bool = True) -> list[torch.Tensor]:
    """In float64."""
    matrices, bias, do = inputs
    wide = [tensor.double() for tensor in matrices]
    return results(by_definition, wide, None if bias is None else bias.double(), do.double(), problem, backward)


def exact_sums(inputs: Inputs, problem: Problem) -> torch.Tensor:
    """The log-sum-exp in float64."""
    matrices, bias, _ = inputs
    wide = [tensor.double() for tensor in matrices]
    return reference(*wide, None if bias is None else bias.double(), problem)[1]


def own_results(inputs: Inputs, problem: Problem, backward: bool = True) -> list[torch.Tensor]:
    """By PyTorch's own attention in the inputs' type; dropout, which that draws in another way, by definition."""
    return results(by_definition if problem.dropout else by_pytorch, *inputs, problem, backward)


def errors_of(
    ours: list[torch.Tensor], theirs: list[torch.Tensor], exact: list[torch.Tensor]
) -> dict[str, list[float]]:
    """Output or gradient → our error and PyTorch's."""
    all_of = zip(NAMES[: len(exact)], ours, theirs, exact, strict=True)
    return {name: [error(mine, truth), error(their, truth)] for name, mine, their, truth in all_of}


def limit(their: float, dtype: str) -> float:
    """The largest error that is right. Where PyTorch's own result is not a number, the type's precision decides."""
    return PRECISION[dtype] if math.isnan(their) else MULTIPLE * their + LEAST


def error(value: torch.Tensor, truth: torch.Tensor) -> float:
    """Root mean square of the error, relative to that of the truth; NaN stays NaN.

    Gradients that are zero, as that of a query with one key, are compared with 1, the size of the inputs.
    """
    if not truth.numel():
        return 0.0
    value, truth = value.detach().double(), truth.detach()
    size, ones = float(truth.norm()), truth.numel() ** 0.5
    return float((value - truth).norm()) / (size if size > ZERO * ones else ones)


def write_json(path: Path, data: Any) -> None:
    """Write results as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
