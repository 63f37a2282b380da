"""Runs the examples of documentation pages: `python -m tools.docs [--write] [PAGE…]`.

With `--write`, what the commands print now replaces what the page says. Without pages: README.md and all of docs/.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.docs.examples import REPO, rewritten, run_page


def pages() -> list[Path]:
    """README.md and the pages of docs/."""
    return [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]


def main() -> int:
    """Run, report, and rewrite where asked; 1 when an example is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("page", nargs="*", type=Path)
    given = parser.parse_args()
    wrong = 0
    for page in given.page or pages():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_page(page, Path(folder))
        for problem in outcome.problems:
            print(f"{page.name}: {problem}")
        wrong += len(outcome.problems)
        if given.write:
            text = page.read_text(encoding="utf-8")
            page.write_text(rewritten(text, outcome.printed), encoding="utf-8", newline="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
