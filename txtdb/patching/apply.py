"""Patch files from elsewhere → files of a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from txtdb.evidence.files import evidence_digest
from txtdb.faults import Fault, Severity, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import EVIDENCE_FOLDER
from txtdb.layers.resolve import LayerTable, set_cells
from txtdb.model.table import UNSET, FileTable, build_table
from txtdb.patching.files import opened, root_files
from txtdb.patching.naming import PatchName, next_number, parse_name
from txtdb.patching.outcome import Action, Outcome, Step
from txtdb.patching.sources import evidence_name
from txtdb.patching.stack import Place, Stack, stale_patches
from txtdb.syntax import read


@dataclass(frozen=True)
class Incoming:
    """A patch file that is not in the database yet."""

    path: Path
    name: PatchName
    arch: str
    data: bytes
    table: FileTable

    @property
    def place(self) -> Place:
        """The table that it belongs to."""
        return self.arch, self.name.iface


def apply_patches(database: Database, paths: Sequence[Path], force: bool = False) -> Outcome:
    """Put patch files into a database.

    Each keeps its number, unless another patch has it or a higher one sets a common cell: it gets the next free one
    then. The ground of each must be what its `#! onto` says, with all of them in place, unless forced. Evidence files
    that lie beside a patch come with it.
    """
    outcome = Outcome(database.roots[0], schemas=database.schemas).fail(errors(database.faults))
    taken = _Taken(database)
    incoming: dict[str, Incoming] = {}
    for path in paths if not outcome.faults else ():
        patch = read_patch(database, path)
        if isinstance(patch, Incoming):
            incoming[taken.file(patch)] = patch
        else:
            outcome.fail(patch)
    for file, patch in incoming.items():
        _plan(database, outcome, file, patch)
    if not outcome.faults:
        outcome.fail(_judge(database, outcome, force))
    return outcome


def read_patch(database: Database, path: Path) -> Incoming | list[Fault]:
    """Read a patch file, typed by the database's schema."""
    shown = path.as_posix()
    try:
        data = path.read_bytes()
    except OSError as error:
        return [Fault("unreadable", Span(shown), f"cannot read: {error.strerror}", "")]
    source, faults = read(data, shown)
    if source is None or errors(faults):
        return list(errors(faults))
    document, name = source.document, parse_name(path.name)
    arch, iface = document.argument("arch") or "", document.argument("iface") or ""
    if document.kind != "dbpatch" or name is None or name.iface != iface:
        return [Fault("argument", Span(shown), "this is no patch", f"its name is {iface}.NNNN-name.dbpatch")]
    if (arch, iface) not in database.places():
        return [Fault("argument", Span(shown), f"the database has no {iface} on {arch}", "see `txtdb schema show`")]
    table, more = build_table(source, database.schemas[iface], arch, database.pool(iface))
    return list(errors(more)) or Incoming(path, name, arch, data, table)


class _Taken:
    """The patches that are there, with the incoming ones added one after the other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._patches: dict[Place, list[tuple[int, LayerTable]]] = {}

    def file(self, patch: Incoming) -> str:
        """The name below the root that a patch gets."""
        there = self._patches.setdefault(patch.place, list(self._existing(patch.place)))
        name, file = patch.name, patch.path.name
        if not is_there(self._database, f"{patch.arch}/{file}", patch.data):
            cells = set_cells(patch.table)
            clashes = (
                number == name.number or (number > name.number and cells & set_cells(table)) for number, table in there
            )
            if any(clashes):
                name = PatchName(name.iface, next_number(number for number, _ in there), name.name)
                file = name.file
        there.append((name.number, patch.table))
        return f"{patch.arch}/{file}"

    def _existing(self, place: Place) -> Iterator[tuple[int, LayerTable]]:
        for file in self._database.listings[0].patches.get(place, ()):
            table = self._database.file(file).table
            if table is not None:
                yield file.number or 0, table


def is_there(database: Database, file: str, data: bytes) -> bool:
    """Whether the database has just this file."""
    path = database.roots[0] / file
    return path.is_file() and path.read_bytes() == data


def _plan(database: Database, outcome: Outcome, file: str, patch: Incoming) -> None:
    cells = int((patch.table.cells != UNSET).sum())
    if is_there(database, file, patch.data):
        outcome.steps.append(Step(Action.UNCHANGED, file, cells))
        return
    was = None if file.endswith(f"/{patch.path.name}") else patch.path.name
    outcome.write(file, patch.data, cells, was)
    for directive in patch.table.source.document.directives:
        if directive.name == "evidence":
            _plan_evidence(database, outcome, patch, directive.argument_text, directive.span(patch.path.as_posix()))


def _plan_evidence(database: Database, outcome: Outcome, patch: Incoming, line: str, span: Span) -> None:
    name, digest = line.split()
    beside = patch.path.parent / EVIDENCE_FOLDER / name
    target = evidence_name(patch.arch, line)
    there = database.roots[0] / target
    if there.is_file():
        if evidence_digest(there.read_bytes()) != digest:
            message = f"the database has another evidence file {name}"
            outcome.fail([Fault("evidence-digest", span, message, "rename one of them")])
    elif beside.is_file() and beside.name == name:
        outcome.write(target, beside.read_bytes())


def _judge(database: Database, outcome: Outcome, force: bool) -> Iterator[Fault]:
    """What is wrong with the database once the patches are in it, as far as they are about it."""
    with opened(outcome.after(root_files(database.roots[0])), database) as after:
        outcome.stale.extend(_moved(database, after, outcome))
        for listing in after.listings:
            for file in listing.layer_files():
                if file.name in outcome.change:
                    yield from errors(after.file(file).faults)
                    if not force:
                        yield from _stale(after, (file.arch, file.iface), file.display)


def _moved(database: Database, after: Database, outcome: Outcome) -> Iterator[str]:
    """Patches that were there, over whose ground the new ones lie now."""
    places = {(file.arch, file.iface) for file in after.listings[0].layer_files() if file.name in outcome.change}
    for iface in sorted({iface for _, iface in places}):
        known = {layer.file for _, layer in stale_patches(database, iface)}
        known.update(f"{database.listings[0].label}/{name}" for name in outcome.change)
        yield from (layer.file for _, layer in stale_patches(after, iface) if layer.file not in known)


def _stale(database: Database, place: Place, file: str) -> Iterator[Fault]:
    resolution = database.resolve(*place)
    wrong = errors(resolution.faults)
    yield from wrong
    if resolution.table is None or wrong:
        return
    stack = Stack(resolution.table)
    for patch in stack.patches:
        if patch.file == file and isinstance(patch.table, FileTable) and stack.is_stale(patch):
            directive = patch.table.source.document.directive("onto")
            assert directive is not None, "a stale patch says what it lies on"
            span = directive.arg_span(file, 0)
            message = "the cells under this patch are not what it was made for"
            hint = f"put it in with --force, then look at the cells with `txtdb patch rebase {file}`"
            yield Fault("stale-onto", span, message, hint, Severity.ERROR)
