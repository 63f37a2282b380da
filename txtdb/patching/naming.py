"""Names and numbers of patch files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from txtdb.faults import Fault, Span

# Free room between numbers, for a patch that must go between two others.
STEP = 10
LARGEST = 10**9 - 1

NAME_HINT = "letters, digits and _ . + -, and begins with none of - and ."

# File systems take names of 255 bytes, which the interface's name and what a writer appends share.
LONGEST_NAME = 100

_NAME = re.compile(r"(?![-.])[A-Za-z0-9_.+-]+")
_FILE = re.compile(r"(?P<iface>.+?)\.(?P<number>[0-9]{1,9})-(?P<name>.+)\.dbpatch")


@dataclass(frozen=True, slots=True)
class PatchName:
    """The parts of a patch's file name."""

    iface: str
    number: int
    name: str

    @property
    def file(self) -> str:
        """`attn_fwd.0010-wide.dbpatch`."""
        return f"{self.iface}.{self.number:04d}-{self.name}.dbpatch"


def parse_name(file: str) -> PatchName | None:
    """The parts of a file name; None where it is no patch's."""
    found = _FILE.fullmatch(file)
    return PatchName(found["iface"], int(found["number"]), found["name"]) if found else None


def name_fault(name: str) -> Fault | None:
    """What is wrong with a patch's own name."""
    if len(name) > LONGEST_NAME:
        return Fault("argument", Span(name), f"the name has more than {LONGEST_NAME} characters", "shorten it")
    if _NAME.fullmatch(name):
        return None
    return Fault("argument", Span(name), f"`{name}` is no name of a patch", f"it consists of {NAME_HINT}")


def next_number(taken: Iterable[int]) -> int:
    """The next free number above all that are taken, in steps of ten.."""
    highest = max(taken, default=0)
    number = (highest // STEP + 1) * STEP
    return number if number <= LARGEST else highest + 1
