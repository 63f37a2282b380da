"""Plans → compiled images in the build folder, each distinct one once; what is there already is not compiled again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codegen.aot.folder import BuildFolder
from codegen.aot.plan import TablePlan, Wanted, spec_of
from codegen.aot.pool import Job, compile_all, compiler_ids
from codegen.aot.reassign import Replaced, reassign
from codegen.aot.result import REPEATED, STATUSES, Result, judged
from codegen.aot.sources import Sources, sources
from codegen.aot.spec import Spec
from txtdb.faults import Fault
from txtdb.model.archs import Arch

Progress = Callable[[int, int], None]

DEFAULT_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and how images are compiled: `jobs` processes, at most `limit_s` seconds an image.

    `progress` is called with the numbers of images done and in all. Specs are to be made from `kernels`.
    """

    folder: BuildFolder
    jobs: int
    limit_s: float = DEFAULT_LIMIT_S
    progress: Progress = lambda done, total: None
    kernels: Sources = field(default_factory=sources)


@dataclass(frozen=True)
class Compilation:
    """The outcome for some specs. `fresh` counts what was compiled in this run, not found in the build folder;
    `seconds` is the time that compilers took for it, all processes together.
    """

    results: dict[Spec, Result]
    compilers: dict[Spec, str]
    fresh: int
    seconds: float


@dataclass(frozen=True)
class BuiltTable:
    """A plan with what became of its images. `results` are judged by the limits of the arch."""

    plan: TablePlan
    specs: dict[Wanted, Spec]
    results: dict[Wanted, Result]
    replaced: tuple[Replaced, ...]


@dataclass(frozen=True)
class Build:
    """All tables, and the faults that forbid a pack."""

    tables: tuple[BuiltTable, ...]
    compilation: Compilation
    faults: tuple[Fault, ...]

    @property
    def statuses(self) -> dict[str, int]:
        """Images of all tables by status."""
        counts = Counter(result.status for table in self.tables for result in table.results.values())
        return {status: counts[status] for status in STATUSES}


def compile_specs(specs: Iterable[Spec], shop: Workshop) -> Compilation:
    """Compile specs, each once. Results of an earlier run are taken over, but for timeouts and crashes.

    Raises CompilerMissing, SourcesChanged and OSError; what was compiled until then is kept.
    """
    unique = list(dict.fromkeys(specs))
    names = compiler_ids(dict.fromkeys(spec.target for spec in unique))
    compilers = {spec: names[spec.target] for spec in unique}
    keys = {spec: spec.key(compilers[spec]) for spec in unique}
    known = {spec: shop.folder.result(key) for spec, key in keys.items()}
    results = {spec: result for spec, result in known.items() if result and result.status not in REPEATED}
    waiting = [spec for spec in unique if spec not in results]
    seconds = 0.0
    shop.progress(len(results), len(unique))
    with shop.folder.scratch() as scratch:
        work = [Job(number, spec, scratch / str(number)) for number, spec in enumerate(waiting)]
        for job, result in compile_all(work, shop.jobs, shop.limit_s, shop.kernels.content, scratch):
            shop.folder.keep(keys[job.spec], result, _taken(job.file))
            results[job.spec] = result
            seconds += result.seconds
            shop.progress(len(results), len(unique))
    return Compilation(results, compilers, len(waiting), seconds)


def _taken(file: Path) -> bytes:
    """What a worker wrote, taken away; empty where it wrote nothing."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return b""
    file.unlink()
    return data


def build(plans: Sequence[TablePlan], archs: Mapping[str, Arch], shop: Workshop) -> Build:
    """Compile everything that the plans want. Raises as `compile_specs` does."""
    specs, faults = _specs(plans, shop.kernels)
    if faults:
        return Build((), Compilation({}, {}, 0, 0.0), tuple(faults))
    every = (spec for own in specs for spec in own.values())
    compilation = compile_specs(every, shop)
    tables = []
    for plan, own in zip(plans, specs, strict=True):
        limit = archs[plan.arch].lds_bytes
        results = {wanted: judged(compilation.results[spec], limit) for wanted, spec in own.items()}
        replaced, nothing_left = reassign(plan, results.__getitem__)
        faults += nothing_left
        tables.append(BuiltTable(plan, own, results, replaced))
    return Build(tuple(tables), compilation, tuple(faults))


def _specs(plans: Sequence[TablePlan], kernels: Sources) -> tuple[list[dict[Wanted, Spec]], list[Fault]]:
    found, faults = [], []
    for plan in plans:
        made = {wanted: spec_of(plan, wanted, kernels) for wanted in plan.wanted}
        found.append({wanted: spec for wanted, spec in made.items() if isinstance(spec, Spec)})
        faults += [spec for spec in made.values() if isinstance(spec, Fault)]
    return found, list(dict.fromkeys(faults))
