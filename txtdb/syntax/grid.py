"""Rows ↔ cells: labels, runs and run-length encoding of one file, checked against its own axes and palette.

A cell is an ordinal into the file's palette, `TRANSPARENT_CELL` or `MASKED_CELL`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import prod

from txtdb.faults import Fault, Span
from txtdb.syntax.tree import MASK, TRANSPARENT, Document, Row

TRANSPARENT_CELL = -1
MASKED_CELL = -2

_MARKS = {TRANSPARENT: TRANSPARENT_CELL, MASK: MASKED_CELL}


@dataclass(frozen=True)
class Shape:
    """The grid of one file: (name, bins) of its axes. Rows run over all axes but the last."""

    axes: tuple[tuple[str, tuple[int, ...]], ...]

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of bins of each axis."""
        return tuple(len(bins) for _, bins in self.axes)

    @property
    def width(self) -> int:
        """Cells in a row."""
        return self.lengths[-1] if self.axes else 0

    @property
    def rows(self) -> int:
        """Rows in a full block."""
        return prod(self.lengths[:-1])

    @property
    def label_axes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The axes that a row's label names."""
        return self.axes[:-1]

    def label(self, first: int, last: int) -> str:
        """The label of rows `first` to `last` (both included), which differ in the last label axis only."""
        at_first, at_last = self.row_bins(first), self.row_bins(last)
        text = ",".join(map(str, at_first))
        return text if first == last else f"{text}-{at_last[-1]}"

    def row_bins(self, row: int) -> tuple[int, ...]:
        """Bins of the label axes of a flat row number."""
        bins: list[int] = []
        for _, values in reversed(self.label_axes):
            row, index = divmod(row, len(values))
            bins.append(values[index])
        return tuple(reversed(bins))


class LabelFault(ValueError):
    """A row label that names no rows of the shape; its text says why."""


def label_rows(shape: Shape, label: str) -> tuple[int, int]:
    """The flat row numbers [first, behind the last) that a label covers. Raises LabelFault."""
    head, _, last = label.partition("-")
    words = head.split(",")
    if len(words) != len(shape.label_axes):
        raise LabelFault(f"the label names {len(words)} of {len(shape.label_axes)} axes")
    row = 0
    for word, (name, bins) in zip(words, shape.label_axes, strict=True):
        row = row * len(bins) + _bin_index(int(word), name, bins)
    if not last:
        return row, row + 1
    name, bins = shape.label_axes[-1]
    count = _bin_index(int(last), name, bins) - _bin_index(int(words[-1]), name, bins)
    if count < 0:
        raise LabelFault(f"the range {words[-1]}-{last} runs backwards")
    return row, row + count + 1


def _bin_index(value: int, name: str, bins: tuple[int, ...]) -> int:
    try:
        return bins.index(value)
    except ValueError:
        raise LabelFault(f"{value} is no bin of axis {name}") from None


@dataclass(frozen=True, slots=True)
class GridRow:
    """A decoded row line: the flat rows [first, stop) that it covers and their common cells."""

    first: int
    stop: int
    cells: list[int]
    source: Row


class _Runs(dict[str, list[int]]):
    """Run text → its cells. Filled as runs are met; a wrong run raises KeyError."""

    def __init__(self, ordinals: dict[str, int], width: int) -> None:
        super().__init__()
        self._ordinals, self._width = ordinals, width

    def __missing__(self, text: str) -> list[int]:
        symbol, _, count = text.partition("*")
        length = int(count) if count else 1
        if not 0 < length <= self._width:
            raise KeyError(text)
        cells = self[text] = [self._ordinals[symbol]] * length
        return cells


def decode(document: Document, shape: Shape) -> tuple[tuple[tuple[GridRow, ...], ...], list[Fault]]:
    """Decode all blocks. Rows with faults are left out."""
    ordinals = dict(_MARKS)
    for number, entry in enumerate(document.palette):
        ordinals.setdefault(entry.symbol, number)
    decoder = _Decoder(document.file, shape, ordinals)
    blocks = tuple(decoder.block(block.rows) for block in document.blocks)
    return blocks, decoder.faults


