"""Evidence that a root has of a run's name: never replaced, so that another run finds out before it measures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from txtdb.faults import Fault, Severity, Span
from txtdb.layers.listing import EVIDENCE_FOLDER


@dataclass(frozen=True)
class Taken:
    """The evidence that stands under a name.

    A run whose journal has all its cells done may be the one that wrote it, or may change nothing. Others come to
    other evidence.
    """

    path: Path

    def note(self) -> Fault:
        """A warning for a run of which it is not known whether it has to measure."""
        message = "there is evidence of this name: what this run finds can be written only if its evidence is the same"
        hint = f"for another run add --name {self._free()}"
        return Fault("argument", Span(self.path.as_posix()), message, hint, Severity.WARNING)

    def fault(self) -> Fault:
        """What forbids a run of cells that were not done with this journal."""
        message = "there is evidence of another run of this name: nothing that this run finds could be written"
        return Fault("argument", Span(self.path.as_posix()), message, f"add --name {self._free()}")

    def _free(self) -> str:
        name = self.path.stem
        return next(f"{name}-{n}" for n in count(2) if not self.path.with_name(f"{name}-{n}.json").exists())


def find_taken(root: Path, arch: str, name: str) -> Taken | None:
    """The evidence of a name in a root; None where the name is free."""
    path = root / arch / EVIDENCE_FOLDER / f"{name}.json"
    return Taken(path) if path.exists() else None
