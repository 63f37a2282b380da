"""`txtdb export`: cells → SQLite, CSV or JSON files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import (
    EXIT_USAGE,
    choose_archs,
    fail,
    format_option,
    open_root,
    overlay_option,
    print_json,
    root_argument,
)
from txtdb.files import write_if_changed
from txtdb.formats.cells import Exported, select_cells
from txtdb.formats.flat import csv_files, json_files
from txtdb.formats.sqlite_export import sqlite_files

_Command = Callable[..., Any]
_Writer = Callable[[Iterable[Exported]], Iterator[tuple[str, bytes]]]


@click.group("export")
def export() -> None:
    """Write the cells of a database in other formats.

    Own cells of each arch by default: those that its own table, patches and pins decide.
    """


def _options(command: _Command) -> _Command:
    out = click.option(
        "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write to."
    )
    arch = click.option("--arch", "archs", multiple=True, help="Only these archs; names or aliases, all by default.")
    resolved = click.option("--resolved", is_flag=True, help="All resolved cells, inherited ones too.")
    return root_argument(overlay_option(out(arch(resolved(format_option("json")(command))))))


@export.command("sqlite")
@_options
def _sqlite(**options: Any) -> None:
    """SQLite tables as AOTriton keeps them, gpu names and all columns included."""
    _export(sqlite_files, **options)


@export.command("csv")
@_options
def _csv(**options: Any) -> None:
    """One CSV file for each table, one row for each cell."""
    _export(csv_files, **options)


@export.command("json")
@_options
def _json(**options: Any) -> None:
    """One JSON file for each table, a list with one object for each cell."""
    _export(json_files, **options)


def _export(
    writer: _Writer,
    root: Path,
    overlays: tuple[Path, ...],
    out: Path,
    archs: tuple[str, ...],
    resolved: bool,
    style: str,
) -> None:
    database = open_root(root, overlays)
    tables, faults = select_cells(database, choose_archs(database, archs), resolved)
    if faults:
        fail(faults)
    files = _write(out, writer(tables))
    counts = {"tables": len(tables), "cells": sum(table.count for table in tables), "files": len(files)}
    if style == "json":
        print_json({"counts": counts, "files": [path.as_posix() for path in files]})
    else:
        click.echo(", ".join(f"{name} {count}" for name, count in counts.items()))


def _write(out: Path, files: Iterable[tuple[str, bytes]]) -> list[Path]:
    written = []
    for name, data in files:
        path = out / name
        try:
            write_if_changed(path, data)
        except OSError as error:
            click.echo(f"error: {path}: {error.strerror or error}", err=True)
            sys.exit(EXIT_USAGE)
        written.append(path)
    return written
