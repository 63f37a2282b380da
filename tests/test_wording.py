"""Names that were perhaps meant, and plurals."""

from __future__ import annotations

import pytest

from txtdb.wording import did_you_mean, near_names, plural

ARCHS = ["gfx1103", "gfx1100", "gfx942", "gfx1101"]


def test_equally_near_names_come_by_letter() -> None:
    assert near_names("gfx110", ARCHS, 2) == ["gfx1100", "gfx1101"]


def test_case_does_not_matter() -> None:
    assert near_names("GFX942", ARCHS) == ["gfx942"]


@pytest.mark.parametrize(
    ("most", "text"),
    [(1, "did you mean gfx1100? "), (3, "did you mean gfx1100, gfx1101 or gfx1103? ")],
)
def test_the_question(most: int, text: str) -> None:
    assert did_you_mean("gfx110", ARCHS, most) == text


def test_nothing_is_asked_where_nothing_is_near() -> None:
    assert did_you_mean("sm_90", ARCHS) == did_you_mean("x", []) == did_you_mean("", ARCHS) == ""


def test_plurals() -> None:
    assert [plural(count, "file") for count in (0, 1, 2)] == ["files", "file", "files"]