class _Decoder:
    def __init__(self, file: str, shape: Shape, ordinals: dict[str, int]) -> None:
        self.faults: list[Fault] = []
        self._file, self._shape, self._ordinals = file, shape, ordinals
        self._runs = _Runs(ordinals, shape.width)
        self._labels: dict[str, tuple[int, int]] = {}

    def block(self, rows: Sequence[Row]) -> tuple[GridRow, ...]:
        decoded: list[GridRow] = []
        runs, width, labelled = self._runs, self._shape.width, len(self._shape.axes) > 1
        for row in rows:
            words = row.text.split()
            cells: list[int] = []
            try:
                first, stop = self._label(words[0]) if labelled else (0, 1)
                for word in words[1:] if labelled else words:
                    cells += runs[word]
            except (LabelFault, KeyError):
                cells = []
            if len(cells) == width:
                decoded.append(GridRow(first, stop, cells, row))
            else:
                self.faults.append(self._explain(row, words, labelled))
        self._check_overlap(decoded)
        return tuple(decoded)

    def _label(self, label: str) -> tuple[int, int]:
        rows = self._labels.get(label)
        if rows is None:
            if not label[0].isdigit():
                raise LabelFault("the row has no label")
            rows = self._labels[label] = label_rows(self._shape, label)
        return rows

    def _explain(self, row: Row, words: list[str], labelled: bool) -> Fault:
        """The fault of a row that could not be decoded: found again slowly, for its exact place."""
        first_is_label = words[0][0].isdigit()
        if labelled:
            try:
                self._label(words[0])
            except LabelFault as error:
                return Fault("bad-label", row.word_span(self._file, 0), str(error), _label_hint(self._shape))
        elif first_is_label:
            return Fault(
                "bad-label",
                row.word_span(self._file, 0),
                "a table with one axis has no row labels",
                "remove it",
            )
        runs = list(enumerate(words))[1 if labelled else 0 :]
        return self._explain_runs(row, runs)

    def _explain_runs(self, row: Row, runs: list[tuple[int, str]]) -> Fault:
        width, total = self._shape.width, 0
        for index, text in runs:
            symbol, _, count = text.partition("*")
            span = row.word_span(self._file, index)
            if symbol not in self._ordinals:
                return Fault(
                    "unknown-symbol",
                    span,
                    f"`{symbol}` stands not in the palette",
                    "add an entry, or correct the symbol",
                )
            if count == "0":
                return Fault("empty-run", span, "a run of no cells", "remove it")
            total += int(count) if count else 1
            if total > width:
                return Fault("row-too-long", span, f"the row is longer than its {width} cells", "shorten the last runs")
        last = row.span(self._file)
        return Fault(
            "row-too-short",
            last,
            f"the row has {total} of {width} cells",
            "write `.` for cells that this file leaves alone",
        )

    def _check_overlap(self, rows: list[GridRow]) -> None:
        taken: dict[int, Row] = {}
        for row in rows:
            for number in range(row.first, row.stop):
                other = taken.setdefault(number, row.source)
                if other is not row.source:
                    label = self._shape.label(number, number) or "the row"
                    self.faults.append(
                        Fault(
                            "rows-overlap",
                            row.source.word_span(self._file, 0),
                            f"{label} stands already in line {other.line}",
                            "keep one of them",
                        )
                    )
                    break


def _label_hint(shape: Shape) -> str:
    return "; ".join(f"{name}: {' '.join(map(str, bins))}" for name, bins in shape.label_axes)


def run_span(row: Row, file: str, column: int, labelled: bool) -> Span:
    """Where the run stands that sets cell `column` (from 0) of a row."""
    at = 0
    for index, word in enumerate(row.text.split()):
        if index == 0 and labelled:
            continue
        at += int(word.partition("*")[2] or 1)
        if at > column:
            return row.word_span(file, index)
    return row.span(file)


def encode_cells(cells: Sequence[int], names: Sequence[str] | Mapping[int, str]) -> str:
    """Cells of one row as runs. `names` gives the symbol of each cell that is no mark."""
    marks = {TRANSPARENT_CELL: TRANSPARENT, MASKED_CELL: MASK}
    return " ".join(_run(marks.get(cell) or names[cell], len(list(group))) for cell, group in groupby(cells))


def _run(symbol: str, count: int) -> str:
    return symbol if count == 1 else f"{symbol}*{count}"


def merge_rows(shape: Shape, rows: Sequence[tuple[int, str, tuple[str, ...]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(row number, runs, comments) in row order → (line, comments), equal neighbours joined into ranges.

    A comment starts a new line, so that it stays where it stands.
    """
    height = shape.lengths[-2] if len(shape.axes) > 1 else 1
    start = 0
    for index in range(1, len(rows) + 1):
        if index < len(rows) and _continues(rows[index - 1], rows[index], height):
            continue
        number, text, comments = rows[start]
        label = shape.label(number, rows[index - 1][0])
        yield (f"{label} {text}" if label else text), comments
        start = index


def _continues(above: tuple[int, str, tuple[str, ...]], row: tuple[int, str, tuple[str, ...]], height: int) -> bool:
    return row[0] == above[0] + 1 and row[0] % height != 0 and row[1] == above[1] and not row[2]
