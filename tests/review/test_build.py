"""What a review says of each changed cell."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from tests.build import F1, F2, SCHEMA, make_db, patch, table
from tests.evidence.cells import readings
from tests.evidence.made import decided, published_files, raced, run_of
from tests.review.cases import (
    BLOCKS_B,
    TABLE_A,
    TABLE_B,
    cell,
    chain,
    deep,
    flat,
    gain,
    make_review,
    measured,
    patch_b,
    rows_b,
)
from txtdb.diff.edits import EditKind
from txtdb.diff.sides import open_side
from txtdb.model.evidence import Block, Measured
from txtdb.patching.grounds import no_past
from txtdb.patching.stack import stack_of
from txtdb.review.plain import as_json
from txtdb.review.records import Flag, Images
from txtdb.review.words import common_changes, gain_legend, gain_text, headline, heirs_text, kind_counts

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


def with_ground(folder, arch, made):
    """A patch of an arch over gfxB's table; it was made where that had other rows."""
    directives = ["origin hand test", "why a test"]
    name, parts = f"{arch}/attn_fwd.0010-x.dbpatch", {F1: ["64 b b ."]}
    files = {**rows_b(made, *BLOCKS_B[1:]), name: patch(arch, parts)}
    with open_side(str(make_db(folder, files, f"made-{arch}")), Path()) as side:
        stack = stack_of(side.database, (arch, "attn_fwd"))
        (layer,) = stack.patches
        onto = stack.digest(stack.fold(stack.under(layer)), layer.table)
    return {name: patch(arch, parts, directives=(*directives, f"onto {onto}"))}


def test_only_cells_whose_ground_moved_are_flagged(tmp_path):
    """The patch comes with a change of the table under one of its two cells."""
    made = with_ground(tmp_path, "gfxB", made="64 a*3")
    review = make_review(tmp_path, rows_b(*BLOCKS_B), {**rows_b("64 c a*2", *BLOCKS_B[1:]), **made})
    assert Flag.GROUND_MOVED in cell(review, 64, 64).flags
    assert "stale-onto" in {finding.rule for finding in cell(review, 64, 64).findings}
    assert Flag.GROUND_MOVED not in cell(review, 64, 128).flags
    assert cell(review, 64, 128).findings == ()


@pytest.mark.parametrize(("made", "moved"), [("64 c b a", [True, False]), ("64 a*3", [False, True])])
def test_a_cell_without_effect_is_flagged_only_where_its_ground_moved(tmp_path, made, moved):
    """What the patch of the heir was made for is in neither side, only in an earlier state."""
    old = rows_b("64 a b a", *BLOCKS_B[1:])
    new = {**old, **with_ground(tmp_path, "gfxA", made=made)}

    def flagged(name, past):
        review = make_review(tmp_path / name, old, new, past)
        cells = [cell(review, 64, k, arch="gfxA") for k in (64, 128)]
        assert [Flag.NO_EFFECT in item.flags for item in cells] == [False, True]
        return [Flag.GROUND_MOVED in item.flags for item in cells]

    assert flagged("unknown", no_past) == [True, True]
    assert flagged("known", partial(known_states, rows_b(made, *BLOCKS_B[1:]), tmp_path / "past")) == moved


def known_states(files, folder, place):
    """One earlier state."""
    with open_side(str(make_db(folder, files, "then")), Path()) as side:
        yield side.database


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


def moved(tmp_path, states, old, new):
    """The one changed cell of a review from one state to another, with its review."""
    review = make_review(tmp_path, states[old], states[new])
    return cell(review, 64, 64), review


def test_a_gain_is_shown_over_the_config_that_it_was_measured_against(tmp_path):
    found, review = moved(tmp_path, chain("b", "c"), "once", "twice")
    assert found.gain.gain_pct == pytest.approx(33.3, abs=1)
    assert not found.gain.derived
    assert Path(found.gain.file).name == "two.json"
    assert gain_legend(review.cells) == "Gains over the config before: + is faster, − slower."


