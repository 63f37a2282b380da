"""Files, patches and pins: what no layer uses, what changes nothing, and ground that moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from txtdb.check.context import Context, Mask, harmless
from txtdb.check.finding import CellRef, Finding
from txtdb.editing.cells import ground_hint
from txtdb.faults import Severity, Span
from txtdb.layers.database import LoadedFile
from txtdb.layers.listing import LayerFile
from txtdb.layers.resolve import Fold, Layer, bin_index, empty_fold, fold_layers, ground_digest, set_cells
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import ArchSchema
from txtdb.model.table import MASKED, UNSET, Cells, FileTable, config_text, functional_text
from txtdb.model.values import print_value, print_values
from txtdb.wording import did_you_mean

# The hint of `equal-patch-number` tells so many cells in full, each in a line.
_TOLD_CELLS = 3


def unreachable_files(context: Context) -> Iterator[Finding]:
    """`unused-file`, `unknown-arch`, `unknown-iface`, `unreachable-file`: files that no lookup can reach."""
    database = context.database
    for number, listing in enumerate(database.listings):
        strays = [*listing.strays, *(listing.schemas.values() if number else ())]
        for path in strays:
            yield _file_finding(
                "unused-file", listing.shown(path), "no layer uses this file", "remove it, or correct its name"
            )
        for folder in listing.folders:
            if folder not in database.archs:
                path = f"{listing.label}/{folder}"
                yield _file_finding(
                    "unknown-arch", path, f"archs.toml has no arch `{folder}`", "add it, or correct the name"
                )
    for file in context.layer_files:
        yield from _unreachable(context, file)


def _unreachable(context: Context, file: LayerFile) -> Iterator[Finding]:
    schema = context.database.schemas.get(file.iface)
    if file.arch not in context.database.archs:
        return
    if schema is None:
        broken = file.iface in context.database.listings[0].schemas
        if not broken:
            hint = f"add schema/{file.iface}.toml, or correct the name"
            yield _file_finding("unknown-iface", file.display, f"no schema declares `{file.iface}`", hint, file.arch)
    elif file.arch not in schema.archs:
        text = f"{file.iface} does not exist on {file.arch}: no lookup reaches this file"
        yield _file_finding(
            "unreachable-file", file.display, text, f"add [arch.{file.arch}] to {schema.file}", file.arch
        )


def _file_finding(rule: str, path: str, message: str, hint: str, arch: str = "") -> Finding:
    return Finding(rule, Severity.ERROR, Span(path), message, hint, arch)


def unreachable_blocks(context: Context) -> Iterator[Finding]:
    """`unreachable-block`: a functional that does not exist on its arch; every lookup of it says `unsupported`."""
    for loaded in context.files:
        if loaded.table is None:
            continue
        schema = context.schema(loaded.file.iface)
        arch_schema = schema.for_arch(loaded.file.arch)
        assert arch_schema is not None, "Context.files holds files of declared archs only"
        for place, functional in enumerate(loaded.table.functionals):
            if not arch_schema.supports(functional):
                yield _unreachable_block(loaded, loaded.table, arch_schema, place)


def _unreachable_block(loaded: LoadedFile, table: FileTable, arch_schema: ArchSchema, place: int) -> Finding:
    """The first value that the arch does not have, at its column; else the whole combination."""
    arch, functional, span = loaded.file.arch, table.functionals[place], table.block_span(place)
    text = f"{functional_text(arch_schema.schema, functional)} does not exist on {arch}"
    hint = "no lookup reaches this block: correct its values, or declare it in the schema"
    for key, value, domain in zip(arch_schema.schema.keys, functional, arch_schema.domains, strict=True):
        if value not in domain:
            where = f" on {arch}" if value in key.values else ""
            text = f"{key.name} has no value {print_value(value)}{where}; it has {print_values(domain)}"
            hint = f"{did_you_mean(print_value(value), map(print_value, domain))}{hint}"
            document = table.source.document
            line = document.blocks[table.blocks[place]]
            span = line.word_span(table.source.file, document.keys.index(key.name))
            break
    return Finding(
        "unreachable-block",
        Severity.ERROR,
        span,
        text,
        hint,
        arch,
        loaded.file.iface,
    )


def undeclared_bins(context: Context) -> Iterator[Finding]:
    """`undeclared-bin`: a bin of a file that the schema does not declare for the arch."""
    for loaded in context.files:
        if loaded.source is None or loaded.table is None or not harmless(loaded.faults):
            continue
        arch_schema = context.schema(loaded.file.iface).for_arch(loaded.file.arch)
        assert arch_schema is not None, "Context.files holds files of declared archs only"
        directives = [d for d in loaded.source.document.directives if d.name == "axis"]
        for directive, declared in zip(directives, arch_schema.bins, strict=False):
            for index, text in enumerate(directive.args[1:], 1):
                if int(text) not in declared:
                    yield Finding(
                        "undeclared-bin",
                        Severity.WARNING,
                        directive.arg_span(loaded.file.display, index),
                        f"{directive.args[0]} has no declared bin {text} on {loaded.file.arch}",
                        "declare it in the schema, so that missing cells are found, or remove it",
                        loaded.file.arch,
                        loaded.file.iface,
                    )


def patch_effects(context: Context) -> Iterator[Finding]:
    """`no-op-override` and `stale-onto`: patches held against the table below them."""
    for arch, iface in context.database.places():
        if not any(file.number is not None for _, file in context.database.layer_files(arch, iface)):
            continue
        view = context.view((arch, iface))
        if view is not None:
            yield from _patch_effects(context, view.table)


def _patch_effects(context: Context, table: ResolvedTable) -> Iterator[Finding]:
    start = empty_fold(len(table.schema.axes))
    below = [start, *fold_layers(table.layers, start)]
    for number, layer in enumerate(table.layers):
        if layer.kind == "patch" and layer.arch == table.arch and isinstance(layer.table, FileTable):
            yield from _no_op(table, layer, layer.table, below[number])
            yield from _stale_onto(table, layer, layer.table, below[number])


def ground_under(below: Fold, table: FileTable) -> Cells:
    """What lookups of the table below give at every cell of a file's grid; same shape as the file's cells."""
    if not below.functionals:
        return np.full_like(table.cells, UNSET)
    rows = [below.index.get(functional, -1) for functional in table.functionals]
    places = [[bin_index(have, v) for v in own] for have, own in zip(below.bins, table.bins, strict=True)]
    ground = below.cells[np.ix_(rows, *places)]
    ground[np.array(rows) < 0] = UNSET
    return ground


def _no_op(table: ResolvedTable, layer: Layer, file: FileTable, below: Fold) -> Iterator[Finding]:
    same = (file.cells != UNSET) & (file.cells == ground_under(below, file))
    names = table.schema.key_names
    for row, cells in _by_row(file, same):
        places = [(cells[0][0], tuple(place)) for _, *place in cells]
        refs = tuple(
            CellRef(
                tuple(zip(names, file.functionals[functional], strict=True)),
                tuple(bins[index] for bins, index in zip(file.bins, at, strict=True)),
            )
            for functional, at in places
        )
        yield Finding(
            "no-op-override",
            Severity.WARNING,
            row,
            f"{len(refs)} {'cell repeats' if len(refs) == 1 else 'cells repeat'} what lies below",
            "leave them out (`.`)",
            table.arch,
            table.iface,
            (),
            refs,
        )


def _by_row(file: FileTable, mask: Mask) -> Iterator[tuple[Span, list[list[int]]]]:
    """The cells of a mask, grouped by the row line that holds them."""
    rows: dict[tuple[int, int], tuple[Span, list[list[int]]]] = {}
    for functional, *at in np.argwhere(mask).tolist():
        row = file.row_of(functional, tuple(at))
        assert row is not None, "a set cell stands in a row"
        span = row.span(file.source.file)
        rows.setdefault((functional, row.line), (span, []))[1].append([functional, *at])
    yield from rows.values()


def _stale_onto(table: ResolvedTable, layer: Layer, file: FileTable, below: Fold) -> Iterator[Finding]:
    directive = file.source.document.directive("onto")
    if directive is None:
        return
    digest = ground_digest(table.schema, table.pool, below, file)
    if directive.args[0] != digest:
        yield Finding(
            "stale-onto",
            Severity.WARNING,
            directive.arg_span(layer.file, 0),
            "the cells under this patch are not what it was made for",
            ground_hint(table, layer, digest),
            table.arch,
            table.iface,
        )


def equal_numbers(context: Context) -> Iterator[Finding]:
    """`equal-patch-number`: two patches of one root with one number; an error when they set a common cell."""
    for root, listing in enumerate(context.database.listings):
        for files in listing.patches.values():
            for first, second in combinations(files, 2):
                if first.number == second.number:
                    both = context.database.file(first), context.database.file(second)
                    yield _equal_number(context, *both, is_overlay=root > 0)


def _equal_number(context: Context, first: LoadedFile, second: LoadedFile, is_overlay: bool) -> Finding:
    common = _common_cells(context, first, second)
    told = [_both_contents(context, first, second, cell) for cell in common[:_TOLD_CELLS]]
    if len(common) > _TOLD_CELLS:
        told.append(f"and {len(common) - _TOLD_CELLS} more")
    return Finding(
        "equal-patch-number",
        Severity.ERROR if common else Severity.WARNING,
        Span(second.file.display),
        f"{first.file.path.name} has the same number"
        + (f" and sets {len(common)} of the same cells" if common else ""),
        "\n".join([_number_hint("" if is_overlay else second.file.display, bool(common)), *told]),
        second.file.arch,
        second.file.iface,
        (),
        common,
    )


def _number_hint(file: str, clash: bool) -> str:
    """What to do about a patch; `file` is empty for one of an overlay, which `txtdb patch rebase` does not take."""
    which = "the one that is to count in these cells a higher" if clash else "one of them another"
    command = f": `txtdb patch rebase {file}` gives this one the next free" if file else ""
    return f"give {which} number{command}"


def _common_cells(context: Context, first: LoadedFile, second: LoadedFile) -> tuple[CellRef, ...]:
    if first.table is None or second.table is None or first.file.iface not in context.database.schemas:
        return ()
    names = context.schema(first.file.iface).key_names
    common = sorted(set_cells(first.table) & set_cells(second.table), key=repr)
    return tuple(CellRef(tuple(zip(names, functional, strict=True)), at) for functional, at in common)


def _both_contents(context: Context, first: LoadedFile, second: LoadedFile, cell: CellRef) -> str:
    """What two files write into a cell that both set, and where."""
    values = [print_value(value) for _, value in cell.functional]
    texts = " against ".join(_content(context, loaded, cell) for loaded in (first, second))
    return f"[{' '.join(values)}] {','.join(map(str, cell.at))}: {texts}"


def _content(context: Context, loaded: LoadedFile, cell: CellRef) -> str:
    table, iface = loaded.table, loaded.file.iface
    assert table is not None, "a file with common cells could be read"
    place = table.functionals.index(tuple(value for _, value in cell.functional))
    at = tuple(bins.index(value) for bins, value in zip(table.bins, cell.at, strict=True))
    number = int(table.cells[place, *at])
    pool = context.database.pool(iface)
    words = "masked" if number == MASKED else config_text(context.schema(iface), pool[number])
    return f"{words} ({table.cell_span(place, at)})"


def shadowed_names(context: Context) -> Iterator[Finding]:
    """`same-name-patch`: a patch of an overlay with the file name of a patch below it. Both apply."""
    seen: dict[str, str] = {}
    for file in context.layer_files:
        if file.number is None:
            continue
        below = seen.setdefault(file.name, file.display)
        if below != file.display:
            yield Finding(
                "same-name-patch",
                Severity.WARNING,
                Span(file.display),
                f"a patch of this name lies below: {below}; both apply, this one last",
                "rename it",
                file.arch,
                file.iface,
            )


def unused_layers(context: Context) -> Iterator[Finding]:
    """`unused-layer`: a table or patch every cell of which is overridden, in all archs."""
    winning: set[int] = set()
    judged: set[int] = set()
    for view in context.views():
        for number, layer in enumerate(view.table.layers):
            judged.add(id(layer.table))
            if (view.table.winner == number).any():
                winning.add(id(layer.table))
    for loaded in context.files:
        table = loaded.table
        if table is not None and id(table) in judged - winning and (table.cells != UNSET).any():
            yield Finding(
                "unused-layer",
                Severity.WARNING,
                Span(loaded.file.display),
                "every cell of this file is overridden by a higher layer",
                _unused_hint(context, loaded, table),
                loaded.file.arch,
                loaded.file.iface,
            )


def _unused_hint(context: Context, loaded: LoadedFile, table: FileTable) -> str:
    """Remove the file, unless patches were made over its cells: without it their ground would be another.

    Folding keeps proofs only where evidence decided for what is set over measured cells. A table's base stays needed.
    """
    file, listing = loaded.file, context.database.listings[0]
    patches = listing.patches.get((file.arch, file.iface), ())
    remove = "remove its blocks, and keep the header with `#! base`" if _has(loaded, "base") else "remove the file"
    if file != listing.tables.get((file.arch, file.iface)) and file not in patches:
        return remove
    above = patches[patches.index(file) + 1 :] if file in patches else patches
    cells = set_cells(table)
    over = [own for own in map(context.database.file, above) if own.table and cells & set_cells(own.table)]
    if not any(_has(own, "onto") for own in over):
        return remove
    if _has(loaded, "evidence") and not all(_has(own, "evidence") for own in over):
        return (
            "measure its cells again, or leave it: folded with what was set by hand, its evidence would prove nothing"
        )
    return f"fold it with the patches over it: `txtdb patch squash {listing.label} {file.arch} {file.iface}`"


def _has(loaded: LoadedFile, directive: str) -> bool:
    return loaded.source is not None and loaded.source.document.directive(directive) is not None


def expired_pins(context: Context) -> Iterator[Finding]:
    """`expired-pin`: a pin behind its end date. It holds until it is removed."""
    for listing in context.database.listings:
        for arch in listing.pins:
            for pin in context.database.pins(listing, arch)[0]:
                if pin.until < context.today:
                    yield Finding(
                        "expired-pin",
                        Severity.WARNING,
                        pin.span,
                        f"the pin ended on {pin.until} and still holds: {pin.reason}",
                        "remove it, or give it a new date",
                        arch,
                        pin.iface,
                    )
