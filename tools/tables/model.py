"""The analytic model: seconds of a kernel for a config, from what its compiled image needs and the device's rates.

docs/amd-tables.md explains each term. Arrays have the shape (candidates, query lengths, key lengths).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tools.tables.devices import Device
from txtdb.model.values import Value

VERSION = "model-1.1"

# Problems fill the device: batch × heads × queries is about this.
FILL = 1 << 17
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

# Scalar operations for each score: scaling, maximum, subtraction, sum, conversion.
PLAIN_OPS = {"attn_fwd": 8, "bwd_kernel_dk_dv": 9, "bwd_kernel_dq": 9}
MASK_OPS = 3
BIAS_OPS = 6
# Ten rounds of Philox, of which one word in four is used.
DROPOUT_OPS = 110
# For each element of the running result, which is scaled anew by every tile, and for each row, reduced over lanes.
RESCALE_OPS = {"attn_fwd": 1, "bwd_kernel_dk_dv": 0, "bwd_kernel_dq": 0}
ROW_OPS = {"attn_fwd": 40, "bwd_kernel_dk_dv": 4, "bwd_kernel_dq": 4}
# Addresses, waits and branches of a wave in each visit, in cycles of its SIMD.
LOOP_CYCLES = 100
# Share of the peak that L2 gives when all units read.
CACHE_SHARE = 0.6
# Matrix products of a tile: queries × keys × head dim each.
PRODUCTS = {"attn_fwd": 2, "bwd_kernel_dk_dv": 4, "bwd_kernel_dq": 3}
# Share of the scalar work that does not hide behind matrix instructions of other waves.
EXPOSED = 0.5
BARRIER_CYCLES = 60
PROLOGUE_LATENCIES = 3

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Need:
    """What candidates need, one entry each: `registers` a lane, `spills` of them in memory, `shared` bytes.

    `waves`: most waves of a SIMD, where something else than that limits them; infinite where nothing does.
    """

    registers: Floats
    spills: Floats
    shared: Floats
    waves: Floats

    def spread(self) -> Need:
        """The same, of shape (candidates, 1, 1)."""
        return Need(*(value[:, None, None] for value in (self.registers, self.spills, self.shared, self.waves)))


@dataclass(frozen=True)
class Problem:
    """One functional; lengths are the bins."""

    iface: str
    dtype: str
    head_dim: int
    causal: bool
    dropout: bool
    bias: bool
    queries: tuple[int, ...]
    keys: tuple[int, ...]

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]


def seconds(device: Device, problem: Problem, configs: Sequence[dict[str, Value]], need: Need) -> Floats:
    """Modelled time of each candidate in each cell; infinite where it cannot run."""
    columns = columns_of(configs)
    if problem.iface == "bwd_kernel_fuse":
        parts = [_seconds(device, problem, part, columns, need) for part in ("bwd_kernel_dk_dv", "bwd_kernel_dq")]
        return parts[0] + parts[1]
    return _seconds(device, problem, problem.iface, columns, need)


def resident(device: Device, warps: Floats, need: Need) -> Floats:
    """Workgroups that share a compute unit; 0 where one does not fit."""
    taken = np.ceil(need.registers / device.step) * device.step
    waves = np.minimum(np.floor(device.registers / np.maximum(taken, device.step)), device.waves)
    waves = np.minimum(waves, need.waves)
    by_registers = np.floor(waves * device.simds / warps)
    by_lds = np.floor(device.lds / np.maximum(need.shared, 1))
    return np.minimum(np.minimum(by_registers, by_lds), 16)


def columns_of(configs: Sequence[dict[str, Value]]) -> dict[str, Floats]:
    """Fields of configs as numbers, of shape (candidates, 1, 1); booleans are 0 and 1."""
    names = sorted({name for config in configs for name in config})
    return {name: np.array([float(config.get(name, 0)) for config in configs])[:, None, None] for name in names}


def _seconds(device: Device, problem: Problem, part: str, columns: dict[str, Any], need: Need) -> Floats:
    """One kernel: tiles of `outer` rows, each of which visits tiles of `inner` rows."""
    by_keys = part == "bwd_kernel_dk_dv"
    block_m, block_n, warps = columns["BLOCK_M"], columns["BLOCK_N"], columns["num_warps"]
    queries = np.array(problem.queries, float)[None, :, None]
    keys = np.array(problem.keys, float)[None, None, :]
    heads = np.maximum(FILL // queries, 1.0)
    outer, inner = (block_n, block_m) if by_keys else (block_m, block_n)
    rows, others = (keys, queries) if by_keys else (queries, keys)
    tiles = np.ceil(rows / outer)
    visits, longest = visits_of(problem.causal, by_keys, rows, others, tiles, outer, inner)

    needs = need.spread()
    residents = resident(device, warps, needs)
    busy, chain = _iteration(device, problem, part, columns, needs)
    prologue = _prologue(device, problem, part, outer)
    slots = device.units * np.maximum(residents, 1)
    step = np.maximum(busy * np.maximum(residents, 1), chain)
    groups = tiles * heads
    if problem.causal:
        # The longest start first, so that the short ones fill the end.
        cycles = np.maximum((visits * heads * step + groups * prologue) / slots, longest * chain + prologue)
    else:
        whole = np.floor(groups / slots)
        rest = np.ceil((groups - whole * slots) / device.units)
        last = np.where(rest > 0, longest * np.maximum(busy * rest, chain) + prologue, 0.0)
        cycles = whole * (longest * step + prologue) + last
    memory = heads * (2 * queries + 2 * keys) * problem.head_dim * problem.element / (device.gbs * 1e9)
    if problem.bias:
        memory = memory + heads * queries * keys * problem.element / (device.gbs * 1e9)
    total = np.maximum(cycles / (device.ghz * 1e9), memory)
    return np.where(residents >= 1, total, np.inf)


def visits_of(
    causal: bool, by_keys: bool, rows: Floats, others: Floats, tiles: Floats, outer: Floats, inner: Floats
) -> tuple[Floats, Floats]:
    """Inner tiles that a head visits in all, and those of its longest outer tile.

    Under a causal mask query i sees keys 0 to i; a tile of keys is seen by the queries from its own place on.
    """
    most = np.ceil(others / inner)
    if not causal:
        return tiles * most, np.broadcast_to(most, np.broadcast(tiles, most).shape)
    seen = np.minimum(others / outer, tiles)
    if by_keys:
        # Tile t of keys is seen by the queries behind t * outer.
        whole = np.minimum(np.ceil(seen), tiles)
        visits = whole * most - outer / inner * whole * (whole - 1) / 2
        return np.maximum(visits, whole), most * np.ones_like(tiles)
    whole = np.floor(seen)
    visits = outer / inner * whole * (whole + 1) / 2 + (tiles - whole) * most
    longest = np.minimum(np.ceil(tiles * outer / inner), most)
    return np.maximum(visits, tiles), longest


def _iteration(
    device: Device, problem: Problem, part: str, columns: dict[str, Any], need: Need
) -> tuple[Floats, Floats]:
    """Cycles that one visit keeps a unit busy, and cycles until it is done when the workgroup is alone."""
    block_m, block_n, warps = columns["BLOCK_M"], columns["BLOCK_N"], columns["num_warps"]
    scores, head_dim, element = block_m * block_n, problem.head_dim, problem.element
    matrix = 2 * PRODUCTS[part] * scores * head_dim / _matrix_rate(device, problem, part, columns)
    outer = block_n if part == "bwd_kernel_dk_dv" else block_m
    once = outer * (RESCALE_OPS[part] * head_dim + ROW_OPS[part]) / device.lanes + LOOP_CYCLES * warps / device.simds
    scalar = scores * (ops_of(problem, part) / device.lanes + 1 / device.exps) + once
    inner = block_m if part == "bwd_kernel_dk_dv" else block_n
    fetched = 2 * inner * head_dim * element
    if problem.bias:
        fetched = fetched + scores * element
    lds = fetched * (1 + _readers(device, columns)) / device.lds_bytes_cycle
    spilled = need.spills * 2 * 4 * warps * device.wave
    cache = (fetched + spilled) / (device.l2_bytes_cycle * CACHE_SHARE)
    busy = np.maximum(np.maximum(matrix + EXPOSED * scalar, scalar), np.maximum(lds, cache))
    share = np.minimum(warps / device.simds, 1.0)
    compute = (matrix + scalar) / share + lds
    stages = np.maximum(columns["num_stages"], 1)
    wait = np.maximum(device.latency + cache - (stages - 1) * compute, 0.0)
    return busy, compute + wait + BARRIER_CYCLES


def _matrix_rate(device: Device, problem: Problem, part: str, columns: dict[str, Any]) -> Floats:
    """Operations a cycle; small tiles of a wave feed the matrix instructions badly."""
    full = device.matrix32 if problem.dtype == "fp32" else device.matrix16
    outer = columns["BLOCK_N"] if part == "bwd_kernel_dk_dv" else columns["BLOCK_M"]
    inner = columns["BLOCK_M"] if part == "bwd_kernel_dk_dv" else columns["BLOCK_N"]
    rows = outer / columns["num_warps"]
    by_rows = np.where(rows >= 32, 1.0, np.where(rows >= 16, 0.85, rows / 16 * 0.85))
    by_width = np.where(inner >= 64, 1.0, np.where(inner >= 32, 0.9, 0.75))
    return full * by_rows * by_width


def _readers(device: Device, columns: dict[str, Any]) -> Floats:
    """How often a fetched tile is read out of local memory: by each wave, on NVIDIA by each group of four."""
    warps = columns["num_warps"]
    return warps / 4 if device.name.startswith("sm_") else warps


def ops_of(problem: Problem, part: str) -> float:
    """Scalar operations a score, without the exponential."""
    ops = PLAIN_OPS[part] + MASK_OPS * 0.25 * problem.causal
    return ops + BIAS_OPS * problem.bias + DROPOUT_OPS * problem.dropout


def _prologue(device: Device, problem: Problem, part: str, outer: Floats) -> Floats:
    """Cycles of a workgroup outside of its loop: what it fetches once, what it stores, and their latencies."""
    matrices = {"attn_fwd": 2, "bwd_kernel_dq": 4, "bwd_kernel_dk_dv": 4}[part]
    return PROLOGUE_LATENCIES * device.latency + matrices * outer * problem.head_dim * problem.element / (
        device.l2_bytes_cycle
    )
