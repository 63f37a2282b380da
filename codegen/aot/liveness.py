"""Which config fields change nothing, by architecture family. A test compiles both ways to prove this list.

A field that changes nothing on a family only makes more candidates to tune and more names for the same image.
"""

from __future__ import annotations

import re

FAMILIES = {
    "gfx9": re.compile(r"gfx9.*"),
    "gfx11": re.compile(r"gfx11.*"),
    "gfx12": re.compile(r"gfx12.*"),
    "sm_90": re.compile(r"sm_90"),
}

# (family, interface, field). Waves per SIMD are a notion of AMD's compiler.
INERT: frozenset[tuple[str, str, str]] = frozenset(
    ("sm_90", iface, "waves_per_eu") for iface in ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
)


def family(arch: str) -> str | None:
    """The family of an arch; None where there is no statement about it."""
    return next((name for name, pattern in FAMILIES.items() if pattern.fullmatch(arch)), None)


def inert_fields(arch: str, iface: str) -> frozenset[str]:
    """The config fields of an interface that change nothing on an arch."""
    own = family(arch)
    return frozenset(field for name, of, field in INERT if (name, of) == (own, iface))
