"""Findings taken apart cell by cell, so that those of two databases can be told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from txtdb.check.baseline import identity
from txtdb.check.finding import CellRef, Finding

# A rule and one cell; of a finding without cells its identity in baselines. Lines and counts play no part.
Atom = tuple[object, ...]


def split(finding: Finding, root: Path) -> Iterator[tuple[Atom, CellRef | None]]:
    """The atoms of a finding. Two changes that each add a cell to it do not make a new one together."""
    for cell in finding.cells:
        yield (finding.rule, finding.arch, finding.iface, cell), cell
    if not finding.cells:
        yield (identity(finding, root),), None


def atoms(findings: Iterable[Finding], root: Path) -> set[Atom]:
    """All atoms of some findings."""
    return {atom for finding in findings for atom, _ in split(finding, root)}


def reduced(finding: Finding, root: Path, counts: Callable[[Atom], bool]) -> Finding | None:
    """A finding with those of its cells that count; None where nothing of it does."""
    kept = [cell for atom, cell in split(finding, root) if counts(atom)]
    cells = tuple(cell for cell in kept if cell is not None)
    return replace(finding, cells=cells) if kept else None
