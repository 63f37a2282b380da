"""The race and the gate against simulated fields whose truth is known, beside exhaustive search.

    python -m tools.bench.races --races 2000 --candidates 200 --out docs/data/races.json

A field is log-normal: the best takes 1, the median 2.5, the worst 20; five more are within 2 % of the best. Calls have
log-normal noise and outliers with a Pareto law, clocks swing with time, and the first call after another kernel is
slower by an amount of the candidate's own. Measuring time is the sum of all calls, those of warm-up included.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from txtdb.evidence.decide import decide
from txtdb.evidence.finalists import finalists
from txtdb.evidence.policy import Policy, as_json
from txtdb.evidence.race import Race, block_order
from txtdb.files import atomic_write
from txtdb.model.evidence import Block, Decision, Entrant, Measured, Outcome, Status

Floats = npt.NDArray[np.float64]

BEST_NS = 1e5
MEDIAN, WORST, TIES, TIES_WITHIN = 2.5, 20.0, 5, 0.02
GAINS_PCT = (0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 8.0)
LABELS = 16

_WRONG = "certified, slower than delta"
_OTHER = "exhaustive search"


@dataclass(frozen=True)
class World:
    """How samples differ from the truth. Noise is drawn per race from a range; percent of a call's time."""

    noise_pct: tuple[float, float] = (0.5, 2.0)
    outlier_share: float = 0.01
    outlier_pct: tuple[float, float] = (20.0, 500.0)
    outlier_exponent: float = 1.5
    drift_pct: float = 5.0
    drift_period_s: tuple[float, float] = (1.0, 8.0)
    first_call_pct: tuple[float, float] = (5.0, 50.0)
    burst_share: float = 0.0
    quantum_pct: float = 0.0
    between_s: float = 2e-4


STRESS = {
    "noise of 3 %": World(noise_pct=(3.0, 3.0)),
    "outliers in 5 % of the calls": World(outlier_share=0.05),
    "1 % of the visits all slow": World(burst_share=0.01),
    "a timer with steps of 1 % of the best": World(quantum_pct=1.0),
    "drift of ±20 %": World(drift_pct=20.0),
}


class Bench:
    """A device with a clock: runs calls of candidates and sums up what they cost."""

    def __init__(self, seed: int, truth: Floats, world: World) -> None:
        self._draw = np.random.default_rng([seed, 1])
        self._truth, self._world = truth, world
        self._noise = self._draw.uniform(*world.noise_pct) / 100
        self._first = self._draw.uniform(*world.first_call_pct, len(truth)) / 100
        self._period = self._draw.uniform(*world.drift_period_s)
        self._now = self._draw.uniform(0, 100)
        self.cost_ns = 0.0

    def visit(self, order: Sequence[int], warm_up: int, calls: int) -> tuple[tuple[float, ...], ...]:
        """Times of each entrant's calls, one entrant after the other."""
        world, draw = self._world, self._draw
        truth = self._truth[list(order)]
        lasts = truth * 1e-9 * (warm_up + calls) + world.between_s
        ends = self._now + np.cumsum(lasts)
        swing = 1 + world.drift_pct / 100 * np.sin(2 * np.pi * (ends - lasts / 2) / self._period)
        factors = np.exp(self._noise * draw.standard_normal((len(truth), calls)))
        outliers = draw.random(factors.shape) < world.outlier_share
        factors[outliers] *= 1 + self._outliers(int(outliers.sum()))
        bursts = draw.random(len(truth)) < world.burst_share
        factors[bursts] *= 1 + self._outliers(int(bursts.sum()))[:, None]
        if not warm_up:
            factors[:, 0] *= 1 + self._first[list(order)]
        times = (truth * swing)[:, None] * factors
        if world.quantum_pct:
            quantum = world.quantum_pct / 100 * BEST_NS
            times = np.floor(times / quantum) * quantum
        self._now = float(ends[-1])
        self.cost_ns += float(truth.sum()) * (warm_up + calls)
        return tuple(map(tuple, times.tolist()))

    def _outliers(self, count: int) -> Floats:
        least, most = self._world.outlier_pct
        sizes: Floats = least * (1 - self._draw.random(count)) ** (-1 / self._world.outlier_exponent)
        return np.minimum(sizes, most) / 100


def field(seed: int, count: int) -> Floats:
    """True times of the candidates in random order, nanoseconds."""
    draw = np.random.default_rng([seed, 0])
    places = np.sort(draw.standard_normal(count))
    middle = float(np.median(places))
    lower = (places - places[0]) / (middle - places[0]) * np.log(MEDIAN)
    upper = np.log(MEDIAN) + (places - middle) / (places[-1] - middle) * np.log(WORST / MEDIAN)
    speeds = np.exp(np.where(places <= middle, lower, upper))
    speeds[1 : TIES + 1] = 1 + draw.uniform(0, TIES_WITHIN, TIES)
    return draw.permutation(speeds) * BEST_NS


