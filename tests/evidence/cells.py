"""Measured cells for tests of decisions: entrants with a config of one number, and blocks from true times."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from txtdb.evidence.policy import Policy
from txtdb.evidence.race import Race, block_order
from txtdb.model.evidence import Block, Entrant, Measured, Reading, Status

Calls = tuple[float, ...]


def entrants(count: int) -> tuple[Entrant, ...]:
    return tuple(Entrant((number,), Status.OK, error=0.1) for number in range(count))


def exact_blocks(truth: Sequence[float], count: int, calls: int = 3) -> tuple[Block, ...]:
    """Blocks of all entrants without any noise."""
    order = tuple(range(len(truth)))
    return (Block(order, tuple((time,) * calls for time in truth)),) * count


def measured(blocks: Sequence[Block], count: int, incumbent: int | None = None, **changes: Any) -> Measured:
    """A finished race of `count` right entrants; `changes` replaces fields."""
    made = Measured(
        functional=("fp16",),
        at=(64, 64),
        strategy="race",
        entrants=entrants(count),
        incumbent=incumbent,
        incumbent_layer="default",
        neighbours=(),
        depth=(),
        blocks=tuple(blocks),
    )
    return replace(made, **changes)


def exact(truth: Sequence[float], incumbent: int | None = None, **changes: Any) -> Measured:
    """Thirty blocks without noise."""
    return measured(exact_blocks(truth, 30), len(truth), incumbent, **changes)


def reading(*windows: float, **changes: Any) -> Reading:
    """A reading from a graph with these watts in its windows; one number stands for three windows without noise."""
    made = Reading(
        path="graph",
        reason="",
        source="a test",
        calls=100,
        windows=windows * 3 if len(windows) == 1 else windows,
        raw_watts=windows[0] if windows else None,
        utilization=1.0,
        idle_watts=None,
        updates=30,
        seconds=3.0,
        trials=3,
        dropped=0,
        reliable=True,
    )
    return replace(made, **changes)


def readings(*watts: float | None) -> tuple[Reading | None, ...]:
    """Readings without noise; none where there are no watts."""
    return tuple(None if item is None else reading(item) for item in watts)


class NoisyDevice:
    """Times with log-normal noise; `pace(now)` is by how much the clock has slowed down after `now` calls."""

    def __init__(self, truth: Sequence[float], noise: float, seed: int, trend: float = 0.0) -> None:
        self._truth, self._noise, self._trend = truth, noise, trend
        self._draw = random.Random(seed)
        self._calls = 0

    def visit(self, order: Sequence[int], calls: int) -> tuple[Calls, ...]:
        return tuple(tuple(self._call(entrant) for _ in range(calls)) for entrant in order)

    def _call(self, entrant: int) -> float:
        self._calls += 1
        return self._truth[entrant] * (1 + self._trend * self._calls) * self._draw.lognormvariate(0, self._noise)


def run_race(device: NoisyDevice, count: int, incumbent: int | None, policy: Policy, seed: int = 0) -> Measured:
    """Race until it ends."""
    race = Race(range(count), incumbent, policy)
    blocks: list[Block] = []
    while race.state == "running":
        order = block_order(seed, "cell", len(blocks), race.survivors)
        blocks.append(Block(order, device.visit(order, policy.race.block_calls)))
        race.add(blocks[-1])
    return measured(blocks, count, incumbent)


def with_times(blocks: Sequence[Block], number: int, times: Mapping[int, Calls]) -> tuple[Block, ...]:
    """Blocks in which some entrants' calls of one block are replaced."""
    block = blocks[number]
    rows = tuple(times.get(one, old) for one, old in zip(block.order, block.times, strict=True))
    return (*blocks[:number], Block(block.order, rows), *blocks[number + 1 :])
