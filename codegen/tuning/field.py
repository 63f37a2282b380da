"""Which configs are worth trying for a cell: what the schema admits, less what cannot be fast or cannot run.

The rules look at the functional, the bins and one config at a time, never at the device or at other configs, so that
the field is the same everywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.tuning.compiling import SHARED_BYTES
from codegen.tuning.problems import ELEMENT_BYTES
from txtdb.tune.device import Config, Task

# Matrix units take at least this many rows from each warp.
WARP_ROWS = 16
# Tiles cover a quarter of their sequence at least, up to so many rows: 64 of what stays are what the matrix units of
# Hopper take at once from four warps.
LEAST_OWN, LEAST_FETCHED = 64, 32
# Head dims from which accumulators leave room for small tiles only.
WIDE = 256
# Float32 accumulators that a thread can hold in its 255 registers while it addresses tiles.
THREAD_VALUES = {"attn_fwd": 256, "bwd_kernel_dk_dv": 288, "bwd_kernel_dq": 288, "bwd_kernel_fuse": 288}
LANES = 32


def narrow(task: Task, configs: Sequence[Config]) -> list[Config]:
    """The configs of a cell's field, in the given order."""
    return [config for config in configs if _fits_sequences(task, config) and _fits_device(task, config)]


def _fits_sequences(task: Task, config: Config) -> bool:
    """Tiles are not wider than the sequences, and not small where these are long."""
    rows, keys = (_power(task.at[axis]) for axis in ("Max_seqlen_q", "Max_seqlen_k"))
    least_rows, least_keys = _least(task)
    tile_rows, tile_keys = int(config["BLOCK_M"]), int(config["BLOCK_N"])
    return min(least_rows, rows // 4) <= tile_rows <= rows and min(least_keys, keys // 4) <= tile_keys <= keys


def _least(task: Task) -> tuple[int, int]:
    """The least tiles of rows and of keys for long sequences."""
    fetched = WARP_ROWS if int(task.functional["BLOCK_DMODEL"]) >= WIDE else LEAST_FETCHED
    own = max(fetched, LEAST_OWN // 2) if int(task.functional["BLOCK_DMODEL"]) >= WIDE else LEAST_OWN
    return {"bwd_kernel_dk_dv": (fetched, own), "bwd_kernel_fuse": (fetched, fetched)}.get(task.iface, (own, fetched))


def _power(size: int) -> int:
    """The least power of two that is no less than a size, and than a matrix unit's side."""
    return max(WARP_ROWS, 1 << (size - 1).bit_length())


def _fits_device(task: Task, config: Config) -> bool:
    """Every warp has rows, the accumulators registers, the stages shared memory, and a copy engine stages to fill."""
    if _own_rows(task, config) < WARP_ROWS * int(config["num_warps"]):
        return False
    if config.get("TENSOR_COPY") and int(config["num_stages"]) < 2:
        return False
    return _values(task, config) <= THREAD_VALUES[task.iface] and _shared_suffices(task, config)


def _own_rows(task: Task, config: Config) -> int:
    """Rows of the tile that stays while the other matrices are gone through."""
    rows, keys = int(config["BLOCK_M"]), int(config["BLOCK_N"])
    return {"bwd_kernel_dk_dv": keys, "bwd_kernel_fuse": max(rows, keys)}.get(task.iface, rows)


def _values(task: Task, config: Config) -> int:
    """Accumulators and scores of a program, for each thread."""
    rows, keys, width = (
        int(value) for value in (config["BLOCK_M"], config["BLOCK_N"], task.functional["BLOCK_DMODEL"])
    )
    sums = {"attn_fwd": rows, "bwd_kernel_dq": rows, "bwd_kernel_dk_dv": 2 * keys}.get(task.iface, max(rows, 2 * keys))
    return (sums * width + rows * keys) // (LANES * int(config["num_warps"]))


def _shared_suffices(task: Task, config: Config) -> bool:
    """The tiles that the loop fetches, once for each stage, beside those that stay."""
    most = SHARED_BYTES.get(int(task.arch[3:])) if task.arch.startswith("sm_") else None
    if most is None:
        return True
    rows, keys = int(config["BLOCK_M"]), int(config["BLOCK_N"])
    fetched = rows if task.iface == "bwd_kernel_dk_dv" else keys
    row_bytes = int(task.functional["BLOCK_DMODEL"]) * ELEMENT_BYTES[str(task.functional["Q_dtype"])]
    return 2 * fetched * row_bytes * max(1, int(config["num_stages"]) - 1) <= most
