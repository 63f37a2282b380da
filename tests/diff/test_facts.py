"""Differences outside the cells."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.build import ARCHS, F1, SCHEMA, TABLE_A, TABLE_B, make_db, patch
from tests.cli.run import run
from txtdb.diff.compare import compare
from txtdb.diff.edits import FactEdit
from txtdb.diff.sides import open_side

Files = dict[str, str | None]

PINS = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }
reason = "a test"
until = 2030-01-01
"""

BLOCK_M = '[[config]]\nname = "BLOCK_M"'
BLOCK_N = '[[config]]\nname = "BLOCK_N"\ntype = "int"\ndefault = 16\n'
ADDED = '{"default": 16, "name": "BLOCK_N", "type": "int"}'
PIN = '["attn_fwd", {"causal": 0, "dtype": "fp16", "head_dim": 64}, {"seqlen_k": 64, "seqlen_q": 64}]'


def facts(tmp_path: Path, old: Files, new: Files) -> list[FactEdit]:
    roots = make_db(tmp_path, old, "old"), make_db(tmp_path, new, "new")
    with open_side(str(roots[0]), Path()) as before, open_side(str(roots[1]), Path()) as after:
        found, faults = compare(before, after)
    assert not faults
    return list(found.facts)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            {"archs.toml": ARCHS},
            {"archs.toml": ARCHS.replace("compute_units = 110", "compute_units = 120")},
            [FactEdit("archs", "archs.toml", "arch.gfxB.compute_units", "110", "120")],
            id="an arch fact",
        ),
        pytest.param(
            {},
            {"archs.toml": ARCHS.replace('aliases = ["beta"]', 'aliases = ["beta", "gamma"]')},
            [FactEdit("archs", "archs.toml", "arch.gfxB.aliases", '["beta"]', '["beta", "gamma"]')],
            id="a list is one value",
        ),
        pytest.param(
            {},
            {"schema/attn_fwd.toml": SCHEMA.replace("max = 4\ndefault", "max = 8\ndefault")},
            [FactEdit("schema", "schema/attn_fwd.toml", "config.waves_per_eu.max", "4", "8")],
            id="tables are named, not numbered",
        ),
        pytest.param(
            {},
            {"schema/attn_fwd.toml": SCHEMA.replace(BLOCK_M, BLOCK_N + BLOCK_M)},
            [FactEdit("schema", "schema/attn_fwd.toml", "config.BLOCK_N", None, ADDED)],
            id="an inserted table is one difference",
        ),
        pytest.param(
            {}, {"gfxA/pins.toml": ""}, [FactEdit("pins", "gfxA/pins.toml", "", None, "file")], id="a file added"
        ),
        pytest.param(
            {"gfxB/pins.toml": PINS},
            {"gfxB/pins.toml": PINS.replace("2030-01-01", "2031-01-01")},
            [FactEdit("pins", "gfxB/pins.toml", f"pin.{PIN}.until", '"2030-01-01"', '"2031-01-01"')],
            id="a pin is named by its cells",
        ),
        pytest.param(
            {"gfxB/evidence/run.json": "{}"},
            {"gfxB/evidence/run.json": "{"},
            [FactEdit("evidence", "gfxB/evidence/run.json", "", "file", "unreadable")],
            id="a file that cannot be read",
        ),
        pytest.param(
            {"gfxB/evidence/run.json": '{"clocks": 1}'},
            {"gfxB/evidence/run.json": '{"clocks": true}'},
            [FactEdit("evidence", "gfxB/evidence/run.json", "clocks", "1", "true")],
            id="true is not 1",
        ),
        pytest.param(
            {"gfxB/attn_fwd.txtdb": TABLE_B},
            {"gfxB/attn_fwd.txtdb": TABLE_B.replace("hand test", "measured run 2")},
            [FactEdit("header", "gfxB/attn_fwd.txtdb", "origin", "hand test", "measured run 2")],
            id="an origin",
        ),
        pytest.param(
            {},
            {"gfxA/attn_fwd.txtdb": TABLE_A.replace("#! origin", "# a comment\n#! origin")},
            [],
            id="a comment is none",
        ),
    ],
)  # fmt: skip
def test_each_difference_has_its_place(tmp_path: Path, old: Files, new: Files, expected: list[FactEdit]) -> None:
    assert facts(tmp_path, old, new) == expected


