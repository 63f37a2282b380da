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
    """`faults` are those of the changed table, `stale` the patches of any arch whose ground the change moves.

    `moves_bins` tells whether the bins of the table are others afterwards.
    """

    faults: tuple[Fault, ...]
    stale: tuple[str, ...]
    moves_bins: bool


def consequences(database: Database, place: Place, outcome: Outcome) -> Consequences:
    """Try a change out in a copy; cells of the table that lookups answer otherwise are added to the outcome."""
    before = stack_of(database, place).table
    with opened(outcome.after(root_files(database.roots[0])), database) as after:
        resolution = after.resolve(*place)
        faults = errors(resolution.faults)
        known = {layer.file for _, layer in stale_patches(database, place[1])}
        stale = tuple(layer.file for _, layer in stale_patches(after, place[1]) if layer.file not in known)
        if resolution.table is None:
            return Consequences(faults, stale, True)
        outcome.answers.extend(plane_edits(resolved_plane(before), resolved_plane(resolution.table)))
        return Consequences(faults, stale, resolution.table.bins != before.bins)
