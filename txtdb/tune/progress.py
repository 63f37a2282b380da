"""What a person sees of a run: a line for each cell that is done, the time that is left, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txtdb.evidence.watts import usable_watts
from txtdb.model.evidence import CellEvidence, Entrant, Evidence, Measured, Outcome, Reason, Status
from txtdb.model.schema import Schema
from txtdb.model.table import functional_text
from txtdb.model.values import Functional
from txtdb.tune.comparison import (
    Found,
    change_words,
    changed_fields,
    counted,
    found_in,
    is_comparison,
    is_worse,
    sides_of,
)
from txtdb.tune.fields import Cell, CellPlan
from txtdb.wording import duration, plural

# Between lines that tell the time that is left.
_QUIET_S = 10.0

# Of what a compiler says, so much is told in the line of a cell.
_DETAIL_LENGTH = 160

# Why a cell keeps what it has, for people; where energy decides, some of it is said in other words.
_KEPT = {
    Reason.BELOW_BAR: "the gain is below the bar",
    Reason.INCUMBENT_WINS: "it is the fastest",
    Reason.NO_CERTIFICATE: "nothing is proven faster",
}
_KEPT_BY_ENERGY = {
    **_KEPT,
    Reason.INCUMBENT_WINS: "it needs the least energy",
    Reason.NO_CERTIFICATE: "nothing is proven to need less energy",
}


class Progress:
    """Tells how far a run is: `echo` takes a line for each cell that is done, `tell` at times how long it may last.

    `clock` gives seconds that never go back. `estimate_s` is what all cells are guessed to take, which stands in until
    a cell was measured.
    """

    def __init__(
        self,
        schema: Schema,
        plans: Sequence[CellPlan],
        echo: Callable[[str], None],
        tell: Callable[[str], None],
        clock: Callable[[], float],
        estimate_s: float,
    ) -> None:
        self._schema, self._echo, self._tell, self._clock = schema, echo, tell, clock
        self._total, self._cells = len(plans), 0
        self._estimate_s = estimate_s
        # Cells are weighed by their candidates: those that were done, that this run measured, and that are left.
        self._measured = 0
        self._left = self._planned = sum(len(plan.candidates) for plan in plans)
        self._ticks = 0
        self._start = self._last = clock()

    def tick(self) -> None:
        """A candidate or a measurement is done."""
        self._ticks += 1
        now = self._clock()
        if now - self._last >= _QUIET_S:
            self._last = now
            self._tell(f"{self._cells}/{self._total} cells, {self._ticks} measurements{self._time_left(now)}")

    def cell(self, plan: CellPlan, cell: CellEvidence) -> None:
        """A cell is done."""
        self._cells += 1
        self._left -= len(plan.candidates)
        self._measured += len(plan.candidates) if self._ticks else 0
        text = f"{cell_name(self._schema, plan.cell)}: {cell_text(self._schema, cell)}"
        self._echo(f"[{self._cells}/{self._total}] {text}")

    def _time_left(self, now: float) -> str:
        """By how long the cells took that this run measured; before the first one is done, by the estimate."""
        spent = now - self._start
        if self._measured:
            return f", about {duration(spent / self._measured * self._left)} left"
        guess = self._estimate_s * self._left / max(1, self._planned)
        if spent >= guess:
            return f", longer than the estimate of {duration(guess)}"
        return f", about {duration(guess - spent)} left by the estimate"


class TrialProgress:
    """Tells at times how far a calibration is."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._tell, self._clock = tell, clock
        self._start = self._last = clock()

    def tick(self, done: int, planned: int) -> None:
        """So many trials of those planned are done."""
        now = self._clock()
        if now - self._last >= _QUIET_S:
            self._last = now
            left = (now - self._start) / done * (planned - done)
            self._tell(f"calibration: {done}/{planned} trials, about {duration(left)} left")


def cell_name(schema: Schema, cell: Cell) -> str:
    """A cell for people: `dtype=fp16 head_dim=64 seqlen_q=128`."""
    at = " ".join(f"{name}={value}" for name, value in zip(schema.axis_names, cell.at, strict=True))
    return f"{functional_text(schema, cell.functional)} {at}".strip()


