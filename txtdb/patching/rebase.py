"""Patches moved over a base that changed since they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from txtdb.diff.edits import Content
from txtdb.diff.render import counted
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Fold, Layer, content_text
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import UNSET, FileTable
from txtdb.model.values import Functional
from txtdb.patching.apply import set_cells
from txtdb.patching.consequences import consequences
from txtdb.patching.naming import PatchName, next_number, parse_name
from txtdb.patching.outcome import Action, MovedGround, Outcome, Step
from txtdb.patching.stack import Place, Stack, cut, stack_of
from txtdb.patching.writing import with_onto

# Earlier states of a table, newest first, each open until the next is asked for.
Past = Callable[[Place], Iterable[Database]]


def rebase_patches(database: Database, files: Sequence[LayerFile], past: Past, accept: bool = False) -> Outcome:
    """Renumber patches where they must lie over others, and write what lies under them now into `#! onto`.

    A patch moves to the top, together with the given ones above it, when another has its number, or a higher one that
    is not given sets a common cell. Cells whose ground is not what the patch was made for are told, with that ground as
    `past` shows it, and so are cells that lookups answer otherwise afterwards: a fault, unless they are accepted.
    """
    outcome = Outcome(database.roots[0], schemas=database.schemas).fail(errors(database.faults))
    places = dict.fromkeys((file.arch, file.iface) for file in files)
    for place in places if not outcome.faults else ():
        wrong = errors(database.resolve(*place).faults)
        if not outcome.fail(wrong).faults:
            names = {file.display: file for file in files}
            _Rebase(stack_of(database, place), names, past).plan(outcome)
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

    def __init__(self, stack: Stack, files: dict[str, LayerFile], past: Past) -> None:
        self._stack, self._files, self._past = stack, files, past
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
        cells, place = set_cells(layer.table), self._stack.place_of(layer)
        others = [other for other in self._stack.patches if other is not layer]
        above = [other for other in self._stack.patches[place + 1 :] if other.file not in self._files]
        clashes = any(other.number == layer.number for other in others)
        return clashes or any(cells & set_cells(other.table) for other in above)

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
        then = next(self._grounds(table, onto), None)
        for cell, (key, content) in _ground(self._stack.table, below, table).items():
            old_key, old = then[cell] if then else ("", None)
            if then is None or old_key != key:
                yield MovedGround(layer.file, arch, iface, *cell, old, content, then is not None)

    def _grounds(self, table: FileTable, onto: str) -> Iterator[Ground]:
        """What the patch was made for: the ground, now or earlier, that has the digest."""
        place, names = (self._stack.table.arch, self._stack.table.iface), _grid_names(self._stack.table)
        yield from _matching(self._stack, table, onto)
        for database in self._past(place):
            past = database.resolve(*place).table
            if past is not None and _grid_names(past) == names:
                yield from _matching(Stack(past), table, onto)


# Functional and bins of each cell that a patch sets → the content under it, as a text to compare and as fields.
Ground = dict[tuple[Functional, tuple[int, ...]], tuple[str, Content]]


def _grid_names(table: ResolvedTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return table.schema.key_names, table.schema.axis_names


def _matching(stack: Stack, table: FileTable, onto: str) -> Iterator[Ground]:
    """The grounds of a stack, from under its pins down to its own table, that have a digest."""
    for count in range(len(stack.patches), -1, -1):
        fold = stack.fold((*stack.below_patches, *stack.patches[:count]))
        if stack.digest(fold, table) == onto:
            yield _ground(stack.table, fold, table)


def _ground(like: ResolvedTable, below: Fold, table: FileTable) -> Ground:
    cells, _ = cut(below, table.functionals, table.bins)
    found: Ground = {}
    for first, *at in np.argwhere(table.cells != UNSET).tolist():
        bins = tuple(own[place] for own, place in zip(table.bins, at, strict=True))
        found[table.functionals[first], bins] = _content(like, int(cells[(first, *at)]))
    return found


def _content(like: ResolvedTable, cell: int) -> tuple[str, Content]:
    if cell < 0:
        return "none", None
    config = like.pool[cell]
    return content_text(like.schema, config), tuple(like.schema.config_dict(config).items())
