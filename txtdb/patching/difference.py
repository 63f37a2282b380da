"""The cells in which lookups of two tables differ, and whether a patch can make up for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from txtdb.diff.planes import translated
from txtdb.diff.render import counted
from txtdb.faults import Fault, Span
from txtdb.layers.resolve import Bins, Fold, Layer, fold_layer
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import MASKED, UNSET, Cells, config_text, functional_text
from txtdb.model.values import Functional, functional_rank
from txtdb.patching.stack import CellTable, Mask, Stack, cut
from txtdb.patching.writing import trimmed

# A config of the second table that the first one's schema cannot say.
_UNTOLD = -3

_SCHEMA_HINT = "change the old side's schema first"


class Difference:
    """Two tables of one interface on the union of their functionals and bins.

    `wanted` holds what lookups of the second give, as numbers of the first one's pool, UNSET for none; `differs` marks
    the cells that a patch of the first has to set, none where all lookups agree. Both have shape (functionals, bins of
    axis 1, …). Functionals that the second table's schema does not have are left out: that is a difference of the
    schemas.
    """

    def __init__(self, before: ResolvedTable, after: ResolvedTable) -> None:
        self.before, self.after, self.stack = before, after, Stack(before)
        theirs = {_by_name(f, after, before) for f in after.functionals}
        every = sorted({*before.functionals, *theirs}, key=functional_rank)
        self.functionals = tuple(f for f in every if after.arch_schema.supports(_by_name(f, before, after)))
        self.bins: Bins = tuple(tuple(sorted({*a, *b})) for a, b in zip(before.bins, after.bins, strict=True))
        there = [_by_name(f, before, after) for f in self.functionals]
        cells, self._source = cut(after.fold, there, self.bins)
        self.wanted: Cells = self._numbers()[cells]
        agrees = np.maximum(cut(before.fold, self.functionals, self.bins)[0], UNSET) == self.wanted
        have, self._pinned = self._under_patch()
        self.differs: Mask = (np.maximum(have, UNSET) != self.wanted) & ~agrees.all()

    def _numbers(self) -> Cells:
        """The second table's config numbers → the first one's; masked and unset cells alike are none."""
        numbers = []
        for number in range(len(self.after.pool)):
            values = translated(self.after.pool[number], self.after.schema, self.before.schema)
            numbers.append(_UNTOLD if values is None else self.before.pool.intern(values))
        return np.array([*numbers, UNSET, UNSET], np.int32)

    def _under_patch(self) -> tuple[Cells, Mask]:
        """What the first table gives with a patch that brings all bins and sets no cell, and what its pins decide.

        A pin counts at its very bins: at a bin that comes between, lookups no longer end at the pin behind it.
        """
        cells, winner = cut(self.below, self.functionals, self.bins)
        fold = Fold(self.functionals, self.bins, cells, winner)
        number = len(self.before.layers)
        for pins in self.stack.pins:
            fold = fold_layer(fold, pins, number)
        cells, winner = cut(fold, self.functionals, self.bins)
        return cells, winner == number

    @property
    def below(self) -> Fold:
        """What a patch of the first table lies over."""
        return self.stack.fold(self.stack.below_pins)

    def patch(self) -> CellTable:
        """The cells of the patch: a mask where the second table gives none.

        Bins that the first table lacks are among the patch's, so that sizes between the bins get what the second gives.
        """
        content = np.where(self.wanted < 0, MASKED, self.wanted)
        cells = np.where(self.differs, content, UNSET).astype(np.int32)
        new = [set(wide).difference(have) for wide, have in zip(self.bins, self.before.bins, strict=True)]
        return trimmed(CellTable(self.functionals, self.bins, cells), new)

    def sources(self) -> list[Layer]:
        """The layers of the second table that the patch's cells come from, lowest first."""
        numbers = np.unique(self._source[self.differs & (self._source >= 0)]).tolist()
        return [self.after.layers[number] for number in numbers]

    def faults(self) -> Iterator[Fault]:
        """Differences that no patch of the first table can make up for."""
        yield from self._config_faults()
        yield from self._functional_faults()
        yield from self._pin_faults()

    def _config_faults(self) -> Iterator[Fault]:
        if (self.wanted[self.differs] == _UNTOLD).any():
            yield self._fault("some configs cannot be said in the old side's fields", _SCHEMA_HINT)
        for number in np.unique(self.wanted[self.differs]).tolist():
            reason = self.before.arch_schema.illegal(self.before.pool[number]) if number >= 0 else None
            if reason:
                text = config_text(self.before.schema, self.before.pool[number])
                yield self._fault(f"config {text} is illegal on the old side: {reason}", _SCHEMA_HINT)

    def _functional_faults(self) -> Iterator[Fault]:
        for place, functional in enumerate(self.functionals):
            if self.differs[place].any() and not self.before.arch_schema.supports(functional):
                text = functional_text(self.before.schema, functional)
                yield self._fault(f"{text} does not exist on the old side", _SCHEMA_HINT)

    def _pin_faults(self) -> Iterator[Fault]:
        """Cells that a pin of the first table decides, so that no patch does."""
        pinned = self.differs & self._pinned
        if pinned.any():
            first, *at = np.argwhere(pinned)[0].tolist()
            bins = ",".join(str(own[place]) for own, place in zip(self.bins, at, strict=True))
            text = functional_text(self.before.schema, self.functionals[first])
            message = f"{counted(int(pinned.sum()), 'cell')} of the difference pinned, the first at {text} {bins}"
            yield self._fault(message, "remove the pin first", self.stack.pins[0].file)

    def _fault(self, message: str, hint: str, file: str = "") -> Fault:
        arch, iface = self.before.arch, self.before.iface
        return Fault("cannot-patch", Span(file or f"{arch}/{iface}"), f"{arch} {iface}: {message}", hint)


def _by_name(functional: Functional, source: ResolvedTable, target: ResolvedTable) -> Functional:
    """A functional of one table in another's order of keys."""
    given = source.schema.functional_dict(functional)
    return tuple(given[name] for name in target.schema.key_names)
