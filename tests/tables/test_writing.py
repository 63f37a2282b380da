"""The texts of operator tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import txtdb
from tools.tables.roots import BACKWARD, KERNELS
from tools.tables.writing import backward_operator
from txtdb.model.schema import ArchSchema

REPO = Path(__file__).resolve().parents[2]
SPLIT_S = 50e-6


def operator(root: str, arch: str, fused_s: float) -> str:
    """The table where both of the split kernels take SPLIT_S together in every cell, and the fused one `fused_s`."""
    schema = txtdb.load(REPO / root).schemas[BACKWARD].for_arch(arch)
    assert schema
    seconds = {"bwd_kernel_dk_dv": SPLIT_S / 2, "bwd_kernel_dq": SPLIT_S / 2, "bwd_kernel_fuse": fused_s}
    kernels: Any = {name: dict.fromkeys(schema.declared, choice(schema, seconds.get(name, 0.0))) for name in KERNELS}
    return backward_operator(schema, arch, {name: kernels[name] for name in seconds})


def choice(schema: ArchSchema, seconds: float) -> Any:
    shape = tuple(len(bins) for bins in schema.bins)
    return SimpleNamespace(places=np.zeros(shape, int), times=np.full((1, *shape), seconds))


@pytest.mark.parametrize(
    ("root", "arch", "limit_s"),
    [
        pytest.param("amd", "gfx942", (SPLIT_S + 4e-6) / 1.05, id="one launch more, then 5 % faster"),
        pytest.param("nvidia", "sm_90", SPLIT_S / 1.01, id="launches are in the model, then 1 % faster"),
    ],
)
def test_the_fused_backward_has_to_beat_the_split_one_with_its_launch_more(
    root: str, arch: str, limit_s: float
) -> None:
    assert "triton_fused" in operator(root, arch, limit_s * 0.999)
    assert "triton_fused" not in operator(root, arch, limit_s * 1.001)
    assert "triton_split" in operator(root, arch, limit_s * 1.001)
