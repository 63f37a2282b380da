"""What a reviewer should know about one changed cell: evidence, findings and flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from txtdb.check.finding import Finding
from txtdb.diff.edits import CellEdit, Content
from txtdb.evidence.named import open_evidence
from txtdb.faults import Fault, Severity
from txtdb.layers.database import Database, LoadedFile
from txtdb.model.schema import Schema
from txtdb.review.evidence import Gains, Stated, stated_gains
from txtdb.review.grids import content_of
from txtdb.review.origin import Cell, Place
from txtdb.review.records import Flag, ReviewedCell

_ILLEGAL_RULES = frozenset({"illegal-config", "backend-without-kernel"})
_GROUND_RULE = "stale-onto"


@dataclass
class Judge:
    """Judges cells by the new side and the findings of its check. `faults` are those of the evidence that was read."""

    database: Database
    findings: tuple[Finding, ...]
    faults: list[Fault] = field(default_factory=list)
    _gains: dict[tuple[str, str], Gains] = field(default_factory=dict)
    _uses: dict[Place, dict[Content, int]] = field(default_factory=dict)

    def cell(self, edit: CellEdit, heirs: tuple[str, ...], written: bool, idle: bool) -> ReviewedCell:
        """`written`: a file of this very arch writes the cell otherwise. `idle`: lookups give what they gave."""
        stated = self._stated(edit)
        gain = stated.gain if stated else None
        findings = tuple(self._named(edit, heirs))
        marks = {
            Flag.ILLEGAL: any(finding.rule in _ILLEGAL_RULES for finding in findings),
            Flag.FINDING: any(finding.rule not in {*_ILLEGAL_RULES, _GROUND_RULE} for finding in findings),
            Flag.GROUND_MOVED: any(finding.rule == _GROUND_RULE for finding in findings),
            Flag.SLOWER: gain is not None and gain.gain_pct < -gain.noise_pct,
            Flag.WITHIN_NOISE: gain is not None and abs(gain.gain_pct) <= gain.noise_pct,
            Flag.NO_EVIDENCE: stated is None and isinstance(edit.new, tuple),
            Flag.USED_ONCE: not idle and self._use_counts((edit.arch, edit.iface)).get(edit.new, 0) == 1,
            Flag.THROUGH_BASE: not written,
            Flag.NO_EFFECT: idle,
            Flag.INHERITED: bool(heirs),
        }
        return ReviewedCell(edit, tuple(flag for flag in Flag if marks[flag]), heirs, gain, findings)

    def source(self, file: str) -> LoadedFile | None:
        """A layer file of the new side by the name that spans carry; None for pins and files that are gone."""
        return self._files.get(file)

    @cached_property
    def _files(self) -> dict[str, LoadedFile]:
        layer_files = (file for listing in self.database.listings for file in listing.layer_files())
        return {file.display: self.database.file(file) for file in layer_files}

    @cached_property
    def _findings_at(self) -> dict[Place, dict[Cell, list[Finding]]]:
        found: dict[Place, dict[Cell, list[Finding]]] = {}
        for finding in self.findings:
            at = found.setdefault((finding.arch, finding.iface), {})
            for ref in finding.cells:
                at.setdefault((tuple(value for _, value in ref.functional), ref.at), []).append(finding)
        return found

    @cached_property
    def _moved_ground(self) -> dict[str, Finding]:
        return {finding.span.file: finding for finding in self.findings if finding.rule == _GROUND_RULE}

    def _named(self, edit: CellEdit, heirs: tuple[str, ...]) -> Iterator[Finding]:
        """The findings that name a cell, on its arch or on one that it changes with."""
        for arch in (edit.arch, *heirs):
            yield from self._findings_at.get((arch, edit.iface), {}).get((edit.functional, edit.bins), ())
        if edit.new_span and edit.new_span.file in self._moved_ground:
            yield self._moved_ground[edit.new_span.file]

    def _use_counts(self, place: Place) -> dict[Content, int]:
        """Content → cells of the resolved table that hold it."""
        if place not in self._uses:
            table = self.database.resolve(*place).table
            numbers, counts = np.unique(table.cells if table else [], return_counts=True)
            pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
            self._uses[place] = {content_of(table, int(number)): count for number, count in pairs if number >= 0}
        return self._uses[place]

    def _stated(self, edit: CellEdit) -> Stated | None:
        """What the evidence says of a cell's new config that the file names which sets the cell."""
        loaded = self.source(edit.new_span.file) if edit.new_span else None
        if loaded is None or loaded.source is None or not isinstance(edit.new, tuple):
            return None
        schema, config = self.database.schemas[edit.iface], dict(edit.new)
        names = (d.args[0] for d in loaded.source.document.directives if d.name == "evidence")
        found = (self._read(loaded, name, schema).get((edit.functional, edit.bins)) for name in names)
        return next((item for item in found if item and schema.config_dict(item.config) == config), None)

    def _read(self, loaded: LoadedFile, name: str, schema: Schema) -> Gains:
        """One evidence file of an arch, read once; a file that is missing is a finding of the check."""
        known = (loaded.file.arch, f"{schema.iface} {name}")
        if known not in self._gains:
            found = open_evidence(loaded.file, name, schema)
            self._gains[known] = stated_gains(found, loaded.file.arch)
            self.faults.extend(replace(fault, severity=Severity.WARNING) for fault in found.faults)
        return self._gains[known]
