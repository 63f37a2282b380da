"""Maps of a run: for each functional the gains of its cells on their grid, each cell a link to its race.

A gain is positive where the new config is faster, or needs less energy where that decides; a comparison has losses too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from txtdb.model.evidence import CellEvidence, Outcome
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, print_value
from txtdb.review.markup import Markup, element, join
from txtdb.tune.comparison import compared_gain_pct, found_words, is_energy

# Shades of the largest gain, the darkest last.
SHADES = 5
_WORDS = {Outcome.RETAINED: "kept", Outcome.FAILED: "failed", Outcome.UNMEASURED: "–"}
_GAINS = "Gains in percent ({better} than before), shaded by the largest one; “kept”: what was there stays."
_CHANGES = "Gains in percent: + is {better} than before, − {worse}; gains are shaded by the largest, losses framed."
_LEGEND = " Each leads to its race. Rows are {rows}, columns {columns}."

# (number of the cell in the run, the cell)
_Numbered = tuple[int, CellEvidence]


def gain_maps(cells: Sequence[CellEvidence], schema: Schema) -> Markup:
    """One map a functional, in the order of the run. Nothing for a run without changes, or without two axes."""
    largest = max(map(_gain, cells), default=0.0)
    compares = any(not cell.measured.publish for cell in cells)
    if len(schema.axis_names) != 2 or (largest <= 0 and not compares):
        return join()
    groups: dict[Functional, list[_Numbered]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault(cell.measured.functional, []).append((number, cell))
    rows, columns = schema.axis_names
    better, worse = ("less energy", "more") if is_energy(cells) else ("faster", "slower")
    told = (_CHANGES if compares else _GAINS).format(better=better, worse=worse)
    legend = element("p", told + _LEGEND.format(rows=rows, columns=columns), class_="quiet")
    titles = _titles(list(groups), schema)
    maps = (_map(titles[functional], own, largest) for functional, own in groups.items())
    return element("section", element("h2", "Gains"), legend, element("div", *maps, class_="maps"), aria_label="Gains")


def _titles(functionals: Sequence[Functional], schema: Schema) -> dict[Functional, str]:
    """What tells the functionals of a run apart: the keys in which they differ."""
    columns = list(zip(*functionals, strict=True))
    told = [place for place, column in enumerate(columns) if len(set(column)) > 1] or range(len(columns))
    names = schema.key_names
    return {one: " ".join(f"{names[place]}={print_value(one[place])}" for place in told) for one in functionals}


def _map(title: str, cells: Sequence[_Numbered], largest: float) -> Markup:
    by_place: Mapping[tuple[int, ...], _Numbered] = {cell.measured.at: (number, cell) for number, cell in cells}
    rows, columns = (sorted({at[axis] for at in by_place}) for axis in (0, 1))
    head = element("tr", element("td"), *(element("th", str(value), scope="col") for value in columns))
    body = (
        element("tr", element("th", str(row), scope="row"), *_row([by_place.get((row, at)) for at in columns], largest))
        for row in rows
    )
    table = element("table", element("caption", title), element("thead", head), element("tbody", *body))
    return element("div", table, class_="wide", tabindex="0", role="region", aria_label=title)


def _row(cells: Sequence[_Numbered | None], largest: float) -> Iterator[Markup]:
    for found in cells:
        if found is None:
            yield element("td")
        else:
            number, cell = found
            link = element("a", _text(cell), href=f"#c{number}", aria_label=f"cell {number + 1}: {_text(cell)}")
            yield element("td", link, class_=_shade(cell, largest))


def _text(cell: CellEvidence) -> str:
    decision = cell.decision
    if not cell.measured.publish:
        gain = compared_gain_pct(cell)
        return found_words(cell) if gain is None else f"{gain:+.1f}".replace("-", "−")
    if decision.outcome is not Outcome.PUBLISHED:
        return _WORDS[decision.outcome]
    return "new" if decision.gain_pct is None else f"{decision.gain_pct:.1f}"


def _gain(cell: CellEvidence) -> float:
    """Percent; negative for what a comparison found slower, 0 where there is none."""
    if not cell.measured.publish:
        return compared_gain_pct(cell) or 0.0
    published = cell.decision.outcome is Outcome.PUBLISHED
    return max(cell.decision.gain_pct or 0.0, 0.0) if published else 0.0


def _shade(cell: CellEvidence, largest: float) -> str:
    """A class for a cell: by its gain, or that it is a loss."""
    gain = _gain(cell)
    if gain < 0:
        return "loss"
    if not gain:
        return "shade0"
    share = gain / largest if math.isfinite(largest) else 1.0
    return f"shade{min(SHADES, 1 + int(SHADES * share))}"
