"""Numbers and lists in messages."""

from __future__ import annotations

from collections.abc import Iterable

from txtdb.wording import plural

# So many things are named in a message; `--format json` has all of them.
SHOWN = 3


def counted(number: int, word: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {plural(number, word)}"


def first(texts: Iterable[str]) -> str:
    """The first texts, and how many more there are."""
    every = list(texts)
    hidden = len(every) - SHOWN
    return "; ".join([*every[:SHOWN], *([f"and {hidden} more"] if hidden > 0 else [])])
