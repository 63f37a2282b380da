"""The tuner on a GPU: is the race as good as exhaustive search, how good are tables, and what does power sampling read?

    python -m tools.bench.tuning field     --root nvidia --arch sm_90 --out DIR    race beside exhaustive search
    python -m tools.bench.tuning loss      --root nvidia --arch sm_90 --out DIR    a table's picks beside the fastest
    python -m tools.bench.tuning calibrate --root nvidia --arch sm_90 --out DIR    the same binary under many labels
    python -m tools.bench.tuning power     --root nvidia --arch sm_90 --out DIR    graph, single launches, a steady run
    python -m tools.bench.tuning retime    --root nvidia --arch sm_90 --out DIR --evidence FILE    a patch, timed again

Each writes DIR/tuning-<what>.json and prints a line a cell. The exit code is 1 when what the program is to show does
not hold, 2 without a GPU. Candidates are compiled in several processes beforehand and shared between the cells of a
functional; the tables of ROOT need not exist for `field`, `calibrate` and `power`.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from codegen.tuning import attention
from tools.bench.problems import write_json
from tools.bench.tuning_lab import (
    Cost,
    Lab,
    blank,
    compared,
    compile_cells,
    conditions,
    exhaustive,
    fail,
    race,
    raw,
    told,
    write_rows,
)
from txtdb import load
from txtdb.evidence.calibration import calibrate as calibration_of
from txtdb.evidence.decide import decide
from txtdb.evidence.files import read_evidence
from txtdb.evidence.policy import Measurement, Policy, as_json
from txtdb.model.evidence import CellEvidence, Entrant, Measured, Outcome, Status
from txtdb.tune.fields import Cell
from txtdb.tune.gpu import GpuDevice
from txtdb.tune.power import EAGER_VARIABLE, Sampling

IFACE = "attn_fwd"
# (type, mask, head dim) of the functionals that are tried, and the lengths of both sequences.
FIELD = ((("bf16", 0, 128), (256, 512, 1024)), (("bf16", 3, 64), (256, 512, 1024)))
LOSS = tuple(
    ((dtype, mask, width), (256, 1024, 8192)) for dtype in ("bf16", "fp16") for mask in (0, 3) for width in (64, 128)
)
Functionals = Sequence[tuple[tuple[str, int, int], Sequence[int]]]
# A candidate that is known to be right and fast, for programs that need one.
PLAIN = {"BLOCK_M": 64, "BLOCK_N": 64, "PRE_LOAD_V": True, "TENSOR_COPY": True, "num_warps": 4, "num_stages": 3}
LABELS = 8
SLOWER_PCT = 5.0
# Two winners that differ, and the configs of a patch, are timed side by side so often.
ROUNDS, CALLS = 12, 15
# Of the steady run that sampling is compared with.
STEADY_S = 6.0
LARGE, SMALL = ("bf16", 0, 128, 4096, 1 << 17), ("bf16", 0, 64, 128, 1 << 14)
WITHIN_PCT = 3.0


def cells_of(lab: Lab, functionals: Functionals) -> list[Cell]:
    """The cells of functionals, those of one after the other."""
    return [
        lab.cell({"Q_dtype": dtype, "CAUSAL_TYPE": mask, "BLOCK_DMODEL": width}, (length, length))
        for (dtype, mask, width), lengths in functionals
        for length in lengths
    ]


def field(lab: Lab, functionals: Functionals, options: argparse.Namespace) -> int:
    """Race and exhaustive search of the same cells. Fails when they differ, or the race is not so much cheaper."""
    cells = cells_of(lab, functionals)
    configs = {cell: lab.field(cell) for cell in cells}
    faults = compile_cells(lab, cells, configs, options.jobs)
    rows = []
    for cell in cells:
        rows.append(_both(lab, cell, lab.entrants(cell, configs[cell], faults)))
        head = {**about(lab), "least_ratio": options.least_ratio}
        write_rows(options.out / "tuning-field.json", head, rows, "cells")
    ratio = sum(row["exhaustive"]["cost"]["wall_s"] for row in rows) / sum(
        row["race"]["cost"]["wall_s"] for row in rows
    )
    differ = [row["cell"] for row in rows if not row["same"]]
    print(f"{len(rows) - len(differ)} of {len(rows)} decisions are the same; the race takes 1/{ratio:.1f} of the time")
    return 1 if differ or ratio < options.least_ratio else 0


def _both(lab: Lab, cell: Cell, entrants: Sequence[Entrant]) -> dict[str, Any]:
    pick = lab.pick(cell)
    incumbent = next((number for number, one in enumerate(entrants) if one.config == pick), None)
    ways: dict[str, Any] = {}
    winners = {}
    # The race first: what it heats up or loads is to the advantage of the other.
    for strategy, run in (("race", race), ("exhaustive", exhaustive)):
        cost = Cost()
        before = conditions(lab.device)
        measured = run(lab, cell, blank(cell, entrants, incumbent, strategy), cost)
        decision = decide(measured, lab.policy, 0.0)
        winners[strategy] = decision.winner
        ways[strategy] = {"decision": told(decision), "cost": asdict(cost), "before": before, "raw": raw(measured)}
    row = {"cell": cell.label, **_compared(lab, cell, entrants, winners), **ways}
    row["entrants"] = [[lab.text(one.config), one.status, one.error] for one in entrants]
    right = sum(one.status is Status.OK for one in entrants)
    costs = [ways[name]["cost"]["wall_s"] for name in ("race", "exhaustive")]
    print(
        f"{cell.label:32} {right:3} of {len(entrants)} right  race {costs[0]:6.2f} s  exhaustive {costs[1]:6.2f} s  "
        f"ratio {costs[1] / costs[0]:5.1f}  {'same' if row['same'] else 'DIFFERENT'} ({row['apart_pct']:+.2f} %)",
        flush=True,
    )
    return row


def _compared(lab: Lab, cell: Cell, entrants: Sequence[Entrant], winners: dict[str, int | None]) -> dict[str, Any]:
    """Whether both found the same, or one within delta of the other, timed side by side."""
    first, second = winners["race"], winners["exhaustive"]
    if first is None or second is None:
        return {"same": first == second, "apart_pct": 0.0}
    if first == second:
        return {"same": True, "apart_pct": 0.0}
    pair = compared(lab, cell, entrants[first].config, entrants[second].config, ROUNDS, CALLS)
    return {"same": abs(pair.slower_pct) <= lab.policy.race.delta_pct, "apart_pct": pair.slower_pct}


def loss(lab: Lab, functionals: Functionals, options: argparse.Namespace) -> int:
    """How much slower a table's picks are than the fastest of the whole field. Fails where a cell has no pick."""
    lab.with_table = True
    cells = cells_of(lab, functionals)
    configs = {cell: lab.field(cell) for cell in cells}
    faults = compile_cells(lab, cells, configs, options.jobs)
    rows = []
    for cell in cells:
        rows.append(_loss(lab, cell, lab.entrants(cell, configs[cell], faults)))
        write_rows(options.out / "tuning-loss.json", about(lab), rows, "cells")
    known = [row["loss_pct"] for row in rows if row["loss_pct"] is not None]
    if known:
        print(
            f"{len(known)} cells: loss {min(known):.1f} to {max(known):.1f} %, median {statistics.median(known):.1f} %"
        )
    return 0 if len(known) == len(rows) else 1


