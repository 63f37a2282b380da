"""The problems that attention candidates are timed and checked with.

Everything that the compiler looks at is the same in all problems of a functional, so that one image serves them:
numbers of heads, head dims and row lengths of what is read by rows are multiples of `ALIGNED`, the seed needs 64 bits.
What is checked is therefore the image that is timed.
"""

from __future__ import annotations

from collections.abc import Mapping

from txtdb.model.values import Value
from txtdb.tune.device import Task
from txtdb.tune.tunable import Problem

# Triton compiles other images for arguments that are no multiples of this.
ALIGNED = 16
HEADS = 16
SEED = 1 << 40 | 12345
DROPOUT = 0.2
# Head dims that stand for those which are padded to the key's value.
PADDED = {32: 16, 64: 48, 128: 80, 256: 192}
ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
# K and V of a timing problem take at most this much memory, a multiple of any L2 cache.
MOST_BYTES = 1 << 31
# Float64 references of longer sequences take more time than the check is worth.
LONGEST_CHECKED = 512
# (rows, keys, query heads): one row, one tile and a bit, more rows than keys, heads in groups.
ODD_SIZES = ((33, 70, HEADS), (129, 257, 2 * HEADS), (300, 17, HEADS), (1, 515, HEADS))
# Masks of the windowed kernels, in turn: causal from the first key, causal to the last one, two numeric windows.
WINDOWS: tuple[dict[str, int], ...] = (
    {"window_right": 0},
    {"window_right": 0, "bottom_right": 1},
    {"window_left": 40, "window_right": 7},
    {"window_left": 100, "window_right": -3, "bottom_right": 1},
)


def head_dim(functional: Mapping[str, Value]) -> int:
    """The head dim that a functional is tried with."""
    block = int(functional["BLOCK_DMODEL"])
    return PADDED[block] if functional["PADDED_HEAD"] else block


def timing_problem(task: Task, fill: int) -> Problem:
    """Sequences as long as the cell's bins, and so many that batch × heads × rows is about `fill`.

    A mask is causal, up to the last key where there are as many keys as rows or more. Where keys are much longer than
    rows, memory bounds the batch (`MOST_BYTES`).
    """
    rows, keys = task.at["Max_seqlen_q"], task.at["Max_seqlen_k"]
    width = head_dim(task.functional)
    bytes_each = 2 * HEADS * keys * width * ELEMENT_BYTES[str(task.functional["Q_dtype"])]
    batch = max(1, min(fill // (HEADS * rows), MOST_BYTES // bytes_each))
    sizes = {"batch": batch, "heads": HEADS, "key_heads": HEADS, "rows": rows, "keys": keys, "head_dim": width}
    if task.functional["CAUSAL_TYPE"]:
        sizes |= {"window_right": 0, "bottom_right": int(keys >= rows)}
    return Problem(sizes)


def accuracy_problems(task: Task) -> list[Problem]:
    """Odd sizes, those at both edges of the cell's bin as far as they are small, and sequences of unlike lengths."""
    edges = [tuple(min(task.at[axis], LONGEST_CHECKED) for axis in ("Max_seqlen_q", "Max_seqlen_k"))]
    edges.append((edges[0][0] // 2 + 1, edges[0][1] // 2 + 1))
    shapes = [*ODD_SIZES, *((rows, keys, HEADS) for rows, keys in edges)]
    problems = [_small(task, number, *shape, ragged=0) for number, shape in enumerate(shapes)]
    if not task.functional["BIAS_TYPE"]:
        problems.append(_small(task, len(shapes), 131, 259, HEADS, ragged=1))
    return problems


def _small(task: Task, number: int, rows: int, keys: int, heads: int, ragged: int) -> Problem:
    sizes = {"batch": 1, "heads": heads, "key_heads": HEADS, "rows": rows, "keys": keys, "ragged": ragged}
    if task.functional["CAUSAL_TYPE"]:
        sizes |= WINDOWS[number % len(WINDOWS)]
    return Problem({**sizes, "head_dim": head_dim(task.functional)}, seed=number)


def lengths(problem: Problem) -> list[tuple[int, int]]:
    """(rows, keys) of the sequences of a ragged problem: full ones, empty ones, and the shortest."""
    rows, keys = problem.sizes["rows"], problem.sizes["keys"]
    return [(rows, keys), (rows // 3, 0), (0, keys // 2), (1, keys // 4 + 1), (rows // 2, rows // 2)]
