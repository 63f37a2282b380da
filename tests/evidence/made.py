"""Evidence for S0 of tests/build.py, made of drawn samples.

`raced` draws blocks of a few candidates whose true times are given, with noise and a slow drift, until their race is
over; `decided` adds what follows from the samples, `by_hand` a decision that nothing follows from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np

from tests.build import F1, PALETTE, SCHEMA, patch
from txtdb.evidence.decide import decide
from txtdb.evidence.files import evidence_digest, write_evidence
from txtdb.evidence.named import stands_for
from txtdb.evidence.policy import Policy, as_json
from txtdb.evidence.race import Race
from txtdb.model.evidence import (
    Block,
    CellEvidence,
    Decision,
    Entrant,
    Evidence,
    Measured,
    Outcome,
    Reason,
    Standing,
    Status,
)
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import parse_value

FUNCTIONAL = ("fp16", 0, 64)
CALLS = 3


@cache
def schema() -> Schema:
    """The schema of S0."""
    found, faults = read_schema(SCHEMA.encode(), "schema/attn_fwd.toml", "attn_fwd")
    assert found is not None, faults
    return found


def config(symbol: str, palette: Mapping[str, str] = PALETTE) -> ConfigValues:
    """The config that a symbol of S0's palette stands for; `waves_per_eu` is left out there."""
    values = []
    for item, word in zip(schema().config, [*palette[symbol].split(), "0"], strict=True):
        value = parse_value(word, item.type)
        assert value is not None
        values.append(value)
    return tuple(values)


def raced(
    times_us: Mapping[str, float],
    *,
    at: tuple[int, int] = (64, 64),
    incumbent: str | None = None,
    noise: float = 0.002,
    seed: int = 0,
    policy: Policy | None = None,
    palette: Mapping[str, str] = PALETTE,
    failing: Mapping[str, Status] | None = None,
) -> Measured:
    """One cell: a race of the named configs, whose true times are given, to its end."""
    names = list(times_us)
    draw = np.random.default_rng([seed, *at])
    failed = failing or {}
    entrants = tuple(
        Entrant(config(name, palette), failed.get(name, Status.OK), "did not run" if name in failed else "", 0.25)
        for name in names
    )
    runners = [number for number, name in enumerate(names) if name not in failed]
    place = names.index(incumbent) if incumbent else None
    race = Race(runners, place if place in runners else None, policy or Policy())
    blocks: list[Block] = []
    while race.state == "running":
        order = draw.permutation(race.survivors).tolist()
        drift = 1 + 0.01 * np.sin(len(blocks) / 5)
        base = np.array([times_us[names[number]] * 1e3 for number in order])
        calls = base[:, None] * drift * (1 + noise * np.abs(draw.standard_t(3, (len(order), CALLS))))
        blocks.append(Block(tuple(order), tuple(map(tuple, np.round(calls, 1).tolist()))))
        race.add(blocks[-1])
    return Measured(
        functional=FUNCTIONAL,
        at=at,
        strategy="race",
        entrants=entrants,
        incumbent=place,
        incumbent_layer="gfxB/attn_fwd.txtdb:12" if incumbent else "default",
        neighbours=(),
        depth=(),
        blocks=tuple(blocks),
    )


def decided(measured: Measured, policy: Policy | None = None, bar_pct: float = 3.0) -> CellEvidence:
    """A cell with the decision that follows from its samples."""
    return CellEvidence(measured, decide(measured, policy or Policy(), bar_pct))


def wide_palette(count: int) -> dict[str, str]:
    """So many distinct configs, by names of their own."""
    blocks, warps = (16, 32, 64, 128), (1, 2, 4, 8)
    kinds = product(blocks, ("true", "false"), warps, range(1, 17))
    names = ("".join(letters) for letters in product("abcdefghij", repeat=3))
    return {
        name: f"{m} {pre} {w} {stages}" for name, (m, pre, w, stages) in zip(names, islice(kinds, count), strict=False)
    }


