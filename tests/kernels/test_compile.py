"""The kernels through the compiler, for devices that are not there: what the interpreter cannot see."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import Any

import pytest

from tests.kernels.needs import NEEDS_TRITON

pytestmark = [
    NEEDS_TRITON,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="TRITON_INTERPRET is set"),
]

triton = pytest.importorskip("triton", reason="triton is not installed")

from triton.backends.compiler import GPUTarget  # noqa: E402 after the skip
from triton.compiler import ASTSource  # noqa: E402

from codegen.kernels import backward, forward  # noqa: E402

KERNELS = {
    "attn_fwd": forward.attn_fwd,
    "bwd_preprocess": backward.bwd_preprocess,
    "bwd_kernel_dk_dv": backward.bwd_kernel_dk_dv,
    "bwd_kernel_dq": backward.bwd_kernel_dq,
    "bwd_kernel_fuse": backward.bwd_kernel_fuse,
}
TARGETS = {
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx1100": GPUTarget("hip", "gfx1100", 32),
    "sm_90": GPUTarget("cuda", 90, 32),
}
DEFAULTS = {
    "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 64, "ENABLE_DROPOUT": False, "PADDED_HEAD": False, "BIAS_TYPE": 0,
    "BLOCK_M": 32, "BLOCK_N": 32, "PRE_LOAD_V": False, "TENSOR_COPY": False, "stride_bn": 1, "stride_dbn": 1,
}  # fmt: skip
ALL = {"CAUSAL_TYPE": 3, "ENABLE_DROPOUT": True, "PADDED_HEAD": True, "BIAS_TYPE": 1}
FLOATS, WIDE = ("sm_scale", "dropout_p"), ("seed",)


def compiled(iface: str, arch: str, dtype: str = "fp16", warps: int = 4, stages: int = 1, **constants: Any) -> Any:
    kernel = KERNELS[iface]
    fixed = {name: value for name, value in {**DEFAULTS, **constants}.items() if name in kernel.arg_names}
    signature = {name: "constexpr" if name in fixed else type_of(name, dtype) for name in kernel.arg_names}
    aligned = [place for place, name in enumerate(kernel.arg_names) if "stride" in name or name[0].isupper()]
    hints = {(place,): [["tt.divisibility", 16]] for place in aligned if kernel.arg_names[place] not in fixed}
    source = ASTSource(kernel, signature, fixed, hints)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    return triton.compile(source, target=TARGETS[arch], options=options)


def type_of(name: str, dtype: str) -> str:
    if name in ("Lse", "Delta"):
        return "*fp32"
    if name.startswith("cu_seqlens"):
        return "*i32"
    if name[0].isupper():
        return f"*{dtype}"
    return "fp32" if name in FLOATS else "i64" if name in WIDE else "i32"


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("iface", KERNELS)
def test_with_every_feature(iface: str, arch: str) -> None:
    assert compiled(iface, arch, **ALL).kernel


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("iface", ["attn_fwd", "bwd_kernel_fuse"])
def test_without_any_feature(iface: str, arch: str) -> None:
    assert compiled(iface, arch, "bf16").kernel


@pytest.mark.parametrize("arch", TARGETS)
def test_fp32_is_not_rounded(arch: str) -> None:
    """The matrix units of NVIDIA would round to TF32, unless asked not to."""
    image = compiled("attn_fwd", arch, "fp32", BLOCK_N=16, CAUSAL_TYPE=3)
    assert not re.search(r"tf32", image.asm.get("ptx", ""))


@pytest.mark.parametrize("iface", ["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse"])
def test_tensor_copies_with_every_feature(iface: str) -> None:
    assert "cp.async.bulk.tensor" in compiled(iface, "sm_90", stages=2, TENSOR_COPY=True, **ALL).asm["ptx"]


# What a thread may keep in memory for want of registers, in bytes.
SPILLED = 16


@pytest.mark.parametrize("causal", [0, 3])
@pytest.mark.parametrize("iface", ["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse"])
def test_head_dim_128_fits_the_registers_of_sm_90(iface: str, causal: int) -> None:
    """With the tiles that are the fastest on an H200."""
    tiles = {"BLOCK_DMODEL": 128, "BLOCK_M": 64, "BLOCK_N": 64, "TENSOR_COPY": True, "PRE_LOAD_V": True}
    image = compiled(iface, "sm_90", "bf16", stages=3 if iface == "attn_fwd" else 2, CAUSAL_TYPE=causal, **tiles)
    assert stack_bytes(image.kernel) <= SPILLED


def stack_bytes(cubin: bytes) -> int:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"STACK:(\d+)", text)
    assert found, text
    return int(found[1])
