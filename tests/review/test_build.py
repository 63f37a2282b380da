"""What a review says of each changed cell."""

from __future__ import annotations

import pytest

from tests.build import F1, F2, SCHEMA, table
from tests.review.cases import (
    BLOCKS_B,
    TABLE_A,
    TABLE_B,
    cell,
    deep,
    flat,
    gain,
    make_review,
    measured,
    patch_b,
    rows_b,
)
from txtdb.diff.edits import EditKind
from txtdb.review.records import Flag, Images
from txtdb.review.words import common_changes, gain_text, headline, heirs_text, kind_counts

A = {"BLOCK_M": 32, "PRE_LOAD_V": True, "num_warps": 2, "num_stages": 1, "waves_per_eu": 0}
B = {"BLOCK_M": 64, "PRE_LOAD_V": True, "num_warps": 4, "num_stages": 1, "waves_per_eu": 0}


def test_nothing_changed(tmp_path):
    review = make_review(tmp_path, {}, {})
    assert review.cells == review.facts == review.new_findings == review.faults == ()
    assert headline(review) == "Nothing changed."


def test_a_change_is_told_once_with_its_heirs(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 b . ."))
    (table_review,) = review.tables
    assert (table_review.arch, table_review.iface) == ("gfxB", "attn_fwd")
    found = cell(review, 64, 64)
    assert dict(found.edit.old) == A
    assert dict(found.edit.new) == B
    assert found.heirs == ("gfxA",)
    assert Flag.INHERITED in found.flags
    assert heirs_text(table_review) == "gfxA"
    assert headline(review) == "1 cell: 1 changed; in 1 functional of 1 table; 1 more arch changes with them."


def test_an_heir_that_sets_the_cell_itself_does_not_change(tmp_path):
    own = {TABLE_A: table("gfxA", {"fp16 0 64": ["64 d . ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    review = make_review(tmp_path, own, {**own, **patch_b("64 b b .")})
    assert cell(review, 64, 64).heirs == ()
    assert cell(review, 64, 128).heirs == ("gfxA",)
    assert heirs_text(review.tables[0]) == "gfxA in 1 of 2"


def test_the_same_change_of_two_archs_is_told_of_both(tmp_path):
    own = {TABLE_A: table("gfxA", {"fp16 0 64": ["64 b . ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    review = make_review(tmp_path, {}, {**own, **patch_b("64 b . .")})
    assert [item.edit.arch for item in review.cells] == ["gfxA", "gfxB"]
    assert cell(review, 64, 64, arch="gfxB").heirs == ()


def test_another_base_is_told_of_the_arch_that_has_it(tmp_path):
    def child(base: str | None) -> str:
        return table("gfxA", {F2: ["64-128 b*3", "256 c*2 d"]}, base=base)

    review = make_review(tmp_path, {}, {TABLE_A: child(None)})
    assert {item.edit.arch for item in review.cells} == {"gfxA"}
    assert kind_counts(review.cells)[EditKind.REMOVED] == 9
    assert all(Flag.THROUGH_BASE in item.flags for item in review.cells)


def test_a_cell_that_lookups_do_not_see_has_no_effect(tmp_path):
    review = make_review(tmp_path, {}, {TABLE_A: table("gfxA", {F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")})
    assert review.cells == ()
    own = {TABLE_A: table("gfxA", {"fp16 0 64": ["64 a . ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    review = make_review(tmp_path / "again", {}, own)
    (idle,) = review.cells
    assert Flag.NO_EFFECT in idle.flags
    assert kind_counts(review.cells) == dict.fromkeys(EditKind, 0)
    assert headline(review) == "1 cell: 1 without effect; in 1 functional of 1 table."


def test_row_036_a_refresh_shows_its_cells(tmp_path):
    old = rows_b("64 a*3", "128 a b*2", "256 b c .")
    new = rows_b("64 b b a", "128 a b*2", "256 . c d")
    review = make_review(tmp_path, old, new)
    assert kind_counts(review.cells) == {EditKind.CHANGED: 2, EditKind.ADDED: 1, EditKind.REMOVED: 1}
    assert common_changes(review.tables[0], 5)[0] == [("BLOCK_M 32→64, num_warps 2→4", 2)]


def test_grids_show_all_cells_of_a_changed_functional(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 . . e"))
    (table_review,) = review.tables
    (functional,) = table_review.functionals
    contents = [dict(table_review.contents[number])["num_stages"] for number in functional.after.ravel().tolist()]
    assert contents == [1, 1, 3, 1, 1, 1, 1, 2, 2]
    assert table_review.bins == ((64, 128, 256), (64, 128, 256))


def test_one_and_four_axes(tmp_path):
    review = make_review(tmp_path, {**flat("a*3"), **deep("a*3")}, {**flat("a b a"), **deep("a a b")})
    assert [item.edit.bins for item in review.cells] == [(8, 4, 128, 256), (128,)]
    assert [functional.after.shape for item in review.tables for functional in item.functionals] == [(2, 2, 2, 3), (3,)]


def test_a_config_that_stands_in_one_cell(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 e b ."))
    assert Flag.USED_ONCE in cell(review, 64, 64).flags
    assert Flag.USED_ONCE not in cell(review, 64, 128).flags


def test_an_illegal_config_is_flagged_with_its_finding(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 x b ."))
    found = cell(review, 64, 64)
    assert Flag.ILLEGAL in found.flags
    assert [finding.rule for finding in found.findings] == ["illegal-config"]
    assert Flag.ILLEGAL not in cell(review, 64, 128).flags
    assert [finding.rule for finding in review.new_findings] == ["illegal-config"]


def test_a_hole_is_flagged(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 - b ."))
    assert Flag.FINDING in cell(review, 64, 64).flags
    assert Flag.NO_EVIDENCE not in cell(review, 64, 64).flags


def test_ground_that_moved(tmp_path):
    stale = patch_b("64 b . .", directives=("origin hand test", "why a test", f"onto sha256:{'0' * 64}"))
    assert Flag.GROUND_MOVED in cell(make_review(tmp_path, {}, stale), 64, 64).flags


def test_findings_that_go_and_stay(tmp_path):
    old = {**patch_b("64 x . ."), "gfxB/readme.txt": "a stray file"}
    review = make_review(tmp_path, old, {"gfxB/readme.txt": "a stray file"})
    assert [finding.rule for finding in review.gone_findings] == ["illegal-config"]
    assert review.new_findings == ()
    assert review.kept_findings == 1


def test_no_evidence(tmp_path):
    found = cell(make_review(tmp_path, {}, patch_b("64 b . .")), 64, 64)
    assert Flag.NO_EVIDENCE in found.flags
    assert found.gain is None


@pytest.mark.parametrize(
    ("gain_pct", "noise_pct", "flag"),
    [(12.5, 2.0, None), (-12.5, 2.0, Flag.SLOWER), (1.5, 2.0, Flag.WITHIN_NOISE), (-2.0, 2.0, Flag.WITHIN_NOISE)],
)
def test_gain_and_noise(tmp_path, gain_pct, noise_pct, flag):
    new = measured([gain((64, 64), gain_pct, noise_pct)], ("64 b . .",))
    found = cell(make_review(tmp_path, {}, new), 64, 64)
    assert (found.gain.gain_pct, found.gain.noise_pct) == (gain_pct, noise_pct)
    judged = {Flag.SLOWER, Flag.WITHIN_NOISE, Flag.NO_EVIDENCE} & set(found.flags)
    assert judged == ({flag} if flag else set())


def test_evidence_of_other_cells_says_nothing_of_this_one(tmp_path):
    review = make_review(tmp_path, {}, measured([gain((64, 128), 5, 1)], ("64 b b .",)))
    assert cell(review, 64, 64).gain is None
    assert cell(review, 64, 128).gain.gain_pct == 5
    assert gain_text(review.cells) == "+5.0 %, 1 of 2 cells"


def test_evidence_of_another_config_says_nothing_of_this_one(tmp_path):
    review = make_review(tmp_path, {}, measured([gain((64, 64), 5, 1, new="c")], ("64 b b .",)))
    assert Flag.NO_EVIDENCE in cell(review, 64, 64).flags


def test_a_cell_without_a_baseline_has_evidence_and_no_gain(tmp_path):
    found = cell(make_review(tmp_path, {}, measured([gain((64, 64), None, None)], ("64 b . .",))), 64, 64)
    assert found.gain is None
    assert Flag.NO_EVIDENCE not in found.flags


def test_evidence_of_another_arch_is_none(tmp_path):
    review = make_review(tmp_path, {}, measured([gain((64, 64), 5, 1)], ("64 b . .",), arch="gfxA"))
    assert Flag.NO_EVIDENCE in cell(review, 64, 64).flags
    assert [finding.rule for finding in review.new_findings] == ["unlike-evidence"]


def test_evidence_that_is_wrong_is_told_and_left_out(tmp_path):
    files = dict(measured([gain((64, 64), 5, 1), gain((64, 128), 5, 1)], ("64 b b .",)))
    files["gfxB/evidence/run.json"] = files["gfxB/evidence/run.json"].replace('"seqlen_k": 64', '"seqlen_k": true')
    review = make_review(tmp_path, {}, files)
    assert [(fault.rule, fault.severity) for fault in review.faults] == [("bad-evidence", "warning")]
    assert "cells[0].at.seqlen_k" in review.faults[0].message
    assert all(Flag.NO_EVIDENCE in item.flags for item in review.cells)


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', "[" * 100_000], ids=["cut", "list", "other", "deep"])
def test_an_evidence_file_that_is_none(tmp_path, text):
    new = {**measured([], ("64 b . .",)), "gfxB/evidence/run.json": text}
    review = make_review(tmp_path, {}, new)
    assert "bad-evidence" in {fault.rule for fault in review.faults}
    assert cell(review, 64, 64).gain is None


def test_evidence_outside_its_folder_is_not_read(tmp_path):
    outside = measured([gain((64, 64), 5, 1)], ("64 b . .",), name="../gfxA/evidence/run.json")
    assert cell(make_review(tmp_path, {}, outside), 64, 64).gain is None


def test_images_before_and_after(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 e . ."))
    # gfxB: a, b, c, d, and now e; gfxA has b, c, d of its own functional as well.
    assert review.images == (Images("gfxA", 7, 8, 1, 0), Images("gfxB", 4, 5, 1, 0))


def test_images_differ_by_fields_that_make_a_binary(tmp_path):
    schema = {"schema/attn_fwd.toml": _schema_with_host_field()}
    sides = [
        {**schema, TABLE_B: table("gfxB", {F1: rows}, palette=_WIDE, fields=_WIDE_FIELDS)}
        for rows in (BLOCKS_B, ("64 a a e", *BLOCKS_B[1:]))
    ]
    review = make_review(tmp_path, *sides)
    assert len(review.cells) == 1
    assert Images("gfxB", 4, 4, 0, 0) in review.images


_WIDE_FIELDS = "BLOCK_M PRE_LOAD_V num_warps num_stages queue"
_WIDE = {
    "a": "32 true 2 1 0",
    "b": "64 true 4 1 0",
    "c": "64 false 4 2 0",
    "d": "128 false 8 2 0",
    "e": "32 true 2 1 1",
}


def _schema_with_host_field() -> str:
    field = '[[config]]\nname = "queue"\ntype = "int"\nmin = 0\nmax = 1\ndefault = 0\nbinary = false\n\n[arch.gfxA]'
    return SCHEMA.replace("[arch.gfxA]", field)


def test_files_say_why(tmp_path):
    new = patch_b("64 b . .", directives=("origin measured run 7", "why bigger tiles are faster"))
    (source,) = make_review(tmp_path, {}, new).tables[0].sources
    assert (source.cells, source.origin, source.why) == (1, "measured run 7", "bigger tiles are faster")
    assert source.file.endswith("/gfxB/attn_fwd.0010-x.dbpatch")


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path):
    review = make_review(tmp_path, {}, {TABLE_B: "#! txtdb 1\n#! iface attn_fwd\n"})
    assert "truncated" in {fault.rule for fault in review.faults}
