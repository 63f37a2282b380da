"""Functionals → compiled candidates: the most promising are compiled until the best one is a compiled one.

Before it is compiled, a candidate is ranked by an estimate of its registers; afterwards by what its image needs. So the
work is a few images a functional, not the whole field, and no config is chosen that was not compiled. Where all of
these spill, those that are thought to need the fewest registers are compiled as well: the estimate may be wrong.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from codegen.aot import Result, Sources, Spec, Target, Workshop, compile_specs, make_spec
from codegen.aot.result import OK, judged
from tools.tables.candidates import Config, candidates, estimate
from tools.tables.devices import Device
from tools.tables.model import Floats, Need, Problem
from tools.tables.models import seconds, trust
from txtdb.model.archs import Arch
from txtdb.model.schema import ArchSchema
from txtdb.model.values import Functional

Say = Callable[[str], None]

# Compiled for a functional whose images all spill. Where the whole field was compiled to see (gfx1100, 16 bit, head dim
# 128), every candidate that does not spill is among so many.
FRUGAL = 8


@dataclass
class Search:
    """The candidates of one functional on one arch, and what is known of them."""

    arch: Arch
    arch_schema: ArchSchema
    functional: Functional
    device: Device
    problem: Problem
    specs: list[Spec]
    configs: list[Config]
    results: dict[int, Result] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.arch.name}/{self.problem.iface} {self.functional}"

    def need(self) -> Need:
        """Needs by compiled image where there is one, else estimated. One that failed needs more than there is."""
        need = estimate(self.device, self.problem, self.configs, self._misjudged())
        for place, result in self.results.items():
            own = result.binary.resources if result.status == OK and result.binary else None
            need.registers[place] = own.registers if own else 1e6
            need.spills[place] = own.spills if own else 1e6
            need.shared[place] = own.shared if own else 1e9
            if own and not self.device.name.startswith("sm_"):
                need.waves[place] = own.occupancy
        return need

    def _misjudged(self) -> float:
        """How many times the estimated registers images took: what is known of some helps to judge others."""
        held = estimate(self.device, self.problem, self.configs)
        both = [
            (own.registers + own.spills) / (held.registers[place] + held.spills[place])
            for place, result in self.results.items()
            if result.binary and (own := result.binary.resources)
        ]
        return min(max(statistics.median(both), 0.5), 4.0) if both else 1.0

    def times(self) -> Floats:
        """Modelled seconds, (candidates, query bins, key bins). What spills counts as slow as it can: it comes last."""
        need = self.need()
        times = seconds(self.device, self.problem, self.configs, need)
        return np.where((need.spills > 0)[:, None, None], times * 100 * (1 + need.spills[:, None, None] / 100), times)

    def compiled(self) -> list[int]:
        """Places of candidates that have an image."""
        return [place for place, result in self.results.items() if result.status == OK]

    def hopeful(self) -> list[int]:
        """The candidate to compile next, if any: it would be best in most cells, if it kept what is hoped of it."""
        times, done = self.times(), self.compiled()
        open_ = [place for place in range(len(self.configs)) if place not in self.results]
        if not open_:
            return []
        best = times[done].min(axis=0) if done else np.full(times.shape[1:], np.inf)
        gains = times[open_] * trust(self.device).hope < best
        leader = times[open_].argmin(axis=0)
        wins = [int((gains[row] & (leader == row)).sum()) for row in range(len(open_))]
        most = max(range(len(open_)), key=lambda row: (wins[row], -open_[row]))
        return [open_[most]] if wins[most] else []

    def frugal(self) -> list[int]:
        """The candidates to compile besides where every image spills: by the fewest estimated registers, one stage."""
        if (self.need().spills[self.compiled()] == 0).any():
            return []
        held = estimate(self.device, self.problem, self.configs)
        least = int(min(config["num_stages"] for config in self.configs))
        open_ = [
            place
            for place, config in enumerate(self.configs)
            if place not in self.results and config["num_stages"] == least
        ]
        return sorted(open_, key=lambda place: (held.registers[place] + held.spills[place], place))[:FRUGAL]


def make_search(
    arch: Arch, arch_schema: ArchSchema, functional: Functional, device: Device, target: Target, kernels: Sources
) -> Search:
    """The field of one functional."""
    schema = arch_schema.schema
    keys = schema.functional_dict(functional)
    problem = Problem(
        schema.iface,
        str(keys["Q_dtype"]),
        int(keys["BLOCK_DMODEL"]),
        bool(keys["CAUSAL_TYPE"]),
        bool(keys["ENABLE_DROPOUT"]),
        bool(keys["BIAS_TYPE"]),
        arch_schema.bins[0],
        arch_schema.bins[1],
    )
    configs = candidates(arch_schema, device, problem)
    specs = []
    for config in configs:
        spec = make_spec(kernels, schema.iface, schema.kernel_values(functional), config, target)
        assert not isinstance(spec, str), spec
        specs.append(spec)
    return Search(arch, arch_schema, functional, device, problem, specs, configs)


def run(searches: Sequence[Search], shop: Workshop, say: Say) -> None:
    """Compile until no search hopes for more. Interrupted, it goes on from the build folder."""
    for number in count(1):
        wanted = [(search, place) for search in searches for place in search.hopeful()]
        if not wanted:
            break
        _compile(f"round {number}", wanted, shop, say)
    _compile("where all spill", [(search, place) for search in searches for place in search.frugal()], shop, say)


def _compile(name: str, wanted: Sequence[tuple[Search, int]], shop: Workshop, say: Say) -> None:
    if not wanted:
        return
    made = compile_specs([search.specs[place] for search, place in wanted], shop)
    say(f"{name}: {len(wanted)} candidates, {made.fresh} compiled in {made.seconds:.0f} s of compilers")
    for search, place in wanted:
        search.results[place] = judged(made.results[search.specs[place]], search.arch.lds_bytes)
