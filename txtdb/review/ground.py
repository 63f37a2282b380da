"""Which cells of a stale patch lie over another content than the patch was made for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txtdb.check.finding import Finding
from txtdb.diff.edits import CellEdit
from txtdb.layers.database import Database
from txtdb.layers.resolve import bin_index
from txtdb.model.table import FileTable
from txtdb.patching.grounds import Past, ground_under, grounds_with
from txtdb.patching.stack import Place, stack_of
from txtdb.review.origin import Cell

_RULE = "stale-onto"


def is_ground_finding(finding: Finding) -> bool:
    """Whether a finding says that the ground of a patch moved."""
    return finding.rule == _RULE


class MovedGround:
    """The cells whose ground moved, of the patches that the check finds stale.

    What a patch was made for is looked for in `past`. Where it is nowhere, its ground may have moved under any cell.
    """

    def __init__(self, database: Database, findings: Iterable[Finding], past: Past) -> None:
        self._database, self._past = database, past
        self._stale = {finding.span.file: finding for finding in findings if is_ground_finding(finding)}
        self._tables: dict[str, tuple[FileTable, frozenset[Cell] | None]] = {}

    def under(self, edit: CellEdit) -> Finding | None:
        """What the check says of the patch that sets a cell now, where the ground of that very cell moved."""
        finding = self._stale.get(edit.new_span.file) if edit.new_span else None
        if finding is None:
            return None
        table, moved = self._moved(finding)
        at = tuple(own[bin_index(own, value)] for own, value in zip(table.bins, edit.bins, strict=True))
        return finding if moved is None or (edit.functional, at) in moved else None

    def _moved(self, finding: Finding) -> tuple[FileTable, frozenset[Cell] | None]:
        """A stale patch's table, and its cells whose ground moved; None where nobody knows."""
        if finding.span.file not in self._tables:
            self._tables |= self._of_place((finding.arch, finding.iface))
        return self._tables[finding.span.file]

    def _of_place(self, place: Place) -> dict[str, tuple[FileTable, frozenset[Cell] | None]]:
        """All stale patches of a place: the past is looked into once for them."""
        stack = stack_of(self._database, place)
        stale = {layer.file: layer for layer in stack.patches if layer.file in self._stale}
        tables = {file: layer.table for file, layer in stale.items() if isinstance(layer.table, FileTable)}
        wanted = {file: (table, table.source.document.argument("onto") or "") for file, table in tables.items()}
        then = grounds_with(stack, wanted, self._past(place))
        found: dict[str, tuple[FileTable, frozenset[Cell] | None]] = {}
        for file, table in tables.items():
            now = ground_under(stack.table, stack.fold(stack.under(stale[file])), table)
            earlier = then.get(file)
            moved = None if earlier is None else frozenset(cell for cell in now if earlier[cell][0] != now[cell][0])
            found[file] = (table, moved)
        return found


def before(old: Database, past: Past) -> Past:
    """Earlier states of which the old side of a review comes first."""

    def states(place: tuple[str, str]) -> Iterable[Database]:
        known: Sequence[Database] = (old,) if place in old.places() else ()
        yield from known
        yield from past(place)

    return states
