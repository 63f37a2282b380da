"""Laws of the merge: against a merge of plain dictionaries, and when the sides change places."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from tests.merge.drawn import DEFAULTS, Drawn, brute_merge, content, drawn, load, resolved, spelled
from tests.strategies import LAW, seeds
from txtdb.merge.result import Merged, merge_ancestors, merge_files
from txtdb.merge.threeway import Three
from txtdb.syntax import print_source

FILES = Three("base.txtdb", "ours.txtdb", "theirs.txtdb")


def merge(base: str, ours: str, theirs: str) -> Merged:
    data: Three[bytes | None] = Three(base.encode(), ours.encode(), theirs.encode())
    merged, faults = merge_files(data, FILES, lambda _: DEFAULTS)
    assert faults == ()
    assert merged is not None
    return merged


def texts(three: Drawn, seed: int, defaults: bool = False) -> tuple[str, str, str]:
    versions = (three.base, three.ours, three.theirs)
    base, ours, theirs = (spelled(cells, three.axes, seed + n, defaults) for n, cells in enumerate(versions))
    return base, ours, theirs


@pytest.mark.parametrize("defaults", [False, True])
@given(three=drawn(), seed=seeds)
@LAW
def test_every_cell_is_what_a_merge_of_dictionaries_makes_it(defaults: bool, three: Drawn, seed: int) -> None:
    expected, conflicts = brute_merge(three)
    merged = merge(*texts(three, seed, defaults))
    assert not merged.clash
    assert len(merged.cells) == merged.counts.conflicts == len(conflicts)
    for side, own in (("ours", three.ours), ("theirs", three.theirs), ("base", three.base)):
        chosen = {place: own[place] for place in conflicts if place in own}
        assert content(load(resolved(merged.text, side))) == {**expected, **chosen}


@given(three=drawn(), seed=seeds)
@LAW
def test_the_result_does_not_depend_on_the_side(three: Drawn, seed: int) -> None:
    base, ours, theirs = texts(three, seed)
    one, other = merge(base, ours, theirs), merge(base, theirs, ours)
    assert one.has_conflict == other.has_conflict
    if not one.has_conflict:
        assert one.text == other.text
    assert resolved(one.text, "ours") == resolved(other.text, "theirs")


@given(three=drawn(), seed=seeds)
@LAW
def test_a_change_of_one_side_is_the_result(three: Drawn, seed: int) -> None:
    base, ours, _ = texts(three, seed)
    canonical = print_source(load(ours))
    assert merge(base, ours, ours).text == canonical
    assert merge(base, base, ours).text == canonical
    assert merge(base, ours, base).text == canonical


@given(three=drawn(), seed=seeds)
@LAW
def test_the_result_is_canonical_and_merges_with_what_it_is_made_of(three: Drawn, seed: int) -> None:
    base, ours, theirs = texts(three, seed)
    merged = merge(base, ours, theirs)
    if not merged.has_conflict:
        assert print_source(load(merged.text)) == merged.text
        assert content(load(merge(base, merged.text, ours).text)) == content(load(merged.text))


@given(three=drawn(), seed=seeds)
@LAW
def test_no_comment_of_either_side_is_lost(three: Drawn, seed: int) -> None:
    base, ours, theirs = texts(three, seed)
    merged = set(comments(merge(base, ours, theirs).text))
    assert (set(comments(ours)) | set(comments(theirs))) - set(comments(base)) <= merged


def comments(text: str) -> list[str]:
    """Comments and lines of other programs; no directives."""
    return [line.strip() for line in text.splitlines() if re.match(r"#(?!! (?!x-))", line)]


@given(three=drawn(), seed=seeds)
@LAW
def test_a_merged_ancestor_is_a_file_that_leaves_conflicts_open(three: Drawn, seed: int) -> None:
    expected, conflicts = brute_merge(three)
    data: Three[bytes | None] = Three(*(text.encode() for text in texts(three, seed)))
    text = merge_ancestors(data, lambda _: DEFAULTS)
    assert text is not None
    cells = content(load(text))
    assert {place: cells[place] for place in cells if place not in conflicts} == expected
    for place in conflicts:
        found = cells.get(place)
        own = [version.get(place) for version in (three.base, three.ours, three.theirs)]
        assert found not in own or {None, "-"} <= set(own)
