"""Three versions of one thing → the merged one. Everything here gives the same when ours and theirs change places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

SIDES = ("base", "ours", "theirs")


@dataclass(frozen=True, slots=True)
class Three(Generic[T]):
    """What the common ancestor has, and what each side made of it."""

    base: T
    ours: T
    theirs: T

    def __iter__(self) -> Iterator[T]:
        return iter((self.base, self.ours, self.theirs))

    def map(self, function: Callable[[T], U]) -> Three[U]:
        """The function's value for each version."""
        return Three(function(self.base), function(self.ours), function(self.theirs))

    @property
    def agrees(self) -> bool:
        """Whether at most one side changed it, or both alike."""
        return self.ours == self.theirs or self.base in (self.ours, self.theirs)

    @property
    def settled(self) -> T:
        """What the side that changed it made of it; the base where both did so differently."""
        if not self.agrees:
            return self.base
        return self.theirs if self.ours == self.base else self.ours


def merge_sets(sets: Three[set[T]]) -> set[T]:
    """What both have, and what either added: a member that one side removed is gone."""
    return (sets.ours & sets.theirs) | ((sets.ours | sets.theirs) - sets.base)


def merge_names(names: Three[tuple[str, ...]]) -> tuple[str, ...]:
    """The order of names of which every version has all or none."""
    base = names.base or min(filter(None, (names.ours, names.theirs)), default=())
    changed = {order for order in (names.ours, names.theirs) if order and order != base}
    return changed.pop() if len(changed) == 1 else base


def merge_lists(lists: Three[tuple[T, ...]], rank: Callable[[T], Any]) -> tuple[T, ...]:
    """A list of different members. Where both sides changed it, those of the base come first, then new ones by rank."""
    if lists.agrees:
        return lists.settled
    members = merge_sets(lists.map(set))
    new = members.difference(lists.base)
    return (*(member for member in lists.base if member in members), *sorted(new, key=rank))


def merge_lines(lines: Three[tuple[str, ...]]) -> tuple[str, ...]:
    """Comment lines. Where both sides changed them, what either added is kept, each side's together."""
    if lines.agrees:
        return lines.settled
    common = Counter(lines.base) & Counter(lines.ours) & Counter(lines.theirs)
    kept = tuple(_within(lines.base, common))
    first, second = sorted(tuple(_beyond(side, lines.base)) for side in (lines.ours, lines.theirs))
    return (*kept, *first, *_beyond(second, first))


def _within(lines: Iterable[str], budget: Counter[str]) -> Iterator[str]:
    left = Counter(budget)
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
            yield line


def _beyond(lines: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    """The lines that are not among others; one that stands there once covers one."""
    left = Counter(others)
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        else:
            yield line
