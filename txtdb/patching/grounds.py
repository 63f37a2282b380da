"""What lies under the cells of a patch, now and when it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from txtdb.diff.edits import Content
from txtdb.layers.database import Database
from txtdb.layers.resolve import Fold, content_text
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import UNSET, FileTable
from txtdb.model.values import Functional
from txtdb.patching.stack import Place, Stack, cut

# Functional and bins of each cell that a patch sets → the content under it, as a text to compare and as fields.
Ground = dict[tuple[Functional, tuple[int, ...]], tuple[str, Content]]
# Earlier states of a table, newest first, each open until the next is asked for.
Past = Callable[[Place], Iterable[Database]]


def no_past(place: Place) -> Iterable[Database]:
    """Earlier states where none are known."""
    return ()


def ground_with(stack: Stack, table: FileTable, onto: str, past: Iterable[Database]) -> Ground | None:
    """What a patch was made for: the ground, now or earlier, that has the digest; None where there is none."""
    return grounds_with(stack, {"": (table, onto)}, past).get("")


def grounds_with(
    stack: Stack, wanted: Mapping[str, tuple[FileTable, str]], past: Iterable[Database]
) -> dict[str, Ground]:
    """The same for several patches of a place by name, without those that have none: the past is read once."""
    found: dict[str, Ground] = {}
    for state in _states(stack, past):
        for fold in _folds(state):
            for name in wanted.keys() - found.keys():
                table, onto = wanted[name]
                if state.digest(fold, table) == onto:
                    found[name] = ground_under(state.table, fold, table)
            if len(found) == len(wanted):
                return found
    return found


def ground_under(like: ResolvedTable, below: Fold, table: FileTable) -> Ground:
    """What lies under the cells that a patch sets, in a fold of the layers of `like`."""
    cells, _ = cut(below, table.functionals, table.bins)
    found: Ground = {}
    for first, *at in np.argwhere(table.cells != UNSET).tolist():
        bins = tuple(own[place] for own, place in zip(table.bins, at, strict=True))
        found[table.functionals[first], bins] = _content(like, int(cells[(first, *at)]))
    return found


def _states(stack: Stack, past: Iterable[Database]) -> Iterator[Stack]:
    """The layers now, and earlier as far as they have the same keys and axes."""
    names = _grid_names(stack.table)
    yield stack
    for database in past:
        then = database.resolve(stack.table.arch, stack.table.iface).table
        if then is not None and _grid_names(then) == names:
            yield Stack(then)


def _grid_names(table: ResolvedTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return table.schema.key_names, table.schema.axis_names


def _folds(stack: Stack) -> Iterator[Fold]:
    """What patches of a stack may lie over, from under its pins down to its own table."""
    for count in range(len(stack.patches), -1, -1):
        yield stack.fold((*stack.below_patches, *stack.patches[:count]))


def _content(like: ResolvedTable, cell: int) -> tuple[str, Content]:
    if cell < 0:
        return "none", None
    config = like.pool[cell]
    return content_text(like.schema, config), tuple(like.schema.config_dict(config).items())
