"""The picture of a review page in docs/review.md: `python -m tools.docs.review_picture`. Needs Chromium.

The reviewed change is the one of that page: the patches of `amd/`, on the tables without them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome

from tools.docs.browser import open_browser, programs, set_view
from tools.docs.examples import REPO, run_shell

PICTURE = Path("docs/img/review.png")
CELL = "gfx1100/attn_fwd/bf16,0,128,false,false,1@16,4096"

# docs/review.md begins with the same commands.
MAKE_BRANCH = (
    'git init -q -b main . && cp -r "$REPO/amd" . && rm amd/*/*.dbpatch && git add amd && git commit -q -m "tables" && '
    'git switch -q -c few-queries && cp -r "$REPO/amd" . && git add amd && git commit -q -m "few queries, many keys"'
)
REVIEW = "txtdb review main...few-queries --root amd --out review.html"
_SIZE = (1280, 1100)


def take_picture(chrome: Chrome, page: Path) -> bytes:
    """PNG of the page from its top, with a changed cell in the panel."""
    set_view(chrome, _SIZE, "light")
    chrome.get(f"{page.as_uri()}#{CELL}")
    chrome.execute_async_script("setTimeout(arguments[0], 500)")
    chrome.execute_script("scrollTo(0, 0)")
    return bytes(chrome.get_screenshot_as_png())


def main() -> int:
    """Review, and write the picture; 1 where there is no browser."""
    found = programs()
    if found is None:
        print("no Chromium with chromedriver is installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in (MAKE_BRANCH, REVIEW):
            code, lines = run_shell(command, folder)
            if code:
                raise RuntimeError("\n".join((f"{command}: exit code {code}", *lines)))
        with open_browser(*found, folder / "profile") as chrome:
            (REPO / PICTURE).write_bytes(take_picture(chrome, folder / "review.html"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
