"""attn_fwd: O = softmax(scale * Q K^T + bias) V and the log-sum-exp of each row, one tile of queries a program.

(FlashAttention-2, Dao 2023, algorithm 1.)
"""

from __future__ import annotations

import triton
import triton.language as tl

from codegen.kernels.tiles import (
    LN2,
    LOG2E,
    SCALARS,
    bias_tile,
    in_window,
    kept,
    key_ranges,
    load_rows,
    load_tile,
    make_window,
    matmul,
    partial_tiles,
    place,
    sequence,
    store_tile,
    tile_and_head,
    tile_source,
)


@triton.jit(do_not_specialize=SCALARS)
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRE_LOAD_V: tl.constexpr, TENSOR_COPY: tl.constexpr = False,
):  # fmt: skip
    """Grid (tiles of queries, query heads, sequences). Strides count elements; the head dim is contiguous.

    With `num_seqlens` > 0 all sequences are rows of one batch entry, parted by the cumulative lengths.
    """
    z = tl.program_id(2)
    # The last tiles see the most keys under a causal mask: they start first.
    tile, head = tile_and_head(max_seqlen_k, CAUSAL_TYPE)
    first = (tl.num_programs(0) - 1 - tile) * BLOCK_M
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    if first < seqlen_q:
        head_k = head // (num_heads_q // num_heads_k)
        q_base = place(Q, z, stride_qz, head, stride_qh, start_q, stride_qm)
        k_base = place(K, z, stride_kz, head_k, stride_kh, start_k, stride_kn)
        v_base = place(V, z, stride_vz, head_k, stride_vh, start_k, stride_vn)
        rows = first + tl.arange(0, BLOCK_M)
        window = make_window(seqlen_q, seqlen_k, window_left, window_right, bottom_right)
        bias = (place(Bias, z, stride_bz, head, stride_bh, z, 0), stride_bm, stride_bn)
        drawing = (seed, z * num_heads_q + head, dropout_p)

        q = load_rows(q_base, first, seqlen_q, stride_qm, head_dim, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)
        k_source = tile_source(k_base, seqlen_k, stride_kn, head_dim, BLOCK_N, BLOCK_DMODEL, TENSOR_COPY)
        v_source = tile_source(v_base, seqlen_k, stride_vn, head_dim, BLOCK_N, BLOCK_DMODEL, TENSOR_COPY)

        acc = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
        total = tl.zeros([BLOCK_M], dtype=tl.float32)
        top = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
        low, full_low, full_high, high = key_ranges(first, seqlen_q, seqlen_k, window, CAUSAL_TYPE, BLOCK_M, BLOCK_N)
        # Without a mask the largest score is taken before it is scaled: a negative scale must go the other way.
        full_high = tl.where(sm_scale < 0, full_low, full_high)
        acc, total, top = visit_keys(
            acc, total, top, q, (full_high - full_low) // BLOCK_N, full_low, full_low, 0,
            k_source, v_source, k_base, v_base, stride_kn, stride_vn,
            rows, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, window, bias, drawing, False,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, PRE_LOAD_V, TENSOR_COPY,
        )  # fmt: skip
        tiles, whole = partial_tiles(low, full_low, full_high, high, BLOCK_N)
        acc, total, top = visit_keys(
            acc, total, top, q, tiles, low, full_low, whole, k_source, v_source, k_base, v_base, stride_kn, stride_vn,
            rows, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, window, bias, drawing, True,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, PRE_LOAD_V, TENSOR_COPY,
        )  # fmt: skip

        # A row that saw no key has no weights: zeros, and the logarithm of an empty sum.
        seen = total > 0
        total = tl.where(seen, total, 1.0)
        lse = tl.where(seen, (top + tl.log2(total)) * LN2, float("-inf"))
        l_base = place(Lse, z, stride_lz, head, stride_lh, start_q, 1)
        tl.store(l_base + rows, lse, mask=rows < seqlen_q)
        factor = 1.0 / total
        if ENABLE_DROPOUT:
            factor = factor / (1.0 - dropout_p)
        o_base = place(Out, z, stride_oz, head, stride_oh, start_q, stride_om)
        store_tile(
            o_base, first, seqlen_q, stride_om, head_dim, acc * factor[:, None], PADDED_HEAD, BLOCK_M, BLOCK_DMODEL
        )


@triton.jit
def visit_keys(
    acc, total, top, q, tiles, low, gap, gap_keys, k_source, v_source, k_base, v_base, stride_kn, stride_vn,
    rows, seqlen_q, seqlen_k, head_dim, scale, window, bias, drawing, MASKED: tl.constexpr,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_N: tl.constexpr, PRE_LOAD_V: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """Add tiles of keys to a tile's running maximum, sum and weighted values.

    They start at `low`, one behind the other but for `gap_keys` keys that are left out at `gap`.
    """
    for tile in tl.range(0, tiles):
        start = low + tile * BLOCK_N
        if MASKED:
            start += tl.where(start >= gap, gap_keys, 0)
        k = load_tile(
            k_source, k_base, start, seqlen_k, stride_kn, head_dim, MASKED, PADDED_HEAD,
            BLOCK_N, BLOCK_DMODEL, TENSOR_COPY,
        )  # fmt: skip
        if PRE_LOAD_V:
            v = load_tile(
                v_source, v_base, start, seqlen_k, stride_vn, head_dim, MASKED, PADDED_HEAD,
                BLOCK_N, BLOCK_DMODEL, TENSOR_COPY,
            )  # fmt: skip
        keys = start + tl.arange(0, BLOCK_N)
        scores = matmul(q, tl.trans(k))
        if MASKED or BIAS_TYPE != 0:
            scores = scores * scale
            if BIAS_TYPE != 0:
                scores += bias_tile(bias, rows[:, None], keys[None, :], seqlen_q, seqlen_k)
            if MASKED:
                visible = (keys < seqlen_k)[None, :]
                if CAUSAL_TYPE != 0:
                    visible = visible & in_window(rows[:, None], keys[None, :], window)
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
            weights = tl.where(kept(rows[:, None], keys[None, :], drawing), weights, 0.0)
        acc = acc * decay[:, None]
        if not PRE_LOAD_V:
            v = load_tile(
                v_source, v_base, start, seqlen_k, stride_vn, head_dim, MASKED, PADDED_HEAD,
                BLOCK_N, BLOCK_DMODEL, TENSOR_COPY,
            )  # fmt: skip
        acc += matmul(weights.to(v.dtype), v)
        top = new_top
    return acc, total, top
