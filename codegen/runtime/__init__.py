"""Attention from tables and packs: generated tables choose an image, the driver launches it, nothing is compiled."""

from codegen.runtime.driver import Driver, Shape
from codegen.runtime.faults import DriverFault, LaunchFault, Misaligned, NoKernel, Unsupported
from codegen.runtime.kernels import Kernels, open_kernels

__all__ = [
    "Driver",
    "DriverFault",
    "Kernels",
    "LaunchFault",
    "Misaligned",
    "NoKernel",
    "Shape",
    "Unsupported",
    "open_kernels",
]
