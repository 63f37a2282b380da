"""Patches moved over a base that changed since they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from txtdb.diff.render import counted
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Fold, Layer, set_cells
from txtdb.model.table import UNSET, FileTable
from txtdb.patching.consequences import consequences
from txtdb.patching.grounds import Past, ground_under, ground_with
from txtdb.patching.naming import PatchName, next_number, parse_name
from txtdb.patching.outcome import Action, Covered, MovedGround, Outcome, Step
from txtdb.patching.stack import Place, Stack, stack_of
from txtdb.patching.writing import with_onto


def rebase_patches(
    database: Database, files: Sequence[LayerFile], past: Past, accept: bool = False, on_top: bool = False
) -> Outcome:
    """Write what lies under patches now into `#! onto`, and renumber those whose number another has.

    Such a patch moves to the top, together with the given ones above it; with `on_top` so does one of which a higher
    patch that is not given sets a common cell. Without it, that one stays, and is told. Cells whose ground is not what
    the patch was made for are told, with that ground as `past` shows it, and so are cells that lookups answer otherwise
    afterwards: a fault, unless they are accepted.
    """
    outcome = Outcome(database.roots[0], schemas=database.schemas).fail(errors(database.faults))
    places = dict.fromkeys((file.arch, file.iface) for file in files)
    for place in places if not outcome.faults else ():
        wrong = errors(database.resolve(*place).faults)
        if not outcome.fail(wrong).faults:
            names = {file.display: file for file in files}
            _Rebase(stack_of(database, place), names, past, on_top).plan(outcome)
            outcome.fail(_told(database, place, outcome, accept))
    return outcome


def _told(database: Database, place: Place, outcome: Outcome, accept: bool) -> Iterator[Fault]:
    """What is not to be done without a look at it."""
    after = consequences(database, place, outcome)
    yield from after.faults
    given = {f"{database.listings[0].label}/{name}" for name in outcome.change}
    stale = [file for file in after.stale if file not in given]
    if accept:
        outcome.stale.extend(stale)
        return
    hint = "look at the cells, then --accept them"
    for file, count in Counter(moved.file for moved in outcome.ground if (moved.arch, moved.iface) == place).items():
        message = f"other contents lie under {counted(count, 'cell')} than the patch was made for"
        yield Fault("ground-moved", Span(file), message, hint)
    changes = sum((edit.arch, edit.iface) == place for edit in outcome.answers)
    if changes:
        span = Span(f"{database.listings[0].label}/{place[0]}")
        yield Fault("would-change", span, f"{' '.join(place)}: lookups of {counted(changes, 'cell')} change", hint)
    for file in stale:
        message = "a patch that moves lay under this one"
        yield Fault("ground-moved", Span(file), message, "rebase it too, or --accept")


class _Rebase:
    """The given patches of one table."""

    def __init__(self, stack: Stack, files: dict[str, LayerFile], past: Past, on_top: bool) -> None:
        self._stack, self._files, self._past, self._on_top = stack, files, past, on_top
        self._given = [layer for layer in stack.patches if layer.file in files]
        moving = self._moving()
        self._names = self._new_names(moving)
        # In their new order; a layer that stays keeps its place among those that stay.
        self._order = [*(layer for layer in stack.patches if layer.file not in moving), *moving.values()]

    def plan(self, outcome: Outcome) -> None:
        """Write each given patch with its new name and ground."""
        for layer in self._given:
            assert isinstance(layer.table, FileTable), "a patch is a file"
            place = next(number for number, other in enumerate(self._order) if other.file == layer.file)
            below = self._stack.fold((*self._stack.below_patches, *self._order[:place]))
            digest, onto = self._stack.digest(below, layer.table), layer.table.source.document.argument("onto")
            if onto is not None and onto != digest:
                outcome.ground.extend(self._moved(layer, layer.table, onto, below))
            self._write(outcome, layer, with_onto(layer.table.source, digest))
            if layer.file not in self._names:
                outcome.covered.extend(self._covered(layer))

    def _write(self, outcome: Outcome, layer: Layer, text: str) -> None:
        file = self._files[layer.file]
        name = self._names.get(layer.file, file.name)
        cells = int((layer.table.cells != UNSET).sum())
        if name == file.name and text.encode() == file.path.read_bytes():
            outcome.steps.append(Step(Action.UNCHANGED, name, cells))
            return
        if name != file.name:
            outcome.remove(file.name)
        outcome.write(name, text, cells, None if name == file.name else file.name)

    def _moving(self) -> dict[str, Layer]:
        """The patches that get a new number: the first that must, and the given ones above it, in their order."""
        first = next((place for place, layer in enumerate(self._given) if self._must_move(layer)), len(self._given))
        return {layer.file: layer for layer in self._given[first:]}

    def _must_move(self, layer: Layer) -> bool:
        others = [other for other in self._stack.patches if other is not layer]
        clashes = any(other.number == layer.number for other in others)
        return clashes or (self._on_top and any(self._covered(layer)))

    def _covered(self, layer: Layer) -> Iterator[Covered]:
        """The higher patches, not given, that set cells of a given one."""
        cells, place = set_cells(layer.table), self._stack.place_of(layer)
        for other in self._stack.patches[place + 1 :]:
            common = cells & set_cells(other.table)
            if other.file not in self._files and common:
                yield Covered(layer.file, other.file, len(common))

    def _new_names(self, moving: dict[str, Layer]) -> dict[str, str]:
        """New names below the root, by the old ones in spans."""
        taken = [layer.number or 0 for layer in self._stack.patches if layer.file not in moving]
        names: dict[str, str] = {}
        for file in moving:
            taken.append(next_number(taken))
            old = parse_name(self._files[file].path.name)
            assert old is not None, "the listing takes nothing else for a patch"
            names[file] = f"{self._files[file].arch}/{PatchName(old.iface, taken[-1], old.name).file}"
        return names

    def _moved(self, layer: Layer, table: FileTable, onto: str, below: Fold) -> Iterator[MovedGround]:
        arch, iface = self._stack.table.arch, self._stack.table.iface
        then = ground_with(self._stack, table, onto, self._past((arch, iface)))
        for cell, (key, content) in ground_under(self._stack.table, below, table).items():
            old_key, old = then[cell] if then else ("", None)
            if then is None or old_key != key:
                yield MovedGround(layer.file, arch, iface, *cell, old, content, then is not None)
