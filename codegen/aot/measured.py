"""Checks of measured cells against the kernels and the compiler of today. docs/aot.md explains each id.

They look at the evidence that tables and patches name, whether images are on record or not, and need neither a compiler
nor a device. A cell is told where no evidence that stands for its config is of today's kernel, or compiler.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from codegen.aot.compiler_name import is_compiler
from codegen.aot.sources import Sources, sources
from codegen.aot.spec import kernel_of
from codegen.aot.wording import counted, first
from txtdb.check.context import Context, DeclaredView, Mask, Place
from txtdb.check.finding import CellRef, Finding
from txtdb.evidence.named import Cell, device_fault
from txtdb.faults import Severity
from txtdb.layers.database import LoadedFile
from txtdb.model.evidence import SOURCE_FACT, SOURCES_FACT, Evidence
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues, functional_text
from txtdb.model.values import Functional, print_values
from txtdb.syntax.tree import Directive

STALE, COMPILER = "stale-evidence", "evidence-compiler"
_AGAIN = "tune these cells again; `txtdb tune --compare OLD` tells whether they still gain"
_CHANGED = "the source of kernel {iface} has changed since {name} measured {count}"
_UNKNOWN = "{name} does not say of which source of kernel {iface} it measured {count}"


@dataclass(frozen=True, eq=False)
class _Run:
    """An evidence file that a layer file names, and what its decisions stand for."""

    directive: Directive
    evidence: Evidence
    chosen: Mapping[Cell, ConfigValues]


@dataclass(frozen=True)
class _Measured:
    """A layer file, and those of its cells that lookups of its arch get, each with the runs that stand for its config.

    `cells` maps places on the grid of `view`, the functional's number first.
    """

    loaded: LoadedFile
    view: DeclaredView
    cells: Mapping[tuple[int, ...], tuple[_Run, ...]]

    def told(self, verdict: Callable[[_Run, Functional], str]) -> dict[tuple[_Run, str], Mask]:
        """The cells of which every run has a verdict that is not empty, by the last of these runs and its verdict."""
        masks: dict[tuple[_Run, str], Mask] = defaultdict(lambda: np.zeros(self.view.cells.shape, bool))
        for at, runs in self.cells.items():
            found = [verdict(run, self.view.functionals[at[0]]) for run in runs]
            if all(found):
                masks[runs[-1], found[-1]][at] = True
        return masks

    def functionals(self, mask: Mask) -> list[int]:
        """The numbers of the functionals that a mask has cells of."""
        found: list[int] = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)).tolist()
        return found

    def names(self, numbers: Iterable[int]) -> list[str]:
        """Functionals as messages name them."""
        return [functional_text(self.view.table.schema, self.view.functionals[number]) for number in numbers]

    def finding(self, context: Context, rule: str, run: _Run, mask: Mask, message: str) -> Finding:
        """A warning at the line that names the run."""
        file = self.loaded.file
        span, heirs = run.directive.span(file.display), _heirs(context, self, mask)
        place = file.arch, file.iface
        return Finding(rule, Severity.WARNING, span, message, _AGAIN, *place, heirs, self.view.refs(mask))


def measured_findings(context: Context) -> Iterator[Finding]:
    """Every finding about measured cells."""
    return check_measured(context, sources())


def check_measured(context: Context, kernels: Sources) -> Iterator[Finding]:
    """The same, with the kernels of another folder."""
    for loaded in context.files:
        measured = _measured(context, loaded)
        if measured:
            yield from _stale(context, measured, kernels)
            yield from _other_compiler(context, measured)


def measured_cells(context: Context, place: Place) -> frozenset[CellRef]:
    """The cells of a place whose config the evidence of a file of its own stands for, whichever file sets it."""
    own = (loaded for loaded in context.files if (loaded.file.arch, loaded.file.iface) == place)
    runs = [run for loaded in own for run in _runs(context, loaded)]
    view = context.view(place) if runs else None
    if view is None:
        return frozenset()
    proven: Mask = np.zeros(view.cells.shape, bool)
    for at, _ in _proven(view, view.cells >= 0, runs):
        proven[at] = True
    return frozenset(view.refs(proven))


def _measured(context: Context, loaded: LoadedFile) -> _Measured | None:
    """What is measured of a file; None where it names no evidence that can be used."""
    runs = list(_runs(context, loaded))
    view = context.view((loaded.file.arch, loaded.file.iface)) if runs else None
    return _Measured(loaded, view, dict(_proven(view, _won(view, loaded), runs))) if view else None


def _runs(context: Context, loaded: LoadedFile) -> Iterator[_Run]:
    """The evidence that a file names. What cannot be used is a finding of the rules about evidence files."""
    for directive in loaded.source.document.directives if loaded.source else []:
        if directive.name == "evidence":
            name, digest = directive.args
            found, arch = context.evidence(loaded, name), loaded.file.arch
            span = directive.span(loaded.file.display)
            if (
                found.evidence
                and found.digest == digest
                and found.evidence.arch == arch
                and device_fault(name, found.evidence, arch, context.database.archs, span) is None
            ):
                yield _Run(directive, found.evidence, found.chosen)


def _won(view: DeclaredView, loaded: LoadedFile) -> Mask:
    """The cells that lookups get from a file."""
    own = [layer.file == loaded.file.display for layer in view.table.layers]
    won: Mask = np.array([*own, False])[view.winner] & (view.cells >= 0)
    return won


def _proven(view: DeclaredView, mask: Mask, runs: list[_Run]) -> Iterator[tuple[tuple[int, ...], tuple[_Run, ...]]]:
    """Of the cells of a mask those whose config runs stand for, and these runs."""
    for at in map(tuple, np.argwhere(mask).tolist()):
        bins = tuple(own[place] for own, place in zip(view.bins, at[1:], strict=True))
        cell, config = (view.functionals[at[0]], bins), view.table.pool[int(view.cells[at])]
        proving = tuple(run for run in runs if run.chosen.get(cell) == config)
        if proving:
            yield at, proving


def _heirs(context: Context, measured: _Measured, mask: Mask) -> tuple[str, ...]:
    """The archs that inherit some of the cells."""
    file, found = measured.loaded.file, []
    for heir in context.heirs.get((file.arch, file.iface), ()):
        other = context.view((heir, file.iface))
        if other and (measured.view.carry(other, mask) & _won(other, measured.loaded)).any():
            found.append(heir)
    return tuple(found)


def _stale(context: Context, measured: _Measured, kernels: Sources) -> Iterator[Finding]:
    schema = measured.view.table.schema
    every = len({at[0] for at in measured.cells})
    for (run, text), mask in measured.told(partial(_outdated, kernels, schema)).items():
        names = measured.names(measured.functionals(mask))
        count = f"{counted(len(names), 'functional')} of {every}: {first(names)}"
        message = text.format(iface=schema.iface, name=run.evidence.name, count=count)
        yield measured.finding(context, STALE, run, mask, message)


def _outdated(kernels: Sources, schema: Schema, run: _Run, functional: Functional) -> str:
    """What is to be told of a functional's source; empty where it is today's, or that of somebody else's kernel."""
    kernel = kernels.kernels.get(schema.iface)
    if kernel is None:
        return ""
    software = run.evidence.software
    by_functional, whole = software.get(SOURCES_FACT), software.get(SOURCE_FACT)
    known = by_functional.get(print_values(functional)) if isinstance(by_functional, Mapping) else None
    if isinstance(known, str):
        return "" if known == kernels.digest(kernel, schema.kernel_values(functional)) else _CHANGED
    if kernel_of(schema, kernels) is None:
        return ""
    if isinstance(whole, str) and whole.startswith("sha256:"):
        return "" if whole == kernels.whole(kernel) else _CHANGED
    return _UNKNOWN


def _other_compiler(context: Context, measured: _Measured) -> Iterator[Finding]:
    wanted = context.compiler
    if not wanted:
        return
    for (run, compiler), mask in measured.told(partial(_other, wanted)).items():
        for number in measured.functionals(mask):
            part = np.zeros_like(mask)
            part[number] = mask[number]
            cells, (name,) = counted(int(part.sum()), "cell"), measured.names([number])
            message = f"{name}: the measurements of {cells} are by {compiler}, not {wanted}"
            yield measured.finding(context, COMPILER, run, part, message)


def _other(wanted: str, run: _Run, _: Functional) -> str:
    """The compiler of a run; empty where it is the wanted one."""
    version = run.evidence.software.get("triton")
    if not isinstance(version, str):
        return "a compiler that the evidence does not name"
    return "" if is_compiler(f"triton-{version}", wanted) else f"triton-{version}"
