"""Which commits changed one cell, and what it was before and after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from txtdb.diff.edits import MASK, CellSource, Content
from txtdb.diff.history import WORKING_TREE, Commit, History, all_files, own_files
from txtdb.diff.sides import open_files
from txtdb.diff.slicing import only_blocks
from txtdb.faults import Span, errors
from txtdb.layers.database import Database
from txtdb.layers.listing import ARCHS_FILE
from txtdb.layers.resolve import HistoryEntry, cell_history, content_text
from txtdb.layers.resolved import LookupFault, ResolvedTable
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, Value, print_value

# Faults of a version that leave no doubt about what its own files say.
_OF_BASES = frozenset({"missing-base", "base-cycle", "illegal-config", "duplicate-config"})


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell that is asked for: by the keys and axes of a schema."""

    arch: str
    schema: Schema
    functional: Functional
    bins: tuple[int, ...]

    @property
    def given(self) -> dict[str, Value]:
        """What a lookup of it gives."""
        axes = zip(self.schema.axis_names, self.bins, strict=True)
        return {**self.schema.functional_dict(self.functional), **dict(axes)}

    @property
    def donors(self) -> list[dict[str, str]]:
        """The functionals that a lookup may end at, as files spell them."""
        names = self.schema.key_names
        return [dict(zip(names, map(print_value, f), strict=True)) for f in self.schema.donors(self.functional)]


@dataclass(frozen=True, slots=True)
class CellState:
    """A cell in one version. `problem` says why nothing is known of it; `key` is the same for the same content.

    `span` is the run that sets it, or where the problem is.
    """

    content: Content = None
    span: Span | None = None
    source: CellSource | None = None
    key: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CellChange:
    """A commit that changed the cell; None stands for what is not committed yet."""

    commit: Commit | None
    old: CellState
    new: CellState


_NOTHING = CellState()
_NOT_HERE = CellState(key="not here", problem="not in this clone, which is shallow")


def cell_log(history: History, cell: Cell, effect: bool = False) -> Iterator[CellChange]:
    """The commits that changed what an arch's own table and patches write into a cell, newest first.

    With `effect` what a lookup gives counts: bases, pins, schemas and fallbacks as well. A merge is told only where it
    made of the cell what none of its parents had. What is not committed yet comes first.
    """
    states = _States(history, cell, effect)
    new, old = states.at(WORKING_TREE), states.at(history.head) if history.head else _NOTHING
    if new.key != old.key:
        yield CellChange(None, old, new)
    for commit in history.commits("" if effect else cell.arch):
        new = states.at(commit.name)
        first = _NOT_HERE if commit.name in history.cut_off else _NOTHING
        before = [states.at(parent) for parent in commit.parents] or [first]
        if all(new.key != old.key for old in before):
            yield CellChange(commit, before[0], new)


@dataclass
class _States:
    """The cell in each version; versions with the same files are read once."""

    history: History
    cell: Cell
    effect: bool
    _known: dict[tuple[tuple[str, str], ...], CellState] = field(default_factory=dict)

    def at(self, revision: str) -> CellState:
        """The cell in one version."""
        choose = all_files if self.effect else own_files
        files = choose(self.history, revision, self.cell.arch, self.cell.schema.iface)
        key = tuple(sorted(files.items()))
        if key not in self._known:
            self._known[key] = self._read(files)
        return _labelled(self._known[key], self.history.label(revision))

    def _read(self, files: Mapping[str, str]) -> CellState:
        if not any(name.startswith(f"{self.cell.arch}/") for name in files) and not self.effect:
            return _NOTHING
        contents = {name: self.history.read(content) for name, content in files.items()}
        contents.setdefault(ARCHS_FILE, f"[arch.{self.cell.arch}]\n".encode())
        tables = {name: data for name, data in contents.items() if not name.endswith(".toml")}
        contents |= {name: only_blocks(data, self.cell.donors) for name, data in tables.items()}
        with open_files(contents, _ANY) as database:
            return _state(database, self.cell, self.effect)


# What stands for the root in spans of a state until it is known which version asks: several may have the same files.
_ANY = "."


def _labelled(state: CellState, label: str) -> CellState:
    if state.span is None:
        return state
    file = label + state.span.file.removeprefix(_ANY)
    source = replace(state.source, file=file) if state.source else None
    return replace(state, span=replace(state.span, file=file), source=source)


def _state(database: Database, cell: Cell, effect: bool) -> CellState:
    place = (cell.arch, cell.schema.iface)
    resolution = database.resolve(*place)
    tolerated = frozenset() if effect else _OF_BASES
    wrong = [fault for fault in errors((*database.faults, *resolution.faults)) if fault.rule not in tolerated]
    if resolution.table is None:
        wrong = [fault for fault in wrong if fault.rule not in ("no-data", "unknown-iface", "unsupported-iface")]
    if wrong:
        return CellState(None, wrong[0].span, None, str(wrong[0]), f"unreadable: {wrong[0].message}")
    if resolution.table is None:
        return _NOTHING
    entry = _answer(resolution.table, cell) if effect else _written(resolution.table, cell)
    return _NOTHING if entry is None else _entry_state(resolution.table.schema, entry)


def _answer(table: ResolvedTable, cell: Cell) -> HistoryEntry | None:
    """The entry that decides a lookup; none where this version knows no such key or axis."""
    try:
        return table.explain(**cell.given).winner
    except LookupFault:
        return None


def _written(table: ResolvedTable, cell: Cell) -> HistoryEntry | None:
    """The topmost of the arch's own files that sets the very cell."""
    names = table.schema.key_names
    given = cell.schema.functional_dict(cell.functional)
    if set(names) != set(given) or table.schema.axis_names != cell.schema.axis_names:
        return None
    functional = tuple(given[name] for name in names)
    for layer in reversed([layer for layer in table.layers if layer.arch == cell.arch]):
        if all(value in bins for value, bins in zip(cell.bins, layer.table.bins, strict=False)):
            found = cell_history((layer,), table.pool, functional, cell.bins)
            if found:
                return found[0]
    return None


def _entry_state(schema: Schema, entry: HistoryEntry) -> CellState:
    source = CellSource(entry.layer.file, entry.layer.origin, entry.layer.evidence)
    if entry.config is None:
        return CellState(MASK, entry.span, source, MASK)
    content = tuple(schema.config_dict(entry.config).items())
    return CellState(content, entry.span, source, f"config {content_text(schema, entry.config)}")
