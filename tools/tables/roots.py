"""Which archs have tables of their own, which take those of another, and what is written with them."""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
FIXED = ("bwd_preprocess",)
FORWARD, BACKWARD = "op_attn_fwd", "op_attn_bwd"

_FROM_GFX1100 = ("gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170", "gfx1171")


@dataclass(frozen=True, slots=True)
class Root:
    """`heirs`: arch → its base. On `patched` archs a patch sets the cells of attn_fwd with few queries."""

    own: tuple[str, ...]
    heirs: dict[str, str]
    patched: tuple[str, ...] = ()


ROOTS = {
    "amd": Root(
        own=("gfx942", "gfx90a", "gfx950", "gfx1100", "gfx1201", "gfx1250"),
        heirs={**dict.fromkeys(_FROM_GFX1100, "gfx1100"), "gfx1200": "gfx1201"},
        patched=("gfx942", "gfx1100"),
    ),
    "nvidia": Root(own=("sm_90",), heirs={}),
}
