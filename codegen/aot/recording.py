"""Packs → resource files beside the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.aot.pack_manifest import Manifest, Origin, PackedTable
from codegen.aot.resources import Record, update_resources
from codegen.aot.result import OK, Resources
from txtdb.faults import Fault, Span
from txtdb.layers.database import Database
from txtdb.model.schema import Schema


@dataclass(frozen=True)
class Recorded:
    """The resource files of all tables of some packs, sorted, and those of them that were written."""

    files: tuple[Path, ...]
    written: tuple[Path, ...]
    faults: tuple[Fault, ...]


def record(database: Database, manifests: Iterable[Manifest]) -> Recorded:
    """Write what packs know of their images beside the tables. Raises OSError when a file cannot be written."""
    files: dict[Path, bool] = {}
    faults: list[Fault] = []
    for manifest in manifests:
        for place, table in manifest.tables.items():
            arch, _, iface = place.partition("/")
            schema = database.schemas.get(iface)
            reason = _misfit(database, arch, schema, table)
            if schema is None or reason:
                faults.append(Fault("pack-unlike-table", Span(database.listings[0].label), f"{place}: {reason}"))
                continue
            path, written, wrong = update_resources(database.roots[0], schema, arch, list(records(table)))
            files[path] = written or files.get(path, False)
            faults += wrong
    ordered = sorted(files)
    return Recorded(tuple(ordered), tuple(path for path in ordered if files[path]), tuple(faults))


def records(table: PackedTable) -> Iterator[Record]:
    """All that a packed table knows, failed images included."""
    for image in table.images.values():
        yield _record(image.origin, OK, image.binary.resources)
    for item in table.replaced.values():
        yield _record(item.origin, item.status, item.resources)


def _record(origin: Origin, status: str, resources: Resources | None) -> Record:
    return Record(origin.functional, origin.config, origin.source, origin.compiler, status, resources)


def _misfit(database: Database, arch: str, schema: Schema | None, table: PackedTable) -> str:
    """Why a packed table cannot stand beside those of a database; empty where it can."""
    if schema is None or arch not in database.archs:
        return "the database has no such arch or interface"
    fields = tuple(item.name for item in schema.config if item.binary)
    if (table.keys, table.fields) != (schema.key_names, fields):
        return "keys or config fields are not those of the schema"
    return ""
