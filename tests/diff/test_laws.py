"""Laws: the edits of a difference make one side of the other; brute force finds the same cells."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.build import write_files
from tests.patching.drawn import ARCHS, Drawn, databases, schemas
from tests.strategies import SLOW_LAW, ConfigValues, Functional, LayerSpec
from txtdb.diff.compare import compare
from txtdb.diff.edits import CellEdit, Content, DatabaseDiff
from txtdb.diff.folding import fold_edits
from txtdb.diff.render import group_functionals, group_places
from txtdb.diff.sides import open_side

Written = dict[tuple[str, Functional, tuple[int, ...]], ConfigValues | None]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    schema = draw(schemas())
    return draw(databases(schema)), draw(databases(schema))


def difference(old: Drawn, new: Drawn, effect: bool = False) -> DatabaseDiff:
    with TemporaryDirectory() as folder:
        roots = [write_files(Path(folder) / name, drawn.files()) for name, drawn in (("old", old), ("new", new))]
        with open_side(str(roots[0]), Path()) as before, open_side(str(roots[1]), Path()) as after:
            found, faults = compare(before, after, effect)
    assert not faults
    return found


def written(drawn: Drawn) -> Written:
    """The cells that files write, by brute force: the last layer of an arch that sets one counts."""
    cells: Written = {}
    for arch in ARCHS:
        layers: tuple[LayerSpec, ...] = drawn.archs[arch]
        for layer in layers:
            cells |= {(arch, *place): config for place, config in layer.cells.items()}
    return cells


def config(content: Content) -> ConfigValues | None:
    """A content as values in schema order, None for a mask."""
    return None if isinstance(content, str) or content is None else tuple(value for _, value in content)


def applied(cells: Written, edits: tuple[CellEdit, ...]) -> Written:
    result = dict(cells)
    for edit in edits:
        place = (edit.arch, edit.functional, edit.bins)
        assert (place in result) is (edit.old is not None)
        assert edit.old is None or result[place] == config(edit.old)
        if edit.new is None:
            del result[place]
        else:
            result[place] = config(edit.new)
    return result


@given(pairs())
@SLOW_LAW
def test_applying_a_difference_gives_the_other_side(pair: tuple[Drawn, Drawn]) -> None:
    old, new = pair
    assert applied(written(old), difference(old, new).cells) == written(new)


@given(pairs())
@SLOW_LAW
def test_the_other_way_round_is_the_inverse(pair: tuple[Drawn, Drawn]) -> None:
    def sides(edit: CellEdit, turned: bool) -> tuple[object, ...]:
        ends = (edit.old, edit.new, edit.old_source, edit.new_source)
        return (*edit.place, *([ends[1], ends[0]] if turned else ends[:2]))

    there, back = difference(*pair), difference(*reversed(pair))
    assert [sides(edit, False) for edit in there.cells] == [sides(edit, True) for edit in back.cells]


@given(pairs())
@SLOW_LAW
def test_effect_finds_just_the_points_where_lookups_differ(pair: tuple[Drawn, Drawn]) -> None:
    """At the bins of either side, without fallbacks, which the difference leaves to lookups."""
    old, new = pair
    found = {(e.arch, e.functional, e.bins) for e in difference(old, new, effect=True).cells if _answers_differ(e)}
    expected = set()
    for arch in ARCHS:
        for functional in old.schema.functionals:
            for point in old.points(new, arch):
                if old.cell(arch, functional, point) != new.cell(arch, functional, point):
                    expected.add((arch, functional, point))
    assert found == expected


def _answers_differ(edit: CellEdit) -> bool:
    """A mask and a hole are one answer: no kernel."""
    return bool({edit.old, edit.new} - {None, "-"})


@given(pairs())
@SLOW_LAW
def test_folding_covers_each_edit_once(pair: tuple[Drawn, Drawn]) -> None:
    diff = difference(*pair)
    for (_, iface), edits in group_places(diff.cells):
        for _, own in group_functionals(edits):
            folded = fold_edits(diff.schemas[iface], own)
            assert sorted(edit.bins for block in folded for edit in block.edits) == [edit.bins for edit in own]
            for block in folded:
                assert len({(edit.old, edit.new) for edit in block.edits}) == 1
                assert all(
                    a <= b <= c
                    for edit in block.edits
                    for a, b, c in zip(block.first, edit.bins, block.last, strict=True)
                )