def raced(seed: int, truth: Floats, incumbent: int, policy: Policy, world: World) -> tuple[Decision, float, int]:
    """The decision of a race, its measuring time and the number of its blocks."""
    bench = Bench(seed, truth, world)
    race = Race(range(len(truth)), incumbent, policy)
    blocks: list[Block] = []
    while race.state == "running":
        order = block_order(seed, "cell", len(blocks), race.survivors)
        times = bench.visit(order, policy.measurement.block_warm_up, policy.race.block_calls)
        blocks.append(Block(order, times))
        race.add(blocks[-1])
    measured = _measured("race", len(truth), incumbent, (), blocks)
    return decide(measured, policy, 0.0), bench.cost_ns, len(blocks)


def searched(seed: int, truth: Floats, incumbent: int, policy: Policy, world: World) -> tuple[Decision, float]:
    """The decision of an exhaustive search and its measuring time; rounds are counted without their warm-up."""
    bench = Bench(seed, truth, world)
    everyone = range(len(truth))
    depth = bench.visit(everyone, policy.measurement.warm_up, policy.measurement.calls)
    chosen = finalists(depth, _entrants(len(truth)), incumbent, policy)
    blocks = []
    for number in range(policy.finalists.rounds):
        order = block_order(seed, "cell", number, chosen)
        blocks.append(Block(order, bench.visit(order, policy.measurement.block_warm_up, policy.finalists.calls)))
    measured = _measured("exhaustive", len(truth), incumbent, depth, blocks)
    return decide(measured, policy, 0.0), bench.cost_ns


def _entrants(count: int) -> tuple[Entrant, ...]:
    return tuple(Entrant((number,), Status.OK, error=0.0) for number in range(count))


def _measured(
    strategy: str, count: int, incumbent: int, depth: tuple[tuple[float, ...], ...], blocks: list[Block]
) -> Measured:
    return Measured(
        functional=(),
        at=(),
        strategy=strategy,
        entrants=_entrants(count),
        incumbent=incumbent,
        incumbent_layer="default",
        neighbours=(),
        depth=depth,
        blocks=tuple(blocks),
    )


@dataclass(frozen=True)
class Outcomes:
    """One field: the race's decision, by what share its winner is slower than the best, blocks, measuring times.

    `other` is the decision of an exhaustive search of the same field, where there was one.
    """

    certified: bool
    excess: float
    blocks: int
    cost_ns: float
    published: bool
    other: tuple[bool, float, float] | None


