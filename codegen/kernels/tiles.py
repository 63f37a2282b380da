"""What the attention kernels share: the place of a sequence, the visible range of a tile, scores and dropout."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def sequence(z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k):
    """First row and length of sequence z in Q and in K. Without cumulative lengths all sequences are full."""
    start_q = 0
    start_k = 0
    seqlen_q = max_seqlen_q
    seqlen_k = max_seqlen_k
    if num_seqlens > 0:
        start_q = tl.load(cu_seqlens_q + z)
        start_k = tl.load(cu_seqlens_k + z)
        seqlen_q = tl.load(cu_seqlens_q + z + 1) - start_q
        seqlen_k = tl.load(cu_seqlens_k + z + 1) - start_k
    return start_q, start_k, seqlen_q, seqlen_k


@triton.jit
def diagonal(seqlen_q, seqlen_k, bottom_right):
    """The key that stands opposite to query 0: 0, or aligned so that the last ones are opposite."""
    return tl.where(bottom_right != 0, seqlen_k - seqlen_q, 0)


@triton.jit
def load_tile(
    base, rows, stride, columns, limit, head_dim, BOUNDED: tl.constexpr, PADDED_HEAD: tl.constexpr
):  # fmt: skip
    """A tile of rows. With BOUNDED rows from `limit` on, and in a padded head columns from `head_dim` on, are zero."""
    places = base + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    if BOUNDED:
        if PADDED_HEAD:
            return tl.load(places, mask=(rows < limit)[:, None] & (columns < head_dim)[None, :], other=0.0)
        return tl.load(places, mask=(rows < limit)[:, None], other=0.0)
    if PADDED_HEAD:
        return tl.load(places, mask=(columns < head_dim)[None, :], other=0.0)
    return tl.load(places)


@triton.jit
def store_tile(base, rows, stride, columns, limit, head_dim, tile, PADDED_HEAD: tl.constexpr):
    """Store what `load_tile` would load."""
    mask = (rows < limit)[:, None]
    if PADDED_HEAD:
        mask = mask & (columns < head_dim)[None, :]
    tl.store(base + rows.to(tl.int64)[:, None] * stride + columns[None, :], tile, mask=mask)


@triton.jit
def matmul(a, b):
    """a @ b in float32; float32 inputs are not rounded to a shorter mantissa."""
    if a.dtype == tl.float32:
        return tl.dot(a, b, input_precision="ieee")
    return tl.dot(a, b)


@triton.jit
def in_window(rows, columns, diagonal_k, window_left, window_right):
    """Which keys (columns) each query (row) sees: window_left keys before its diagonal to window_right behind it."""
    distance = columns - rows - diagonal_k
    return (distance <= window_right) & (-distance <= window_left)


@triton.jit
def kept(seed, head, rows, columns, dropout_p):
    """Which scores dropout keeps: a counter-based draw from (seed, head, row, column), the same in every kernel."""
    zero = rows * 0 + columns * 0
    draw, _, _, _ = tl.philox(
        seed,
        (zero + columns).to(tl.uint32),
        (zero + rows).to(tl.uint32),
        (zero + head).to(tl.uint32),
        zero.to(tl.uint32),
    )
    return tl.uint_to_uniform_float(draw) >= dropout_p


@triton.jit
def bias_tile(bias, rows, columns, stride_row, stride_column, seqlen_q, seqlen_k):
    """A tile of the bias matrix in float32, zero outside."""
    mask = (rows < seqlen_q) & (columns < seqlen_k)
    places = bias + rows.to(tl.int64) * stride_row + columns.to(tl.int64) * stride_column
    return tl.load(places, mask=mask, other=0.0).to(tl.float32)
