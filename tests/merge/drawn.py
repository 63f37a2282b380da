"""Drawn versions of one file, in plain data and as text, and a merge of the plain data that knows no format.

A version maps (functional, bins) to a config or a mask. How it is spelled (symbols, order of keys and fields, runs,
comments, unused entries, whether a field at its default is written) is drawn as well and must not matter.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from hypothesis import strategies as st

from tests.strategies import row_line, untidy
from txtdb.syntax import Source, read

KEYS = ("dtype", "dim")
FIELDS = ("BLOCK_M", "PRE_LOAD_V", "stages")
DEFAULTS = {"stages": "1"}

Place = tuple[tuple[str, ...], tuple[int, ...]]
Config = tuple[str, ...]
MASK = "-"
Cells = Mapping[Place, Config | str]

FUNCTIONALS = tuple(product(("bf16", "fp16"), ("64", "128")))
AXES = (("q", (1, 2, 4)), ("h", (8, 16)), ("k", (64, 128, 256)))
CONFIGS = tuple(product(("16", "128"), ("true", "false"), ("1", "2")))
SYMBOLS = ("a", "b", "c", "d", "e", "Z", "aa", "f", "g", "h")


@dataclass(frozen=True)
class Drawn:
    """Three versions of a file with `axes` axes."""

    axes: int
    base: Cells
    ours: Cells
    theirs: Cells


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """A base and two sides made of it by some edits, often of the same cells."""
    axes = draw(st.integers(1, 3))
    places = list(product(FUNCTIONALS, product(*(bins for _, bins in AXES[-axes:]))))
    few = draw(st.lists(st.sampled_from(places), min_size=1, max_size=8, unique=True))
    content = st.sampled_from(CONFIGS[:5]) | st.just(MASK)
    base = draw(st.dictionaries(st.sampled_from(few), content))
    edit = st.dictionaries(st.sampled_from(few), st.none() | content, max_size=5)
    return Drawn(axes, base, changed(base, draw(edit)), changed(base, draw(edit)))


def changed(cells: Cells, edits: Mapping[Place, Config | str | None]) -> Cells:
    """The cells after some edits; None takes a cell away."""
    merged = {**cells, **edits}
    return {place: content for place, content in merged.items() if content is not None}


def brute_merge(three: Drawn) -> tuple[Cells, set[Place]]:
    """The merged cells without those in conflict, and the places of these."""
    merged: dict[Place, Config | str | None] = {}
    conflicts = set()
    for place in {*three.base, *three.ours, *three.theirs}:
        base, ours, theirs = (cells.get(place) for cells in (three.base, three.ours, three.theirs))
        if ours == theirs or theirs == base:
            merged[place] = ours
        elif ours == base:
            merged[place] = theirs
        else:
            conflicts.add(place)
    return changed({}, merged), conflicts


def spelled(cells: Cells, axes: int, seed: int, defaults: bool = False, comments: bool = True) -> str:
    """A version as text, in a drawn layout. With `defaults` a field that all configs leave at its default may lack."""
    chance = random.Random(seed)
    used = sorted(
        {content for content in cells.values() if content != MASK}
        | set(chance.sample(CONFIGS, chance.choice([0, 0, 1])))
    )
    chance.shuffle(used)
    symbols = dict(zip(used, chance.sample(SYMBOLS, len(used)), strict=True))
    fields = [
        n for n, name in enumerate(FIELDS) if not (defaults and used and all(c[n] == DEFAULTS.get(name) for c in used))
    ]
    chance.shuffle(fields)
    keys = chance.sample(range(2), 2)
    bins = [
        [b for b in own if any(at[n] == b for _, at in cells) or chance.random() < 0.3]
        for n, (_, own) in enumerate(AXES[-axes:])
    ]
    lines = ["#! txtdb 1", "#! iface f", "#! arch g"]
    if cells or chance.random() < 0.5:
        bins = [own or list(AXES[-axes:][n][1][:1]) for n, own in enumerate(bins)]
        lines.append(f"#! key {' '.join(KEYS[n] for n in keys)}")
        lines += [
            f"#! axis {name} {' '.join(map(str, own))}" for (name, _), own in zip(AXES[-axes:], bins, strict=True)
        ]
    if cells or used:
        lines.append(f"#! config {' '.join(FIELDS[n] for n in fields)}")
    lines += [f"{symbols[config]} = {' '.join(config[n] for n in fields)}" for config in used]
    functionals = sorted({functional for functional, _ in cells})
    chance.shuffle(functionals)
    for functional in functionals:
        lines.append(f"[{' '.join(functional[n] for n in keys)}]")
        for label in product(*bins[:-1]):
            row = [cells.get((functional, (*label, value)), ".") for value in bins[-1]]
            lines.append(row_line(label, [symbols.get(cell, cell) for cell in row]))  # type: ignore[arg-type]
    return untidy("\n".join([*lines, "#! end"]) + "\n", seed, comments)


def content(source: Source, defaults: Mapping[str, str] = DEFAULTS) -> Cells:
    """The cells of a file that was read, fields at their default filled in."""
    document = source.document
    contents: dict[int, Config | str] = {-2: MASK}
    for number, entry in enumerate(document.palette):
        given = {**defaults, **dict(zip(document.config_fields, entry.values, strict=True))}
        contents[number] = tuple(given[name] for name in FIELDS)
    cells: dict[Place, Config | str] = {}
    for block, rows in zip(document.blocks, source.rows, strict=True):
        given = dict(zip(document.keys, block.values, strict=True))
        for row in rows:
            for number in range(row.first, row.stop):
                for column, cell in enumerate(row.cells):
                    if cell != -1:
                        at = (*source.shape.row_bins(number), source.shape.axes[-1][1][column])
                        cells[tuple(given[name] for name in KEYS), at] = contents[cell]
    return cells


def load(text: str) -> Source:
    """A file that has no fault."""
    source, faults = read(text.encode(), "f")
    assert faults == []
    assert source is not None
    return source


def resolved(text: str, side: str) -> str:
    """A text with conflicts, settled by hand: the markers go, and of each conflict one side stays."""
    parts = {"<<<<<<< ours": "ours", "||||||| base": "base", "=======": "theirs", ">>>>>>> theirs": ""}
    part, lines = "", []
    for line in text.splitlines():
        if line in parts:
            part = parts[line]
        elif part in ("", side):
            lines.append(line)
    return "\n".join([*lines, ""])


def no_defaults(iface: str) -> Mapping[str, str]:
    """No schema is known: fields are compared as they are written."""
    return {}
