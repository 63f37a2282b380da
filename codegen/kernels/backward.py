"""The backward kernels: row sums of O x dO, then dK and dV, dQ, or all three in one launch.

With P = exp(scale * Q K^T + bias - lse), dP = dO V^T and D the row sums of O x dO:
dV = P^T dO, dS = P (dP - D), dK = scale * dS^T Q, dQ = scale * dS K, dBias = dS.
(FlashAttention-2, Dao 2023, algorithm 2.)
"""

from __future__ import annotations

import triton
import triton.language as tl

from codegen.kernels.forward import key_ranges
from codegen.kernels.tiles import (
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
def bwd_preprocess(
    Out, DOut, Delta,
    stride_oz, stride_oh, stride_om, stride_doz, stride_doh, stride_dom, stride_lz, stride_lh,
    cu_seqlens_q, num_seqlens, max_seqlen_q, head_dim,
    BLOCK_DMODEL: tl.constexpr, PADDED_HEAD: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Delta[row] = sum over the head dim of O x dO, in float32. Grid (tiles of queries, query heads, sequences)."""
    z = tl.program_id(2)
    head = tl.program_id(1).to(tl.int64)
    start_q, _, seqlen_q, _ = sequence(z, cu_seqlens_q, cu_seqlens_q, num_seqlens, max_seqlen_q, 0)
    batch = z.to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_DMODEL)
    o_base = Out + batch * stride_oz + head * stride_oh + start_q.to(tl.int64) * stride_om
    do_base = DOut + batch * stride_doz + head * stride_doh + start_q.to(tl.int64) * stride_dom
    o = load_tile(o_base, rows, stride_om, columns, seqlen_q, head_dim, True, PADDED_HEAD).to(tl.float32)
    do = load_tile(do_base, rows, stride_dom, columns, seqlen_q, head_dim, True, PADDED_HEAD).to(tl.float32)
    tl.store(Delta + batch * stride_lz + head * stride_lh + start_q + rows, tl.sum(o * do, 1), mask=rows < seqlen_q)


@triton.jit
def probabilities(
    scores, lse, rows, keys, b_base, stride_bm, stride_bn, seqlen_q, seqlen_k, scale,
    diagonal_k, window_left, window_right,
    MASKED: tl.constexpr, CAUSAL_TYPE: tl.constexpr, BIAS_TYPE: tl.constexpr,
):  # fmt: skip
    """P from raw scores. All arguments broadcast to the tile; `lse` is in units of log 2, +inf in rows without keys."""
    scores = scores * scale
    if BIAS_TYPE != 0:
        scores += LOG2E * bias_tile(b_base, rows, keys, stride_bm, stride_bn, seqlen_q, seqlen_k)
    p = tl.exp2(scores - lse)
    if MASKED:
        visible = (keys < seqlen_k) & (rows < seqlen_q)
        if CAUSAL_TYPE != 0:
            visible = visible & in_window(rows, keys, diagonal_k, window_left, window_right)
        p = tl.where(visible, p, 0.0)
    return p


@triton.jit
def row_lse(base, rows, seqlen_q):
    """The log-sum-exp of rows in units of log 2; +inf where a row has no keys, so that its P is zero."""
    lse = tl.load(base + rows, mask=rows < seqlen_q, other=float("-inf"))
    return tl.where(lse == float("-inf"), float("inf"), lse * LOG2E)


@triton.jit
def visit_queries(
    dk, dv, k, v, low, high, q_base, do_base, b_base, l_base, d_base,
    stride_qm, stride_dom, stride_bm, stride_bn,
    keys, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, head,
    diagonal_k, window_left, window_right,
    MASKED: tl.constexpr, CAUSAL_TYPE: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add the queries [low, high) to dK (not scaled yet) and dV of a tile of keys."""
    for start in range(low, high, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        q = load_tile(q_base, rows, stride_qm, columns, seqlen_q, head_dim, MASKED, PADDED_HEAD)
        do = load_tile(do_base, rows, stride_dom, columns, seqlen_q, head_dim, MASKED, PADDED_HEAD)
        lse = row_lse(l_base, rows, seqlen_q)
        delta = tl.load(d_base + rows, mask=rows < seqlen_q, other=0.0)
        # Transposed throughout: keys down, queries across, so that no product needs a transposed P.
        p = probabilities(
            matmul(k, tl.trans(q)), lse[None, :], rows[None, :], keys[:, None], b_base, stride_bm, stride_bn,
            seqlen_q, seqlen_k, scale, diagonal_k, window_left, window_right, MASKED, CAUSAL_TYPE, BIAS_TYPE,
        )  # fmt: skip
        dp = matmul(v, tl.trans(do))
        if ENABLE_DROPOUT:
            keep = kept(seed, head, rows[None, :], keys[:, None], dropout_p)
            factor = 1.0 / (1.0 - dropout_p)
            dv += matmul(tl.where(keep, p * factor, 0.0).to(do.dtype), do)
            dp = tl.where(keep, dp * factor, 0.0)
        else:
            dv += matmul(p.to(do.dtype), do)
        ds = p * (dp - delta[None, :])
        dk += matmul(ds.to(q.dtype), q)
    return dk, dv


@triton.jit
def dk_dv_tile(
    tile, head_k, z, Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dK and dV of one tile of keys of one key head, summed over the query heads that share it."""
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    first = tile * BLOCK_N
    if first < seqlen_k:
        batch = z.to(tl.int64)
        at_k = head_k.to(tl.int64)
        keys = first + tl.arange(0, BLOCK_N)
        columns = tl.arange(0, BLOCK_DMODEL)
        k_base = K + batch * stride_kz + at_k * stride_kh + start_k.to(tl.int64) * stride_kn
        v_base = V + batch * stride_vz + at_k * stride_vh + start_k.to(tl.int64) * stride_vn
        k = load_tile(k_base, keys, stride_kn, columns, seqlen_k, head_dim, True, PADDED_HEAD)
        v = load_tile(v_base, keys, stride_vn, columns, seqlen_k, head_dim, True, PADDED_HEAD)
        diagonal_k = diagonal(seqlen_q, seqlen_k, bottom_right)
        low, full_low, full_high, high = query_ranges(
            first, BLOCK_N, seqlen_q, seqlen_k, diagonal_k, window_left, window_right, CAUSAL_TYPE, BLOCK_M
        )
        dk = tl.zeros([BLOCK_N, BLOCK_DMODEL], dtype=tl.float32)
        dv = tl.zeros([BLOCK_N, BLOCK_DMODEL], dtype=tl.float32)
        group = num_heads_q // num_heads_k
        for member in range(group):
            head = head_k * group + member
            at = head.to(tl.int64)
            q_base = Q + batch * stride_qz + at * stride_qh + start_q.to(tl.int64) * stride_qm
            do_base = DOut + batch * stride_doz + at * stride_doh + start_q.to(tl.int64) * stride_dom
            b_base = Bias + batch * stride_bz + at * stride_bh
            l_base = Lse + batch * stride_lz + at * stride_lh + start_q
            d_base = Delta + batch * stride_lz + at * stride_lh + start_q
            number = z * num_heads_q + head
            if CAUSAL_TYPE != 0:
                dk, dv = visit_queries(
                    dk, dv, k, v, low, full_low, q_base, do_base, b_base, l_base, d_base,
                    stride_qm, stride_dom, stride_bm, stride_bn, keys, columns, seqlen_q, seqlen_k, head_dim,
                    sm_scale * LOG2E, dropout_p, seed, number, diagonal_k, window_left, window_right,
                    True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M,
                )  # fmt: skip
            dk, dv = visit_queries(
                dk, dv, k, v, full_low, full_high, q_base, do_base, b_base, l_base, d_base,
                stride_qm, stride_dom, stride_bm, stride_bn, keys, columns, seqlen_q, seqlen_k, head_dim,
                sm_scale * LOG2E, dropout_p, seed, number, diagonal_k, window_left, window_right,
                False, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M,
            )  # fmt: skip
            dk, dv = visit_queries(
                dk, dv, k, v, full_high, high, q_base, do_base, b_base, l_base, d_base,
                stride_qm, stride_dom, stride_bm, stride_bn, keys, columns, seqlen_q, seqlen_k, head_dim,
                sm_scale * LOG2E, dropout_p, seed, number, diagonal_k, window_left, window_right,
                True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M,
            )  # fmt: skip
        dk_base = DK + batch * stride_dkz + at_k * stride_dkh + start_k.to(tl.int64) * stride_dkn
        dv_base = DV + batch * stride_dvz + at_k * stride_dvh + start_k.to(tl.int64) * stride_dvn
        dk = (dk * sm_scale).to(DK.dtype.element_ty)
        store_tile(dk_base, keys, stride_dkn, columns, seqlen_k, head_dim, dk, PADDED_HEAD)
        store_tile(dv_base, keys, stride_dvn, columns, seqlen_k, head_dim, dv.to(DV.dtype.element_ty), PADDED_HEAD)


@triton.jit
def query_ranges(
    first, BLOCK_N: tl.constexpr, seqlen_q, seqlen_k, diagonal_k, window_left, window_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Queries that see a tile of keys: [low, high), of which all in [full_low, full_high) see the whole tile.

    Query i sees key j when j - diagonal - window_right <= i <= j - diagonal + window_left.
    """
    low = 0
    full_low = 0
    high = seqlen_q
    full_high = seqlen_q // BLOCK_M * BLOCK_M
    # A tile that reaches beyond the keys is masked throughout.
    if first + BLOCK_N > seqlen_k:
        full_high = 0
    if CAUSAL_TYPE != 0:
        last = first + BLOCK_N - 1
        end = tl.minimum(last, seqlen_k - 1)
        high = tl.maximum(tl.minimum(seqlen_q, end - diagonal_k + window_left + 1), 0)
        low = tl.minimum(tl.maximum(first - diagonal_k - window_right, 0), high) // BLOCK_M * BLOCK_M
        seen_by_all = tl.maximum(last - diagonal_k - window_right, 0)
        full_low = tl.minimum((seen_by_all + BLOCK_M - 1) // BLOCK_M, (high + BLOCK_M - 1) // BLOCK_M) * BLOCK_M
        full_low = tl.maximum(full_low, low)
        stop = tl.maximum(tl.minimum(seqlen_q, first - diagonal_k + window_left + 1), 0) // BLOCK_M * BLOCK_M
        full_high = tl.maximum(tl.minimum(stop, full_high), full_low)
    return low, full_low, full_high, high


@triton.jit
def visit_keys_backward(
    dq, q, do, lse, delta, low, high, k_base, v_base, b_base, db_base,
    stride_kn, stride_vn, stride_bm, stride_bn, stride_dbm, stride_dbn, store_dbias,
    rows, columns, seqlen_q, seqlen_k, head_dim, scale, dropout_p, seed, head,
    diagonal_k, window_left, window_right,
    MASKED: tl.constexpr, CAUSAL_TYPE: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add the keys [low, high) to dQ (not scaled yet) of a tile of queries, and store dBias where it is wanted."""
    for start in range(low, high, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = load_tile(k_base, keys, stride_kn, columns, seqlen_k, head_dim, MASKED, PADDED_HEAD)
        v = load_tile(v_base, keys, stride_vn, columns, seqlen_k, head_dim, MASKED, PADDED_HEAD)
        p = probabilities(
            matmul(q, tl.trans(k)), lse[:, None], rows[:, None], keys[None, :], b_base, stride_bm, stride_bn,
            seqlen_q, seqlen_k, scale, diagonal_k, window_left, window_right, MASKED, CAUSAL_TYPE, BIAS_TYPE,
        )  # fmt: skip
        dp = matmul(do, tl.trans(v))
        if ENABLE_DROPOUT:
            keep = kept(seed, head, rows[:, None], keys[None, :], dropout_p)
            dp = tl.where(keep, dp / (1.0 - dropout_p), 0.0)
        ds = p * (dp - delta[:, None])
        if BIAS_TYPE != 0:
            if store_dbias != 0:
                places = rows.to(tl.int64)[:, None] * stride_dbm + keys.to(tl.int64)[None, :] * stride_dbn
                inside = (rows < seqlen_q)[:, None] & (keys < seqlen_k)[None, :]
                tl.store(db_base + places, ds.to(db_base.dtype.element_ty), mask=inside)
        dq += matmul(ds.to(k.dtype), k)
    return dq


@triton.jit
def dq_tile(
    tile, head, z, Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
    stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of queries of one head. dBias is written only where the window lets a key be seen."""
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    first = tile * BLOCK_M
    if first < seqlen_q:
        batch = z.to(tl.int64)
        at = head.to(tl.int64)
        at_k = (head // (num_heads_q // num_heads_k)).to(tl.int64)
        q_base = Q + batch * stride_qz + at * stride_qh + start_q.to(tl.int64) * stride_qm
        k_base = K + batch * stride_kz + at_k * stride_kh + start_k.to(tl.int64) * stride_kn
        v_base = V + batch * stride_vz + at_k * stride_vh + start_k.to(tl.int64) * stride_vn
        do_base = DOut + batch * stride_doz + at * stride_doh + start_q.to(tl.int64) * stride_dom
        b_base = Bias + batch * stride_bz + at * stride_bh
        db_base = DBias + batch * stride_dbz + at * stride_dbh
        rows = first + tl.arange(0, BLOCK_M)
        columns = tl.arange(0, BLOCK_DMODEL)
        q = load_tile(q_base, rows, stride_qm, columns, seqlen_q, head_dim, True, PADDED_HEAD)
        do = load_tile(do_base, rows, stride_dom, columns, seqlen_q, head_dim, True, PADDED_HEAD)
        lse = row_lse(Lse + batch * stride_lz + at * stride_lh + start_q, rows, seqlen_q)
        d_base = Delta + batch * stride_lz + at * stride_lh + start_q
        delta = tl.load(d_base + rows, mask=rows < seqlen_q, other=0.0)
        diagonal_k = diagonal(seqlen_q, seqlen_k, bottom_right)
        low, full_low, full_high, high = key_ranges(
            first, BLOCK_M, seqlen_q, seqlen_k, diagonal_k, window_left, window_right, CAUSAL_TYPE, BLOCK_N
        )
        number = z * num_heads_q + head
        dq = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
        if CAUSAL_TYPE != 0:
            dq = visit_keys_backward(
                dq, q, do, lse, delta, low, full_low, k_base, v_base, b_base, db_base,
                stride_kn, stride_vn, stride_bm, stride_bn, stride_dbm, stride_dbn, store_dbias,
                rows, columns, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, dropout_p, seed, number,
                diagonal_k, window_left, window_right,
                True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N,
            )  # fmt: skip
        dq = visit_keys_backward(
            dq, q, do, lse, delta, full_low, full_high, k_base, v_base, b_base, db_base,
            stride_kn, stride_vn, stride_bm, stride_bn, stride_dbm, stride_dbn, store_dbias,
            rows, columns, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, dropout_p, seed, number,
            diagonal_k, window_left, window_right,
            False, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N,
        )  # fmt: skip
        dq = visit_keys_backward(
            dq, q, do, lse, delta, full_high, high, k_base, v_base, b_base, db_base,
            stride_kn, stride_vn, stride_bm, stride_bn, stride_dbm, stride_dbn, store_dbias,
            rows, columns, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, dropout_p, seed, number,
            diagonal_k, window_left, window_right,
            True, CAUSAL_TYPE, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N,
        )  # fmt: skip
        dq_base = DQ + batch * stride_dqz + at * stride_dqh + start_q.to(tl.int64) * stride_dqm
        dq = (dq * sm_scale).to(DQ.dtype.element_ty)
        store_tile(dq_base, rows, stride_dqm, columns, seqlen_q, head_dim, dq, PADDED_HEAD)


@triton.jit
def bwd_kernel_dk_dv(
    Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dK and dV. Grid (tiles of keys, key heads, sequences)."""
    dk_dv_tile(
        tl.program_id(0), tl.program_id(1), tl.program_id(2), Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
        stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
        stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
        stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
        cu_seqlens_q, cu_seqlens_k, num_seqlens, num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
        sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
        CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N,
    )  # fmt: skip


@triton.jit
def bwd_kernel_dq(
    Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
    stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dQ, and dBias where `store_dbias` is not 0. Grid (tiles of queries, query heads, sequences)."""
    dq_tile(
        tl.program_id(0), tl.program_id(1), tl.program_id(2), Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
        stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
        stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
        stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
        stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
        num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
        sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
        CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N,
    )  # fmt: skip


@triton.jit
def bwd_kernel_fuse(
    Q, K, V, Bias, DOut, DQ, DK, DV, DBias, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dqz, stride_dqh, stride_dqm, stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn,
    stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias, stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr,
    PADDED_HEAD: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dK, dV and dQ. Grid (tiles of keys x key heads + tiles of queries x query heads, 1, sequences).

    The first programs make dK and dV, which take the longest; the others make dQ.
    """
    program = tl.program_id(0)
    z = tl.program_id(2)
    tiles_k = tl.cdiv(max_seqlen_k, BLOCK_N)
    tiles_q = tl.cdiv(max_seqlen_q, BLOCK_M)
    split = tiles_k * num_heads_k
    if program < split:
        dk_dv_tile(
            program % tiles_k, program // tiles_k, z, Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
            stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
            stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
            stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
            cu_seqlens_q, cu_seqlens_k, num_seqlens, num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
            sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N,
        )  # fmt: skip
    else:
        dq_tile(
            (program - split) % tiles_q, (program - split) // tiles_q, z, Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
            stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
            stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
            stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
            stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
            num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
            sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N,
        )  # fmt: skip
