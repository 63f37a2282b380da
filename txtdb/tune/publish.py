"""Decided cells → a patch with its evidence, or a whole table of an arch's own. A run that changes nothing has none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txtdb.evidence.files import MAX_BYTES, evidence_digest, write_evidence
from txtdb.evidence.named import stands_for
from txtdb.faults import Fault, Span
from txtdb.layers.database import Database
from txtdb.layers.listing import EVIDENCE_FOLDER
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.evidence import CellEvidence, Evidence, Outcome
from txtdb.model.table import UNSET, ConfigValues
from txtdb.model.values import Functional, functional_rank
from txtdb.model.writing import Header, table_text
from txtdb.patching.naming import PatchName, name_fault, next_number
from txtdb.patching.outcome import Outcome as Change
from txtdb.patching.sources import plain_reason
from txtdb.patching.stack import CellTable, Stack
from txtdb.patching.writing import patch_text
from txtdb.tune.choosing import DEFAULT_LAYER, config_at, ground_of
from txtdb.tune.comparison import is_energy
from txtdb.tune.fields import Cell
from txtdb.wording import plural

Chosen = Mapping[tuple[Functional, tuple[int, ...]], ConfigValues]


@dataclass(frozen=True)
class Publication:
    """How decided cells are written. `name` is that of the patch and of its evidence, `why` what it is for."""

    name: str
    why: str | None = None
    whole_table: bool = False


def publication_faults(database: Database, table: ResolvedTable, publication: Publication) -> list[Fault]:
    """What forbids to publish under a name, before anything is measured."""
    fault = name_fault(publication.name)
    if fault:
        return [fault]
    own = database.listings[0].tables.get((table.arch, table.iface))
    if publication.whole_table and own:
        message, hint = "there is an own table already", "leave out --table, so that a patch is made"
        return [Fault("argument", Span(own.display), message, hint)]
    return []


def place_faults(root: Path, arch: str) -> list[Fault]:
    """What forbids to write a patch and evidence of an arch, as far as that is known before they are."""
    folders = (root / arch, root / arch / EVIDENCE_FOLDER)
    message = "no file can be written here"
    hint = "change its permissions, or tune a copy of the database; --compare and --dry-run write nothing"
    shut = [folder for folder in folders if not can_write(folder)]
    return [Fault("unwritable", Span(folder.as_posix()), message, hint) for folder in shut[:1]]


def can_write(folder: Path) -> bool:
    """Whether files can be written in a folder; of one that is missing, whether it can be made."""
    path = folder.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def is_published(evidence: Evidence, publication: Publication) -> bool:
    """Whether a run changes anything."""
    return bool(_chosen(evidence, publication.whole_table))


def publish(
    database: Database, before: ResolvedTable, table: ResolvedTable, evidence: Evidence, publication: Publication
) -> Change:
    """The files that publish a run, none when it changes nothing.

    `before` is the table that the run measured against, `table` what it is now. A patch has the cells whose winner
    replaces the incumbent, and holes that now get the default. A table has a config for every cell that has a valid
    one.
    """
    change = Change(database.roots[0], schemas=database.schemas)
    chosen = _chosen(evidence, publication.whole_table)
    if not chosen:
        return change
    moved = _moved(before, table, chosen, database.listings[0].label)
    faults = publication_faults(database, table, publication) or moved
    if faults:
        return change.fail(faults)
    data = write_evidence(evidence, table.schema)
    if len(data) > MAX_BYTES:
        message = f"the evidence has {len(data):,} bytes, and a file holds {MAX_BYTES:,}"
        hint = "run again for some of the cells, by --keys and each with another --name; nothing is measured again"
        return change.fail([Fault("size", Span(publication.name), message, hint)])
    file = f"{table.arch}/{EVIDENCE_FOLDER}/{publication.name}.json"
    there = database.roots[0] / file
    if there.is_file() and there.read_bytes() != data:
        hint = "name this run otherwise with --name; nothing is measured again"
        return change.fail([Fault("argument", Span(there.as_posix()), "there is other evidence of this name", hint)])
    header = _header(evidence, publication, f"{publication.name}.json {evidence_digest(data)}")
    cells = cell_table(table, chosen)
    change.write(file, data)  # first: evidence alone is harmless after a kill, a patch without it is not
    if publication.whole_table:
        change.write(f"{table.arch}/{table.iface}.txtdb", _own_table(table, cells, header), len(chosen))
    else:
        _write_patch(change, database, table, cells, header, publication.name)
    return change


def _moved(before: ResolvedTable, table: ResolvedTable, chosen: Chosen, root: str) -> list[Fault]:
    """That cells which will be set hold something else than the run measured against."""
    cells = [Cell(*key) for key in chosen]
    moved = [cell for cell in cells if config_at(before, cell) != config_at(table, cell)]
    if not moved:
        return []
    count = f"{len(moved)} of the {len(cells)} {plural(len(cells), 'cell')} to write"
    place = table.arch if config_at(table, moved[0]) is None else ground_of(table, moved[0], root).layer
    return [moved_fault(place, f"{count} {'was' if len(moved) == 1 else 'were'} changed during the run")]


def moved_fault(place: str, message: str) -> Fault:
    """`ground-moved`: somebody changed what the run measured against, in a file."""
    hint = "run the same command again: the journal keeps what was measured"
    return Fault("ground-moved", Span(place), message, hint)


def _chosen(evidence: Evidence, every: bool) -> Chosen:
    found = {(cell.measured.functional, cell.measured.at): _config(cell, every) for cell in evidence.cells}
    return {key: config for key, config in found.items() if config is not None}


def _config(cell: CellEvidence, every: bool) -> ConfigValues | None:
    """The config that is written for a cell; None where there is nothing to write."""
    is_hole = cell.measured.incumbent_layer == DEFAULT_LAYER
    wanted = every or is_hole or cell.decision.outcome is Outcome.PUBLISHED
    return stands_for(cell) if wanted else None


def _header(evidence: Evidence, publication: Publication, line: str) -> Header:
    origin = f"measured {evidence.name}"
    why = plain_reason(publication.why) or _reason(evidence)
    given = {"origin": [origin], "evidence": [line]}
    return given if publication.whole_table else {**given, "why": [why]}


def _reason(evidence: Evidence) -> str:
    """What a patch is for, when nobody says: the range of its cells' gains, of time or of energy."""
    cells = [cell.decision for cell in evidence.cells if cell.decision.outcome is Outcome.PUBLISHED]
    gains = [decision.gain_pct for decision in cells if decision.gain_pct is not None]
    if not gains:
        return "measured configs"
    low, high = min(gains), max(gains)
    if is_energy(evidence.cells):
        span = f"{low:.1f} % to {high:.1f} %" if low < high else f"{high:.1f} %"
        return f"{span} less energy, as measured"
    return f"measured gains of {low:.1f} % to {high:.1f} %" if low < high else f"a measured gain of {high:.1f} %"


