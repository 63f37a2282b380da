"""Two databases → the patches that make the first answer as the second does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from txtdb.diff.compare import same_bytes
from txtdb.diff.planes import incomparable
from txtdb.evidence.files import evidence_digest
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.resolve import Layer
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import UNSET
from txtdb.patching.difference import Difference
from txtdb.patching.files import Files, opened, root_files
from txtdb.patching.naming import PatchName, name_fault, next_number
from txtdb.patching.outcome import Outcome
from txtdb.patching.sources import evidence_name, header, joined_evidence
from txtdb.patching.stack import Place, ancestors, ordered_places
from txtdb.patching.writing import patch_text


@dataclass(frozen=True, slots=True)
class Request:
    """What patches to make. No archs or interfaces means all of them."""

    name: str
    why: str | None = None
    archs: Collection[str] = ()
    ifaces: Collection[str] = ()

    def wants(self, place: Place) -> bool:
        """Whether a table is asked for."""
        return (not self.archs or place[0] in self.archs) and (not self.ifaces or place[1] in self.ifaces)


def create_patches(old: Database, new: Database, request: Request) -> Outcome:
    """Patches for `old`: one for each table in which lookups differ, with the new side's resolved cells.

    Bases come first, so that an heir gets a patch of its own only for what would still differ when the patch of its
    base applies. `#! onto` is the digest of what then lies below. With any fault the patches do not give the new side.
    """
    wrong = [*errors((*old.faults, *new.faults)), *filter(None, [name_fault(request.name)])]
    if wrong:
        return Outcome(old.roots[0]).fail(wrong)
    with ExitStack() as stack:
        maker = _Maker(old, new, request, stack)
        for place in ordered_places(old):
            if request.wants(place):
                maker.place(place)
        maker.missing_places()
        return maker.outcome


class _Maker:
    """Makes patches one after the other, each over the old side with those made so far."""

    def __init__(self, old: Database, new: Database, request: Request, stack: ExitStack) -> None:
        self.outcome = Outcome(old.roots[0], schemas=old.schemas)
        self._old, self._new, self._request, self._stack = old, new, request, stack
        self._files: Files | None = None
        self._current = old
        self._unread: set[Place] = set()
        self._new_places = frozenset(new.places())

    def place(self, place: Place) -> None:
        """Make the patch of one table, if it needs one."""
        if self._unread & ancestors(self._current, place):
            self._reopen()
        if place not in self._new_places:
            self._fault(place, "the new side has no such table, and a patch cannot remove one", "remove its files")
            return
        if same_bytes(self._current, self._new, place, effect=True):
            return
        if incomparable(self._new.schemas[place[1]], self._current.schemas[place[1]]):
            self._fault(place, "the two sides have other keys or axes", "change the schema first")
            return
        before, after = (self._table(database, place) for database in (self._current, self._new))
        if before and after:
            self._table_patch(place, Difference(before, after))

    def missing_places(self) -> None:
        """Tables that the old side does not have."""
        for place in sorted(self._new_places - frozenset(self._old.places())):
            if self._request.wants(place):
                self._fault(place, "the old side has no such table", "add the arch and the schema's section first")

    def _table(self, database: Database, place: Place) -> ResolvedTable | None:
        table = database.table_or_empty(*place)
        if isinstance(table, ResolvedTable):
            return table
        self.outcome.fail(table)
        return None

    def _table_patch(self, place: Place, difference: Difference) -> None:
        self.outcome.fail(difference.faults())
        if not difference.differs.any():
            return
        table, stack = difference.patch(), difference.stack
        digest = stack.digest(difference.below, table)
        layers = difference.sources()
        lines = list(self._evidence(place[0], layers))
        directives = header(self._request.why, layers, lines, digest)
        text = patch_text(difference.before, table, directives)
        self._add(place, text, int((table.cells != UNSET).sum()))

    def _add(self, place: Place, text: str, cells: int) -> None:
        taken = [file.number or 0 for file in self._old.listings[0].patches.get(place, ())]
        file = f"{place[0]}/{PatchName(place[1], next_number(taken), self._request.name).file}"
        self.outcome.write(file, text, cells)
        self._unread.add(place)

    def _evidence(self, arch: str, layers: Sequence[Layer]) -> Iterator[str]:
        """The evidence lines of the patch; the files that they name come with it, under a free name if need be."""
        for line in joined_evidence(layers):
            owner = next(layer.arch for layer in layers if line in layer.evidence)
            path = self._new.roots[0] / evidence_name(owner, line)
            yield self._carry(arch, line, path) if path.is_file() else line

    def _carry(self, arch: str, line: str, path: Path) -> str:
        data, (name, digest) = path.read_bytes(), line.split()
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        for free in (name, f"{stem}-{evidence_digest(data).removeprefix('sha256:')[:8]}{suffix}"):
            target = evidence_name(arch, free)
            there = self._old.roots[0] / target
            have = there.read_bytes() if there.is_file() else self.outcome.change.get(target)
            if have is None:
                self.outcome.write(target, data)
            if have is None or have == data:
                break
        return f"{free} {digest}"

    def _reopen(self) -> None:
        """The old side with the patches made so far."""
        if self._files is None:
            self._files = root_files(self._old.roots[0])
        self._current = self._stack.enter_context(opened(self.outcome.after(self._files), self._old))
        self._unread.clear()

    def _fault(self, place: Place, message: str, hint: str) -> None:
        arch, iface = place
        span = Span(f"{self._old.listings[0].label}/{arch}/{iface}.txtdb")
        self.outcome.fail([Fault("cannot-patch", span, f"{arch} {iface}: {message}", hint)])
