"""Patches folded into the table under them, or into one patch, with the resolved table as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txtdb.diff.render import counted
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Layer, set_cells
from txtdb.model.edit import edit_cells
from txtdb.model.table import MASKED, UNSET, Cells, FileTable
from txtdb.model.values import Functional
from txtdb.patching.consequences import consequences
from txtdb.patching.naming import PatchName, name_fault
from txtdb.patching.outcome import Outcome, Unproven
from txtdb.patching.sources import header, joined_evidence, joined_origin
from txtdb.patching.stack import CellTable, Place, Stack, cut, spread, stack_of, union_grid
from txtdb.patching.widening import new_source, widened
from txtdb.patching.writing import patch_text, trimmed, with_directives
from txtdb.syntax import Source


@dataclass(frozen=True, slots=True)
class Into:
    """What patches are folded into: the table, or a patch of this name, by default under the highest of the numbers.

    `why` says what that patch is for; without it the reasons of the folded ones stand there.
    """

    name: str | None = None
    number: int | None = None
    why: str | None = None


INTO_TABLE = Into()


def squash_patches(database: Database, place: Place, numbers: Collection[int] = (), into: Into = INTO_TABLE) -> Outcome:
    """Fold an arch's patches together. No numbers means all of them.

    The resolved table stays as it was, in all archs, and so does the ground of the patches that remain; where that
    cannot be, nothing is done. The evidence of the folded patches is named in what they become.
    """
    outcome = Outcome(database.roots[0], schemas=database.schemas).fail(errors(database.faults))
    if outcome.faults or outcome.fail(errors(database.resolve(*place).faults)).faults:
        return outcome
    there = database.listings[0].patches.get(place, ())
    chosen = [file for file in there if not numbers or file.number in numbers]
    outcome.fail(_choice_faults(database, place, chosen, numbers, into))
    if not outcome.faults:
        folding = _Folding(stack_of(database, place), chosen)
        folding.into_table(outcome) if into.name is None else folding.into_patch(outcome, into.name, into)
        outcome.unproven.extend(folding.unproven(into.name is None))
        outcome.fail(_changes(database, place, outcome))
    return outcome


def _choice_faults(
    database: Database, place: Place, chosen: Sequence[LayerFile], numbers: Collection[int], into: Into
) -> Iterator[Fault]:
    there = {file.number: file for file in database.listings[0].patches.get(place, ())}
    span = Span(f"{database.listings[0].label}/{place[0]}")
    known = f"there are: {', '.join(file.path.name for file in there.values()) or 'none'}"
    for number in sorted(set(numbers).difference(there)):
        yield Fault("no-patch", span, f"{place[1]} has no patch {number} here", known)
    if not chosen and not numbers:
        yield Fault("no-patch", span, f"{place[1]} has no patch here", "there is nothing to fold")
    wrong = name_fault(into.name) if into.name is not None else None
    if wrong:
        yield wrong
    if into.number in there and there[into.number] not in chosen:
        yield Fault("no-patch", span, f"{there[into.number].path.name} has this number", "take a free one")


class _Folding:
    """Some patches of one table, to be folded."""

    def __init__(self, stack: Stack, files: Sequence[LayerFile]) -> None:
        self._stack, self._files = stack, files
        names = {file.display for file in files}
        self._folded = [layer for layer in stack.patches if layer.file in names]
        self._rest = [layer for layer in stack.patches if layer.file not in names]
        self._axes = len(stack.table.schema.axes)

    def unproven(self, with_table: bool) -> Iterator[Unproven]:
        """Layers without evidence that set cells of lower ones that have some: in one file nothing tells them apart."""
        own = [self._stack.own_table] if with_table and self._stack.own_table else []
        measured: set[tuple[Functional, tuple[int, ...]]] = set()
        for layer in (*own, *self._folded):
            cells = set_cells(layer.table)
            if layer.evidence:
                measured |= cells
            elif measured & cells:
                yield Unproven(layer.file, len(measured & cells))
                measured -= cells

    def into_table(self, outcome: Outcome) -> None:
        """Set the patches' cells in the table, whose comments, order and symbols of cells stay."""
        stack, table = self._stack, self._stack.table
        own = [stack.own_table] if stack.own_table else []
        made = self._settled([*own, *self._folded], stack.base, (*stack.base, *own, *self._folded))
        before = spread(own[0], made.functionals, made.bins) if own else np.full_like(made.cells, UNSET)
        edits = {
            (made.functionals[first], tuple(bins[place] for bins, place in zip(made.bins, at, strict=True))): (
                MASKED if made.cells[(first, *at)] == MASKED else table.pool[made.cells[(first, *at)]]
            )
            for first, *at in np.argwhere(made.cells != before).tolist()
        }
        source = _source(own[0]) if own else new_source(table.schema, table.arch, table.iface)
        source = _with_sources(widened(source, table.schema, made.bins), own, self._folded)
        text = edit_cells(source, table.schema, edits, drop_lost=True)
        outcome.write(f"{table.arch}/{table.iface}.txtdb", text, len(edits))
        for file in self._files:
            outcome.remove(file.name)

    def into_patch(self, outcome: Outcome, name: str, into: Into) -> None:
        """Make one patch of them."""
        table = self._stack.table
        highest = max(file.number or 0 for file in self._files)
        number = highest if into.number is None else into.number
        below, reached = self._around(number, number >= highest)
        made = trimmed(self._settled(self._folded, below, reached), self._own_bins())
        digest = self._stack.digest(self._stack.fold(below), made)
        directives = header(into.why, self._folded, joined_evidence(self._folded), digest)
        for file in self._files:
            outcome.remove(file.name)
        if made.functionals:
            file_name = f"{table.arch}/{PatchName(table.iface, number, name).file}"
            outcome.write(file_name, patch_text(table, made, directives), int((made.cells != UNSET).sum()))

    def _around(self, number: int, on_top: bool) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
        """What lies under a patch of this number, and what table it has to make.

        Under a lower number than they had, the folded patches go below others; what those set must not matter then.
        """
        stack = self._stack
        below = (*stack.below_patches, *_up_to(self._rest, number))
        if on_top:
            return below, (*stack.below_patches, *_up_to(stack.patches, number))
        return below, (*below, *self._folded)

    def _settled(self, layers: Sequence[Layer], below: Iterable[Layer], reached: Iterable[Layer]) -> CellTable:
        """The cells of one file in place of some layers: over `below` it gives what `reached` gives.

        What the layers set stays set where it counts. A cell that none of them sets is set where it would take another
        content otherwise: at a bin that one of them brings, beside a cell that another of them sets.
        """
        functionals, bins = union_grid(layers, self._axes)
        wanted, _ = cut(self._stack.fold(reached), functionals, bins)
        ground, _ = cut(self._stack.fold(below), functionals, bins)
        top: Cells = np.full_like(wanted, UNSET)
        for layer in layers:
            cells = spread(layer, functionals, bins)
            top = np.where(cells == UNSET, top, cells)
        needed = (wanted != ground) | ((top != UNSET) & (top == wanted))
        return CellTable(functionals, bins, np.where(needed, wanted, UNSET).astype(np.int32))

    def _own_bins(self) -> list[set[int]]:
        """The bins, by axis, that the table has from the folded patches alone: sizes between bins depend on them."""
        names = {layer.file for layer in self._folded}
        _, others = union_grid([layer for layer in self._stack.table.layers if layer.file not in names], self._axes)
        return [set(have).difference(rest) for have, rest in zip(self._stack.table.bins, others, strict=True)]


