"""The templates of generated files. Their holes look like `${name}`; a hole without a value is a bug and raises."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from string import Template

_FOLDER = Path(__file__).parent / "templates"


@cache
def _template(name: str) -> Template:
    return Template((_FOLDER / f"{name}.in").read_text(encoding="utf-8"))


def render(name: str, **holes: str | int) -> str:
    """The text of a template with all holes filled. Raises KeyError for a hole without a value."""
    return _template(name).substitute(holes)


def lines(texts: Iterable[str], indent: str = "") -> str:
    """Texts as lines, indented, without a final line end."""
    return "\n".join(indent + text for text in texts)


def number_lines(texts: list[str], per_line: int, indent: str) -> str:
    """Numbers as lines with commas, without a final comma or line end."""
    chunks = (texts[start : start + per_line] for start in range(0, len(texts), per_line))
    return ",\n".join(indent + ", ".join(chunk) for chunk in chunks)
