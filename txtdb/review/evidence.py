"""Evidence files → what they say of a changed cell: whether they decided for it, and its gain over what was there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from txtdb.diff.edits import CellEdit, Content
from txtdb.evidence.decide import gain_over
from txtdb.evidence.named import open_evidence, stands_for
from txtdb.evidence.policy import Policy, from_json
from txtdb.faults import Fault, Severity, Span
from txtdb.layers.database import Database, LoadedFile
from txtdb.model.evidence import CellEvidence, Outcome
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional
from txtdb.review.records import Gain, TimeGain


@dataclass(frozen=True, slots=True)
class Run:
    """One cell of an evidence file. `policy` is what its samples are compared by, None where it cannot be used."""

    cell: CellEvidence
    file: str
    schema: Schema
    policy: Policy | None

    def decided_for(self, content: Content) -> bool:
        """Whether the run left just this config in the cell."""
        config = stands_for(self.cell)
        return config is not None and self._is(config, content)

    def stated_gain(self, old: Content, new: Content) -> Gain | None:
        """The gain that the run itself states, where its incumbent is the old config and its winner the new one."""
        decision = self.cell.decision
        if decision.outcome is not Outcome.PUBLISHED or decision.gain_pct is None or decision.floor_pct is None:
            return None
        sides = self._entrant(old), self._entrant(new)
        is_both = None not in sides and sides == (decision.incumbent, decision.winner)
        if not is_both:
            return None
        time = self._time_gain(decision.winner, decision.incumbent)
        return self._gain(decision.gain_pct, decision.floor_pct, time, derived=False)

    def derived_gain(self, old: Content, new: Content) -> Gain | None:
        """The gain by the samples of both configs, where the run measured both in the same blocks."""
        before, after = self._entrant(old), self._entrant(new)
        if before is None or after is None or before == after or self.policy is None:
            return None
        found = gain_over(self.cell.measured, self.policy, after, before)
        return self._gain(*found, self._time_gain(after, before), derived=True) if found else None

    def _gain(self, gain_pct: float, noise_pct: float, time: TimeGain | None, derived: bool) -> Gain:
        return Gain(gain_pct, noise_pct, self.file, derived, bool(self.cell.measured.watts), time)

    def _time_gain(self, entrant: int | None, other: int | None) -> TimeGain | None:
        """Where energy decided, the gain of time by the same samples: energy is saved by slower configs too."""
        measured = self.cell.measured
        if not measured.watts or self.policy is None or entrant is None or other is None:
            return None
        found = gain_over(replace(measured, watts=()), self.policy, entrant, other)
        return TimeGain(*found) if found else None

    def _entrant(self, content: Content) -> int | None:
        entrants = enumerate(self.cell.measured.entrants)
        return next((number for number, one in entrants if self._is(one.config, content)), None)

    def _is(self, config: ConfigValues, content: Content) -> bool:
        """Whether a config is a cell's content, whatever the order that the sides' schemas have their fields in."""
        return isinstance(content, tuple) and self.schema.config_dict(config) == dict(content)


Runs = Mapping[tuple[Functional, tuple[int, ...]], Run]


@dataclass
class Shelf:
    """The evidence that the layer files of one side name, each file read once. `faults` are those of what was read."""

    database: Database
    faults: list[Fault] = field(default_factory=list)
    _runs: dict[tuple[str, str, str], Runs] = field(default_factory=dict)

    def layer(self, file: str) -> LoadedFile | None:
        """A layer file by the name that spans carry; None for pins and files that are not there."""
        return self._files.get(file)

    def named_by(self, span: Span | None, edit: CellEdit) -> list[Run]:
        """What the evidence says of a cell that is named by the file which sets it at `span`, in the order of names."""
        loaded = self.layer(span.file) if span else None
        if loaded is None or loaded.source is None or edit.iface not in self.database.schemas:
            return []
        if loaded.file.arch != edit.arch:  # what was measured on a base says nothing of its heirs
            return []
        schema = self.database.schemas[edit.iface]
        names = (d.args[0] for d in loaded.source.document.directives if d.name == "evidence")
        found = (self._read(loaded, name, schema).get((edit.functional, edit.bins)) for name in names)
        return [run for run in found if run]

    @cached_property
    def _files(self) -> dict[str, LoadedFile]:
        layer_files = (file for listing in self.database.listings for file in listing.layer_files())
        return {file.display: self.database.file(file) for file in layer_files}

    def _read(self, loaded: LoadedFile, name: str, schema: Schema) -> Runs:
        """One evidence file, nothing where it cannot be used; one that is missing is a finding of the check."""
        arch = loaded.file.arch
        known = (arch, schema.iface, name)
        if known not in self._runs:
            found = open_evidence(loaded.file, name, schema)
            evidence = found.evidence if found.evidence and found.evidence.arch == arch else None
            policy = from_json(evidence.policy, Span(found.display))[0] if evidence else None
            cells = evidence.cells if evidence else ()
            runs = (Run(cell, found.display, schema, policy) for cell in cells)
            self._runs[known] = {(run.cell.measured.functional, run.cell.measured.at): run for run in runs}
            self.faults.extend(replace(fault, severity=Severity.WARNING) for fault in found.faults)
        return self._runs[known]


@dataclass(frozen=True)
class Evidences:
    """The evidence of both sides of a change."""

    old: Shelf
    new: Shelf

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Those of all files that were read."""
        return (*self.new.faults, *self.old.faults)

    def is_decided(self, edit: CellEdit) -> bool:
        """Whether evidence that its file names decided for a cell's new config."""
        return any(run.decided_for(edit.new) for run in self.new.named_by(edit.new_span, edit))

    def gain(self, edit: CellEdit) -> Gain | None:
        """The gain of a cell's new config over its old one; None where no evidence measured both.

        What the file that sets the cell now names comes first, then what the one names that set it before. A gain that
        a run states comes before one that is derived from samples.
        """
        if not isinstance(edit.old, tuple) or not isinstance(edit.new, tuple):
            return None
        now = _deciding_first(self.new.named_by(edit.new_span, edit), edit.new)
        then = _deciding_first(self.old.named_by(edit.old_span, edit), edit.old)
        return _first_gain(now, edit) or _first_gain(then, edit)


def _deciding_first(runs: Iterable[Run], content: Content) -> list[Run]:
    return sorted(runs, key=lambda run: not run.decided_for(content))


def _first_gain(runs: list[Run], edit: CellEdit) -> Gain | None:
    def gains() -> Iterator[Gain | None]:
        yield from (run.stated_gain(edit.old, edit.new) for run in runs)
        yield from (run.derived_gain(edit.old, edit.new) for run in runs)

    return next(filter(None, gains()), None)
