"""Configs and back ends: what is illegal, what launches a kernel that does not exist, what is never used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from txtdb.check.context import Context, DeclaredView, Mask, Place, harmless
from txtdb.check.finding import CellRef, Finding, from_fault
from txtdb.faults import Fault, Severity, Span
from txtdb.layers.database import LoadedFile
from txtdb.model.schema import Backend
from txtdb.model.table import ConfigValues, FileTable, config_text
from txtdb.model.values import Functional
from txtdb.syntax import Entry


def illegal_entry(context: Context, loaded: LoadedFile, fault: Fault) -> Finding:
    """The fault of a palette entry with the cells that use it and the archs that get it."""
    arch, iface = loaded.file.arch, loaded.file.iface
    finding = from_fault(fault, arch, iface)
    table = loaded.table
    if table is None:
        return finding
    lines = [entry.line for entry in table.source.document.palette]
    number = table.palette[lines.index(fault.span.line)]
    cells = _file_refs(context, table, iface, table.cells == number)
    heirs = context.heirs.get((arch, iface), ())
    using = tuple(heir for heir in heirs if _uses(context, (heir, iface), table, number))
    return Finding(fault.rule, fault.severity, fault.span, fault.message, fault.hint, arch, iface, using, cells)


def _file_refs(context: Context, table: FileTable, iface: str, mask: Mask) -> tuple[CellRef, ...]:
    names = context.schema(iface).key_names
    keys = [tuple(zip(names, functional, strict=True)) for functional in table.functionals]
    return tuple(
        CellRef(keys[first], tuple(bins[place] for bins, place in zip(table.bins, rest, strict=True)))
        for first, *rest in np.argwhere(mask).tolist()
    )


def _uses(context: Context, place: Place, table: FileTable, number: int | None) -> bool:
    resolved = context.database.resolve(*place).table
    if resolved is None:
        return False
    layers = [index for index, layer in enumerate(resolved.layers) if layer.table is table]
    return bool((np.isin(resolved.winner, layers) & (resolved.cells == number)).any())


def inherited_illegal(context: Context) -> Iterator[Finding]:
    """`illegal-config` of a config that its own arch allows and an heir's section of the schema forbids."""
    for view in context.views():
        if not view.table.arch_schema.section.illegal:
            continue
        inherited = (view.cells >= 0) & ~view.own
        for number in np.unique(view.cells[inherited]).tolist():
            values = view.table.pool[number]
            reason = view.table.arch_schema.illegal(values)
            if reason:
                yield _inherited_illegal(context, view, inherited & (view.cells == number), values, reason)


def _inherited_illegal(context: Context, view: DeclaredView, mask: Mask, values: ConfigValues, reason: str) -> Finding:
    arch, iface = view.table.arch, view.table.iface
    return Finding(
        "illegal-config",
        Severity.ERROR,
        context.table_span((arch, iface)),
        f"inherited config {config_text(view.table.schema, values)} is illegal on {arch}: {reason}",
        "override these cells",
        arch,
        iface,
        (),
        view.refs(mask),
    )


def backend_without_kernel(context: Context) -> Iterator[Finding]:
    """A back end chosen where a kernel interface that it launches has no such functional.

    A functional that the kernel's own table merely lacks is that table's finding, not this one.
    """
    operators = [schema for schema in context.database.schemas.values() if schema.kind == "operator"]
    for schema in sorted(operators, key=lambda schema: schema.iface):
        for backend in schema.backends:
            for kernel in backend.launches:
                yield from _launches(context, schema.iface, backend, kernel)


def _launches(context: Context, iface: str, backend: Backend, kernel: str) -> Iterator[Finding]:
    views = [view for view in context.views() if view.table.iface == iface]
    masks = {(view.table.arch, iface): _unlaunchable(context, view, backend, kernel) for view in views}
    for view in views:
        own = context.originating(view, masks)
        if not own.any():
            continue
        functionals = int(own.reshape(len(own), -1).any(axis=1).sum())
        yield Finding(
            "backend-without-kernel",
            Severity.ERROR,
            _first_span(context, view, own),
            f"back end {backend.name} is chosen in {int(own.sum())} cells of {functionals} functionals "
            f"for which {kernel} has no functional on {view.table.arch}",
            f"choose another back end there, or tune {kernel} for them",
            view.table.arch,
            iface,
            context.inherited_by(view, own, masks),
            view.refs(own),
        )


def _unlaunchable(context: Context, view: DeclaredView, backend: Backend, kernel: str) -> Mask:
    pool = view.table.pool
    numbers = [number for number in range(len(pool)) if pool[number] == (backend.name,)]
    chosen = np.isin(view.cells, numbers)
    lacking = np.array([not _kernel_supports(context, view, kernel, f) for f in view.functionals], bool)
    mask: Mask = chosen & lacking.reshape(-1, *[1] * (chosen.ndim - 1))
    return mask


def _kernel_supports(context: Context, view: DeclaredView, kernel: str, functional: Functional) -> bool:
    schema = context.schema(kernel)
    arch_schema = schema.for_arch(view.table.arch)
    if arch_schema is None:
        return False
    given = view.table.schema.functional_dict(functional)
    given.update({key.name: key.value for key in view.table.schema.fixed_keys})
    fits = all(given.get(key.name, key.value) == key.value for key in schema.fixed_keys)
    return fits and arch_schema.supports(tuple(given[name] for name in schema.key_names))


def _first_span(context: Context, view: DeclaredView, mask: Mask) -> Span:
    """The run that sets the first cell of a mask."""
    first, *rest = np.argwhere(mask)[0].tolist()
    functional = view.functionals[first]
    values = tuple(bins[place] for bins, place in zip(view.bins, rest, strict=True))
    layer = view.table.layers[int(view.winner[(first, *rest)])]
    own = layer.table.bins
    if functional not in layer.index or any(v not in b for v, b in zip(values, own, strict=True)):
        return context.table_span((view.table.arch, view.table.iface))
    places = tuple(bins.index(value) for bins, value in zip(own, values, strict=True))
    return layer.table.cell_span(layer.index[functional], places)


def _unused_entry_hint(entry: Entry) -> str:
    if entry.leading or entry.trailing:
        return "remove the entry with its comment; `txtdb fmt --prune` keeps what has one"
    return "remove the entry, or let `txtdb fmt --prune` do it"


def unused_entries(context: Context) -> Iterator[Finding]:
    """`unused-entry`: a palette entry that no row of its file uses."""
    for loaded in context.files:
        if loaded.source is None or not harmless(loaded.faults):
            continue
        document = loaded.source.document
        used = {cell for rows in loaded.source.rows for row in rows for cell in row.cells}
        for place, entry in enumerate(document.palette):
            if place not in used:
                yield Finding(
                    "unused-entry",
                    Severity.WARNING,
                    entry.span(document.file),
                    f"no row uses `{entry.symbol}`",
                    _unused_entry_hint(entry),
                    loaded.file.arch,
                    loaded.file.iface,
                )
