"""The arguments of an image in memory, as its manifest lists them: the array of pointers that a driver launches with.

Pointers come first in a buffer, then the other arguments; where each stands is told by the array alone, so their order
is free. A buffer is written for each launch and read before the driver returns. Launches of several threads at a time
take several buffers.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Mapping
from operator import mod
from typing import Any

from codegen.aot.pack_manifest import Signature
from codegen.runtime.faults import LaunchFault, Misaligned

# What a launch passes that no caller gives: global scratch memory, and profiling memory, which is null.
SCRATCH = "global_scratch"
PROFILE = "profile_scratch"
_FORMATS = {"i32": "i", "i64": "q", "fp32": "f"}
_COPIES = "pass contiguous tensors; `Kernels.attention` copies others itself"


class Arguments:
    """How the arguments of one kernel and data type lie in memory. `tensors` are the names of its pointers."""

    def __init__(self, signature: Signature) -> None:
        """Raises ValueError for a type that no launch passes, and where memory that each launch passes is missing."""
        kinds = {name: kind for name, kind, _ in signature.arguments}
        missing = {SCRATCH, PROFILE} - kinds.keys()
        if missing:
            raise ValueError(f"no arguments for memory: {', '.join(sorted(missing))}")
        unknown = [f"{name}: {kind}" for name, kind in kinds.items() if kind[0] != "*" and kind not in _FORMATS]
        if unknown:
            raise ValueError(f"unknown types of arguments: {', '.join(unknown)}")
        own = [name for name in kinds if name not in (SCRATCH, PROFILE)]
        self.tensors = tuple(name for name in own if kinds[name][0] == "*")
        self._scalars = tuple(name for name in own if kinds[name][0] != "*")
        self._fixed = signature.fixed
        multiples = {name: multiple for name, _, multiple in signature.arguments}
        self._stepped = tuple(name for name in self._scalars if multiples[name] > 1)
        self._multiples = tuple(multiples[name] for name in (*self.tensors, *self._stepped))
        order = [*self.tensors, SCRATCH, PROFILE, *self._scalars]
        formats = ["P" if name in multiples and kinds[name][0] == "*" else _FORMATS[kinds[name]] for name in order]
        self._packer = struct.Struct("@" + "".join(formats))
        ends = [struct.calcsize("@" + "".join(formats[: place + 1])) for place in range(len(order))]
        starts = {name: end - struct.calcsize(kind) for name, end, kind in zip(order, ends, formats, strict=True)}
        self._offsets = tuple(starts[name] for name, _, _ in signature.arguments)
        self._free: deque[Buffer] = deque()

    def check(self, addresses: list[int], arguments: Mapping[str, Any]) -> None:
        """Hold a launch against what images rely on. Raises Misaligned."""
        values = [*addresses, *[arguments[name] for name in self._stepped]]
        if any(map(mod, values, self._multiples)):
            raise self._misaligned(values)
        for name, value in self._fixed:
            if arguments[name] != value:
                raise Misaligned("misaligned", name, f"{name} is {arguments[name]}; images take {value}", _COPIES)

    def write(self, addresses: list[int], scratch: int, arguments: Mapping[str, Any]) -> Buffer:
        """A buffer with the arguments of a launch. Raises LaunchFault for a number that does not fit its type."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = Buffer(self._packer.size, self._offsets)
        scalars = [arguments[name] for name in self._scalars]
        try:
            self._packer.pack_into(buffer.memory, 0, *addresses, scratch, 0, *scalars)
        except struct.error as error:
            given = ", ".join(f"{name}={value}" for name, value in zip(self._scalars, scalars, strict=True))
            raise LaunchFault("argument-range", given, f"a number does not fit its type: {error}") from error
        return buffer

    def give_back(self, buffer: Buffer) -> None:
        """Let a later launch take a buffer."""
        self._free.append(buffer)

    def _misaligned(self, values: list[int]) -> Misaligned:
        names = (*self.tensors, *self._stepped)
        all_of = zip(names, values, self._multiples, strict=True)
        name, value, multiple = next(item for item in all_of if item[1] % item[2])
        what = f"lies at {value:#x}" if name in self.tensors else f"is {value}"
        message = f"{name} {what}, which is no multiple of {multiple}"
        hint = "pad the head dim with zeros; `Kernels.attention` does" if name == "head_dim" else _COPIES
        return Misaligned("misaligned", name, message, hint)


class Buffer:
    """Room for the arguments of one launch. `pointers` is the address of the array of their addresses."""

    def __init__(self, size: int, offsets: tuple[int, ...]) -> None:
        self.memory = ctypes.create_string_buffer(size)
        base = ctypes.addressof(self.memory)
        self._array = (ctypes.c_void_p * len(offsets))(*[base + offset for offset in offsets])
        self.pointers = ctypes.addressof(self._array)
