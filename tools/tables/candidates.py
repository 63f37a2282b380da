"""The configs that are worth compiling for a functional, before anything is known of their images."""

from __future__ import annotations

from itertools import product

import numpy as np

from tools.tables.devices import Device
from tools.tables.model import Floats, Need, Problem
from txtdb.model.schema import ArchSchema
from txtdb.model.values import Value

Config = dict[str, Value]

BASE_REGISTERS = 40
# What bias, mask and dropout keep a lane, for each of its scores.
FEATURE_REGISTERS = {"bias": 3.0, "dropout": 5.0, "causal": 1.0}
# The operands of gfx11's matrix instructions stand in both halves of a wave.
OPERAND_COPIES = {"gfx11": 2.0}
# Without matrix instructions for float32 each lane holds whole rows of operands.
SCALAR_FP32_COPIES = {"gfx11": 6.0, "gfx12": 6.0, "sm_90": 2.0}

SCALAR_SCORES = 4
MOST_SCORES = 64

TILES_M = {"attn_fwd": (16, 32, 64, 128, 256), "other": (16, 32, 64, 128)}
TILES_N = (16, 32, 64, 128)
WARPS = (2, 4, 8)


def candidates(arch_schema: ArchSchema, device: Device, problem: Problem) -> list[Config]:
    """Legal configs in a fixed order: the product of tiles, warps, stages and options, less what cannot be good."""
    forward, nvidia = problem.iface == "attn_fwd", device.name.startswith("sm_")
    options: list[tuple[str, tuple[Value, ...]]] = [
        ("BLOCK_M", TILES_M["attn_fwd" if forward else "other"]),
        ("BLOCK_N", TILES_N),
        ("num_warps", WARPS[1:] if nvidia else WARPS),
        ("num_stages", (1, 2, 3) if nvidia else (1, 2)),
    ]
    if nvidia:
        options.append(("TENSOR_COPY", (False, True) if problem.dtype != "fp32" else (False,)))
        options += [("PRE_LOAD_V", (False, True))] if forward else []
    else:
        # Triton takes a number for the most waves too: 1 would leave the other registers of a SIMD to nobody. 2 may be
        # worth it where the compiler by itself takes registers for one.
        options.append(("waves_per_eu", (0, 2) if device.wave == 64 else (0,)))
        options += [("PRE_LOAD_V", (False,))] if forward else []
    names = [name for name, _ in options]
    scalar_dot = problem.dtype == "fp32" and device.wave == 32
    every = (dict(zip(names, values, strict=True)) for values in product(*(values for _, values in options)))
    return [config for config in every if _sensible(device, config, scalar_dot) and not _illegal(arch_schema, config)]


def _sensible(device: Device, config: Config, scalar_dot: bool) -> bool:
    """Waves have 8 to 32 rows of the longer tile, and lanes not so many scores that the code grows out of its cache.

    Without matrix instructions each lane holds whole rows of operands, so that more than a few scores a lane spill.
    """
    block_m, block_n, warps = (int(config[name]) for name in ("BLOCK_M", "BLOCK_N", "num_warps"))
    if scalar_dot:
        return block_m * block_n <= SCALAR_SCORES * warps * device.wave
    rows = max(block_m, block_n) / warps
    most = 64 if device.name.startswith("sm_") else 32
    return 8 <= rows <= most and block_m * block_n <= MOST_SCORES * warps * device.wave


def _illegal(arch_schema: ArchSchema, config: Config) -> bool:
    return bool(arch_schema.illegal(tuple(config[name] for name in arch_schema.schema.field_names)))


def estimate(device: Device, problem: Problem, configs: list[Config], factor: float = 1.0) -> Need:
    """What images will need, before they are compiled: the operands and results that a lane holds at a time.

    `factor` corrects the number of registers.
    """
    columns = {name: np.array([float(config[name]) for config in configs]) for name in ("BLOCK_M", "BLOCK_N")}
    warps = np.array([float(config["num_warps"]) for config in configs])
    stages = np.array([float(config["num_stages"]) for config in configs])
    held = _held(device, problem, columns["BLOCK_M"], columns["BLOCK_N"], warps) * factor
    budget = np.array([float(_budget(device, config)) for config in configs])
    inner = columns["BLOCK_M"] if problem.iface == "bwd_kernel_dk_dv" else columns["BLOCK_N"]
    if problem.iface == "bwd_kernel_fuse":
        inner = np.maximum(columns["BLOCK_M"], columns["BLOCK_N"])
    shared = inner * problem.head_dim * problem.element * np.maximum(stages, 1) * (2 if device.wave == 32 else 1)
    asked = np.array([float(config.get("waves_per_eu", 0)) for config in configs])
    return Need(np.minimum(held, budget), np.maximum(held - budget, 0.0), shared, np.where(asked > 0, asked, np.inf))


def _held(device: Device, problem: Problem, block_m: Floats, block_n: Floats, warps: Floats) -> Floats:
    if problem.iface == "bwd_kernel_fuse":
        parts = ("bwd_kernel_dk_dv", "bwd_kernel_dq")
        return np.maximum(*(_held_by(device, problem, part, block_m, block_n, warps) for part in parts))
    return _held_by(device, problem, problem.iface, block_m, block_n, warps)


def _held_by(device: Device, problem: Problem, part: str, block_m: Floats, block_n: Floats, warps: Floats) -> Floats:
    lanes, outer, inner = warps * device.wave, block_m, block_n
    if part == "bwd_kernel_dk_dv":
        outer, inner = block_n, block_m
    results = {"attn_fwd": 1, "bwd_kernel_dq": 1, "bwd_kernel_dk_dv": 2}[part]
    kept = {"attn_fwd": 1, "bwd_kernel_dq": 2, "bwd_kernel_dk_dv": 2}[part]
    words, copies = problem.element / 4, _copies(device, problem)
    scores = block_m * block_n / lanes
    features = sum(FEATURE_REGISTERS[name] * getattr(problem, name) for name in FEATURE_REGISTERS)
    operands = kept * outer * problem.head_dim * words / lanes + 2 * inner * problem.head_dim * words / device.wave
    if device.name.startswith("sm_"):
        operands = kept * outer * problem.head_dim * words / lanes * (problem.dtype == "fp32")
    return (
        BASE_REGISTERS
        + results * outer * problem.head_dim / lanes
        + operands * copies
        + scores * (2 if part == "attn_fwd" else 3)
        + features * np.minimum(scores, 16)
    )


def _copies(device: Device, problem: Problem) -> float:
    table = SCALAR_FP32_COPIES if problem.dtype == "fp32" else OPERAND_COPIES
    return next((copies for family, copies in table.items() if device.name.startswith(family)), 1.0)


def _budget(device: Device, config: Config) -> int:
    """Registers that a lane may have."""
    if device.name.startswith("sm_"):
        return min(255, device.registers * device.simds // (int(config["num_warps"]) or 1))
    if device.wave == 64:
        return 512 // max(int(config["waves_per_eu"]), 1)
    return min(device.registers, 1024 if device.name == "gfx1250" else 256)
