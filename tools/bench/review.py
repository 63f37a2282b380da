"""Figures of the review page: 5,000 changed cells of the real database.

    python -m tools.bench.review SOURCE [--runs 5]

SOURCE is the folder of the AOTriton flash database. The page is made by whole processes, and opened in Chromium, where
that is installed: measured is the time from the start of the navigation until the page answers.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome

from tools.bench.database import BASES, Figure, measured, repeated, txtdb
from tools.bench.retuned import retune
from tools.docs.browser import open_browser, programs

CELLS = 5_000


def figures(source: Path, runs: int, work: Path) -> list[Figure]:
    old, new, page = work / "old", work / "new", work / "review.html"
    bases = [word for base in BASES for word in ("--base", base)]
    measured(txtdb("import", "aotriton", source, "--root", old, "--emit-schema", *bases))
    retune(old, new, CELLS)
    script = f'exec "$0" diff "$1" "$2" --format html > \'{page}\''
    command = ["bash", "-c", script, txtdb()[0], str(old), str(new)]
    costs = repeated(runs, lambda: measured(command, allowed=(1,)))
    found = [
        Figure("review page of 5,000 changed cells", "s", tuple(cost.seconds for cost in costs)),
        Figure("its size", "MB", (page.stat().st_size / 1e6,), 3),
    ]
    browser = programs()
    if browser:
        with open_browser(*browser, work / "profile") as chrome:
            found.append(Figure("until it answers", "s", tuple(_seconds(chrome, page) for _ in range(runs)), 2))
    return found


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
        print("| what | median | range | bar |\n|---|---|---|---|")
        for figure in figures(given.source, given.runs, Path(folder)):
            print(figure.row())


if __name__ == "__main__":
    main()
