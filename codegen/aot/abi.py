"""How images are called: the types of the kernels' arguments and what callers promise about their values.

The rule goes by the arguments' names, so that every image of a kernel and data type has the same interface. docs/aot.md
states it for callers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codegen.aot.sources import Kernel

DTYPE_KEY = "Q_dtype"
DTYPES = ("bf16", "fp16", "fp32")

# Pointers are aligned to so many bytes; strides of matrices and the head dim are multiples of so many elements.
POINTER_BYTES = 16
STRIDE_ELEMENTS = 8

# What a launch passes behind the kernel's own arguments.
TRAILING = (("global_scratch", "*i8"), ("profile_scratch", "*i8"))

_MATRIX = "Q K V Out DOut DQ DK DV Bias DBias"
_MATRIX_STRIDE = re.compile(r"stride_(?:q|k|v|o|do|dq|dk|dv)[zhmn]")
_TYPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("|".join(_MATRIX.split())), "*{dtype}"),
    (re.compile("Lse|Delta"), "*fp32"),
    (re.compile(r"cu_seqlens_\w+"), "*i32"),
    (re.compile(r"stride_\w+[zh]"), "i64"),
    (re.compile(r"stride_\w+[mn]"), "i32"),
    (re.compile("sm_scale|dropout_p"), "fp32"),
    (re.compile("seed"), "i64"),
    (re.compile(r"num_\w+|max_seqlen_\w+|head_dim|window_(?:left|right)|bottom_right|store_dbias"), "i32"),
)
# The last stride of a bias: its keys lie one after the other, so the image has no such argument.
_ONE = frozenset({"stride_bn", "stride_dbn"})


@dataclass(frozen=True, slots=True)
class Interface:
    """`arguments` are (name, type) of what a launch passes before TRAILING; `multiples` what the values of some are a
    multiple of: bytes for pointers, else the value's own unit. `fixed` arguments have one value and are not passed.
    """

    arguments: tuple[tuple[str, str], ...]
    multiples: tuple[tuple[str, int], ...]
    fixed: tuple[tuple[str, int], ...]


def interface(kernel: Kernel, dtype: str) -> Interface | str:
    """The interface of a kernel's images for a data type, or why there is none."""
    if dtype not in DTYPES:
        return f"data type `{dtype}` is none of {', '.join(DTYPES)}"
    types = {name: _type(name, dtype) for name in kernel.arguments if name not in kernel.constants}
    unknown = [name for name, kind in types.items() if kind is None]
    if unknown:
        return f"no rule gives a type to {', '.join(unknown)}"
    passed = tuple((name, kind) for name, kind in types.items() if kind and name not in _ONE)
    multiples = tuple((name, multiple) for name, kind in passed if (multiple := _multiple(name, kind)) > 1)
    return Interface(passed, multiples, tuple((name, 1) for name in types if name in _ONE))


def _type(name: str, dtype: str) -> str | None:
    found = next((kind for pattern, kind in _TYPES if pattern.fullmatch(name)), None)
    return found.format(dtype=dtype) if found else None


def _multiple(name: str, kind: str) -> int:
    if kind.startswith("*"):
        return POINTER_BYTES
    return STRIDE_ELEMENTS if name == "head_dim" or _MATRIX_STRIDE.fullmatch(name) else 1
