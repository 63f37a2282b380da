"""A table or patch with its configs written out: what `git diff` compares in place of symbols.

One line for each run of cells, and it says all that it is about, so that a line of a diff can be read alone:

    [fp16 0 64] seqlen_q=64 seqlen_k=128-256: BLOCK_M=64 num_warps=4

Symbols, ranges of rows and the order of the palette do not show, so a file that is only written in another way looks
the same. No schema is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from txtdb.merge.header import directive_lines
from txtdb.merge.versions import Version, read_version
from txtdb.model.table import MASKED, UNSET
from txtdb.syntax import Block, GridRow
from txtdb.syntax.printer import functional_rank


def expanded(data: bytes) -> bytes:
    """The expanded form of a file; any file that cannot be read, as it is."""
    version, _ = read_version(data, "")
    if version is None or not version.text:
        return data
    return "\n".join([*_lines(version), ""]).encode()


def _lines(version: Version) -> Iterator[str]:
    document = version.document
    yield f"#! {document.kind} 1"
    lines = directive_lines(version).values()
    for directive, line in zip(document.directives, lines, strict=True):
        yield from (*directive.leading, line, *directive.trailing)
    yield from _palette_lines(version)
    contents = _contents(version)
    for block, rows in zip(document.blocks, version.source.rows, strict=True):
        yield from ("", *block.leading)
        for row in rows:
            yield from row.source.leading
            yield from _row_lines(version, block, row, contents)
        yield from block.trailing
    yield from document.end.leading
    yield "#! end"


def _palette_lines(version: Version) -> Iterator[str]:
    """The configs in the order of what they mean, so that it shows when one is new to the file."""
    palette, contents = version.document.palette, _contents(version)
    if not palette:
        return
    yield ""
    for number in sorted(range(len(palette)), key=lambda number: functional_rank(palette[number].values)):
        yield from (*palette[number].leading, f"config {contents[number]}")
    yield from palette[-1].trailing


def _contents(version: Version) -> dict[int, str]:
    """Cell → what it says; nothing for a transparent one."""
    fields = version.document.config_fields
    texts = (
        " ".join(f"{name}={value}" for name, value in zip(fields, entry.values, strict=True))
        for entry in version.document.palette
    )
    return {**dict(enumerate(texts)), MASKED: "masked"}


def _row_lines(version: Version, block: Block, row: GridRow, contents: dict[int, str]) -> Iterator[str]:
    """The runs of a row line, again for each row that it covers."""
    shape = version.source.shape
    name, bins = shape.axes[-1]
    head = f"[{' '.join(block.values)}]"
    runs, column = [], 0
    for cell, run in groupby(row.cells):
        last = column + len(list(run)) - 1
        span = f"{bins[column]}-{bins[last]}" if last > column else f"{bins[column]}"
        if cell != UNSET:
            runs.append(f"{name}={span}: {contents[cell]}")
        column = last + 1
    for number in range(row.first, row.stop):
        label = (f"{axis}={value}" for (axis, _), value in zip(shape.label_axes, shape.row_bins(number), strict=True))
        prefix = " ".join([head, *label])
        yield from (f"{prefix} {run}" for run in runs)
