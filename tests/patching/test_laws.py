"""Laws of patches over databases of several archs with bases, patches and pins, held against brute force."""

from __future__ import annotations

from itertools import islice

from hypothesis import event, given
from hypothesis import strategies as st

from tests.patching.drawn import ARCHS, Drawn, asked, databases, opened, questions, schemas
from tests.strategies import SLOW_LAW
from txtdb.patching.create import Request, create_patches

MOST_QUESTIONS = 400


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    """Two databases of one schema."""
    schema = draw(schemas())
    return draw(databases(schema)), draw(databases(schema))


@given(pairs())
@SLOW_LAW
def test_patches_from_one_to_the_other_give_the_other(pair: tuple[Drawn, Drawn]) -> None:
    before, after = pair
    cells = list(islice(questions(before, after), MOST_QUESTIONS))
    with before.written() as old, after.written() as new:
        outcome = create_patches(opened(old), opened(new), Request("change"))
        if outcome.faults:
            event("pinned")
            assert all("pinned" in fault.message for fault in outcome.faults)
            assert any(before.answers(*cell) != after.answers(*cell) for cell in questions(before, after))
            return
        outcome.apply()
        patched = opened(old)
        assert not [f for arch in ARCHS for f in patched.resolve(arch, "f").faults if f.rule != "no-data"]
        for cell in cells:
            assert asked(patched, *cell) == after.answers(*cell), cell
        again = create_patches(patched, opened(new), Request("again"))
        assert not again.steps
        event(f"{len(outcome.steps)} patches")
