"""Which open changes break together: each is merged and checked alone, then all of them, before any is merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from pathlib import Path

from txtdb.check.atoms import Atom, atoms, reduced, split
from txtdb.check.clashes import clashes, conflict_finding
from txtdb.check.combining import MergeConflict, OpenChange, combine, read_change
from txtdb.check.finding import Finding, QueueFinding
from txtdb.check.run import Report, run_checks
from txtdb.diff.sides import open_files
from txtdb.layers.database import Database
from txtdb.patching.files import Files, root_files


@dataclass(frozen=True)
class QueueReport:
    """What a merge queue would meet.

    `root` is the report of the database as it is, `alone` for each change what it brings by itself, `together` what
    only several of them bring: `same-cell` (they set a cell differently), `merge-conflict`, and whatever the checks
    find in the combination and in none of the single changes. `combined` is the report with all of them merged.
    """

    root: Report
    alone: tuple[tuple[str, tuple[Finding, ...]], ...]
    together: tuple[QueueFinding, ...]
    combined: Report

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that the database does not have yet."""
        single = (finding for _, findings in self.alone for finding in findings)
        return (*single, *(item.finding for item in self.together))


def check_queue(root: Path, overlays: Sequence[Path], specs: Sequence[str], today: date) -> QueueReport:
    """Check a database with open changes: branches, other revisions, and patch files.

    Nothing is written but temporary copies. Raises FaultError where a change, or the database, cannot be read.
    """
    files = root_files(root)
    with ExitStack() as stack:
        database = stack.enter_context(open_files(files, root.as_posix(), overlays))
        changes = [read_change(database, root, spec) for spec in dict.fromkeys(specs)]
        return _Queue(files, database, changes, today, stack).report()


# `same-cell` has told what each change makes of the cells, and the files are in different changes still.
_EQUAL_NUMBERS_HINT = "once one of them is merged, `txtdb patch rebase` gives the other one the next free number"


def _without_contents(finding: Finding) -> Finding:
    return replace(finding, hint=_EQUAL_NUMBERS_HINT) if finding.rule == "equal-patch-number" else finding


@dataclass(frozen=True)
class _Tried:
    """A combination that was checked."""

    database: Database
    report: Report
    conflicts: tuple[MergeConflict, ...]


class _Queue:
    def __init__(
        self, files: Files, database: Database, changes: Sequence[OpenChange], today: date, stack: ExitStack
    ) -> None:
        self._files, self._database, self._changes = files, database, changes
        self._today, self._stack = today, stack
        self._label = Path(database.listings[0].label)
        self._root = run_checks(database, today)

    def report(self) -> QueueReport:
        """Check each change, then all of them."""
        alone = {change.name: self._try([change]) for change in self._changes}
        combined = self._try(self._changes) if len(alone) > 1 else next(iter(alone.values()))
        found = list(clashes(self._database, {name: tried.database for name, tried in alone.items()}))
        if len(alone) > 1:
            found += self._conflicts(combined, found)
            found += self._together(combined, alone)
        singles = tuple((name, tuple(self._alone(tried))) for name, tried in alone.items())
        return QueueReport(self._root, singles, tuple(found), combined.report)

    def _try(self, changes: Sequence[OpenChange]) -> _Tried:
        files, conflicts = self._files, []
        for change in changes:
            files, met = combine(files, change)
            conflicts += met
        overlays = self._database.roots[1:]
        database = self._stack.enter_context(open_files(files, self._label.as_posix(), overlays))
        return _Tried(database, run_checks(database, self._today), tuple(conflicts))

    def _alone(self, tried: _Tried) -> Iterator[Finding]:
        """What a change brings by itself."""
        yield from (conflict_finding(conflict, self._database) for conflict in tried.conflicts)
        known = atoms(self._root.findings, self._label)
        for finding in tried.report.findings:
            new = reduced(finding, self._label, lambda atom: atom not in known)
            if new:
                yield new

    def _conflicts(self, combined: _Tried, told: Sequence[QueueFinding]) -> list[QueueFinding]:
        """Files that do not merge; not those whose cells are told already."""
        places = {(item.finding.arch, item.finding.iface) for item in told}
        found = []
        for conflict in combined.conflicts:
            finding = conflict_finding(conflict, self._database)
            if not conflict.cells or (finding.arch, finding.iface) not in places:
                names = (c.name for c in self._changes if c.base.get(conflict.file) != c.theirs.get(conflict.file))
                found.append(QueueFinding(finding, tuple(names)))
        return found

    def _together(self, combined: _Tried, alone: Mapping[str, _Tried]) -> Iterator[QueueFinding]:
        """Findings of the combination that no change has alone, parted by the changes that make them."""
        known = atoms(self._root.findings, self._label).union(
            *(atoms(tried.report.findings, self._label) for tried in alone.values())
        )
        new = atoms(combined.report.findings, self._label) - known
        makers = self._makers(new)
        for finding in combined.report.findings:
            own = [atom for atom, _ in split(finding, self._label) if atom in new]
            for names in dict.fromkeys(makers[atom] for atom in own):
                part = reduced(finding, self._label, lambda atom, names=names: makers.get(atom) == names)  # type: ignore[misc]
                if part:
                    yield QueueFinding(_without_contents(part), names)

    def _makers(self, new: set[Atom]) -> dict[Atom, tuple[str, ...]]:
        """The first two changes that make each atom by themselves; all of them where it takes more."""
        makers = dict.fromkeys(new, tuple(change.name for change in self._changes))
        open_atoms = set(new) if len(self._changes) > 2 else set()
        for pair in combinations(self._changes, 2):
            if not open_atoms:
                break
            found = open_atoms & atoms(self._try(pair).report.findings, self._label)
            makers.update(dict.fromkeys(found, (pair[0].name, pair[1].name)))
            open_atoms -= found
        return makers
