"""What a database claims to have measured, proven from its evidence files, without a GPU.

A file that names evidence claims that each of its cells was decided so. A decision stands for one config of its cell:
the winner where it is `published`, the incumbent where it is `retained` (but for runs that only compared). A cell is
proven when a decision of any evidence that its file names, of this arch and interface, stands for exactly its config.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from txtdb.evidence.files import no_collector
from txtdb.evidence.named import Cell, EvidenceFile, device_fault, open_evidence, unlike_fault
from txtdb.evidence.policy import Policy
from txtdb.evidence.recompute import evidence_faults
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database, LoadedFile
from txtdb.layers.listing import LayerFile
from txtdb.model.evidence import MIXED, Evidence
from txtdb.model.schema import Schema
from txtdb.model.table import UNSET, ConfigValues, FileTable, config_text
from txtdb.model.values import print_values
from txtdb.syntax.tree import Directive
from txtdb.wording import plural


@dataclass(frozen=True, slots=True)
class Objection:
    """One thing that is not proven, and the cells that it is about: functional and bins in schema order."""

    fault: Fault
    arch: str
    iface: str
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at: layer files that claim measurements, evidence files, decisions made again, cells."""

    files: int
    evidence: int
    decisions: int
    cells: int


@dataclass(frozen=True, slots=True)
class Verification:
    """All objections, by file and position, and the counts."""

    objections: tuple[Objection, ...]
    counts: Counts


def verify(database: Database, archs: Iterable[str], asked: Policy) -> Verification:
    """Prove all that the tables and patches of some archs claim, overlays included. `asked` is the least policy.

    Needs scipy. Raises nothing for whatever the files hold.
    """
    verifier = _Verifier(database, asked)
    chosen = set(archs)
    with no_collector():
        for listing in database.listings:
            for file in listing.layer_files():
                if file.arch in chosen:
                    verifier.file(database.file(file))
        verifier.left_out()
    order = sorted(verifier.objections, key=lambda item: (item.fault.span, item.fault.rule, item.fault.message))
    return Verification(tuple(order), verifier.counts())


@dataclass
class _Named:
    """An evidence file, and what the layer files that name it set; `unsure` when one of these cannot be read whole."""

    file: EvidenceFile
    arch: str
    iface: str
    where: Span
    set: set[Cell] = field(default_factory=set)
    unsure: bool = False


