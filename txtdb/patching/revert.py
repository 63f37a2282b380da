"""A patch taken back: removed, or undone by another where something lies over it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from txtdb.diff.edits import MASK
from txtdb.diff.planes import plane_edits, resolved_plane
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Fold, Layer
from txtdb.model.table import MASKED, UNSET
from txtdb.patching.consequences import consequences
from txtdb.patching.files import opened, root_files
from txtdb.patching.naming import PatchName, next_number, parse_name
from txtdb.patching.outcome import Outcome
from txtdb.patching.sources import header, joined_evidence, reason_of
from txtdb.patching.stack import CellTable, Stack, cut, stack_of
from txtdb.patching.writing import patch_text, trimmed


def revert_patch(database: Database, file: LayerFile, why: str | None = None) -> Outcome:
    """Make the table answer as if the patch were not there.

    The topmost patch is removed, unless a patch of an heir was made over its cells. Any other stays, and a new patch on
    top gives the cells in which it counts what they would have without it: another patch's content, the table's, or
    a mask where nothing is left.
    """
    outcome = Outcome(database.roots[0], schemas=database.schemas)
    place = (file.arch, file.iface)
    if outcome.fail((*errors(database.faults), *errors(database.resolve(*place).faults))).faults:
        return outcome
    stack = stack_of(database, place)
    patch = next(layer for layer in stack.patches if layer.file == file.display)
    if patch is stack.patches[-1]:
        removal = Outcome(database.roots[0], schemas=database.schemas)
        removal.remove(file.name)
        after = consequences(database, place, removal)
        if not after.stale and not after.faults:
            return removal
    _Revert(stack, patch, file).plan(outcome, why)
    if not outcome.faults:
        after = consequences(database, place, outcome)
        outcome.stale.extend(after.stale)
        outcome.fail((*after.faults, *_heir_faults(database, file, outcome)))
    return outcome


def _heir_faults(database: Database, file: LayerFile, outcome: Outcome) -> Iterator[Fault]:
    """Heirs that would answer otherwise than without the patch: it brought bins, and a patch takes none away."""
    files = root_files(database.roots[0])
    gone = {name: data for name, data in files.items() if name != file.name}
    with opened(gone, database) as removed, opened(outcome.after(files), database) as reverted:
        for arch, iface in database.places():
            tables = [other.resolve(arch, iface) for other in (removed, reverted)]
            if iface != file.iface or any(errors(table.faults) for table in tables):
                continue
            planes = [resolved_plane(table.table) for table in tables if table.table]
            edits = plane_edits(*planes) if len(planes) == len(tables) else ()
            if any({edit.old, edit.new} - {None, MASK} for edit in edits):
                message = f"{arch} {iface} would answer otherwise than without it, because it brings bins of its own"
                yield Fault(
                    "would-change", Span(file.display), message, "remove the file, and rebase what lies over it"
                )


class _Revert:
    """A patch to be undone by another."""

    def __init__(self, stack: Stack, patch: Layer, file: LayerFile) -> None:
        self._stack, self._patch, self._file = stack, patch, file
        self._without = tuple(layer for layer in stack.below_pins if layer.file != patch.file)

    def plan(self, outcome: Outcome, why: str | None) -> None:
        """Write the patch that undoes it."""
        stack, table = self._stack, self._stack.table
        now = stack.fold(stack.below_pins)
        made, sources = self._cells(now)
        if not made.functionals:
            message = "every cell of this patch is overridden or the same without it"
            outcome.fail([Fault("no-patch", Span(self._patch.file), message, "there is nothing to revert")])
            return
        name = parse_name(self._file.path.name)
        assert name is not None, "the listing takes nothing else for a patch"
        new = PatchName(name.iface, next_number(layer.number or 0 for layer in stack.patches), f"revert-{name.name}")
        directives = header(why or self._reason(), sources, joined_evidence(sources), stack.digest(now, made))
        text = patch_text(table, made, directives)
        outcome.write(f"{table.arch}/{new.file}", text, int((made.cells != UNSET).sum()))

    def _cells(self, now: Fold) -> tuple[CellTable, list[Layer]]:
        """The cells of the new patch, and the layers that their contents come from."""
        have = np.maximum(now.cells, UNSET)
        without = self._stack.fold(self._without)
        cells, winner = cut(without, now.functionals, now.bins)
        wanted = np.maximum(cells, UNSET)
        differs = wanted != have
        content = np.where(differs, np.where(wanted < 0, MASKED, wanted), UNSET).astype(np.int32)
        sources = [self._without[number] for number in np.unique(winner[differs & (winner >= 0)]).tolist()]
        return trimmed(CellTable(now.functionals, now.bins, content)), sources

    def _reason(self) -> str:
        reason = reason_of(self._patch)
        return f"revert {self._file.path.name}" + (f": {reason}" if reason else "")
