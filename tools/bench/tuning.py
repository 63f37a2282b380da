"""The tuner on a GPU: is the race as good as exhaustive search, how good are tables, and what does power sampling read?

    python -m tools.bench.tuning field     --root nvidia --arch sm_90 --out DIR    race beside exhaustive search
    python -m tools.bench.tuning loss      --root nvidia --arch sm_90 --out DIR    a table's picks beside the fastest
    python -m tools.bench.tuning calibrate --root nvidia --arch sm_90 --out DIR    the same binary under many labels
    python -m tools.bench.tuning power     --root nvidia --arch sm_90 --out DIR    graph, single launches, a steady run
    python -m tools.bench.tuning retime    --root nvidia --arch sm_90 --out DIR --evidence FILE    a patch, timed again

Each writes DIR/tuning-<what>.json as it goes, whole at any time, and prints a line a cell. The exit code is 1 when
what the program is to show does not hold, 2 without a GPU. Candidates are compiled in several processes and shared
between the cells of a functional, which is measured as soon as its own are there; the tables of ROOT need not exist
for `field`, `calibrate` and `power`.
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
from tools.bench.tuning_lab import (
    Cost,
    Images,
    Lab,
    blank,
    compared,
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
from txtdb.model.evidence import CellEvidence, Decision, Entrant, Measured, Outcome, Reading, Status
from txtdb.model.table import ConfigValues
from txtdb.tune.calibrating import SLOWER_PCT, TWIN_EVERY, Trial, plan_trials
from txtdb.tune.device import CandidateFault, Config, Task
from txtdb.tune.fields import Cell
from txtdb.tune.gpu import GpuDevice
from txtdb.tune.measuring import default_jobs
from txtdb.tune.power import EAGER_VARIABLE, Sampling
from txtdb.tune.progress import calibration_text

IFACE = "attn_fwd"
# (type, mask, head dim) of the functionals that are tried, and the lengths of both sequences.
FIELD = (
    (("bf16", 0, 128), (256, 512, 1024, 4096)),
    (("bf16", 3, 64), (256, 512, 1024, 4096)),
    (("fp16", 3, 128), (1024, 4096)),
)
LOSS = tuple(
    ((dtype, mask, width), (256, 512, 1024, 2048, 8192))
    for dtype in ("bf16", "fp16")
    for mask in (0, 3)
    for width in (64, 128)
)
Functionals = Sequence[tuple[tuple[str, int, int], Sequence[int]]]
# A candidate that is known to be right and fast, for programs that need one.
PLAIN = {"BLOCK_M": 64, "BLOCK_N": 64, "PRE_LOAD_V": True, "TENSOR_COPY": True, "num_warps": 4, "num_stages": 3}
# Trials between two lines of `calibrate`, after each of which what there is is written.
TRIALS_EACH = 10
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
    head = {**about(lab), "least_ratio": options.least_ratio, "planned": len(cells)}
    rows = []
    for cell, entrants in compiled(lab, cells, options.jobs):
        rows.append(_both(lab, cell, entrants))
        write_rows(options.out / "tuning-field.json", head, rows, "cells")
    ratio = sum(row["exhaustive"]["cost"]["wall_s"] for row in rows) / sum(
        row["race"]["cost"]["wall_s"] for row in rows
    )
    differ = [row["cell"] for row in rows if not row["same"]]
    print(f"{len(rows) - len(differ)} of {len(rows)} decisions are the same; the race takes 1/{ratio:.1f} of the time")
    return 1 if differ or ratio < options.least_ratio else 0


def compiled(lab: Lab, cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, list[Entrant]]]:
    """Cells with their candidates, compiled and checked. While one is measured, those behind it are compiled."""
    configs = {cell: lab.field(cell) for cell in cells}
    with Images(lab, cells, configs, jobs) as images:
        for cell in cells:
            yield cell, lab.entrants(cell, configs[cell], images.faults(cell.functional))


def _both(lab: Lab, cell: Cell, entrants: Sequence[Entrant]) -> dict[str, Any]:
    pick = lab.pick(cell)
    incumbent = next((number for number, one in enumerate(entrants) if one.config == pick), None)
    ways: dict[str, Any] = {}
    decisions = {}
    for entrant in entrants:  # both find every image loaded
        if entrant.status is Status.OK:
            lab.time(cell, entrant.config, 0, 1, Cost())
    # The race first: what it heats up is to the advantage of the other.
    for strategy, run in (("race", race), ("exhaustive", exhaustive)):
        cost = Cost()
        before = conditions(lab.device)
        measured = run(lab, cell, blank(cell, entrants, incumbent, strategy), cost)
        decision = decisions[strategy] = decide(measured, lab.policy, 0.0)
        ways[strategy] = {"decision": told(decision), "cost": asdict(cost), "before": before, "raw": raw(measured)}
    row = {"cell": cell.label, **_compared(lab, cell, entrants, decisions), **ways}
    row["entrants"] = [[lab.text(one.config), one.status, one.error] for one in entrants]
    right = sum(one.status is Status.OK for one in entrants)
    costs = [ways[name]["cost"]["wall_s"] for name in ("race", "exhaustive")]
    print(
        f"{cell.label:32} {right:3} of {len(entrants)} right  race {costs[0]:6.2f} s  exhaustive {costs[1]:6.2f} s  "
        f"ratio {costs[1] / costs[0]:5.1f}  {'same' if row['same'] else 'DIFFERENT'} ({row['apart_pct']:+.2f} %)  "
        f"{' / '.join(_told_gate(decision) for decision in decisions.values())}",
        flush=True,
    )
    return row


def _told_gate(decision: Decision) -> str:
    gain = "" if decision.gain_pct is None else f" {decision.gain_pct:.2f} %"
    return f"{decision.outcome}{gain}"


def _compared(lab: Lab, cell: Cell, entrants: Sequence[Entrant], decisions: dict[str, Decision]) -> dict[str, Any]:
    """Whether both decided the same, or within delta of each other: winners timed side by side, gains as they are."""
    race_, whole_ = decisions["race"], decisions["exhaustive"]
    delta = lab.policy.race.delta_pct
    gains = [decision.gain_pct or 0.0 for decision in (race_, whole_)]
    gate = race_.outcome is whole_.outcome or abs(gains[0] - gains[1]) <= delta
    first, second = race_.winner, whole_.winner
    if first == second:
        return {"same": gate, "apart_pct": 0.0}
    if first is None or second is None:
        return {"same": False, "apart_pct": 0.0}
    pair = compared(lab, cell, entrants[first].config, entrants[second].config, ROUNDS, CALLS)
    return {"same": gate and abs(pair.slower_pct) <= delta, "apart_pct": pair.slower_pct}


def loss(lab: Lab, functionals: Functionals, options: argparse.Namespace) -> int:
    """How much slower a table's picks are than the fastest of the whole field. Fails where a cell has no pick."""
    lab.with_table = True
    cells = cells_of(lab, functionals)
    head = {**about(lab), "planned": len(cells)}
    rows = []
    for cell, entrants in compiled(lab, cells, options.jobs):
        rows.append(_loss(lab, cell, entrants))
        write_rows(options.out / "tuning-loss.json", head, rows, "cells")
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
    """One binary under several labels, and beside one that is slower, as `txtdb tune --calibrate` does it.

    The price of a trial of equals is (1 + block_calls) × labels × blocks: by simulation 180 calls where they have 0.5 %
    noise, 380 at 1 % and 930 at 2 %. Eight labels would take 2.3 times as many, and say no more of four.
    """
    config = _plain(lab)
    entrant = _compiled_here(lab, cell, config)
    if entrant.status is not Status.OK:
        return fail(f"{lab.text(config)}: {entrant.status} {entrant.detail}")
    head = {**about(lab), "cell": cell.label, "config": lab.text(config), "planned": options.trials}
    head["before"] = conditions(lab.device)
    done: list[tuple[Trial, Measured]] = []
    cost, found = Cost(), dict[str, Any]()
    for trial in interleaved(options.trials):
        done.append((trial, _trial(lab, cell, entrant, trial, cost)))
        if len(done) % TRIALS_EACH == 0 or len(done) == len(plan_trials(options.trials)):
            found = _calibrated(lab, done)
            text = calibration_text(found["calibration"])
            print(f"{len(done)} trials, {cost.calls} calls, {cost.wall_s:.1f} s: {text}", flush=True)
            data = {**head, "after": conditions(lab.device), "cost": asdict(cost), **found}
            rows = [{"trial": trial.label, **raw(measured)} for trial, measured in done]
            write_rows(options.out / "tuning-calibrate.json", data, rows, "trials")
    return 0 if found["calibration"]["false_promotions_at_bar"]["count"] <= options.trials / 100 else 1


