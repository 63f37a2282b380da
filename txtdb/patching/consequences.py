"""What a database is like once a change is made, held against what it is now."""

from __future__ import annotations

from dataclasses import dataclass

from txtdb.diff.planes import plane_edits, resolved_plane
from txtdb.faults import Fault, errors
from txtdb.layers.database import Database
from txtdb.patching.files import opened, root_files
from txtdb.patching.outcome import Outcome
from txtdb.patching.stack import Place, stack_of, stale_patches


@dataclass(frozen=True)
class Consequences:
    """`faults` are those that tables of the interface have of the change, the changed one and its heirs.

    `stale` are patches of any arch whose ground moves. `moves_bins` tells whether the bins of the table are others
    afterwards.
    """

    faults: tuple[Fault, ...]
    stale: tuple[str, ...]
    moves_bins: bool


def consequences(database: Database, place: Place, outcome: Outcome) -> Consequences:
    """Try a change out in a copy; cells of the table that lookups answer otherwise are added to the outcome."""
    before = stack_of(database, place).table
    with opened(outcome.after(root_files(database.roots[0])), database) as after:
        known = {*_faults(database, place[1]), *_stale(database, place[1])}
        faults = tuple(fault for fault in _faults(after, place[1]) if fault not in known)
        stale = tuple(file for file in _stale(after, place[1]) if file not in known)
        table = after.resolve(*place).table
        if table is None:
            return Consequences(faults, stale, True)
        outcome.answers.extend(plane_edits(resolved_plane(before), resolved_plane(table)))
        return Consequences(faults, stale, table.bins != before.bins)


def _faults(database: Database, iface: str) -> dict[Fault, None]:
    found = (database.resolve(arch, name).faults for arch, name in database.places() if name == iface)
    return dict.fromkeys(fault for faults in found for fault in errors(faults))


def _stale(database: Database, iface: str) -> list[str]:
    return [layer.file for _, layer in stale_patches(database, iface)]
