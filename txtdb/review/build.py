"""Two sides → a review: each changed cell once, where it originates, with what is to be said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from pathlib import Path

from txtdb.check.baseline import identity
from txtdb.check.finding import Finding
from txtdb.check.run import run_checks
from txtdb.diff.compare import compare
from txtdb.diff.sides import Side
from txtdb.layers.database import Database
from txtdb.model.values import functional_rank
from txtdb.patching.grounds import Past, no_past
from txtdb.review.grids import make_grids
from txtdb.review.images import count_images
from txtdb.review.judging import Judge
from txtdb.review.origin import Origins, Place, find_origins
from txtdb.review.records import Heir, Review, ReviewedCell, ReviewedFunctional, SourceFile, TableReview


def build_review(old: Side, new: Side, root: str, today: date, past: Past = no_past) -> Review:
    """Compare two sides and check both. `root` names the database; `today` is for end dates of pins.

    `past` tells earlier states of a table, for patches that were made for what neither side has any more.

    Faults of files that could not be compared are in the review: what it tells of them is best effort.
    """
    written, faults = compare(old, new)
    effect, more_faults = compare(old, new, effect=True)
    origins = find_origins(new.database, written, effect)
    known, found = (_findings(side.database, today) for side in (old, new))
    judge = Judge(old.database, new.database, tuple(found.values()), past)
    places = sorted({*origins.own, *origins.idle})
    tables = tuple(_table(old.database, new.database, place, origins, judge) for place in places)
    return Review(
        root=root,
        old=old.name,
        new=new.name,
        tables=tables,
        images=tuple(count_images(old.database, new.database, {edit.arch for edit in effect.cells})),
        facts=written.facts,
        new_findings=tuple(finding for name, finding in found.items() if name not in known),
        gone_findings=tuple(finding for name, finding in known.items() if name not in found),
        kept_findings=len(known.keys() & found.keys()),
        faults=tuple(dict.fromkeys((*faults, *more_faults, *judge.faults))),
    )


def _findings(database: Database, today: date) -> dict[str, Finding]:
    """Identity → finding of a whole check."""
    root = Path(database.listings[0].label)
    return {identity(finding, root): finding for finding in run_checks(database, today).findings}


def _table(old: Database, new: Database, place: Place, origins: Origins, judge: Judge) -> TableReview:
    cells = sorted(
        _cells(place, origins, judge), key=lambda cell: (functional_rank(cell.edit.functional), cell.edit.bins)
    )
    groups = [(functional, tuple(own)) for functional, own in groupby(cells, key=lambda cell: cell.edit.functional)]
    contents = {content for cell in cells for content in (cell.edit.old, cell.edit.new)}
    tables = [database.resolve(*place).table for database in (old, new)]
    grids = make_grids(tables[0], tables[1], tuple(functional for functional, _ in groups), contents)
    return TableReview(
        arch=place[0],
        schema=new.schemas.get(place[1]) or old.schemas[place[1]],
        bins=grids.bins,
        contents=grids.contents,
        functionals=tuple(
            ReviewedFunctional(functional, after, own)
            for (functional, own), after in zip(groups, grids.cells, strict=True)
        ),
        heirs=_heirs(cells),
        sources=tuple(_sources(cells, judge)),
    )


def _cells(place: Place, origins: Origins, judge: Judge) -> Iterator[ReviewedCell]:
    heirs = origins.heirs.get(place, {})
    written = origins.written.get(place, {})
    for cell, edit in origins.own.get(place, {}).items():
        yield judge.cell(edit, tuple(heirs.get(cell, ())), cell in written, idle=False)
    for edit in origins.idle.get(place, {}).values():
        yield judge.cell(edit, (), written=True, idle=True)


def _heirs(cells: Sequence[ReviewedCell]) -> tuple[Heir, ...]:
    counts = Counter(arch for cell in cells for arch in cell.heirs)
    return tuple(Heir(arch, counts[arch]) for arch in sorted(counts))


def _sources(cells: Sequence[ReviewedCell], judge: Judge) -> Iterator[SourceFile]:
    """The files that set changed cells now."""
    counts = Counter(cell.edit.new_span.file for cell in cells if cell.edit.new_span)
    for file in sorted(counts):
        loaded = judge.source(file)
        document = loaded.source.document if loaded and loaded.source else None
        said = [document.argument(name) or "" if document else "" for name in ("origin", "why")]
        yield SourceFile(file, counts[file], *said)
