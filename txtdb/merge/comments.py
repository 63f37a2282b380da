"""Comments and `#! x-…` lines, merged at the thing that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, auto

from txtdb.merge.grid import Grid, block_functionals
from txtdb.merge.header import identified
from txtdb.merge.threeway import Three, merge_lines
from txtdb.merge.versions import Version


class Place(IntEnum):
    """Where comments stand: in front of a thing, or at the end of a section."""

    DIRECTIVE = auto()
    HEADER_END = auto()
    ENTRY = auto()
    PALETTE_END = auto()
    BLOCK = auto()
    ROW = auto()
    BLOCK_END = auto()
    FILE_END = auto()


# The place, and the thing there: a directive's identity, a config's number, a functional, a functional and row bins.
Anchor = tuple[Place, tuple[str, ...], tuple[int, ...]]
Comments = dict[Anchor, tuple[str, ...]]

HEADER_END: Anchor = (Place.HEADER_END, (), ())
PALETTE_END: Anchor = (Place.PALETTE_END, (), ())
FILE_END: Anchor = (Place.FILE_END, (), ())


def merge_comments(versions: Three[Version], grid: Grid, entries: Three[list[int]]) -> Comments:
    """All comments of the merged file by anchor; `entries` are the config numbers of each version's palette."""
    found: list[Comments] = []
    for version, own in zip(versions, entries, strict=True):
        lines: Comments = {}
        for anchor, texts in _anchored(version, grid, own):
            if texts:
                lines[anchor] = (*lines.get(anchor, ()), *texts)
        found.append(lines)
    anchors = {anchor: None for own in found for anchor in own}
    merged = {anchor: merge_lines(Three(*(own.get(anchor, ()) for own in found))) for anchor in anchors}
    return {anchor: texts for anchor, texts in merged.items() if texts}


def _anchored(version: Version, grid: Grid, entries: list[int]) -> Iterator[tuple[Anchor, tuple[str, ...]]]:
    document = version.document
    for identity, directive in identified(version):
        yield (Place.DIRECTIVE, identity, ()), directive.leading
        yield HEADER_END, directive.trailing
    for number, entry in zip(entries, document.palette, strict=True):
        yield (Place.ENTRY, (), (number,)), entry.leading
        yield PALETTE_END, entry.trailing
    shape = version.source.shape
    functionals = block_functionals(document, grid.keys)
    for functional, block, rows in zip(functionals, document.blocks, version.source.rows, strict=True):
        yield (Place.BLOCK, functional, ()), block.leading
        yield (Place.BLOCK_END, functional, ()), block.trailing
        for row in rows:
            if row.source.leading:
                yield (Place.ROW, functional, shape.row_bins(row.first)), row.source.leading
    yield FILE_END, document.end.leading
