"""Columns for terminals: padding that does not count colours, and panels for tables wider than the window."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Piece:
    """A text and how it looks on a terminal (arguments of `click.style`)."""

    text: str
    style: dict[str, Any] = field(default_factory=dict)

    def padded(self, width: int, right: bool) -> str:
        """The text at the right or left of a column."""
        blanks, visible = " " * (width - len(self.text)), self.text.rstrip()
        styled = click.style(visible, **self.style) if self.style and visible else visible
        styled += self.text[len(visible) :]
        return blanks + styled if right else styled + blanks


Row = Sequence[Piece | str]


def window_width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere, so that no line is broken there."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def aligned(rows: Sequence[Row], left: int = 0, indent: str = "  ") -> Iterator[str]:
    """Rows with their columns under each other, two blanks apart; the first `left` columns stand at the left."""
    pieces = [[item if isinstance(item, Piece) else Piece(item) for item in row] for row in rows]
    widths = column_widths(pieces)
    for row in pieces:
        cells = (
            piece.padded(width, place >= left) for place, (piece, width) in enumerate(zip(row, widths, strict=False))
        )
        yield (indent + "  ".join(cells)).rstrip()


def column_widths(rows: Sequence[Sequence[Piece]]) -> list[int]:
    """The width of each column."""
    count = max((len(row) for row in rows), default=0)
    return [max((len(row[place].text) for row in rows if place < len(row)), default=0) for place in range(count)]


def panels(widths: Sequence[int], fixed: int, limit: int | None, indent: int = 2) -> Iterator[range]:
    """Ranges of columns that fit beside the first `fixed` ones, which every panel repeats; at least one column each."""
    space = None if limit is None else limit - indent - sum(width + 2 for width in widths[:fixed])
    start = fixed
    while start < len(widths):
        used = accumulate(width + 2 for width in widths[start:])
        fitting = len(widths) - start if space is None else sum(total - 2 <= space for total in used)
        stop = start + max(1, fitting)
        yield range(start, stop)
        start = stop
