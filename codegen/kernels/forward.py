"""attn_fwd: O = softmax(scale * Q K^T + bias) V and the log-sum-exp of each row, one tile of queries a program."""

from __future__ import annotations

import triton
import triton.language as tl

from codegen.kernels.tiles import (
    LN2,
    LOG2E,
    bias_tile,
    diagonal,
    in_window,
    kept,
    load_tile,
    matmul,
    sequence,
    store_tile,
)


@triton.jit
def attn_fwd(
    Q, K, V, Bias, Out, Lse,
    stride_qz, stride_qh, stride_qm,
    stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn,
    stride_oz, stride_oh, stride_om,
    stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed,
    window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """Grid (tiles of queries, query heads, sequences). Strides count elements; the head dim is contiguous.

    With `num_seqlens` > 0 all sequences are rows of one batch entry, parted by the cumulative lengths.
    """
    z = tl.program_id(2)
    head = tl.program_id(1)
    # The last tiles see the most keys under a causal mask: they start first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    first = tile * BLOCK_M
    if first < seqlen_q:
        head_k = head // (num_heads_q // num_heads_k)
        batch = z.to(tl.int64)
        q_base = Q + batch * stride_qz + head.to(tl.int64) * stride_qh + start_q.to(tl.int64) * stride_qm
        k_base = K + batch * stride_kz + head_k.to(tl.int64) * stride_kh + start_k.to(tl.int64) * stride_kn
        v_base = V + batch * stride_vz + head_k.to(tl.int64) * stride_vh + start_k.to(tl.int64) * stride_vn
        b_base = Bias + batch * stride_bz + head.to(tl.int64) * stride_bh
        o_base = Out + batch * stride_oz + head.to(tl.int64) * stride_oh + start_q.to(tl.int64) * stride_om
        l_base = Lse + batch * stride_lz + head.to(tl.int64) * stride_lh + start_q

        rows = first + tl.arange(0, BLOCK_M)
        columns = tl.arange(0, BLOCK_DMODEL)
        diagonal_k = diagonal(seqlen_q, seqlen_k, bottom_right)
        q = load_tile(q_base, rows, stride_qm, columns, seqlen_q, head_dim, True, PADDED_HEAD)
        # A negative scale moves into Q, so that the largest score stays the largest when it is scaled.
        q = tl.where(sm_scale < 0, -q.to(tl.float32), q.to(tl.float32)).to(q.dtype)
        scale = tl.abs(sm_scale) * LOG2E

        low, full_low, full_high, high = key_ranges(
            first, BLOCK_M, seqlen_q, seqlen_k, diagonal_k, window_left, window_right, CAUSAL_TYPE, BLOCK_N
        )
        acc = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
        total = tl.zeros([BLOCK_M], dtype=tl.float32)
        top = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
        if CAUSAL_TYPE != 0:
            acc, total, top = visit_keys(
                acc, total, top, q, low, full_low, k_base, v_base, b_base, stride_kn, stride_vn, stride_bm, stride_bn,
                rows, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, z * num_heads_q + head,
                diagonal_k, window_left, window_right,
                True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, PRE_LOAD_V,
            )  # fmt: skip
        acc, total, top = visit_keys(
            acc, total, top, q, full_low, full_high, k_base, v_base, b_base, stride_kn, stride_vn, stride_bm, stride_bn,
            rows, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, z * num_heads_q + head,
            diagonal_k, window_left, window_right,
            False, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, PRE_LOAD_V,
        )  # fmt: skip
        acc, total, top = visit_keys(
            acc, total, top, q, full_high, high, k_base, v_base, b_base, stride_kn, stride_vn, stride_bm, stride_bn,
            rows, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, z * num_heads_q + head,
            diagonal_k, window_left, window_right,
            True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, PRE_LOAD_V,
        )  # fmt: skip

        # A row that saw no key has no weights: zeros, and the logarithm of an empty sum.
        seen = total > 0
        divisor = tl.where(seen, total, 1.0)
        if ENABLE_DROPOUT:
            divisor = divisor * (1.0 - dropout_p)
        acc = acc / divisor[:, None]
        store_tile(o_base, rows, stride_om, columns, seqlen_q, head_dim, acc.to(Out.dtype.element_ty), PADDED_HEAD)
        lse = tl.where(seen, (top + tl.log2(tl.where(seen, total, 1.0))) * LN2, float("-inf"))
        tl.store(l_base + rows, lse, mask=rows < seqlen_q)


@triton.jit
def key_ranges(
    first, BLOCK_M: tl.constexpr, seqlen_q, seqlen_k, diagonal_k, window_left, window_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Keys that a tile of queries sees: [low, high), of which [full_low, full_high) is seen by all of its rows.

    All but `high` are multiples of BLOCK_N.
    """
    low = 0
    full_low = 0
    high = seqlen_k
    full_high = seqlen_k // BLOCK_N * BLOCK_N
    if CAUSAL_TYPE != 0:
        last = tl.minimum(first + BLOCK_M, seqlen_q) - 1
        high = tl.maximum(tl.minimum(seqlen_k, last + diagonal_k + window_right + 1), 0)
        low = tl.minimum(tl.maximum(first + diagonal_k - window_left, 0), high) // BLOCK_N * BLOCK_N
        seen_by_all = tl.maximum(last + diagonal_k - window_left, 0)
        full_low = tl.minimum(
            (seen_by_all + BLOCK_N - 1) // BLOCK_N * BLOCK_N, (high + BLOCK_N - 1) // BLOCK_N * BLOCK_N
        )
        full_low = tl.maximum(full_low, low)
        end = tl.maximum(tl.minimum(seqlen_k, first + diagonal_k + window_right + 1), 0) // BLOCK_N * BLOCK_N
        full_high = tl.maximum(end, full_low)
    return low, full_low, full_high, high


@triton.jit
def visit_keys(
    acc, total, top, q, low, high, k_base, v_base, b_base, stride_kn, stride_vn, stride_bm, stride_bn,
    rows, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, head,
    diagonal_k, window_left, window_right,
    MASKED: tl.constexpr, CAUSAL_TYPE: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_N: tl.constexpr, PRE_LOAD_V: tl.constexpr,
):  # fmt: skip
    """Add the keys [low, high) to a tile's running maximum, sum and weighted values."""
    for start in range(low, high, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = load_tile(k_base, keys, stride_kn, columns, seqlen_k, head_dim, MASKED, PADDED_HEAD)
        if PRE_LOAD_V:
            v = load_tile(v_base, keys, stride_vn, columns, seqlen_k, head_dim, MASKED, PADDED_HEAD)
        scores = matmul(q, tl.trans(k))
        if MASKED or BIAS_TYPE != 0:
            scores = scores * scale
            if BIAS_TYPE != 0:
                scores += LOG2E * bias_tile(
                    b_base, rows[:, None], keys[None, :], stride_bm, stride_bn, seqlen_q, seqlen_k
                )
            if MASKED:
                visible = (keys < seqlen_k)[None, :]
                if CAUSAL_TYPE != 0:
                    visible = visible & in_window(rows[:, None], keys[None, :], diagonal_k, window_left, window_right)
                scores = tl.where(visible, scores, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 1))
            # A row without any key so far must not make NaN of -inf - -inf.
            safe_top = tl.where(new_top == float("-inf"), 0.0, new_top)
            weights = tl.exp2(scores - safe_top[:, None])
            decay = tl.exp2(top - safe_top)
        else:
            new_top = tl.maximum(top, tl.max(scores, 1) * scale)
            weights = tl.exp2(scores * scale - new_top[:, None])
            decay = tl.exp2(top - new_top)
        total = total * decay + tl.sum(weights, 1)
        if ENABLE_DROPOUT:
            weights = tl.where(kept(seed, head, rows[:, None], keys[None, :], dropout_p), weights, 0.0)
        acc = acc * decay[:, None]
        if not PRE_LOAD_V:
            v = load_tile(v_base, keys, stride_vn, columns, seqlen_k, head_dim, MASKED, PADDED_HEAD)
        acc += matmul(weights.to(v.dtype), v)
        top = new_top
    return acc, total, top
