"""A database folder, opened: files are read when a table needs them, and every fault is kept with its file.

`load` is the public way in. Nothing here ever writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from pathlib import Path

from txtdb.faults import Fault, FaultError, Severity, Span, errors
from txtdb.layers.bases import BaseLink, Links, base_order, circle
from txtdb.layers.listing import LayerFile, Listing, is_folder, list_root
from txtdb.layers.pins import Pin, pin_table, read_pins
from txtdb.layers.resolve import MAX_LAYERS, Fold, Layer, empty_fold, fold_layer
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.archs import Arch, find_arch, read_archs
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigPool, FileTable, build_table
from txtdb.syntax import Source, read
from txtdb.syntax.grid import MAX_CELLS
from txtdb.wording import did_you_mean, plural


@dataclass(frozen=True)
class LoadedFile:
    """One layer file: its text as read, its table (None where it is unusable) and all its faults."""

    file: LayerFile
    source: Source | None
    table: FileTable | None
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Resolution:
    """A resolved table with the faults of everything that it was made from. With errors the table is best effort."""

    table: ResolvedTable | None
    faults: tuple[Fault, ...]


@dataclass(repr=False)
class Database:
    """One database with its overlays. Make it with `open_database` or `load`."""

    roots: tuple[Path, ...]
    listings: tuple[Listing, ...]
    archs: dict[str, Arch]
    schemas: dict[str, Schema]
    faults: tuple[Fault, ...]
    _pools: dict[str, ConfigPool] = field(default_factory=dict)
    _files: dict[Path, LoadedFile] = field(default_factory=dict)
    _pins: dict[Path, tuple[tuple[Pin, ...], tuple[Fault, ...]]] = field(default_factory=dict)
    _resolutions: dict[tuple[str, str], Resolution] = field(default_factory=dict)
    _base_links: dict[str, Links] = field(default_factory=dict)

    def __repr__(self) -> str:
        roots = ", ".join(root.as_posix() for root in self.roots)
        counts = (len(self.archs), "arch"), (len(self.schemas), "interface")
        archs, ifaces = (f"{count} {plural(count, word)}" for count, word in counts)
        return f"<Database {roots}: {archs}, {ifaces}>"

    def __getitem__(self, arch: str) -> ArchTables:
        """The tables of one arch, by name or alias. Raises FaultError when it is unknown."""
        found = find_arch(arch, self.archs)
        if isinstance(found, Fault):
            raise FaultError([found])
        return ArchTables(self, found)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.archs))

    def pool(self, iface: str) -> ConfigPool:
        """The config numbers of one interface."""
        return self._pools.setdefault(iface, ConfigPool())

    def places(self) -> list[tuple[str, str]]:
        """(arch, interface) of every table that the schemas say exists, sorted."""
        tuned = [schema for schema in self.schemas.values() if schema.kind != "fixed"]
        return sorted((arch, schema.iface) for schema in tuned for arch in schema.archs if arch in self.archs)

    def file(self, layer_file: LayerFile) -> LoadedFile:
        """Read one table or patch, once."""
        loaded = self._files.get(layer_file.path)
        if loaded is None:
            loaded = self._files[layer_file.path] = self._read_file(layer_file)
        return loaded

    def pins(self, listing: Listing, arch: str) -> tuple[tuple[Pin, ...], tuple[Fault, ...]]:
        """Read the pins of one arch in one root, once; none where there is no file."""
        path = listing.pins.get(arch)
        if path is None:
            return (), ()
        if path not in self._pins:
            data = _read_bytes(path, listing.shown(path))
            pins, faults = (
                ((), [data]) if isinstance(data, Fault) else read_pins(data, listing.shown(path), arch, self.schemas)
            )
            self._pins[path] = pins, tuple(faults)
        return self._pins[path]

    def resolve(self, arch: str, iface: str) -> Resolution:
        """The resolved table of one arch and interface, computed once."""
        if (arch, iface) not in self._resolutions:
            for needed in base_order(arch, self._links(iface)):
                if (needed, iface) not in self._resolutions:
                    self._resolutions[needed, iface] = self._resolve(needed, iface)
        return self._resolutions[arch, iface]

    def table_or_empty(self, arch: str, iface: str) -> ResolvedTable | list[Fault]:
        """The resolved table, one without any cell where nothing sets one yet; its faults when it cannot be trusted."""
        resolution = self.resolve(arch, iface)
        wrong = [fault for fault in errors(resolution.faults) if fault.rule != "no-data"]
        if wrong:
            return wrong
        if resolution.table:
            return resolution.table
        arch_schema = self.schemas[iface].for_arch(arch)
        assert arch_schema is not None, "an interface that does not exist on the arch is a fault"
        return ResolvedTable(arch, arch_schema, self.pool(iface), (), empty_fold(len(arch_schema.schema.axes)))

    def layer_files(self, arch: str, iface: str) -> list[tuple[int, LayerFile]]:
        """(root, file) of the arch's own table and patches in layer order, bases not included."""
        found = []
        for root, listing in enumerate(self.listings):
            if (arch, iface) in listing.tables:
                found.append((root, listing.tables[arch, iface]))
            found.extend((root, file) for file in listing.patches.get((arch, iface), ()))
        return found

    def base_of(self, layer_file: LayerFile) -> tuple[str, Span] | None:
        """The arch named by `#! base` of a table, and where."""
        source = self.file(layer_file).source
        directive = source.document.directive("base") if source else None
        return (directive.args[0], directive.arg_span(layer_file.display, 0)) if directive else None

    def _read_file(self, layer_file: LayerFile) -> LoadedFile:
        data = _read_bytes(layer_file.path, layer_file.display)
        if isinstance(data, Fault):
            return LoadedFile(layer_file, None, None, (data,))
        source, faults = read(data, layer_file.display)
        schema = self.schemas.get(layer_file.iface)
        if source is None:
            return LoadedFile(layer_file, None, None, tuple(faults))
        faults.extend(_place_faults(layer_file, source))
        if schema is None:
            return LoadedFile(layer_file, source, None, tuple(faults))
        table, more = build_table(source, schema, layer_file.arch, self.pool(layer_file.iface))
        return LoadedFile(layer_file, source, table, tuple(sorted((*faults, *more), key=lambda fault: fault.span)))

    def _links(self, iface: str) -> Links:
        """Where the tables of one interface name their bases, each read once."""
        if iface not in self._base_links:
            self._base_links[iface] = cache(partial(self._links_of, iface))
        return self._base_links[iface]

    def _links_of(self, iface: str, arch: str) -> list[BaseLink]:
        tables = (listing.tables.get((arch, iface)) for listing in self.listings)
        named = (self.base_of(table) for table in tables if table)
        return [BaseLink(arch, *found) for found in named if found]

    def _resolve(self, arch: str, iface: str) -> Resolution:
        schema = self.schemas.get(iface)
        arch_schema = schema.for_arch(arch) if schema else None
        if schema is None or arch_schema is None:
            return Resolution(None, (_no_interface(self, arch, iface),))
        stack = _Stack(self, arch, iface, self._links(iface))
        stack.gather()
        faults = tuple(dict.fromkeys(stack.faults))
        if not stack.has_data:
            return Resolution(None, faults if stack.lost_base else (*faults, _no_data(self, arch, iface)))
        large = _too_large(arch, iface, stack.layers)
        if large:
            return Resolution(None, (*faults, large))
        fold, below = stack.start or empty_fold(len(schema.axes)), stack.start_layers
        for number, layer in enumerate(stack.layers[below:], below):
            fold = fold_layer(fold, layer, number)
        table = ResolvedTable(arch, arch_schema, self.pool(iface), tuple(stack.layers), fold)
        return Resolution(table, faults)


