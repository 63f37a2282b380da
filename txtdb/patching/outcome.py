"""What a command is about to do: files to write and remove, cells to tell of, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from txtdb.diff.edits import CellEdit, Content
from txtdb.faults import Fault
from txtdb.model.schema import Schema
from txtdb.model.values import Functional
from txtdb.patching.files import Files, write_change


class Action(StrEnum):
    """What happens to a file."""

    WRITTEN = "written"
    REMOVED = "removed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Step:
    """One file and what happens to it. `cells` is how many it sets, `was` the name that it had."""

    action: Action
    file: str
    cells: int | None = None
    was: str | None = None


@dataclass(frozen=True, slots=True)
class MovedGround:
    """A cell of a patch that lies over another content than the patch was made for.

    `is_known` tells whether `old`, what it was made for, could be found.
    """

    file: str
    arch: str
    iface: str
    functional: Functional
    bins: tuple[int, ...]
    old: Content
    new: Content
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Covered:
    """A given patch that stays below another one, `by`, that sets some of its cells: `cells` of them."""

    file: str
    by: str
    cells: int


@dataclass(frozen=True, slots=True)
class Unproven:
    """A folded layer that names no evidence and sets `cells` cells over layers that do: it leaves these unproven."""

    file: str
    cells: int


@dataclass
class Outcome:
    """The whole of a command. `change` maps names below the root to contents, None for a file that is removed.

    `answers` are cells that lookups answer otherwise afterwards, `ground` those under a given patch that moved, `stale`
    other patches whose ground moves, `covered` given ones that higher patches override in part, `unproven` folded ones
    that set measured cells by hand; `schemas` by interface is what to read the cells by. With any fault nothing is
    written.
    """

    root: Path
    steps: list[Step] = field(default_factory=list)
    change: dict[str, bytes | None] = field(default_factory=dict)
    answers: list[CellEdit] = field(default_factory=list)
    ground: list[MovedGround] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    covered: list[Covered] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    schemas: dict[str, Schema] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def write(self, file: str, text: str | bytes, cells: int | None = None, was: str | None = None) -> None:
        """Plan to write a file, perhaps one that was to be removed."""
        self.steps = [step for step in self.steps if step.file != file]
        self.change[file] = text.encode() if isinstance(text, str) else text
        self.steps.append(Step(Action.WRITTEN, file, cells, was))

    def remove(self, file: str) -> None:
        """Plan to remove a file."""
        self.change[file] = None
        self.steps.append(Step(Action.REMOVED, file))

    def fail(self, faults: Iterable[Fault]) -> Outcome:
        """The same with further faults, each once."""
        self.faults = list(dict.fromkeys((*self.faults, *faults)))
        return self

    def apply(self) -> None:
        """Do it, wholly or not at all. Raises OSError with everything as it was."""
        assert not self.faults, "nothing is written when there is a fault"
        write_change(self.root, self.change)

    def after(self, files: Files) -> Files:
        """A root's files as they would be."""
        merged = {**files, **self.change}
        return {name: data for name, data in merged.items() if data is not None}
