"""What a compiled image needs of a device, out of what the compiler wrote: assembly on AMD, the cubin on NVIDIA."""

from __future__ import annotations

import re
import subprocess
import tempfile

from codegen.aot.result import Resources

_AMD_NUMBER = re.compile(
    r"^(?:; (?P<note>TotalNumVgprs|NumVgprs|Occupancy): (?P<noted>\d+)"
    r"|\s+\.(?P<meta>sgpr_count|sgpr_spill_count|vgpr_spill_count):\s+(?P<stated>\d+))$",
    re.MULTILINE,
)
_CUDA_NUMBER = re.compile(r"\b(REG|STACK|LOCAL):(\d+)")

# A scheduler of an SM, from Kepler on: its 32-bit registers per lane, how many a warp takes at once, and its warps
# (NVIDIA, "CUDA C++ Programming Guide", table of technical specifications per compute capability).
_SCHEDULER_REGISTERS = 512
_REGISTER_STEP = 8
_SCHEDULER_WARPS = 16


def amd_resources(assembly: str, shared: int) -> Resources:
    """Of an AMD kernel's assembly. `shared` is its dynamic local memory, which the assembly does not know.

    Raises KeyError when the assembly does not state a number.
    """
    found = {match["note"] or match["meta"]: int(match["noted"] or match["stated"]) for match in _amd_numbers(assembly)}
    return Resources(
        registers=found["TotalNumVgprs"] if "TotalNumVgprs" in found else found["NumVgprs"],
        sgprs=found["sgpr_count"],
        spills=found["vgpr_spill_count"],
        sgpr_spills=found["sgpr_spill_count"],
        shared=shared,
        occupancy=found["Occupancy"],
    )


def _amd_numbers(assembly: str) -> list[re.Match[str]]:
    return list(_AMD_NUMBER.finditer(assembly))


def cuda_resources(cuobjdump: str, cubin: bytes, shared: int) -> Resources:
    """Of a cubin, by NVIDIA's own program. `shared` is its dynamic shared memory.

    Raises OSError or CalledProcessError when the program fails, KeyError when it does not state a number.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [cuobjdump, "--dump-resource-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return cuda_usage(text, shared)


def cuda_usage(text: str, shared: int) -> Resources:
    """Of what cuobjdump tells of the resources of a cubin's one function."""
    found = {name: int(number) for name, number in _CUDA_NUMBER.findall(text)}
    taken = -(-found["REG"] // _REGISTER_STEP) * _REGISTER_STEP
    return Resources(
        registers=found["REG"],
        sgprs=None,
        spills=(found["STACK"] + found["LOCAL"]) // 4,
        sgpr_spills=None,
        shared=shared,
        occupancy=min(_SCHEDULER_REGISTERS // max(taken, 1), _SCHEDULER_WARPS),
    )
