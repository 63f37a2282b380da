"""Which table is based on which: the order in which they are resolved, and circles among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from txtdb.faults import Span


@dataclass(frozen=True, slots=True)
class BaseLink:
    """One `#! base`: the arch whose table holds it, the arch that it names, and where."""

    arch: str
    base: str
    span: Span


# Arch → the links of its tables, lowest root first.
Links = Callable[[str], Sequence[BaseLink]]


def base_order(arch: str, links: Links) -> list[str]:
    """The archs that an arch is based on and itself: each once, bases first.

    A loop and no recursion, because a chain of bases may be longer than Python's stack.
    """
    order: list[str] = []
    seen = {arch}
    open_archs: list[tuple[str, Iterator[BaseLink]]] = [(arch, iter(links(arch)))]
    while open_archs:
        name, rest = open_archs[-1]
        base = next((link.base for link in rest if link.base not in seen), None)
        if base is None:
            order.append(name)
            open_archs.pop()
        else:
            seen.add(base)
            open_archs.append((base, iter(links(base))))
    return order


def circle(link: BaseLink, links: Links) -> list[BaseLink]:
    """The shortest circle that a link lies on, from its first arch by name on; empty where it lies on none."""
    reached = {link.base: link}
    waiting = deque([link.base])
    while waiting and link.arch not in reached:
        for further in links(waiting.popleft()):
            if further.base not in reached:
                reached[further.base] = further
                waiting.append(further.base)
    if link.arch not in reached:
        return []
    ring = [reached[link.arch]]
    while ring[-1] != link:
        ring.append(reached[ring[-1].arch])
    ring.reverse()
    first = min(range(len(ring)), key=lambda number: ring[number].arch)
    return ring[first:] + ring[:first]