def unraced(symbol: str = "b", at: tuple[int, int] = (64, 64)) -> Measured:
    """One cell with one candidate in one block; needs no statistics."""
    entrants = (Entrant(config(symbol), Status.OK, error=0.25),)
    block = Block((0,), ((10000.0, 10010.0, 10020.0),))
    return Measured(FUNCTIONAL, at, "race", entrants, None, "default", (), (), (block,))


def by_hand(measured: Measured, winner: int, gain_pct: float = 9.0) -> CellEvidence:
    """A cell with a decision that nobody computed."""
    entrants = range(len(measured.entrants))
    standings = tuple(Standing(n, len(measured.blocks), 0.1 * n, 0.001, None) for n in entrants)
    total = sum(time for block in measured.blocks for times in block.times for time in times)
    incumbent = measured.incumbent
    reason = Reason.NO_BASELINE if incumbent is None else Reason.GAIN
    numbers = (None,) * 4 if incumbent is None else (gain_pct, 3.0, 0.5, gain_pct - 3.0)
    return CellEvidence(
        measured, Decision(Outcome.PUBLISHED, reason, winner, incumbent, True, *numbers, total, standings)
    )


def run_of(
    cells: Iterable[CellEvidence], *, planned: int | None = None, policy: Policy | None = None, **other: Any
) -> Evidence:
    """A run of these cells on gfxB."""
    found = tuple(cells)
    made = Evidence(
        iface="attn_fwd",
        arch="gfxB",
        name="run",
        seed=7,
        planned=len(found) if planned is None else planned,
        policy=as_json(policy or Policy()),
        contract={"method": "events", "warm_up": 25, "flush_cache": True, "clocks_mhz": {"sm": [1700, 1980]}},
        device={"name": "simulated", "power_cap_w": 700.0, "driver": "1.2"},
        software={"triton": "3.9.0", "kernel": "sha256:" + "0" * 64},
        calibration=None,
        cells=found,
    )
    return replace(made, **other)


def with_sample(cell: CellEvidence, block: int, place: int, times: Sequence[float]) -> CellEvidence:
    """A cell with the calls of one entrant in one block replaced; the decision is left."""
    blocks = list(cell.measured.blocks)
    rows = list(blocks[block].times)
    rows[place] = tuple(times)
    blocks[block] = replace(blocks[block], times=tuple(rows))
    return replace(cell, measured=replace(cell.measured, blocks=tuple(blocks)))


def symbols(cells: Iterable[CellEvidence], names: str = "abcd") -> dict[tuple[int, ...], str]:
    """Bins → the symbol of what each decision leaves in its cell."""
    known = {config(name): name for name in names}
    found = ((cell.measured, stands_for(cell)) for cell in cells)
    return {measured.at: known[chosen] for measured, chosen in found if chosen is not None}


def rows_of(cells: Iterable[CellEvidence]) -> list[str]:
    """The rows of F1 that set what the decisions leave, and nothing else."""
    chosen = symbols(cells)
    bins = (64, 128, 256)
    rows = {q: [chosen.get((q, k), ".") for k in bins] for q in bins}
    return [f"{q} {' '.join(row)}" for q, row in rows.items() if set(row) != {"."}]


def published_files(
    run: Evidence, name: str = "run.json", patch_name: str = "0010-run", **options: Any
) -> dict[str, str]:
    """A patch of gfxB that sets what a run published, and its evidence file."""
    data = write_evidence(run, schema())
    new = [cell for cell in run.cells if cell.decision.outcome is Outcome.PUBLISHED]
    rows = options.pop("rows", None) or rows_of(new)
    digest = options.pop("digest", None) or evidence_digest(data)
    directives = (f"origin measured {run.name}", "why a test", f"evidence {name} {digest}")
    text = patch("gfxB", {F1: rows}, directives=directives, **options)
    return {f"gfxB/attn_fwd.{patch_name}.dbpatch": text, f"gfxB/evidence/{name}": data.decode()}
