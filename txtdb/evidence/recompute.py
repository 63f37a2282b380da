"""One run's evidence held against itself: every decision made again from its samples, and the bar from what sets it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from txtdb.evidence.calibration import calibration_of
from txtdb.evidence.decide import decide
from txtdb.evidence.files import BAD
from txtdb.evidence.named import is_partial, partial_fault
from txtdb.evidence.policy import Policy, from_json
from txtdb.evidence.processes import in_processes
from txtdb.faults import Fault, Span
from txtdb.model.evidence import CellEvidence, Decision, Evidence, Standing
from txtdb.model.schema import Schema
from txtdb.model.values import print_values

BAR = "bar-changed"
DECISION = "decision-not-reproduced"

# Numbers that go through a logarithm or a quantile end differently on other machines, in the last digits.
_ALIKE = 1e-9
# What of a policy makes promotions easier, or samples say less: group, name, and whether more of it is the easier.
_EASIER = (
    ("measurement", "warm_up", False),
    ("measurement", "calls", False),
    ("measurement", "block_warm_up", False),
    ("measurement", "flush_cache", False),
    ("measurement", "fill", False),
    ("promotion", "min_improvement_pct", False),
    ("promotion", "max_false_promotion_pct", True),
    ("finalists", "count", False),
    ("finalists", "rounds", False),
    ("finalists", "calls", False),
    ("finalists", "sigma", False),
    ("race", "delta_pct", True),
    ("race", "error_budget", True),
    ("race", "block_calls", False),
    ("race", "min_blocks", False),
    ("race", "screen_pct", False),
    ("race", "screen_blocks", False),
    ("race", "floor_pct", False),
)  # fmt: skip
_BAR_FIELDS = ("bar_pct", "margin_pct")
# Larger numbers in a calibration mean nothing.
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Difference:
    """What one member of a decision is stated as, and what the samples give."""

    name: str
    stated: object
    made: object

    def __str__(self) -> str:
        stated, made = _shown(self.stated), _shown(self.made)
        if stated == made:  # they differ behind the digits that are shown
            stated, made = repr(self.stated), repr(self.made)
        return f"{self.name} is stated as {stated}, recomputed it is {made}"


def evidence_faults(evidence: Evidence, file: str, schema: Schema, asked: Policy) -> Iterator[tuple[Fault, int | None]]:
    """Each fault of a run, with the number of the cell that it is about: `partial-evidence`, `bar-changed` and
    `decision-not-reproduced`; `bad-evidence` where the policy cannot be used, and then no decision is made again.

    `asked` is what policies must ask for at least.
    """
    span = Span(file)
    if is_partial(evidence):
        yield partial_fault(evidence, span), None
    policy, faults = from_json(evidence.policy, span)
    if policy is None:
        more = f"; {len(faults) - 1} more are wrong" if len(faults) > 1 else ""
        yield replace(faults[0], rule=BAD, message=f"{faults[0].message}{more}"), None
        return
    for message in (*lax(policy, asked), *_calibration_problems(evidence, policy)):
        yield Fault(BAR, span, message, "measure again, or tell verify what policy is asked for"), None
    bar = demanded_bar(evidence.calibration, policy)

    def faults_of(number: int) -> list[Fault]:
        return list(_cell_faults(evidence.cells[number], number, policy, bar, span, schema))

    found = in_processes(faults_of, len(evidence.cells))
    yield from ((fault, number) for number, own in enumerate(found) for fault in own)


def demanded_bar(calibration: Mapping[str, Any] | None, policy: Policy) -> float:
    """The larger of the policy's bar and that of the calibration; the noise floor of each cell comes on top."""
    given = _number(calibration.get("bar_pct")) if calibration else None
    return max(policy.promotion.min_improvement_pct, given or 0.0)


def differences(stated: Decision, made: Decision) -> list[Difference]:
    """The members in which two decisions differ. Sums must be equal to the bit, other floats to nine digits."""
    if stated == made:
        return []
    names = (item.name for item in fields(Decision) if item.name != "standings")
    pairs = ((name, getattr(stated, name), getattr(made, name)) for name in names)
    found = [Difference(*pair) for pair in pairs if not _same(*pair)]
    return [*found, *_standing_differences(stated.standings, made.standings)]


