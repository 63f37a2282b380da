"""Memory that shows what kernels do to it: results that are NaN before, guard zones around them, inputs that stay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from codegen.kernels.attention import Problem, backward, forward, row_sums

GUARD = 64
MARK = 7.0
NAN = float("nan")


class Guarded:
    """A tensor in the middle of a buffer that is MARK everywhere else, gaps between its rows included.

    `layout`: "heads" (contiguous), "rows" (the heads of a row side by side), "gaps" (rows further apart than needed).
    """

    def __init__(
        self, shape: Sequence[int], dtype: torch.dtype, layout: str = "heads", fill: float = NAN, device: str = "cpu"
    ) -> None:
        self.shape, self.strides = tuple(shape), _strides(shape, layout)
        reach = sum((size - 1) * stride for size, stride in zip(shape, self.strides, strict=True)) + 1
        size = 2 * GUARD + (reach if math.prod(shape) else 0)
        self.buffer = torch.full((size,), MARK, dtype=dtype, device=device)
        self.tensor.fill_(fill)

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor itself."""
        return self.buffer.as_strided(self.shape, self.strides, GUARD)

    @property
    def intact(self) -> bool:
        """Whether everything around the tensor is as it was."""
        around = self.buffer.clone()
        around.as_strided(self.shape, self.strides, GUARD).fill_(MARK)
        return bool((around == MARK).all())


def _strides(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    if len(shape) == 4 and layout == "rows":
        _, heads, rows, width = shape
        return rows * heads * width, width, heads * width, 1
    steps = [1]
    for place, size in enumerate(reversed(shape[1:])):
        steps.append(steps[-1] * size + (24 if layout == "gaps" and not place else 0))
    return tuple(reversed(steps))


def guarded_like(tensor: torch.Tensor, layout: str = "heads") -> Guarded:
    """A guarded copy."""
    guarded = Guarded(tensor.shape, tensor.dtype, layout, 0.0, tensor.device.type)
    guarded.tensor.copy_(tensor)
    return guarded


Answer = tuple[list[torch.Tensor], torch.Tensor, bool]


def by_launches(
    matrices: Sequence[torch.Tensor],
    bias: torch.Tensor | None,
    upstream: torch.Tensor,
    problem: Problem,
    layout: str = "heads",
) -> Answer:
    """Output and gradients, the log-sum-exp, and whether what lies around them is as it was.

    By the launches themselves. What they fill is NaN before, but for the gradient of the bias, which is zero. A bias
    that broadcasts is read and written as a whole one; its gradient is summed.
    """
    q, k, v = matrices
    device = q.device.type
    whole = None if bias is None else bias.expand(*q.shape[:3], k.shape[2])
    out, dq, dk, dv = (Guarded(tensor.shape, q.dtype, layout, NAN, device) for tensor in (q, q, k, v))
    dbias = Guarded(whole.shape, q.dtype, "heads", 0.0, device) if whole is not None else None
    lse = Guarded(row_sums(q).shape, torch.float32, "heads", NAN, device)
    forward(q, k, v, whole, problem, out.tensor, lse.tensor)
    gradients = [dq.tensor, dk.tensor, dv.tensor, None if dbias is None else dbias.tensor]
    backward(q, k, v, whole, problem, out.tensor, lse.tensor, upstream, *gradients)
    filled = [out, dq, dk, dv, *([] if dbias is None else [dbias])]
    results = [out.tensor, dq.tensor, dk.tensor, dv.tensor]
    if bias is not None and dbias is not None:
        results.append(dbias.tensor.float().sum_to_size(bias.shape).to(bias.dtype))
    return results, lse.tensor, all(item.intact for item in (*filled, lse))


def lse_error(value: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest error, absolute for small log-sum-exps and relative for others; NaN where only one is infinite."""
    if not torch.equal(value.isinf(), truth.isinf()):
        return NAN
    finite = ~truth.isinf()
    off = (value[finite].double() - truth[finite]).abs() / truth[finite].abs().clamp_min(1.0)
    return float(off.max()) if off.numel() else 0.0
