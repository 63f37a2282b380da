"""The tuner's policy: every number that decides, in one place, each with its reason.

A family of kernels overrides by replacing fields: `overridden` takes what differs. `as_json` and `from_json` turn a
policy into what evidence holds and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

from txtdb.faults import Fault, Span
from txtdb.model.toml import shown
from txtdb.wording import did_you_mean

RULE = "policy"


def _because(default: Any, reason: str, least: float = 0, most: float = 1e9) -> Any:
    """A field with its reason and its range, both ends of which are allowed."""
    return field(default=default, metadata={"reason": reason, "least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Measurement:
    """How often a candidate is called and what happens between calls."""

    warm_up: int = _because(25, "clocks and caches settle within some 20 calls of 100 µs")
    calls: int = _because(100, "the median of 100 calls moves by less than 0.5 % between repetitions", 1)
    block_warm_up: int = _because(1, "the first call after another kernel fetches code and constants")
    flush_cache: bool = _because(True, "in use the inputs come from another kernel, seldom out of L2")
    fill: int = _because(1 << 17, "batch × heads × seqlen_q: smaller problems leave most devices in part idle", 1)


@dataclass(frozen=True, slots=True)
class Promotion:
    """When a challenger replaces the incumbent."""

    min_improvement_pct: float = _because(3.0, "a change has a price for reviewers and image count", 0, 100)
    max_false_promotion_pct: float = _because(1.0, "calibration raises the bar until A/A promotions are rarer", 0, 100)


@dataclass(frozen=True, slots=True)
class Finalists:
    """The second look of exhaustive search: the fastest few, in fresh workers."""

    count: int = _because(8, "the true best is among the first eight of 200 unless noise exceeds the field's spread", 1)
    rounds: int = _because(7, "the least number whose standard error is known to within 30 %", 2)
    calls: int = _because(25, "a round's median, not its single calls, is compared", 1)
    sigma: float = _because(3.0, "the noise floor in standard errors of the paired difference")


@dataclass(frozen=True, slots=True)
class Race:
    """Elimination of candidates that are proven slower. Percentages are of the time of the faster one."""

    delta_pct: float = _because(
        1.0, "configs within 1 % are one speed: run-to-run changes of clocks are as large", 0.001, 100
    )
    error_budget: float = _because(0.01, "all wrong eliminations and certificates of a race together", 1e-9, 0.5)
    block_calls: int = _because(3, "the median of three outlives one outlier, and blocks stay shorter than drift", 1)
    min_blocks: int = _because(4, "below that the standard error is a guess", 2)
    max_blocks: int = _because(200, "calls with 2 % noise need at most some 120; what is undecided then is noisier", 2)
    screen_pct: float = _because(50.0, "no disturbance but an outlier makes a call so much slower", 0)
    screen_blocks: int = _because(2, "a burst that hits all calls of one block spares the next", 1)
    floor_pct: float = _because(
        0.1, "least standard error of a comparison: a timer's steps make equal what is not", 1e-6, 100
    )


@dataclass(frozen=True, slots=True)
class Run:
    """The run as a whole. Limits are seconds."""

    batch: int = _because(
        2000, "candidates that a process checks before a new one: a start takes 5 s on a GPU, 2.5 ms for each", 1
    )
    compile_limit_s: float = _because(120.0, "slower compilation is a compiler's loop", 1e-3)
    call_limit_s: float = _because(10.0, "a candidate that needs seconds is no candidate", 1e-3)
    retries: int = _because(2, "a candidate whose worker died is tried again once alone")
    faults_in_a_row: int = _because(50, "a functional whose every candidate fails is given up", 1)
    power_factor: float = _because(
        2.0, "watts are not read of what is slower than the fastest by this: idle power alone makes up for it", 1
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it. `seed` steers the order inside blocks."""

    measurement: Measurement = Measurement()
    promotion: Promotion = Promotion()
    finalists: Finalists = Finalists()
    race: Race = Race()
    run: Run = Run()
    seed: int = _because(0, "runs are repeatable")


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a policy for display: `race.delta_pct`, its value, the default's, and the reason of the default."""

    name: str
    value: bool | int | float
    default: bool | int | float
    reason: str


def described(policy: Policy) -> tuple[Row, ...]:
    """Every number of a policy, in the order of the classes."""
    return tuple(_rows(policy, Policy(), ""))


def _rows(part: Any, default: Any, prefix: str) -> Iterator[Row]:
    for item in fields(part):
        value, usual = getattr(part, item.name), getattr(default, item.name)
        if is_dataclass(value):
            yield from _rows(value, usual, f"{item.name}.")
        else:
            yield Row(prefix + item.name, value, usual, item.metadata["reason"])


def as_json(policy: Policy) -> dict[str, Any]:
    """A plain JSON object: an object per group, and the seed."""
    return asdict(policy)


def from_json(value: object, span: Span) -> tuple[Policy | None, list[Fault]]:
    """The policy that a JSON object states whole; None with the faults where a name is missing, unknown or wrong."""
    return _checked(Policy(), value, span, whole=True)


def overridden(policy: Policy, changes: object, span: Span) -> tuple[Policy | None, list[Fault]]:
    """A policy with some fields replaced: `changes` has the form of `as_json`, with what differs alone."""
    return _checked(policy, changes, span, whole=False)


def _checked(base: Policy, value: object, span: Span, whole: bool) -> tuple[Policy | None, list[Fault]]:
    reader = _Reader(span, whole)
    policy: Policy = reader.part(base, value, "policy")
    if policy.race.max_blocks < policy.race.min_blocks:
        reader.fault("policy.race.max_blocks is less than min_blocks", "a race needs min_blocks before it can end")
    return (None if reader.faults else policy), reader.faults


class _Reader:
    """Replaces fields of a dataclass by those of a JSON object and collects what is wrong."""

    def __init__(self, span: Span, whole: bool) -> None:
        self.span = span
        self.whole = whole
        self.faults: list[Fault] = []

    def fault(self, message: str, hint: str = "") -> None:
        self.faults.append(Fault(RULE, self.span, message, hint))

    def part(self, base: Any, value: object, where: str) -> Any:
        if not isinstance(value, Mapping):
            self.fault(f"{where} must be an object, not {shown(value)}")
            return base
        known = {item.name: item for item in fields(base)}
        for name in value:
            if name not in known:
                hint = f"{did_you_mean(str(name), known)}known are {', '.join(known)}"
                self.fault(f"{where}: unknown name `{name}`", hint)
        found = {name: self.item(base, item, value, where) for name, item in known.items()}
        return replace(base, **found)

    def item(self, base: Any, item: Field[Any], value: Mapping[str, object], where: str) -> Any:
        old = getattr(base, item.name)
        if item.name not in value:
            if self.whole:
                self.fault(f"{where}.{item.name} is missing", "a policy is stated whole")
            return old
        if is_dataclass(old):
            return self.part(old, value[item.name], f"{where}.{item.name}")
        return self.number(item, value[item.name], old, f"{where}.{item.name}")

    def number(self, item: Field[Any], value: object, old: Any, where: str) -> Any:
        kind: Any = type(item.default)
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits:
            self.fault(f"{where} must be of type {kind.__name__}, not {shown(value)}")
            return old
        least, most = item.metadata["least"], item.metadata["most"]
        if not least <= value <= most:
            self.fault(f"{where} is {shown(value)}", f"it may be from {least:g} to {most:g}")
            return old
        return kind(value)
