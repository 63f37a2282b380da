"""Bytes of one file → `Source`: its document with decoded rows, and all faults that need no schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txtdb.faults import Fault
from txtdb.syntax.grid import GridRow, Shape, decode
from txtdb.syntax.parser import parse_bytes
from txtdb.syntax.tree import Document


@dataclass(frozen=True, slots=True)
class Source:
    """A file that can be used: the tree as written and, for each block, its decoded rows."""

    document: Document
    shape: Shape
    rows: tuple[tuple[GridRow, ...], ...]

    @property
    def file(self) -> str:
        """The name that spans carry."""
        return self.document.file


def read(data: bytes, file: str) -> tuple[Source | None, list[Fault]]:
    """Parse and decode one file. With any fault the source is still as complete as it could be made."""
    document, faults = parse_bytes(data, file)
    if document is None:
        return None, faults
    faults.extend(_structure_faults(document))
    shape = Shape(tuple(document.axes))
    if not 0 < len(shape.axes) <= 4:
        return Source(document, shape, tuple(() for _ in document.blocks)), faults
    rows, row_faults = decode(document, shape)
    return Source(document, shape, rows), faults + row_faults


def _structure_faults(document: Document) -> Iterator[Fault]:
    yield from _palette_faults(document)
    yield from _block_faults(document)


def _palette_faults(document: Document) -> Iterator[Fault]:
    file, fields = document.file, document.config_fields
    lines: dict[str, int] = {}
    contents: dict[tuple[str, ...], str] = {}
    for entry in document.palette:
        symbol, values = entry.symbol, tuple(entry.values)
        if symbol in lines:
            yield Fault(
                "duplicate-symbol",
                entry.word_span(file, 0),
                f"symbol `{symbol}` stands already in line {lines[symbol]}",
                "give one of them a new symbol",
            )
        elif values in contents:
            yield Fault(
                "duplicate-config",
                entry.span(file),
                f"`{symbol}` is the same config as `{contents[values]}`",
                "keep one symbol",
            )
        if fields and len(values) != len(fields):
            yield Fault(
                "config-length",
                entry.span(file),
                f"{len(values)} values for {len(fields)} fields",
                f"the fields are {' '.join(fields)}",
            )
        lines.setdefault(symbol, entry.line)
        contents.setdefault(values, symbol)


def _block_faults(document: Document) -> Iterator[Fault]:
    file, keys = document.file, document.keys
    lines: dict[tuple[str, ...], int] = {}
    for block in document.blocks:
        values = tuple(block.values)
        if keys and len(values) != len(keys):
            yield Fault(
                "functional-length",
                block.span(file),
                f"{len(values)} values for {len(keys)} keys",
                f"the keys are {' '.join(keys)}",
            )
        if values in lines:
            yield Fault(
                "duplicate-functional",
                block.span(file),
                f"{block.text.strip()} stands already in line {lines[values]}",
                "join the two blocks",
            )
        if not block.rows:
            yield Fault(
                "empty-block",
                block.span(file),
                f"{block.text.strip()} has no rows",
                "add rows, or remove the block",
            )
        lines.setdefault(values, block.line)