def _compiled_here(lab: Lab, cell: Cell, config: ConfigValues) -> Entrant:
    """One candidate, compiled in this process: another one would take longer to start."""
    try:
        lab.tunable.compile(lab.task(cell), lab.full(cell, config))
    except CandidateFault as fault:
        return Entrant(config, fault.status, fault.detail)
    return lab.entrants(cell, [config], {})[0]


def interleaved(count: int) -> list[Trial]:
    """The trials of a calibration, those of both kinds in turn, so that a run that is cut has some of each."""
    return sorted(plan_trials(count), key=lambda trial: (trial.number * (TWIN_EVERY if trial.twin else 1), trial.twin))


def _trial(lab: Lab, cell: Cell, entrant: Entrant, trial: Trial, cost: Cost) -> Measured:
    own = replace(lab, policy=replace(lab.policy, seed=trial.number))
    factors = (1.0 + SLOWER_PCT / 100, 1.0) if trial.twin else ()
    return race(own, cell, blank(cell, [entrant] * trial.labels, 0, "race"), cost, factors)


def _calibrated(lab: Lab, done: Sequence[tuple[Trial, Measured]]) -> dict[str, Any]:
    """What trials say, and the gains of those of equals."""
    same, slower = ([measured for trial, measured in done if trial.twin is twin] for twin in (False, True))
    gains = [decide(measured, lab.policy, 0.0).gain_pct for measured in same]
    return {"calibration": calibration_of(same, slower, SLOWER_PCT, lab.policy), "gains_pct": gains}


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
        write_rows(options.out / "tuning-power.json", {**about(lab), "steady_s": STEADY_S}, rows, "kernels")
    return 0 if all(abs(row["graph_off_pct"]) <= WITHIN_PCT for row in rows) else 1


