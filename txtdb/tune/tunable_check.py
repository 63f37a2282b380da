"""What a tunable says of the cells of a run, asked before a device is opened: it needs none for that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from txtdb.model.schema import ArchSchema, Schema
from txtdb.tune.choosing import shapes_in_bin
from txtdb.tune.device import Task
from txtdb.tune.fields import Cell, CellPlan, task_of
from txtdb.tune.tunable import Problem, Tunable
from txtdb.tune.tunable_faults import asked, asked_items, unusable, wrong_value

_DIGEST = re.compile(r"sha256:[0-9a-f]+")


def check_asks(tunable: Tunable, schema: Schema) -> None:
    """Raises TunableFault where a tunable asks for what the schema lacks, or names what is no name."""
    fixed = (key.name for key in schema.fixed_keys)
    declared = {*schema.key_names, *fixed, *schema.axis_names, *schema.field_names}
    asks = asked_items(tunable, "asks", str, "names")
    lacking = [name for name in asks if name not in declared]
    if lacking:
        raise unusable(tunable, "asks", f"needs {', '.join(lacking)}, which the schema lacks")


def check_tunable(tunable: Tunable, arch_schema: ArchSchema, plans: Sequence[CellPlan], fill: int) -> None:
    """Ask for the digests and problems of all cells, as workers do later. Raises TunableFault for what is wrong.

    `fill` is that of the policy, see `Tunable.timing_problem`.
    """
    check_asks(tunable, arch_schema.schema)
    for member in ("restored", "zeroed"):
        asked_items(tunable, member, str, "names of arguments")
    source = asked(tunable, "source")
    if not isinstance(source, str) or not _DIGEST.fullmatch(source):
        raise wrong_value(tunable, "source", source, "`sha256:` and hexadecimal digits")
    for functional in dict.fromkeys(plan.cell.functional for plan in plans):
        found = asked(tunable, "functional_source", arch_schema.schema.kernel_values(functional))
        if not isinstance(found, str) or not found:
            raise wrong_value(tunable, "functional_source", found, "a digest as text")
    for plan in plans:
        task = task_of(arch_schema.schema, arch_schema.section.arch, plan.cell)
        _problem(tunable, "timing_problem", asked(tunable, "timing_problem", task, fill))
        _problems(tunable, "accuracy_problems", task)
        for other in _confirmed(arch_schema, plan.cell):
            _problems(tunable, "confirmation_problems", other)


def check_reset(tunable: Tunable, arguments: Mapping[str, object]) -> None:
    """Raises TunableFault for names in `restored` and `zeroed` that are no arguments, or stand in both."""
    for member in ("restored", "zeroed"):
        unknown = [name for name in getattr(tunable, member) if name not in arguments]
        if unknown:
            known = ", ".join(arguments)
            raise unusable(tunable, member, f"names {', '.join(unknown)}; the arguments are {known}")
    both = set(tunable.restored) & set(tunable.zeroed)
    if both:
        raise unusable(tunable, "zeroed", f"names {', '.join(sorted(both))}, which `restored` names as well")


def check_names(tunable: Tunable, truth: object, results: object) -> None:
    """Raises TunableFault where the right results are not those that a call has, by the same names."""
    if not isinstance(truth, Mapping) or not truth:
        raise wrong_value(tunable, "reference", truth, "the right results by name")
    if not isinstance(results, Mapping) or results.keys() != truth.keys():
        names = ", ".join(map(str, truth))
        raise wrong_value(tunable, "results", results, f"the results that `reference` has: {names}")


def check_tolerance(tunable: Tunable, value: object) -> float:
    """The value. Raises TunableFault where errors cannot be told in units of it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise wrong_value(tunable, "tolerance", value, "a finite number above 0")
    return float(value)


def _confirmed(arch_schema: ArchSchema, cell: Cell) -> Iterator[Task]:
    """The tasks that a winner of a cell is confirmed with."""
    for at in shapes_in_bin(arch_schema, cell.at) or [cell.at]:
        yield task_of(arch_schema.schema, arch_schema.section.arch, replace(cell, at=at))


def _problems(tunable: Tunable, member: str, task: Task) -> None:
    problems = asked_items(tunable, member, Problem, "problems", task)
    if not problems:
        raise unusable(tunable, member, f"gave no problem for {dict(task.functional)} {dict(task.at)}")
    for problem in problems:
        _problem(tunable, member, problem)


def _problem(tunable: Tunable, member: str, problem: object) -> None:
    if not isinstance(problem, Problem):
        raise wrong_value(tunable, member, problem, "a problem (txtdb.tune.tunable.Problem)")
    sizes = problem.sizes
    if not isinstance(sizes, Mapping) or not all(type(size) is int for size in sizes.values()):
        raise wrong_value(tunable, member, problem, "a problem whose sizes are ints by name")
    if type(problem.seed) is not int:
        raise wrong_value(tunable, member, problem, "a problem whose seed is an int")
