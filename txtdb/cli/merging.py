"""`txtdb merge`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fail, format_option, print_json
from txtdb.cli.outputs import unlike_faults, unwritable
from txtdb.faults import Fault, Span
from txtdb.files import write_output
from txtdb.merge.conflicts import CellConflict, Content, content_text
from txtdb.merge.defaults import Defaults, defaults_near, schema_defaults
from txtdb.merge.header import MergedDirective
from txtdb.merge.result import Merged, merge_files
from txtdb.merge.threeway import SIDES, Three
from txtdb.merge.versions import told_apart

_FILE = click.Path(path_type=Path)
# How tables and patches begin, and what a merge made whose versions have no line in common.
_STARTS = (b"#! txtdb ", b"#! dbpatch ", b"<<<<<<< ours")
_BEFORE = b"\xef\xbb\xbf \t\r\n"


@click.command(short_help="Merge three versions of one file, cell by cell.")
@click.argument("base", type=_FILE)
@click.argument("ours", type=_FILE)
@click.argument("theirs", type=_FILE)
@click.option("-o", "--out", type=_FILE, required=True, help="The file to write; it may be one of the three.")
@click.option("--schema", type=_FILE, help="A schema to take defaults from.  [default: those around the files]")
@format_option("json")
def merge(base: Path, ours: Path, theirs: Path, out: Path, schema: Path | None, style: str) -> None:
    """Merge the changes from BASE to OURS and from BASE to THEIRS, cell by cell.

    The three are versions of one table or patch; an empty BASE means that both sides added the file. Exit code 0: no
    cell of either side was lost; 1: OUT has conflicts, between conflict markers; 2: a version cannot be read, and
    nothing is written.
    """
    paths = Three(base, ours, theirs)
    other = [] if out in paths else unlike_faults(out, lambda head: head.lstrip(_BEFORE).startswith(_STARTS))
    if other:
        fail(other, EXIT_USAGE)
    defaults = _defaults_of(schema) if schema else defaults_near([out, *paths])
    data: Three[bytes | None] = paths.map(_read)
    merged, faults = merge_files(data, paths.map(Path.as_posix), defaults)
    if merged is None:
        fail(faults, EXIT_USAGE)
    _write(out, merged.text.encode())
    if style == "json":
        print_json(merge_json(merged, out.as_posix()))
    else:
        click.echo("\n".join(report_lines(merged, out.as_posix())))
    sys.exit(EXIT_FINDINGS if merged.has_conflict else 0)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fail([Fault("unreadable", Span(path.as_posix()), f"cannot read: {error.strerror}")], EXIT_USAGE)


def _write(path: Path, data: bytes) -> None:
    try:
        write_output(path, data)
    except OSError as error:
        fail([unwritable(path, error)], EXIT_USAGE)


def _defaults_of(schema: Path) -> Defaults:
    iface = schema.name.removesuffix(".toml")
    defaults, faults = schema_defaults(_read(schema), schema.as_posix(), iface)
    if faults:
        fail(faults, EXIT_USAGE)
    return lambda _: defaults


def report_lines(merged: Merged, file: str) -> Iterator[str]:
    """What was merged, and each conflict with what all three versions say."""
    if merged.clash:
        yield f"{file}: conflict: cannot be merged by cell: {merged.clash}"
        return
    counts = merged.counts
    both = f", {counts.both} changed alike by both" if counts.both else ""
    yield f"{file}: cells: {counts.ours} from ours, {counts.theirs} from theirs{both}; {_conflicts(merged)}"
    for directive in merged.directives:
        yield f"conflict: #! {' '.join(filter(None, directive.identity))}"
        yield from (f"  {side:<6}  {line or 'nothing'}" for side, line in zip(SIDES, directive.lines, strict=True))
    for cell in merged.cells:
        yield from _cell_lines(cell, told_apart(merged.origins))


def _conflicts(merged: Merged) -> str:
    if not merged.has_conflict:
        return "no conflict"
    parts = [(len(merged.cells), "cell"), (len(merged.directives), "directive")]
    words = (f"{number} {what}{'' if number == 1 else 's'}" for number, what in parts if number)
    return f"in conflict: {', '.join(words)}"


def _cell_lines(cell: CellConflict, origins: Three[str]) -> Iterator[str]:
    place = " ".join(f"{name}={value}" for name, value in (*cell.functional, *cell.at))
    yield f"conflict: {place}"
    for side, content, span, origin in zip(SIDES, cell.contents, cell.spans, origins, strict=True):
        notes = "; ".join(filter(None, (str(span) if span else "", origin)))
        yield f"  {side:<6}  {content_text(content)}{f' ({notes})' if notes else ''}"


def merge_json(merged: Merged, file: str) -> dict[str, Any]:
    """The report as plain data."""
    counts = merged.counts
    return {
        "file": file,
        "conflict": merged.has_conflict,
        "clash": merged.clash or None,
        "counts": {
            "ours": counts.ours,
            "theirs": counts.theirs,
            "both": counts.both,
            "conflicts": counts.conflicts,
        },
        "origins": _by_side(merged.origins.map(lambda text: text or None)),
        "directives": [_directive_json(item) for item in merged.directives],
        "cells": [_cell_json(cell) for cell in merged.cells],
    }


def _by_side(three: Three[Any]) -> dict[str, Any]:
    return dict(zip(SIDES, three, strict=True))


def _directive_json(item: MergedDirective) -> dict[str, Any]:
    name, of = item.identity
    return {"directive": name, "of": of or None, **_by_side(item.lines)}


def _cell_json(cell: CellConflict) -> dict[str, Any]:
    sides = {
        side: {"content": _content_json(content), "at": str(span) if span else None}
        for side, content, span in zip(SIDES, cell.contents, cell.spans, strict=True)
    }
    return {"functional": dict(cell.functional), "at": dict(cell.at), **sides}


def _content_json(content: Content) -> Any:
    return dict(content) if isinstance(content, tuple) else content
