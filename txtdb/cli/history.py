"""`txtdb log`: which commits changed one cell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import EXIT_USAGE, choose_archs, fail, format_option, open_root, print_json, root_argument
from txtdb.cli.tables import choose_schema
from txtdb.diff.blame import Cell, CellChange, CellState, cell_log
from txtdb.diff.history import open_history
from txtdb.diff.render import change_text, content_json, content_words
from txtdb.editing.cells import bin_fault
from txtdb.faults import Fault, FaultError, Span
from txtdb.model.schema import Schema
from txtdb.model.table import functional_text
from txtdb.views.asking import lookup_types, parse_words, value_faults

_SHORT = 10


@click.command(short_help="Show the commits that changed one cell.")
@root_argument
@click.argument("arch")
@click.argument("iface")
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE... AXIS=BIN...")
@click.option("--effect", is_flag=True, help="What lookups answer: bases, pins, schemas and fallbacks count as well.")
@click.option("-n", "--max-count", type=click.IntRange(1), help="At most so many commits.")
@format_option("json")
def log(
    root: Path, arch: str, iface: str, words: tuple[str, ...], effect: bool, max_count: int | None, style: str
) -> None:
    """Show the commits that changed one cell, newest first, with the config before and after each.

    What counts is what the arch's own table and patches write at this very bin. A fallback key may be left out.

    Exit code 0: told, also when no commit set the cell; 2: the words name no cell, or the history cannot be read.
    """
    database = open_root(root)
    archs = choose_archs(database, [arch])
    if len(archs) != 1:
        fail([Fault("argument", Span(arch), "one cell belongs to one arch", "name one")], EXIT_USAGE)
    schema = choose_schema(database, iface, archs)
    cell = _cell(archs[0], schema, words)
    try:
        with open_history(root) as history:
            changes = list(islice(cell_log(history, cell, effect), max_count))
    except FaultError as error:
        fail(error.faults, EXIT_USAGE)
    # A bin that is no longer declared may have a history all the same.
    wrong = [] if changes else _no_bins(cell)
    if wrong:
        fail(wrong, EXIT_USAGE)
    if style == "json":
        print_json({"cell": _cell_json(cell), "effect": effect, "changes": [_change_json(item) for item in changes]})
    else:
        click.echo("\n".join(_lines(cell, changes, effect)))


def _cell(arch: str, schema: Schema, words: tuple[str, ...]) -> Cell:
    """The cell that the words name, or the end of the program with what is wrong with them."""
    given, faults = parse_words(words, lookup_types(schema))
    whole = {key.name: key.fallback for key in schema.keys if key.fallback is not None} | given
    missing = [name for name in (*schema.key_names, *schema.axis_names) if name not in whole]
    faults += value_faults(schema, given)
    faults += [Fault("argument", Span(schema.iface), f"`{name}` is missing", f"write {name}=…") for name in missing]
    if faults:
        fail(faults, EXIT_USAGE)
    bins = tuple(int(whole[name]) for name in schema.axis_names)
    return Cell(arch, schema, tuple(whole[name] for name in schema.key_names), bins)


def _no_bins(cell: Cell) -> list[Fault]:
    """Sizes of the cell that are no declared bin."""
    arch_schema = cell.schema.for_arch(cell.arch)
    assert arch_schema is not None, "choose_schema has seen to it"
    axes = zip(cell.schema.axis_names, cell.bins, arch_schema.bins, strict=True)
    return [bin_fault(name, size, bins) for name, size, bins in axes if size not in bins]


def _lines(cell: Cell, changes: list[CellChange], effect: bool) -> Iterator[str]:
    bins = " ".join(f"{name}={value}" for name, value in zip(cell.schema.axis_names, cell.bins, strict=True))
    head = click.style(f"{cell.arch} {cell.schema.iface}", bold=True)
    yield f"{head}  {functional_text(cell.schema, cell.functional)} {bins}"
    for change in changes:
        yield from _change_lines(change)
    if not changes:
        hint = "" if effect else "; --effect shows what it inherits"
        yield f"no commit set this cell in a table or patch of {cell.arch}{hint}"


def _change_lines(change: CellChange) -> Iterator[str]:
    commit, old, new = change.commit, change.old, change.new
    if commit:
        name = click.style(commit.name[:_SHORT], fg="yellow")
        yield f"{name} {commit.date[: len('2026-01-31')]} {commit.author}  {commit.subject}"
    else:
        yield f"{click.style('not committed yet', fg='yellow')}"
    if old.problem or new.problem:
        yield f"    {_words(old)} → {_words(new)}"
    else:
        yield f"    {change_text(old.content, new.content)}"
        if old.content is not None and isinstance(new.content, tuple):
            yield f"    now {content_words(new.content)}"
    where = new if new.span else old
    if where.span:
        origin = f", {where.source.origin}" if where.source and where.source.origin else ""
        yield click.style(f"    {'at' if new.span else 'was at'} {where.span}{origin}", dim=True)


def _words(state: CellState) -> str:
    return state.problem or content_words(state.content)


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "arch": cell.arch,
        "iface": cell.schema.iface,
        "functional": cell.schema.functional_dict(cell.functional),
        "at": list(cell.bins),
    }


def _change_json(change: CellChange) -> dict[str, Any]:
    commit = change.commit
    return {
        "commit": commit.name if commit else None,
        "author": commit.author if commit else None,
        "date": commit.date if commit else None,
        "subject": commit.subject if commit else None,
        "old": _state_json(change.old),
        "new": _state_json(change.new),
    }


def _state_json(state: CellState) -> dict[str, Any]:
    return {
        "content": content_json(state.content),
        "problem": state.problem or None,
        "file": state.span.file if state.span else None,
        "line": state.span.line if state.span else None,
        "column": state.span.column if state.span else None,
        "origin": state.source.origin if state.source else None,
        "evidence": list(state.source.evidence) if state.source else [],
    }
