"""The best configs of cells → the text of a table or patch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txtdb.editing.cells import with_grid
from txtdb.faults import Fault, Span
from txtdb.formats.records import Cell
from txtdb.layers.database import Database, LoadedFile
from txtdb.layers.resolve import Fold, bin_index, empty_fold, fold_layers, ground_digest
from txtdb.model.edit import edit_cells
from txtdb.model.schema import ArchSchema
from txtdb.model.table import UNSET, ConfigPool, ConfigValues, build_table
from txtdb.model.values import Functional
from txtdb.model.writing import table_text
from txtdb.syntax import read

Best = Mapping[Cell, ConfigValues]

_PATCH_NAME = re.compile(r"(?:(?P<number>[0-9]{1,9})-)?(?P<name>[A-Za-z_][A-Za-z0-9_.+-]*)")
_PATCH_STEP = 10


@dataclass(frozen=True)
class Target:
    """A file as it will be. `changed` counts the cells that get another config than the file, or what is below, has."""

    path: Path
    text: str
    changed: int


def table_with(database: Database, arch_schema: ArchSchema, best: Best, origin: str) -> Target | Fault:
    """The arch's own table with the cells set; a new table has all bins of the arch."""
    arch, iface = arch_schema.section.arch, arch_schema.schema.iface
    file = database.listings[0].tables.get((arch, iface))
    if file is None:
        path = database.roots[0] / arch / f"{iface}.txtdb"
        text = _new_text(arch_schema, best, arch_schema.bins, database.pool(iface), {"origin": [origin]})
        return Target(path, text, len(best))
    loaded = database.file(file)
    if loaded.source is None or loaded.faults:
        hint = "`txtdb check` tells what is wrong with it"
        return Fault("unusable-table", Span(file.display), "the table that the records go into has faults", hint)
    source = with_grid(loaded.source, arch_schema)
    for name, bins in source.shape.axes:
        place = arch_schema.schema.axis_names.index(name)
        missing = sorted({at[place] for _, at in best}.difference(bins))
        if missing:
            message = f"the table has no {name} {', '.join(map(str, missing))}"
            hint = "give --patch NAME: a patch brings bins without opening holes in the others"
            return Fault("unknown-bin", Span(file.display), message, hint)
    edits = {cell: config for cell, config in best.items() if _own_config(loaded, cell, database.pool(iface)) != config}
    text = edit_cells(source, arch_schema.schema, edits) if edits else file.path.read_text(encoding="utf-8")
    return Target(file.path, text, len(edits))


def _own_config(loaded: LoadedFile, cell: Cell, pool: ConfigPool) -> ConfigValues | None:
    table = loaded.table
    functional, bins = cell
    if table is None or functional not in table.functionals:
        return None
    at = tuple(own.index(value) for own, value in zip(table.bins, bins, strict=True))
    number = int(table.cells[(table.functionals.index(functional), *at)])
    return pool[number] if number >= 0 else None


def patch_with(
    database: Database, arch_schema: ArchSchema, best: Best, origin: str, name: str, why: str
) -> Target | Fault:
    """A new patch, above all that there are, with those of the cells that change something."""
    path = _patch_path(database, arch_schema, name)
    if isinstance(path, Fault):
        return path
    schema, pool = arch_schema.schema, database.pool(arch_schema.schema.iface)
    below = _below(database, arch_schema)
    changing = {cell: config for cell, config in best.items() if _config_at(below, cell, pool) != config}
    bins = tuple(tuple(sorted({at[place] for _, at in changing})) for place in range(len(schema.axes)))
    header = {"origin": [origin], "why": [why]}
    draft = _new_text(arch_schema, changing, bins, pool, header, "dbpatch")
    source, _ = read(draft.encode(), path.as_posix())
    assert source is not None, "text made here is text that can be read"
    table, _ = build_table(source, schema, arch_schema.section.arch, pool)
    header["onto"] = [ground_digest(schema, pool, below, table)]
    return Target(path, _new_text(arch_schema, changing, bins, pool, header, "dbpatch"), len(changing))


def _patch_path(database: Database, arch_schema: ArchSchema, name: str) -> Path | Fault:
    """`0010-name`, or `name` alone for the next number in steps of ten."""
    arch, iface = arch_schema.section.arch, arch_schema.schema.iface
    folder = database.roots[0] / arch
    taken = [file.number or 0 for file in database.listings[0].patches.get((arch, iface), ())]
    match = _PATCH_NAME.fullmatch(name)
    if match is None:
        return Fault("patch-name", Span(name), f"`{name}` is no name of a patch", "the form is 0010-name, or name")
    number = int(match["number"]) if match["number"] else (max(taken, default=0) // _PATCH_STEP + 1) * _PATCH_STEP
    if number <= max(taken, default=-1):
        message = f"patch {max(taken)} of {iface} would lie above patch {number}"
        return Fault("patch-name", Span(name), message, "leave the number out to take the next one")
    return folder / f"{iface}.{number:04d}-{match['name']}.dbpatch"


def _below(database: Database, arch_schema: ArchSchema) -> Fold:
    """What a new patch lies on: all layers but the pins of the arch itself."""
    arch = arch_schema.section.arch
    resolution = database.resolve(arch, arch_schema.schema.iface)
    layers = resolution.table.layers if resolution.table else ()
    kept = [layer for layer in layers if layer.kind != "pins" or layer.arch != arch]
    start = empty_fold(len(arch_schema.schema.axes))
    *_, below = start, *fold_layers(kept, start)
    return below


def _config_at(below: Fold, cell: Cell, pool: ConfigPool) -> ConfigValues | None:
    functional, bins = cell
    if functional not in below.index:
        return None
    at = tuple(bin_index(own, value) for own, value in zip(below.bins, bins, strict=True))
    number = int(below.cells[(below.index[functional], *at)])
    return pool[number] if number >= 0 else None


def _new_text(
    arch_schema: ArchSchema,
    best: Best,
    bins: tuple[tuple[int, ...], ...],
    pool: ConfigPool,
    header: Mapping[str, list[str]],
    kind: str = "txtdb",
) -> str:
    functionals: list[Functional] = sorted({functional for functional, _ in best}, key=str)
    cells = np.full((len(functionals), *map(len, bins)), UNSET, np.int32)
    for (functional, at), config in best.items():
        place = tuple(own.index(value) for own, value in zip(bins, at, strict=True))
        cells[(functionals.index(functional), *place)] = pool.intern(config)
    return table_text(arch_schema.schema, arch_schema.section.arch, functionals, bins, cells, pool, header, kind)
