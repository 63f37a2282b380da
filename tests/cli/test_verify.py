"""`txtdb verify`: text, JSON, exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import make_db
from tests.cli.run import run
from tests.evidence.made import decided, published_files, raced, run_of
from txtdb.cli import verifying
from txtdb.evidence.policy import Policy, as_json
from txtdb.model.evidence import Evidence

LAX = replace(Policy(), promotion=replace(Policy().promotion, min_improvement_pct=1.0))


@pytest.fixture(scope="module")
def made() -> Evidence:
    return run_of([decided(raced({"a": 20, "b": 10}, incumbent="a")), decided(raced({"c": 10, "d": 11}, at=(64, 128)))])


def test_what_is_proven(tmp_path: Path, made: Evidence) -> None:
    done = run("verify", make_db(tmp_path, published_files(made)))
    assert (done.code, done.out) == (
        0,
        "0 findings; 1 file with measured cells, 1 evidence file, 2 decisions made again, 2 cells compared\n",
    )


def test_a_database_that_claims_nothing(tmp_path: Path) -> None:
    done = run("verify", make_db(tmp_path))
    assert done.code == 0
    assert done.out.startswith("0 findings; 0 files with measured cells")


def test_a_finding_has_its_place_and_cells(tmp_path: Path, made: Evidence) -> None:
    root = make_db(tmp_path, published_files(made, rows=["64 d c ."]))
    done = run("verify", root)
    assert done.code == 1
    assert f"{root.as_posix()}/gfxB/attn_fwd.0010-run.dbpatch:16:4: error: [fp16 0 64] 64,64 is BLOCK_M=128" in done.out
    assert "[cell-not-proven]" in done.out
    assert "1 cell: [fp16 0 64] 64,64" in done.out
    assert "1 finding; " in done.out


def test_json_says_the_same(tmp_path: Path, made: Evidence) -> None:
    done = run("verify", make_db(tmp_path, published_files(made, rows=["64 d c ."])), "--format", "json")
    (finding,) = done.json["findings"]
    assert (done.code, finding["rule"], finding["line"], finding["arch"]) == (1, "cell-not-proven", 16, "gfxB")
    assert finding["cells"] == [{"functional": {"dtype": "fp16", "causal": 0, "head_dim": 64}, "at": [64, 64]}]
    assert done.json["counts"] == {"files": 1, "evidence": 1, "decisions": 2, "cells": 2}


def test_chosen_archs(tmp_path: Path, made: Evidence) -> None:
    root = make_db(tmp_path, published_files(made, rows=["64 d c ."]))
    assert run("verify", root, "--arch", "gfxA").code == 0
    assert run("verify", root, "--arch", "beta").code == 1
    assert run("verify", root, "--arch", "gfxZ").code == 2


def test_a_policy_that_the_project_allows(tmp_path: Path, made: Evidence) -> None:
    cells = tuple(decided(cell.measured, LAX, 1.0) for cell in made.cells)
    root = make_db(tmp_path, published_files(replace(made, cells=cells, policy=as_json(LAX))))
    assert "[bar-changed]" in run("verify", root).out
    allowed = tmp_path / "policy.json"
    allowed.write_text(json.dumps({"promotion": {"min_improvement_pct": 1.0}}))
    assert run("verify", root, "--policy", allowed).code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot read the policy"),
        ("[" * 100_000, "cannot read the policy"),
        ('{"promotion": {"min_improvment_pct": 1}}', "did you mean min_improvement_pct?"),
        ("[]", "policy must be an object"),
    ],
    ids=["cut", "deep", "unknown", "list"],
)
def test_a_policy_file_that_is_none(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "policy.json"
    file.write_text(text)
    done = run("verify", make_db(tmp_path), "--policy", file)
    assert (done.code, words in done.err) == (2, True)


def test_no_policy_file(tmp_path: Path) -> None:
    assert run("verify", make_db(tmp_path), "--policy", tmp_path / "none.json").code == 2


def test_no_database(tmp_path: Path) -> None:
    done = run("verify", tmp_path / "none")
    assert (done.code, "[no-root]" in done.err) == (2, True)


def test_without_scipy_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "find_spec", lambda name: None)
    done = run("verify", make_db(tmp_path))
    assert done.code == 2
    assert "pip install '.[verify]' in the clone" in done.err


def test_a_policy_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As the tuner takes it, and as editors on Windows write it."""
    policy = tmp_path / "policy.json"
    policy.write_bytes(b'\xef\xbb\xbf{"promotion": {"min_improvement_pct": 1.0}}')
    done = run("verify", make_db(tmp_path), "--policy", policy)
    assert (done.code, done.err) == (0, "")
