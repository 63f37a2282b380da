"""Tensors that images can read: aligned, with strides that are multiples of 8 elements. Others are copied."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from codegen.aot.abi import POINTER_BYTES, STRIDE_ELEMENTS


def fitting(tensor: torch.Tensor) -> torch.Tensor:
    """A matrix as images take it, head dim last: the given one where it is such, else a copy; differentiable."""
    *strides, last = tensor.stride()
    fits = last == 1 and aligned(tensor) and not any(stride % STRIDE_ELEMENTS for stride in strides)
    return tensor if fits else tensor.clone(memory_format=torch.contiguous_format)


def fitting_bias(bias: torch.Tensor, keys: int) -> torch.Tensor:
    """A bias whose keys lie one after the other. Raises RuntimeError where it has another number of them."""
    wide = bias.expand(torch.broadcast_shapes(bias.shape, (keys,)))
    fits = wide.stride(-1) == 1 and aligned(wide)
    return wide if fits else wide.clone(memory_format=torch.contiguous_format)


def fitting_lengths(lengths: torch.Tensor | None) -> torch.Tensor | None:
    """Cumulative lengths, if there are any, at an aligned address."""
    return lengths if lengths is None or aligned(lengths) else lengths.clone()


def aligned(tensor: torch.Tensor) -> bool:
    """Whether the first element lies where an image can read 16 bytes at once."""
    return bool(tensor.data_ptr() % POINTER_BYTES == 0)


def padded_head(tensor: torch.Tensor) -> torch.Tensor:
    """With zeros behind the head dim, up to a multiple of 8; differentiable."""
    missing = -tensor.shape[-1] % STRIDE_ELEMENTS
    return pad(tensor, (0, missing)) if missing else tensor
