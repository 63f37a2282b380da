"""What a reviewer should know about one changed cell: evidence, findings and flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from txtdb.check.finding import Finding
from txtdb.diff.edits import CellEdit, Content
from txtdb.faults import Fault
from txtdb.layers.database import Database, LoadedFile
from txtdb.patching.grounds import Past, no_past
from txtdb.review.evidence import Evidences, Shelf
from txtdb.review.grids import content_of
from txtdb.review.ground import MovedGround, before, is_ground_finding
from txtdb.review.origin import Cell, Place
from txtdb.review.records import Flag, ReviewedCell

_ILLEGAL_RULES = frozenset({"illegal-config", "backend-without-kernel"})


@dataclass
class Judge:
    """Judges cells by both sides and the findings of the new one's check. `past` tells earlier states than the old."""

    old: Database
    database: Database
    findings: tuple[Finding, ...]
    past: Past = no_past
    _uses: dict[Place, dict[Content, int]] = field(default_factory=dict)

    def cell(self, edit: CellEdit, heirs: tuple[str, ...], written: bool, idle: bool) -> ReviewedCell:
        """`written`: a file of this very arch writes the cell otherwise. `idle`: lookups give what they gave."""
        decided, gain = self._evidence.is_decided(edit), self._evidence.gain(edit)
        named = tuple(self._named(edit, heirs))
        moved = self._ground.under(edit)
        is_config = isinstance(edit.new, tuple)
        marks = {
            Flag.ILLEGAL: any(finding.rule in _ILLEGAL_RULES for finding in named),
            Flag.FINDING: any(finding.rule not in _ILLEGAL_RULES for finding in named),
            Flag.GROUND_MOVED: moved is not None,
            Flag.SLOWER: gain is not None and gain.is_slower,
            Flag.MORE_ENERGY: gain is not None and gain.takes_more_energy,
            Flag.WITHIN_NOISE: gain is not None and gain.is_noise,
            Flag.NO_EVIDENCE: is_config and not decided,
            Flag.NO_GAIN: is_config and decided and gain is None and isinstance(edit.old, tuple),
            Flag.USED_ONCE: not idle and self._use_counts((edit.arch, edit.iface)).get(edit.new, 0) == 1,
            Flag.THROUGH_BASE: not written,
            Flag.NO_EFFECT: idle,
            Flag.INHERITED: bool(heirs),
        }
        findings = (*named, *([moved] if moved else []))
        return ReviewedCell(edit, tuple(flag for flag in Flag if marks[flag]), heirs, gain, findings)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Those of the evidence that was read."""
        return self._evidence.faults

    def source(self, file: str) -> LoadedFile | None:
        """A layer file of the new side by the name that spans carry; None for pins and files that are gone."""
        return self._evidence.new.layer(file)

    @cached_property
    def _evidence(self) -> Evidences:
        return Evidences(Shelf(self.old), Shelf(self.database))

    @cached_property
    def _ground(self) -> MovedGround:
        return MovedGround(self.database, self.findings, before(self.old, self.past))

    @cached_property
    def _findings_at(self) -> dict[Place, dict[Cell, list[Finding]]]:
        found: dict[Place, dict[Cell, list[Finding]]] = {}
        for finding in self.findings:
            at = found.setdefault((finding.arch, finding.iface), {})
            for ref in finding.cells if not is_ground_finding(finding) else ():
                at.setdefault((tuple(value for _, value in ref.functional), ref.at), []).append(finding)
        return found

    def _named(self, edit: CellEdit, heirs: tuple[str, ...]) -> Iterator[Finding]:
        """The findings that name a cell, on its arch or on one that it changes with."""
        for arch in (edit.arch, *heirs):
            yield from self._findings_at.get((arch, edit.iface), {}).get((edit.functional, edit.bins), ())

    def _use_counts(self, place: Place) -> dict[Content, int]:
        """Content → cells of the resolved table that hold it."""
        if place not in self._uses:
            table = self.database.resolve(*place).table
            numbers, counts = np.unique(table.cells if table else [], return_counts=True)
            pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
            self._uses[place] = {content_of(table, int(number)): count for number, count in pairs if number >= 0}
        return self._uses[place]
