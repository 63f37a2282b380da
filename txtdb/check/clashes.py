"""Cells that two open changes set differently, with what each makes of them and where from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby

from txtdb.check.combining import MergeConflict
from txtdb.check.finding import CellRef, Finding, QueueFinding
from txtdb.check.report import MAX_CELLS_SHOWN
from txtdb.diff.compare import compare
from txtdb.diff.edits import CellEdit, CellSource
from txtdb.diff.render import content_words, counted
from txtdb.diff.sides import Side
from txtdb.faults import Severity, Span
from txtdb.layers.database import Database
from txtdb.merge.threeway import SIDES
from txtdb.model.schema import Schema
from txtdb.model.values import Value, parse_value, print_values

_HINT = "merge one of them, then measure these cells again over it"


def clashes(database: Database, changed: Mapping[str, Database]) -> Iterator[QueueFinding]:
    """`same-cell` findings of each two changes: (name, the database with that change alone)."""
    edits = {name: list(_edits(database, other)) for name, other in changed.items()}
    for first, second in combinations(changed, 2):
        there = {edit.place: edit for edit in edits[first]}
        pairs = [(there[edit.place], edit) for edit in edits[second] if edit.place in there]
        differing = [pair for pair in pairs if pair[0].new != pair[1].new]
        for _, found in groupby(differing, key=lambda pair: (pair[0].arch, pair[0].iface)):
            yield _clash(changed[second].schemas, (first, second), list(found))


def _edits(old: Database, new: Database) -> Sequence[CellEdit]:
    diff, _ = compare(Side("", old), Side("", new))
    return diff.cells


def _clash(
    schemas: Mapping[str, Schema], names: tuple[str, str], pairs: Sequence[tuple[CellEdit, CellEdit]]
) -> QueueFinding:
    edit = pairs[0][1]
    schema = schemas[edit.iface]
    cells = tuple(CellRef(tuple(schema.functional_dict(one.functional).items()), one.bins) for one, _ in pairs)
    span = edit.new_span or edit.old_span or Span(f"{edit.arch}/{edit.iface}")
    message = f"{names[0]} and {names[1]} set {counted(len(cells), 'cell')} differently"
    finding = Finding("same-cell", Severity.ERROR, span, message, _HINT, edit.arch, edit.iface, (), cells)
    details = tuple(
        f"[{print_values(one.functional)}] {','.join(map(str, one.bins))}: {side_text(name, item)}"
        for one, other in pairs
        for name, item in zip(names, (one, other), strict=True)
    )
    return QueueFinding(finding, names, details)


def side_text(name: str, edit: CellEdit) -> str:
    """What one change makes of a cell: `branch: BLOCK_M=64 (FILE:14:4, measured X, evidence Y)`."""
    where = [str(edit.new_span)] if edit.new_span else []
    return f"{name}: {content_words(edit.new)}{_bracketed([*where, *_origin(edit.new_source)])}"


def _origin(source: CellSource | None) -> list[str]:
    if source is None:
        return []
    evidence = [f"evidence {line.split()[0]}" for line in source.evidence]
    return [*([source.origin] if source.origin else []), *evidence]


def _bracketed(words: list[str]) -> str:
    return f" ({', '.join(words)})" if words else ""


def conflict_finding(conflict: MergeConflict, database: Database) -> Finding:
    """`merge-conflict`: a file that does not merge."""
    span = Span(f"{database.listings[0].label}/{conflict.file}")
    arch, _, name = conflict.file.partition("/")
    iface = name.partition(".")[0] if arch in database.archs else ""
    schema = database.schemas.get(iface)
    cells = tuple(_typed(schema, cell) for cell in conflict.cells) if schema else ()
    return Finding(
        "merge-conflict",
        Severity.ERROR,
        span,
        conflict.message,
        "\n".join(["merge them by hand", *_shown(conflict.contents)]),
        arch if iface else "",
        iface,
        (),
        cells,
    )


def _shown(lines: Sequence[str]) -> Iterator[str]:
    """The lines of the first cells, as many as reports show."""
    shown = MAX_CELLS_SHOWN * len(SIDES)
    yield from lines[:shown]
    if len(lines) > shown:
        yield f"… {counted((len(lines) - shown) // len(SIDES), 'cell')} more"


def _typed(schema: Schema, cell: CellRef) -> CellRef:
    """A cell whose key values are texts, with values of the schema's types, in the schema's order."""
    texts = dict(cell.functional)
    values: list[tuple[str, Value]] = []
    for key in schema.keys:
        text = str(texts.get(key.name, ""))
        value = parse_value(text, key.type)
        values.append((key.name, text if value is None else value))
    return CellRef(tuple(values), cell.at)