class _Verifier:
    def __init__(self, database: Database, asked: Policy) -> None:
        self.objections: list[Objection] = []
        self._database, self._asked = database, asked
        self._named: dict[tuple[Path, str], _Named] = {}
        self._files = self._cells = 0

    def counts(self) -> Counts:
        runs = [named.file.evidence for named in self._named.values() if named.file.digest]
        return Counts(self._files, len(runs), sum(len(run.cells) for run in runs if run), self._cells)

    def file(self, loaded: LoadedFile) -> None:
        """One table or patch, if it claims that its cells were measured, or if that cannot be known."""
        directives = loaded.source.document.directives if loaded.source else []
        named = [item for item in directives if item.name == "evidence"]
        origin = next((item for item in directives if item.name == "origin"), None)
        is_measured = origin is not None and origin.args[0] == "measured"
        wrong = errors(loaded.faults)
        # A broken file may have lost the line that says what it claims.
        if not named and not is_measured and not (wrong and origin is None):
            return
        self._files += 1
        for fault in wrong:
            self._object(loaded.file, fault)
        schema = self._database.schemas.get(loaded.file.iface)
        if schema is None or loaded.table is None:
            if not wrong:
                fault = Fault("unknown-iface", Span(loaded.file.display), f"no schema declares `{loaded.file.iface}`")
                self._object(loaded.file, fault)
            return
        if not named:
            if origin is not None and not wrong:
                self._unproven_origin(loaded, origin)
            return
        usable = [item for item in (self._evidence(loaded, line, schema) for line in named) if item]
        for item in usable if wrong else ():
            item.unsure = True
        if not wrong:
            claims_all = len(usable) == len(named) and not (origin and _is_mixed(origin))
            self._table(loaded, loaded.table, usable, claims_all, schema)

    def left_out(self) -> None:
        """`cell-left-out`: what a run published and no file that names the run sets, nor lookups give."""
        for named in self._named.values():
            if named.unsure:
                continue
            missing = {cell: config for cell, config in named.file.published.items() if cell not in named.set}
            cells = tuple(cell for cell, config in missing.items() if not self._is_given(named, cell, config))
            if cells:
                count = len(cells)
                text = f"{named.file.name} published {count} {plural(count, 'cell')} that no file which names it sets"
                hint = f"first {_place(cells[0])}; set it, or leave the evidence out"
                fault = Fault("cell-left-out", named.where, text, hint)
                self.objections.append(Objection(fault, named.arch, named.iface, cells))

    def _is_given(self, named: _Named, cell: Cell, config: ConfigValues) -> bool:
        """Whether lookups give the config, or one that another run published for the cell since."""
        table = self._database.resolve(named.arch, named.iface).table
        if table is None or cell[0] not in table.fold.index:
            return False
        if any(value not in bins for value, bins in zip(cell[1], table.bins, strict=True)):
            return False
        at = (bins.index(value) for value, bins in zip(cell[1], table.bins, strict=True))
        number = int(table.cells[table.fold.index[cell[0]], *at])
        others = [
            item.file.published.get(cell)
            for item in self._named.values()
            if (item.arch, item.iface) == (named.arch, named.iface)
        ]
        return number >= 0 and table.pool[number] in (config, *others)

    def _object(self, file: LayerFile, fault: Fault, cells: tuple[Cell, ...] = ()) -> None:
        self.objections.append(Objection(fault, file.arch, file.iface, cells))

    def _unproven_origin(self, loaded: LoadedFile, origin: Directive) -> None:
        if loaded.table is not None and (loaded.table.cells != UNSET).any():
            span = origin.span(loaded.file.display)
            text, hint = "the file says that it was measured, and names no evidence", "add `#! evidence`, or say `hand`"
            self._object(loaded.file, Fault("no-evidence", span, text, hint))

    def _evidence(self, loaded: LoadedFile, directive: Directive, schema: Schema) -> _Named | None:
        """The evidence of one directive; None where it cannot prove anything."""
        file, (name, digest) = loaded.file, directive.args
        named = self._open(file, directive, schema)
        if not named.file.digest:
            span = directive.arg_span(file.display, 0)
            fault = Fault(
                "missing-evidence", span, f"there is no evidence file {name}", "it lies in the arch's evidence folder"
            )
            self._object(file, fault)
            return None
        if digest != named.file.digest:
            span = directive.arg_span(file.display, 1)
            text = f"evidence file {name} is not the one that this file was made from: it has {named.file.digest}"
            self._object(file, Fault("digest-mismatch", span, text, "restore it, or measure again"))
        evidence = named.file.evidence
        unlike = self._unlike(file, name, evidence, directive.arg_span(file.display, 0)) if evidence else None
        if unlike:
            self._object(file, unlike)
        return named if evidence is not None and unlike is None else None

    def _unlike(self, file: LayerFile, name: str, evidence: Evidence, span: Span) -> Fault | None:
        """Why evidence is not of a file's arch."""
        if evidence.arch != file.arch:
            return unlike_fault(name, evidence, file.arch, span)
        return device_fault(name, evidence, file.arch, self._database.archs, span)

    def _open(self, file: LayerFile, directive: Directive, schema: Schema) -> _Named:
        """An evidence file, read and held against itself once, whoever names it."""
        name = directive.args[0]
        key = (file.path.parent / name, file.iface)
        if key not in self._named:
            found = open_evidence(file, name, schema)
            span = directive.arg_span(file.display, 0)
            self._named[key] = _Named(found, file.arch, file.iface, span)
            for fault in found.faults:
                self._object(file, fault)
            if found.evidence is not None:
                self._recompute(file, found.evidence, found.display, schema)
        return self._named[key]

    def _recompute(self, file: LayerFile, evidence: Evidence, display: str, schema: Schema) -> None:
        for fault, number in evidence_faults(evidence, display, schema, self._asked):
            measured = None if number is None else evidence.cells[number].measured
            self._object(file, fault, ((measured.functional, measured.at),) if measured else ())

    def _table(
        self, loaded: LoadedFile, table: FileTable, usable: list[_Named], claims_all: bool, schema: Schema
    ) -> None:
        """Each cell that a file sets. Where no evidence can be used, that is the finding and not each cell.

        `claims_all`: those too of which the evidence says nothing.
        """
        chosen: dict[Cell, list[ConfigValues]] = {}
        for item in usable:
            for cell, decided in item.file.chosen.items():
                chosen.setdefault(cell, []).append(decided)
        silent: list[tuple[Span, Cell]] = []
        for cell, config, span in self._set_cells(loaded, table):
            for item in usable:
                item.set.add(cell)
            if cell not in chosen:
                silent.append((span, cell))
                continue
            self._cells += 1
            if config not in chosen[cell]:
                self._object(loaded.file, _not_proven(cell, config, chosen[cell], span, schema), (cell,))
        if silent and claims_all:
            self._object(loaded.file, _undecided(silent), tuple(cell for _, cell in silent))

    def _set_cells(self, loaded: LoadedFile, table: FileTable) -> Iterator[tuple[Cell, ConfigValues | None, Span]]:
        """The cells that a file sets, None for masked ones, and the runs that set them."""
        pool = self._database.pool(loaded.file.iface)
        for functional, *at in np.argwhere(table.cells != UNSET).tolist():
            number = int(table.cells[functional, *at])
            cell = table.functionals[functional], tuple(bins[n] for bins, n in zip(table.bins, at, strict=True))
            yield cell, pool[number] if number >= 0 else None, table.cell_span(functional, tuple(at))


def _is_mixed(origin: Directive) -> bool:
    """Whether a file says that its cells come from several sources, as a squash of measured ones with others does."""
    return origin.args[0] != "measured" and origin.args[1:2] == [MIXED]


def _not_proven(
    cell: Cell, config: ConfigValues | None, chosen: list[ConfigValues], span: Span, schema: Schema
) -> Fault:
    has = "masked" if config is None else config_text(schema, config)
    proven = " or ".join(config_text(schema, item) for item in dict.fromkeys(chosen))
    text = f"{_place(cell)} is {has}; its evidence decides for {proven}"
    return Fault("cell-not-proven", span, text, "restore the cell, or measure it again")


def _undecided(silent: list[tuple[Span, Cell]]) -> Fault:
    (span, first), count = silent[0], len(silent)
    text = (
        f"{count} {plural(count, 'cell')} without a decision in the evidence of this file; the first is {_place(first)}"
    )
    return Fault("cell-not-proven", span, text, "measure them, or move them to a file of another origin")


def _place(cell: Cell) -> str:
    return f"[{print_values(cell[0])}] {','.join(map(str, cell[1]))}"
