"""Evidence files → what they say of the cells that they decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from txtdb.evidence.named import EvidenceFile, stands_for
from txtdb.model.evidence import CellEvidence, Outcome
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional
from txtdb.review.records import Gain


@dataclass(frozen=True, slots=True)
class Stated:
    """What one run decided for a cell: the config that it leaves there, and the gain over the one before.

    `gain` is None where the run compared it with nothing: there was no incumbent, or none that was valid.
    """

    config: ConfigValues
    gain: Gain | None


Gains = Mapping[tuple[Functional, tuple[int, ...]], Stated]


def stated_gains(found: EvidenceFile, arch: str) -> Gains:
    """What an evidence file says of the cells of an arch: nothing where it cannot be used, or is of another arch."""
    evidence = found.evidence
    return dict(_stated(evidence.cells, found.display)) if evidence and evidence.arch == arch else {}


def _stated(cells: tuple[CellEvidence, ...], file: str) -> Iterator[tuple[tuple[Functional, tuple[int, ...]], Stated]]:
    for cell in cells:
        config = stands_for(cell)
        if config is not None:
            yield (cell.measured.functional, cell.measured.at), Stated(config, _gain(cell, file))


def _gain(cell: CellEvidence, file: str) -> Gain | None:
    """The winner's gain with the noise floor of the comparison; an incumbent that stays gains nothing on itself."""
    decision = cell.decision
    if decision.outcome is not Outcome.PUBLISHED or decision.gain_pct is None or decision.floor_pct is None:
        return None
    return Gain(decision.gain_pct, decision.floor_pct, file)
