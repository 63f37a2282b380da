"""Names of compilers, as packs and resource files state them: `triton-3.9.0+llvm-6bc4aaf6641c`."""

from __future__ import annotations


def is_compiler(name: str, wanted: str) -> bool:
    """Whether a compiler's full name is what somebody asks for: the full name, or the first parts of the version.

    `3.9` and `triton-3.9.0` mean `triton-3.9.0+llvm-6bc4aaf6641c`.
    """
    version = name.partition("+")[0].removeprefix("triton-")
    given = wanted.removeprefix("triton-")
    return name == wanted or version == given or version.startswith(f"{given}.")
