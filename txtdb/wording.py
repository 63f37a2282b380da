"""Small pieces of sentences that many messages share: plurals, and names that were perhaps meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

# How much alike two names are that one may be taken for the other, from 0 to 1.
_ALIKE = 0.6


def plural(count: int, word: str) -> str:
    """The word for so many of a thing: `file` of one, else `files`."""
    return word if count == 1 else f"{word}s"


def duration(seconds: float) -> str:
    """`45 s`, `3 min` or `2 h 5 min`."""
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def install_hint(extra: str) -> str:
    """What to do where a package of an extra is missing: this one is on no index, and installed from its clone."""
    return f"pip install '.[{extra}]' in the clone"


def near_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """At most `most` known names that are like `name`, the nearest first, equally near ones by letter."""
    matcher = SequenceMatcher(None, b=name.lower())
    ranked = []
    for other in set(known):
        matcher.set_seq1(other.lower())
        ranked.append((-matcher.ratio(), other))
    return [other for distance, other in sorted(ranked)[:most] if -distance >= _ALIKE]


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """`did you mean NAME? `, with a blank for what a hint says next; empty where no known name is near."""
    near = near_names(name, known, most)
    if not near:
        return ""
    *others, last = near
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? "