def cell_words(cell: CellEvidence) -> str:
    """A cell for people: `[fp16 0 64] 64,128`."""
    return f"[{print_values(cell.measured.functional)}] {','.join(map(str, cell.measured.at))}"


def _cell_faults(
    cell: CellEvidence, number: int, policy: Policy, bar: float, span: Span, schema: Schema
) -> Iterator[Fault]:
    found = differences(cell.decision, decide(cell.measured, policy, bar))
    names = {item.name for item in found}
    if "bar_pct" in names and "floor_pct" not in names:
        (item,) = (item for item in found if item.name == "bar_pct")
        hint = "it is the largest of the policy's least improvement, the calibrated bar and the noise floor"
        yield Fault(BAR, span, f"cells[{number}] {cell_words(cell)}: {item}", hint)
        found = [item for item in found if item.name not in _BAR_FIELDS]
    if found:
        more = f"; {len(found) - 1} more differ" if len(found) > 1 else ""
        hint = "a sample or the decision was changed; restore the file, or measure again"
        yield Fault(DECISION, span, f"cells[{number}] {cell_words(cell)}: {_gravest(found)}{more}", hint)


def _gravest(found: list[Difference]) -> Difference:
    """What is told of several differences: what was decided, then by how much, then the sums."""
    order = ("outcome", "winner", "reason", "incumbent", "certified", "gain_pct", "floor_pct", "bar_pct", "margin_pct")
    return min(found, key=lambda item: order.index(item.name) if item.name in order else len(order))


def _same(name: str, stated: object, made: object) -> bool:
    if name != "total_ns" and isinstance(stated, float) and isinstance(made, float):
        return math.isclose(stated, made, rel_tol=_ALIKE, abs_tol=_ALIKE) or (stated != stated and made != made)
    return stated == made


def _standing_differences(stated: tuple[Standing, ...], made: tuple[Standing, ...]) -> Iterator[Difference]:
    old, new = [item.entrant for item in stated], [item.entrant for item in made]
    if old != new:
        yield Difference("standings", f"of entrants {old}", f"of entrants {new}")
        return
    for one, other in zip(stated, made, strict=True):
        for item in fields(Standing):
            values = getattr(one, item.name), getattr(other, item.name)
            if not _same(item.name, *values):
                yield Difference(f"`{item.name}` of entrant {one.entrant}", *values)


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def lax(policy: Policy, asked: Policy) -> Iterator[str]:
    """Where a policy asks for less than what is asked for."""
    for group, name, more_is_easier in _EASIER:
        have, want = (getattr(getattr(item, group), name) for item in (policy, asked))
        if (have > want) if more_is_easier else (have < want):
            bound = "" if isinstance(want, bool) else "at most " if more_is_easier else "at least "
            yield f"policy {group}.{name} is {_shown(have)}; {bound}{_shown(want)} is asked for"


def _calibration_problems(evidence: Evidence, policy: Policy) -> Iterator[str]:
    """Where the calibration is not what its trials give, or its trials are of another kind than the cells."""
    stated = evidence.calibration
    if stated is None:
        return
    if not evidence.trials:
        yield "the calibration has no trials: nothing says what bar they demand"
        return
    slower_pct = _number(_member(stated, "power.slower_pct")) or 0.0
    made = _flat(calibration_of(evidence.trials, slower_pct, policy))
    pairs = (Difference(name, _member(stated, name), value) for name, value in made)
    found = [item for item in pairs if not _same(item.name, item.stated, item.made)]
    if found:
        more = f"; {len(found) - 1} more differ" if len(found) > 1 else ""
        yield f"calibration {found[0]}{more}"
    strategies = {cell.measured.strategy for cell in evidence.cells}
    if strategies and {trial.strategy for trial in evidence.trials} != strategies:
        yield f"the calibration is of another strategy than the cells, which are by {' and '.join(sorted(strategies))}"
    if any(cell.measured.watts for cell in evidence.cells):
        yield "the trials of the calibration are of times, and the cells are decided by energy"


def _flat(members: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    """Members of nested objects as `outer.inner`."""
    for name, value in members.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _member(members: Mapping[str, Any], name: str) -> object:
    """What an object has at `outer.inner`; None where it has nothing there."""
    found: object = members
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _number(value: object) -> float | None:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_one and abs(value) <= _MOST else None  # type: ignore[arg-type]
