"""What a launch needs of a device, and what PyTorch says about devices. The drivers are `cuda` and `hip`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from codegen.runtime.faults import LaunchFault


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a launch is: workgroups, threads of each, and bytes of its dynamic local memory."""

    grid: tuple[int, int, int]
    threads: int
    shared: int


class Driver(Protocol):
    """The calls in which CUDA and HIP differ, and what PyTorch knows of devices. Handles are the driver's own."""

    def place(self, tensors: Sequence[Any]) -> tuple[int, int]:
        """The device that tensors lie on, and the stream on which PyTorch works there."""

    def arch(self, device: int) -> str:
        """The arch of a device: `sm_90`, `gfx942`."""

    def scratch(self, device: int, size: int) -> Any:
        """Memory of a device, for the kernels of the current stream; `data_ptr()` gives its address."""

    def load(self, device: int, image: bytes, symbol: str, shared: int) -> Any:
        """A function of an image, on a device. Raises DriverFault."""

    def launch(self, function: Any, shape: Shape, stream: int, pointers: int) -> None:
        """Start a function that `load` gave; `pointers` is the address of its arguments' addresses.

        Raises DriverFault.
        """


class TorchDevices:
    """The part of a driver that PyTorch has, the same for CUDA and HIP."""

    def place(self, tensors: Sequence[Any]) -> tuple[int, int]:
        """Device and stream. Raises LaunchFault for tensors that do not lie on one GPU."""
        devices = {tensor.get_device() for tensor in tensors}
        device = devices.pop()
        if devices or device < 0:
            names = ", ".join(sorted({str(tensor.device) for tensor in tensors}))
            message = f"the tensors of a launch lie on {names}"
            raise LaunchFault("wrong-device", names, message, "all of them belong on one GPU")
        return device, int(torch.cuda.current_stream(device).cuda_stream)

    def arch(self, device: int) -> str:
        """The arch as `archs.toml` names it."""
        if torch.version.hip:
            return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
        major, minor = torch.cuda.get_device_capability(device)
        return f"sm_{major}{minor}"

    def scratch(self, device: int, size: int) -> torch.Tensor:
        """Memory that PyTorch takes back in the order of the stream."""
        return torch.empty(size, dtype=torch.int8, device=f"cuda:{device}")
