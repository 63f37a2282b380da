"""The rule behind the starter tables: conservative configs from facts of the arch, nothing measured.

amd/README.md explains it in words. Tiles are as large as these three limits allow:

- queries and keys: no tile is longer than the bin of its axis;
- local memory: the K and V tiles of all stages fit half of it, so that two workgroups share a compute unit;
- registers: accumulator, Q, scores and probabilities fit half of a wave's registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from txtdb.model.archs import Arch
from txtdb.model.values import Value

VERSION = "starter-1"

SMALLEST_TILE = 16
LARGEST_BLOCK_M = 128
ACCUMULATOR_BYTES = 4
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

Config = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Problem:
    """One cell: the keys that matter to the rule and the bins of both axes."""

    dtype: str
    head_dim: int
    dropout: bool
    bias: bool
    seqlen_q: int
    seqlen_k: int


def choose(arch: Arch, problem: Problem) -> Config:
    """The starter config of one cell."""
    block_n = _block_n(arch, problem)
    block_m = _block_m(arch, problem, block_n)
    stages = 2 if _tile_bytes(problem, block_n, 2) <= _lds_share(arch) else 1
    roomy = _registers(arch, problem, block_m, block_n) <= _budget(arch) // 4
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "PRE_LOAD_V": False,
        "waves_per_eu": 2 if roomy else 1,
        "num_warps": _warps(block_m),
        "num_stages": stages,
    }


def few_queries(problem: Problem, config: Config) -> Config | None:
    """The config that the patch over the table sets; None where it leaves the table alone.

    With few queries and many keys a workgroup mostly waits for K and V: half the tile and one stage more take the
    same local memory and fetch the next tile during the current one.
    """
    block_n = config["BLOCK_N"]
    decoding = problem.seqlen_q <= 32 and problem.seqlen_k >= 4096 and not (problem.dropout or problem.bias)
    if not decoding or config["num_stages"] != 1 or not isinstance(block_n, int) or block_n == SMALLEST_TILE:
        return None
    return {**config, "BLOCK_N": block_n // 2, "num_stages": 2}


def _block_n(arch: Arch, problem: Problem) -> int:
    """From one key per lane down; half of it where dropout or bias bring a further tile of that width."""
    block_n = arch.wave_size or SMALLEST_TILE
    if problem.dropout or problem.bias:
        block_n //= 2
    block_n = min(block_n, problem.seqlen_k)
    while block_n > SMALLEST_TILE and _tile_bytes(problem, block_n, 1) > _lds_share(arch):
        block_n //= 2
    return max(block_n, SMALLEST_TILE)


def _block_m(arch: Arch, problem: Problem, block_n: int) -> int:
    block_m = min(LARGEST_BLOCK_M, problem.seqlen_q)
    while block_m > SMALLEST_TILE and _registers(arch, problem, block_m, block_n) > _budget(arch) // 2:
        block_m //= 2
    return max(block_m, SMALLEST_TILE)


def _warps(block_m: int) -> int:
    """Two waves share the smallest tile, four any other."""
    return 2 if block_m == SMALLEST_TILE else 4


def _tile_bytes(problem: Problem, block_n: int, stages: int) -> int:
    """Local memory for a K and a V tile in each stage."""
    return 2 * stages * block_n * problem.head_dim * ELEMENT_BYTES[problem.dtype]


def _registers(arch: Arch, problem: Problem, block_m: int, block_n: int) -> int:
    """Registers per lane of one wave: accumulator and Q of the head dim, scores and probabilities of the key tile."""
    row = problem.head_dim * (ACCUMULATOR_BYTES + ELEMENT_BYTES[problem.dtype]) + 2 * block_n * ACCUMULATOR_BYTES
    lanes = _warps(block_m) * (arch.wave_size or 1)
    return block_m * row // (4 * lanes)


def _lds_share(arch: Arch) -> int:
    return (arch.lds_bytes or 0) // 2


def _budget(arch: Arch) -> int:
    return arch.vgpr_budget or 0
