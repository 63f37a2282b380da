"""Bytes of one file → `Source`: its document with decoded rows, and all faults that need no schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from txtdb.faults import Fault
from txtdb.syntax.grid import MAX_CELLS, GridRow, Shape, decode
from txtdb.syntax.header import MAX_AXES
from txtdb.syntax.parser import parse_bytes
from txtdb.syntax.tree import Block, Document, Entry


@dataclass(frozen=True, slots=True)
class Source:
    """A file that can be used: the tree as written and, for each block, its decoded rows.

    The shape has no axes where the file has none, or where they cannot be used; there are no rows then.
    """

    document: Document
    shape: Shape
    rows: tuple[tuple[GridRow, ...], ...]

    @property
    def file(self) -> str:
        """The name that spans carry."""
        return self.document.file


def read(data: bytes, file: str) -> tuple[Source | None, list[Fault]]:
    """Parse and decode one file. With any fault the source is still as complete as it could be made.

    The faults come in the order of the file.
    """
    document, faults = parse_bytes(data, file)
    if document is None:
        return None, faults
    faults.extend(_palette_faults(document))
    faults.extend(_block_faults(document))
    shape = Shape(tuple(document.axes))
    faults.extend(_size_faults(document, shape))
    if "axis" in document.malformed or not 0 < len(shape.axes) <= MAX_AXES or _cells(document, shape) > MAX_CELLS:
        source = Source(document, Shape(()), tuple(() for _ in document.blocks))
    else:
        rows, row_faults = decode(document, shape)
        faults.extend(row_faults)
        source = Source(document, shape, rows)
    return source, sorted(faults, key=lambda fault: fault.span)


def _cells(document: Document, shape: Shape) -> int:
    return shape.size * max(1, len(document.blocks))


def _size_faults(document: Document, shape: Shape) -> Iterator[Fault]:
    axis = document.directive("axis")
    cells = _cells(document, shape)
    if axis and cells > MAX_CELLS:
        message = f"{cells} cells; a file has at most {MAX_CELLS}"
        yield Fault("too-large", axis.span(document.file), message, "leave out bins, or split the file")


def _palette_faults(document: Document) -> Iterator[Fault]:
    file = document.file
    entries = [entry for entry in document.palette if entry.values]  # the others were reported by the parser
    lines: dict[str, int] = {}
    contents: dict[tuple[str, ...], str] = {}
    for entry in entries:
        symbol, values = entry.symbol, tuple(entry.values)
        if symbol in lines:
            message = f"symbol `{symbol}` stands already in line {lines[symbol]}"
            yield Fault("duplicate-symbol", entry.word_span(file, 0), message, "give one of them a new symbol")
        elif values in contents:
            message = f"`{symbol}` is the same config as `{contents[values]}`"
            yield Fault("duplicate-config", entry.span(file), message, "keep one symbol")
        lines.setdefault(symbol, entry.line)
        contents.setdefault(values, symbol)
    yield from _length_faults(document, "config", entries, "config-length")


def _block_faults(document: Document) -> Iterator[Fault]:
    file = document.file
    blocks = [block for block in document.blocks if block.values]
    lines: dict[tuple[str, ...], int] = {}
    for block in blocks:
        values, head = tuple(block.values), block.text.strip()
        if values in lines:
            message = f"{head} stands already in line {lines[values]}"
            yield Fault("duplicate-functional", block.span(file), message, "join the two blocks")
        if not block.rows:
            yield Fault("empty-block", block.span(file), f"{head} has no rows", "add rows, or remove the block")
        lines.setdefault(values, block.line)
    yield from _length_faults(document, "key", blocks, "functional-length")


def _length_faults(
    document: Document, directive: str, lines: Sequence[Entry] | Sequence[Block], rule: str
) -> Iterator[Fault]:
    """Lines with other than one value per name. Where all are wrong alike, the names are the one thing to correct."""
    named = document.directive(directive)
    if named is None:
        return
    names = named.args
    wrong = [line for line in lines if len(line.values) != len(names)]
    hint = f"the names are {' '.join(names)}"
    if 1 < len(wrong) == len(lines) and len({len(line.values) for line in wrong}) == 1:
        message = f"{len(names)} names, but every line has {len(wrong[0].values)} values"
        yield Fault(rule, named.span(document.file), message, hint)
    else:
        for line in wrong:
            yield Fault(rule, line.span(document.file), f"{len(line.values)} values for {len(names)} names", hint)
