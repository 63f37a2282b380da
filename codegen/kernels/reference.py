"""Attention in plain PyTorch, step by step as it is defined: what the kernels are compared with.

It computes in the type of its inputs, so that one function gives both the exact answer (float64) and the error that a
low precision makes by itself. Time and memory grow with rows x keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention

from codegen.kernels.attention import Problem

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp, as `attention_with_lse` returns them, in the type of q; differentiable."""
    if not problem.varlen:
        numbers = torch.arange(q.shape[0] * q.shape[1], device=q.device).reshape(q.shape[:2])
        return _batch(q, k, v, bias, problem, numbers)
    parts = []
    for z, one in enumerate(_sequences(q, k, v, problem)):
        numbers = z * q.shape[1] + torch.arange(q.shape[1], device=q.device)[None]
        out, lse = _batch(*one, None, problem, numbers)
        parts.append((out[0].transpose(0, 1), lse[0]))
    return torch.cat([out for out, _ in parts]), torch.cat([lse for _, lse in parts], 1)


def by_pytorch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
) -> torch.Tensor:
    """The output by PyTorch's own attention function, in the type of q; differentiable. Knows no seeded dropout."""
    if not problem.varlen:
        return _batch_by_pytorch(q, k, v, bias, problem)
    outs = [_batch_by_pytorch(*one, None, problem) for one in _sequences(q, k, v, problem)]
    return torch.cat([out[0].transpose(0, 1) for out in outs])


def _batch_by_pytorch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
    seen = visible(q.shape[2], k.shape[2], problem, q.device)
    # Rows that see no key are left to `where`: what the function makes of them differs between its back ends.
    some = seen.any(-1, keepdim=True)
    mask = torch.where(seen | ~some, 0.0, float("-inf")).to(q.dtype)
    if bias is not None:
        mask = mask + bias
    scale = problem.sm_scale
    # Some back ends take no negative scale.
    out = scaled_dot_product_attention(q if scale >= 0 else -q, k, v, attn_mask=mask, scale=abs(scale))
    return torch.where(some, out, 0.0)


def _sequences(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, problem: Problem
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Each sequence as a batch of one."""
    assert problem.cu_seqlens_q is not None and problem.cu_seqlens_k is not None
    bounds_q, bounds_k = problem.cu_seqlens_q.tolist(), problem.cu_seqlens_k.tolist()
    for z in range(len(bounds_q) - 1):
        rows, keys = slice(*bounds_q[z : z + 2]), slice(*bounds_k[z : z + 2])
        own_q, own_k, own_v = (part.transpose(0, 1)[None] for part in (q[rows], k[keys], v[keys]))
        yield own_q, own_k, own_v


def _batch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    problem: Problem,
    numbers: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`numbers` are those of the heads in the draw of dropout, (batch, query heads)."""
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
    scores = q @ k.transpose(-1, -2) * problem.sm_scale
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~visible(q.shape[2], k.shape[2], problem, q.device), float("-inf"))
    lse = torch.logsumexp(scores, -1) if k.shape[2] else scores.new_full(scores.shape[:-1], float("-inf"))
    # A row that sees no key has the weights exp(-inf - 0) = 0.
    weights = torch.exp(scores - torch.where(lse == float("-inf"), 0.0, lse).detach()[..., None])
    total = weights.sum(-1, keepdim=True)
    weights = weights / torch.where(total > 0, total, 1.0)
    if problem.dropout:
        keep = kept(numbers, q.shape[2], k.shape[2], problem)
        weights = weights * keep / (1.0 - problem.dropout)
    return weights.to(v.dtype) @ v, lse


def visible(rows: int, keys: int, problem: Problem, device: torch.device) -> torch.Tensor:
    """Which keys each row sees through the window, (rows, keys)."""
    left, right = problem.window
    diagonal = keys - rows if problem.bottom_right else 0
    distance = torch.arange(keys, device=device) - torch.arange(rows, device=device)[:, None] - diagonal
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left is not None:
        seen &= -distance <= left
    if right is not None:
        seen &= distance <= right
    return seen


def kept(numbers: torch.Tensor, rows: int, keys: int, problem: Problem) -> torch.Tensor:
    """Which weights dropout keeps, (*numbers, rows, keys): the first word of Philox4x32-10 at (key, row, head, 0).

    (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".)
    """
    device = numbers.device
    row, key = torch.arange(rows, device=device)[:, None], torch.arange(keys, device=device)
    shape = (*numbers.shape, rows, keys)
    words = [part.expand(shape) for part in (key, row, numbers[..., None, None], torch.zeros_like(key))]
    secrets = [problem.seed & _WORD, problem.seed >> 32 & _WORD]
    for _ in range(_ROUNDS):
        high, low = zip(*(_product(words[2 * i], _MULTIPLIERS[i]) for i in (0, 1)), strict=True)
        words = [high[1] ^ words[1] ^ secrets[0], low[1], high[0] ^ words[3] ^ secrets[1], low[0]]
        secrets = [secret + step & _WORD for secret, step in zip(secrets, _KEY_STEPS, strict=True)]
    signed = torch.where(words[0] > _WORD >> 1, words[0] - _WORD - 1, words[0])
    uniform = torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10
    return uniform >= problem.dropout


def _product(word: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Upper and lower word of a 32-bit product, without leaving the range of int64."""
    low = (word & 0xFFFF) * factor
    high = (word >> 16) * factor + (low >> 16)
    return high >> 16, (high & 0xFFFF) << 16 | low & 0xFFFF
