"""Text ↔ tree: the grammar, the parser with its named mistakes, rows ↔ cells, and the canonical printer."""

from txtdb.syntax.grid import MASKED_CELL, TRANSPARENT_CELL, GridRow, Shape
from txtdb.syntax.printer import print_source
from txtdb.syntax.reader import Source, read
from txtdb.syntax.tree import Block, Directive, Document, Entry, Line, Row

__all__ = [
    "MASKED_CELL",
    "TRANSPARENT_CELL",
    "Block",
    "Directive",
    "Document",
    "Entry",
    "GridRow",
    "Line",
    "Row",
    "Shape",
    "Source",
    "print_source",
    "read",
]
