"""Writes the tables of a database from its schemas and arch facts, without a device: `python -m tools.tables ROOT`.

archs.toml and schema/ are written by hand; tables, patches, resource files and the files that only name a base come
from here. Compiled images are kept in the build folder, so that an interrupted run goes on where it was, and running it
again changes nothing. docs/amd-tables.md explains the model.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from codegen.aot import BuildFolder, Record, Workshop, target_of, update_resources
from codegen.aot.plan import TablePlan, make_plans
from codegen.aot.pool import CompilerMissing, SourcesChanged, compiler_ids
from tools.tables import writing
from tools.tables.making import Choice, choices, compile_plan, records
from tools.tables.roots import BACKWARD, FIXED, FORWARD, KERNELS, ROOTS, Root
from txtdb.faults import Fault, FaultError, Span
from txtdb.files import write_if_changed
from txtdb.layers.database import Database, load
from txtdb.model.values import Functional
from txtdb.wording import install_hint

# A candidate that takes longer spills thousands of registers.
CANDIDATE_LIMIT_S = 40.0

Found = dict[Functional, Choice]


def main() -> None:
    """Write every file whose content would change, and say which."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.tables", description="Write the tables of a database that are modelled, not measured."
    )
    parser.add_argument("root", type=Path, help="the database: a folder called amd or nvidia")
    parser.add_argument("--arch", action="append", help="only this, and those over it; repeat for more  [default: all]")
    parser.add_argument("--build", type=Path, default=Path("build/aot"), help="keeps images  [default: build/aot]")
    parser.add_argument("--jobs", type=_jobs, default=os.cpu_count() or 1, help="compiler processes")
    options = parser.parse_args()
    try:
        _Maker(options.root, Workshop(BuildFolder(options.build), options.jobs, CANDIDATE_LIMIT_S)).run(options.arch)
    except FaultError as error:
        parser.error(str(error))
    except CompilerMissing as error:
        parser.error(f"the compiler does not start: {error}; {install_hint('aot')}")
    except SourcesChanged:
        parser.error("the kernels were edited meanwhile: start again")
    except OSError as error:
        parser.error(str(error))


def _jobs(text: str) -> int:
    found = int(text)
    if found < 1:
        raise ValueError
    return found


def _facts(root: Path) -> Root:
    """What is made in a folder. Raises FaultError for one of another name."""
    found = ROOTS.get(root.resolve().name)
    if found is None:
        raise _fault(root.as_posix(), "no tables are made for a database of this name", tuple(ROOTS))
    return found


def _fault(where: str, message: str, known: Sequence[str]) -> FaultError:
    return FaultError([Fault("argument", Span(where), message, f"known are {', '.join(known)}")])


