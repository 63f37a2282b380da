"""Compiling for a device that need not be there, and what became of a candidate that could not be compiled or run.

Which image a launch needs depends on its arguments and on the target alone. A stand-in for the driver that knows the
target is therefore enough to fill Triton's cache on disk: processes that compile ahead hold no memory on the device and
do not disturb what is timed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.errors import TritonError
from triton.runtime import driver
from triton.runtime.errors import OutOfResources

from txtdb.model.evidence import Status
from txtdb.tune.gpu_faults import fault_of

# Shared memory that one block may have, bytes: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability" (what a block gets at most; 1 KB of a multiprocessor's is the system's).
SHARED_BYTES = {80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448, 103: 232448, 120: 101376}


def target_of(arch: str) -> GPUTarget:
    """The compiler's name for an arch: `sm_90` or `gfx942`. Raises ValueError for others."""
    if arch.startswith("sm_") and arch[3:].isdigit():
        return GPUTarget("cuda", int(arch[3:]), 32)
    if arch.startswith("gfx"):
        return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    raise ValueError(f"no compiler target is known for arch {arch}")


@dataclass(frozen=True)
class _Blind:
    """As much of a driver as compiling asks for."""

    target: GPUTarget

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True)
class _Warmed:
    """A kernel whose launches only compile."""

    kernel: Any
    most_shared: int | None

    @property
    def arg_names(self) -> Any:
        return self.kernel.arg_names

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def warm(**arguments: Any) -> None:
            image = self.kernel.warmup(grid=grid, **arguments)
            image = image.result() if hasattr(image, "result") else image
            if self.most_shared is not None and image.metadata.shared > self.most_shared:
                raise OutOfResources(image.metadata.shared, self.most_shared, "shared memory")

        return warm


@contextmanager
def ahead(arch: str) -> Iterator[Callable[[Any], Any]]:
    """Inside, kernels that are wrapped by what it gives are compiled for an arch when they are launched."""
    target = target_of(arch)
    most = SHARED_BYTES.get(target.arch) if target.backend == "cuda" else None
    before = driver._active
    driver.set_active(_Blind(target))
    try:
        yield lambda kernel: _Warmed(kernel, most)
    finally:
        driver._active = before


@contextmanager
def judged(otherwise: Status) -> Iterator[None]:
    """Turns what compilers and drivers raise into `CandidateFault` (`otherwise` where it is no shortage of resources).

    Raises DeviceLost instead when the process has to end.
    """
    try:
        yield
    except (TritonError, RuntimeError, AssertionError, ValueError) as error:
        raise fault_of(error, Status.COMPILE_ERROR if isinstance(error, TritonError) else otherwise) from error