def test_what_a_reverted_patch_gained_is_a_loss(tmp_path):
    """The file that sets the cell now has evidence of a gain, over another config than the one that goes."""
    found, review = moved(tmp_path, chain("b", "c"), "twice", "once")
    assert found.gain.gain_pct == pytest.approx(-50, abs=2)
    assert found.gain.noise_pct < 2
    assert found.gain.derived
    assert Path(found.gain.file).name == "two.json"
    assert Flag.SLOWER in found.flags
    assert Flag.NO_EVIDENCE not in found.flags
    assert re.fullmatch(r"−[45]\d\.\d %, 1 of 1 cell, 1 derived", gain_text(review.cells))
    assert "derived: from samples of both configs" in gain_legend(review.cells)


def test_a_cell_that_no_evidence_decided_for_any_more_is_slower_by_that_of_before(tmp_path):
    found, _ = moved(tmp_path, chain("b", "c"), "once", "start")
    assert found.gain.gain_pct == pytest.approx(-33.3, abs=1)
    assert {Flag.SLOWER, Flag.NO_EVIDENCE} <= set(found.flags)


def test_over_several_runs_a_gain_is_that_of_the_whole_way(tmp_path):
    """The last run measured what was there first as well: 30 µs against 10."""
    found, _ = moved(tmp_path, chain("b", "c", a=30), "start", "twice")
    assert found.gain.gain_pct == pytest.approx(66.7, abs=1)
    assert found.gain.derived


def test_a_config_that_lost_against_the_old_one_is_slower(tmp_path):
    """A hand wrote it into the patch; the run that the patch names measured it."""
    files = chain("b", "c", d=12)["twice"]
    patched = {name: text.replace("c = 64 false 4 2", "c = 128 false 8 2") for name, text in files.items()}
    review = make_review(tmp_path, chain("b", "c")["twice"], patched)
    found = cell(review, 64, 64)
    assert found.gain.gain_pct == pytest.approx(-20, abs=1)
    assert {Flag.SLOWER, Flag.NO_EVIDENCE} <= set(found.flags)


def test_where_nothing_measured_both_no_gain_is_shown(tmp_path):
    found, review = moved(tmp_path, chain("b", "c"), "start", "twice")
    assert found.gain is None
    assert Flag.NO_GAIN in found.flags
    assert Flag.NO_EVIDENCE not in found.flags
    assert gain_text(review.cells) == "no gain over the config before was measured"
    assert gain_legend(review.cells) == ""


def test_samples_that_cannot_be_compared_give_no_gain(tmp_path):
    """One block with both is no comparison, and a wrong result is no time."""
    whole = decided(raced({"b": 15, "c": 10, "a": 30}, incumbent="b"))
    run = whole.measured
    for name, changed in {
        "short": replace(run, blocks=tuple(b if not n else without(b, 2) for n, b in enumerate(run.blocks))),
        "wrong": replace(run, entrants=(*run.entrants[:2], replace(run.entrants[2], error=3.0))),
    }.items():
        files = published_files(run_of([replace(whole, measured=changed)]))
        assert cell(make_review(tmp_path / name, {}, files), 64, 64).gain is None


def without(block: Block, entrant: int) -> Block:
    pairs = [(one, times) for one, times in zip(block.order, block.times, strict=True) if one != entrant]
    return Block(tuple(one for one, _ in pairs), tuple(times for _, times in pairs))


