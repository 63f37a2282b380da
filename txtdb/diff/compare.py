"""Two databases → all their differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from txtdb.diff.edits import CellEdit, DatabaseDiff, FactEdit
from txtdb.diff.facts import fact_edits
from txtdb.diff.planes import Plane, empty_plane, plane_edits, resolved_plane, written_plane
from txtdb.diff.sides import Side
from txtdb.faults import Fault, errors
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable

_BASE = re.compile(rb"^#! base +([^\s]+)", re.MULTILINE)

MakePlane = Callable[[ResolvedTable], Plane]


def compare(old: Side, new: Side, effect: bool = False) -> tuple[DatabaseDiff, tuple[Fault, ...]]:
    """Compare two sides.

    Without `effect` the cells are those that each arch's own files write; with it they are the resolved ones, so that
    a change of one arch shows in every arch that inherits it. With any error among the faults the differences are not
    to be trusted.
    """
    make = resolved_plane if effect else written_plane
    cells: list[CellEdit] = []
    faults: dict[Fault, None] = dict.fromkeys((*old.database.faults, *new.database.faults))
    only = old.only or new.only
    for place in sorted({*old.database.places(), *new.database.places()}):
        if only and not _belongs(only, place):
            continue
        if _same_bytes(old.database, new.database, place, effect):
            continue
        planes = [_plane(side.database, place, make, faults) for side in (old, new)]
        cells.extend(_place_edits(*planes))
    facts: tuple[FactEdit, ...] = () if only else tuple(fact_edits(old, new))
    schemas = {**old.database.schemas, **new.database.schemas}
    return DatabaseDiff(tuple(cells), facts, schemas), errors(faults)


def _belongs(only: str, place: tuple[str, str]) -> bool:
    arch, _, name = only.partition("/")
    return place[0] == arch and name.startswith(f"{place[1]}.")


def _place_edits(old: Plane | None, new: Plane | None) -> Iterator[CellEdit]:
    some = new or old
    if some is None:
        return
    yield from plane_edits(old or empty_plane(some), new or empty_plane(some))


def _plane(database: Database, place: tuple[str, str], make: MakePlane, faults: dict[Fault, None]) -> Plane | None:
    if place not in database.places():
        return None
    resolution = database.resolve(*place)
    # A table that is not there yet is a difference, not an error of the comparison.
    faults.update(dict.fromkeys(fault for fault in resolution.faults if fault.rule != "no-data"))
    return make(resolution.table) if resolution.table else None


def _same_bytes(old: Database, new: Database, place: tuple[str, str], effect: bool) -> bool:
    """Whether everything that makes a table is the same to the byte, so that nothing needs to be read."""
    before, after = (_content(database, place, effect, ()) for database in (old, new))
    return before is not None and before == after


def _content(
    database: Database, place: tuple[str, str], effect: bool, chain: tuple[str, ...]
) -> list[tuple[str, bytes]] | None:
    """(name, bytes) of all files behind a table; None where it has no schema or its bases run in a circle."""
    arch, iface = place
    schema = database.listings[0].schemas.get(iface)
    if schema is None or arch in chain:
        return None
    files = [(file.name, file.path.read_bytes()) for _, file in database.layer_files(arch, iface)]
    others = [schema, *(listing.pins[arch] for listing in database.listings if arch in listing.pins)]
    content = [*files, *((path.name, path.read_bytes()) for path in others)]
    for base in _BASE.findall(b"\n".join(data for _, data in files)) if effect else ():
        below = _content(database, (base.decode(), iface), effect, (*chain, arch))
        if below is None:
            return None
        content.extend(below)
    return content