def _loss(lab: Lab, cell: Cell, entrants: Sequence[Entrant]) -> dict[str, Any]:
    pick = lab.pick(cell)
    incumbent = next((number for number, one in enumerate(entrants) if one.config == pick), None)
    cost = Cost()
    measured = race(lab, cell, blank(cell, entrants, incumbent, "race"), cost)
    decision = decide(replace(measured, publish=True), lab.policy, 0.0)
    standing = next((item for item in decision.standings if item.entrant == incumbent), None)
    found = None
    if incumbent is not None and decision.winner is not None:
        found = 0.0 if incumbent == decision.winner else 100 * math.expm1(standing.slower) if standing else None
    best = "" if decision.winner is None else lab.text(entrants[decision.winner].config)
    names = [lab.text(pick) if pick else "", best]
    shown = "no pick" if found is None else f"loss {found:5.1f} %"
    print(f"{cell.label:32} {shown}  {cost.wall_s:5.1f} s  {names[0]}  best {names[1]}", flush=True)
    fastest = _medians(measured)
    return {
        "cell": cell.label, "pick": names[0], "best": best, "loss_pct": found, "certified": decision.certified,
        "best_ns": None if decision.winner is None else fastest.get(decision.winner), "cost": asdict(cost),
        "ns": [[lab.text(one.config), one.status, fastest.get(number)] for number, one in enumerate(entrants)],
    }  # fmt: skip