def cell_text(schema: Schema, cell: CellEvidence) -> str:
    """What became of a cell: `BLOCK_N 32→64, gain 5.2 % ± 0.4`."""
    measured, decision = cell.measured, cell.decision
    if decision.outcome is Outcome.FAILED:
        return f"no valid candidate ({_fault_text(measured)})"
    if decision.outcome is Outcome.UNMEASURED:
        return "not measured: the device stays throttled"
    if decision.reason is Reason.COMPARED_ONLY:
        return _compared_text(schema, cell)
    if decision.outcome is Outcome.RETAINED:
        why = _KEPT_BY_ENERGY if measured.watts else _KEPT
        return f"kept, {why[decision.reason]}{_gain_text(cell)}"
    assert decision.winner is not None, "what is published has a winner"
    winner = measured.entrants[decision.winner].config
    old = None if measured.incumbent is None else measured.entrants[measured.incumbent]
    change = changed_fields(schema, old.config if old else None, winner)
    if decision.reason is Reason.INCUMBENT_FAILED and old:
        return f"{change}, because the incumbent failed: {_failure(old)}"
    return f"{change}{_gain_text(cell) or ', where there was none'}"


def _compared_text(schema: Schema, cell: CellEvidence) -> str:
    sides, found = sides_of(cell), found_in(cell)
    change = changed_fields(schema, sides.old.config, sides.new.config)
    if found is Found.MENDED:
        return f"{change}, the old one failed: {_failure(sides.old)}"
    if found is Found.BROKEN:
        return f"{change}, not valid: {_failure(sides.new)}"
    return f"{change}, {change_words(cell)}"


def _failure(entrant: Entrant) -> str:
    """Why an entrant is not valid; a right one has times or watts that cannot be used."""
    if entrant.status is Status.OK:
        return "its readings cannot be used"
    return f"{entrant.status}{f' ({entrant.detail})' if entrant.detail else ''}"


def _gain_text(cell: CellEvidence) -> str:
    """`, gain 5.2 % ± 0.4`, or `, 5.2 % ± 0.4 less energy` where energy decides."""
    decision = cell.decision
    if decision.gain_pct is None or decision.floor_pct is None or decision.winner == decision.incumbent:
        return ""
    if cell.measured.watts:
        word = "more" if decision.gain_pct < 0 else "less"
        return f", {abs(decision.gain_pct):.1f} % ± {decision.floor_pct:.1f} {word} energy"
    return f", gain {decision.gain_pct:.1f} % ± {decision.floor_pct:.1f}"


def _fault_text(measured: Measured) -> str:
    """How many candidates ended in which way, why the first of each did, and how many right ones have no watts."""
    counts, details = Counter(entrant.status for entrant in measured.entrants), _first_details(measured.entrants)
    dark = counts[Status.OK] - len(usable_watts(measured)) if measured.watts else 0
    told = [f"{counts[status]} {status}{_after_colon(details.get(status))}" for status in Status if counts[status]]
    return ", ".join([*told, *([f"{dark} without a usable reading of watts"] if dark else [])])


def _first_details(entrants: Iterable[Entrant]) -> dict[Status, str]:
    """What was said of the first candidate at fault of each status."""
    found: dict[Status, str] = {}
    for entrant in entrants:
        if entrant.detail and entrant.status is not Status.OK:
            found.setdefault(entrant.status, " ".join(entrant.detail.split()))
    return found


def _after_colon(detail: str | None) -> str:
    if detail is None:
        return ""
    return f": {detail}" if len(detail) <= _DETAIL_LENGTH else f": {detail[: _DETAIL_LENGTH - 1]}…"


def calibration_text(found: Mapping[str, Any]) -> str:
    """What trials of equals came to: `calibration: 0 of 100 equals promoted, 25 of 25 twins …, bar 3.0 %`."""
    equals, twins = found["false_promotions"], found["power"]
    rates = f"{equals['count']} of {equals['trials']} equals promoted"
    power = f"{twins['count']} of {twins['trials']} against a twin {twins['slower_pct']:g} % slower"
    return f"calibration: {rates}, {power}; the bar is {found['bar_pct']:.1f} %"