class _Stack:
    """Gathers the layers of one table, lowest first, with the faults of their files."""

    def __init__(self, database: Database, arch: str, iface: str, links: Links) -> None:
        self.layers: list[Layer] = []
        self.faults: list[Fault] = []
        self.start: Fold | None = None
        self.start_layers = 0
        self.has_data = False
        self.lost_base = False
        self._database, self._arch, self._iface, self._links = database, arch, iface, links

    def gather(self) -> None:
        for root, listing in enumerate(self._database.listings):
            table = listing.tables.get((self._arch, self._iface))
            if table:
                self.base(table)
                self.layer_file(root, "table", table)
            for patch in listing.patches.get((self._arch, self._iface), ()):
                self.layer_file(root, "patch", patch)
            self.pin_layer(root, listing)

    def base(self, table: LayerFile) -> None:
        """Take the base's resolved table; a link that cannot be followed is one fault, wherever it is met."""
        named = self._database.base_of(table)
        if named is None:
            return
        link = BaseLink(self._arch, *named)
        ring = circle(link, self._links)
        resolution = None if ring else self._database.resolve(link.base, self._iface)
        if resolution is None or resolution.table is None:
            self.lost_base = True
            self.faults.extend(_base_faults(self._iface, link, ring, resolution, self.with_tables()))
            return
        self.has_data = True
        self.faults.extend(resolution.faults)
        if not self.layers:
            self.start, self.start_layers = resolution.table.fold, len(resolution.table.layers)
        self.layers.extend(resolution.table.layers)

    def with_tables(self) -> set[str]:
        """The archs that have a table of the interface: what a base may name."""
        listings = self._database.listings
        return {arch for listing in listings for arch, iface in listing.tables if iface == self._iface}

    def layer_file(self, root: int, kind: str, file: LayerFile) -> None:
        loaded = self._database.file(file)
        self.faults.extend(loaded.faults)
        self.has_data = self.has_data or bool(loaded.faults) or _has_cells(loaded)
        if loaded.table is None or loaded.source is None:
            return
        document = loaded.source.document
        evidence = tuple(" ".join(d.args) for d in document.directives if d.name == "evidence")
        self.layers.append(
            Layer(
                kind,
                root,
                self._arch,
                file.display,
                loaded.table,
                file.number,
                document.argument("origin"),
                evidence,
            )
        )

    def pin_layer(self, root: int, listing: Listing) -> None:
        pins, faults = self._database.pins(listing, self._arch)
        self.faults.extend(faults)
        own = tuple(pin for pin in pins if pin.iface == self._iface)
        if own:
            self.has_data = True
            table = pin_table(own, own[0].span.file, self._database.pool(self._iface))
            self.layers.append(Layer("pins", root, self._arch, table.file, table, None, "hand"))


