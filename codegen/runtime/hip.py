"""The HIP driver, through the library that PyTorch has loaded. It has never run on a device."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.runtime.driver import Shape, TorchDevices
from codegen.runtime.faults import DriverFault

_LIBRARY = "libamdhip64.so"
_LOADED = re.compile(rf"\S*/{re.escape(_LIBRARY)}\S*")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module that is loaded on a device."""

    handle: ctypes.c_void_p
    device: int


class HipDriver(TorchDevices):
    """Modules stay loaded as long as the process runs."""

    def __init__(self, library: Any = None) -> None:
        """`library` takes the place of the HIP runtime. Raises OSError where there is none."""
        self._hip = library or ctypes.CDLL(_loaded_library())
        self._hip.hipGetErrorString.restype = ctypes.c_char_p

    def load(self, device: int, image: bytes, symbol: str, shared: int) -> Function:
        """Load a code object. Raises DriverFault."""
        module, handle = ctypes.c_void_p(), ctypes.c_void_p()
        with self._current(device):
            self._call("hipModuleLoadData", ctypes.byref(module), image)
            self._call("hipModuleGetFunction", ctypes.byref(handle), module, symbol.encode())
        return Function(handle, device)

    def launch(self, function: Function, shape: Shape, stream: int, pointers: int) -> None:
        """Start a function. Raises DriverFault."""
        sizes = map(ctypes.c_uint, (*shape.grid, shape.threads, 1, 1, shape.shared))
        with self._current(function.device):
            given = (ctypes.c_void_p(stream), ctypes.c_void_p(pointers), None)
            self._call("hipModuleLaunchKernel", function.handle, *sizes, *given)

    @contextmanager
    def _current(self, device: int) -> Iterator[None]:
        """Make a device current in this thread for a while."""
        before = ctypes.c_int()
        self._call("hipGetDevice", ctypes.byref(before))
        if before.value == device:
            yield
            return
        self._call("hipSetDevice", ctypes.c_int(device))
        try:
            yield
        finally:
            self._call("hipSetDevice", before)

    def _call(self, name: str, *given: Any) -> None:
        error = getattr(self._hip, name)(*given)
        if error:
            text = (self._hip.hipGetErrorString(ctypes.c_int(error)) or b"").decode()
            raise DriverFault("driver", name, f"the HIP driver answers {error} {text}".rstrip())


def _loaded_library() -> str:
    """The HIP runtime that this process has loaded: a second one would not know PyTorch's memory and streams."""
    found = _LOADED.search(Path("/proc/self/maps").read_text(encoding="utf-8"))
    return found[0] if found else _LIBRARY
