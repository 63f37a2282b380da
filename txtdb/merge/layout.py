"""A plan → text: the merged file, with each conflict marked where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from txtdb.merge.comments import FILE_END, HEADER_END, PALETTE_END, Anchor, Place
from txtdb.merge.header import DirectiveId, MergedDirective
from txtdb.merge.marking import directive_hunk, row_hunk
from txtdb.merge.plan import Plan
from txtdb.model.table import MASKED, UNSET, Cells
from txtdb.syntax import Block, Directive, Document, Entry, GridRow, Line, Row, Source, print_source

# A comment that starts with it stands for a hunk. No file holds this character.
_HUNK = "\0"


def marked_text(plan: Plan) -> str:
    """The canonical text of the merged file. Conflicts stand between conflict markers, as git writes them."""
    layout = _Layout(plan)
    lines = iter(print_source(layout.source()).split("\n"))
    text: list[str] = []
    for line in lines:
        if line.startswith(_HUNK):
            next(lines)  # the line that held its place
            text.extend(layout.hunks[int(line[1:])])
        else:
            text.append(line)
    return "\n".join(text)


class _Layout:
    """Builds the tree of the merged file, with stand-ins for `hunks`."""

    def __init__(self, plan: Plan) -> None:
        self.hunks: list[list[str]] = []
        self._plan, self._comments = plan, plan.comments
        ordinals = self._ordinals()
        shape = plan.grid.shape
        flat = (len(plan.grid.functionals), shape.rows, shape.width)
        self._cells: list[list[list[int]]] = ordinals[plan.cells].reshape(flat).tolist()
        self._conflicts: list[list[bool]] = np.any(plan.conflicts.reshape(flat), axis=2).tolist()

    def _ordinals(self) -> Cells:
        """Config number → its place in the palette; the marks, which are negative, index the end."""
        symbols = self._plan.palette.symbols
        ordinals = np.full(max(symbols, default=-1) + 3, UNSET, np.int32)
        ordinals[list(symbols)] = range(len(symbols))
        ordinals[MASKED], ordinals[UNSET] = MASKED, UNSET
        return ordinals

    def source(self) -> Source:
        """The merged file."""
        plan = self._plan
        kinds = plan.versions.map(lambda version: version.document.kind)
        blocks = [self._block(number) for number in range(len(plan.grid.functionals))]
        document = Document(
            file=plan.versions.ours.document.file,
            kind=kinds.ours or kinds.theirs or kinds.base,
            magic=Line(0, ""),
            directives=self._directives(),
            palette=self._entries(),
            blocks=tuple(block for block, _ in blocks),
            end=Line(0, "#! end", self._at(FILE_END)),
        )
        return Source(document, plan.grid.shape, tuple(rows for _, rows in blocks))

    def _at(self, anchor: Anchor) -> tuple[str, ...]:
        return self._comments.get(anchor, ())

    def _orphans(self, place: Place, kept: set[Anchor]) -> Iterator[str]:
        """Comments of things that are gone: a side wrote them, so they move to the end of the section."""
        for anchor in sorted(a for a in self._comments if a[0] is place and a not in kept):
            yield from self._comments[anchor]

    def _hold(self, hunk: list[str]) -> str:
        self.hunks.append(hunk)
        return f"{_HUNK}{len(self.hunks) - 1}"

    def _directives(self) -> tuple[Directive, ...]:
        listed = [(item.identity, self._merged_line(item)) for item in self._plan.header]
        listed += structure_lines(self._plan)
        kept: set[Anchor] = set()
        directives = []
        for identity, lines in listed:
            if lines:
                kept.add(anchor := (Place.DIRECTIVE, identity, ()))
                *holds, text = lines
                directives.append(Directive(0, text, (*self._at(anchor), *holds)))
        trailing = (*self._at(HEADER_END), *self._orphans(Place.DIRECTIVE, kept))
        if not self._plan.palette.symbols:
            trailing += self._palette_end()
        directives[-1] = replace(directives[-1], trailing=trailing)
        return tuple(directives)

    def _merged_line(self, item: MergedDirective) -> list[str]:
        """The directive's line, behind the stand-in of its hunk if there is one; empty where it is gone."""
        if item.is_conflict:
            return [self._hold(directive_hunk(item.lines)), next(line for line in item.lines if line)]
        return [item.lines.settled] if item.lines.settled else []

    def _entries(self) -> tuple[Entry, ...]:
        palette = self._plan.palette
        entries = [
            Entry(0, f"{symbol} = {' '.join(palette.values[number])}", self._at((Place.ENTRY, (), (number,))))
            for number, symbol in palette.symbols.items()
        ]
        if entries:
            entries[-1] = replace(entries[-1], trailing=self._palette_end())
        return tuple(entries)

    def _palette_end(self) -> tuple[str, ...]:
        kept: set[Anchor] = {(Place.ENTRY, (), (number,)) for number in self._plan.palette.symbols}
        return (*self._at(PALETTE_END), *self._orphans(Place.ENTRY, kept))

    def _block(self, number: int) -> tuple[Block, tuple[GridRow, ...]]:
        functional = self._plan.grid.functionals[number]
        leading, trailing = self._at((Place.BLOCK, functional, ())), self._at((Place.BLOCK_END, functional, ()))
        return Block(0, f"[{' '.join(functional)}]", leading, trailing), tuple(self._rows(number))

    def _rows(self, number: int) -> Iterator[GridRow]:
        plan, row = self._plan, 0
        while row < plan.grid.shape.rows:
            comments = self._row_comments(number, row)
            stop = self._conflict_stop(number, row)
            if stop > row:
                hold = self._hold(row_hunk(plan, number, row, stop))
                # Longer than any row, so that no neighbour is joined to it.
                stand_in = [MASKED] * (plan.grid.shape.width + 1)
                yield GridRow(row, stop, stand_in, Row(0, "", (*comments, hold)))
            else:
                stop = row + 1
                yield GridRow(row, stop, self._cells[number][row], Row(0, "", comments))
            row = stop

    def _row_comments(self, number: int, row: int) -> tuple[str, ...]:
        shape = self._plan.grid.shape
        return self._at((Place.ROW, self._plan.grid.functionals[number], shape.row_bins(row)))

    def _conflict_stop(self, number: int, row: int) -> int:
        """Behind the last of the rows in conflict that make one hunk with `row`; `row` itself where it has none.

        They differ in the last label axis only, and no comment stands between them.
        """
        shape, stop = self._plan.grid.shape, row
        height = shape.lengths[-2] if len(shape.axes) > 1 else 1
        while stop < shape.rows and self._conflicts[number][stop]:
            if stop > row and (stop % height == 0 or self._row_comments(number, stop)):
                break
            stop += 1
        return stop


def structure_lines(plan: Plan) -> list[tuple[DirectiveId, list[str]]]:
    """The lines of `#! key`, `#! axis` and `#! config`: those that the file needs, or that were not removed."""
    grid, palette = plan.grid, plan.palette
    has_blocks = bool(grid.functionals)
    lines: list[tuple[DirectiveId, list[str]]] = []
    if grid.keys and (has_blocks or _stays(plan, "key")):
        lines.append((("key", ""), [f"#! key {' '.join(grid.keys)}"]))
    for name, bins in grid.shape.axes:
        lines.append((("axis", name), [f"#! axis {name} {' '.join(map(str, bins))}"]))
    if palette.fields and (has_blocks or palette.symbols or _stays(plan, "config")):
        lines.append((("config", ""), [f"#! config {' '.join(palette.fields)}"]))
    return lines


def _stays(plan: Plan, directive: str) -> bool:
    return plan.versions.map(lambda version: version.document.directive(directive) is not None).settled
