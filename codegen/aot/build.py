"""Plans → compiled images in the build folder, each distinct one once; what is there already is not compiled again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codegen.aot.folder import BuildFolder
from codegen.aot.plan import TablePlan, Wanted, spec_of
from codegen.aot.pool import Job, Running, compile_all, compiler_ids
from codegen.aot.reassign import Replaced, reassign
from codegen.aot.result import OK, REPEATED, STATUSES, Result, judged
from codegen.aot.sources import Sources, sources
from codegen.aot.spec import Spec
from codegen.aot.standing import Progress, Standing
from txtdb.faults import Fault
from txtdb.model.archs import Arch

DEFAULT_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and how images are compiled: `jobs` processes, at most `limit_s` seconds an image.

    `progress` is told how far it is when an image is done, and about every second meanwhile. Specs are to be made from
    `kernels`.
    """

    folder: BuildFolder
    jobs: int
    limit_s: float = DEFAULT_LIMIT_S
    progress: Progress = lambda standing: None
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


def compile_specs(specs: Iterable[Spec], shop: Workshop, names: Mapping[Spec, str] | None = None) -> Compilation:
    """Compile specs, each once. Results of an earlier run are taken over, but for timeouts and crashes.

    `names` says what people call a spec; without, its kernel stands for it. Raises CompilerMissing, SourcesChanged and
    OSError; what was compiled until then is kept.
    """
    unique = list(dict.fromkeys(specs))
    ids = compiler_ids(dict.fromkeys(spec.target for spec in unique))
    compilers = {spec: ids[spec.target] for spec in unique}
    keys = {spec: spec.key(compilers[spec]) for spec in unique}
    known = {spec: shop.folder.result(key) for spec, key in keys.items()}
    results = {spec: result for spec, result in known.items() if result and result.status not in REPEATED}
    waiting = [spec for spec in unique if spec not in results]
    teller = _Teller(shop, len(unique), names or {}, results)
    with shop.folder.scratch() as scratch:
        work = [Job(number, spec, scratch / str(number)) for number, spec in enumerate(waiting)]
        for job, result in compile_all(work, shop.jobs, shop.limit_s, shop.kernels.content, scratch, teller.tell):
            shop.folder.keep(keys[job.spec], result, _taken(job.file))
            results[job.spec] = result
            teller.seconds.append(result.seconds)
    return Compilation(results, compilers, len(waiting), sum(teller.seconds))


class _Teller:
    """Tells how far a compilation is; `results` and `seconds` grow meanwhile."""

    def __init__(self, shop: Workshop, total: int, names: Mapping[Spec, str], results: Mapping[Spec, Result]) -> None:
        self._shop, self._total, self._names, self._results = shop, total, names, results
        self.seconds: list[float] = []

    def tell(self, running: Sequence[Running]) -> None:
        """What runs now, the longest first."""
        failed = sum(result.status != OK for result in self._results.values())
        named = [(self._names.get(one.job.spec, one.job.spec.kernel), one.seconds) for one in running]
        done, shop = len(self._results), self._shop
        shop.progress(Standing(done, self._total, failed, named, self.seconds, shop.jobs, shop.limit_s))


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
    names = {
        spec: f"{plan.arch} {wanted.name}"
        for plan, own in zip(plans, specs, strict=True)
        for wanted, spec in own.items()
    }
    compilation = compile_specs(names, shop, names)
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
