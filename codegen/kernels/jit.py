"""Kernels compiled by Triton when they are launched. Nothing else that calls the kernels needs Triton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import triton

from codegen.kernels.backward import bwd_kernel_dk_dv, bwd_kernel_dq, bwd_kernel_fuse, bwd_preprocess
from codegen.kernels.forward import attn_fwd

KERNELS: dict[str, Any] = {
    "attn_fwd": attn_fwd,
    "bwd_preprocess": bwd_preprocess,
    "bwd_kernel_dk_dv": bwd_kernel_dk_dv,
    "bwd_kernel_dq": bwd_kernel_dq,
    "bwd_kernel_fuse": bwd_kernel_fuse,
}

# Config fields that are options of the compiler. Those of the other vendor's compiler change nothing.
_OPTIONS = ("num_warps", "num_stages", *(("waves_per_eu",) if torch.version.hip else ("maxnreg",)))


def start(kernel: Any, grid: tuple[int, ...], values: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Launch a kernel, compiled for the current device when it is new; `values` are those of functional and config."""
    constants = {name: value for name, value in values.items() if name in kernel.arg_names}
    if constants.get("TENSOR_COPY"):
        triton.set_allocator(_scratch)
    options = {name: values[name] for name in _OPTIONS if values.get(name)}
    kernel[grid](**arguments, **constants, **options)


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Memory in which a launch builds its tensor descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
