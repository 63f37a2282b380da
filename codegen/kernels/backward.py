"""The backward kernels: row sums of O x dO, then dK and dV, dQ, or all three in one launch.

With P = exp(scale * Q K^T + bias - lse), dP = dO V^T and D the row sums of O x dO:
dV = P^T dO, dS = P (dP - D), dK = scale * dS^T Q, dQ = scale * dS K, dBias = dS.
(FlashAttention-2, Dao 2023, algorithm 2.)
"""

from __future__ import annotations

import triton
import triton.language as tl

from codegen.kernels.tiles import (
    LOG2E,
    SCALARS,
    bias_tile,
    heads_source,
    inside,
    interval,
    kept,
    key_ranges,
    keys_of_rows,
    load_rows,
    load_tile,
    make_window,
    matmul,
    partial_tiles,
    place,
    query_range,
    rows_of_keys,
    sequence,
    store_tile,
    tile_and_head,
    tile_source,
)


@triton.jit(do_not_specialize=SCALARS)
def bwd_preprocess(
    Out, DOut, Delta,
    stride_oz, stride_oh, stride_om, stride_doz, stride_doh, stride_dom, stride_lz, stride_lh,
    cu_seqlens_q, num_seqlens, max_seqlen_q, head_dim,
    BLOCK_DMODEL: tl.constexpr, PADDED_HEAD: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Delta[row] = sum over the head dim of O x dO, in float32. Grid (tiles of queries, query heads, sequences)."""
    z = tl.program_id(2)
    head = tl.program_id(1)
    first = tl.program_id(0) * BLOCK_M
    start_q, _, seqlen_q, _ = sequence(z, cu_seqlens_q, cu_seqlens_q, num_seqlens, max_seqlen_q, 0)
    o_base = place(Out, z, stride_oz, head, stride_oh, start_q, stride_om)
    do_base = place(DOut, z, stride_doz, head, stride_doh, start_q, stride_dom)
    o = load_rows(o_base, first, seqlen_q, stride_om, head_dim, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)
    do = load_rows(do_base, first, seqlen_q, stride_dom, head_dim, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)
    rows = first + tl.arange(0, BLOCK_M)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(place(Delta, z, stride_lz, head, stride_lh, start_q, 1) + rows, delta, mask=rows < seqlen_q)


@triton.jit
def log2_sums(lse, BIAS_TYPE: tl.constexpr):
    """Log-sum-exps in units of log 2.

    Where a bias hides all keys of a row it is +inf, so that P is zero; rows that see no key through the window keep
    -inf, as the mask bounds their P.
    """
    if BIAS_TYPE != 0:
        lse = tl.where(lse == float("-inf"), float("inf"), lse)
    return lse * LOG2E


@triton.jit
def exponents(scores, lse, rows, keys, bias, seqlen_q, seqlen_k, scale, BIAS_TYPE: tl.constexpr):
    """Logarithms of P from raw scores. `lse`, `rows` and `keys` broadcast to the tile."""
    if BIAS_TYPE != 0:
        scores = scores * scale + bias_tile(bias, rows, keys, seqlen_q, seqlen_k)
    else:
        scores = scores * scale
    return scores - lse


@triton.jit
def fetch_queries(
    source, base, member, stride_head, start, seqlen_q, stride, head_dim, PADDED_HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_DMODEL: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """A tile of rows of Q or dO of a member of a group of heads; `base` is the first one's."""
    if TENSOR_COPY:
        tile = source.load([member, start, 0]).reshape([BLOCK_M, BLOCK_DMODEL])
    else:
        tile = load_tile(
            source, place(base, member, stride_head, member, 0, member, 0), start, seqlen_q, stride, head_dim,
            True, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL, False,
        )  # fmt: skip
    return tile


@triton.jit
def add_queries(
    dk, dv, k, v, sources, bases, strides, head_strides, member, start, keys, seqlen_q, seqlen_k, head_dim,
    scale, window, bias, drawing,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """Add one tile of queries to dK (not scaled yet) and dV of a tile of keys.

    Each matrix is fetched where it is needed first, as the registers are full. Transposed throughout: keys down,
    queries across, so that no product needs a transposed P.
    """
    q_source, do_source = sources
    q_base, do_base, l_base, d_base = bases
    stride_qm, stride_dom = strides
    stride_qh, stride_doh, stride_lh = head_strides
    rows = start + tl.arange(0, BLOCK_M)
    q = fetch_queries(
        q_source, q_base, member, stride_qh, start, seqlen_q, stride_qm, head_dim, PADDED_HEAD,
        BLOCK_M, BLOCK_DMODEL, TENSOR_COPY,
    )  # fmt: skip
    # Behind the last row Q, dO and their statistics are zero: such rows add nothing.
    lse = tl.load(place(l_base, member, stride_lh, member, 0, member, 0) + rows, mask=rows < seqlen_q, other=0.0)
    exponent = exponents(
        matmul(k, tl.trans(q)), log2_sums(lse, BIAS_TYPE)[None, :], rows[None, :], keys[:, None],
        bias, seqlen_q, seqlen_k, scale, BIAS_TYPE,
    )  # fmt: skip
    if CAUSAL_TYPE != 0:
        first, end = rows_of_keys(keys, seqlen_q, window)
        centre, half = interval(first, end, 0)
        exponent = tl.minimum(exponent, inside(rows[None, :], centre[:, None], half[:, None]))
    p = tl.exp2(exponent)
    do = fetch_queries(
        do_source, do_base, member, stride_doh, start, seqlen_q, stride_dom, head_dim, PADDED_HEAD,
        BLOCK_M, BLOCK_DMODEL, TENSOR_COPY,
    )  # fmt: skip
    dp = matmul(v, tl.trans(do))
    if ENABLE_DROPOUT:
        _seed, _head, dropout_p = drawing
        keep = kept(rows[None, :], keys[:, None], drawing)
        factor = 1.0 / (1.0 - dropout_p)
        dv += matmul(tl.where(keep, p * factor, 0.0).to(do.dtype), do)
        dp = tl.where(keep, dp * factor, 0.0)
    else:
        dv += matmul(p.to(do.dtype), do)
    delta = tl.load(place(d_base, member, stride_lh, member, 0, member, 0) + rows, mask=rows < seqlen_q, other=0.0)
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
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """dK and dV of one tile of keys of one key head, summed over the query heads that share it."""
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    first = tile * BLOCK_N
    if first < seqlen_k:
        group = num_heads_q // num_heads_k
        head = head_k * group
        k_base = place(K, z, stride_kz, head_k, stride_kh, start_k, stride_kn)
        v_base = place(V, z, stride_vz, head_k, stride_vh, start_k, stride_vn)
        bases = (
            place(Q, z, stride_qz, head, stride_qh, start_q, stride_qm),
            place(DOut, z, stride_doz, head, stride_doh, start_q, stride_dom),
            place(Lse, z, stride_lz, head, stride_lh, start_q, 1),
            place(Delta, z, stride_lz, head, stride_lh, start_q, 1),
        )
        sources = (
            heads_source(bases[0], group, stride_qh, seqlen_q, stride_qm, head_dim, BLOCK_M, BLOCK_DMODEL, TENSOR_COPY),
            heads_source(
                bases[1], group, stride_doh, seqlen_q, stride_dom, head_dim, BLOCK_M, BLOCK_DMODEL, TENSOR_COPY
            ),
        )
        k = load_rows(k_base, first, seqlen_k, stride_kn, head_dim, PADDED_HEAD, BLOCK_N, BLOCK_DMODEL)
        v = load_rows(v_base, first, seqlen_k, stride_vn, head_dim, PADDED_HEAD, BLOCK_N, BLOCK_DMODEL)
        window = make_window(seqlen_q, seqlen_k, window_left, window_right, bottom_right)
        low, high = query_range(first, seqlen_q, seqlen_k, window, CAUSAL_TYPE, BLOCK_M, BLOCK_N)
        dk = tl.zeros([BLOCK_N, BLOCK_DMODEL], dtype=tl.float32)
        dv = tl.zeros([BLOCK_N, BLOCK_DMODEL], dtype=tl.float32)
        # One loop over the queries of all heads, in which all tiles are masked: what several need at a time does not
        # fit in the registers.
        tiles = tl.cdiv(high - low, BLOCK_M)
        for step in tl.range(0, group * tiles):
            member = step // tiles
            dk, dv = add_queries(
                dk, dv, k, v, sources, bases, (stride_qm, stride_dom), (stride_qh, stride_doh, stride_lh),
                member, low + (step - member * tiles) * BLOCK_M, first + tl.arange(0, BLOCK_N),
                seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, window,
                (place(Bias, z, stride_bz, head + member, stride_bh, z, 0), stride_bm, stride_bn),
                (seed, z * num_heads_q + head + member, dropout_p),
                CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, TENSOR_COPY,
            )  # fmt: skip
        dk_base = place(DK, z, stride_dkz, head_k, stride_dkh, start_k, stride_dkn)
        dv_base = place(DV, z, stride_dvz, head_k, stride_dvh, start_k, stride_dvn)
        store_tile(dk_base, first, seqlen_k, stride_dkn, head_dim, dk * sm_scale, PADDED_HEAD, BLOCK_N, BLOCK_DMODEL)
        store_tile(dv_base, first, seqlen_k, stride_dvn, head_dim, dv, PADDED_HEAD, BLOCK_N, BLOCK_DMODEL)


@triton.jit
def add_keys(
    dq, q, do, lse, delta, k, v, rows, start, seqlen_q, seqlen_k, scale, window, bias, drawing,
    db_base, stride_dbm, stride_dbn, store_dbias, MASKED: tl.constexpr,
    CAUSAL_TYPE: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, BIAS_TYPE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add one tile of keys to dQ (not scaled yet) of a tile of queries, and store dBias where it is wanted."""
    keys = start + tl.arange(0, BLOCK_N)
    exponent = exponents(
        matmul(q, tl.trans(k)), lse[:, None], rows[:, None], keys[None, :],
        bias, seqlen_q, seqlen_k, scale, BIAS_TYPE,
    )  # fmt: skip
    if MASKED and CAUSAL_TYPE != 0:
        first, end = keys_of_rows(rows, seqlen_k, window)
        centre, half = interval(first, end, start)
        places = tl.arange(0, BLOCK_N)
        exponent = tl.minimum(exponent, inside(places[None, :], centre[:, None], half[:, None]))
    elif MASKED:
        # K and V are zero behind the last key: that P is finite there is enough. Elsewhere it is at most 1.
        exponent = tl.minimum(exponent, 0.0)
    p = tl.exp2(exponent)
    dp = matmul(do, tl.trans(v))
    if ENABLE_DROPOUT:
        _seed, _head, dropout_p = drawing
        keep = kept(rows[:, None], keys[None, :], drawing)
        dp = tl.where(keep, dp * (1.0 / (1.0 - dropout_p)), 0.0)
    ds = p * (dp - delta[:, None])
    if BIAS_TYPE != 0:
        if store_dbias != 0:
            cells = db_base + rows.to(tl.int64)[:, None] * stride_dbm + keys.to(tl.int64)[None, :] * stride_dbn
            mask = (rows < seqlen_q)[:, None] & (keys < seqlen_k)[None, :]
            tl.store(cells, ds.to(db_base.dtype.element_ty), mask=mask)
    dq += matmul(ds.to(k.dtype), k)
    return dq


@triton.jit
def visit_keys_backward(
    dq, q, do, lse, delta, tiles, low, gap, gap_keys, k_source, v_source, k_base, v_base, stride_kn, stride_vn,
    rows, seqlen_q, seqlen_k, head_dim, scale, window, bias, drawing,
    db_base, stride_dbm, stride_dbn, store_dbias, MASKED: tl.constexpr,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """Add tiles of keys to dQ of a tile of queries; see `visit_keys` of the forward."""
    for tile in tl.range(0, tiles):
        start = low + tile * BLOCK_N
        if MASKED:
            start += tl.where(start >= gap, gap_keys, 0)
        k = load_tile(
            k_source, k_base, start, seqlen_k, stride_kn, head_dim, MASKED, PADDED_HEAD,
            BLOCK_N, BLOCK_DMODEL, TENSOR_COPY,
        )  # fmt: skip
        v = load_tile(
            v_source, v_base, start, seqlen_k, stride_vn, head_dim, MASKED, PADDED_HEAD,
            BLOCK_N, BLOCK_DMODEL, TENSOR_COPY,
        )  # fmt: skip
        dq = add_keys(
            dq, q, do, lse, delta, k, v, rows, start, seqlen_q, seqlen_k, scale, window, bias, drawing,
            db_base, stride_dbm, stride_dbn, store_dbias, MASKED,
            CAUSAL_TYPE, ENABLE_DROPOUT, BIAS_TYPE, BLOCK_N,
        )  # fmt: skip
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
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of queries of one head. dBias is written only where the window lets a key be seen."""
    start_q, start_k, seqlen_q, seqlen_k = sequence(
        z, cu_seqlens_q, cu_seqlens_k, num_seqlens, max_seqlen_q, max_seqlen_k
    )
    first = tile * BLOCK_M
    if first < seqlen_q:
        head_k = head // (num_heads_q // num_heads_k)
        rows = first + tl.arange(0, BLOCK_M)
        q_base = place(Q, z, stride_qz, head, stride_qh, start_q, stride_qm)
        do_base = place(DOut, z, stride_doz, head, stride_doh, start_q, stride_dom)
        k_base = place(K, z, stride_kz, head_k, stride_kh, start_k, stride_kn)
        v_base = place(V, z, stride_vz, head_k, stride_vh, start_k, stride_vn)
        q = load_rows(q_base, first, seqlen_q, stride_qm, head_dim, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)
        do = load_rows(do_base, first, seqlen_q, stride_dom, head_dim, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)
        sums = rows < seqlen_q
        lse = tl.load(place(Lse, z, stride_lz, head, stride_lh, start_q, 1) + rows, mask=sums, other=0.0)
        delta = tl.load(place(Delta, z, stride_lz, head, stride_lh, start_q, 1) + rows, mask=sums, other=0.0)
        lse = log2_sums(lse, BIAS_TYPE)
        k_source = tile_source(k_base, seqlen_k, stride_kn, head_dim, BLOCK_N, BLOCK_DMODEL, TENSOR_COPY)
        v_source = tile_source(v_base, seqlen_k, stride_vn, head_dim, BLOCK_N, BLOCK_DMODEL, TENSOR_COPY)
        window = make_window(seqlen_q, seqlen_k, window_left, window_right, bottom_right)
        low, full_low, full_high, high = key_ranges(first, seqlen_q, seqlen_k, window, CAUSAL_TYPE, BLOCK_M, BLOCK_N)
        bias = (place(Bias, z, stride_bz, head, stride_bh, z, 0), stride_bm, stride_bn)
        db_base = place(DBias, z, stride_dbz, head, stride_dbh, z, 0)
        drawing = (seed, z * num_heads_q + head, dropout_p)
        dq = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
        dq = visit_keys_backward(
            dq, q, do, lse, delta, (full_high - full_low) // BLOCK_N, full_low, full_low, 0,
            k_source, v_source, k_base, v_base, stride_kn, stride_vn,
            rows, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, window, bias, drawing,
            db_base, stride_dbm, stride_dbn, store_dbias, False,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, TENSOR_COPY,
        )  # fmt: skip
        tiles, whole = partial_tiles(low, full_low, full_high, high, BLOCK_N)
        dq = visit_keys_backward(
            dq, q, do, lse, delta, tiles, low, full_low, whole,
            k_source, v_source, k_base, v_base, stride_kn, stride_vn,
            rows, seqlen_q, seqlen_k, head_dim, sm_scale * LOG2E, window, bias, drawing,
            db_base, stride_dbm, stride_dbn, store_dbias, True,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_N, TENSOR_COPY,
        )  # fmt: skip
        dq_base = place(DQ, z, stride_dqz, head, stride_dqh, start_q, stride_dqm)
        store_tile(dq_base, first, seqlen_q, stride_dqm, head_dim, dq * sm_scale, PADDED_HEAD, BLOCK_M, BLOCK_DMODEL)


@triton.jit(do_not_specialize=SCALARS)
def bwd_kernel_dk_dv(
    Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr = False,
):  # fmt: skip
    """dK and dV. Grid (tiles of keys, key heads, sequences)."""
    tile, head_k = tile_and_head(max_seqlen_q, CAUSAL_TYPE)
    dk_dv_tile(
        tile, head_k, tl.program_id(2), Q, K, V, Bias, DOut, DK, DV, Lse, Delta,
        stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
        stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
        stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn, stride_lz, stride_lh,
        cu_seqlens_q, cu_seqlens_k, num_seqlens, num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
        sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
        CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N, TENSOR_COPY,
    )  # fmt: skip


@triton.jit(do_not_specialize=SCALARS)
def bwd_kernel_dq(
    Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
    stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr = False,
):  # fmt: skip
    """dQ and dBias. Grid (tiles of queries, query heads, sequences)."""
    # The last tiles see the most keys under a causal mask: they start first.
    tile, head = tile_and_head(max_seqlen_k, CAUSAL_TYPE)
    dq_tile(
        tl.num_programs(0) - 1 - tile, head, tl.program_id(2),
        Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
        stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
        stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
        stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
        stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
        num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
        sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
        CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N, TENSOR_COPY,
    )  # fmt: skip


@triton.jit(do_not_specialize=SCALARS)
def bwd_kernel_fuse(
    Q, K, V, Bias, DOut, DQ, DK, DV, DBias, Lse, Delta,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
    stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
    stride_dqz, stride_dqh, stride_dqm, stride_dkz, stride_dkh, stride_dkn, stride_dvz, stride_dvh, stride_dvn,
    stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias, stride_lz, stride_lh,
    cu_seqlens_q, cu_seqlens_k, num_seqlens,
    num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
    sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
    CAUSAL_TYPE: tl.constexpr, BLOCK_DMODEL: tl.constexpr, ENABLE_DROPOUT: tl.constexpr, PADDED_HEAD: tl.constexpr,
    BIAS_TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TENSOR_COPY: tl.constexpr = False,
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
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N, TENSOR_COPY,
        )  # fmt: skip
    else:
        dq_tile(
            tiles_q - 1 - (program - split) % tiles_q, (program - split) // tiles_q, z,
            Q, K, V, Bias, DOut, DQ, DBias, Lse, Delta,
            stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn,
            stride_bz, stride_bh, stride_bm, stride_bn, stride_doz, stride_doh, stride_dom,
            stride_dqz, stride_dqh, stride_dqm, stride_dbz, stride_dbh, stride_dbm, stride_dbn, store_dbias,
            stride_lz, stride_lh, cu_seqlens_q, cu_seqlens_k, num_seqlens,
            num_heads_q, num_heads_k, max_seqlen_q, max_seqlen_k, head_dim,
            sm_scale, dropout_p, seed, window_left, window_right, bottom_right,
            CAUSAL_TYPE, BLOCK_DMODEL, ENABLE_DROPOUT, PADDED_HEAD, BIAS_TYPE, BLOCK_M, BLOCK_N, TENSOR_COPY,
        )  # fmt: skip
