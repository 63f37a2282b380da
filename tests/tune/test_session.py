"""What is compiled while a cell is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from txtdb.tune.session import _ahead


@pytest.mark.parametrize(
    ("number", "places"),
    [(0, [0, 1, 3]), (1, [1, 2, 3]), (2, [2, 3]), (3, [3, 4]), (4, [4])],
    ids=["first", "middle", "last of its functional", "first of the last", "last"],
)
def test_the_images_of_the_next_functional_are_made_while_this_one_is_measured(number: int, places: list[int]) -> None:
    runs = [SimpleNamespace(plan=SimpleNamespace(cell=SimpleNamespace(functional=name))) for name in "aaabb"]
    assert _ahead(cast(Any, runs), number) == places
