"""What an arch is to the compiler: back end, processor and wave size, and which config fields are its options."""

from __future__ import annotations

import re
from dataclasses import dataclass

from txtdb.model.archs import Arch

HIP = "hip"
CUDA = "cuda"
SUFFIX = {HIP: "hsaco", CUDA: "cubin"}

# Config fields that are options of a back end. A field that is an option of the other one only changes nothing.
OPTIONS = {
    HIP: frozenset({"num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"}),
    CUDA: frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"}),
}
# Options whose default differs between versions of the compiler are stated.
FIXED_OPTIONS = {"enable_fp_fusion": True}
# Threads of one workgroup, on every arch that there is.
MAX_THREADS = 1024

_VARIANT = re.compile(r"_mod\d+$")
_HIP_ARCH = re.compile(r"gfx(\d{1,2})[0-9a-f]{2}")
_CUDA_ARCH = re.compile(r"sm_(\d{2,3})")
# The first generation (gfx10) whose kernels are compiled for waves of 32.
_FIRST_NARROW = 10


@dataclass(frozen=True, slots=True)
class Target:
    """`processor` is what the back end calls it: `gfx942`, or the number `90`. `wave` counts lanes."""

    backend: str
    processor: str
    wave: int

    def __str__(self) -> str:
        return f"{self.backend}:{self.processor}:{self.wave}"

    @property
    def suffix(self) -> str:
        """The ending of image files."""
        return SUFFIX[self.backend]


def near_arch(name: str) -> str:
    """The name that a processor has for the compiler where one is meant: `sm_90` for `sm90`; empty where none is."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    found = re.fullmatch(r"sm(\d{2,3})[af]?", plain)
    near = f"sm_{found[1]}" if found else plain
    return near if _HIP_ARCH.fullmatch(near) or _CUDA_ARCH.fullmatch(near) else ""


def target_of(arch: Arch) -> Target | None:
    """The target of an arch, a board variant (`gfx942_mod1`) being compiled as its arch; None for an unknown kind."""
    name = _VARIANT.sub("", arch.name)
    hip = _HIP_ARCH.fullmatch(name)
    if hip:
        return Target(HIP, name, arch.wave_size or (64 if int(hip[1]) < _FIRST_NARROW else 32))
    cuda = _CUDA_ARCH.fullmatch(name)
    return Target(CUDA, cuda[1], arch.wave_size or 32) if cuda else None
