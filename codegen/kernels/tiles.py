"""What the attention kernels share: the place of a sequence, tiles and how they are fetched, the mask, dropout, bias.

Groups of values that travel together are tuples:
window: (diagonal, keys before it, number of keys that a query sees), drawing: (seed, number of the head, dropout_p),
bias: (pointer, stride of rows, stride of keys).
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# Rows that a group of heads reads: with head dim 128 and 16 bits 32 MB of K and V.
GROUP_ROWS = tl.constexpr(65536)
# How far apart `inside` puts neighbours: 2 to the power of half of it is infinite. A power of two, so that it is exact.
UNIT = tl.constexpr(1024.0)

# Arguments whose values say nothing about addresses: one image serves them all.
SCALARS = (
    "num_seqlens",
    "max_seqlen_q",
    "max_seqlen_k",
    "sm_scale",
    "dropout_p",
    "seed",
    "window_left",
    "window_right",
    "bottom_right",
    "store_dbias",
)


@triton.jit
def sequence(z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k):
    """First row and length of sequence z in Q and in K. Without cumulative lengths all sequences are full."""
    varlen = num_seqlens > 0
    start_q = tl.load(cu_seqlens_q + z, mask=varlen, other=0)
    start_k = tl.load(cu_seqlens_k + z, mask=varlen, other=0)
    seqlen_q = tl.load(cu_seqlens_q + z + 1, mask=varlen, other=max_seqlen_q) - start_q
    seqlen_k = tl.load(cu_seqlens_k + z + 1, mask=varlen, other=max_seqlen_k) - start_k
    return start_q, start_k, seqlen_q, seqlen_k


@triton.jit
def tile_and_head(rows, CAUSAL_TYPE: tl.constexpr):
    """Place of a program in a grid of (tiles, heads). `rows` are those of the matrix that all tiles of a head read.

    Where tiles are unlike in work, a group of heads goes in order of the tiles, so that the long ones of all start
    first and the short ones fill the end. What a group reads stays in the L2 cache.
    """
    tile = tl.program_id(0)
    head = tl.program_id(1)
    if CAUSAL_TYPE != 0:
        tiles = tl.num_programs(0)
        together = tl.maximum(GROUP_ROWS // tl.maximum(rows, 1), 1)
        number = head * tiles + tile
        first = number // (together * tiles) * together
        size = tl.minimum(together, tl.num_programs(1) - first)
        within = number - first * tiles
        tile = within // size
        head = first + within % size
    return tile, head


@triton.jit
def place(base, batch, stride_batch, head, stride_head, row, stride_row):
    """The first row of a head of a sequence. Whole tensors may have more than 2^31 elements, hence 64 bits."""
    return base + batch.to(tl.int64) * stride_batch + head.to(tl.int64) * stride_head + row.to(tl.int64) * stride_row


@triton.jit
def tile_source(
    base, rows, stride, head_dim, ROWS: tl.constexpr, BLOCK_DMODEL: tl.constexpr, TENSOR_COPY: tl.constexpr
):  # fmt: skip
    """What `load_tile` fetches tiles of ROWS rows of a matrix by: a tensor descriptor, or offsets inside a tile.

    32 bits hold the offsets: callers keep the stride of rows below 2^23 elements. Descriptors need `base` and the
    stride of rows at multiples of 16 bytes.
    """
    if TENSOR_COPY:
        return tl.make_tensor_descriptor(base, [rows, head_dim], [stride, 1], [ROWS, BLOCK_DMODEL])
    else:  # noqa: RET505 the compiler follows only the branch that a constant selects, but all that stands behind it
        return tl.arange(0, ROWS)[:, None] * stride + tl.arange(0, BLOCK_DMODEL)[None, :]


@triton.jit
def heads_source(
    base, heads, stride_head, rows, stride, head_dim, ROWS: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
    TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """Like `tile_source`, for tiles of several heads; a descriptor is of all, so that a loop over them makes none."""
    if TENSOR_COPY:
        return tl.make_tensor_descriptor(
            base, [heads, rows, head_dim], [stride_head, stride, 1], [1, ROWS, BLOCK_DMODEL]
        )
    else:  # noqa: RET505 as above
        return tile_source(base, rows, stride, head_dim, ROWS, BLOCK_DMODEL, False)


@triton.jit
def load_tile(
    source, base, first, rows, stride, head_dim, BOUNDED: tl.constexpr, PADDED_HEAD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_DMODEL: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """Rows from `first` on. With BOUNDED rows from `rows` on, and in a padded head columns from head_dim on, are zero.

    Without BOUNDED the tile must lie inside.
    """
    if TENSOR_COPY:
        tile = source.load([first, 0])
    else:
        places = base + tl.cast(first, tl.int64) * stride + source
        rows_inside = (first + tl.arange(0, ROWS) < rows)[:, None]
        columns_inside = (tl.arange(0, BLOCK_DMODEL) < head_dim)[None, :]
        if BOUNDED and PADDED_HEAD:
            tile = tl.load(places, mask=rows_inside & columns_inside, other=0.0)
        elif BOUNDED:
            tile = tl.load(places, mask=rows_inside, other=0.0)
        elif PADDED_HEAD:
            tile = tl.load(places, mask=columns_inside, other=0.0)
        else:
            tile = tl.load(places)
    return tile


@triton.jit
def load_rows(
    base, first, rows, stride, head_dim, PADDED_HEAD: tl.constexpr, ROWS: tl.constexpr, BLOCK_DMODEL: tl.constexpr
):  # fmt: skip
    """A tile that is fetched once, before a loop: bounded, and not worth a descriptor."""
    source = tile_source(base, rows, stride, head_dim, ROWS, BLOCK_DMODEL, False)
    return load_tile(source, base, first, rows, stride, head_dim, True, PADDED_HEAD, ROWS, BLOCK_DMODEL, False)


@triton.jit
def store_tile(
    base, first, rows, stride, head_dim, tile, PADDED_HEAD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
):  # fmt: skip
    """Store rows from `first` on, as far as the matrix reaches."""
    columns = tl.arange(0, BLOCK_DMODEL)
    mask = (first + tl.arange(0, ROWS) < rows)[:, None]
    if PADDED_HEAD:
        mask = mask & (columns < head_dim)[None, :]
    places = base + tl.cast(first, tl.int64) * stride + tl.arange(0, ROWS)[:, None] * stride + columns[None, :]
    tl.store(places, tile.to(base.dtype.element_ty), mask=mask)


@triton.jit
def matmul(a, b):
    """a @ b in float32; float32 inputs are not rounded to a shorter mantissa."""
    if a.dtype == tl.float32:
        return tl.dot(a, b, input_precision="ieee")
    return tl.dot(a, b)


@triton.jit
def make_window(seqlen_q, seqlen_k, window_left, window_right, bottom_right):
    """The window of a sequence. Its diagonal is the key opposite to query 0: 0, or so that the last ones are opposite.

    With a right side before the left one no key is seen.
    """
    diagonal = tl.where(bottom_right != 0, seqlen_k - seqlen_q, 0)
    return diagonal, window_left, tl.maximum(window_left + window_right + 1, 0)


@triton.jit
def in_window(rows, keys, window):
    """Which keys each query (row) sees: one comparison for both sides, as a negative distance is a large unsigned."""
    diagonal, left, count = window
    return (keys - (rows + (diagonal - left))).to(tl.uint32, bitcast=True) < count.to(tl.uint32)


@triton.jit
def interval(first, end, start):
    """Integers from `first` up to before `end`, counted from `start`, as centre and half width for `inside`."""
    half = (end - first).to(tl.float32) * (UNIT * 0.5)
    return (first - start).to(tl.float32) * UNIT + (half - UNIT * 0.5), half


@triton.jit
def inside(places, centre, half):
    """At least UNIT / 2 for places in an interval, at most -UNIT / 2 for the others.

    As an upper bound of an exponent this masks with three operations on floats. It is exact up to MAX_SEQLEN places;
    comparisons, of which there would be as many, have to be kept in too few predicates on NVIDIA.
    """
    return half - tl.abs(places.to(tl.float32) * UNIT - centre)


@triton.jit
def keys_of_rows(rows, seqlen_k, window):
    """First key that each row sees, and the end of those that it sees."""
    diagonal, left, count = window
    first = rows + (diagonal - left)
    return tl.minimum(tl.maximum(first, 0), seqlen_k), tl.maximum(tl.minimum(first + count, seqlen_k), 0)


@triton.jit
def rows_of_keys(keys, seqlen_q, window):
    """First row that sees each key, and the end of those that see it."""
    diagonal, left, count = window
    end = keys - (diagonal - left) + 1
    return tl.minimum(tl.maximum(end - count, 0), seqlen_q), tl.maximum(tl.minimum(end, seqlen_q), 0)


@triton.jit
def kept(rows, keys, drawing):
    """Which scores dropout keeps: a counter-based draw from (seed, head, row, key), the same in every kernel."""
    seed, head, dropout_p = drawing
    zero = rows * 0 + keys * 0
    draw, _, _, _ = tl.philox(
        seed,
        (zero + keys).to(tl.uint32),
        (zero + rows).to(tl.uint32),
        (zero + head).to(tl.uint32),
        zero.to(tl.uint32),
    )
    return tl.uint_to_uniform_float(draw) >= dropout_p


@triton.jit
def bias_tile(bias, rows, keys, seqlen_q, seqlen_k):
    """A tile of the bias matrix in float32, in units of log 2; zero outside."""
    base, stride_row, stride_key = bias
    mask = (rows < seqlen_q) & (keys < seqlen_k)
    places = base + rows.to(tl.int64) * stride_row + keys.to(tl.int64) * stride_key
    return tl.load(places, mask=mask, other=0.0).to(tl.float32) * LOG2E


@triton.jit
def key_ranges(
    first, seqlen_q, seqlen_k, window, CAUSAL_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Keys that a tile of queries sees: [low, high), of which [full_low, full_high) is seen by all of its rows.

    All but `high` are multiples of BLOCK_N. Behind the last query all are empty.
    """
    low = 0
    full_low = 0
    high = tl.where(first < seqlen_q, seqlen_k, 0)
    full_high = high // BLOCK_N * BLOCK_N
    if CAUSAL_TYPE != 0:
        diagonal, left, count = window
        before = diagonal - left  # the first key that row 0 sees
        last = tl.minimum(first + BLOCK_M, seqlen_q) - 1
        high = tl.maximum(tl.minimum(high, last + before + count), 0)
        low = tl.minimum(tl.maximum(first + before, 0), high) // BLOCK_N * BLOCK_N
        seen_by_all = tl.cdiv(tl.maximum(last + before, 0), BLOCK_N) * BLOCK_N
        full_low = tl.maximum(tl.minimum(seen_by_all, tl.cdiv(high, BLOCK_N) * BLOCK_N), low)
        end = tl.maximum(tl.minimum(high, first + before + count), 0) // BLOCK_N * BLOCK_N
        full_high = tl.maximum(end, full_low)
    return low, full_low, full_high, high


@triton.jit
def partial_tiles(low, full_low, full_high, high, BLOCK_N: tl.constexpr):
    """How many tiles of `key_ranges` are seen in part, and how many keys the whole ones between them are.

    Tile i of those starts at low + i * BLOCK_N, and from full_low on so many keys later.
    """
    return (full_low - low) // BLOCK_N + tl.cdiv(high - full_high, BLOCK_N), full_high - full_low


@triton.jit
def query_range(
    first, seqlen_q, seqlen_k, window, CAUSAL_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Queries [low, high) that see any of a tile of keys; empty behind the last key. `low` is a multiple of BLOCK_M."""
    low = 0
    high = tl.where(first < seqlen_k, seqlen_q, 0)
    if CAUSAL_TYPE != 0:
        diagonal, left, count = window
        before = diagonal - left  # query i sees key j when i + before <= j < i + before + count
        last = tl.minimum(first + BLOCK_N, seqlen_k) - 1
        high = tl.maximum(tl.minimum(high, last - before + 1), 0)
        low = tl.minimum(tl.maximum(first - before - count + 1, 0), high) // BLOCK_M * BLOCK_M
    return low, high
