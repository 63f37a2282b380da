"""The one canonical text of a file. Printing what was printed changes nothing.

Canonical are: LF; the header in the order of `HEADER_ORDER`; one blank line between sections; the palette in symbol
order; blocks sorted by their key values; rows in bin order, equal neighbours joined, fully transparent ones left out;
runs as long as possible. Comments and `#! x-…` lines stay in front of the line they stood in front of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from txtdb.syntax.grid import TRANSPARENT_CELL, GridRow, encode_cells, merge_rows
from txtdb.syntax.reader import Source
from txtdb.syntax.symbols import symbol_rank
from txtdb.syntax.tree import Block, Directive, Document

HEADER_ORDER = ("iface", "arch", "base", "origin", "why", "evidence", "onto", "key", "axis", "config")

_INTEGER = re.compile(r"-?[0-9]{1,18}")


def print_source(source: Source) -> str:
    """The canonical text of a file that was read without faults."""
    document = source.document
    names = [entry.symbol for entry in document.palette]
    lines = [*document.magic.leading, f"#! {document.kind} 1"]
    lines.extend(_header(document))
    for number, entry in enumerate(sorted(document.palette, key=lambda entry: symbol_rank(entry.symbol))):
        lines.extend(_section_leading(entry.leading, number == 0))
        lines.append(f"{entry.symbol} = {' '.join(entry.values)}")
    blocks = sorted(zip(document.blocks, source.rows, strict=True), key=lambda pair: functional_rank(pair[0].values))
    for block, rows in blocks:
        lines.extend(_block(source, block, rows, names))
    lines.extend(document.end.leading)
    lines.append("#! end")
    return "\n".join(lines) + "\n"


def functional_rank(values: list[str]) -> list[tuple[int, int, str]]:
    """Sort key of a functional's value texts: numbers by size, before words by letter."""
    return [(0, int(value), "") if _INTEGER.fullmatch(value) else (1, 0, value) for value in values]


def _header(document: Document) -> Iterator[str]:
    ordered = sorted(document.directives, key=lambda directive: HEADER_ORDER.index(directive.name))
    for directive in ordered:
        yield from directive.leading
        yield _directive_text(directive)


def _directive_text(directive: Directive) -> str:
    return f"#! {directive.name} {' '.join(directive.text.split()[2:])}"


def _section_leading(leading: tuple[str, ...], starts_section: bool) -> Iterator[str]:
    """Comments with exactly one blank line at a section's start and none elsewhere."""
    if starts_section and "" not in leading:
        yield ""
    yield from leading if starts_section else filter(None, leading)


def _block(source: Source, block: Block, rows: tuple[GridRow, ...], names: list[str]) -> Iterator[str]:
    yield from _section_leading(block.leading, True)
    yield f"[{' '.join(block.values)}]"
    numbered = sorted(_single_rows(rows, names), key=lambda row: row[0])
    for line, comments in merge_rows(source.shape, numbered):
        yield from comments
        yield line


def _single_rows(rows: tuple[GridRow, ...], names: list[str]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Row lines taken apart into single rows; a comment stays with the first."""
    for row in rows:
        comments = row.source.leading
        if not comments and all(cell == TRANSPARENT_CELL for cell in row.cells):
            continue
        text = encode_cells(row.cells, names)
        for number in range(row.first, row.stop):
            yield number, text, comments if number == row.first else ()
