"""`txtdb explain`: one lookup with all that led to its answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    fail,
    format_option,
    overlay_option,
    print_json,
    root_argument,
)
from txtdb.cli.layout import Piece, Row, aligned
from txtdb.cli.tables import open_tables
from txtdb.faults import Fault, Span
from txtdb.layers.resolve import HistoryEntry, functional_label
from txtdb.layers.resolved import NO_KERNEL, UNSUPPORTED, Config, Explanation, LookupFault, ResolvedTable
from txtdb.model.table import config_text, functional_text
from txtdb.model.values import Value, print_value
from txtdb.views.asking import lookup_types, parse_words
from txtdb.views.explained import (
    absent_reason,
    attempt_reason,
    deciding_attempt,
    explanation_json,
    layer_says,
    same_name,
)
from txtdb.views.grids import base_archs, layer_text


@click.command(short_help="Explain one lookup, with every layer behind it.")
@root_argument
@click.argument("arch")
@click.argument("iface")
@click.argument("words", nargs=-1, metavar="KEY=VALUE... AXIS=SIZE...")
@overlay_option
@format_option("json")
def explain(root: Path, arch: str, iface: str, words: tuple[str, ...], overlays: tuple[Path, ...], style: str) -> None:
    """Explain one lookup: functional, bins, every layer that set the cell, fallbacks, origin and evidence.

    A fixed key may be left out, and so may a fallback key, which then has its fallback value. Exits with 1 when the
    answer is `no kernel`.
    """
    tables = open_tables(root, overlays, arch, iface)
    given, faults = parse_words(words, lookup_types(tables[0].schema))
    if faults:
        fail(faults, EXIT_USAGE)
    explanations = [(table, _explained(table, given)) for table in tables]
    if style == "json":
        print_json({"explanations": [explanation_json(*pair) for pair in explanations]})
    else:
        click.echo("\n\n".join("\n".join(explanation_lines(*pair)) for pair in explanations))
    if any(explanation.answer is NO_KERNEL for _, explanation in explanations):
        sys.exit(EXIT_FINDINGS)


def _explained(table: ResolvedTable, given: dict[str, Value]) -> Explanation:
    try:
        return table.explain(**given)
    except LookupFault as error:
        fail([Fault("argument", Span(table.iface), str(error), error.hint)], EXIT_USAGE)


def explanation_lines(table: ResolvedTable, explanation: Explanation) -> Iterator[str]:
    """The text of an explanation, with colours."""
    yield click.style(f"{table.arch} {table.iface}", bold=True)
    for name, rows in _sections(table, explanation):
        for number, line in enumerate(list(aligned(rows, left=9, indent="")) or ["none"]):
            yield f"  {click.style('' if number else name, dim=True)}{' ' * (10 - (0 if number else len(name)))}{line}"


def _sections(table: ResolvedTable, explanation: Explanation) -> Iterator[tuple[str, list[Row]]]:
    winner = explanation.winner
    yield "asked", [[functional_text(table.schema, explanation.query.functional)]]
    yield "sizes", list(_sizes(table, explanation))
    yield "answer", list(_answer(explanation))
    if explanation.answer is UNSUPPORTED:
        return
    yield "tried", list(_tried(table, explanation))
    yield "set by", list(_history(table, explanation))
    yield "origin", [[winner.layer.origin]] if winner and winner.layer.origin else []
    yield "evidence", [[text] for text in winner.layer.evidence] if winner else []
    yield "base", [[base] for base in [" -> ".join(base_archs(explanation.layers, table.arch))] if base]
    yield "fallback", [[f"{name} falls back to {print_value(value)}"] for name, value in table.fallbacks.items()]
    yield "layers", list(_layers(table, explanation))


def _sizes(table: ResolvedTable, explanation: Explanation) -> Iterator[Row]:
    axes = zip(table.schema.axis_names, explanation.query.sizes, explanation.bins, table.bins, strict=False)
    for name, size, found, bins in axes:
        above = "  the last bin, which takes everything above it" if size > bins[-1] else ""
        yield [f"{name}={size}", f"bin {found}{above}"]


def _answer(explanation: Explanation) -> Iterator[Row]:
    if isinstance(explanation.answer, Config):
        yield [Piece(str(explanation.answer), {"fg": "green", "bold": True})]
    else:
        yield [Piece(str(explanation.answer), {"fg": "red", "bold": True}), absent_reason(explanation)]


def _tried(table: ResolvedTable, explanation: Explanation) -> Iterator[Row]:
    asked = functional_text(table.schema, explanation.query.functional).split()
    for attempt in explanation.attempts:
        names = functional_text(table.schema, attempt.functional).split()
        changed = [name for name, before in zip(names, asked, strict=True) if name != before]
        why = f"fallback {' '.join(changed)}" if changed else "as asked"
        found = attempt_reason(attempt, explanation.layers) or "has the answer"
        yield [functional_label(attempt.functional), why, found]


def _history(table: ResolvedTable, explanation: Explanation) -> Iterator[Row]:
    """Every layer that set the cell, winner first."""
    attempt = deciding_attempt(explanation)
    for number, entry in enumerate(explanation.history):
        at = "" if entry.values == explanation.bins else f" at {','.join(map(str, entry.values))}"
        name = layer_text(entry.layer, table.arch) + at
        text = _difference(table, explanation.history[0], entry) if number else layer_says(entry.layer, attempt)
        yield [Piece(str(entry.span), {} if number else {"bold": True}), name, Piece(text, {"dim": bool(number)})]


def _content(table: ResolvedTable, entry: HistoryEntry) -> str:
    return "masked" if entry.config is None else config_text(table.schema, entry.config)


def _difference(table: ResolvedTable, winner: HistoryEntry, entry: HistoryEntry) -> str:
    """What an overridden layer says, as far as it differs from the winner."""
    if entry.config == winner.config:
        return "overridden, the same config"
    words = _content(table, entry).split()
    decided = _content(table, winner).split()
    return f"overridden: {' '.join(word for word in words if word not in decided)}"


def _layers(table: ResolvedTable, explanation: Explanation) -> Iterator[Row]:
    """All layers that were searched, in order, each with what it says of the cell."""
    attempt = deciding_attempt(explanation)
    for number, layer in enumerate(explanation.layers, 1):
        same = same_name(explanation.layers, layer)
        note = f"same name as {same.file}: both apply, this one wins" if same else ""
        yield [
            str(number),
            layer_text(layer, table.arch),
            layer_says(layer, attempt),
            Piece(layer.file, {"dim": True}),
            note,
        ]
