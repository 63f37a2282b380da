"""A table that is there, brought to other cells: its symbols and comments stay, so that the diff shows the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from txtdb.editing.cells import with_grid
from txtdb.formats.aotriton_build import ArchCells
from txtdb.model.edit import edit_cells
from txtdb.model.schema import ArchSchema
from txtdb.model.table import UNSET, Cells, ConfigPool, ConfigValues, FileTable, build_table
from txtdb.model.values import Functional
from txtdb.syntax import Directive, Source

_Edit = tuple[tuple[Functional, tuple[int, ...]], ConfigValues | int]


def updated_text(
    source: Source, arch_schema: ArchSchema, wanted: ArchCells, pool: ConfigPool, header: Mapping[str, str]
) -> str | None:
    """The text of a file with just the wanted cells and the given directives (`{"origin": "imported x"}`).

    None when the file cannot be brought there: its content does not fit the schema, or its bins are others.
    """
    source = with_grid(source, arch_schema)
    table, faults = build_table(source, arch_schema.schema, arch_schema.section.arch, pool)
    if faults or table.bins != wanted.bins:
        return None
    document = replace(source.document, directives=tuple(_directives(source, header)))
    edits = dict(_edits(table, wanted, pool))
    return edit_cells(Source(document, source.shape, source.rows), arch_schema.schema, edits)


def _directives(source: Source, header: Mapping[str, str]) -> Iterator[Directive]:
    missing = dict(header)
    for directive in source.document.directives:
        text = missing.pop(directive.name, None)
        yield directive if text is None else replace(directive, text=f"#! {directive.name} {text}")
    yield from (Directive(0, f"#! {name} {text}") for name, text in missing.items())


def _edits(table: FileTable, wanted: ArchCells, pool: ConfigPool) -> Iterator[_Edit]:
    old, new = _grids(table.functionals, table.cells), _grids(wanted.functionals, wanted.cells)
    blank = np.full(tuple(map(len, wanted.bins)), UNSET, np.int32)
    for functional in dict.fromkeys((*old, *new)):
        before, after = old.get(functional, blank), new.get(functional, blank)
        for place in np.argwhere(before != after).tolist():
            number = int(after[tuple(place)])
            bins = tuple(own[index] for own, index in zip(wanted.bins, place, strict=True))
            yield (functional, bins), (pool[number] if number >= 0 else number)


def _grids(functionals: tuple[Functional, ...], cells: Cells) -> dict[Functional, Cells]:
    return dict(zip(functionals, cells, strict=True))
