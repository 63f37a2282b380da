"""A pack held against the database that it should belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.aot.pack import Pack
from codegen.aot.pack_manifest import PackedTable
from codegen.aot.plan import TablePlan
from codegen.aot.sources import Sources
from codegen.aot.wording import counted, first
from txtdb.faults import Fault, Span
from txtdb.model.table import functional_text

_REBUILD = "build the pack again"


def pack_faults(pack: Pack, plans: Iterable[TablePlan], kernels: Sources) -> Iterator[Fault]:
    """Tables that have changed since, or are gone, images that they ask for and the pack does not have, and images of
    kernels that have changed since.
    """
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
        stale = list(dict.fromkeys(_stale(plan, table, kernels)))
        if stale:
            message = f"{place}: the kernel has changed since {counted(len(stale), 'functional')}: {first(stale)}"
            yield Fault("pack-stale-kernel", span, message, _REBUILD)


def _stale(plan: TablePlan, table: PackedTable, kernels: Sources) -> Iterator[str]:
    """The functionals of images whose source is not that of today."""
    kernel = kernels.kernels.get(plan.schema.iface)
    for wanted in plan.wanted:
        image = table.image(wanted.name)
        if image is None:
            continue
        if kernel is None or image.origin.source != kernels.digest(
            kernel, plan.schema.kernel_values(wanted.functional)
        ):
            yield functional_text(plan.schema, wanted.functional)
