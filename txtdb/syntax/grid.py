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

# A file, and a resolved table, of more cells than this is refused: a short text can spell a grid that no memory holds.
MAX_CELLS = 1 << 24

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
    def size(self) -> int:
        """Cells in a full block."""
        return prod(self.lengths)

    @cached_property
    def places(self) -> tuple[dict[int, int], ...]:
        """Bin → position, for each axis."""
        return tuple({value: place for place, value in enumerate(bins)} for _, bins in self.axes)

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
    for axis, word in enumerate(words):
        row = row * shape.lengths[axis] + _place(shape, axis, word)
    if not last:
        return row, row + 1
    axis = len(words) - 1
    count = _place(shape, axis, last) - _place(shape, axis, words[-1])
    if count < 0:
        raise LabelFault(f"the range {words[-1]}-{last} runs backwards")
    return row, row + count + 1


def _place(shape: Shape, axis: int, word: str) -> int:
    place = shape.places[axis].get(int(word))
    if place is None:
        raise LabelFault(f"{word} is no bin of axis {shape.axes[axis][0]}")
    return place


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
        cells = [self._ordinals[symbol]] * length
        if length <= _KEPT_RUN:
            self[text] = cells
        return cells


# Longer runs are rare, and all their different lengths together could fill the memory.
_KEPT_RUN = 64


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
        self._labelled = len(shape.axes) > 1
        self._labels: dict[str, tuple[int, int]] = {}
        self._unknown: set[str] = set()

    def block(self, rows: Sequence[Row]) -> tuple[GridRow, ...]:
        decoded: list[GridRow] = []
        taken: dict[int, int] = {}
        for row in rows:
            words = row.text.split()
            if not words:
                continue  # the stand-in of a row that was reported
            try:
                first, stop = self._label(words[0])
                free = self._take(row, first, stop, taken)
                cells = self._cells(words) if free else []
            except (LabelFault, KeyError):
                free = False
            if free:
                decoded.append(GridRow(first, stop, cells, row))
            else:
                self.faults.extend(self._explain(row, words))
        return tuple(decoded)

    def _label(self, word: str) -> tuple[int, int]:
        rows = self._labels.get(word)
        if rows is None:
            rows = self._labels[word] = self._read_label(word)
        return rows

    @cached_property
    def _label_hint(self) -> str:
        return "; ".join(f"{name}: {_some(bins)}" for name, bins in self._shape.label_axes) or "remove it"

    def _read_label(self, word: str) -> tuple[int, int]:
        has_label = word[0].isdigit()
        if self._labelled and has_label:
            return label_rows(self._shape, word)
        if self._labelled:
            raise LabelFault("the row has no label")
        if has_label:
            raise LabelFault("a table with one axis has no row labels")
        return 0, 1

    def _cells(self, words: Sequence[str]) -> list[int]:
        """The cells of a row's words. Raises KeyError where they are not just as many as the row has."""
        cells: list[int] = []
        runs, width = self._runs, self._shape.width
        for word in words[1:] if self._labelled else words:
            cells += runs[word]
            if len(cells) > width:
                raise KeyError(word)
        if len(cells) < width:
            raise KeyError(words[0])
        return cells

    def _take(self, row: Row, first: int, stop: int, taken: dict[int, int]) -> bool:
        """Note that a row line covers its rows; False, with a fault, where another does already."""
        for number in range(first, stop):
            line = taken.setdefault(number, row.line)
            if line != row.line:
                what = self._shape.label(number, number) or "the row"
                message = f"{what} stands already in line {line}"
                self.faults.append(Fault("rows-overlap", row.word_span(self._file, 0), message, "keep one of them"))
                return False
        return True

    def _explain(self, row: Row, words: Sequence[str]) -> Iterator[Fault]:
        """The faults of a row that could not be decoded: found again slowly, for their exact places."""
        try:
            self._label(words[0])
        except LabelFault as error:
            yield Fault("bad-label", row.word_span(self._file, 0), str(error), self._label_hint)
        has_label = words[0][0].isdigit()
        if has_label or not self._labelled:
            yield from self._explain_runs(row, list(enumerate(words))[has_label:])

    def _explain_runs(self, row: Row, runs: Sequence[tuple[int, str]]) -> Iterator[Fault]:
        """The first fault of a row's runs. An unknown symbol is one fault of the file, wherever it is used."""
        width, total, told = self._shape.width, 0, False
        for index, text in runs:
            symbol, _, count = text.partition("*")
            if symbol not in self._ordinals:
                if symbol not in self._unknown:
                    message, hint = f"`{symbol}` stands not in the palette", "add an entry, or correct the symbol"
                    yield Fault("unknown-symbol", row.word_span(self._file, index), message, hint)
                self._unknown.add(symbol)
                told = True
            elif count == "0":
                yield Fault("empty-run", row.word_span(self._file, index), "a run of no cells", "remove it")
                return
            total += int(count or 1)
            if total > width:
                message = f"the row is longer than its {width} cells"
                yield Fault("row-too-long", row.word_span(self._file, index), message, "shorten the last runs")
                return
        if total < width and not told:
            message, hint = f"the row has {total} of {width} cells", "write `.` for cells that this file leaves alone"
            yield Fault("row-too-short", row.span(self._file), message, hint)


def _some(bins: Sequence[int]) -> str:
    words = list(map(str, bins))
    return " ".join(words if len(words) <= _SHOWN_BINS else [*words[: _SHOWN_BINS - 1], "…", words[-1]])


_SHOWN_BINS = 20


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
