"""Absence: functionals, rows, bins and cells that the schema declares and no layer gives a config."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from txtdb.check.context import Context, DeclaredView, Mask, Place
from txtdb.check.finding import CellRef, Finding
from txtdb.faults import Severity, Span
from txtdb.model.table import MASKED, FileTable, functional_text
from txtdb.model.values import Functional


def gap_masks(context: Context) -> dict[Place, Mask]:
    """For every table that can be judged: the declared cells without a config."""
    return {(view.table.arch, view.table.iface): view.cells < 0 for view in context.views()}


def gaps(context: Context) -> Iterator[Finding]:
    """`missing-functional`, `missing-row` and `hole`, each where it originates."""
    masks = gap_masks(context)
    for view in context.views():
        own = context.originating(view, masks)
        for place in np.flatnonzero(own.reshape(len(own), -1).any(axis=1)).tolist():
            yield from _functional_gaps(context, view, place, own, masks)


def _functional_gaps(
    context: Context, view: DeclaredView, place: int, own: Mask, masks: dict[Place, Mask]
) -> Iterator[Finding]:
    everything = masks[view.table.arch, view.table.iface][place]
    functional = view.functionals[place]
    text = functional_text(view.table.schema, functional)
    if everything.all() and not (view.cells[place] == MASKED).any():
        part = np.zeros_like(own)
        part[place] = own[place]
        yield _finding(
            context,
            view,
            "missing-functional",
            f"{text} has no cell",
            part,
            masks,
            _block_span(context, view, functional),
        )
        return
    width = own.shape[-1]
    rows = own[place].reshape(-1, width)
    for row in np.flatnonzero(rows.any(axis=1)).tolist():
        part = np.zeros_like(own)
        part[place].reshape(-1, width)[row] = rows[row]
        yield _row_gap(context, view, (place, row), part, masks)


def _row_gap(
    context: Context, view: DeclaredView, where: tuple[int, int], part: Mask, masks: dict[Place, Mask]
) -> Finding:
    place, row = where
    functional = view.functionals[place]
    cells = view.cells[place].reshape(-1, part.shape[-1])[row]
    bins = _row_bins(view, row)
    label = ", ".join(f"{name}={value}" for name, value in zip(view.table.schema.axis_names, bins, strict=False))
    text = f"{functional_text(view.table.schema, functional)}{' at ' + label if label else ''}"
    whole = bool((cells < 0).all() and not (cells == MASKED).any()) and bool(label)
    if whole:
        return _finding(
            context,
            view,
            "missing-row",
            f"{text}: the row is missing",
            part,
            masks,
            _block_span(context, view, functional),
        )
    masked, missing = int((cells == MASKED).sum()), int(((cells < 0) & (cells != MASKED)).sum())
    what = ", ".join(f"{count} {word}" for count, word in ((missing, "missing"), (masked, "masked")) if count)
    return _finding(context, view, "hole", f"{text}: {what}", part, masks, _row_span(context, view, functional, bins))


def _finding(
    context: Context, view: DeclaredView, rule: str, message: str, part: Mask, masks: dict[Place, Mask], span: Span
) -> Finding:
    return Finding(
        rule,
        Severity.ERROR,
        span,
        message,
        "tune these cells, or declare them unsupported in the schema",
        view.table.arch,
        view.table.iface,
        context.inherited_by(view, part, masks),
        view.refs(part),
    )


def _row_bins(view: DeclaredView, row: int) -> tuple[int, ...]:
    """The bins of a flat row, on all axes but the last."""
    lengths = view.cells.shape[1:-1]
    places = np.unravel_index(row, lengths) if lengths else ()
    return tuple(bins[int(place)] for bins, place in zip(view.bins, places, strict=False))


def _file_tables(view: DeclaredView, functional: Functional) -> Iterator[tuple[FileTable, int]]:
    """The arch's own files that have a block for a functional, the highest first."""
    for layer in reversed(view.table.layers):
        if layer.arch == view.table.arch and functional in layer.index and isinstance(layer.table, FileTable):
            yield layer.table, layer.index[functional]


def _block_span(context: Context, view: DeclaredView, functional: Functional) -> Span:
    for table, number in _file_tables(view, functional):
        return table.block_span(number)
    return context.table_span((view.table.arch, view.table.iface))


def _row_span(context: Context, view: DeclaredView, functional: Functional, bins: tuple[int, ...]) -> Span:
    for table, number in _file_tables(view, functional):
        if any(value not in own for value, own in zip(bins, table.bins, strict=False)):
            continue
        places = tuple(own.index(value) for value, own in zip(bins, table.bins, strict=False))
        row = table.row_of(number, (*places, 0))
        if row:
            return row.span(table.source.file)
    return _block_span(context, view, functional)


def missing_bins(context: Context) -> Iterator[Finding]:
    """`missing-bin`: a declared bin that no layer has at all."""
    for view in context.views():
        arch, iface = view.table.arch, view.table.iface
        bases = context.bases((arch, iface))
        for axis, name in enumerate(view.table.schema.axis_names):
            inherited = {b for base in bases for b in base.missing_bins[axis]}
            for value in view.missing_bins[axis]:
                if value not in inherited:
                    yield _missing_bin(context, view, axis, f"{name}={value}", value)


def _missing_bin(context: Context, view: DeclaredView, axis: int, text: str, value: int) -> Finding:
    arch, iface = view.table.arch, view.table.iface
    heirs = context.heirs.get((arch, iface), ())
    lacking = [heir for heir in heirs if (v := context.view((heir, iface))) and value in v.missing_bins[axis]]
    names = view.table.schema.key_names
    others = [bins if place != axis else (value,) for place, bins in enumerate(view.table.arch_schema.bins)]
    grid = np.stack(np.meshgrid(*others, indexing="ij"), -1).reshape(-1, len(others)).tolist()
    cells = tuple(CellRef(tuple(zip(names, f, strict=True)), tuple(at)) for f in view.functionals for at in grid)
    return Finding(
        "missing-bin",
        Severity.ERROR,
        context.table_span((arch, iface)),
        f"no layer has the declared bin {text}",
        "add it to `#! axis` with its rows, or take it out of the schema",
        arch,
        iface,
        tuple(lacking),
        cells,
    )