@dataclass(frozen=True)
class Summary:
    """A run in numbers.

    `worse` counts cells that a comparison found not valid any more, or slower by the bar or more; `functionals` tells
    for each functional what its cells came to; `compared` is what a comparison found, empty for another run. `details`
    has what was said of the first candidate of each status, in the cells without a valid one.
    """

    planned: int
    outcomes: dict[Outcome, int]
    statuses: dict[Status, int]
    functionals: dict[Functional, dict[Outcome, int]]
    state: str
    total_s: float
    dropped: int
    worse: int
    compared: str
    details: dict[Status, str]

    @property
    def is_clean(self) -> bool:
        """Whether every cell was measured and had a valid candidate, and none is slower in a comparison."""
        good = self.outcomes[Outcome.PUBLISHED] + self.outcomes[Outcome.RETAINED]
        return good == self.planned and not self.worse


def summary_of(evidence: Evidence) -> Summary:
    """Count the cells and candidates of a run."""
    outcomes = Counter(cell.decision.outcome for cell in evidence.cells)
    outcomes[Outcome.UNMEASURED] += evidence.planned - len(evidence.cells)
    groups: dict[Functional, Counter[Outcome]] = {}
    for cell in evidence.cells:
        groups.setdefault(cell.measured.functional, Counter())[cell.decision.outcome] += 1
    statuses = Counter(entrant.status for cell in evidence.cells for entrant in _tried(cell))
    return Summary(
        planned=evidence.planned,
        outcomes={outcome: outcomes[outcome] for outcome in Outcome},
        statuses={status: statuses[status] for status in Status},
        functionals={key: dict(found) for key, found in groups.items()},
        state=evidence.state,
        total_s=sum(cell.decision.total_ns for cell in evidence.cells) / 1e9,
        dropped=sum(cell.measured.dropped for cell in evidence.cells),
        worse=sum(map(is_worse, evidence.cells)),
        compared=counted(evidence.cells) if is_comparison(evidence) else "",
        details=_first_details(one for cell in evidence.cells if _failed(cell) for one in cell.measured.entrants),
    )


def _failed(cell: CellEvidence) -> bool:
    return cell.decision.outcome is Outcome.FAILED


def _tried(cell: CellEvidence) -> Iterator[Entrant]:
    """The entrants of a cell, without those that a run did not come to because it was ended."""
    is_open = cell.decision.outcome is Outcome.UNMEASURED
    return (one for one in cell.measured.entrants if not (is_open and one.status is Status.NOT_RUN))


def summary_lines(schema: Schema, summary: Summary) -> Iterator[str]:
    """The end of a run, for people."""
    counts = summary.outcomes
    outcome = f"{counts[Outcome.PUBLISHED]} published, {counts[Outcome.RETAINED]} kept"
    yield f"{summary.state}: {summary.compared or outcome}"
    if counts[Outcome.FAILED]:
        yield f"no valid candidate: {_counted(counts[Outcome.FAILED], 'cell')}"
        yield from (f"  {status}: {detail}" for status, detail in summary.details.items())
    if counts[Outcome.UNMEASURED]:
        yield f"not measured: {_counted(counts[Outcome.UNMEASURED], 'cell')}"
    if summary.worse:
        yield f"worse than before: {_counted(summary.worse, 'cell')}"
    faults = {status: number for status, number in summary.statuses.items() if number and status is not Status.OK}
    if faults:
        yield f"faults: {', '.join(f'{number} {status}' for status, number in faults.items())}"
    if summary.dropped:
        yield f"dropped: {_counted(summary.dropped, 'call')}, because the device throttled"
    if any(counts[outcome] for outcome in (Outcome.FAILED, Outcome.UNMEASURED)):
        for functional, found in summary.functionals.items():
            text = ", ".join(f"{found[outcome]} {outcome}" for outcome in Outcome if found.get(outcome))
            yield f"  {functional_text(schema, functional)}: {text}"
    yield f"device time: {summary.total_s:.3g} s in samples"


def summary_json(summary: Summary) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "state": summary.state,
        "cells": {str(outcome): number for outcome, number in summary.outcomes.items()},
        "candidates": {str(status): number for status, number in summary.statuses.items()},
        "dropped": summary.dropped,
        "details": {str(status): detail for status, detail in summary.details.items()},
        "slower": summary.worse,
        "sampled_s": summary.total_s,
    }


def _counted(number: int, word: str) -> str:
    return f"{number} {plural(number, word)}"
