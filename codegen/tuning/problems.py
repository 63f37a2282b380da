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
# Float64 references of longer sequences take more time than the check of each candidate is worth.
LONGEST_CHECKED = 512
# Scores (heads × rows × keys) of a problem that confirms a candidate: 80 MiB in float64, and the up to six problems of
# a cell stay below 64 M.
MOST_CONFIRMED = 10 << 20
# Seeds of problems that confirm are apart from those that check, which are numbered from 0.
CONFIRMING_SEED = 1000
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
    masks = [WINDOWS[number % len(WINDOWS)] for number in range(len(shapes) + 1)]
    problems = [_problem(task, number, *shape, masks[number]) for number, shape in enumerate(shapes)]
    if not task.functional["BIAS_TYPE"]:
        problems.append(_problem(task, len(shapes), 131, 259, HEADS, masks[-1], ragged=1))
    return problems


def confirmation_problems(task: Task) -> list[Problem]:
    """One problem of the very sizes of a task, or two where that has more than `MOST_CONFIRMED` scores.

    Then each side is at its real length once, and the other one is cut to an odd number. The number of heads is that of
    the checks, for the sake of the image; inputs and masks are others.
    """
    rows, keys = (task.at[axis] for axis in ("Max_seqlen_q", "Max_seqlen_k"))
    most = MOST_CONFIRMED // HEADS
    shapes = dict.fromkeys(((rows, _cut(keys, most // rows)), (_cut(rows, most // keys), keys)))
    first = CONFIRMING_SEED + rows + keys
    return [_problem(task, seed, *shape, HEADS, _long_mask(*shape, seed)) for seed, shape in enumerate(shapes, first)]


def _long_mask(rows: int, keys: int, seed: int) -> dict[str, int]:
    """Causal, where most rows see most keys, or for odd seeds the half of these that is nearest."""
    causal = {"window_right": 0, "bottom_right": int(keys >= rows)}
    return {**causal, "window_left": max(rows, keys) // 2} if seed % 2 else causal


def _cut(length: int, most: int) -> int:
    """A length, or the largest odd number up to `most` where that is less."""
    return length if length <= most else max(1, (most - 1) | 1)


def _problem(
    task: Task, seed: int, rows: int, keys: int, heads: int, mask: Mapping[str, int], ragged: int = 0
) -> Problem:
    """A problem of one batch entry, or of sequences of unlike lengths; the mask is for kernels that have one."""
    sizes = {"batch": 1, "heads": heads, "key_heads": HEADS, "rows": rows, "keys": keys, "ragged": ragged}
    if task.functional["CAUSAL_TYPE"]:
        sizes |= mask
    return Problem({**sizes, "head_dim": head_dim(task.functional)}, seed=seed)


def lengths(problem: Problem) -> list[tuple[int, int]]:
    """(rows, keys) of the sequences of a ragged problem: full ones, empty ones, and the shortest."""
    rows, keys = problem.sizes["rows"], problem.sizes["keys"]
    return [(rows, keys), (rows // 3, 0), (0, keys // 2), (1, keys // 4 + 1), (rows // 2, rows // 2)]
