"""A file's cells as numpy arrays, typed by the schema.

Configs are interned: a cell holds the number of a config in the interface's `ConfigPool`, or one of the marks below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from txtdb.faults import Fault, Span
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, Value, ValueType, parse_value, print_value, text_type
from txtdb.syntax import MASKED_CELL, TRANSPARENT_CELL, Line, Row, Source
from txtdb.syntax.grid import run_span

Cells = npt.NDArray[np.int32]
ConfigValues = tuple[Value, ...]

UNSET = TRANSPARENT_CELL
MASKED = MASKED_CELL


class ConfigPool:
    """Numbers for the configs of one interface. Equal contents have equal numbers, across all files."""

    def __init__(self) -> None:
        self._numbers: dict[ConfigValues, int] = {}
        self._values: list[ConfigValues] = []

    def intern(self, values: ConfigValues) -> int:
        """The number of a config, given now if it is new."""
        number = self._numbers.setdefault(values, len(self._values))
        if number == len(self._values):
            self._values.append(values)
        return number

    def __getitem__(self, number: int) -> ConfigValues:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class FileTable:
    """The cells that one file sets. `cells` has shape (functionals, bins of axis 1, bins of axis 2, …).

    `blocks` gives for each functional the number of its block in the document; `palette` the pool numbers of the
    document's palette entries (None where an entry could not be read).
    """

    source: Source
    functionals: tuple[Functional, ...]
    bins: tuple[tuple[int, ...], ...]
    cells: Cells
    blocks: tuple[int, ...]
    palette: tuple[int | None, ...]

    def row_of(self, functional_index: int, at: tuple[int, ...]) -> Row | None:
        """The row line that holds a cell; `at` are positions on the axes."""
        number = 0
        for index, bins in zip(at[:-1], self.bins, strict=False):
            number = number * len(bins) + index
        rows = self.source.rows[self.blocks[functional_index]]
        return next((row.source for row in rows if row.first <= number < row.stop), None)

    def cell_span(self, functional_index: int, at: tuple[int, ...]) -> Span:
        """The run that sets a cell; the block's head where no row holds it."""
        row = self.row_of(functional_index, at)
        if row is None:
            return self.block_span(functional_index)
        return run_span(row, self.source.file, at[-1], len(self.bins) > 1)

    def block_span(self, functional_index: int) -> Span:
        """The head `[…]` of a functional's block."""
        return self.source.document.blocks[self.blocks[functional_index]].span(self.source.file)


def build_table(source: Source, schema: Schema, arch: str, pool: ConfigPool) -> tuple[FileTable, list[Fault]]:
    """Type a file by its schema. Blocks and palette entries with faults are left out of the table."""
    builder = _Builder(source, schema, arch, pool)
    return builder.table(), builder.faults


