"""ROOT, ARCH and IFACE of a command → resolved tables, or the end of the program with what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, choose_archs, fail, open_root
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.archs import known_archs, split_archs
from txtdb.model.schema import Schema
from txtdb.views.asking import find_tuned_schema


def open_tables(root: Path, overlays: Sequence[Path], archs: str, iface: str) -> list[ResolvedTable]:
    """The tables of one interface on some archs (commas, semicolons, blanks, aliases)."""
    return resolve_tables(open_root(root, overlays), archs, iface)


def resolve_tables(database: Database, archs: str, iface: str) -> list[ResolvedTable]:
    """The same, of a database that is open.

    A table with any fault is not used: what it says could come from the layer below the faulty one.
    """
    chosen = named_archs(database, archs)
    choose_schema(database, iface, chosen)
    resolutions = [database.resolve(arch, iface) for arch in chosen]
    wrong = [fault for resolution in resolutions for fault in errors(resolution.faults)]
    if wrong:
        fail(dict.fromkeys(wrong), EXIT_FINDINGS)
    return [resolution.table for resolution in resolutions if resolution.table]


def named_archs(database: Database, archs: str) -> list[str]:
    """The archs of an argument that names at least one."""
    chosen = choose_archs(database, [archs]) if split_archs([archs]) else []
    if not chosen:
        hint = f"known are {known_archs(database.archs)}"
        fail([Fault("unknown-arch", Span(archs), "no arch is named", hint)], EXIT_USAGE)
    return chosen


def choose_schema(database: Database, iface: str, archs: Sequence[str]) -> Schema:
    """The schema of a tuned interface that exists on these archs."""
    schema = find_tuned_schema(database, iface)
    if isinstance(schema, Fault):
        fail([schema], EXIT_USAGE)
    missing = [arch for arch in archs if arch not in schema.archs]
    if missing:
        hint = f"it exists on {', '.join(schema.archs) or 'no arch'}"
        fail(
            [Fault("unsupported-iface", Span(schema.file), f"{iface} does not exist on {', '.join(missing)}", hint)], 2
        )
    return schema
