"""A table's file with a larger grid, so that cells at new bins can be set in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from txtdb.layers.resolve import Bins
from txtdb.model.schema import Schema
from txtdb.model.table import UNSET
from txtdb.syntax import Directive, GridRow, Row, Shape, Source, read


def new_source(schema: Schema, arch: str, file: str) -> Source:
    """A table without cells that is not written yet."""
    source, faults = read(f"#! txtdb 1\n#! iface {schema.iface}\n#! arch {arch}\n#! end\n".encode(), file)
    assert source is not None and not faults, "text made here is text that can be read"
    return source


def widened(source: Source, schema: Schema, bins: Bins) -> Source:
    """The same cells on a grid with further bins; every cell at a new bin is transparent.

    A file without blocks gets just these bins, and the directives of a grid if it has none.
    """
    old = source.shape if source.document.blocks else Shape(())
    new = Shape(tuple(zip(schema.axis_names, _union(old, bins), strict=True)))
    if new == source.shape:
        return source
    document = source.document
    others = [directive for directive in document.directives if directive.name != "axis"]
    comments = {d.args[0]: d for d in document.directives if d.name == "axis"}
    axes = [_axis(comments.get(name), name, values) for name, values in new.axes]
    grid = [Directive(0, text) for name, text in _grid_lines(schema) if document.directive(name) is None]
    rows = tuple(tuple(_moved_rows(old, new, block)) for block in source.rows)
    return Source(replace(document, directives=(*others, *axes, *grid)), new, rows)


def _union(old: Shape, bins: Bins) -> Iterator[tuple[int, ...]]:
    have = [values for _, values in old.axes] or [()] * len(bins)
    return (tuple(sorted({*mine, *more})) for mine, more in zip(have, bins, strict=True))


def _axis(written: Directive | None, name: str, bins: Sequence[int]) -> Directive:
    text = f"#! axis {name} {' '.join(map(str, bins))}"
    return replace(written, text=text) if written else Directive(0, text)


def _grid_lines(schema: Schema) -> Iterator[tuple[str, str]]:
    yield "key", f"#! key {' '.join(schema.key_names)}"
    needed = [item.name for item in schema.config if item.default is None]
    yield "config", f"#! config {' '.join(needed or schema.field_names[:1])}"


def _moved_rows(old: Shape, new: Shape, rows: Sequence[GridRow]) -> Iterator[GridRow]:
    """Row lines taken apart into single rows, each at its new place; a comment stays with the first."""
    columns = [new.places[-1][value] for value in old.axes[-1][1]] if old.axes else []
    for row in rows:
        cells = [UNSET] * new.width
        for column, cell in zip(columns, row.cells, strict=True):
            cells[column] = cell
        for number in range(row.first, row.stop):
            place = _row_number(new, old.row_bins(number))
            source = row.source if number == row.first else Row(row.source.line, "")
            yield GridRow(place, place + 1, cells, source)


def _row_number(shape: Shape, bins: Sequence[int]) -> int:
    number = 0
    for places, length, value in zip(shape.places, shape.lengths, bins, strict=False):
        number = number * length + places[value]
    return number