class _Builder:
    def __init__(self, source: Source, schema: Schema, arch: str, pool: ConfigPool) -> None:
        self.faults: list[Fault] = []
        self._source, self._schema, self._arch, self._pool = source, schema, arch, pool
        self._document, self._file = source.document, source.file

    def table(self) -> FileTable:
        palette = self.palette()
        functionals: list[Functional] = []
        blocks: list[int] = []
        if not self.axes_fit() or not self.document_has_keys():
            return self.assemble((), (), palette)
        lines: dict[Functional, int] = {}
        for number, functional in self.functionals():
            line = self._document.blocks[number].line
            if lines.setdefault(functional, line) == line:
                functionals.append(functional)
                blocks.append(number)
        return self.assemble(tuple(functionals), tuple(blocks), palette)

    def assemble(
        self, functionals: tuple[Functional, ...], blocks: tuple[int, ...], palette: tuple[int | None, ...]
    ) -> FileTable:
        shape = self._source.shape
        bins = tuple(values for _, values in shape.axes)
        blank = [UNSET] * shape.width
        flat: list[int] = []
        for number in blocks:
            rows = [blank] * shape.rows
            for row in self._source.rows[number]:
                rows[row.first : row.stop] = [row.cells] * (row.stop - row.first)
            for row_cells in rows:
                flat += row_cells
        numbers = np.array([UNSET if n is None else n for n in palette] + [MASKED, UNSET], np.int32)
        cells = numbers[np.array(flat, np.int32)].reshape(len(blocks), *shape.lengths)
        cells.flags.writeable = False
        return FileTable(self._source, functionals, bins, cells, blocks, palette)

    def axes_fit(self) -> bool:
        directive = self._document.directive("axis")
        names = tuple(axis for axis, _ in self._source.shape.axes)
        if not names or directive is None or names == self._schema.axis_names:
            return bool(names)
        self.faults.append(
            Fault(
                "axis-names",
                directive.span(self._file),
                f"the axes are {', '.join(names)}",
                f"the schema has {', '.join(self._schema.axis_names)}, in this order",
            )
        )
        return False

    def document_has_keys(self) -> bool:
        directive, expected = self._document.directive("key"), self._schema.key_names
        if directive is None:
            return False
        names = directive.args
        for index, name in enumerate(names):
            if name not in expected:
                span = directive.arg_span(self._file, index)
                self.faults.append(
                    Fault(
                        "unknown-key",
                        span,
                        f"the schema has no key `{name}`",
                        f"its keys are {' '.join(expected)}",
                    )
                )
        for name in expected:
            if name not in names:
                self.faults.append(
                    Fault(
                        "missing-key",
                        directive.span(self._file),
                        f"key `{name}` is missing",
                        f"the keys are {' '.join(expected)}",
                    )
                )
        return sorted(names) == sorted(expected)

    def functionals(self) -> Iterator[tuple[int, Functional]]:
        names = self._document.keys
        order = [names.index(name) for name in self._schema.key_names]
        cache: dict[tuple[int, str], Value | None] = {}
        keys = self._schema.keys
        for number, block in enumerate(self._document.blocks):
            texts = block.values
            if len(texts) != len(names):
                continue
            values = []
            for position, index in enumerate(order):
                text = texts[index]
                if (position, text) not in cache:
                    cache[position, text] = parse_value(text, keys[position].type)
                value = cache[position, text]
                if value is None:
                    self.type_fault("key-type", block, index, keys[position].name, keys[position].type, text)
                else:
                    values.append(value)
            if len(values) == len(order):
                yield number, tuple(values)

    def palette(self) -> tuple[int | None, ...]:
        directive = self._document.directive("config")
        if directive is None:
            return tuple(None for _ in self._document.palette)
        names, known = directive.args, self._schema.field_names
        fits = True
        for index, name in enumerate(names):
            if name not in known:
                fits = False
                self.faults.append(
                    Fault(
                        "unknown-field",
                        directive.arg_span(self._file, index),
                        f"the schema has no config field `{name}`",
                        f"its fields are {' '.join(known)}",
                    )
                )
        for item in self._schema.config:
            if item.name not in names and item.default is None:
                fits = False
                self.faults.append(
                    Fault(
                        "missing-field",
                        directive.span(self._file),
                        f"config field `{item.name}` is missing and has no default",
                        "add it",
                    )
                )
        if not fits:
            return tuple(None for _ in self._document.palette)
        numbers = tuple(self.config(entry, entry.values, names) for entry in self._document.palette)
        self.equal_entries(numbers)
        return numbers

    def config(self, entry: Line, texts: list[str], names: list[str]) -> int | None:
        if len(texts) != len(names):
            return None
        given = dict(zip(names, enumerate(texts), strict=True))
        values: list[Value] = []
        for item in self._schema.config:
            if item.name not in given:
                assert item.default is not None, "palette() has seen to fields without default"
                values.append(item.default)
                continue
            index, text = given[item.name]
            value = parse_value(text, item.type)
            if value is None:
                self.type_fault("value-type", entry, index + 1, item.name, item.type, text)
            else:
                values.append(value)
        if len(values) < len(self._schema.config):
            return None
        arch_schema = self._schema.for_arch(self._arch)
        reason = arch_schema.illegal(tuple(values)) if arch_schema else None
        if reason:
            self.faults.append(
                Fault(
                    "illegal-config",
                    entry.span(self._file),
                    reason,
                    "correct the entry, or widen the schema's domain",
                )
            )
        return self._pool.intern(tuple(values))

    def equal_entries(self, numbers: tuple[int | None, ...]) -> None:
        """Two symbols of one content that differ in spelling only (a default written out) are one config."""
        first: dict[int, int] = {}
        texts = [tuple(entry.values) for entry in self._document.palette]
        for index, number in enumerate(numbers):
            if number is None or first.setdefault(number, index) == index or texts[first[number]] == texts[index]:
                continue
            entry, same = self._document.palette[index], self._document.palette[first[number]]
            self.faults.append(
                Fault(
                    "duplicate-config",
                    entry.span(self._file),
                    f"`{entry.symbol}` is the same config as `{same.symbol}`",
                    "keep one symbol",
                )
            )

    def type_fault(self, rule: str, line: Line, word: int, name: str, expected: ValueType, text: str) -> None:
        hint = {"bool": "write true or false", "int": "write digits", "enum": "write one of its names"}[expected]
        message = f"{name}: expected {expected}, found {text_type(text)} `{text}`"
        self.faults.append(Fault(rule, line.word_span(self._file, word), message, hint))


def functional_text(schema: Schema, functional: Functional) -> str:
    """A functional for people: `Q_dtype=bf16 BLOCK_DMODEL=64`."""
    return " ".join(f"{name}={print_value(value)}" for name, value in zip(schema.key_names, functional, strict=True))


def config_text(schema: Schema, values: ConfigValues) -> str:
    """A config for people: `BLOCK_M=64 num_warps=4`."""
    return " ".join(f"{name}={print_value(value)}" for name, value in zip(schema.field_names, values, strict=True))
