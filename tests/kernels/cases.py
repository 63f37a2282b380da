"""The cases of the interpreter tests, by topic. They name no module of torch or triton, so that any test can list them.

Sizes are small and odd on purpose: prime, one, none, and not the same for queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass

Side = int | None


@dataclass(frozen=True)
class Case:
    """One call. `lengths` are (queries, keys) of each sequence of a batch entry, instead of batch, rows and keys.

    `layout` is the order in memory: heads before rows, rows before heads, or rows with gaps between them. `bias` says
    what it covers or hides. `tile` is (queries, keys); `copy` is TENSOR_COPY, `early` PRE_LOAD_V. With `autograd` the
    gradients come through PyTorch, else the launches are made directly, on buffers with guard zones.
    """

    dtype: str = "float32"
    batch: int = 1
    heads: int = 2
    key_heads: int = 1
    rows: int = 37
    keys: int = 53
    head_dim: int = 32
    window: tuple[Side, Side] = (None, None)
    bottom_right: bool = False
    bias: str = ""
    dropout: float = 0.0
    seed: int = 0
    sm_scale: float = 0.25
    lengths: tuple[tuple[int, int], ...] = ()
    layout: str = "heads"
    fused: bool = False
    tile: tuple[int, int] = (32, 16)
    copy: bool = False
    early: bool = False
    autograd: bool = False


CAUSAL = (None, 0)
EMPTY_ONES = ((5, 7), (0, 9), (17, 0), (1, 31), (0, 0), (33, 29))

GROUPS: dict[str, dict[str, Case]] = {
    "types": {
        "fp32": Case(),
        "fp16": Case("float16", head_dim=64),
        "bf16": Case("bfloat16", head_dim=64),
        "fp16, causal": Case("float16", rows=65, keys=64, window=CAUSAL),
        "bf16, causal": Case("bfloat16", rows=65, keys=64, window=CAUSAL),
        "bf16, fused": Case("bfloat16", rows=41, keys=67, fused=True),
        "bf16, causal, fused": Case("bfloat16", window=CAUSAL, fused=True),
        "bf16, through autograd": Case("bfloat16", window=CAUSAL, autograd=True),
    },
    "sizes": {
        "one row, one key": Case(rows=1, keys=1),
        "one row": Case(rows=1, keys=41),
        "one key": Case(rows=41, keys=1),
        "whole tiles": Case(rows=64, keys=48),
        "more than a few tiles": Case(rows=131, keys=97, window=CAUSAL),
        "no rows": Case(rows=0, keys=7, autograd=True),
        "no keys": Case(rows=7, keys=0),
        "no keys, through autograd": Case(rows=7, keys=0, autograd=True),
        "one row, causal from the last key": Case(rows=1, keys=41, window=CAUSAL, bottom_right=True),
        "no keys, fused": Case(rows=7, keys=0, fused=True),
    },
    "heads": {
        "head dim 1": Case(head_dim=1),
        "head dim 40": Case(head_dim=40),
        "head dim 80": Case("float16", rows=17, keys=19, head_dim=80),
        "head dim 96, causal": Case("float16", rows=17, keys=19, head_dim=96, window=CAUSAL),
        "head dim 192": Case("bfloat16", rows=17, keys=19, head_dim=192),
        "head dim 256": Case("float16", rows=17, keys=19, head_dim=256),
        "odd head dim, fused": Case(head_dim=33, fused=True),
        "groups of three": Case(batch=2, heads=6, key_heads=2, rows=19, keys=23, window=CAUSAL),
        "no groups": Case(batch=2, heads=3, key_heads=3, rows=19, keys=23),
        "groups, fused": Case(batch=2, heads=4, key_heads=2, rows=19, keys=23, fused=True),
        "rows before heads": Case(batch=2, heads=4, key_heads=2, layout="rows", window=CAUSAL),
        "gaps between rows": Case(batch=2, layout="gaps"),
    },
    "masks": {
        "causal": Case(window=CAUSAL),
        "causal, more rows than keys": Case(rows=53, keys=37, window=CAUSAL),
        "causal from the last key": Case(window=CAUSAL, bottom_right=True),
        "causal from the last key, rows without keys": Case(rows=53, keys=37, window=CAUSAL, bottom_right=True),
        "both sides": Case(rows=61, keys=59, window=(5, 3)),
        "narrower than a tile, from the last key": Case(rows=61, keys=67, window=(2, 1), bottom_right=True),
        "the diagonal alone": Case(window=(0, 0)),
        "left side alone": Case(window=(7, None)),
        "left side alone, wide": Case(rows=97, keys=89, window=(40, None)),
        "right side alone": Case(window=(None, 9), rows=61, keys=59),
        "wider than everything": Case(window=(500, 500)),
        "behind the diagonal": Case(window=(-3, 9), bottom_right=True),
        "before the diagonal": Case(window=(9, -3)),
        "behind all keys": Case(window=(-60, 80)),
        "no key at all": Case(window=(5, -9)),
        "both sides, fused": Case(rows=61, keys=59, window=(17, 3), fused=True),
    },
    "bias": {
        "of everything": Case(bias="full"),
        "of everything, causal, batch": Case(batch=2, bias="full", rows=23, keys=29, window=CAUSAL),
        "one for all heads": Case(batch=2, bias="heads", rows=23, keys=29, window=CAUSAL, autograd=True),
        "one for all rows": Case(bias="rows", rows=23, keys=29, autograd=True),
        "without heads": Case(bias="matrix", rows=23, keys=29, autograd=True),
        "keys not one after the other": Case(bias="turned", rows=23, keys=29, autograd=True),
        "hides keys": Case(bias="hides keys", rows=23, keys=29),
        "hides rows": Case(bias="hides rows", rows=23, keys=29),
        "hides rows, causal, fused": Case(bias="hides rows", rows=23, keys=29, window=CAUSAL, fused=True),
        "fp16, fused": Case("float16", bias="full", fused=True),
        "with a window and dropout": Case(bias="full", window=(9, 4), dropout=0.3, seed=5),
    },
    "dropout": {
        "some": Case(dropout=0.3, seed=7),
        "causal, groups, large seed": Case(heads=4, key_heads=2, window=CAUSAL, dropout=0.5, seed=2**40 + 5),
        "seed 0": Case(dropout=0.2, seed=0),
        "seed 1": Case(dropout=0.2, seed=1),
        "negative seed": Case(dropout=0.2, seed=-3),
        "nearly all": Case(dropout=0.97, seed=11),
        "fused": Case(dropout=0.3, seed=7, fused=True),
        "fp16": Case("float16", dropout=0.4, seed=7, head_dim=64),
        "bf16, batch, other tiles": Case("bfloat16", batch=2, dropout=0.4, seed=9, tile=(16, 32)),
        "sequences": Case(dropout=0.3, seed=3, lengths=EMPTY_ONES, heads=4, key_heads=2),
        "through autograd": Case(dropout=0.3, seed=3, autograd=True),
    },
    "scales": {
        "negative": Case(sm_scale=-0.3),
        "negative, causal": Case(sm_scale=-0.3, window=CAUSAL, rows=61),
        "negative, bias, fp16": Case("float16", sm_scale=-0.3, bias="full"),
        "negative, window, fused": Case(sm_scale=-0.1, window=(9, 4), fused=True),
        "zero": Case(sm_scale=0.0),
        "zero, causal": Case(sm_scale=0.0, window=CAUSAL),
        "large": Case(sm_scale=9.0, window=CAUSAL),
        "large, few keys": Case("float16", sm_scale=30.0, keys=3),
        "large, few keys, copies": Case("float16", sm_scale=30.0, keys=3, copy=True),
        "large and negative": Case(sm_scale=-30.0),
    },
    "sequences": {
        "some empty": Case(lengths=EMPTY_ONES),
        "some empty, fused": Case(lengths=EMPTY_ONES, fused=True),
        "causal": Case(lengths=EMPTY_ONES, window=CAUSAL),
        "causal, each from its last key": Case(lengths=EMPTY_ONES, window=CAUSAL, bottom_right=True),
        "window, each from its last key, groups": Case(
            lengths=((5, 40), (13, 9), (1, 40), (21, 3)), heads=4, key_heads=2, window=(6, 2), bottom_right=True
        ),
        "one": Case(lengths=((37, 41),), window=CAUSAL),
        "all empty": Case(lengths=((0, 0), (0, 0)), autograd=True),
        "no rows": Case(lengths=((0, 5), (0, 2)), autograd=True),
        "fp16, padded head": Case("float16", lengths=EMPTY_ONES, head_dim=24),
        "through autograd": Case(lengths=EMPTY_ONES, window=CAUSAL, autograd=True),
    },
    "copies": {
        "plain": Case("float16", copy=True),
        "causal": Case("bfloat16", copy=True, window=CAUSAL, bottom_right=True),
        "window, groups": Case("float16", copy=True, batch=2, heads=6, key_heads=2, window=(9, 4)),
        "narrow window": Case("float16", copy=True, rows=67, keys=61, window=(-3, 9)),
        "padded head, dropout": Case("float16", copy=True, head_dim=40, window=CAUSAL, dropout=0.3),
        "sequences": Case("float16", copy=True, lengths=EMPTY_ONES, window=CAUSAL, bottom_right=True),
        "sequences, groups": Case("float16", copy=True, lengths=EMPTY_ONES, heads=4, key_heads=2),
        "bias, dropout, fused": Case("float16", copy=True, bias="full", dropout=0.3, fused=True),
        "rows before heads": Case("float16", copy=True, batch=2, heads=4, key_heads=2, layout="rows"),
        "gaps between rows": Case("float16", copy=True, batch=2, layout="gaps"),
        "negative scale": Case("float16", copy=True, sm_scale=-0.3),
        "no keys": Case("float16", copy=True, keys=0),
        "early, causal, fused": Case("float16", copy=True, early=True, window=CAUSAL, fused=True),
        "unaligned, so without": Case("float16", copy=True, head_dim=33),
    },
    "tiles": {
        "16 by 16": Case(tile=(16, 16), window=CAUSAL),
        "16 by 64": Case(tile=(16, 64), window=(19, 8)),
        "64 by 16": Case(tile=(64, 16), window=CAUSAL, bottom_right=True),
        "128 by 32": Case(tile=(128, 32), window=CAUSAL),
        "32 by 128, early": Case(tile=(32, 128), early=True),
        "early, causal": Case(early=True, window=CAUSAL),
        "16 by 64, fused": Case(tile=(16, 64), window=CAUSAL, fused=True),
        "64 by 16, fused, batch": Case(batch=2, tile=(64, 16), fused=True),
    },
}
