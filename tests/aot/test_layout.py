"""The argument list that a pack states, held against what the compiled images say of themselves."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from codegen.aot.abi import TRAILING
from codegen.aot.build import Workshop, compile_specs
from codegen.aot.spec import Spec
from codegen.aot.target import Target
from tests.aot.test_spec import GFX942, SM_90, spec

SIZES = {"i32": 4, "fp32": 4, "i64": 8}


def expected(own: Spec) -> list[tuple[int, int]]:
    """(offset, size) of every argument: each lies at the next multiple of its size."""
    layout, end = [], 0
    for _, kind in (*own.interface.arguments, *TRAILING):
        size = SIZES.get(kind, 8)
        start = -(-end // size) * size
        layout.append((start, size))
        end = start + size
    return layout


def sections(image: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(name, type, content) of the sections of a 64-bit ELF file (System V ABI, chapter 4)."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry, count, names = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", image, table + entry * number) for number in range(count)]
    for name, kind, _, _, offset, size in heads:
        start = heads[names][4] + name
        yield image[start : image.index(b"\0", start)].decode(), kind, image[offset : offset + size]


class Msgpack:
    """As much of a MessagePack reader as the notes of AMD images need."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return value

    def text(self, length: int) -> str:
        self.place += length
        return self.data[self.place - length : self.place].decode()

    def value(self) -> Any:
        tag = self.number(">B")
        if tag < 0x80:
            return tag
        if tag < 0x90 or tag in (0xDE,):
            return {self.value(): self.value() for _ in range(tag & 15 if tag < 0x90 else self.number(">H"))}
        if tag < 0xA0 or tag in (0xDC,):
            return [self.value() for _ in range(tag & 15 if tag < 0xA0 else self.number(">H"))]
        if tag < 0xC0:
            return self.text(tag & 31)
        if tag in (0xC2, 0xC3):
            return tag == 0xC3
        if tag in (0xD9, 0xDA):
            return self.text(self.number(">B" if tag == 0xD9 else ">H"))
        return self.number({0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}[tag])


def amd_layout(image: bytes) -> list[tuple[int, int]]:
    """(offset, size) of the explicit arguments, from the note that LLVM writes (AMDGPUUsage, code object V5)."""
    note = next(data for _, kind, data in sections(image) if kind == 7)
    name, length, _ = struct.unpack_from("<III", note)
    start = 12 + -(-name // 4) * 4
    (kernel,) = Msgpack(note[start : start + length]).value()["amdhsa.kernels"]
    return [(arg[".offset"], arg[".size"]) for arg in kernel[".args"] if not arg[".value_kind"].startswith("hidden")]


def cuda_layout(image: bytes) -> list[tuple[int, int]]:
    """(offset, size) of the parameters, from the records of kind 0x17 in the section of the kernel's attributes."""
    data = next(data for name, _, data in sections(image) if name.startswith(".nv.info."))
    found, place = {}, 0
    while place < len(data):
        form, kind, length = struct.unpack_from("<BBH", data, place)
        if (form, kind) == (4, 0x17):
            _, ordinal, offset, flags = struct.unpack_from("<IHHI", data, place + 4)
            found[ordinal] = offset, flags >> 18
        place += 4 + (length if form == 4 else 0)
    return [found[ordinal] for ordinal in sorted(found)]


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize(("target", "layout"), [(GFX942, amd_layout), (SM_90, cuda_layout)])
def test_images_take_the_arguments_that_are_stated(shop: Workshop, target: Target, layout) -> None:
    own = spec(shop.kernels, target)
    binary = compile_specs([own], shop).results[own].binary
    assert binary is not None
    image = shop.folder.image(binary.digest)
    assert image is not None
    assert layout(image) == expected(own)