def _power(lab: Lab, device: GpuDevice, cell: Cell) -> dict[str, Any]:
    """One kernel. The graph is sampled between two steady runs: a chip that still cools or heats draws other watts."""
    task, config = lab.task(cell), lab.full(cell, _plain(lab))
    microseconds = statistics.median(lab.device.time(task, config, 25, 51, 0)) / 1e3
    listening = _Listening(device.sensor)
    steady = [_steady(device, listening, task, config)]
    graph = device.power(task, config)
    steady.append(_steady(device, listening, task, config))
    with _eager():
        eager = device.power(task, config)
    watts = statistics.fmean(reading.watts or math.nan for reading in steady)
    off = {"graph": _off(graph.watts, watts), "eager": _off(eager.raw_watts, watts)}
    corrected = _off(eager.watts, watts)
    print(
        f"{cell.label:28} {microseconds:8.1f} µs  steady {watts:6.1f} W over 2 × {steady[0].seconds:.1f} s, "
        f"{sum(reading.updates for reading in steady)} updates;  graph {off['graph']:+.2f} %, "
        f"eager {off['eager']:+.2f} %, corrected {corrected:+.2f} %",
        flush=True,
    )
    facts = {"cell": cell.label, "fill": device.measurement.fill, "microseconds": microseconds}
    taken = {"graph": asdict(graph), "eager": asdict(eager), "steady": [asdict(reading) for reading in steady]}
    facts["power_reading_watts"] = statistics.fmean(listening.heard) if listening.heard else None
    offs = {"graph_off_pct": off["graph"], "eager_off_pct": off["eager"], "eager_corrected_off_pct": corrected}
    return {**facts, "steady_watts": watts, **taken, **offs}


def _steady(device: GpuDevice, listening: _Listening, task: Task, config: Config) -> Reading:
    """One trial from end to end, long beside what the others take."""
    device.sampling = Sampling(settle_s=2.0, trials=1, updates=1 << 30, longest_s=STEADY_S)
    device.sensor = listening
    found = device.power(task, config)
    device.sampling, device.sensor = Sampling(), listening.sensor
    return found


class _Listening:
    """A sensor that also takes a power reading with each look at its counter: the same watts by another way."""

    def __init__(self, sensor: Any) -> None:
        self.sensor = sensor
        self.heard: list[float] = []

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
    rows: list[dict[str, Any]] = []
    with Images(lab, cells, configs, options.jobs) as images:
        for cell, item in zip(cells, published, strict=True):
            images.faults(cell.functional)
            rows.append(_retimed(lab, cell, item, *configs[cell]))
            write_rows(options.out / "tuning-retime.json", {**about(lab), "planned": len(cells)}, rows, "cells")
    bad = sum(not row["good"] for row in rows)
    print(f"{len(rows) - bad} of {len(rows)} cells are not slower by more than the bar")
    return 1 if bad or not rows else 0


def _retimed(lab: Lab, cell: Cell, item: CellEvidence, old: ConfigValues, new: ConfigValues) -> dict[str, Any]:
    pair = compared(lab, cell, new, old, ROUNDS, CALLS)
    bar = item.decision.bar_pct or lab.policy.promotion.min_improvement_pct
    is_good = pair.slower_pct <= bar
    mark = "" if is_good else "  SLOWER"
    print(f"{cell.label:32} {-pair.slower_pct:+6.2f} ± {pair.spread_pct:.2f} %{mark}", flush=True)
    return {
        "cell": cell.label, "old": lab.text(old), "new": lab.text(new), "claimed_gain_pct": item.decision.gain_pct,
        "slower_pct": pair.slower_pct, "two_spreads_pct": pair.spread_pct, "bar_pct": bar, "good": is_good,
        "new_old_ns": pair.medians_ns,
    }  # fmt: skip


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
    device.wake()
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
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes that compile")
    parser.add_argument("--least-ratio", type=float, default=5.0, help="`field`: how much cheaper the race has to be")
    parser.add_argument("--functionals", type=int, default=len(LOSS), help="`loss`: only the first so many")
    parser.add_argument("--trials", type=int, default=120, help="`calibrate`: races of equals")
    parser.add_argument("--evidence", type=Path, nargs="*", default=[], help="`retime`: evidence of the patch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