@dataclass(frozen=True)
class ArchTables:
    """The tables of one arch: `database["gfx942"]["attn_fwd"]`."""

    database: Database
    arch: Arch

    def __repr__(self) -> str:
        return f"<ArchTables {self.arch.name}: {', '.join(self) or 'none'}>"

    def __getitem__(self, iface: str) -> ResolvedTable:
        """The resolved table. Raises FaultError, with all faults, when it cannot be trusted."""
        resolution = self.database.resolve(self.arch.name, iface)
        wrong = errors(resolution.faults)
        if wrong or resolution.table is None:
            raise FaultError(wrong)
        return resolution.table

    def __iter__(self) -> Iterator[str]:
        return (iface for arch, iface in self.database.places() if arch == self.arch.name)


def _base_faults(
    iface: str, link: BaseLink, ring: list[BaseLink], found: Resolution | None, others: set[str]
) -> list[Fault]:
    """Why a base has no table: the circle it lies on, what its own faults say, or that there is nothing."""
    if found is None:
        chain = " -> ".join([*(part.arch for part in ring), ring[0].arch])
        message = f"{iface}: the bases run in a circle: {chain}"
        return [Fault("base-cycle", ring[0].span, message, "remove one `#! base`")]
    causes = [fault for fault in found.faults if fault.rule not in _NOTHING_THERE]
    if causes:
        return causes
    message = f"{iface}: base {link.base} has no table: {link.arch} -> {link.base}"
    guess = "" if link.base in others else did_you_mean(link.base, others - {link.arch}, most=3)
    return [Fault("missing-base", link.span, message, f"{guess}add that table, or correct `#! base`")]


_NOTHING_THERE = ("no-data", "unknown-iface", "unsupported-iface")


def _read_bytes(path: Path, shown: str) -> bytes | Fault:
    try:
        return path.read_bytes() if path.is_file() else Fault("unreadable", Span(shown), "no regular file", "remove it")
    except OSError as error:
        return Fault("unreadable", Span(shown), f"the file cannot be read: {error.strerror}", "change its permissions")


def _too_large(arch: str, iface: str, layers: Sequence[Layer]) -> Fault | None:
    """Whether the union of all layers is more than can be held, though each file is not."""
    tables = [layer.table for layer in layers if layer.table.functionals]
    functionals = {functional for table in tables for functional in table.functionals}
    axes = zip(*(table.bins for table in tables), strict=True)
    cells = len(functionals) * prod(len({value for own in bins for value in own}) for bins in axes)
    if cells <= MAX_CELLS and len(layers) <= MAX_LAYERS:
        return None
    message = f"{arch} {iface}: {len(layers)} layers with {cells} cells are too many"
    return Fault("too-large", Span(layers[-1].file), message, f"the limits are {MAX_LAYERS} and {MAX_CELLS}")


