"""Cells whose image could not be built go to another one of their functional, by one rule.

The rule: of the images of the functional that were built, the one that serves most cells; of equal ones the one whose
config stands first in the table. So it depends on the table and on what failed, on nothing else. The table itself stays
as it is: the pack answers for the failed image's name with the other image and its config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from codegen.aot.plan import TablePlan, Wanted
from codegen.aot.result import OK, TIMEOUT, Result
from txtdb.faults import Fault, Span
from txtdb.model.table import functional_text
from txtdb.model.values import Functional

RULE = "nothing-built"


@dataclass(frozen=True, slots=True)
class Replaced:
    """An image that could not be built, what stands in for it, and the bins of the cells that are concerned."""

    wanted: Wanted
    by: Wanted
    result: Result
    cells: tuple[tuple[int, ...], ...]


def reassign(plan: TablePlan, result_of: Callable[[Wanted], Result]) -> tuple[tuple[Replaced, ...], tuple[Fault, ...]]:
    """The replacements in a table; a fault for each functional of which nothing was built."""
    groups: dict[Functional, list[Wanted]] = {}
    for wanted in plan.wanted:
        groups.setdefault(wanted.functional, []).append(wanted)
    replaced: list[Replaced] = []
    faults: list[Fault] = []
    for functional, group in groups.items():
        results = {wanted: result_of(wanted) for wanted in group}
        built = [wanted for wanted, result in results.items() if result.status == OK]
        failed = {wanted: result for wanted, result in results.items() if result.status != OK}
        if built:
            by = min(built, key=lambda wanted: (-wanted.cells, wanted.rank))
            replaced += [Replaced(w, by, result, tuple(plan.cells_of(w))) for w, result in failed.items()]
        elif failed:
            faults.append(_nothing_built(plan, functional, failed))
    return tuple(replaced), tuple(faults)


def _nothing_built(plan: TablePlan, functional: Functional, failed: Mapping[Wanted, Result]) -> Fault:
    reasons = "; ".join(f"{wanted.name}: {result.status}" for wanted, result in failed.items())
    message = f"{plan.place} {functional_text(plan.schema, functional)}: no image could be built: {reasons}"
    slow = all(result.status == TIMEOUT for result in failed.values())
    other = "tune the cells with other configs, or declare the functional unsupported"
    hint = "give the compiler more seconds with --limit" if slow else other
    return Fault(RULE, Span(plan.schema.file), message, hint)