def cell_table(table: ResolvedTable, chosen: Chosen) -> CellTable:
    """Cells by key → arrays over just the functionals and bins that they need."""
    functionals = tuple(sorted({functional for functional, _ in chosen}, key=functional_rank))
    bins = tuple(tuple(sorted({at[axis] for _, at in chosen})) for axis in range(len(table.schema.axes)))
    cells = np.full((len(functionals), *map(len, bins)), UNSET, np.int32)
    for (functional, at), config in chosen.items():
        place = tuple(own.index(value) for own, value in zip(bins, at, strict=True))
        cells[(functionals.index(functional), *place)] = table.pool.intern(config)
    return CellTable(functionals, bins, cells)


def _own_table(table: ResolvedTable, cells: CellTable, header: Header) -> str:
    return table_text(table.schema, table.arch, cells.functionals, cells.bins, cells.cells, table.pool, header, "txtdb")


def _write_patch(
    change: Change, database: Database, table: ResolvedTable, cells: CellTable, header: Header, name: str
) -> None:
    stack = Stack(table)
    digest = stack.digest(stack.fold(stack.below_pins), cells)
    taken = [file.number or 0 for file in database.listings[0].patches.get((table.arch, table.iface), ())]
    file = f"{table.arch}/{PatchName(table.iface, next_number(taken), name).file}"
    text = patch_text(table, cells, {**header, "onto": [digest]})
    change.write(file, text, int((cells.cells != UNSET).sum()))
