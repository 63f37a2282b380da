"""One arch: functionals → the candidate of each cell, every one of them compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from codegen.aot import Record, Resources, Result, Spec, Workshop, compile_specs, target_of
from codegen.aot.plan import TablePlan, spec_of
from codegen.aot.result import OK, judged
from tools.tables.choose import Places, choose
from tools.tables.devices import DEVICES
from tools.tables.model import Floats
from tools.tables.models import trust
from tools.tables.search import Say, Search, make_search, run
from txtdb.layers.database import Database
from txtdb.model.archs import Arch
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional

LIKE = {"bf16": "fp16"}


@dataclass(frozen=True)
class Choice:
    """The cells of one functional: `places` are candidates of `search`, `times` their modelled seconds."""

    search: Search
    places: Places
    times: Floats

    def config(self, place: int) -> ConfigValues:
        """A candidate in the schema's field order."""
        names = self.search.arch_schema.schema.field_names
        return tuple(self.search.configs[place][name] for name in names)

    @property
    def chosen(self) -> list[int]:
        """The candidates that cells use."""
        return [int(place) for place in np.unique(self.places)]


def choices(database: Database, arch: str, iface: str, shop: Workshop, say: Say) -> dict[Functional, Choice]:
    """Search all functionals of a kernel on one arch. Those of bf16 take what fp16 has, where their images agree."""
    schema = database.schemas[iface].for_arch(arch)
    assert schema is not None, f"{iface} does not exist on {arch}"
    searches = {functional: _search(database, schema, functional, shop) for functional in schema.declared}
    first = [search for search in searches.values() if search.problem.dtype not in LIKE]
    run(first, shop, say)
    found = {search.functional: _choose(search) for search in first}
    followers = [search for search in searches.values() if search.functional not in found]
    models = {search.functional: found[_like(schema.schema, search.functional)] for search in followers}
    _compile_like(followers, models, shop)
    alike = [search for search in followers if _agree(search, models[search.functional])]
    for search in alike:
        model = models[search.functional]
        found[search.functional] = Choice(search, model.places, model.times)
    others = [search for search in followers if search.functional not in found]
    say(f"{arch}/{iface}: {len(alike)} functionals share a ranking, {len(others)} do not")
    run(others, shop, say)
    found.update((search.functional, _choose(search)) for search in others)
    return {functional: found[functional] for functional in schema.declared}


def _search(database: Database, schema: ArchSchema, functional: Functional, shop: Workshop) -> Search:
    arch = database.archs[schema.section.arch]
    target = target_of(arch)
    assert target is not None, f"{arch.name} is no target"
    return make_search(arch, schema, functional, DEVICES[arch.name], target, shop.kernels)


def _choose(search: Search) -> Choice:
    times = search.times()
    done = sorted(search.compiled())
    assert done, f"{search.label}: no candidate could be compiled"
    return Choice(search, np.array(done)[choose(times[done], trust(search.device).tie)], times)


def _like(schema: Schema, functional: Functional) -> Functional:
    return tuple(LIKE.get(str(value), value) for value in functional)


def _compile_like(searches: Sequence[Search], models: dict[Functional, Choice], shop: Workshop) -> None:
    wanted = [(search, place) for search in searches for place in models[search.functional].chosen]
    made = compile_specs([search.specs[place] for search, place in wanted], shop)
    for search, place in wanted:
        search.results[place] = judged(made.results[search.specs[place]], search.arch.lds_bytes)


def _agree(search: Search, model: Choice) -> bool:
    """Whether the images of both have the same occupancy and local memory, and spill alike."""
    for place in model.chosen:
        own, other = search.results[place].binary, model.search.results[place].binary
        if search.results[place].status != OK or own is None or other is None:
            return False
        if _use_of(own.resources) != _use_of(other.resources):
            return False
    return True


def _use_of(resources: Resources) -> tuple[int, int, bool]:
    return resources.occupancy, resources.shared, bool(resources.spills)


def records(found: Iterable[Choice], compiler: str) -> Iterator[Record]:
    """All that was compiled, for the resource file."""
    for choice in found:
        search, schema = choice.search, choice.search.arch_schema.schema
        for place, result in sorted(search.results.items()):
            config = tuple(search.configs[place][item.name] for item in schema.config if item.binary)
            yield _record(search.functional, config, search.specs[place], compiler, result)


def compile_plan(plan: TablePlan, arch: Arch, shop: Workshop) -> list[Record]:
    """Compile what a table asks for: that of a base for its heir, or the one config of a fixed kernel."""
    specs = {wanted: spec_of(plan, wanted, shop.kernels) for wanted in plan.wanted}
    made = compile_specs([spec for spec in specs.values() if isinstance(spec, Spec)], shop)
    found = []
    for wanted, spec in specs.items():
        assert isinstance(spec, Spec), spec
        result = judged(made.results[spec], arch.lds_bytes)
        found.append(_record(wanted.functional, wanted.config, spec, made.compilers[spec], result))
    return found


def _record(functional: Functional, config: ConfigValues, spec: Spec, compiler: str, result: Result) -> Record:
    resources = result.binary.resources if result.status == OK and result.binary else None
    return Record(functional, config, spec.source, compiler, result.status, resources)
