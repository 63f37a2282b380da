"""Header directives, merged one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from txtdb.merge.threeway import Three, merge_lists
from txtdb.merge.versions import Version
from txtdb.syntax.printer import HEADER_ORDER
from txtdb.syntax.tree import Directive

# (name, what tells it from others of that name): the axis, the evidence file, or nothing.
DirectiveId = tuple[str, str]

# What these say is merged with the grid and the palette.
_STRUCTURE = ("key", "axis", "config")


@dataclass(frozen=True, slots=True)
class MergedDirective:
    """One directive in three versions, each its whole line, or None where it does not stand there."""

    identity: DirectiveId
    lines: Three[str | None]

    @property
    def is_conflict(self) -> bool:
        """Whether both sides changed it, differently."""
        return not self.lines.agrees


def merge_header(versions: Three[Version]) -> list[MergedDirective]:
    """All directives but key, axis and config, in canonical order; those that a side removed are among them."""
    lines = versions.map(directive_lines)
    found: list[MergedDirective] = []
    for name in HEADER_ORDER:
        if name not in _STRUCTURE:
            own = Three(*(tuple(key for key in each if key[0] == name) for each in lines))
            order = merge_lists(own, rank=str)
            gone = {*own.base, *own.ours, *own.theirs}.difference(order)
            for identity in (*order, *sorted(gone)):
                found.append(MergedDirective(identity, Three(*(each.get(identity) for each in lines))))
    return found


def directive_lines(version: Version) -> dict[DirectiveId, str]:
    """The directives of a version in order, each as its line."""
    return {identity: " ".join(["#!", d.name, *d.args]) for identity, d in identified(version)}


def identified(version: Version) -> list[tuple[DirectiveId, Directive]]:
    """The directives of a version with their identities, in order."""
    seen: Counter[DirectiveId] = Counter()
    found = []
    for directive in version.document.directives:
        identity = (directive.name, directive.args[0] if directive.name in ("axis", "evidence") else "")
        seen[identity] += 1
        again = f" {seen[identity]}" if seen[identity] > 1 else ""
        found.append(((identity[0], identity[1] + again), directive))
    return found
