"""One run of all checks over a database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath

import numpy as np

from txtdb.check.configs import illegal_entry
from txtdb.check.context import Context, Place
from txtdb.check.finding import Finding, from_fault
from txtdb.check.rules import all_rules
from txtdb.faults import Fault, Severity, Span
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, UNSET


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at. Cells are counted on the declared grids of all archs.

    `set` cells come from layers of their own arch, `inherited` from a base; `shadowed` counts the settings in any
    layer, bases included, that a higher layer overrides; `masked` and `holes` have no config (`holes` includes the
    masked ones).
    `not_judged` counts tables whose files have faults, so that rules about cells were skipped there.
    """

    files: int
    files_by_arch: tuple[tuple[str, int], ...]
    archs: int
    tables: int
    not_judged: int
    functionals: int
    set: int
    inherited: int
    shadowed: int
    masked: int
    holes: int


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of a run, sorted by file and position, and the counts."""

    findings: tuple[Finding, ...]
    counts: Counts


def run_checks(database: Database, today: date, compiler: str | None = None) -> Report:
    """Check everything: every root, arch and layer that is present, whatever machine this is."""
    context = Context(database, today, compiler)
    findings = [*_reading_findings(context), *_no_files(context)]
    for rule in all_rules():
        findings.extend(rule.check(context))
    return Report(tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.order)), _counts(context))


def _reading_findings(context: Context) -> Iterator[Finding]:
    """The faults of schemas, files, pins and bases, each once."""
    database = context.database
    yield from (from_fault(fault) for fault in database.faults)
    in_files: set[Fault] = set()
    for file in context.layer_files:
        loaded = database.file(file)
        in_files.update(loaded.faults)
        for fault in loaded.faults:
            illegal = fault.rule == "illegal-config" and loaded in context.files
            yield illegal_entry(context, loaded, fault) if illegal else from_fault(fault, file.arch, file.iface)
    for listing in database.listings:
        for arch in listing.pins:
            faults = database.pins(listing, arch)[1]
            in_files.update(faults)
            yield from (from_fault(fault, arch) for fault in faults)
    yield from _base_findings(context, in_files)


def _base_findings(context: Context, in_files: set[Fault]) -> Iterator[Finding]:
    """Faults of resolution itself: of the arch in whose folder they lie, with the heirs that get them."""
    places: dict[Fault, list[Place]] = {}
    for place in context.database.places():
        for fault in context.database.resolve(*place).faults:
            if fault not in in_files:
                places.setdefault(fault, []).append(place)
    for fault, found in places.items():
        folder = PurePosixPath(fault.span.file).parent.name
        arch, iface = next((place for place in found if place[0] == folder), found[0])
        heirs = tuple(sorted({place[0] for place in found} - {arch}))
        yield Finding(fault.rule, fault.severity, fault.span, fault.message, fault.hint, arch, iface, heirs)


def _no_files(context: Context) -> Iterator[Finding]:
    if not context.layer_files:
        root = context.database.listings[0].label
        hint = "set a first cell with `txtdb set`, tune cells with `txtdb tune … --table`, or name another folder"
        yield Finding("no-files", Severity.ERROR, Span(root), "there is no table and no patch", hint)


def _counts(context: Context) -> Counts:
    views = list(context.views())
    by_arch = dict.fromkeys(sorted(context.database.archs), 0)
    for file in context.layer_files:
        by_arch[file.arch] = by_arch.get(file.arch, 0) + 1
    holes = [int((view.cells < 0).sum()) for view in views]
    own = [int((view.own & (view.cells >= 0)).sum()) for view in views]
    return Counts(
        files=len(context.layer_files),
        files_by_arch=tuple(by_arch.items()),
        archs=len(context.database.archs),
        tables=len(views),
        not_judged=len(context.places) - len(views),
        functionals=sum(len(view.functionals) for view in views),
        set=sum(own),
        inherited=sum(int((~view.own & (view.cells >= 0)).sum()) for view in views),
        shadowed=sum(_overridden(view.table) for view in views),
        masked=sum(int((view.cells == MASKED).sum()) for view in views),
        holes=sum(holes),
    )


def _overridden(table: ResolvedTable) -> int:
    """Cells set in a layer, bases included, that a higher layer sets as well."""
    lost = 0
    for number, layer in enumerate(table.layers):
        own = layer.table
        if not own.functionals:
            continue
        places = [[have.index(b) for b in bins] for have, bins in zip(table.bins, own.bins, strict=True)]
        winner = table.winner[np.ix_([table.fold.index[f] for f in own.functionals], *places)]
        lost += int(((own.cells != UNSET) & (winner != number)).sum())
    return lost
