"""A difference as text, JSON or Markdown: grouped by arch, interface and functional, runs of equal edits folded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import click

from txtdb.diff.edits import CellEdit, Content, DatabaseDiff, EditKind, FactEdit
from txtdb.faults import Span
from txtdb.model.schema import Schema
from txtdb.model.table import functional_text
from txtdb.model.values import print_value

_COLOURS = {EditKind.ADDED: "green", EditKind.REMOVED: "red", EditKind.CHANGED: "yellow"}
_SIGNS = {EditKind.ADDED: "+", EditKind.REMOVED: "-", EditKind.CHANGED: "~"}


@dataclass(frozen=True, slots=True)
class FoldedEdit:
    """Equal edits of one functional in a block of neighbouring bins: from `first` to `last` on every axis."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    edits: tuple[CellEdit, ...]


def fold_edits(schema: Schema, edits: Sequence[CellEdit]) -> list[FoldedEdit]:
    """Edits of one functional, in grid order, with equal neighbours joined: along the last axis, then over rows.

    Neighbours are so on the declared grid: a bin without an edit between two parts them.
    """
    bins = _grid_bins(schema, edits)
    runs: list[FoldedEdit] = []
    for edit in edits:
        last = runs[-1] if runs else None
        if last and _continues(last, edit, bins[-1]):
            runs[-1] = FoldedEdit(last.first, edit.bins, (*last.edits, edit))
        else:
            runs.append(FoldedEdit(edit.bins, edit.bins, (edit,)))
    return _join_rows(runs, bins[-2]) if len(bins) > 1 else runs


def _grid_bins(schema: Schema, edits: Sequence[CellEdit]) -> list[list[int]]:
    """The declared bins of each axis with those of the edits."""
    arch_schema = schema.for_arch(edits[0].arch)
    declared = arch_schema.bins if arch_schema else tuple(axis.bins for axis in schema.axes)
    return [sorted({*own, *(edit.bins[axis] for edit in edits)}) for axis, own in enumerate(declared)]


def _continues(run: FoldedEdit, edit: CellEdit, bins: list[int]) -> bool:
    adjacent = bins.index(edit.bins[-1]) == bins.index(run.last[-1]) + 1
    return run.last[:-1] == edit.bins[:-1] and adjacent and _same_change(run.edits[0], edit)


def _same_change(one: CellEdit, other: CellEdit) -> bool:
    return one.old == other.old and one.new == other.new


def _join_rows(runs: list[FoldedEdit], bins: list[int]) -> list[FoldedEdit]:
    joined: list[FoldedEdit] = []
    for run in runs:
        above = next((place for place, other in enumerate(joined) if _stands_on(other, run, bins)), None)
        if above is None:
            joined.append(run)
        else:
            other = joined[above]
            joined[above] = FoldedEdit(other.first, run.last, (*other.edits, *run.edits))
    return joined


def _stands_on(above: FoldedEdit, run: FoldedEdit, bins: list[int]) -> bool:
    same_columns = above.first[-1] == run.first[-1] and above.last[-1] == run.last[-1]
    same_prefix = above.last[:-2] == run.first[:-2]
    adjacent = bins.index(run.first[-2]) == bins.index(above.last[-2]) + 1
    return same_columns and same_prefix and adjacent and _same_change(above.edits[0], run.edits[0])


def change_text(old: Content, new: Content) -> str:
    """What changed between two contents: `BLOCK_N 32→64` for the fields that differ, else both sides whole."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        before, after = dict(old), dict(new)
        names = dict.fromkeys((*before, *after))
        changes = (f"{n} {_value(before, n)}→{_value(after, n)}" for n in names if before.get(n) != after.get(n))
        return ", ".join(changes)
    return (
        f"{content_words(old)} → {content_words(new)}"
        if old is not None and new is not None
        else content_words(new if old is None else old)
    )


def _value(fields: dict[str, Any], name: str) -> str:
    return print_value(fields[name]) if name in fields else "none"


def content_words(content: Content) -> str:
    """A cell's content for people."""
    if content is None:
        return "nothing"
    return "masked" if isinstance(content, str) else " ".join(f"{n}={print_value(v)}" for n, v in content)


def place_text(schema: Schema, folded: FoldedEdit) -> str:
    """Where a folded edit stands: `Max_seqlen_q=16..64 Max_seqlen_k=32`."""
    pairs = zip(schema.axis_names, folded.first, folded.last, strict=True)
    return " ".join(f"{name}={a}" if a == b else f"{name}={a}..{b}" for name, a, b in pairs)


def as_text(diff: DatabaseDiff) -> str:
    """For terminals."""
    lines = [*_cell_lines(diff), *map(_fact_line, diff.facts)]
    return "\n".join([*lines, summary_text(diff)])


def _cell_lines(diff: DatabaseDiff) -> Iterator[str]:
    for (arch, iface), edits in group_places(diff.cells):
        schema = diff.schemas[iface]
        yield click.style(f"{arch} {iface}: {counts_text(edits)}", bold=True)
        for functional, own in groupby(edits, key=lambda edit: edit.functional):
            yield f"  {functional_text(schema, functional)}"
            yield from (_folded_line(schema, folded) for folded in fold_edits(schema, list(own)))


