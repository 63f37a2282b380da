"""The CUDA driver, through `cuda.bindings`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cuda

from codegen.runtime.driver import Shape, TorchDevices
from codegen.runtime.faults import DriverFault

# More dynamic shared memory than this a function has to be allowed.
FREE_SHARED_BYTES = 48 * 1024

_SUCCESS = cuda.CUresult.CUDA_SUCCESS


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module that is loaded in a context, whose number is `context_id`."""

    handle: Any
    context: Any
    context_id: int


class CudaDriver(TorchDevices):
    """Works in the primary contexts, which are PyTorch's. Modules stay loaded as long as the process runs."""

    def __init__(self) -> None:
        _checked(cuda.cuInit(0), "cuInit")
        self._contexts: dict[int, Any] = {}

    def load(self, device: int, image: bytes, symbol: str, shared: int) -> Function:
        """Load a cubin. Raises DriverFault."""
        context = self._context(device)
        with _current(context):
            module = _checked(cuda.cuModuleLoadData(image), f"cuModuleLoadData of {symbol}")
            handle = _checked(cuda.cuModuleGetFunction(module, symbol.encode()), f"cuModuleGetFunction of {symbol}")
            if shared > FREE_SHARED_BYTES:
                attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                _checked(cuda.cuFuncSetAttribute(handle, attribute, shared), f"{shared} bytes of shared memory")
        return Function(handle, context, int(context))

    def launch(self, function: Function, shape: Shape, stream: int, pointers: int) -> None:
        """Start a function. Raises DriverFault."""
        # A thread of autograd may have no context yet, and one that works on another device has another.
        if int(cuda.cuCtxGetCurrent()[1]) == function.context_id:
            error = _launch(function.handle, shape, stream, pointers)
        else:
            with _current(function.context):
                error = _launch(function.handle, shape, stream, pointers)
        if error != _SUCCESS:
            raise _fault(error, f"cuLaunchKernel of {shape}")

    def _context(self, device: int) -> Any:
        if device not in self._contexts:
            own = _checked(cuda.cuDeviceGet(device), f"cuDeviceGet of {device}")
            self._contexts[device] = _checked(cuda.cuDevicePrimaryCtxRetain(own), "cuDevicePrimaryCtxRetain")
        return self._contexts[device]


def _launch(handle: Any, shape: Shape, stream: int, pointers: int) -> Any:
    (error,) = cuda.cuLaunchKernel(handle, *shape.grid, shape.threads, 1, 1, shape.shared, stream, pointers, 0)
    return error


@contextmanager
def _current(context: Any) -> Iterator[None]:
    """Make a context current in this thread for a while."""
    _checked(cuda.cuCtxPushCurrent(context), "cuCtxPushCurrent")
    try:
        yield
    finally:
        _checked(cuda.cuCtxPopCurrent(), "cuCtxPopCurrent")


def _checked(answer: tuple[Any, ...], call: str) -> Any:
    """The value that a call gave besides its error code, if any. Raises DriverFault."""
    error, *values = answer
    if error != _SUCCESS:
        raise _fault(error, call)
    return values[0] if values else None


def _fault(error: Any, call: str) -> DriverFault:
    _, name = cuda.cuGetErrorName(error)
    _, text = cuda.cuGetErrorString(error)
    said = " ".join(part.decode() for part in (name, text) if part)
    return DriverFault("driver", call, f"the CUDA driver answers {said or int(error)}")