def test_evidence_of_a_base_says_nothing_of_an_heir(tmp_path):
    """gfxA takes the cell from gfxB, where `c` beat `b`, and now sets `b` itself."""
    states = chain("b", "c")
    own = {TABLE_A: table("gfxA", {F1: ["64 b . ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    found = cell(make_review(tmp_path, states["twice"], {**states["twice"], **own}), 64, 64, arch="gfxA")
    assert found.gain is None
    assert Flag.SLOWER not in found.flags


def test_gains_of_energy_are_told_apart(tmp_path):
    """Half the watts are half the energy, at the same time; the second cell was decided by time."""
    weighed = replace(raced({"a": 10, "b": 10.001}, incumbent="a"), watts=readings(400, 200))
    timed = raced({"a": 10, "b": 8}, at=(64, 128), incumbent="a")
    files = published_files(run_of([decided(weighed), decided(timed)]))
    review = make_review(tmp_path, {}, files)
    assert [cell(review, 64, k).gain.energy for k in (64, 128)] == [True, False]
    told = r"\+(19|20)\.\d %, 1 of 2 cells; energy: \+(49|50)\.\d %, time [+−]0\.\d %, 1 of 2 cells"
    assert re.fullmatch(told, gain_text(review.cells))
    assert "of energy + is less energy, − more" in gain_legend(review.cells)


def weighed(times: dict[str, float], *watts: float, at: tuple[int, int] = (64, 64)) -> Measured:
    """A cell that energy decided: times in µs and the watts at them, the incumbent `a` among them."""
    return replace(raced(times, at=at, incumbent="a"), watts=readings(*watts))


def test_what_saves_energy_and_takes_longer_is_slower(tmp_path):
    """A quarter more time at a third of the watts; the second cell is as fast as it was."""
    cells = [weighed({"a": 10, "b": 12.5}, 300, 100), weighed({"a": 10, "b": 10.001}, 300, 100, at=(64, 128))]
    review = make_review(tmp_path, {}, published_files(run_of([decided(one) for one in cells])))
    longer, same = cell(review, 64, 64), cell(review, 64, 128)
    assert longer.gain.gain_pct == pytest.approx(58.3, abs=1)
    assert longer.gain.time.gain_pct == pytest.approx(-25, abs=1)
    assert 0 < longer.gain.time.noise_pct < 2
    assert {Flag.SLOWER, Flag.MORE_ENERGY} & set(longer.flags) == {Flag.SLOWER}
    assert abs(same.gain.time.gain_pct) < 1
    assert not {Flag.SLOWER, Flag.MORE_ENERGY} & set(same.flags)
    told = r"energy: \+6\d\.\d % \(.*\), time −1\d\.\d % \(−2\d\.\d … [+−]0\.\d\), 2 of 2 cells"
    assert re.fullmatch(told, gain_text(review.cells))
    assert "with it time, by the same samples, + is faster, − slower" in gain_legend(review.cells)
    first = json.loads(as_json(review))["tables"][0]["cells"][0]
    assert first["gain"]["time"] == asdict(longer.gain.time)
    assert first["flags"][0] == "slower"


def test_what_is_faster_and_takes_more_energy_says_which(tmp_path):
    """What goes back to the config before is faster, and takes four times the energy."""
    files = published_files(run_of([decided(weighed({"a": 10, "b": 20}, 400, 50))]))
    found = cell(make_review(tmp_path, files, {}), 64, 64)
    assert (found.gain.derived, found.gain.energy) == (True, True)
    assert found.gain.gain_pct == pytest.approx(-300, abs=5)
    assert found.gain.time.gain_pct == pytest.approx(50, abs=1)
    assert {Flag.SLOWER, Flag.MORE_ENERGY} & set(found.flags) == {Flag.MORE_ENERGY}


def test_a_gain_of_time_has_no_further_one(tmp_path):
    review = make_review(tmp_path, {}, published_files(run_of([decided(raced({"a": 10, "b": 8}, incumbent="a"))])))
    assert cell(review, 64, 64).gain.time is None
    assert "by the same samples" not in gain_legend(review.cells)


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


def test_what_was_measured_on_a_base_is_no_gain_of_its_heir(tmp_path):
    """gfxA leaves out its own cell, and takes what gfxB has measured."""
    states = chain("b", "c")
    own = {TABLE_A: table("gfxA", {F1: ["64 b . ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")}
    review = make_review(tmp_path, {**states["twice"], **own}, states["twice"])
    (found,) = (one for one in review.cells if one.edit.arch == "gfxA")
    assert found.gain is None
    assert Flag.NO_EVIDENCE in found.flags


def test_fields_in_another_order_are_the_same_config(tmp_path):
    first, second, third = (
        SCHEMA.index(f'[[config]]\nname = "{name}"') for name in ("BLOCK_M", "PRE_LOAD_V", "num_warps")
    )
    swapped = SCHEMA[:first] + SCHEMA[second:third] + SCHEMA[first:second] + SCHEMA[third:]
    states = chain("b", "c")
    plain = make_review(tmp_path / "plain", states["once"], states["twice"])
    review = make_review(tmp_path / "swapped", states["once"], {**states["twice"], "schema/attn_fwd.toml": swapped})
    gains = [cell(one, 64, 64).gain for one in (review, plain)]
    assert gains[0] and gains[1]
    assert gains[0].gain_pct == gains[1].gain_pct > 30