def _up_to(patches: Iterable[Layer], number: int) -> tuple[Layer, ...]:
    return tuple(layer for layer in patches if (layer.number or 0) <= number)


def _source(layer: Layer) -> Source:
    assert isinstance(layer.table, FileTable), "an own table is a file"
    return layer.table.source


def _with_sources(source: Source, own: Sequence[Layer], folded: Sequence[Layer]) -> Source:
    """The table's file naming the origin and the evidence of all that is in it."""
    origin = joined_origin(layer.origin for layer in (*own, *folded))
    source = with_directives(source, "origin", [origin]) if origin else source
    return with_directives(source, "evidence", joined_evidence((*own, *folded)))


def _changes(database: Database, place: Place, outcome: Outcome) -> Iterator[Fault]:
    """What folding would change."""
    after = consequences(database, place, outcome)
    yield from after.faults
    if outcome.answers or after.moves_bins:
        message = f"{' '.join(place)}: {counted(len(outcome.answers), 'cell')} would change, and its bins may"
        hint = "a patch that stays sets them as well: fold that too, or fold into a patch"
        yield Fault("would-change", Span(f"{database.listings[0].label}/{place[0]}"), message, hint)
    for file in after.stale:
        message = "the cells under this patch would be others: a folded patch sets them as well"
        yield Fault("would-change", Span(file), message, "fold it too, or fold into a patch")
