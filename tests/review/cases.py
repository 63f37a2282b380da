"""Reviews of small changes. Both sides are S0 of tests/build.py, each with changes of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from tests.build import F1, PALETTE, SCHEMA, make_db, patch, table
from tests.evidence.made import by_hand, decided, published_files, raced, run_of, schema, unraced
from txtdb.diff.sides import open_side
from txtdb.evidence.files import evidence_digest, write_evidence
from txtdb.model.evidence import CellEvidence
from txtdb.patching.grounds import Past, no_past
from txtdb.review.build import build_review
from txtdb.review.records import Review, ReviewedCell

TODAY = date(2026, 1, 1)
TABLE_B = "gfxB/attn_fwd.txtdb"
TABLE_A = "gfxA/attn_fwd.txtdb"
PATCH_B = "gfxB/attn_fwd.0010-x.dbpatch"
BLOCKS_B = ("64 a*3", "128 a b*2", "256 b c d")
MORE = {**PALETTE, "e": "64 false 4 3", "x": "100 true 4 1"}

Files = Mapping[str, str | None]


def make_review(folder: Path, old: Files, new: Files, past: Past = no_past) -> Review:
    """The review of S0 with `old` to S0 with `new`."""
    roots = make_db(folder, old, "old"), make_db(folder, new, "new")
    with open_side(str(roots[0]), Path()) as before, open_side(str(roots[1]), Path()) as after:
        return build_review(before, after, "db", TODAY, past)


def rows_b(*rows: str, **options: object) -> Files:
    """gfxB's table with other rows."""
    return {TABLE_B: table("gfxB", {F1: rows}, palette=MORE, **options)}  # type: ignore[arg-type]


def patch_b(*rows: str, **options: object) -> Files:
    """A patch of gfxB."""
    return {PATCH_B: patch("gfxB", {F1: rows}, palette=MORE, **options)}


def cell(review: Review, *at: int, arch: str = "gfxB") -> ReviewedCell:
    """The changed cell of an arch at some bins."""
    (found,) = (item for item in review.cells if item.edit.arch == arch and item.edit.bins == at)
    return found


def measured(cells: list[CellEvidence], rows: tuple[str, ...], name: str = "run.json", **run: object) -> Files:
    """A patch of gfxB with an evidence file."""
    data = write_evidence(run_of(cells, **run), schema())
    directives = ("origin measured test", "why a test", f"evidence {name} {evidence_digest(data)}")
    return {**patch_b(*rows, directives=directives), f"gfxB/evidence/{name}": data.decode()}


def chain(first: str, second: str, **more: float) -> dict[str, Files]:
    """Three states of the cell (64, 64) of F1: `start` holds `a`, `once` a patch from a run to `first`, `twice` another
    one above it from a run that measured `first` against `second` and, in `more`, against others."""
    one = published_files(run_of([decided(raced({"a": 20, first: 15}, incumbent="a"))]), "one.json", "0010-one")
    cell = decided(raced({first: 15, second: 10, **more}, incumbent=first))
    two = published_files(run_of([cell]), "two.json", "0020-two")
    return {"start": {}, "once": one, "twice": {**one, **two}}


def gain(at: tuple[int, int], gain_pct: float | None, noise_pct: float | None, new: str = "b") -> CellEvidence:
    """One cell of an evidence file, of functional F1: a config was published over `a`; over none without a gain."""
    cell = unraced(new, at)
    if gain_pct is not None:
        cell = replace(cell, entrants=(*cell.entrants, *unraced("a").entrants), incumbent=1)
    made = by_hand(cell, 0)
    return replace(made, decision=replace(made.decision, gain_pct=gain_pct, floor_pct=noise_pct))


def _other_axes(iface: str, *axes: tuple[str, str]) -> str:
    """The schema of S0 for gfxB alone, with other axes."""
    head, rest = SCHEMA.split('[[axis]]\nname = "seqlen_q"')
    fields = rest[rest.index("[[config]]") :].replace('[arch.gfxA]\ndomain.dtype = ["fp16"]\ndomain.causal = [0]\n', "")
    declared = "".join(f'[[axis]]\nname = "{name}"\nbins = [{bins.replace(" ", ", ")}]\n' for name, bins in axes)
    return head.replace('iface = "attn_fwd"', f'iface = "{iface}"') + declared + fields


FLAT_AXES = (("seqlen_k", "64 128 256"),)
DEEP_AXES = (("batch", "1 8"), ("heads", "2 4"), ("seqlen_q", "64 128"), ("seqlen_k", "64 128 256"))


def flat(row: str) -> Files:
    """A table of gfxB with one axis."""
    return {
        "schema/flat.toml": _other_axes("flat", *FLAT_AXES),
        "gfxB/flat.txtdb": table("gfxB", {F1: [row]}, iface="flat", axes=dict(FLAT_AXES)),
    }


def deep(last: str) -> Files:
    """A table of gfxB with four axes; `last` is the row of its last 128 queries."""
    rows = [f"{batch},{heads},{q} a*3" for batch in (1, 8) for heads in (2, 4) for q in (64, 128)]
    rows[-1] = f"8,4,128 {last}"
    return {
        "schema/deep.toml": _other_axes("deep", *DEEP_AXES),
        "gfxB/deep.txtdb": table("gfxB", {F1: rows}, iface="deep", axes=dict(DEEP_AXES)),
    }
