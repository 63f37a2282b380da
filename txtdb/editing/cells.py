"""One cell changed in the file that it belongs to: the arch's own table, or a patch, which may be new."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from txtdb.faults import Fault, Span
from txtdb.files import write_if_changed
from txtdb.layers.database import Database
from txtdb.layers.resolve import Fold, Layer, empty_fold, fold_layers, ground_digest
from txtdb.layers.resolved import Config, LookupFault, Query, ResolvedTable
from txtdb.model.edit import edit_cells
from txtdb.model.schema import ArchSchema
from txtdb.model.table import UNSET, ConfigValues, build_table
from txtdb.model.values import Value
from txtdb.syntax import Source, print_source, read

# Rules of the faults that say the request makes no sense; others say that the database stands in its way.
USAGE_RULES = ("argument", "no-patch")

_PATCH_NAME = re.compile(r"[0-9]{1,9}-[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Edit:
    """A planned change of one cell: the file, its text with the change, and the lookup that the cell answers.

    `origin` is what the file says of where its cells come from; None where it does not. `has_evidence` tells whether it
    names evidence, which does not prove the changed cell.
    """

    path: Path
    text: str
    query: Query
    origin: str | None
    has_evidence: bool

    def write(self) -> bool:
        """Write the file, whole; whether that changed it. Raises OSError with the old file as it was."""
        return write_if_changed(self.path, self.text.encode())


def plan_edit(
    database: Database,
    table: ResolvedTable,
    given: Mapping[str, Value],
    content: Mapping[str, Value] | int,
    patch: str | None = None,
    why: str | None = None,
) -> Edit | Fault:
    """Plan to set one cell.

    `given` names it: key values, and a declared bin on each axis. `content` gives config fields, those left out stay as
    a lookup of the cell has them now, or else at their default; or it is MASKED or UNSET. The file is the arch's own
    table in the database's last root, which is started if there is none, or the patch `patch` (`0010-name`), which
    `why` starts. `table` is what `Database.table_or_empty` gives.
    """
    query = _cell(table, given)
    if isinstance(query, Fault):
        return query
    config = content if isinstance(content, int) else _config(table, given, content)
    if isinstance(config, Fault):
        return config
    target = _patch(database, table, patch, why) if patch else _own_table(database, table, config)
    if isinstance(target, Fault):
        return target
    path, source = target
    text = _edited(table, with_grid(source, table.arch_schema), query, config)
    if isinstance(text, Fault):
        return text
    has_evidence = source.document.directive("evidence") is not None
    return Edit(path, text, query, source.document.argument("origin"), has_evidence)


def _cell(table: ResolvedTable, given: Mapping[str, Value]) -> Query | Fault:
    try:
        query = table.query(given)
    except LookupFault as error:
        return Fault("argument", Span(table.iface), str(error), error.hint)
    if query is None or not table.arch_schema.supports(query.functional):
        return Fault("argument", Span(table.iface), f"no such functional on {table.arch}", "see `txtdb schema show`")
    for name, size, bins in zip(table.schema.axis_names, query.sizes, table.arch_schema.bins, strict=True):
        if size not in bins:
            return bin_fault(name, size, bins)
    return query


def bin_fault(name: str, size: int, bins: Sequence[int]) -> Fault:
    """A size that names no cell."""
    hint = f"its bins are {' '.join(map(str, bins))}"
    return Fault("argument", Span(f"{name}={size}"), f"{size} is no bin of {name}", hint)


def _config(table: ResolvedTable, given: Mapping[str, Value], fields: Mapping[str, Value]) -> ConfigValues | Fault:
    answer = table.lookup(**given)
    current = answer if isinstance(answer, Config) else {}
    values: list[Value] = []
    for item in table.schema.config:
        value = fields.get(item.name, current.get(item.name, item.default))
        if value is None:
            message = f"`{item.name}` is missing: the cell has no config yet, and the field no default"
            return Fault("argument", Span(table.iface), message, f"give {item.name}=VALUE")
        values.append(value)
    reason = table.arch_schema.illegal(tuple(values))
    return Fault("argument", Span(table.iface), reason) if reason else tuple(values)


def _own_table(database: Database, table: ResolvedTable, content: ConfigValues | int) -> tuple[Path, Source] | Fault:
    file = database.listings[-1].tables.get((table.arch, table.iface))
    if file is not None:
        return file.path, _source(database, file.path.name, table)
    path = database.roots[-1] / table.arch / f"{table.iface}.txtdb"
    if content == UNSET:
        return Fault("argument", Span(path.as_posix()), "there is no such table: it leaves the cell alone already")
    return path, _new_source("txtdb", table, path, ("origin hand",))


def _source(database: Database, name: str, table: ResolvedTable) -> Source:
    last = len(database.roots) - 1
    files = (file for root, file in database.layer_files(table.arch, table.iface) if root == last)
    source = next(database.file(file).source for file in files if file.path.name == name)
    assert source is not None, "a table is resolved from files without faults"
    return source


def _patch(database: Database, table: ResolvedTable, name: str, why: str | None) -> tuple[Path, Source] | Fault:
    path = database.roots[-1] / table.arch / f"{table.iface}.{name}.dbpatch"
    patches = database.listings[-1].patches.get((table.arch, table.iface), ())
    if path.name in (file.path.name for file in patches):
        if why:
            return Fault("argument", Span(path.as_posix()), "the patch has its `#! why` already", "leave out --why")
        return path, _source(database, path.name, table)
    span, known = Span(path.as_posix()), ", ".join(file.path.name for file in patches) or "none"
    if not _PATCH_NAME.fullmatch(name):
        return Fault("no-patch", span, f"`{name}` is no name of a patch", f"the form is 0010-name; there are: {known}")
    if not why or not why.split():
        return Fault(
            "no-patch", span, "no such patch", f"say with --why what it is for to start it; there are: {known}"
        )
    if int(name.partition("-")[0]) in (file.number for file in patches):
        return Fault("no-patch", span, "another patch has this number", f"take a free one; there are: {known}")
    return path, _new_source("dbpatch", table, path, ("origin hand", f"why {' '.join(why.split())}"))


def _new_source(kind: str, table: ResolvedTable, path: Path, directives: Sequence[str]) -> Source:
    """A file without cells that is not written yet."""
    lines = (f"{kind} 1", f"iface {table.iface}", f"arch {table.arch}", *directives, "end")
    return _read("".join(f"#! {line}\n" for line in lines), path.as_posix())


def with_grid(source: Source, arch_schema: ArchSchema) -> Source:
    """The same file with the directives that its first block needs; all bins of the arch, where it names none."""
    document = source.document
    missing = [text for name, text in _grid_directives(arch_schema) if document.directive(name) is None]
    if not missing:
        return source
    lines = print_source(source).splitlines()
    return _read("\n".join([*lines[:-1], *missing, lines[-1]]) + "\n", source.file)


def _grid_directives(arch_schema: ArchSchema) -> Iterator[tuple[str, str]]:
    schema = arch_schema.schema
    yield "key", f"#! key {' '.join(schema.key_names)}"
    for name, bins in zip(schema.axis_names, arch_schema.bins, strict=True):
        yield "axis", f"#! axis {name} {' '.join(map(str, bins))}"
    needed = [item.name for item in schema.config if item.default is None]
    yield "config", f"#! config {' '.join(needed or schema.field_names[:1])}"


def _read(text: str, file: str) -> Source:
    source, faults = read(text.encode(), file)
    assert source is not None and not faults, "text made here is text that can be read"
    return source


def _edited(table: ResolvedTable, source: Source, query: Query, content: ConfigValues | int) -> str | Fault:
    axes = [directive for directive in source.document.directives if directive.name == "axis"]
    for directive, (name, bins), size in zip(axes, source.shape.axes, query.sizes, strict=True):
        if size not in bins:
            span = directive.span(source.file)
            return Fault("no-bin", span, f"{size} is no bin of {name} in this file", "add it to the line")
    text = edit_cells(source, table.schema, {(query.functional, query.sizes): content})
    return _with_ground(table, source, text)


def _with_ground(table: ResolvedTable, source: Source, text: str) -> str | Fault:
    """The text with `#! onto` for its new cells, if the patch has one; a ground that has moved is not covered up."""
    directive = source.document.directive("onto")
    if directive is None:
        return text
    number = next(number for number, layer in enumerate(table.layers) if layer.file == source.file)
    below = _fold_below(table, number)
    old = directive.args[0]
    patch = table.layers[number]
    digest = ground_digest(table.schema, table.pool, below, patch.table)
    if digest != old:
        message = "the cells under this patch are not what it was made for"
        return Fault("stale-onto", directive.arg_span(source.file, 0), message, ground_hint(table, patch, digest))
    edited, _ = build_table(_read(text, source.file), table.schema, table.arch, table.pool)
    return text.replace(old, ground_digest(table.schema, table.pool, below, edited))


def ground_hint(table: ResolvedTable, patch: Layer, digest: str) -> str:
    """What to do about a patch whose ground has moved; `digest` is that of the ground that it lies over now.

    A patch whose number another one has moves to the top when it is rebased, over a ground that may be another one.
    """
    if patch.root:
        return f"look at them again, then write `#! onto {digest}`"
    look = f"look at them with `txtdb patch rebase {patch.file}`; with --accept it"
    others = (layer for layer in table.layers if layer is not patch and layer.kind == "patch")
    if any((layer.arch, layer.root, layer.number) == (patch.arch, patch.root, patch.number) for layer in others):
        return f"{look} gives the patch the next free number, as another patch has the same, and renews `#! onto` there"
    return f"{look} writes `#! onto {digest}`"


def _fold_below(table: ResolvedTable, number: int) -> Fold:
    empty = empty_fold(len(table.schema.axes))
    *_, below = empty, *fold_layers(table.layers[:number], empty)
    return below