def group_places(cells: Sequence[CellEdit]) -> Iterator[tuple[tuple[str, str], list[CellEdit]]]:
    """((arch, interface), edits), in order."""
    for place, edits in groupby(cells, key=lambda edit: (edit.arch, edit.iface)):
        yield place, list(edits)


def _folded_line(schema: Schema, folded: FoldedEdit) -> str:
    edit = folded.edits[0]
    sign = click.style(_SIGNS[edit.kind], fg=_COLOURS[edit.kind])
    count = f" ({len(folded.edits)} cells)" if len(folded.edits) > 1 else ""
    where = edit.new_span or edit.old_span
    origin = click.style(f"  {where}", dim=True) if where else ""
    return f"    {sign} {place_text(schema, folded)}{count}: {change_text(edit.old, edit.new)}{origin}"


def _fact_line(fact: FactEdit) -> str:
    return f"{fact.part} {fact.file}{' ' + fact.path if fact.path else ''}: {fact_change(fact)}"


def fact_change(fact: FactEdit) -> str:
    """`old → new`, `added: new` or `removed: old`."""
    if fact.old is None:
        return f"added: {fact.new}"
    return f"removed: {fact.old}" if fact.new is None else f"{fact.old} → {fact.new}"


def counts_text(edits: Sequence[CellEdit]) -> str:
    """`2 changed, 1 added, 1 removed`."""
    counts = Counter(edit.kind for edit in edits)
    return ", ".join(f"{counts[kind]} {kind}" for kind in EditKind if counts[kind]) or "no cell"


def summary_text(diff: DatabaseDiff) -> str:
    """One line over the whole difference."""
    if not diff:
        return "no difference"
    archs = len({edit.arch for edit in diff.cells})
    return f"{len(diff.cells)} cells ({counts_text(diff.cells)}) in {archs} archs, {len(diff.facts)} other facts"


def as_json(diff: DatabaseDiff) -> str:
    """For programs: every edit by itself, and the counts by functional."""
    cells = [_json_cell(diff.schemas[edit.iface], edit) for edit in diff.cells]
    facts = [{"part": f.part, "file": f.file, "path": f.path, "old": f.old, "new": f.new} for f in diff.facts]
    return json.dumps({"cells": cells, "facts": facts, "summary": _json_summary(diff)}, indent=2, ensure_ascii=False)


def _json_cell(schema: Schema, edit: CellEdit) -> dict[str, Any]:
    return {
        "arch": edit.arch,
        "iface": edit.iface,
        "kind": str(edit.kind),
        "functional": schema.functional_dict(edit.functional),
        "at": list(edit.bins),
        "old": _json_content(edit.old),
        "new": _json_content(edit.new),
        "old_span": _json_span(edit.old_span),
        "new_span": _json_span(edit.new_span),
    }


def _json_content(content: Content) -> dict[str, Any] | str | None:
    return dict(content) if isinstance(content, tuple) else "masked" if content else None


def _json_span(span: Span | None) -> dict[str, Any] | None:
    return (
        {"file": span.file, "line": span.line, "column": span.column, "last_column": span.last_column} if span else None
    )


def _json_summary(diff: DatabaseDiff) -> list[dict[str, Any]]:
    def key(edit: CellEdit) -> tuple[str, str, Any]:
        return edit.arch, edit.iface, edit.functional

    rows = []
    for (arch, iface, functional), edits in groupby(diff.cells, key=key):
        counts = Counter(edit.kind for edit in edits)
        numbers = {str(kind): counts[kind] for kind in EditKind}
        rows.append(
            {"arch": arch, "iface": iface, "functional": diff.schemas[iface].functional_dict(functional), **numbers}
        )
    return rows


def as_markdown(diff: DatabaseDiff) -> str:
    """For a comment on a change: a table for each arch and interface."""
    lines = [f"**{summary_text(diff)}**"]
    for (arch, iface), edits in group_places(diff.cells):
        schema = diff.schemas[iface]
        lines += [
            "",
            f"### {arch} `{iface}`: {counts_text(edits)}",
            "",
            "| functional | at | change |",
            "|---|---|---|",
        ]
        for functional, own in groupby(edits, key=lambda edit: edit.functional):
            name = functional_text(schema, functional)
            lines += [
                f"| {name} | {place_text(schema, f)} | {_markdown_change(f)} |" for f in fold_edits(schema, list(own))
            ]
    if diff.facts:
        lines += ["", "### Other facts", "", "| file | where | change |", "|---|---|---|"]
        lines += [f"| {fact.file} | {fact.path or fact.part} | {_escape(fact_change(fact))} |" for fact in diff.facts]
    return "\n".join(lines)


def _markdown_change(folded: FoldedEdit) -> str:
    edit = folded.edits[0]
    text = change_text(edit.old, edit.new)
    return _escape(text if edit.kind is EditKind.CHANGED else f"{edit.kind}: {text}")


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