def _medians(measured: Measured) -> dict[int, int]:
    """The median of all calls of an entrant, in whole ns."""
    calls: dict[int, list[float]] = {}
    for block in measured.blocks:
        for one, times in zip(block.order, block.times, strict=True):
            calls.setdefault(one, []).extend(time for time in times if time > 0)
    return {one: round(statistics.median(times)) for one, times in calls.items() if times}


def calibrate(lab: Lab, cell: Cell, options: argparse.Namespace) -> int:
    """One binary under many labels, and beside one that is slower by a known share."""
    config = _plain(lab)
    faults = compile_cells(lab, [cell], {cell: [config]}, 1)
    entrant = lab.entrants(cell, [config], faults)[0]
    if entrant.status is not Status.OK:
        return fail(f"{lab.text(config)}: {entrant.status} {entrant.detail}")
    before, cost = conditions(lab.device), Cost()
    same, slower = [], []
    for number in range(options.trials):
        trial = replace(lab, policy=replace(lab.policy, seed=number))
        same.append(race(trial, cell, blank(cell, [entrant] * LABELS, 0, "race"), cost))
        twins = blank(cell, [entrant] * 2, 0, "race")
        slower.append(race(trial, cell, twins, cost, (1.0 + SLOWER_PCT / 100, 1.0)))
    found = calibration_of(same, slower, SLOWER_PCT, lab.policy)
    gains = [decide(trial, lab.policy, 0.0).gain_pct for trial in same]
    data = {**about(lab), "cell": cell.label, "config": lab.text(config), "labels": LABELS, "cost": asdict(cost)}
    data |= {"before": before, "after": conditions(lab.device), "calibration": found, "gains_pct": gains}
    write_rows(options.out / "tuning-calibrate.json", data, [raw(item) for item in same], "same")
    print(f"{options.trials} trials of {LABELS} labels in {cost.wall_s:.0f} s: {found}")
    return 0 if found["false_promotions_at_bar"]["count"] <= options.trials / 100 else 1


def _plain(lab: Lab) -> Any:
    return tuple(PLAIN[name] for name in lab.arch_schema.schema.field_names)


def power(lab: Lab, device: GpuDevice, options: argparse.Namespace) -> int:
    """Watts of a large and of a small kernel, three ways. Fails where the graph's are not those of a steady run."""
    if device.sensor is None:
        return fail("the sensors of the device cannot be read")
    rows = []
    for dtype, mask, width, length, fill in (LARGE, SMALL):
        cell = lab.cell({"Q_dtype": dtype, "CAUSAL_TYPE": mask, "BLOCK_DMODEL": width}, (length, length))
        device.measurement = replace(device.measurement, fill=fill)
        rows.append(_power(lab, device, cell))
        write_json(options.out / "tuning-power.json", {**about(lab), "steady_s": STEADY_S, "kernels": rows})
    return 0 if all(abs(row["graph_off_pct"]) <= WITHIN_PCT for row in rows) else 1


def _power(lab: Lab, device: GpuDevice, cell: Cell) -> dict[str, Any]:
    task, config = lab.task(cell), lab.full(cell, _plain(lab))
    microseconds = statistics.median(lab.device.time(task, config, 25, 51, 0)) / 1e3
    readings = {"graph": device.power(task, config)}
    with _eager():
        readings["eager"] = device.power(task, config)
    # One trial from end to end, long beside what the others take.
    device.sampling = Sampling(settle_s=2.0, trials=1, updates=1 << 30, longest_s=STEADY_S)
    listening = _Listening(device.sensor)
    device.sensor = listening
    steady = device.power(task, config)
    device.sampling, device.sensor = Sampling(), listening.sensor
    off = {name: _off(reading.watts, steady.watts) for name, reading in readings.items()}
    low = _off(readings["eager"].raw_watts, steady.watts)
    print(
        f"{cell.label:28} {microseconds:8.1f} µs  steady {steady.watts or 0:6.1f} W over {steady.seconds:.1f} s, "
        f"{steady.updates} updates;  graph {off['graph']:+.2f} %, eager {low:+.2f} %, corrected {off['eager']:+.2f} %",
        flush=True,
    )
    told_readings = {name: reading.as_json() for name, reading in {**readings, "steady": steady}.items()}
    facts = {"cell": cell.label, "fill": device.measurement.fill, "microseconds": microseconds, **told_readings}
    facts["power_reading_watts"] = statistics.fmean(listening.heard) if listening.heard else None
    return {**facts, "graph_off_pct": off["graph"], "eager_off_pct": low, "eager_corrected_off_pct": off["eager"]}


