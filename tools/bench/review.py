"""Figures of reviewing: the difference of 5,000 changed cells of the real database, its page, and a merge.

    python -m tools.bench.review SOURCE [--runs 5]

SOURCE is the folder of the AOTriton flash database. Commands are timed as whole processes. The page is opened in
Chromium, where that is installed: measured is the time from the start of the navigation until the page answers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from selenium.webdriver import Chrome

from tools.bench.database import BASES, Figure, machine, measured, repeated, seconds, txtdb
from tools.bench.retuned import retune
from tools.docs.browser import open_browser, programs

CELLS = 5_000


def figures(source: Path, runs: int, work: Path) -> list[Figure]:
    old, new, page = work / "old", work / "new", work / "review.html"
    bases = [word for base in BASES for word in ("--base", base)]
    measured(txtdb("import", "aotriton", source, "--root", old, "--emit-schema", *bases))
    retune(old, new, CELLS)
    found = [*_command_figures(old, new, runs, work)]
    script = f'exec "$0" diff "$1" "$2" --format html > \'{page}\''
    command = ["bash", "-c", script, txtdb()[0], str(old), str(new)]
    costs = repeated(runs, lambda: measured(command, allowed=(1,)))
    found += [
        Figure("review page of 5,000 changed cells", "s", seconds(costs)),
        Figure("its size", "MB", (page.stat().st_size / 1e6,), 3),
    ]
    browser = programs()
    if browser:
        with open_browser(*browser, work / "profile") as chrome:
            found.append(Figure("until it answers", "s", tuple(_seconds(chrome, page) for _ in range(runs)), 2))
    return found


def _command_figures(old: Path, new: Path, runs: int, work: Path) -> Iterator[Figure]:
    """`diff` in both modes, and a merge of one table of 21,600 cells that both sides changed."""
    for name, options in (("`diff`", ()), ("`diff --effect`", ("--effect",))):
        command = txtdb("diff", old, new, *options)
        costs = repeated(runs, lambda given=command: measured(given, allowed=(1,)))  # type: ignore[misc]
        yield Figure(f"{name} of 5,000 changed cells among 527,602", "s", seconds(costs), 3)
    other = work / "other"
    retune(old, other, CELLS, seed=1)
    sides = [root / "gfx942" / "attn_fwd.txtdb" for root in (old, new, other)]
    command = txtdb("merge", *sides, "-o", work / "merged.txtdb")
    yield Figure(
        "`merge` of a table with 21,600 cells", "s", seconds(repeated(runs, lambda: measured(command, (0, 1)))), 1
    )


def _seconds(chrome: Chrome, page: Path) -> float:
    chrome.get("about:blank")
    chrome.get(page.as_uri())
    ready = chrome.execute_script("return performance.getEntriesByName('ready')[0].startTime")
    return float(ready) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.review")
    parser.add_argument("source", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{machine()}; {given.runs} runs each\n")
        print("| what | median | range | bar |\n|---|---|---|---|")
        for figure in figures(given.source, given.runs, Path(folder)):
            print(figure.row())


if __name__ == "__main__":
    main()
