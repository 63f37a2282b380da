"""`txtdb import`: databases and measurement records of other tools → text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    fault_json,
    format_option,
    open_root,
    print_faults,
    print_json,
    why_option,
)
from txtdb.faults import Fault, errors
from txtdb.files import write_if_changed
from txtdb.formats.aotriton import Import, import_aotriton
from txtdb.formats.record_columns import Reading
from txtdb.formats.record_import import PatchPlan, RecordImport, import_records

_Command = Callable[..., Any]


def _root_option(command: _Command) -> _Command:
    return click.option(
        "--root",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="The database to write to.",
    )(command)


@click.group("import")
def import_() -> None:
    """Bring data of other tools into a database."""


@import_.command("aotriton")
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path, exists=True))
@_root_option
@click.option("--base", "bases", metavar="CHILD=PARENT", multiple=True, help="Lay arch CHILD over PARENT; repeatable.")
@click.option("--emit-schema", is_flag=True, help="Infer and write the schemas, and complete archs.toml.")
@click.option("--partial", is_flag=True, help="Write what could be read even if something could not.")
@format_option("json")
def _aotriton(source: Path, root: Path, bases: tuple[str, ...], emit_schema: bool, partial: bool, style: str) -> None:
    """Import the SQLite tables of an AOTriton flash-attention database.

    SRC is a folder with .sqlite3.tar.xz or .sqlite3 files, at any depth, or one of them. Nothing is written when
    anything could not be imported, unless --partial is given.
    """
    pairs = [_pair("--base", text) for text in bases]
    with _Progress() as progress:
        result = import_aotriton(source, root, pairs, emit_schema, progress)
    allowed = result.complete or partial
    written = _write(result.files) if allowed else []
    _report(result, written, allowed, style)
    sys.exit(0 if result.complete else EXIT_FINDINGS)


def _pair(option: str, text: str) -> tuple[str, str]:
    left, sign, right = (part.strip() for part in text.partition("="))
    if not (left and sign and right):
        raise click.UsageError(f"{option} {text}: write {'CHILD=PARENT' if option == '--base' else 'A=B'}")
    return left, right


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = [_pair(option, text) for text in texts]
    repeated = [left for number, (left, _) in enumerate(pairs) if left in dict(pairs[:number])]
    if repeated:
        raise click.UsageError(f"{option}: {repeated[0]} stands twice")
    return dict(pairs)


class _Progress:
    """One line on a terminal's stderr that says what is being done; nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __call__(self, text: str) -> None:
        if self._shown:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _write(files: Mapping[Path, bytes]) -> list[Path]:
    """Write all files, those that changed; ends the program with exit code 2 when that fails."""
    written: list[Path] = []
    for path, data in sorted(files.items()):
        try:
            if write_if_changed(path, data):
                written.append(path)
        except OSError as error:
            click.echo(f"error: {path}: {error.strerror or error}; {len(written)} files were written before", err=True)
            sys.exit(EXIT_USAGE)
    return written


def _report(result: Import, written: Sequence[Path], allowed: bool, style: str) -> None:
    counts = {
        "sources": result.sources,
        "tables": len(result.cells),
        "cells": sum(result.cells.values()),
        "empty_tables": result.empty_tables,
        "rows_repeated": result.rows_repeated,
        "rows_left_out": result.rows_left_out,
        "files_written": len(written),
    }
    cells = [{"arch": arch, "iface": iface, "cells": count} for (arch, iface), count in result.cells.items()]
    _print(counts, {"tables": cells}, written, result.faults, allowed, style)


def _print(
    counts: Mapping[str, int],
    details: Mapping[str, object],
    written: Sequence[Path],
    faults: Sequence[Fault],
    allowed: bool,
    style: str,
) -> None:
    """Counts on stdout and faults on stderr, or all of it as JSON."""
    if style == "json":
        files = [path.as_posix() for path in written]
        print_json({"counts": counts, **details, "files": files, "findings": [fault_json(fault) for fault in faults]})
        return
    print_faults(faults)
    click.echo(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items()))
    wrong = len(errors(faults))
    if wrong:
        click.echo(f"{'incomplete' if allowed else 'nothing was written'}: {wrong} fault{'s' * (wrong > 1)}", err=True)


@import_.command("records")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@_root_option
@click.option("--arch", required=True, help="The arch that was measured; name or alias.")
@click.option("--iface", required=True, help="The interface that was measured.")
@click.option("--map", "columns", metavar="COLUMN=NAME", multiple=True, help="A column is this key, axis or field.")
@click.option("--value", "values", metavar="NAME=VALUE", multiple=True, help="A key or field that all records share.")
@click.option("--time", metavar="COLUMN", help="The times; the least positive one wins.")
@click.option("--error", metavar="COLUMN", help="How wrong a result was; needs --max-error.")
@click.option("--max-error", type=float, help="Records with a larger error are left out.")
@click.option("--device-column", "device", metavar="COLUMN", help="Compute units of the device that was measured.")
@click.option("--argument", "arguments", metavar="COLUMN", multiple=True, help="Must agree in all records.")
@click.option("--ignore", "ignored", metavar="COLUMN", multiple=True, help="Pass over this column.")
@click.option("--patch", metavar="[NNNN-]NAME", help="Write a new patch instead of changing the table.")
@why_option("What the patch is for.", default="")
@format_option("json")
def _records(
    files: tuple[Path, ...],
    root: Path,
    arch: str,
    iface: str,
    columns: tuple[str, ...],
    values: tuple[str, ...],
    patch: str | None,
    why: str,
    style: str,
    **options: Any,
) -> None:
    """Import the best of the measurement records in CSV or JSON files.

    Columns that are named like a key, axis or config field need no --map. Records that cannot be used are listed and
    left out, with exit code 1; files that do not fit together are refused as a whole.
    """
    if (options["error"] is None) != (options["max_error"] is None):
        raise click.UsageError("--error and --max-error belong together")
    if why and patch is None:
        raise click.UsageError("--why belongs to --patch")
    reading = Reading(_pairs("--map", columns), _pairs("--value", values), **options)
    plan = PatchPlan(patch, why) if patch is not None else None
    result = import_records(files, open_root(root), arch, iface, reading, plan)
    written = _write({result.target.path: result.target.text.encode()}) if result.target else []
    _report_records(result, written, style)
    sys.exit(0 if result.complete else EXIT_FINDINGS)


def _report_records(result: RecordImport, written: Sequence[Path], style: str) -> None:
    selection = result.selection
    counts = {
        "records": selection.records,
        "invalid": selection.invalid,
        "superseded": selection.superseded,
        "of_other_archs": selection.of_other_archs,
        "cells": len(selection.best),
        "cells_changed": result.target.changed if result.target else 0,
        "files_written": len(written),
    }
    faults = (*result.refused, *result.faults)
    _print(counts, {"arguments": selection.arguments}, written, faults, not result.refused, style)
