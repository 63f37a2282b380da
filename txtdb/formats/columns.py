"""Typed columns: each holds its few distinct values and, for each row, which of them stands there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from txtdb.model.values import Value, functional_rank

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_Item = TypeVar("_Item")
_MAX_CODE = 1 << 62


@dataclass(frozen=True)
class Column:
    """`codes` has one entry for each row: its value's place in `values`, which are sorted and distinct."""

    values: tuple[Value, ...]
    codes: Codes

    def select(self, rows: Mask | Codes) -> Column:
        """The column of some rows; `values` stays."""
        return Column(self.values, self.codes[rows])

    def seen(self, rows: Mask | None = None) -> tuple[Value, ...]:
        """The values that occur, in those rows or in all."""
        codes = self.codes if rows is None else self.codes[rows]
        return tuple(self.values[code] for code in np.unique(codes).tolist())


def factor(raw: Sequence[_Item]) -> tuple[tuple[_Item, ...], Codes]:
    """Distinct values, in the order of their first row, and the place of each row's value among them."""
    distinct = tuple(dict.fromkeys(raw))
    places = {value: place for place, value in enumerate(distinct)}
    return distinct, np.fromiter(map(places.__getitem__, raw), np.int64, len(raw))


def join(columns: Sequence[Column]) -> Column:
    """Columns one below the other."""
    values = tuple(sorted({value for column in columns for value in column.values}, key=_rank))
    places = {value: place for place, value in enumerate(values)}
    parts = [np.array([places[v] for v in column.values], np.int64)[column.codes] for column in columns]
    return Column(values, np.concatenate(parts))


def _rank(value: Value) -> list[tuple[int, int, str]]:
    return functional_rank((value,))


def combine(columns: Iterable[tuple[Codes, int]], rows: int) -> Codes:
    """One code for each row that is equal where all columns are. Columns come as (codes, number of values)."""
    combined, size = np.zeros(rows, np.int64), 1
    for codes, count in columns:
        if size * max(count, 1) > _MAX_CODE:
            distinct, combined = np.unique(combined, return_inverse=True)
            size = len(distinct)
        combined = combined * count + codes
        size *= max(count, 1)
    return combined


def group(columns: Sequence[Column], rows: int) -> tuple[list[tuple[Value, ...]], Codes]:
    """The distinct combinations of values and, for each row, which one stands there."""
    combined = combine(((column.codes, len(column.values)) for column in columns), rows)
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    picked = [column.codes[first].tolist() for column in columns]
    names = [column.values for column in columns]
    found = [tuple(values[column[i]] for values, column in zip(names, picked, strict=True)) for i in range(len(first))]
    return found, inverse


def rows_text(numbers: Iterable[int]) -> str:
    """Row numbers for people, complete: `row 7`, `rows 3-5, 9`."""
    ordered = sorted(set(numbers))
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1), len(ordered)]
    spans = [ordered[first:stop] for first, stop in pairwise(breaks)]
    texts = [str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans]
    return f"row{'s' if len(ordered) > 1 else ''} {', '.join(texts)}"
