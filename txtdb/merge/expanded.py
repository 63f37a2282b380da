"""A table or patch with its configs written out: what `git diff` compares in place of symbols.

One line for each run of cells, and it says all that it is about, so that a line of a diff can be read alone:

    [fp16 0 64] seqlen_q=64 seqlen_k=128-256: BLOCK_M=64 num_warps=4

Symbols, ranges of rows and the order of the palette do not show, so a file that is only written in another way looks
the same. In a file with faults the lines that cannot be read, and whole conflicts, stand as they are among the others.
No schema is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from txtdb.faults import errors
from txtdb.model.table import MASKED, UNSET
from txtdb.syntax import Block, Document, Entry, GridRow, Source, print_source, read
from txtdb.syntax.printer import functional_rank


def expanded(data: bytes) -> bytes:
    """The expanded form of a file; one of which nothing can be made out, as it is."""
    source, faults = read(data, "")
    if source is None:
        return data
    if not errors(faults):
        data = print_source(source).encode()
        source, _ = read(data, "")
        assert source is not None, "the printer's text can be read"
    lines = data.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(_Expansion(source, lines).all()).encode()


class _Expansion:
    """Goes through the lines of a file, and puts what was read in place of those that it was read from."""

    def __init__(self, source: Source, lines: list[str]) -> None:
        document = source.document
        self._shape = source.shape
        self._magic = document.magic.line
        self._lines = lines
        self._contents = _contents(document)
        self._directives = {d.line: " ".join(["#!", d.name, *d.args]) for d in document.directives}
        self._entries = {entry.line: (number, entry) for number, entry in enumerate(document.palette) if entry.values}
        blocks = list(zip(document.blocks, source.rows, strict=True))
        self._heads = {block.line for block, rows in blocks if rows and block.values}
        self._rows = {row.source.line: (self._head(block), row) for block, rows in blocks for row in rows}

    def all(self) -> Iterator[str]:
        """All lines. Those of the palette stand in the order of what they mean, and the others as in the file."""
        first, last = self._palette()
        yield from self._expanded(1, first)
        yield from self._configs(first, last)
        yield from self._expanded(last, len(self._lines) + 1)

    def _expanded(self, first: int, stop: int) -> Iterator[str]:
        for number in range(first, stop):
            if number in self._rows:
                yield from self._runs(*self._rows[number])
            elif number not in self._heads:
                yield self._directives.get(number, self._lines[number - 1])

    def _palette(self) -> tuple[int, int]:
        """The first line of the palette, with the comments that touch it, and the one behind its last."""
        if not self._entries:
            return 1, 1
        first, last = min(self._entries), max(self._entries)
        while self._is_comment(first - 1):
            first -= 1
        return first, last + 1

    def _is_comment(self, number: int) -> bool:
        is_directive = number == self._magic or number in self._directives
        return self._lines[number - 1].startswith("#") and not is_directive

    def _configs(self, first: int, stop: int) -> Iterator[str]:
        """The palette's lines, sorted, so that it shows when a config is new to the file; what stands above an entry
        stays there."""
        groups: list[tuple[Entry, list[str]]] = []
        above: list[str] = []
        for number in range(first, stop):
            line = self._lines[number - 1]
            if number in self._entries:
                place, entry = self._entries[number]
                groups.append((entry, [*above, f"config {self._contents[place]}"]))
                above = []
            elif line.strip():
                above.append(line)
        for _, lines in sorted(groups, key=lambda group: functional_rank(group[0].values)):
            yield from lines

    def _head(self, block: Block) -> str:
        return f"[{' '.join(block.values)}]" if block.values else self._lines[block.line - 1]

    def _runs(self, head: str, row: GridRow) -> Iterator[str]:
        """The runs of a row line, again for each row that it covers."""
        shape = self._shape
        name, bins = shape.axes[-1]
        runs, column = [], 0
        for cell, run in groupby(row.cells):
            last = column + len(list(run)) - 1
            span = f"{bins[column]}-{bins[last]}" if last > column else f"{bins[column]}"
            if cell != UNSET:
                runs.append(f"{name}={span}: {self._contents[cell]}")
            column = last + 1
        for number in range(row.first, row.stop):
            bins_of = zip(shape.label_axes, shape.row_bins(number), strict=True)
            prefix = " ".join([head, *(f"{axis}={value}" for (axis, _), value in bins_of)])
            yield from (f"{prefix} {run}" for run in runs)


def _contents(document: Document) -> dict[int, str]:
    """Cell → what it says; nothing for a transparent one."""
    return {**{number: _content(entry, document) for number, entry in enumerate(document.palette)}, MASKED: "masked"}


def _content(entry: Entry, document: Document) -> str:
    """An entry by its field names; by what can be read of it, where the names do not fit."""
    fields, values = document.config_fields, entry.values
    if len(fields) == len(values):
        return " ".join(f"{name}={value}" for name, value in zip(fields, values, strict=True))
    return " ".join(values or [entry.symbol])
