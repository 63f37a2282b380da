"""The model of Hopper devices: the terms of `model`, joined as the measured fields of an H200 have it.

docs/amd-tables.md explains both, and says how the constants were found and what is left of the differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.tables.devices import Device
from tools.tables.model import (
    FILL,
    PRODUCTS,
    RESCALE_OPS,
    ROW_OPS,
    Floats,
    Need,
    Problem,
    columns_of,
    ops_of,
    resident,
    visits_of,
)
from txtdb.model.values import Value

VERSION = "model-2"
DEVICES = ("sm_90",)

# Four warps give matrix instructions of 64 rows to all four matrix units of a multiprocessor at once.
GROUP_WARPS, GROUP_ROWS = 4, 64
# With fewer rows the older instructions are used.
FEW_ROWS = 0.5
# Share of the matrix units' rate that tiles of 32 columns reach; those of 16 reach its square.
NARROW = 0.75
# Scalar operations are this much faster than they are counted: some are merged, some run on another pipe.
SCALAR_FASTER = 1.4
# What a workgroup alone waits for in a visit: its scalar work in part, and barriers and branches in cycles.
EXPOSED, LOOP_CYCLES = 0.3, 270
# How much longer that is with fewer than three stages, when products are waited for before tiles are fetched;
# where two groups of warps share a workgroup and its barriers; where V is fetched late; and with tensor copies.
ONE_STAGE, TWO_STAGES, TWO_GROUPS, LATE_V, BY_TENSOR_COPY = 2.3, 1.6, 1.25, 1.07, 0.85
# A workgroup's start and end, making its descriptors, and a launch, in cycles.
START_CYCLES, DESCRIPTOR_CYCLES, LAUNCH_CYCLES = 4500, 3000, 5000
# Share of the memory's traffic that does not hide behind computing. Inputs are not in L2.
MEMORY = 0.9
# Matrices that a workgroup fetches or stores once.
MATRICES = {"attn_fwd": 2, "bwd_kernel_dq": 4, "bwd_kernel_dk_dv": 4}


def seconds(device: Device, problem: Problem, configs: Sequence[dict[str, Value]], need: Need) -> Floats:
    """Modelled time of each candidate in each cell; infinite where it cannot run."""
    columns = columns_of(configs)
    if problem.iface == "bwd_kernel_fuse":
        parts = [_seconds(device, problem, part, columns, need) for part in ("bwd_kernel_dk_dv", "bwd_kernel_dq")]
        return parts[0] + parts[1] - LAUNCH_CYCLES / (device.ghz * 1e9)
    return _seconds(device, problem, problem.iface, columns, need)


def _seconds(device: Device, problem: Problem, part: str, columns: dict[str, Any], need: Need) -> Floats:
    """One kernel: tiles of `outer` rows, each of which visits tiles of `inner` rows."""
    by_keys = part == "bwd_kernel_dk_dv"
    queries = np.array(problem.queries, float)[None, :, None]
    keys = np.array(problem.keys, float)[None, None, :]
    heads = np.maximum(FILL // queries, 1.0)
    outer, inner = (columns[name] for name in (("BLOCK_N", "BLOCK_M") if by_keys else ("BLOCK_M", "BLOCK_N")))
    rows, others = (keys, queries) if by_keys else (queries, keys)
    tiles = np.ceil(rows / outer)
    visits, longest = visits_of(problem.causal, by_keys, rows, others, tiles, outer, inner)

    needs = need.spread()
    residents = resident(device, columns["num_warps"], needs)
    most = np.maximum(residents, 1)
    matrix, scalar, chain = _visit(device, problem, part, columns)
    prologue = START_CYCLES + DESCRIPTOR_CYCLES * columns.get("TENSOR_COPY", 0.0)
    once = MATRICES[part] * outer * problem.head_dim * problem.element
    prologue = prologue + once / device.l2_bytes_cycle
    groups, slots = tiles * heads, device.units * most
    if problem.causal:
        # The longest start first, so that the short ones fill the end.
        spread = (visits * heads * _joined(most * matrix, most * scalar, chain) + groups * prologue) / slots
        cycles = np.maximum(spread, longest * _joined(matrix, scalar, chain) + prologue)
    else:
        whole = np.floor(groups / slots)
        rest = np.ceil((groups - whole * slots) / device.units)
        last = longest * _joined(rest * matrix, rest * scalar, chain) + prologue
        cycles = whole * (longest * _joined(most * matrix, most * scalar, chain) + prologue)
        cycles = cycles + np.where(rest > 0, last, 0.0)
    total = (cycles + LAUNCH_CYCLES) / (device.ghz * 1e9) + MEMORY * _bytes(problem, heads) / (device.gbs * 1e9)
    return np.where(residents >= 1, total, np.inf)


def _visit(device: Device, problem: Problem, part: str, columns: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Cycles of one visit: of the matrix units, of the scalar ones, and of a workgroup that is alone."""
    by_keys = part == "bwd_kernel_dk_dv"
    outer, inner = (columns[name] for name in (("BLOCK_N", "BLOCK_M") if by_keys else ("BLOCK_M", "BLOCK_N")))
    groups = columns["num_warps"] / GROUP_WARPS
    rate = device.matrix32 if problem.dtype == "fp32" else device.matrix16
    by_rows = np.where(outer / groups >= GROUP_ROWS, 1.0, FEW_ROWS)
    by_width = np.where(inner >= 64, 1.0, np.where(inner >= 32, NARROW, NARROW**2))
    matrix = 2 * PRODUCTS[part] * outer * inner * problem.head_dim / (rate * by_rows * by_width)
    rescaled = outer * (RESCALE_OPS[part] * problem.head_dim + ROW_OPS[part]) / device.lanes
    scalar = outer * inner * (ops_of(problem, part) / device.lanes + 1 / device.exps) + rescaled
    alone = (matrix + EXPOSED * scalar) / groups + LOOP_CYCLES
    stages = columns["num_stages"]
    chain = alone * np.where(stages >= 3, 1.0, np.where(stages >= 2, TWO_STAGES, ONE_STAGE))
    chain = (
        chain * np.where(groups > 1, TWO_GROUPS, 1.0) * np.where(columns.get("TENSOR_COPY", 0.0), BY_TENSOR_COPY, 1.0)
    )
    if part == "attn_fwd":
        chain = chain * np.where(columns["PRE_LOAD_V"], 1.0, LATE_V)
    return matrix, scalar / SCALAR_FASTER, chain


def _joined(*cycles: Floats) -> Floats:
    """What takes place side by side, and hides the less the more alike it is: the root of the sum of squares."""
    return np.sqrt(sum(part**2 for part in cycles))


def _bytes(problem: Problem, heads: Floats) -> Floats:
    """What is read from memory and written to it at least."""
    queries = np.array(problem.queries, float)[None, :, None]
    keys = np.array(problem.keys, float)[None, None, :]
    scores = queries * keys if problem.bias else 0.0
    return heads * (2 * (queries + keys) * problem.head_dim + scores) * problem.element