class _Listening:
    """A sensor that also takes a power reading with each look at its counter: the same watts by another way."""

    def __init__(self, sensor: Any) -> None:
        self.sensor, self.heard = sensor, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sensor, name)

    def joules(self) -> float | None:
        self.heard.append(self.sensor.watts())
        found: float | None = self.sensor.joules()
        return found


def _off(watts: float | None, steady: float | None) -> float:
    return 100 * (watts / steady - 1) if watts and steady else math.inf


@contextmanager
def _eager() -> Iterator[None]:
    os.environ[EAGER_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[EAGER_VARIABLE]


def retime(lab: Lab, published: Sequence[CellEvidence], options: argparse.Namespace) -> int:
    """What each cell of a patch had and has, side by side. Fails where what it has is slower by more than the bar."""
    cells = [Cell(item.measured.functional, item.measured.at) for item in published]
    configs = {
        cell: [item.measured.entrants[number].config for number in (item.decision.incumbent, item.decision.winner)
               if number is not None]
        for cell, item in zip(cells, published, strict=True)
    }  # fmt: skip
    compile_cells(lab, cells, configs, options.jobs)
    rows = []
    for cell, item in zip(cells, published, strict=True):
        old, new = configs[cell]
        pair = compared(lab, cell, new, old, ROUNDS, CALLS)
        bar = item.decision.bar_pct or lab.policy.promotion.min_improvement_pct
        rows.append({
            "cell": cell.label, "old": lab.text(old), "new": lab.text(new), "claimed_gain_pct": item.decision.gain_pct,
            "slower_pct": pair.slower_pct, "two_spreads_pct": pair.spread_pct, "bar_pct": bar,
            "good": pair.slower_pct <= bar,
        })  # fmt: skip
        mark = "" if rows[-1]["good"] else "  SLOWER"
        print(f"{cell.label:32} {-pair.slower_pct:+6.2f} ± {pair.spread_pct:.2f} %{mark}", flush=True)
        write_rows(options.out / "tuning-retime.json", about(lab), rows, "cells")
    bad = sum(not row["good"] for row in rows)
    print(f"{len(rows) - bad} of {len(rows)} cells are not slower by more than the bar")
    return 1 if bad or not rows else 0


def published_in(lab: Lab, paths: Sequence[Path]) -> list[CellEvidence]:
    """The cells of evidence files that have another config now than before."""
    found = []
    for path in paths:
        evidence, faults = read_evidence(path.read_bytes(), str(path), lab.arch_schema.schema)
        if evidence is None:
            raise SystemExit("\n".join(fault.message for fault in faults))
        found += [item for item in evidence.cells if item.decision.outcome is Outcome.PUBLISHED]
    return [item for item in found if item.decision.incumbent is not None]


def about(lab: Lab) -> dict[str, Any]:
    """What the numbers were made with."""
    return {**asdict(lab.device.facts(lab.tunable.iface)), "policy": as_json(lab.policy)}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        return fail("there is no GPU that PyTorch can use")
    begin = time.perf_counter()
    device = GpuDevice(measurement=Measurement(), tunables=lambda iface: getattr(attention, iface)())
    database = load(options.root)
    lab = Lab(device, getattr(attention, options.iface)(), database, options.arch, Policy(), options.with_table)
    middle = lab.cell({"Q_dtype": "bf16", "BLOCK_DMODEL": 128}, (1024, 1024))
    programs: dict[str, Callable[[], int]] = {
        "field": lambda: field(lab, FIELD, options),
        "loss": lambda: loss(lab, LOSS[: options.functionals], options),
        "calibrate": lambda: calibrate(lab, middle, options),
        "power": lambda: power(lab, device, options),
        "retime": lambda: retime(lab, published_in(lab, options.evidence), options),
    }
    code = programs[options.what]()
    print(f"{options.what}: {time.perf_counter() - begin:.0f} s, {conditions(device)}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("field", "loss", "calibrate", "power", "retime"))
    parser.add_argument("--root", type=Path, required=True, help="database with the schema, and for `loss` the tables")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--iface", default=IFACE, help="for `retime`: the interface of the patch")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--with-table", action="store_true", help="`field`: the table's picks are incumbents")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compile")
    parser.add_argument("--least-ratio", type=float, default=5.0, help="`field`: how much cheaper the race has to be")
    parser.add_argument("--functionals", type=int, default=len(LOSS), help="`loss`: only the first so many")
    parser.add_argument("--trials", type=int, default=120, help="`calibrate`: races of each kind")
    parser.add_argument("--evidence", type=Path, nargs="*", default=[], help="`retime`: evidence of the patch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
