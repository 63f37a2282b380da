"""A difference as text, JSON or Markdown: grouped by arch, interface and functional, runs of equal edits folded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

import click

from txtdb.diff.edits import CellEdit, CellSource, Content, DatabaseDiff, EditKind, FactEdit
from txtdb.diff.folding import FoldedEdit, fold_edits
from txtdb.faults import Span
from txtdb.model.schema import Schema
from txtdb.model.table import functional_text
from txtdb.model.values import Functional, print_value
from txtdb.wording import plural

# Facts of one file that are shown to people; programs get all of them.
MAX_FACTS_SHOWN = 20

_COLOURS = {EditKind.ADDED: "green", EditKind.REMOVED: "red", EditKind.CHANGED: "yellow"}
_SIGNS = {EditKind.ADDED: "+", EditKind.REMOVED: "-", EditKind.CHANGED: "~"}


def change_text(old: Content, new: Content) -> str:
    """What changed between two contents: `BLOCK_N 32→64` for the fields that differ, else both sides whole."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        before, after = dict(old), dict(new)
        names = dict.fromkeys((*before, *after))
        texts = ((name, _value(before, name), _value(after, name)) for name in names)
        return ", ".join(f"{name} {was}→{now}" for name, was, now in texts if was != now)
    if old is None or new is None:
        return content_words(new if old is None else old)
    return f"{content_words(old)} → {content_words(new)}"


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


def group_places(cells: Sequence[CellEdit]) -> Iterator[tuple[tuple[str, str], list[CellEdit]]]:
    """((arch, interface), edits), in order."""
    for place, edits in groupby(cells, key=lambda edit: (edit.arch, edit.iface)):
        yield place, list(edits)


def group_heirs(cells: Sequence[CellEdit]) -> list[tuple[list[str], str, list[CellEdit]]]:
    """(archs, interface, edits): the arch whose files hold the runs, then those that inherit the very same."""
    groups: dict[tuple[object, ...], tuple[list[str], str, list[CellEdit]]] = {}
    for (arch, iface), edits in group_places(cells):
        runs = tuple((edit.functional, edit.bins, edit.old_span, edit.new_span) for edit in edits)
        archs = groups.setdefault((iface, runs), ([], iface, edits))[0]
        span = edits[0].new_span or edits[0].old_span
        is_owner = span is not None and PurePosixPath(span.file).parent.name == arch
        archs.insert(0 if is_owner else len(archs), arch)
    return list(groups.values())


def group_functionals(edits: Sequence[CellEdit]) -> Iterator[tuple[Functional, list[CellEdit]]]:
    """(functional, edits) of one table, in order."""
    for functional, own in groupby(edits, key=lambda edit: edit.functional):
        yield functional, list(own)


def counts_text(edits: Sequence[CellEdit]) -> str:
    """`2 changed, 1 added, 1 removed`."""
    counts = Counter(edit.kind for edit in edits)
    return ", ".join(f"{counts[kind]} {kind}" for kind in EditKind if counts[kind]) or "no cell"


def summary_text(diff: DatabaseDiff) -> str:
    """One line over the whole difference."""
    if not diff:
        return "no difference"
    archs = len({edit.arch for edit in diff.cells})
    cells = f"{counted(len(diff.cells), 'cell')} ({counts_text(diff.cells)}) in {counted(archs, 'arch')}"
    facts = counted(len(diff.facts), "other fact")
    return f"{cells}, {facts}" if diff.cells else f"no cell, {facts}"


def counted(count: int, word: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count} {plural(count, word)}"


def source_lines(edits: Sequence[CellEdit]) -> Iterator[str]:
    """What the old and the new cells come from, each file once: `new: 3 cells of FILE, measured X, evidence Y`."""
    for name, sources in (("old", [e.old_source for e in edits]), ("new", [e.new_source for e in edits])):
        for source, count in Counter(filter(None, sources)).items():
            yield f"{name}: {counted(count, 'cell')} of {_source_text(source)}"


def _source_text(source: CellSource) -> str:
    evidence = [line.split()[0] for line in source.evidence]
    return ", ".join(
        [source.file, *([source.origin] if source.origin else []), *(f"evidence {name}" for name in evidence)]
    )


def fact_change(fact: FactEdit) -> str:
    """`old → new`, `added: new` or `removed: old`."""
    if fact.old is None:
        return f"added: {fact.new}"
    return f"removed: {fact.old}" if fact.new is None else f"{fact.old} → {fact.new}"


def shown_facts(facts: Sequence[FactEdit]) -> Iterator[tuple[list[FactEdit], int]]:
    """(facts to show, how many more there are) of each file, in order."""
    for _, found in groupby(facts, key=lambda fact: fact.file):
        own = list(found)
        yield own[:MAX_FACTS_SHOWN], max(0, len(own) - MAX_FACTS_SHOWN)


def as_text(diff: DatabaseDiff) -> str:
    """For terminals."""
    return "\n".join([*_cell_lines(diff), *_fact_lines(diff.facts), summary_text(diff)])


