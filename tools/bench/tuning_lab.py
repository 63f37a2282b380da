"""What the programs of `tools.bench.tuning` share: a device with a table's schema, and ways to measure a cell on it."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from txtdb import Database
from txtdb.evidence.decide import finalists
from txtdb.evidence.policy import Policy
from txtdb.evidence.race import Race, block_order
from txtdb.files import atomic_write
from txtdb.model.evidence import Block, Decision, Entrant, Measured, Status
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues, config_text
from txtdb.model.values import Functional, functional_rank
from txtdb.tune.choosing import config_at
from txtdb.tune.device import CandidateFault, Config, Device, Task
from txtdb.tune.fields import Cell, full_config, narrowed, schema_field, task_of
from txtdb.tune.job import table_of
from txtdb.tune.tunable import Tunable

NAN = float("nan")


class Compiler(Protocol):
    """What compiles: a tunable, in processes of its own."""

    def compile(self, task: Task, config: Config) -> None: ...


@dataclass
class Cost:
    """What measuring took: seconds of wall time inside the device, calls (warm-up included), ns of timed calls."""

    wall_s: float = 0.0
    calls: int = 0
    sampled_ns: float = 0.0


@dataclass
class Lab:
    """A device, the schema of the cells, and the table whose picks are the incumbents (None: there are none)."""

    device: Device
    tunable: Tunable
    database: Database
    arch: str
    policy: Policy
    with_table: bool = False
    _verdicts: dict[tuple[Any, ConfigValues], Entrant] = field(default_factory=dict)

    @property
    def arch_schema(self) -> ArchSchema:
        """The schema as it holds on the arch."""
        found = self.database.schemas[self.tunable.iface].for_arch(self.arch)
        assert found, f"{self.tunable.iface} does not exist on {self.arch}"
        return found

    def cell(self, keys: Config, at: tuple[int, ...]) -> Cell:
        """A cell of keys by name, the rest at false or 0."""
        schema = self.arch_schema.schema
        rest = {key.name: key.values[0] if key.values else False for key in schema.keys}
        return Cell(tuple({**rest, **keys}[name] for name in schema.key_names), at)

    def task(self, cell: Cell) -> Task:
        """A cell as devices are told of it."""
        return task_of(self.arch_schema.schema, self.arch, cell)

    def full(self, cell: Cell, config: ConfigValues) -> Config:
        """A config as devices are told of it."""
        return full_config(self.arch_schema.schema, cell.functional, config)

    def text(self, config: ConfigValues) -> str:
        """A config in short."""
        return config_text(self.arch_schema.schema, config)

    def pick(self, cell: Cell) -> ConfigValues | None:
        """What the table gives a cell today."""
        table = table_of(self.database, self.arch, self.tunable.iface) if self.with_table else None
        if isinstance(table, list):
            raise SystemExit("\n".join(fault.message for fault in table))
        return config_at(table, cell) if table else None

    def field(self, cell: Cell) -> list[ConfigValues]:
        """The candidates of a cell with what the table gives, in an order of their own."""
        whole = schema_field(self.arch_schema)
        assert isinstance(whole, tuple), whole
        schema = self.arch_schema.schema
        chosen = set(narrowed(self.tunable, schema, self.task(cell), cell.functional, whole))
        pick = self.pick(cell)
        return sorted(chosen | ({pick} if pick else set()), key=functional_rank)

    def entrants(self, cell: Cell, configs: Sequence[ConfigValues], faults: dict[Any, str]) -> list[Entrant]:
        """Candidates with their verdicts; each is checked once for a functional. `faults`: what did not compile."""
        found = []
        for config in configs:
            key = cell.functional, config
            if key not in self._verdicts:
                self._verdicts[key] = self._judged(cell, config, faults.get(key, ""))
            found.append(self._verdicts[key])
        return found

    def _judged(self, cell: Cell, config: ConfigValues, fault: str) -> Entrant:
        if fault:
            status, _, detail = fault.partition(": ")
            return Entrant(config, Status(status), detail)
        try:
            error = self.device.check(self.task(cell), self.full(cell, config))
        except CandidateFault as found:
            return Entrant(config, found.status, found.detail)
        return Entrant(config, Status.OK if error <= 1.0 else Status.WRONG_RESULT, "", error)

    def time(self, cell: Cell, config: ConfigValues, warm_up: int, calls: int, cost: Cost) -> tuple[float, ...]:
        """The times of one measurement; NaN where the candidate fails."""
        begin = time.perf_counter()
        try:
            times = self.device.time(self.task(cell), self.full(cell, config), warm_up, calls, 0)
        except CandidateFault as fault:
            print(f"  {self.text(config)}: {fault}", flush=True)
            times = [NAN] * calls
        cost.wall_s += time.perf_counter() - begin
        cost.calls += warm_up + calls
        cost.sampled_ns += sum(value for value in times if value > 0)
        return tuple(times)

    def block(
        self, cell: Cell, named: Sequence[tuple[int, ConfigValues]], warm_up: int, calls: int, cost: Cost
    ) -> Block:
        """One block of the entrants in the given order."""
        times = tuple(self.time(cell, config, warm_up, calls, cost) for _, config in named)
        return Block(tuple(number for number, _ in named), times)


def blank(cell: Cell, entrants: Sequence[Entrant], incumbent: int | None, strategy: str) -> Measured:
    """A cell of which nothing is measured yet."""
    nothing: tuple[tuple[float, ...], ...] = tuple(() for _ in entrants)
    layer = "table" if incumbent is not None else "none"
    return Measured(cell.functional, cell.at, strategy, tuple(entrants), incumbent, layer, (), nothing, ())


def exhaustive(lab: Lab, cell: Cell, measured: Measured, cost: Cost) -> Measured:
    """Every candidate to full depth, then rounds of the fastest. They run in this process, not in fresh ones."""
    settings, policy = lab.policy.measurement, lab.policy
    depth = tuple(
        lab.time(cell, one.config, settings.warm_up, settings.calls, cost) if one.status is Status.OK else ()
        for one in measured.entrants
    )
    chosen = finalists(depth, measured.entrants, measured.incumbent, policy)
    blocks = []
    for number in range(policy.finalists.rounds):
        order = block_order(policy.seed, cell.label, number, chosen)
        named = [(one, measured.entrants[one].config) for one in order]
        blocks.append(lab.block(cell, named, settings.warm_up, policy.finalists.calls, cost))
    return replace(measured, depth=depth, blocks=tuple(blocks))


def race(lab: Lab, cell: Cell, measured: Measured, cost: Cost, factors: Sequence[float] = ()) -> Measured:
    """Blocks until the race ends. `factors`, where given, multiply the times of the entrants."""
    valid = [number for number, one in enumerate(measured.entrants) if one.status is Status.OK]
    running = Race(valid, measured.incumbent if measured.incumbent in valid else None, lab.policy)
    blocks: list[Block] = []
    while valid and running.state == "running":
        order = block_order(lab.policy.seed, cell.label, len(blocks), running.survivors)
        named = [(one, measured.entrants[one].config) for one in order]
        settings = lab.policy.measurement.block_warm_up, lab.policy.race.block_calls
        blocks.append(_scaled(lab.block(cell, named, *settings, cost), factors))
        running.add(blocks[-1])
    return replace(measured, blocks=tuple(blocks))


def _scaled(block: Block, factors: Sequence[float]) -> Block:
    if not factors:
        return block
    runs = zip(block.order, block.times, strict=True)
    return Block(block.order, tuple(tuple(time * factors[one] for time in times) for one, times in runs))


@dataclass(frozen=True)
class Pair:
    """How much slower the first of two configs is, percent of the second's time, and twice its standard error.

    `medians_ns`: of both in each round, from which the rest follows.
    """

    slower_pct: float
    spread_pct: float
    medians_ns: tuple[list[int | None], ...]


def compared(lab: Lab, cell: Cell, first: ConfigValues, second: ConfigValues, rounds: int, calls: int) -> Pair:
    """Two configs side by side, in turn, over rounds of some calls; rounds change their order."""
    medians = []
    for number in range(rounds):
        named = [(0, first), (1, second)][:: 1 if number % 2 else -1]
        block = lab.block(cell, named, 3, calls, Cost())
        middle = {one: sorted(times)[len(times) // 2] for one, times in zip(block.order, block.times, strict=True)}
        medians.append([middle[0], middle[1]])
    logs = [math.log(one / other) for one, other in medians]
    mean = math.fsum(logs) / rounds
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (rounds - 1) / rounds)
    return Pair(100 * math.expm1(mean), 200 * spread, tuple(map(whole, medians)))


Item = tuple[Task, Config]


@dataclass
class _Process:
    """A process that compiles, the end of the pipe that its answers come from, and the numbers it has yet to give."""

    process: Any
    answers: Connection
    left: list[int]


class Ahead:
    """Compiles items in processes of their own, in the order given, while the first ones are measured already.

    An item that ends its process costs itself; those behind it go to a new process.
    """

    def __init__(self, compiler: Compiler, items: Sequence[Item], jobs: int) -> None:
        self._compiler, self._items = compiler, items
        self._found: dict[int, str] = {}
        shares = [list(range(first, len(items), jobs)) for first in range(min(jobs, len(items)))]
        self._running = [self._start(share) for share in shares]

    def wait(self, numbers: Iterable[int]) -> list[str]:
        """What became of some items, once that is known: empty, or `status: detail`."""
        wanted = list(numbers)
        while not all(number in self._found for number in wanted):
            ready = wait([one.answers for one in self._running])
            for one in [one for one in self._running if one.answers in ready]:
                self._take(one)
        return [self._found[number] for number in wanted]

    @property
    def done(self) -> int:
        """Of how many items it is known."""
        return len(self._found)

    def close(self) -> None:
        """End all processes."""
        for one in self._running:
            one.process.terminate()
            one.process.join()
        self._running.clear()

    def _start(self, share: list[int]) -> _Process:
        context = get_context("spawn")
        own, theirs = context.Pipe(duplex=False)
        given = [(number, self._items[number]) for number in share]
        process = context.Process(target=_share, args=(self._compiler, given, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Process(process, own, share)

    def _take(self, one: _Process) -> None:
        """One answer of a process, or its end."""
        try:
            number, verdict = one.answers.recv()
        except EOFError:
            self._ended(one)
            return
        self._found[number] = verdict
        one.left.remove(number)

    def _ended(self, one: _Process) -> None:
        one.process.join()
        self._running.remove(one)
        if not one.left:
            return
        first, *rest = one.left
        self._found[first] = f"{Status.CRASH}: the compiler ended with {one.process.exitcode}"
        if rest:
            self._running.append(self._start(rest))


def _share(compiler: Compiler, share: Sequence[tuple[int, Item]], answers: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number, item in share:
        try:
            compiler.compile(*item)
            answers.send((number, ""))
        except CandidateFault as fault:
            answers.send((number, f"{fault.status}: {fault.detail}"))


class Images:
    """The candidates of cells, each compiled once for a functional: those of the first cells first."""

    def __init__(self, lab: Lab, cells: Sequence[Cell], configs: Mapping[Cell, Sequence[ConfigValues]], jobs: int):
        keys = dict.fromkeys((cell.functional, config) for cell in cells for config in configs[cell])
        first = {cell.functional: cell for cell in reversed(cells)}
        items = [(lab.task(first[key[0]]), lab.full(first[key[0]], key[1])) for key in keys]
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._ahead = Ahead(lab.tunable, items, jobs)

    def faults(self, functional: Functional) -> dict[Any, str]:
        """Wait for the images of a functional: (functional, config) → what is wrong with those that have none."""
        begin = time.perf_counter()
        own = [key for key in self._numbers if key[0] == functional]
        verdicts = self._ahead.wait(self._numbers[key] for key in own)
        waited, bad = time.perf_counter() - begin, sum(map(bool, verdicts))
        if waited > 1.0:
            known = f"{self._ahead.done} of {len(self._numbers)} images are there"
            print(f"waited {waited:.0f} s for {len(own)} images, {bad} of which failed; {known}", flush=True)
        return {key: verdict for key, verdict in zip(own, verdicts, strict=True) if verdict}

    def __enter__(self) -> Images:
        return self

    def __exit__(self, *given: object) -> None:
        self._ahead.close()


def whole(times: Iterable[float]) -> list[int | None]:
    """Times in whole nanoseconds; what is none is None."""
    return [None if math.isnan(value) else round(value) for value in times]


def raw(measured: Measured) -> dict[str, Any]:
    """The samples of a cell."""
    return {
        "depth": [whole(times) for times in measured.depth],
        "blocks": [[block.order, [whole(times) for times in block.times]] for block in measured.blocks],
    }


def told(decision: Decision) -> dict[str, Any]:
    """A decision without its standings."""
    facts = asdict(replace(decision, standings=()))
    return {name: value for name, value in facts.items() if name != "standings"}


def conditions(device: Any) -> dict[str, Any]:
    """Clocks, temperature and power, of a device that tells them."""
    return dict(device.conditions()) if hasattr(device, "conditions") else {}


def write_rows(path: Path, head: dict[str, Any], rows: Sequence[dict[str, Any]], name: str) -> None:
    """JSON with one row a line: short, and its differences can be read. The file is whole whenever the program ends."""
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    start = json.dumps(head, indent=1)[:-2]
    atomic_write(path, f'{start},\n "{name}": [\n{lines}\n]\n}}\n'.encode())


def fail(text: str) -> int:
    """Say what is missing; the exit code for it."""
    print(text, file=sys.stderr)
    return 2
