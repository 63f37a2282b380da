"""Resolved tables → dispatch tables in C++ and Python, and the manifest of kernel images."""

from codegen.generate import Generated, Options, Unit, generate
from codegen.index import Index, Previous, read_index
from codegen.inputs import Inputs
from codegen.manifest import Image, read_images
from codegen.names import image_name
from codegen.output import Written, differences, write

__all__ = [
    "Generated",
    "Image",
    "Index",
    "Inputs",
    "Options",
    "Previous",
    "Unit",
    "Written",
    "differences",
    "generate",
    "image_name",
    "read_images",
    "read_index",
    "write",
]