def _cell_lines(diff: DatabaseDiff) -> Iterator[str]:
    for archs, iface, edits in group_heirs(diff.cells):
        schema = diff.schemas[iface]
        heirs = f"\n  also in {', '.join(archs[1:])}" if len(archs) > 1 else ""
        yield click.style(f"{archs[0]} {iface}: {counts_text(edits)}", bold=True) + heirs
        for functional, own in group_functionals(edits):
            yield f"  {functional_text(schema, functional)}: {counts_text(own)}"
            yield from (_folded_line(schema, folded) for folded in fold_edits(schema, own))
        yield from (click.style(f"  {line}", dim=True) for line in source_lines(edits))


def _folded_line(schema: Schema, folded: FoldedEdit) -> str:
    edit = folded.edits[0]
    sign = click.style(_SIGNS[edit.kind], fg=_COLOURS[edit.kind])
    count = f" ({len(folded.edits)} cells)" if len(folded.edits) > 1 else ""
    where = edit.new_span or edit.old_span
    origin = click.style(f"  {where}", dim=True) if where else ""
    return f"    {sign} {place_text(schema, folded)}{count}: {change_text(edit.old, edit.new)}{origin}"


def _fact_lines(facts: Sequence[FactEdit]) -> Iterator[str]:
    for shown, more in shown_facts(facts):
        yield from map(_fact_line, shown)
        if more:
            yield f"{shown[0].part} {shown[0].file}: {more} more"


def _fact_line(fact: FactEdit) -> str:
    return f"{fact.part} {fact.file}{' ' + fact.path if fact.path else ''}: {fact_change(fact)}"


def as_json(diff: DatabaseDiff) -> str:
    """For programs: every edit on a line of its own, and the counts by functional. docs/diff.md describes the form."""
    parts = {
        "cells": (cell_json(diff.schemas[edit.iface], edit) for edit in diff.cells),
        "facts": map(asdict, diff.facts),
        "summary": _json_summary(diff),
    }
    return "{\n" + ",\n".join(f'"{name}": {_json_lines(records)}' for name, records in parts.items()) + "\n}"


def _json_lines(records: Iterable[dict[str, Any]]) -> str:
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    return f"[\n{lines}\n]" if lines else "[]"


def cell_json(schema: Schema, edit: CellEdit) -> dict[str, Any]:
    """One edit as plain data."""
    return {
        "arch": edit.arch,
        "iface": edit.iface,
        "kind": str(edit.kind),
        "functional": schema.functional_dict(edit.functional),
        "at": list(edit.bins),
        "old": content_json(edit.old),
        "new": content_json(edit.new),
        "old_span": _span_json(edit.old_span),
        "new_span": _span_json(edit.new_span),
        "old_source": _source_json(edit.old_source),
        "new_source": _source_json(edit.new_source),
    }


def content_json(content: Content) -> dict[str, Any] | str | None:
    """A cell's content as plain data."""
    return dict(content) if isinstance(content, tuple) else "masked" if content else None


def _span_json(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {"file": span.file, "line": span.line, "column": span.column, "last_column": span.last_column}


def _source_json(source: CellSource | None) -> dict[str, Any] | None:
    return {"file": source.file, "origin": source.origin, "evidence": list(source.evidence)} if source else None


def _json_summary(diff: DatabaseDiff) -> Iterator[dict[str, Any]]:
    for (arch, iface), edits in group_places(diff.cells):
        for functional, own in group_functionals(edits):
            counts = Counter(edit.kind for edit in own)
            numbers = {str(kind): counts[kind] for kind in EditKind}
            key = diff.schemas[iface].functional_dict(functional)
            yield {"arch": arch, "iface": iface, "functional": key, **numbers}


def as_markdown(diff: DatabaseDiff) -> str:
    """For a comment on a change: a table for each arch and interface."""
    lines = [f"**{summary_text(diff)}**"]
    for archs, iface, edits in group_heirs(diff.cells):
        schema = diff.schemas[iface]
        lines += ["", f"### {archs[0]} `{iface}`: {counts_text(edits)}", ""]
        lines += [f"The same in {', '.join(archs[1:])}.", ""] if len(archs) > 1 else []
        lines += ["| functional | at | change |", "|---|---|---|"]
        for functional, own in group_functionals(edits):
            name = functional_text(schema, functional)
            lines += (
                f"| {name} | {place_text(schema, folded)} | {_markdown_change(folded)} |"
                for folded in fold_edits(schema, own)
            )
        sources = list(source_lines(edits))
        lines += ["", *(f"- {escape_markdown(line)}" for line in sources)] if sources else []
    return "\n".join([*lines, *_markdown_facts(diff.facts)])


def _markdown_facts(facts: Sequence[FactEdit]) -> Iterator[str]:
    if facts:
        yield from ("", "### Other facts", "", "| file | where | change |", "|---|---|---|")
    for shown, more in shown_facts(facts):
        for fact in shown:
            yield f"| {fact.file} | {fact.path or fact.part} | {escape_markdown(fact_change(fact))} |"
        if more:
            yield f"| {shown[0].file} | | {more} more |"


def _markdown_change(folded: FoldedEdit) -> str:
    edit = folded.edits[0]
    text = change_text(edit.old, edit.new)
    count = f" ({len(folded.edits)} cells)" if len(folded.edits) > 1 else ""
    return escape_markdown(text if edit.kind is EditKind.CHANGED else f"{edit.kind}: {text}") + count


def escape_markdown(text: str) -> str:
    """A text that stands in one cell of a Markdown table."""
    for mark in "\\|`*<>[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
