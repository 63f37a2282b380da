"""The one canonical text of a file. Printing what was printed changes nothing.

Canonical are: LF; the header in the order of `HEADER_ORDER`; one blank line between sections; the palette in symbol
order; blocks sorted by their key values; rows in bin order, equal neighbours joined, fully transparent ones left out,
and so are blocks that would have no rows then; runs as long as possible. Comments and `#! x-…` lines stay with the
line that they stood in front of, or at the end of their section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from txtdb.syntax.grid import TRANSPARENT_CELL, GridRow, Shape, encode_cells, merge_rows
from txtdb.syntax.reader import Source
from txtdb.syntax.symbols import symbol_rank
from txtdb.syntax.tree import Block, Directive, Line

HEADER_ORDER = ("iface", "arch", "base", "origin", "why", "evidence", "onto", "key", "axis", "config")

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def print_source(source: Source) -> str:
    """The canonical text of a file that was read without faults."""
    document = source.document
    lines = [f"#! {document.kind} 1", *document.magic.trailing]
    for directive in sorted(document.directives, key=lambda directive: HEADER_ORDER.index(directive.name)):
        lines.extend(_with_comments(directive, [_directive_text(directive)]))
    entries = sorted(document.palette, key=lambda entry: symbol_rank(entry.symbol))
    for entry in entries:
        if entry is entries[0]:
            lines.append("")
        lines.extend(_with_comments(entry, [f"{entry.symbol} = {' '.join(entry.values)}"]))
    names = [entry.symbol for entry in document.palette]
    for block, rows in sorted(zip(document.blocks, source.rows, strict=True), key=_block_rank):
        lines.extend(_block(source.shape, names, block, rows))
    if document.end.leading:
        lines.extend(("", *document.end.leading))
    lines.append("#! end")
    return "\n".join(lines) + "\n"


def functional_rank(values: list[str]) -> list[tuple[int, int, str]]:
    """Sort key of a functional's value texts: numbers by size, before words by letter."""
    return [(0, int(value), "") if _INTEGER.fullmatch(value) else (1, 0, value) for value in values]


def _block_rank(pair: tuple[Block, tuple[GridRow, ...]]) -> list[tuple[int, int, str]]:
    return functional_rank(pair[0].values)


def _with_comments(line: Line, texts: Iterable[str]) -> Iterator[str]:
    yield from line.leading
    yield from texts
    yield from line.trailing


def _directive_text(directive: Directive) -> str:
    return " ".join(["#!", directive.name, *directive.args])


def _block(shape: Shape, names: list[str], block: Block, rows: tuple[GridRow, ...]) -> Iterator[str]:
    """A block with a blank line in front. One that sets nothing is left out, unless it has comments to keep."""
    numbered = sorted(_single_rows(rows, names), key=lambda row: row[0])
    if not numbered and (block.leading or block.trailing):
        numbered = [(0, encode_cells([TRANSPARENT_CELL] * shape.width, names), ())]
    if not numbered:
        return
    yield ""
    lines = [f"[{' '.join(block.values)}]"]
    for line, comments in merge_rows(shape, numbered):
        lines.extend((*comments, line))
    yield from _with_comments(block, lines)


def _single_rows(rows: tuple[GridRow, ...], names: list[str]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Row lines taken apart into single rows; a comment stays with the first. Transparent ones are left out."""
    for row in rows:
        comments = row.source.leading
        if not comments and all(cell == TRANSPARENT_CELL for cell in row.cells):
            continue
        text = encode_cells(row.cells, names)
        for number in range(row.first, row.stop):
            yield number, text, comments if number == row.first else ()
