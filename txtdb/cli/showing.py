"""`txtdb show`: functionals as grids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fail, format_option, overlay_option, print_json, root_argument
from txtdb.cli.layout import Piece, Row, aligned, column_widths, panels, window_width
from txtdb.cli.tables import open_tables
from txtdb.faults import Fault, Span
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, functional_text
from txtdb.model.values import Value, print_value
from txtdb.syntax.tree import MASK, TRANSPARENT
from txtdb.views.asking import key_types, parse_words, value_faults
from txtdb.views.grids import Grid, View, base_archs, layer_text, make_view, view_json

_BOLD: dict[str, Any] = {"bold": True}
_DIM: dict[str, Any] = {"dim": True}

_STYLES: dict[str, dict[str, Any]] = {
    "": {},
    "'": {"fg": "cyan"},
    "+": {"fg": "green"},
    "!": {"fg": "magenta"},
    "~": {"fg": "blue"},
}
_HOLE = Piece(TRANSPARENT, {"fg": "red", "bold": True})
_MASKED = Piece(MASK, {"fg": "yellow"})


@click.command(short_help="Show functionals as grids.")
@root_argument
@click.argument("arch")
@click.argument("iface")
@click.argument("keys", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--expand", is_flag=True, help="Write configs into the cells instead of symbols.")
@overlay_option
@format_option("json")
def show(
    root: Path, arch: str, iface: str, keys: tuple[str, ...], expand: bool, overlays: tuple[Path, ...], style: str
) -> None:
    """Show functionals as grids: a row per bin of the first axes, a column per bin of the last.

    All functionals of the table are shown, or those with the given key values. What stands in a cell is what a lookup
    gives there, whichever layer it comes from.
    """
    if expand and style == "json":
        raise click.UsageError("--expand has no effect on --format json, which always has the configs")
    tables = open_tables(root, overlays, arch, iface)
    given, faults = parse_words(keys, key_types(tables[0].schema))
    faults += value_faults(tables[0].schema, given)
    if faults:
        fail(faults, EXIT_USAGE)
    views = [make_view(table, given) for table in tables]
    if style == "json":
        print_json({"tables": [view_json(view) for view in views]})
    else:
        click.echo("\n\n".join("\n".join(view_lines(view, expand)) for view in views if view.grids))
    empty = [_nothing(view.table, given) for view in views if not view.grids]
    if empty:
        fail(empty, EXIT_FINDINGS)


def _nothing(table: ResolvedTable, given: dict[str, Value]) -> Fault:
    wanted = " ".join(f"{name}={print_value(value)}" for name, value in given.items())
    message = f"{table.arch} {table.iface}: no functional has {wanted}" if wanted else f"{table.arch}: no functionals"
    return Fault("no-functional", Span(wanted or table.iface), message, "see `txtdb schema show` for what exists")


def view_lines(view: View, expand: bool = False) -> Iterator[str]:
    """The text of a view, with colours."""
    by_name = len(view.table.schema.config) == 1
    texts = _values(view) if expand or by_name else view.symbols
    for grid in view.grids:
        yield from _grid_lines(view, grid, texts)
        yield ""
    if expand and not by_name:
        yield from _value_legend(view)
    elif not by_name:
        yield from _symbol_legend(view)
    yield from _mark_legend(view)
    yield from _layer_legend(view)


def _grid_lines(view: View, grid: Grid, texts: dict[int, str]) -> Iterator[str]:
    table = view.table
    name = functional_text(table.schema, grid.functional)
    yield f"{click.style(f'{table.arch} {table.iface}', **_BOLD)}  {name}"
    if not grid.supported:
        yield f"  {click.style('unsupported here: no lookup reaches these cells', fg='red')}"
    derived = table.schema.derived_values(grid.functional)
    if derived:
        yield f"  derived: {' '.join(f'{name}={print_value(value)}' for name, value in derived.items())}"
    marks = _grid_marks(table, grid)
    common = _common_mark(grid, marks)
    if common:
        yield f"  every cell is {_mark_text(table, common)}"
        marks = dict.fromkeys(marks, "")
    yield from _table_lines(table, _cell_pieces(grid, texts, marks))


def _grid_marks(table: ResolvedTable, grid: Grid) -> dict[tuple[int, ...], str]:
    """Position → mark of each cell that some layer sets."""
    places = product(*(range(length) for length in grid.cells.shape))
    return {at: _mark(table, grid, at) for at in places if grid.winner[at] >= 0}


def _mark(table: ResolvedTable, grid: Grid, at: tuple[int, ...]) -> str:
    layer = table.layers[grid.winner[at]]
    if grid.donor[at]:
        return "~"
    if layer.arch != table.arch:
        return "'"
    if layer.kind == "pins":
        return "!"
    return "+" if layer.kind == "patch" or layer.root else ""


def _common_mark(grid: Grid, marks: dict[tuple[int, ...], str]) -> str:
    """The mark that all cells have, which is said once above the grid."""
    found = set(marks.values())
    return next(iter(found)) if len(found) == 1 and len(marks) == grid.cells.size else ""


def _cell_pieces(grid: Grid, texts: dict[int, str], marks: dict[tuple[int, ...], str]) -> dict[tuple[int, ...], Piece]:
    """Position → what is printed there. Marks have a column of their own, so that symbols stand under each other."""
    room = " " if any(marks.values()) else ""
    pieces = {}
    for at in product(*(range(length) for length in grid.cells.shape)):
        cell, mark = int(grid.cells[at]), marks.get(at, "")
        if cell < 0:
            piece = _MASKED if cell == MASKED else _HOLE
            pieces[at] = Piece(piece.text + room, piece.style)
        else:
            pieces[at] = Piece(texts[cell] + (mark or room), _STYLES[mark])
    return pieces


def _table_lines(table: ResolvedTable, cells: dict[tuple[int, ...], Piece]) -> Iterator[str]:
    """A grid with its bins; several panels under each other where the window is too narrow."""
    *row_axes, column_axis = table.schema.axis_names
    *row_bins, columns = table.bins
    head: Row = [*(Piece(name, _DIM) for name in row_axes), *(Piece(str(value), _BOLD) for value in columns)]
    rows = [head]
    for at in product(*(range(len(bins)) for bins in row_bins)):
        labels = (Piece(str(bins[place]), _BOLD) for bins, place in zip(row_bins, at, strict=True))
        rows.append([*labels, *(cells[*at, place] for place in range(len(columns)))])
    pieces = [[item if isinstance(item, Piece) else Piece(item) for item in row] for row in rows]
    widths = column_widths(pieces)
    fixed = len(row_axes)
    for number, panel in enumerate(panels(widths, fixed, window_width())):
        if number:
            yield ""
        start = 2 + sum(width + 2 for width in widths[:fixed])
        yield " " * start + click.style(column_axis, **_DIM)
        yield from aligned([[*row[:fixed], *row[panel.start : panel.stop]] for row in pieces])


def _values(view: View) -> dict[int, str]:
    """Config number → its values, without the fields that are the same everywhere."""
    pool = view.table.pool
    return {number: "/".join(print_value(pool[number][place]) for place in view.varying) for number in view.counts}


def _value_legend(view: View) -> Iterator[str]:
    names = view.table.schema.field_names
    yield f"  cells are {'/'.join(names[place] for place in view.varying)}"
    yield from _common_fields(view)
    yield ""


def _common_fields(view: View) -> Iterator[str]:
    schema = view.table.schema
    for number in list(view.counts)[:1]:
        config = zip(schema.field_names, view.table.pool[number], strict=True)
        common = [f"{n}={print_value(v)}" for place, (n, v) in enumerate(config) if place not in view.varying]
        if common:
            yield f"  in every config: {' '.join(common)}"


def _symbol_legend(view: View) -> Iterator[str]:
    if not view.counts:
        return
    names, pool = view.table.schema.field_names, view.table.pool
    rows: list[Row] = [[Piece(name, _DIM) for name in ("", "cells", *(names[place] for place in view.varying))]]
    for number, symbol in view.symbols.items():
        values = (print_value(pool[number][place]) for place in view.varying)
        rows.append([Piece(symbol, _BOLD), str(view.counts[number]), *values])
    yield from aligned(rows)
    yield from _common_fields(view)
    yield ""


def _mark_text(table: ResolvedTable, mark: str) -> str:
    """What a mark behind a symbol says of the cell."""
    if mark == "~":
        keys = " ".join(f"{name}={print_value(value)}" for name, value in table.fallbacks.items())
        return f"taken by fallback from {keys}"
    if mark == "'":
        return f"inherited from {' or '.join(base_archs(table.layers, table.arch))}"
    return {"+": "set by a patch or an overlay", "!": "pinned"}[mark]


def _mark_legend(view: View) -> Iterator[str]:
    """What the marks in the grids say; those that are said above a grid, or nowhere, are left out."""
    found: dict[str, str] = {}
    for grid in view.grids:
        marks = _grid_marks(view.table, grid)
        if not _common_mark(grid, marks):
            found |= {mark: _mark_text(view.table, mark) for mark in set(marks.values()) - {""}}
        if (grid.cells == MASKED).any():
            found[MASK] = "masked: no config, whatever the layers below say"
        if ((grid.cells < 0) & (grid.cells != MASKED)).any():
            found[TRANSPARENT] = "hole: no layer sets this cell"
    if found:
        yield from aligned([[Piece(mark, _BOLD), found[mark]] for mark in sorted(found)], left=2)
        yield ""


def _layer_legend(view: View) -> Iterator[str]:
    rows: list[Row] = [[Piece("cells", _DIM), Piece("set by", _DIM)]]
    for number, count in view.layer_counts.items():
        layer = view.table.layers[number]
        rows.append([str(count).rjust(5), layer_text(layer, view.table.arch), Piece(layer.file, _DIM)])
    if len(rows) > 1:
        yield from aligned(rows, left=3)
