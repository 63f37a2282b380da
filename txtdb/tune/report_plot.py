"""The race of one cell as an SVG drawing.

Across stand the blocks, upwards each entrant's time over the winner's: the geometric mean over the blocks so far. A
line stops where its entrant leaves. The scale is linear near 1 and logarithmic far from it. Where energy decides, it is
time × watts that is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from txtdb.evidence.samples import all_acceptable, median
from txtdb.evidence.watts import usable_watts
from txtdb.model.evidence import CellEvidence, Measured
from txtdb.review.markup import Markup, element

# The drawing's own units; the page scales it.
WIDTH, HEIGHT = 1600, 560
# On the right is room for the longest label, `incumbent wins`, in wide bold letters.
LEFT, RIGHT, TOP, BOTTOM = 90, 240, 24, 76
# Points of a line at most: more are not told apart at this width.
MAX_POINTS = 60
# Where the scale turns from linear to logarithmic, as a distance from 1.
_LINEAR = 0.01
_TICKS = (0.5, 0.7, 0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1, 1.3, 2.0, 4.0, 10.0)
_LEAST_TOP, _MOST_TOP = 1.05, 10.0
# Least distance of two labels, and how high the base line of one may lie: its letters reach so far above that.
_LABEL_STEP = 26
_LABEL_TOP = 22


@dataclass(frozen=True)
class Lines:
    """Running means of (time / reference's time), one per entrant: (block from 0, ratio) of each block it ran in."""

    reference: int
    blocks: int
    points: dict[int, tuple[tuple[int, float], ...]]


def race_lines(cell: CellEvidence) -> Lines | None:
    """The lines of a cell; None where no entrant has a valid time in any block."""
    values = [block_values(cell.measured, number) for number in range(len(cell.measured.blocks))]
    reference = _reference(cell, values)
    if reference is None:
        return None
    points: dict[int, list[tuple[int, float]]] = {}
    sums: dict[int, tuple[int, float]] = {}
    for number, block in enumerate(values):
        if reference not in block:
            continue
        for entrant, time in block.items():
            count, before = sums.get(entrant, (0, 0.0))
            count, total = sums[entrant] = count + 1, before + math.log(time / block[reference])
            points.setdefault(entrant, []).append((number, math.exp(total / count)))
    return Lines(reference, len(values), {entrant: tuple(line) for entrant, line in sorted(points.items())})


def block_values(measured: Measured, number: int) -> dict[int, float]:
    """Entrant → the median of its calls in one block, times its watts where energy decides.

    Those without valid numbers are left out.
    """
    block = measured.blocks[number]
    times = zip(block.order, block.times, strict=True)
    pairs = ((entrant, median(calls)) for entrant, calls in times if all_acceptable(calls))
    if not measured.watts:
        return dict(pairs)
    known = usable_watts(measured)
    return {entrant: time * known[entrant] for entrant, time in pairs if entrant in known}


def _reference(cell: CellEvidence, values: Sequence[dict[int, float]]) -> int | None:
    """The winner; where there is none the incumbent, else who ran in most blocks."""
    ran = {entrant: sum(entrant in block for block in values) for block in values for entrant in block}
    chosen = (cell.decision.winner, cell.decision.incumbent)
    named = next((entrant for entrant in chosen if entrant in ran), None)
    return named if named is not None else max(ran, key=lambda entrant: (ran[entrant], -entrant), default=None)


def race_plot(cell: CellEvidence, lines: Lines, title: str, words: str) -> Markup:
    """The drawing, with a title and a description for those who do not see it."""
    drawing = _Drawing(cell, lines)
    return element(
        "svg",
        element("title", title),
        element("desc", words),
        *drawing.axes(),
        *drawing.bar(),
        *drawing.curves(),
        *drawing.labels(),
        role="img",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="race",
    )


class _Drawing:
    def __init__(self, cell: CellEvidence, lines: Lines) -> None:
        self._lines = lines
        self._winner, self._incumbent = cell.decision.winner, cell.decision.incumbent
        self._bar_pct = cell.decision.bar_pct
        self._gone = {one.entrant for one in cell.decision.standings if one.eliminated is not None}
        ratios = [ratio for line in lines.points.values() for _, ratio in line]
        self._low = min(min(ratios), 0.99)
        self._high = min(max(*ratios, _LEAST_TOP), _MOST_TOP)
        self._bar = self._bar_ratio()

    def _bar_ratio(self) -> float | None:
        """The incumbent's time over the winner's at a gain of just the bar; None where that is not in the drawing."""
        bar = self._bar_pct
        if bar is None or not 0 < bar < 100:
            return None
        ratio = 1 / (1 - bar / 100)
        return ratio if ratio <= self._high else None

    def x(self, block: float) -> int:
        """Blocks count from 0 here and from 1 on the axis."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * block / max(self._lines.blocks - 1, 1))

    def y(self, ratio: float) -> int:
        low, high = _scale(self._low), _scale(self._high)
        place = (min(_scale(ratio), high) - low) / (high - low)
        return round(HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM))

    def axes(self) -> Iterator[Markup]:
        right = WIDTH - RIGHT
        for tick in _TICKS:
            if self._low <= tick <= self._high:
                y = self.y(tick)
                yield element("path", d=f"M{LEFT} {y}H{right}", class_="grid")
                yield _label(LEFT - 12, y + 7, f"{tick:g}×", "end")
        for block in _block_ticks(self._lines.blocks):
            yield _label(self.x(block - 1), HEIGHT - BOTTOM + 30, str(block), "middle")
        yield _label((LEFT + right) // 2, HEIGHT - 12, "block", "middle")

    def bar(self) -> Iterator[Markup]:
        """The line that the incumbent must lie above, so that the winner replaces it."""
        if self._bar is not None:
            yield element("path", d=f"M{LEFT} {self.y(self._bar)}H{WIDTH - RIGHT}", class_="bar")

    def curves(self) -> Iterator[Markup]:
        """Those that left first, so that the winner and the incumbent lie above them."""
        order = sorted(self._lines.points, key=lambda entrant: (self._rank(entrant), entrant))
        for entrant in order:
            yield element("path", d=self._path(entrant), class_=self._kind(entrant), data_e=str(entrant))

    def labels(self) -> Iterator[Markup]:
        """The names of the winner, the incumbent and the bar, at the ends of their lines and not upon one another."""
        ends = sorted(self._ends(), key=lambda item: item[1][1])
        places = _apart([self.y(ratio) + 8 for _, (_, ratio) in ends])
        for ((text, kind), (x, _)), y in zip(ends, places, strict=True):
            yield _label(x + 14, y, text, "start", f"{kind}word")

    def _ends(self) -> Iterator[tuple[tuple[str, str], tuple[int, float]]]:
        words = {self._incumbent: "incumbent", self._winner: "winner"}
        if self._winner == self._incumbent:
            words = {self._winner: "incumbent wins"}
        for entrant, text in words.items():
            if entrant in self._lines.points:
                block, ratio = self._lines.points[entrant][-1]
                yield (text, self._kind(entrant)), (self.x(block), ratio)
        if self._bar is not None:
            yield (f"bar {self._bar_pct:.1f} %", "bar"), (WIDTH - RIGHT, self._bar)

    def _rank(self, entrant: int) -> int:
        return {"w": 3, "i": 2, "s": 1}.get(self._kind(entrant), 0)

    def _kind(self, entrant: int | None) -> str:
        """w: winner, i: incumbent, s: in the race to its end, g: gone."""
        if entrant == self._winner:
            return "w"
        if entrant == self._incumbent:
            return "i"
        return "g" if entrant in self._gone else "s"

    def _path(self, entrant: int) -> str:
        """Relative steps, for they are short; a line that ends early has a stroke across its end."""
        line = _thinned(self._lines.points[entrant])
        places = [(self.x(block), self.y(ratio)) for block, ratio in line]
        (x, y), text = places[0], ""
        for next_x, next_y in places[1:]:
            text += f"l{next_x - x} {next_y - y}"
            x, y = next_x, next_y
        end = "m0-9v18" if entrant in self._gone else "" if len(places) > 1 else "h8"
        return f"M{places[0][0]} {places[0][1]}{text}{end}".replace(" -", "-")


def _apart(places: Sequence[int]) -> list[int]:
    """Heights of labels, the lowest first, that are not upon one another: moved up, and down where the drawing ends."""
    found: list[int] = []
    for y in places:
        found.append(min(y, found[-1] - _LABEL_STEP) if found else y)
    least = _LABEL_TOP
    for number in reversed(range(len(found))):
        found[number] = max(found[number], least)
        least = found[number] + _LABEL_STEP
    return found


def _scale(ratio: float) -> float:
    return math.asinh((ratio - 1) / _LINEAR)


def _thinned(line: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """At most MAX_POINTS of a line, the last among them."""
    step = math.ceil(len(line) / MAX_POINTS)
    return line[(len(line) - 1) % step :: step]


def _block_ticks(blocks: int) -> list[int]:
    """Blocks that the axis names, counted from 1: at most a dozen, in steps of 1, 2 or 5 times a power of ten."""
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if blocks <= 12 * step)
    return sorted({1, *range(step, blocks + 1, step)})


def _label(x: int, y: int, text: str, anchor: str, kind: str = "word") -> Markup:
    return element("text", text, x=str(x), y=str(y), text_anchor=anchor, class_=kind)
