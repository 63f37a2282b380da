"""Files of measurement records → one table or patch of a database. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from txtdb.faults import Fault, Span, errors
from txtdb.formats.record_columns import Reading
from txtdb.formats.record_files import RecordFile, read_records
from txtdb.formats.record_target import Target, patch_with, table_with
from txtdb.formats.records import Selection, select_best
from txtdb.layers.database import Database
from txtdb.model.archs import find_arch
from txtdb.model.schema import ArchSchema


@dataclass(frozen=True)
class RecordImport:
    """What an import of records would write, and what became of the records.

    `target` is None when nothing is to be written: with anything in `refused`, or when no cell changes. `faults` tell
    of single records that were left out, and warn.
    """

    target: Target | None = None
    selection: Selection = field(default_factory=Selection)
    refused: tuple[Fault, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every record could be used."""
        return not self.refused and not errors(self.faults)


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """A patch to make instead of changing the table: its name (`0010-name`, or `name`), and what it is for."""

    name: str
    why: str


def import_records(
    paths: Sequence[Path], database: Database, arch: str, iface: str, reading: Reading, patch: PatchPlan | None = None
) -> RecordImport:
    """Read records for one arch and interface of a database, and plan the file that holds the best ones."""
    arch_schema = _arch_schema(database, arch, iface)
    if isinstance(arch_schema, Fault):
        return RecordImport(refused=(arch_schema,))
    files, damaged, faults = _read_all(paths)
    if damaged:
        return RecordImport(refused=tuple(damaged))
    selection = select_best(files, arch_schema, database.archs, reading)
    if selection.refused:
        return RecordImport(None, selection, selection.refused)
    bad = len(faults)
    selection = replace(selection, records=selection.records + bad, invalid=selection.invalid + bad)
    faults += selection.faults
    target = _target(database, arch_schema, selection, paths, patch) if selection.best else None
    if isinstance(target, Fault):
        return RecordImport(None, selection, (target,), tuple(faults))
    return RecordImport(target if target and target.changed else None, selection, (), tuple(faults))


def _arch_schema(database: Database, arch: str, iface: str) -> ArchSchema | Fault:
    found = find_arch(arch, database.archs)
    if isinstance(found, Fault):
        return found
    schema = database.schemas.get(iface)
    if schema is None or schema.kind == "fixed":
        tuned = sorted(name for name, item in database.schemas.items() if item.kind != "fixed")
        return Fault(
            "unknown-iface", Span(iface), f"no interface `{iface}` is tuned here", f"known are {', '.join(tuned)}"
        )
    arch_schema = schema.for_arch(found.name)
    if arch_schema is None:
        hint = f"add [arch.{found.name}] to {schema.file}"
        return Fault("unsupported-iface", Span(iface), f"{iface} does not exist on {found.name}", hint)
    return arch_schema


def _read_all(paths: Sequence[Path]) -> tuple[list[RecordFile], list[Fault], list[Fault]]:
    """Files, faults that forbid the use of any, and faults of single records."""
    files: list[RecordFile] = []
    damaged: list[Fault] = []
    faults: list[Fault] = []
    for path in paths:
        file, found = read_records(path)
        if file is None or not file.records:
            damaged += found
        else:
            files.append(file)
            faults += found
    return files, damaged, faults


def _target(
    database: Database, arch_schema: ArchSchema, selection: Selection, paths: Sequence[Path], patch: PatchPlan | None
) -> Target | Fault:
    names = ", ".join(sorted({"_".join(path.name.split()) for path in paths}))
    origin = f"imported {names}"
    if patch is None:
        return table_with(database, arch_schema, selection.best, origin)
    why = " ".join(patch.why.split()) or f"the best records of {names}"
    return patch_with(database, arch_schema, selection.best, origin, patch.name, why)
