"""Three files → the merged one, with all that is left to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from txtdb.faults import Fault
from txtdb.merge.conflicts import CellConflict, cell_conflicts
from txtdb.merge.defaults import Defaults
from txtdb.merge.header import MergedDirective
from txtdb.merge.layout import marked_text
from txtdb.merge.marking import clash_text
from txtdb.merge.plan import Clash, Mask, Plan, make_plan
from txtdb.merge.threeway import Three
from txtdb.merge.versions import Version, origin_text, read_version, read_versions
from txtdb.model.table import MASKED, UNSET


@dataclass(frozen=True)
class Counts:
    """Cells that only ours changed, that only theirs changed, that both changed alike, and that are in conflict."""

    ours: int = 0
    theirs: int = 0
    both: int = 0
    conflicts: int = 0


@dataclass(frozen=True)
class Merged:
    """The merged text. With any conflict it has conflict markers; `clash` says why, where they are around everything.

    `origins` tell where each version's cells come from.
    """

    text: str
    origins: Three[str]
    counts: Counts = Counts()
    cells: tuple[CellConflict, ...] = ()
    directives: tuple[MergedDirective, ...] = ()
    clash: str = ""

    @property
    def has_conflict(self) -> bool:
        """Whether anything is left for a person to decide."""
        return bool(self.cells or self.directives or self.clash)


def merge_files(
    data: Three[bytes | None], files: Three[str], defaults: Defaults
) -> tuple[Merged | None, tuple[Fault, ...]]:
    """Merge three versions of one table or patch by cell. `files` are the names that spans carry.

    A base of None, or of no byte at all, means that there was no such file; neither side may be None. `defaults` tells
    the values of config fields that a file leaves out. The text depends on the base and on the set of the two sides,
    not on which is which; only in a conflict they are named. With any fault in a version nothing is merged.
    """
    versions, faults = read_versions(data, files)
    if versions is None:
        return None, faults
    plan = make_plan(versions, _needed_defaults(versions, defaults))
    origins = versions.map(origin_text)
    if isinstance(plan, Plan):
        directives = tuple(item for item in plan.header if item.is_conflict)
        counts, cells = _counts(plan), tuple(cell_conflicts(plan))
        merged = Merged(marked_text(plan), origins, counts, cells, directives)
        assert merged.has_conflict or _is_sound(merged.text, versions), (
            "a clean merge makes a file of the same identity"
        )
        return merged, faults
    texts = versions.map(lambda version: version.text)
    if texts.agrees:
        return Merged(texts.settled, origins), faults
    return Merged(clash_text(plan), origins, clash=plan.reason), faults


def _is_sound(text: str, versions: Three[Version]) -> bool:
    """Whether a merged text can be read, and is about what one of the sides is about."""
    made, _ = read_version(text.encode(), versions.ours.document.file)
    return made is not None and all(
        made.document.argument(name) in {side.document.argument(name) for side in (versions.ours, versions.theirs)}
        for name in _IDENTITY
    )


# The directives that say what a file is about.
_IDENTITY = ("iface", "arch")


def _needed_defaults(versions: Three[Version], defaults: Defaults) -> Mapping[str, str]:
    """None where all versions write out the same fields."""
    fields = {tuple(sorted(names)) for version in versions if (names := version.document.config_fields)}
    iface = versions.map(lambda version: version.document.argument("iface")).settled
    return defaults(iface) if len(fields) > 1 and iface else {}


def merge_ancestors(data: Three[bytes | None], defaults: Defaults) -> str | None:
    """The merge of two files as a common ancestor of further versions; None where a version has faults.

    There is nobody to ask. A cell in conflict gets a content that neither side has, so that it counts as changed on
    both sides of the outer merge, and is asked there.
    """
    versions, _ = read_versions(data, Three("base", "ours", "theirs"))
    if versions is None:
        return None
    plan = make_plan(versions, _needed_defaults(versions, defaults))
    if isinstance(plan, Clash):
        return versions.map(lambda version: version.text).settled
    return marked_text(_undecided(plan))


def _undecided(plan: Plan) -> Plan:
    """The plan without conflicts: cells get a mark that no version has if there is one, directives the base's line."""
    header = tuple(_with_base_line(item) if item.is_conflict else item for item in plan.header)
    sides = np.stack(list(plan.sides))
    some_unset, some_masked = ((sides == mark).any(axis=0) for mark in (UNSET, MASKED))
    free = np.where(some_unset, np.where(some_masked, plan.sides.base, MASKED), UNSET)
    cells = np.where(plan.conflicts, free, plan.cells).astype(np.int32)
    return replace(plan, header=header, cells=cells, conflicts=np.zeros_like(plan.conflicts))


def _with_base_line(item: MergedDirective) -> MergedDirective:
    line = item.lines.base or min(filter(None, item.lines))
    return replace(item, lines=Three(line, line, line))


def _counts(plan: Plan) -> Counts:
    ours, theirs = plan.sides.ours != plan.sides.base, plan.sides.theirs != plan.sides.base
    both = ours & theirs & ~plan.conflicts
    return Counts(_number(ours & ~theirs), _number(theirs & ~ours), _number(both), _number(plan.conflicts))


def _number(cells: Mask) -> int:
    return int(np.count_nonzero(cells))
