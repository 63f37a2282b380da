"""Cells of an existing file, changed: its symbols, comments and order stay, so that the diff shows the change alone."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from txtdb.model.schema import Schema
from txtdb.model.table import MASKED, UNSET, ConfigValues
from txtdb.model.values import Functional, Value, parse_value, print_value, print_values
from txtdb.syntax import Block, Directive, Entry, GridRow, Row, Source, print_source
from txtdb.syntax.symbols import next_symbols

CellEdits = Mapping[tuple[Functional, tuple[int, ...]], ConfigValues | int]


def edit_cells(source: Source, schema: Schema, edits: CellEdits, *, drop_lost: bool = False) -> str:
    """The canonical text of a file with some cells changed.

    `source` was read without faults: what could not be read would be missing from the text. `edits` maps (functional,
    bins) to a config's values in schema order, or to MASKED or UNSET. A config that is new to the file gets the next
    free symbol; a functional that is new gets a block, and one that sets nothing any more loses it, unless there are
    comments to keep. Entries of the palette stay, also where their last cell is gone, so that no symbol comes to mean
    another config; `drop_lost` leaves those out.

    Raises KeyError when a bin is none of the file's, or the file has no grid of this schema yet.
    """
    editor = _Editor(source, schema)
    for (functional, bins), content in edits.items():
        editor.set_cell(functional, bins, content)
    return print_source(editor.result(drop_lost))


def without_unused(source: Source, among: Iterable[int] | None = None) -> Source:
    """The file without the palette entries that no cell uses, or those of them that `among` numbers.

    An entry with a comment stays: somebody wrote why it is there.
    """
    entries = source.document.palette
    numbers = range(len(entries)) if among is None else among
    unused = {n for n in numbers if n >= 0 and not entries[n].leading and not entries[n].trailing}
    if unused:
        unused.difference_update(*(row.cells for block in source.rows for row in block))
    if not unused:
        return source
    kept = tuple(entry for number, entry in enumerate(entries) if number not in unused)
    rows = tuple(tuple(_renumbered(block, sorted(unused))) for block in source.rows)
    return Source(replace(source.document, palette=kept), source.shape, rows)


class _Editor:
    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema = source, schema
        document = source.document
        self._fields = document.config_fields
        self._entries = list(document.palette)
        if not _has_grid(source, schema):
            raise KeyError(f"{source.file} has no grid of {schema.iface}")
        self._key_order = [schema.key_names.index(name) for name in document.keys]
        self._numbers = {self._values(entry): number for number, entry in reversed(list(enumerate(self._entries)))}
        self._blocks = [*document.blocks]
        self._rows: list[dict[int, GridRow] | None] = [None] * len(self._blocks)
        self._places = {tuple(block.values): number for number, block in enumerate(document.blocks)}
        self._replaced: set[int] = set()

    def set_cell(self, functional: Functional, bins: tuple[int, ...], content: ConfigValues | int) -> None:
        assert not isinstance(content, int) or content in (MASKED, UNSET), "a config is given by its values"
        cell = content if isinstance(content, int) else self._number(content)
        number, column = self._position(bins)
        rows = self._block_rows(functional)
        row = rows.get(number)
        cells = list(row.cells) if row else [UNSET] * self._source.shape.width
        self._replaced.add(cells[column])
        cells[column] = cell
        rows[number] = GridRow(number, number + 1, cells, row.source if row else Row(0, ""))

    def result(self, drop_lost: bool) -> Source:
        """The changed file."""
        document = replace(
            self._source.document,
            palette=tuple(self._entries),
            directives=tuple(self._directives()),
            blocks=tuple(self._blocks),
        )
        rows = tuple(self._listed(number) for number in range(len(self._blocks)))
        result = Source(document, self._source.shape, rows)
        return without_unused(result, self._replaced) if drop_lost else result

    def _listed(self, number: int) -> tuple[GridRow, ...]:
        changed = self._rows[number]
        return self._source.rows[number] if changed is None else tuple(changed.values())

    def _block_rows(self, functional: Functional) -> dict[int, GridRow]:
        """The block's rows taken apart into single ones; a new block where there is none."""
        key = tuple(print_value(functional[place]) for place in self._key_order)
        if key not in self._places:
            self._places[key] = len(self._blocks)
            self._blocks.append(Block(0, f"[{' '.join(key)}]"))
            self._rows.append({})
        number = self._places[key]
        rows = self._rows[number]
        if rows is None:
            rows = self._rows[number] = dict(_single_rows(self._source.rows[number]))
        return rows

    def _position(self, bins: tuple[int, ...]) -> tuple[int, int]:
        """Flat row number and column of a cell."""
        places = []
        for value, (name, values) in zip(bins, self._source.shape.axes, strict=True):
            if value not in values:
                raise KeyError(f"{value} is no bin of axis {name}")
            places.append(values.index(value))
        number = 0
        for place, length in zip(places[:-1], self._source.shape.lengths, strict=False):
            number = number * length + place
        return number, places[-1]

    def _values(self, entry: Entry) -> ConfigValues:
        if len(entry.values) != len(self._fields):
            return ()
        given = dict(zip(self._fields, entry.values, strict=True))
        values: list[Value | None] = [
            parse_value(given[item.name], item.type) if item.name in given else item.default
            for item in self._schema.config
        ]
        return tuple(value for value in values if value is not None)

    def _number(self, config: ConfigValues) -> int:
        if config not in self._numbers:
            self._show_fields(config)
            self._numbers[config] = len(self._entries)
            symbol = next(iter(next_symbols(entry.symbol for entry in self._entries)))
            self._entries.append(Entry(0, f"{symbol} = {self._spelled(config)}"))
        return self._numbers[config]

    def _spelled(self, config: ConfigValues) -> str:
        given = self._schema.config_dict(config)
        return print_values(given[name] for name in self._fields)

    def _show_fields(self, config: ConfigValues) -> None:
        """Fields that the file leaves at their default and this config does not are written out from now on."""
        pairs = zip(self._schema.config, config, strict=True)
        new = [item.name for item, value in pairs if item.name not in self._fields and value != item.default]
        if not new:
            return
        self._fields = [*self._fields, *new]
        defaults = print_values(
            item.default for item in self._schema.config if item.name in new and item.default is not None
        )
        self._entries = [
            replace(entry, text=f"{entry.symbol} = {' '.join(entry.values)} {defaults}") for entry in self._entries
        ]

    def _directives(self) -> Iterable[Directive]:
        for directive in self._source.document.directives:
            yield (
                replace(directive, text=f"#! config {' '.join(self._fields)}")
                if directive.name == "config"
                else directive
            )


def _renumbered(rows: Iterable[GridRow], dropped: Sequence[int]) -> Iterable[GridRow]:
    """The rows with the numbers that entries have once some, in order, are dropped; marks are negative and stay."""
    for row in rows:
        yield replace(row, cells=[cell - bisect(dropped, cell) for cell in row.cells])


def _has_grid(source: Source, schema: Schema) -> bool:
    """Whether the file has axes, and keys and config fields that the schema has."""
    fields = source.document.config_fields
    return (
        bool(source.shape.axes)
        and sorted(source.document.keys) == sorted(schema.key_names)
        and set(fields) <= set(schema.field_names)
        and all(item.default is not None for item in schema.config if item.name not in fields)
    )


def _single_rows(rows: tuple[GridRow, ...]) -> Iterable[tuple[int, GridRow]]:
    for row in rows:
        for number in range(row.first, row.stop):
            source = row.source if number == row.first else Row(row.source.line, "")
            yield number, GridRow(number, number + 1, row.cells, source)


__all__ = ["MASKED", "UNSET", "CellEdits", "edit_cells", "without_unused"]