def field_run(seed: int, candidates: int, policy: Policy, world: World, against: bool) -> Outcomes:
    """One field with a known best. The incumbent is of the faster quarter."""
    truth = field(seed, candidates)
    incumbent = int(np.argsort(truth)[seed % max(candidates // 4, 1)])
    decision, cost, blocks = raced(seed, truth, incumbent, policy, world)
    published, other = decision.outcome is Outcome.PUBLISHED, None
    if against:
        found, full = searched(seed, truth, incumbent, policy, world)
        other = (found.outcome is Outcome.PUBLISHED, _excess(found, truth), full)
    return Outcomes(decision.certified, _excess(decision, truth), blocks, cost, published, other)


def _excess(decision: Decision, truth: Floats) -> float:
    assert decision.winner is not None, "every candidate of the simulation is valid"
    return float(truth[decision.winner] / truth.min()) - 1


def field_study(races: int, candidates: int, policy: Policy, world: World, against: bool = True) -> dict[str, Any]:
    """Rates over fields of different seeds."""
    runs = [field_run(seed, candidates, policy, world, against) for seed in range(races)]
    delta = policy.race.delta_pct / 100
    blocks = [run.blocks for run in runs]
    found: dict[str, Any] = {
        "certified": _share(run.certified for run in runs),
        _WRONG: _share(run.certified and run.excess > delta for run in runs),
        "won by one within delta": _share(run.certified and run.excess <= delta for run in runs),
        "blocks: 5 %, median, 95 %, most": [*_quantiles(blocks, (0.05, 0.5, 0.95)), max(blocks)],
        "winner's excess in percent: median, 99 %, most": _quantiles(
            [100 * run.excess for run in runs], (0.5, 0.99, 1.0)
        ),
    }
    return {**found, **_beside_search(runs, delta)} if against else found


def _beside_search(runs: Sequence[Outcomes], delta: float) -> dict[str, Any]:
    pairs = [(run, run.other) for run in runs if run.other]
    ratios = [cost / run.cost_ns for run, (_, _, cost) in pairs]
    overall = round(len(ratios) / sum(1 / ratio for ratio in ratios), 2)
    return {
        _OTHER: {
            "agree on publishing": _share(run.published == published for run, (published, _, _) in pairs),
            "slower than delta": _share(excess > delta for _, (_, excess, _) in pairs),
        },
        "times less measuring: overall, least, 5 %, median, 95 %": [
            overall,
            *_quantiles(ratios, (0.0, 0.05, 0.5, 0.95)),
        ],
    }


def same_study(races: int, policy: Policy, world: World) -> dict[str, Any]:
    """A/A: the same binary under many labels, one of which is the incumbent's."""
    decisions = [raced(seed, np.full(LABELS, BEST_NS), 0, policy, world)[0] for seed in range(races)]
    return {"labels": LABELS, "races": races, "promotions": _published(decisions)}


def gain_study(races: int, policy: Policy, world: World) -> dict[str, float]:
    """The share of races in which a challenger that takes less than the incumbent by so many percent is published."""

    def share(gain: float) -> float:
        truth = np.array([1.0, 1 - gain / 100, 1.3, 1.6]) * BEST_NS
        return _published(raced(seed, truth, 0, policy, world)[0] for seed in range(races))

    return {f"{gain:g}": share(gain) for gain in GAINS_PCT}


def _published(decisions: Iterable[Decision]) -> float:
    return _share(decision.outcome is Outcome.PUBLISHED for decision in decisions)


def _share(events: Iterable[bool]) -> float:
    return float(np.mean(list(events)))


def _quantiles(values: Sequence[float] | Floats, at: tuple[float, ...]) -> list[float]:
    return [round(float(value), 3) for value in np.quantile(np.asarray(values), at)]


def study(races: int, candidates: int, policy: Policy, tell: Callable[[str], None]) -> dict[str, Any]:
    """All of it, as a JSON object. Stress and gains are on a tenth of the races."""
    few = max(races // 10, 1)
    found: dict[str, Any] = {
        "races": races,
        "candidates": candidates,
        "world": asdict(World()),
        "policy": as_json(policy),
    }
    tell("fields")
    found["fields"] = field_study(races, candidates, policy, World())
    tell("A/A")
    found["same binary"] = same_study(races, policy, World())
    tell("gains")
    found["published at a true gain of percent"] = gain_study(few, policy, World())
    found["stress"] = {}
    for name, world in STRESS.items():
        tell(name)
        found["stress"][name] = {"races": few, **field_study(few, candidates, policy, world, against=False)}
    return found


def tables(found: dict[str, Any]) -> str:
    """The figures of a study as Markdown: fields and labels, gains, stress."""
    parts = (_field_rows, _gain_rows, _stress_rows)
    return "\n\n".join("\n".join(part(found)) for part in parts) + "\n"


def _field_rows(found: dict[str, Any]) -> Iterator[str]:
    fields, same = found["fields"], found["same binary"]
    excess = fields["winner's excess in percent: median, 99 %, most"]
    overall, least, _, usual, _ = fields["times less measuring: overall, least, 5 %, median, 95 %"]
    yield f"| {found['races']:,} races of {found['candidates']} candidates | |"
    yield "|---|---|"
    yield f"| certified | {_percent(fields['certified'])} |"
    yield f"| certified a candidate more than delta slower than the best | {_percent(fields[_WRONG])} |"
    yield f"| won by the best or one within delta | {_percent(fields['won by one within delta'])} |"
    yield f"| winner slower than the best: median, 99 %, most | {_listed(excess)} % |"
    yield f"| blocks: median, 95 %, most | {_listed(fields['blocks: 5 %, median, 95 %, most'][1:])} |"
    yield f"| times less measuring than exhaustive: overall, median, least | {_listed((overall, usual, least))} |"
    yield f"| exhaustive search: winner more than delta slower | {_percent(fields[_OTHER]['slower than delta'])} |"
    yield f"| both publish, or neither does | {_percent(fields[_OTHER]['agree on publishing'])} |"
    yield f"| promotions in {same['races']:,} A/A races of {same['labels']} labels | {_percent(same['promotions'])} |"


def _gain_rows(found: dict[str, Any]) -> Iterator[str]:
    gains = found["published at a true gain of percent"]
    yield f"| true gain, percent | {' | '.join(gains)} |"
    yield f"|---|{'---|' * len(gains)}"
    yield f"| published | {' | '.join(map(_percent, gains.values()))} |"


def _stress_rows(found: dict[str, Any]) -> Iterator[str]:
    yield f"| {found['races'] // 10} races each with | certified | wrongly | blocks: median, most |"
    yield "|---|---|---|---|"
    for name, item in found["stress"].items():
        _, middle, _, most = item["blocks: 5 %, median, 95 %, most"]
        yield f"| {name} | {_percent(item['certified'])} | {_percent(item[_WRONG])} | {_listed((middle, most))} |"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.races")
    parser.add_argument("--races", type=int, default=2000)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = study(given.races, given.candidates, Policy(), lambda name: print(name, flush=True))
    if given.out:
        atomic_write(given.out, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    print(tables(found), end="")


if __name__ == "__main__":
    main()