def test_an_added_patch_says_what_it_is_for(tmp_path: Path) -> None:
    name = "gfxB/attn_fwd.0010-x.dbpatch"
    found = facts(tmp_path, {}, {name: patch("gfxB", {F1: ["64 d . ."]})})
    assert [(fact.part, fact.path, fact.new) for fact in found] == [
        ("file", "", "patch"),
        ("header", "origin", "hand test"),
        ("header", "why", "a test"),
    ]


def test_bins_of_a_table_are_facts_and_those_of_a_patch_are_not(tmp_path: Path) -> None:
    """A bin of a patch matters by its cells alone; one of a table makes holes of what it leaves out."""
    name = "gfxB/attn_fwd.0010-x.dbpatch"
    over = patch("gfxB", {F1: ["64 d . ."]}, axes={"seqlen_q": "64", "seqlen_k": "64 128 256"})
    less = patch("gfxB", {F1: ["64 d"]}, axes={"seqlen_q": "64", "seqlen_k": "64"})
    wide = TABLE_B.replace("#! axis seqlen_q 64 128 256", "#! axis seqlen_q 64 128 256 512")
    found = facts(tmp_path, {name: over}, {name: less, "gfxB/attn_fwd.txtdb": wide})
    assert [(fact.file, fact.path) for fact in found] == [("gfxB/attn_fwd.txtdb", "axis seqlen_q")]


def evidence(count: int, gain: float, runs: int = 10) -> dict[str, object]:
    cells = [
        {
            "functional": {"dtype": "fp16", "causal": 0, "head_dim": 64},
            "at": [64, number],
            "candidates": [
                {"config": {"BLOCK_M": size}, "times_us": [gain + i for i in range(runs)]} for size in (32, 64)
            ],
        }
        for number in range(count)
    ]
    return {"contract": {"timing": "graph"}, "cells": cells}


def test_evidence_is_matched_by_its_cells(tmp_path: Path) -> None:
    """The record of one cell is gone: one difference, though all behind it moved up."""
    whole, less = evidence(50, 1.0), evidence(50, 1.0)
    assert isinstance(less["cells"], list)
    del less["cells"][3]
    name = "gfxB/evidence/run.json"
    [fact] = facts(tmp_path, {name: json.dumps(whole)}, {name: json.dumps(less)})
    assert (fact.part, fact.new) == ("evidence", None)
    assert "[64, 3]" in fact.path


def test_large_evidence_is_compared_within_seconds(tmp_path: Path) -> None:
    """1,000 cells whose 20,000 times all differ: lists are single values."""
    name = "gfxB/evidence/run.json"
    start = time.process_time()
    found = facts(tmp_path, {name: json.dumps(evidence(1000, 1.0))}, {name: json.dumps(evidence(1000, 2.0))})
    assert len(found) == 2000
    assert time.process_time() - start < 5


def test_people_see_some_facts_of_a_file_and_how_many_more_there_are(tmp_path: Path) -> None:
    name = "gfxB/evidence/run.json"
    old = make_db(tmp_path, {name: json.dumps(evidence(30, 1.0))}, "old")
    new = make_db(tmp_path, {name: json.dumps(evidence(30, 2.0))}, "new")
    out = run("diff", old, new).out
    assert f"evidence {name}: 40 more" in out
    assert "no cell, 60 other facts" in out
    assert "40 more" in run("diff", old, new, "--format", "markdown").out
    assert len(run("diff", old, new, "--format", "json").json["facts"]) == 60
