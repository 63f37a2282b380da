"""A review as Markdown of bounded length, for a comment on a change.

Whatever comes from the database stands in code spans, so that it cannot be markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from txtdb.check.finding import Finding
from txtdb.diff.edits import EditKind
from txtdb.diff.folding import fold_edits
from txtdb.diff.render import change_text, fact_change, place_text
from txtdb.faults import Fault
from txtdb.model.table import functional_text
from txtdb.review.records import FLAG_WORDS, Flag, Review, ReviewedCell, ReviewedFunctional, SourceFile, TableReview
from txtdb.review.words import (
    cells_word,
    effective,
    findings_text,
    flag_counts,
    gain_legend,
    gain_text,
    headline,
    heirs_text,
    images_text,
    kind_counts,
    many,
)

# A comment on GitHub holds 65,536 characters.
MAX_CHARACTERS = 60_000
TABLES_SHOWN = 40
LINES_SHOWN = 20
TEXT_SHOWN = 200

_TICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def as_markdown(review: Review, limit: int = MAX_CHARACTERS) -> str:
    """The overview, then of each table as many changes as there is room for; the last line says what is left out."""
    parts = ["\n".join(_within(_overview(review), limit // 2))]
    room = limit - len(parts[0])
    shown = 0
    for number, table in enumerate(review.tables):
        text, cells = _details(table, room // (len(review.tables) - number))
        parts.append(text)
        room -= len(text)
        shown += cells
    left_out = len(review.cells) - shown
    if left_out:
        parts.append(f"\n{cells_word(left_out)} of {len(review.cells):,} left out here for length.")
    return "".join(parts)


def _within(lines: Iterable[str], limit: int) -> Iterator[str]:
    """As many lines as there is room for."""
    for line in lines:
        limit -= len(line) + 1
        if limit < 0:
            yield from ("", "… The overview is cut here for length.", "")
            return
        yield line


def code(text: str) -> str:
    """A text as a code span that fits into a cell of a table; long texts are cut."""
    plain = _CONTROL.sub(" ", text).strip()
    plain = plain if len(plain) <= TEXT_SHOWN else plain[:TEXT_SHOWN] + "…"
    if not plain:
        return ""
    ticks = "`" * (1 + max(map(len, _TICKS.findall(plain)), default=0))
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{plain}{space}{ticks}".replace("|", "\\|")


def _overview(review: Review) -> Iterator[str]:
    yield f"## Review of {code(review.root)}: {code(review.old)} → {code(review.new)}"
    yield from ("", f"**{headline(review)}**", "")
    yield from _list("Faults, so that cells may be missing here", map(_fault_text, review.faults))
    if review.tables:
        yield from _tables(review.tables)
        legend = gain_legend(effective(review.cells))
        yield from [legend, ""] if legend else []
    flags = (f"`{flag}` {count:,} ({FLAG_WORDS[flag]})" for flag, count in flag_counts(review.cells).items())
    yield from _list("Flags", flags)
    findings = [*(("new", f) for f in review.new_findings), *(("gone", f) for f in review.gone_findings)]
    yield from _list(f"Checks: {findings_text(review)}", (_finding_text(*item) for item in findings), even_empty=True)
    if review.images:
        yield from (f"Kernel images: {images_text(review)}.", "")
    facts = (f"{code(fact.file)} {code(fact.path or fact.part)}: {code(fact_change(fact))}" for fact in review.facts)
    yield from _list("Outside the cells", facts)


def _list(title: str, lines: Iterable[str], even_empty: bool = False) -> Iterator[str]:
    given = list(lines)
    if given or even_empty:
        yield f"{title}:" if given else f"{title}."
        yield ""
        yield from (f"- {line}" for line in given[:LINES_SHOWN])
        if len(given) > LINES_SHOWN:
            yield f"- … {len(given) - LINES_SHOWN:,} more"
        yield from [""] if given else []


def _fault_text(fault: Fault) -> str:
    return f"{fault.severity} {code(str(fault.span))}: {code(fault.message)} ({fault.rule})"


def _finding_text(state: str, finding: Finding) -> str:
    heirs = f", inherited by {code(', '.join(finding.inherited_by))}" if finding.inherited_by else ""
    cells = f", {cells_word(len(finding.cells))}" if finding.cells else ""
    return (
        f"{state} {finding.severity} {code(str(finding.span))}: {code(finding.message)} ({finding.rule}{cells}{heirs})"
    )


def _tables(tables: Sequence[TableReview]) -> Iterator[str]:
    yield f"| arch | interface | functionals | {' | '.join(EditKind)} | gain | changes with it |"
    yield "|---|---|--:|--:|--:|--:|---|---|"
    for table in tables[:TABLES_SHOWN]:
        kinds = " | ".join(f"{count:,}" for count in kind_counts(table.cells).values())
        gain, heirs = gain_text(effective(table.cells)), code(heirs_text(table))
        yield f"| {code(table.arch)} | {code(table.iface)} | {len(table.functionals):,} | {kinds} | {gain} | {heirs} |"
    if len(tables) > TABLES_SHOWN:
        yield from ("", f"… {len(tables) - TABLES_SHOWN:,} more tables")
    yield ""


def _details(table: TableReview, room: int) -> tuple[str, int]:
    """The changes of one table in at most `room` characters, and how many cells they tell of."""
    lines = ["", f"### {code(table.arch)} {code(table.iface)}", ""]
    lines += (_source_line(source) for source in table.sources[:LINES_SHOWN])
    lines += ["", "| functional | at | change | gain | flags |", "|---|---|---|---|---|"]
    length = sum(len(line) + 1 for line in lines)
    rows: list[str] = []
    cells = 0
    for row, count in _rows(table):
        length += len(row) + 1
        if length > room:
            break
        rows.append(row)
        cells += count
    return "\n".join([*lines, *rows, ""]) if rows else "", cells


def _source_line(source: SourceFile) -> str:
    said = "".join(f"; {name}: {code(text)}" for name, text in (("origin", source.origin), ("why", source.why)) if text)
    return f"- {code(source.file)} sets {cells_word(source.cells)}{said}"


def _rows(table: TableReview) -> Iterator[tuple[str, int]]:
    """Lines of the table and their cells. Functionals that change alike share a line."""
    alike: dict[str, list[tuple[ReviewedFunctional, int]]] = {}
    for functional in table.functionals:
        for text, count in _changes(table, functional):
            alike.setdefault(text, []).append((functional, count))
    for text, members in alike.items():
        name = code(functional_text(table.schema, members[0][0].functional))
        more = f" and {many(len(members) - 1, 'more functional')}" if len(members) > 1 else ""
        yield f"| {name}{more} | {text} |", sum(count for _, count in members)


def _changes(table: TableReview, functional: ReviewedFunctional) -> Iterator[tuple[str, int]]:
    """`at | change | gain | flags` of each block of equal changes, and its cells."""
    for _, group in groupby(sorted(functional.cells, key=_without_effect), key=_without_effect):
        cells = {cell.edit.bins: cell for cell in group}
        for folded in fold_edits(table.schema, [cell.edit for cell in cells.values()]):
            own = [cells[edit.bins] for edit in folded.edits]
            change = change_text(folded.edits[0].old, folded.edits[0].new)
            kind = folded.edits[0].kind
            words = change if kind is EditKind.CHANGED else f"{kind}: {change}"
            flags = " ".join(f"`{flag}`" for flag in flag_counts(own))
            gain = gain_text(own) if any(cell.gain or Flag.NO_GAIN in cell.flags for cell in own) else ""
            yield f"{code(place_text(table.schema, folded))} | {code(words)} | {gain} | {flags}", len(own)


def _without_effect(cell: ReviewedCell) -> bool:
    return Flag.NO_EFFECT in cell.flags
