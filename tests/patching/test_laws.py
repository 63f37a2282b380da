"""Laws of patches over databases of several archs with bases, patches and pins, held against brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.patching.drawn import ARCHS, Answer, Drawn, asked, databases, opened, questions, schemas
from tests.strategies import SLOW_LAW, layer_specs
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile
from txtdb.patching.apply import apply_patches
from txtdb.patching.create import Request, create_patches
from txtdb.patching.outcome import Outcome
from txtdb.patching.rebase import rebase_patches
from txtdb.patching.revert import revert_patch
from txtdb.patching.squash import INTO_TABLE, Into, squash_patches
from txtdb.patching.stack import stale_patches
from txtdb.views.flat import flat_text

MOST_QUESTIONS = 400

Asked = tuple[str, tuple[bool | int | str, ...], tuple[int, ...]]


def some_questions(*drawn: Drawn) -> list[Asked]:
    found = list(islice(questions(*drawn), 100 * MOST_QUESTIONS))
    return random.Random(drawn[0].seed).sample(found, min(MOST_QUESTIONS, len(found)))


def answers(database: Database, cells: Sequence[Asked]) -> list[Answer]:
    return [asked(database, *cell) for cell in cells]


def resolved(database: Database) -> dict[str, str]:
    """What `txtdb resolve` prints of each arch, without the origin line."""
    texts = {}
    for arch in ARCHS:
        table = database.resolve(arch, "f").table
        text = flat_text(table, database.roots) if table else ""
        texts[arch] = "".join(line for line in text.splitlines(True) if not line.startswith("#! origin"))
    return texts


def faults(database: Database) -> list[str]:
    found = [fault for arch in ARCHS for fault in database.resolve(arch, "f").faults]
    return [str(fault) for fault in found if fault.rule != "no-data"]


def stale(database: Database) -> set[str]:
    return {layer.file for _, layer in stale_patches(database, "f")}


def patch_files(database: Database, arch: str) -> tuple[LayerFile, ...]:
    return database.listings[0].patches.get((arch, "f"), ())


def anchor(root: Path) -> None:
    """Give every patch the ground that it has."""
    for arch in ARCHS:
        database = opened(root)
        files = patch_files(database, arch)
        if files:
            outcome = rebase_patches(database, files, lambda place: ())
            assert not outcome.faults, outcome.faults
            outcome.apply()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    """Two databases of one schema; a pin of the first is rare, because no patch moves it."""
    schema = draw(schemas())
    return draw(databases(schema, pins=draw(st.integers(0, 5)) == 0)), draw(databases(schema))


@given(pairs(), st.booleans())
@SLOW_LAW
def test_patches_from_one_to_the_other_give_the_other(pair: tuple[Drawn, Drawn], from_elsewhere: bool) -> None:
    before, after = pair
    cells = some_questions(before, after)
    with before.written() as old, after.written() as new:
        outcome = create_patches(opened(old), opened(new), Request("change"))
        if outcome.faults:
            event("pinned")
            assert all("pinned" in fault.message for fault in outcome.faults)
            assert any(before.answers(*cell) != after.answers(*cell) for cell in questions(before, after))
            return
        if from_elsewhere:
            outcome.root = old.parent / "patches"
            outcome.apply()
            outcome = apply_patches(opened(old), [outcome.root / step.file for step in outcome.steps])
        outcome.apply()
        patched = opened(old)
        assert not faults(patched)
        assert not stale(patched)
        assert answers(patched, cells) == [after.answers(*cell) for cell in cells]
        assert not create_patches(patched, opened(new), Request("again")).steps
        event(f"{len(outcome.steps)} patches")


@dataclass(frozen=True)
class Folded:
    """A database, some patches of one of its archs, and what they are folded into."""

    drawn: Drawn
    arch: str
    numbers: tuple[int, ...]
    into: Into


@st.composite
def foldings(draw: st.DrawFn) -> Folded:
    drawn = draw(databases(draw(schemas()), most_patches=3))
    arch = draw(st.sampled_from([name for name in ARCHS if drawn.patches(name)] or ["none"]))
    assume(arch in ARCHS)
    there = [int(layer.file.split(".")[1][:4]) for layer in drawn.patches(arch)]
    numbers = draw(st.lists(st.sampled_from(there), unique=True))
    named = st.builds(Into, st.just("both"), st.sampled_from([None, 1, 2, 5, 10, 20]))
    return Folded(drawn, arch, tuple(numbers), draw(st.just(INTO_TABLE) | named))


@given(foldings())
@SLOW_LAW
def test_squash_keeps_the_resolved_tables_to_the_byte(folded: Folded) -> None:
    with folded.drawn.written() as root:
        anchor(root)
        before = opened(root)
        texts, there = resolved(before), [file.name for file in patch_files(before, folded.arch)]
        outcome = squash_patches(before, (folded.arch, "f"), folded.numbers, folded.into)
        if outcome.faults:
            event(f"refused: {outcome.faults[0].rule}")
            # All patches in the table, or on top of it as one, are in nobody's way.
            assert folded.numbers or folded.into.number in (1, 2, 5, 10), outcome.faults
            assert {fault.rule for fault in outcome.faults} <= {"would-change", "no-patch"}
            return
        outcome.apply()
        after = opened(root)
        assert resolved(after) == texts
        assert not faults(after)
        assert not stale(after)
        chosen = [name for name in there if not folded.numbers or int(name.split(".")[1][:4]) in folded.numbers]
        left = [file.name for file in patch_files(after, folded.arch)]
        assert [name for name in left if "both" not in name] == [name for name in there if name not in chosen]
        event("folded into the table" if folded.into.name is None else "folded into a patch")


@st.composite
def moved_bases(draw: st.DrawFn) -> tuple[Drawn, Drawn, str]:
    """A database, the same patches over another table, perhaps with a new patch among them, and the arch of these."""
    drawn = draw(databases(draw(schemas()), pins=False))
    arch = draw(st.sampled_from([arch for arch in ARCHS if drawn.patches(arch)] or ["gA"]))
    assume(drawn.patches(arch))
    table = draw(layer_specs(drawn.schema, f"{arch}/f.txtdb", least=1))
    more = draw(st.lists(st.sampled_from([2, 5, 12]), max_size=1))
    new = [draw(layer_specs(drawn.schema, f"{arch}/f.{number:04d}-theirs.dbpatch")) for number in more]
    patches = sorted([*drawn.patches(arch), *new], key=lambda layer: layer.file)
    return drawn, replace(drawn, archs={**drawn.archs, arch: (table, *patches)}), arch


@given(moved_bases(), st.booleans())
@SLOW_LAW
def test_rebase_keeps_the_resolved_tables_or_tells(moved: tuple[Drawn, Drawn, str], accept: bool) -> None:
    before, after, arch = moved
    with before.written() as old, after.written() as root:
        anchor(old)
        for file in patch_files(opened(old), arch):
            (root / file.name).write_bytes(file.path.read_bytes())
        database, was = opened(root), opened(old)
        cells, texts = some_questions(after), resolved(database)
        mine = [file for file in patch_files(database, arch) if "theirs" not in file.name]
        outcome = rebase_patches(database, mine, lambda place: [was], accept)
        event("refused" if outcome.faults else "accepted" if outcome.ground or outcome.answers else "nothing moved")
        if outcome.faults:
            assert not accept
            assert outcome.ground or outcome.answers
            assert all(moved.is_known for moved in outcome.ground)
            return
        outcome.apply()
        rebased = opened(root)
        numbers = [file.number for file in patch_files(rebased, arch)]
        assert len(set(numbers)) == len(numbers)
        assert not {file for file in stale(rebased) if f"/{arch}/" in file and "theirs" not in file}
        if not outcome.answers:
            assert resolved(rebased) == texts
            assert answers(rebased, cells) == [after.answers(*cell) for cell in cells]
        if not accept:
            assert not outcome.answers


@given(st.data())
@SLOW_LAW
def test_revert_gives_what_was_there_without_the_patch(data: st.DataObject) -> None:
    drawn = data.draw(databases(data.draw(schemas())))
    files = [layer.file for arch in ARCHS for layer in drawn.patches(arch)]
    assume(files)
    name = data.draw(st.sampled_from(files))
    without = drawn.without(name)
    bases = [layer.base for own in without.archs.values() for layer in own if layer.base]
    assume(all(any(layer.cells for layer in without.layers(base)) for base in bases))
    cells = some_questions(drawn)
    with drawn.written() as root:
        anchor(root)
        database = opened(root)
        arch, _, tail = name.partition("/")
        [file] = [item for item in patch_files(database, arch) if item.name.endswith(tail.partition("-")[2])]
        outcome: Outcome = revert_patch(database, file)
        if [fault.rule for fault in outcome.faults] == ["would-change"]:
            event("brings bins")
            assert any(
                before != without.answers(*cell) for cell, before in zip(cells, answers(database, cells), strict=True)
            )
            return
        if outcome.faults:
            event("nothing to revert")
            assert [fault.rule for fault in outcome.faults] == ["no-patch"]
        else:
            event(str(outcome.steps[0].action))
            outcome.apply()
        reverted = opened(root)
        assert not faults(reverted)
        # An heir's patch that was made over the cells lies over others now, however they are taken back.
        assert not {file for file in stale(reverted) if f"/{arch}/" in file}
        assert answers(reverted, cells) == [without.answers(*cell) for cell in cells]
