"""`txtdb resolve`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import txtdb
from tests.build import ARCHS, F1, SCHEMA, config_values, make_db, patch, table, write_files
from tests.cli.run import run
from txtdb.layers.resolved import ResolvedTable

LAYERED = {
    "gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a . -", "128-256 b*3"]}),
    "gfxB/attn_fwd.0010-p.dbpatch": patch(
        "gfxB",
        {F1: ["100 c"]},
        axes={"seqlen_q": "100", "seqlen_k": "256"},
        palette={"c": "64 false 4 2 3"},
        fields="BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu",
    ),
    "gfxA/attn_fwd.txtdb": table("gfxA", {F1: ["128 . - d"]}, base="gfxB"),
}


def contents(resolved: ResolvedTable) -> dict[tuple[object, ...], object]:
    """Every cell by functional and bins, as values or a mark."""
    found: dict[tuple[object, ...], object] = {}
    for number, functional in enumerate(resolved.functionals):
        for at in np.ndindex(*resolved.cells.shape[1:]):
            cell = int(resolved.cells[(number, *at)])
            bins = tuple(own[place] for own, place in zip(resolved.bins, at, strict=True))
            found[functional, bins] = config_values(resolved, cell) or cell
    return found


def test_output_parses_and_resolves_to_the_same_cells(tmp_path: Path) -> None:
    root = make_db(tmp_path, LAYERED)
    ran = run("resolve", root, "gfxA", "attn_fwd")
    assert (ran.code, ran.err) == (0, "")
    files = {"archs.toml": ARCHS, "schema/attn_fwd.toml": SCHEMA, "gfxA/attn_fwd.txtdb": ran.out}
    flat = txtdb.load(write_files(tmp_path / "flat", files))["gfxA"]["attn_fwd"]
    layered = txtdb.load(root)["gfxA"]["attn_fwd"]
    assert flat.bins == layered.bins == ((64, 100, 128, 256), (64, 128, 256))
    assert contents(flat) == contents(layered)
    assert len(flat.layers) == 1


def test_output_is_canonical(tmp_path: Path) -> None:
    ran = run("resolve", make_db(tmp_path, LAYERED), "gfxA", "attn_fwd")
    (tmp_path / "flat.txtdb").write_text(ran.out)
    assert run("fmt", "--check", tmp_path / "flat.txtdb").code == 0


def test_origin_names_the_layers_lowest_first_wherever_the_database_lies(tmp_path: Path) -> None:
    origin = (
        "#! origin imported resolved from db/gfxB/attn_fwd.txtdb db/gfxB/attn_fwd.0010-p.dbpatch db/gfxA/attn_fwd.txtdb"
    )
    for place in ("here", "there"):
        root = make_db(tmp_path / place, LAYERED)
        assert origin in run("resolve", root, "gfxA", "attn_fwd").out.splitlines()


def test_overlays_are_resolved_and_named(tmp_path: Path) -> None:
    over = write_files(tmp_path / "my over", {"gfxB/attn_fwd.0010-y.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
    out = run("resolve", make_db(tmp_path), "gfxB", "attn_fwd", "--overlay", over).out
    assert " db/gfxB/attn_fwd.txtdb my_over/gfxB/attn_fwd.0010-y.dbpatch\n" in out
    assert "128 false 8 2" in out


def test_row_022_no_data_and_no_base(tmp_path: Path) -> None:
    ran = run("resolve", make_db(tmp_path, {"gfxA/attn_fwd.txtdb": None}), "gfxA", "attn_fwd")
    assert (ran.code, ran.out) == (1, "")
    assert "no data, no base" in ran.err


def test_row_037_broken_row_stops_it(tmp_path: Path) -> None:
    ran = run(
        "resolve", make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a*4"]})}), "gfxA", "attn_fwd"
    )
    assert (ran.code, ran.out) == (1, "")
    assert "the row is longer than its 3 cells" in ran.err


def test_one_file_holds_one_arch(tmp_path: Path) -> None:
    ran = run("resolve", make_db(tmp_path), "gfxA,gfxB", "attn_fwd")
    assert (ran.code, ran.out) == (2, "")


def test_json_holds_several(tmp_path: Path) -> None:
    shown = run("resolve", make_db(tmp_path), "gfxA,gfxB", "attn_fwd", "--format", "json").json["tables"]
    assert [(entry["arch"], len(entry["functionals"])) for entry in shown] == [("gfxA", 2), ("gfxB", 1)]
