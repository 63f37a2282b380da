"""Cells on a grid → the text of a patch that sets them; a patch's text with another ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import UNSET
from txtdb.model.writing import table_text
from txtdb.patching.stack import CellTable
from txtdb.syntax import Directive, Source, print_source


def trimmed(table: CellTable, kept: Sequence[Iterable[int]] = ()) -> CellTable:
    """The same cells without functionals and bins that set nothing. `kept` are bins that stay, by axis."""
    is_set = table.cells != UNSET
    rows = np.flatnonzero(is_set.any(axis=tuple(range(1, is_set.ndim)))).tolist()
    places = []
    for axis, own in enumerate(table.bins):
        others = tuple(place for place in range(is_set.ndim) if place != axis + 1)
        needed = is_set.any(axis=others)
        stay = set(kept[axis]) if kept else set()
        places.append([place for place, value in enumerate(own) if needed[place] or value in stay])
    functionals = tuple(table.functionals[row] for row in rows)
    bins = tuple(tuple(own[place] for place in chosen) for own, chosen in zip(table.bins, places, strict=True))
    return CellTable(functionals, bins, table.cells[np.ix_(rows, *places)])


def patch_text(like: ResolvedTable, table: CellTable, header: Mapping[str, Sequence[str]]) -> str:
    """The canonical text of a patch of a table's arch and interface; cells are numbers of the table's pool."""
    return table_text(like.schema, like.arch, table.functionals, table.bins, table.cells, like.pool, header, "dbpatch")


def with_directives(source: Source, name: str, texts: Iterable[str]) -> Source:
    """The file with just these directives of one name; those that stay keep their comments."""
    wanted = dict.fromkeys(texts)
    kept = [d for d in source.document.directives if d.name != name or d.argument_text in wanted]
    there = {d.argument_text for d in kept if d.name == name}
    new = [Directive(0, f"#! {name} {text}") for text in wanted if text not in there]
    return replace(source, document=replace(source.document, directives=(*kept, *new)))


def with_onto(source: Source, digest: str) -> str:
    """The canonical text of a patch that expects another ground."""
    return print_source(with_directives(source, "onto", [digest]))