def open_database(root: str | Path, overlays: Iterable[str | Path] = (), label: str = "") -> Database:
    """List a database and read its schemas and arch facts; tables are read when asked for. `label` stands for the
    root in spans, for a root that was unpacked from elsewhere.

    Faults of schemas and arch facts are in `Database.faults`, those of tables in each `Resolution`.
    """
    roots = (Path(root), *map(Path, overlays))
    faults: list[Fault] = [
        Fault("no-root", Span(path.as_posix()), "no such folder", "name a database folder")
        for path in roots
        if not is_folder(path)
    ]
    listings = (list_root(roots[0], label), *map(list_root, roots[1:]))
    faults.extend(fault for listing in listings for fault in listing.faults)
    schemas: dict[str, Schema] = {}
    for iface, path in sorted(listings[0].schemas.items()):
        data, shown = _read_bytes(path, listings[0].shown(path)), listings[0].shown(path)
        schema, found = (None, [data]) if isinstance(data, Fault) else read_schema(data, shown, iface)
        faults.extend(found)
        if schema:
            schemas[iface] = schema
    archs: dict[str, Arch] = {}
    archs_file = listings[0].archs_file
    if archs_file:
        data, shown = _read_bytes(archs_file, listings[0].shown(archs_file)), listings[0].shown(archs_file)
        archs, found = ({}, [data]) if isinstance(data, Fault) else read_archs(data, shown)
        faults.extend(found)
    elif not faults:
        faults.append(
            Fault(
                "no-archs",
                Span(listings[0].label),
                "no archs.toml: this is no database",
                "name a folder that holds archs.toml, schema/ and one folder per arch",
            )
        )
    faults.extend(_launch_faults(schemas, listings[0]))
    return Database(roots, listings, archs, schemas, tuple(faults))


def load(root: str | Path, overlays: Iterable[str | Path] = ()) -> Database:
    """Open a database for use. Raises FaultError when its schemas or arch facts are wrong."""
    database = open_database(root, overlays)
    wrong = errors(database.faults)
    if wrong:
        raise FaultError(wrong)
    return database


def _has_cells(loaded: LoadedFile) -> bool:
    return loaded.source is not None and bool(loaded.source.document.blocks)


def _place_faults(file: LayerFile, source: Source) -> Iterator[Fault]:
    """What a file says of itself must be where it lies."""
    for name, expected in (("iface", file.iface), ("arch", file.arch)):
        directive = source.document.directive(name)
        if directive and directive.args[0] != expected:
            span = directive.arg_span(source.file, 0)
            yield Fault(
                "wrong-place",
                span,
                f"the file lies under {name} `{expected}` and says `{directive.args[0]}`",
                "move the file, or correct the line",
            )


def _launch_faults(schemas: dict[str, Schema], listing: Listing) -> Iterator[Fault]:
    """What back ends launch must have schemas that fit; one that could not be read has its own faults."""
    for schema in schemas.values():
        for backend in schema.backends:
            for iface in backend.launches:
                if iface in schemas or iface not in listing.schemas:
                    yield from _launch_fault(schema, backend.name, iface, schemas.get(iface))


def _launch_fault(schema: Schema, backend: str, iface: str, kernel: Schema | None) -> Iterator[Fault]:
    where = f"back end {backend} launches {iface}"
    if kernel is None:
        yield Fault(
            "schema",
            Span(schema.file),
            f"{where}, which has no schema",
            "add its schema, or correct `launches`",
        )
        return
    known: Sequence[str] = (*schema.key_names, *schema.axis_names, *(key.name for key in schema.fixed_keys))
    for name in (*kernel.key_names, *kernel.axis_names):
        if name not in known:
            yield Fault(
                "schema",
                Span(schema.file),
                f"{where}, whose key or axis `{name}` the operator does not have",
                "",
            )


def _no_interface(database: Database, arch: str, iface: str) -> Fault:
    schema = database.schemas.get(iface)
    if schema is None:
        return Fault(
            "unknown-iface",
            Span(database.listings[0].label),
            f"no interface `{iface}`",
            f"known are {', '.join(sorted(database.schemas))}",
        )
    return Fault(
        "unsupported-iface",
        Span(schema.file),
        f"{iface} does not exist on {arch}",
        f"add [arch.{arch}] to its schema",
    )


def _no_data(database: Database, arch: str, iface: str) -> Fault:
    return Fault(
        "no-data",
        Span(f"{database.listings[0].label}/{arch}/{iface}.txtdb"),
        f"{arch} {iface}: no data, no base",
        "set a first cell with `txtdb set`, tune cells with `txtdb tune … --table`, or add a file with `#! base ARCH`",
        Severity.ERROR,
    )