class _Maker:
    def __init__(self, root: Path, shop: Workshop) -> None:
        self.root, self.shop = root, shop
        self.facts = _facts(root)
        self.database: Database = load(root)
        self.begin = time.monotonic()

    def run(self, archs: list[str] | None) -> None:
        """All chosen archs, each written as soon as it is done; with a base those over it.

        Raises FaultError for an arch that is none of them.
        """
        known = (*self.facts.own, *self.facts.heirs)
        unknown = [name for name in archs or () if name not in known]
        if unknown:
            raise _fault(unknown[0], "no tables are made for this arch", known)
        for arch in self.facts.own:
            if archs is None or arch in archs:
                self.own(arch)
            for heir, base in self.facts.heirs.items():
                if base == arch and (archs is None or {heir, base} & set(archs)):
                    self.heir(heir, base)

    def say(self, text: str) -> None:
        """Progress with the time since the start."""
        print(f"{time.monotonic() - self.begin:7.0f} s  {text}", file=sys.stderr, flush=True)

    def own(self, arch: str) -> None:
        """An arch with tables of its own."""
        found: dict[str, Found] = {}
        for iface in KERNELS:
            self.say(f"{arch}/{iface}")
            found[iface] = choices(self.database, arch, iface, self.shop, self.say)
            self.write_kernel(arch, iface, found[iface])
        self.planned(arch, FIXED)
        for iface, text in self.operators(arch, found):
            self.write(arch, f"{iface}.txtdb", text)

    def write_kernel(self, arch: str, iface: str, found: Found) -> None:
        """Table, patch and resource file. Where the own table was measured, only a patch for what it lacks."""
        schema = self.database.schemas[iface].for_arch(arch)
        assert schema is not None
        measured = self.measured(arch, iface)
        if measured:
            found = {functional: choice for functional, choice in found.items() if functional not in measured}
            own = (self.root / arch / f"{iface}.txtdb").read_text(encoding="utf-8")
            self.write(arch, f"{iface}.{writing.REST}.dbpatch", writing.rest(schema, arch, found, own))
            self.planned(arch, (iface,))
        elif iface == "attn_fwd" and arch in self.facts.patched:
            text, patch = writing.patched(schema, arch, found)
            self.write(arch, f"{iface}.{writing.PATCH}.dbpatch", patch)
            self.write(arch, f"{iface}.txtdb", text)
        else:
            self.write(arch, f"{iface}.txtdb", writing.table(schema, arch, found))
        target = target_of(self.database.archs[arch])
        assert target is not None
        compiler = compiler_ids([target])[target]
        self.resources(iface, arch, list(records(found.values(), compiler)))

    def measured(self, arch: str, iface: str) -> frozenset[Functional]:
        """The functionals of an arch's own table, if that was measured: such a table is never replaced."""
        file = self.database.listings[0].tables.get((arch, iface))
        loaded = self.database.file(file) if file else None
        origin = loaded.source.document.directive("origin") if loaded and loaded.source else None
        if not (loaded and loaded.table and origin and origin.args[0] == "measured"):
            return frozenset()
        return frozenset(loaded.table.functionals)

    def operators(self, arch: str, found: dict[str, Found]) -> Iterator[tuple[str, str]]:
        """The texts of both operator tables."""
        forward = self.database.schemas[FORWARD].for_arch(arch)
        backward = self.database.schemas[BACKWARD].for_arch(arch)
        assert forward is not None and backward is not None
        yield FORWARD, writing.forward_operator(forward, arch)
        kernels = {iface: found[iface] for iface in KERNELS if iface != "attn_fwd"}
        yield BACKWARD, writing.backward_operator(backward, arch, kernels)

    def heir(self, arch: str, base: str) -> None:
        """An arch that takes the tables of another; what it inherits is compiled for it as well."""
        self.say(f"{arch}, over {base}")
        own = {plan.schema.iface: writing.without_spills(plan, made) for plan, made in self.planned(arch, None, base)}
        for iface in (*KERNELS, FORWARD, BACKWARD):
            schema = self.database.schemas[iface].for_arch(arch)
            assert schema is not None
            self.write(arch, f"{iface}.txtdb", writing.heir(schema, arch, base, own.get(iface)))

    def planned(
        self, arch: str, ifaces: Iterable[str] | None, base: str | None = None
    ) -> list[tuple[TablePlan, Sequence[Record]]]:
        """Compile for an arch what its tables on disk ask for, or those of its base. No interfaces means all."""
        fresh = load(self.root)
        plans, faults = make_plans(fresh, [base or arch], ifaces or ())
        if faults:
            raise FaultError(faults)
        target = target_of(fresh.archs[arch])
        assert target is not None
        own = [replace(plan, arch=arch, target=target) for plan in plans]
        made = [(plan, compile_plan(plan, fresh.archs[arch], self.shop)) for plan in own]
        for plan, records_ in made:
            self.resources(plan.schema.iface, arch, records_)
        return made

    def resources(self, iface: str, arch: str, made: Sequence[Record]) -> None:
        """Bring a resource file up to date; failed images are told."""
        failed = [record for record in made if record.status != "ok"]
        if failed:
            self.say(f"{arch}/{iface}: {len(failed)} of {len(made)} images could not be compiled")
        path, written, faults = update_resources(self.root, self.database.schemas[iface], arch, made)
        assert not faults, faults
        if written:
            print(path.as_posix())

    def write(self, arch: str, name: str, text: str) -> None:
        """One file, where its content changes."""
        path = self.root / arch / name
        path.parent.mkdir(exist_ok=True)
        if write_if_changed(path, text.encode()):
            print(path.as_posix())


if __name__ == "__main__":
    main()
