"""The picture of a real diff in README.md: `python -m tools.docs.picture [FILE]`.

One cell of a copy of `amd/` is changed by `txtdb set`; what git prints in its colours becomes an SVG. The output
depends on nothing else, so a test can tell when the picture is old.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tools.docs.examples import REPO, run_shell
from txtdb.files import write_if_changed

PICTURE = Path("docs/img/diff.svg")

_START = "git init -q . && git add -A && git commit -q -m start"
_CHANGE = (
    "txtdb set amd gfx942 attn_fwd Q_dtype=bf16 CAUSAL_TYPE=0 BLOCK_DMODEL=128 ENABLE_DROPOUT=false BIAS_TYPE=0 \\\n"
    "    Max_seqlen_q=64 Max_seqlen_k=8192 -- num_warps=8"
)
_DIFF = "git diff -U1"
_WORDS = "git diff -U0 --word-diff"

_COLOURS = {"": "#d0d7de", "1": "#ffffff", "31": "#ff7b72", "32": "#7ee787", "36": "#79c0ff"}
_PROMPT = "#8b949e"
_BACKGROUND = "#0d1117"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FONT_SIZE = 14
_LINE_HEIGHT = 20
_CHARACTER_WIDTH = 8.43  # at this font size, of the widest font in the list
_MARGIN = 18

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)([mK])")

Piece = tuple[str, str]  # text, colour
Line = list[Piece]


def diff_lines() -> list[Line]:
    """The session that the picture shows, as coloured pieces."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REPO / "amd", folder / "amd")
        _printed(_START, folder)
        _printed(_CHANGE, folder)
        lines = [*_prompt(_CHANGE), []]
        for command in (_DIFF, _WORDS):
            coloured = command.replace("git ", "git -c color.ui=always ", 1)
            lines += [*_prompt(command), *(list(pieces(line)) for line in _printed(coloured, folder)), []]
    return lines[:-1]


def _printed(command: str, folder: Path) -> list[str]:
    code, lines = run_shell(command, folder)
    if code:
        raise RuntimeError("\n".join((f"{command}: exit code {code}", *lines)))
    return lines


def _prompt(command: str) -> Iterator[Line]:
    for number, line in enumerate(command.split("\n")):
        yield [("" if number else "$ ", _PROMPT), (line, _COLOURS["1"])]


def pieces(line: str) -> Iterator[Piece]:
    """A line with terminal colours as (text, colour)."""
    colour, at = _COLOURS[""], 0
    for match in _ESCAPE.finditer(line):
        if match.start() > at:
            yield line[at : match.start()], colour
        at = match.end()
        if match[2] == "m":
            colour = _COLOURS.get(match[1], _COLOURS[""])
    if at < len(line):
        yield line[at:], colour


def svg(lines: list[Line], title: str) -> str:
    """An SVG of coloured lines on a dark ground."""
    columns = max(sum(len(text) for text, _ in line) for line in lines)
    width = round(columns * _CHARACTER_WIDTH) + 2 * _MARGIN
    height = len(lines) * _LINE_HEIGHT + 2 * _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    body = "\n".join(_text(number, line) for number, line in enumerate(lines) if line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>\n'
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}">\n{body}\n</g>\n</svg>\n'
    )


def _text(number: int, line: Line) -> str:
    y = _MARGIN + number * _LINE_HEIGHT + _FONT_SIZE
    spans = "".join(f'<tspan fill="{colour}">{escape(text)}</tspan>' for text, colour in line if text)
    return f'<text x="{_MARGIN}" y="{y}" xml:space="preserve">{spans}</text>'


def picture() -> str:
    """The content of the picture's file."""
    return svg(diff_lines(), "A change of one cell: one palette line and one row line in git diff")


if __name__ == "__main__":
    write_if_changed(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / PICTURE, picture().encode())
