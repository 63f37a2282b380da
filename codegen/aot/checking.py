"""A pack held against the database that it should belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.aot.pack import Pack
from codegen.aot.plan import TablePlan
from txtdb.faults import Fault, Span

_REBUILD = "build the pack again"


def pack_faults(pack: Pack, plans: Iterable[TablePlan]) -> Iterator[Fault]:
    """Tables that have changed since, or are gone, and images that they ask for and the pack does not have."""
    current = {plan.place: plan for plan in plans}
    span = Span(pack.path.as_posix())
    for place, table in pack.manifest.tables.items():
        plan = current.get(place)
        if plan is None:
            yield Fault("pack-unlike-table", span, f"{place}: the database has no such table", _REBUILD)
            continue
        if plan.digest != table.digest:
            message = f"{place}: the pack was made for the table {table.digest}, the database has {plan.digest}"
            yield Fault("pack-unlike-table", span, message, _REBUILD)
        for wanted in plan.wanted:
            if table.image(wanted.name) is None:
                yield Fault("pack-missing-image", span, f"{place}: there is no image {wanted.name}", _REBUILD)
