"""Figures of `txtdb verify`: 1,000 untouched decisions of races of some 200 candidates each.

    python -m tools.bench.verifying [--cells 1000] [--candidates 200] [--runs 5]

Races are those of tools.bench.races, to their end: most candidates leave after two blocks, the last few are in some 36.
The whole process is timed, start included.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from tools.bench.database import Figure, machine, measured, repeated, seconds, txtdb
from tools.bench.races import Bench, World, field
from txtdb.evidence.decide import decide
from txtdb.evidence.files import evidence_digest, write_evidence
from txtdb.evidence.named import stands_for
from txtdb.evidence.policy import Policy, as_json
from txtdb.evidence.race import Race, block_order
from txtdb.model.evidence import Block, CellEvidence, Entrant, Evidence, Measured, Status
from txtdb.model.schema_file import read_schema

SIDE = 32
BINS = tuple(range(64, 64 + SIDE))
BAR_S = 5.0
_BINS = " ".join(map(str, BINS))
SCHEMA = f"""\
iface = "kernel"

[[key]]
name = "dtype"
type = "enum"
values = ["fp16"]
[[axis]]
name = "m"
bins = {list(BINS)}
[[axis]]
name = "n"
bins = {list(BINS)}
[[config]]
name = "variant"
type = "int"
min = 0
max = 1000000
"""
TABLE = f"""\
#! txtdb 1
#! iface kernel
#! arch gfxS
#! origin measured run
#! evidence run.json {{digest}}
#! key dtype
#! axis m {_BINS}
#! axis n {_BINS}
#! config variant

{{palette}}

[fp16]
{{rows}}
#! end
"""


def make_database(root: Path, cells: int, candidates: int) -> None:
    """Write a database whose one table sets what each of so many races decides, at most SIDE × SIDE."""
    places = list(product(BINS, BINS))[:cells]
    made = [raced(seed, candidates, at) for seed, at in enumerate(places)]
    schema, faults = read_schema(SCHEMA.encode(), "kernel.toml", "kernel")
    assert schema is not None, faults
    data = write_evidence(_run(made), schema)
    files = {
        "archs.toml": b"[arch.gfxS]\n",
        "schema/kernel.toml": SCHEMA.encode(),
        "gfxS/kernel.txtdb": _table(made, evidence_digest(data)).encode(),
        "gfxS/evidence/run.json": data,
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def raced(seed: int, candidates: int, at: tuple[int, int]) -> CellEvidence:
    """One cell: a race to its end and its decision, with times to a tenth of a nanosecond."""
    policy, truth = Policy(), field(seed, candidates)
    incumbent = int(np.argsort(truth)[seed % max(candidates // 4, 1)])
    bench, race, blocks = Bench(seed, truth, World()), Race(range(candidates), incumbent, policy), list[Block]()
    while race.state == "running":
        order = block_order(seed, "cell", len(blocks), race.survivors)
        times = bench.visit(order, policy.measurement.block_warm_up, policy.race.block_calls)
        blocks.append(Block(order, tuple(tuple(round(time, 1) for time in calls) for calls in times)))
        race.add(blocks[-1])
    made = Measured(
        functional=("fp16",),
        at=at,
        strategy="race",
        entrants=tuple(Entrant((number,), Status.OK, error=0.25) for number in range(candidates)),
        incumbent=incumbent,
        incumbent_layer="default",
        neighbours=(),
        depth=(),
        blocks=tuple(blocks),
    )
    return CellEvidence(made, decide(made, policy, 0.0))


def _run(cells: list[CellEvidence]) -> Evidence:
    return Evidence(
        iface="kernel",
        arch="gfxS",
        name="run",
        seed=0,
        planned=len(cells),
        policy=as_json(Policy()),
        contract={},
        device={},
        software={},
        calibration=None,
        cells=tuple(cells),
    )


def _table(cells: list[CellEvidence], digest: str) -> str:
    found = {cell.measured.at: stands_for(cell) for cell in cells}
    chosen = {at: config[0] for at, config in found.items() if config is not None}
    palette = "\n".join(f"{_symbol(number)} = {number}" for number in sorted(set(chosen.values())))
    lines = ((m, (_symbol(chosen[m, n]) if (m, n) in chosen else "." for n in BINS)) for m in BINS)
    rows = "\n".join(f"{m} {' '.join(symbols)}" for m, symbols in lines)
    return TABLE.format(digest=digest, palette=palette, rows=rows)


def _symbol(number: object) -> str:
    """Letters only."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number).zfill(3))


def figures(cells: int, candidates: int, runs: int, work: Path) -> list[Figure]:
    """Raises SystemExit where a decision is not proven."""
    make_database(work / "db", cells, candidates)
    costs = repeated(runs, lambda: measured(txtdb("verify", work / "db")))
    size = (work / "db" / "gfxS" / "evidence" / "run.json").stat().st_size
    name = f"`verify` of {cells:,} decisions of {candidates} candidates"
    return [
        Figure(name, "s", seconds(costs), BAR_S),
        Figure("processor time of that", "s", tuple(cost.processor for cost in costs)),
        Figure("peak memory of that", "MB", tuple(cost.megabytes for cost in costs)),
        Figure("size of the evidence", "MB", (size / 1e6,)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.verifying")
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{machine()}, numpy {np.__version__}; {given.runs} runs\n")
        print("| what | median | range | bar |\n|---|---|---|---|")
        for figure in figures(given.cells, given.candidates, given.runs, Path(folder)):
            print(figure.row())


if __name__ == "__main__":
    main()
