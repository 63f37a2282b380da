"""A database folder, opened: files are read when a table needs them, and every fault is kept with its file.

`load` is the public way in. Nothing here ever writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from txtdb.faults import Fault, FaultError, Severity, Span, errors
from txtdb.layers.listing import LayerFile, Listing, list_root
from txtdb.layers.pins import Pin, pin_table, read_pins
from txtdb.layers.resolve import Fold, Layer, empty_fold, fold_layers
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.archs import Arch, find_arch, read_archs
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigPool, FileTable, build_table
from txtdb.syntax import Source, read


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


@dataclass
class Database:
    """One database with its overlays. Make it with `open_database` or `load`."""

    roots: tuple[Path, ...]
    listings: tuple[Listing, ...]
    archs: dict[str, Arch]
    schemas: dict[str, Schema]
    faults: tuple[Fault, ...]
    _pools: dict[str, ConfigPool] = field(default_factory=dict, repr=False)
    _files: dict[Path, LoadedFile] = field(default_factory=dict, repr=False)
    _pins: dict[Path, tuple[tuple[Pin, ...], tuple[Fault, ...]]] = field(default_factory=dict, repr=False)
    _resolutions: dict[tuple[str, str], Resolution] = field(default_factory=dict, repr=False)

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

    def pins(self, path: Path, arch: str) -> tuple[tuple[Pin, ...], tuple[Fault, ...]]:
        """Read one pins file, once."""
        if path not in self._pins:
            pins, faults = read_pins(path.read_bytes(), path.as_posix(), arch, self.schemas)
            self._pins[path] = pins, tuple(faults)
        return self._pins[path]

    def resolve(self, arch: str, iface: str) -> Resolution:
        """The resolved table of one arch and interface, computed once."""
        place = (arch, iface)
        if place not in self._resolutions:
            self._resolutions[place] = self._resolve(arch, iface, ())
        return self._resolutions[place]

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
        source, faults = read(layer_file.path.read_bytes(), layer_file.display)
        schema = self.schemas.get(layer_file.iface)
        if source is None:
            return LoadedFile(layer_file, None, None, tuple(faults))
        faults.extend(_place_faults(layer_file, source))
        if schema is None:
            return LoadedFile(layer_file, source, None, tuple(faults))
        table, more = build_table(source, schema, layer_file.arch, self.pool(layer_file.iface))
        return LoadedFile(layer_file, source, table, (*faults, *more))

    def _resolve(self, arch: str, iface: str, chain: tuple[str, ...]) -> Resolution:
        schema = self.schemas.get(iface)
        arch_schema = schema.for_arch(arch) if schema else None
        if schema is None or arch_schema is None:
            return Resolution(None, (_no_interface(self, arch, iface),))
        stack = _Stack(self, arch, iface, chain)
        stack.gather()
        if not stack.has_data:
            return Resolution(None, (*stack.faults, _no_data(self, arch, iface)))
        start, below = stack.start or empty_fold(len(schema.axes)), stack.start_layers
        *_, fold = start, *fold_layers(stack.layers[below:], start, below)
        table = ResolvedTable(arch, arch_schema, self.pool(iface), tuple(stack.layers), fold)
        return Resolution(table, tuple(stack.faults))


class _Stack:
    """Gathers the layers of one table, lowest first, with the faults of their files."""

    def __init__(self, database: Database, arch: str, iface: str, chain: tuple[str, ...]) -> None:
        self.layers: list[Layer] = []
        self.faults: list[Fault] = []
        self.start: Fold | None = None
        self.start_layers = 0
        self.has_data = False
        self._database, self._arch, self._iface, self._chain = database, arch, iface, (*chain, arch)

    def gather(self) -> None:
        for root, listing in enumerate(self._database.listings):
            table = listing.tables.get((self._arch, self._iface))
            if table:
                self.base(table)
                self.layer_file(root, "table", table)
            for patch in listing.patches.get((self._arch, self._iface), ()):
                self.layer_file(root, "patch", patch)
            if self._arch in listing.pins:
                self.pin_layer(root, listing.pins[self._arch])

    def base(self, table: LayerFile) -> None:
        named = self._database.base_of(table)
        if named is None:
            return
        base, span = named
        if base in self._chain:
            chain = " -> ".join((*self._chain[self._chain.index(base) :], base))
            self.faults.append(
                Fault(
                    "base-cycle",
                    span,
                    f"{self._iface}: the bases run in a circle: {chain}",
                    "remove one `#! base`",
                )
            )
            return
        resolution = self._resolve_base(base)
        if resolution.table is None:
            chain = " -> ".join((*self._chain, base))
            hint = "add that table, or correct `#! base`"
            self.faults.append(Fault("missing-base", span, f"{self._iface}: base {base} has no table: {chain}", hint))
            self.faults.extend(fault for fault in resolution.faults if fault.rule in ("base-cycle", "missing-base"))
            return
        self.has_data = True
        self.faults.extend(resolution.faults)
        if not self.layers:
            self.start, self.start_layers = resolution.table.fold, len(resolution.table.layers)
        self.layers.extend(resolution.table.layers)

    def _resolve_base(self, base: str) -> Resolution:
        """A base that is part of a circle must not be kept: it was resolved without the part that is missing."""
        cache, place = self._database._resolutions, (base, self._iface)
        if place in cache:
            return cache[place]
        resolution = self._database._resolve(base, self._iface, self._chain)
        if not any(fault.rule == "base-cycle" for fault in resolution.faults):
            cache[place] = resolution
        return resolution

    def layer_file(self, root: int, kind: str, file: LayerFile) -> None:
        loaded = self._database.file(file)
        self.faults.extend(loaded.faults)
        self.has_data = self.has_data or loaded.source is None or bool(loaded.source.document.blocks)
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

    def pin_layer(self, root: int, path: Path) -> None:
        pins, faults = self._database.pins(path, self._arch)
        self.faults.extend(faults)
        own = tuple(pin for pin in pins if pin.iface == self._iface)
        if own:
            self.has_data = True
            table = pin_table(own, path.as_posix(), self._database.pool(self._iface))
            self.layers.append(Layer("pins", root, self._arch, path.as_posix(), table, None, "hand"))


@dataclass(frozen=True)
class ArchTables:
    """The tables of one arch: `database["gfx942"]["attn_fwd"]`."""

    database: Database
    arch: Arch

    def __getitem__(self, iface: str) -> ResolvedTable:
        """The resolved table. Raises FaultError, with all faults, when it cannot be trusted."""
        resolution = self.database.resolve(self.arch.name, iface)
        wrong = errors(resolution.faults)
        if wrong or resolution.table is None:
            raise FaultError(wrong)
        return resolution.table

    def __iter__(self) -> Iterator[str]:
        return (iface for arch, iface in self.database.places() if arch == self.arch.name)


def open_database(root: str | Path, overlays: Iterable[str | Path] = ()) -> Database:
    """List a database and read its schemas and arch facts; tables are read when asked for.

    Faults of schemas and arch facts are in `Database.faults`, those of tables in each `Resolution`.
    """
    roots = (Path(root), *map(Path, overlays))
    faults: list[Fault] = [
        Fault("no-root", Span(path.as_posix()), "no such folder", "name a database folder")
        for path in roots
        if not path.is_dir()
    ]
    listings = tuple(map(list_root, roots))
    schemas: dict[str, Schema] = {}
    for iface, path in sorted(listings[0].schemas.items()):
        schema, found = read_schema(path.read_bytes(), path.as_posix(), iface)
        faults.extend(found)
        if schema:
            schemas[iface] = schema
    archs: dict[str, Arch] = {}
    archs_file = listings[0].archs_file
    if archs_file:
        archs, found = read_archs(archs_file.read_bytes(), archs_file.as_posix())
        faults.extend(found)
    elif not faults:
        faults.append(
            Fault(
                "no-archs",
                Span(roots[0].as_posix()),
                "no archs.toml: this is no database",
                "name a folder that holds archs.toml, schema/ and one folder per arch",
            )
        )
    faults.extend(_launch_faults(schemas))
    return Database(roots, listings, archs, schemas, tuple(faults))


def load(root: str | Path, overlays: Iterable[str | Path] = ()) -> Database:
    """Open a database for use. Raises FaultError when its schemas or arch facts are wrong."""
    database = open_database(root, overlays)
    wrong = errors(database.faults)
    if wrong:
        raise FaultError(wrong)
    return database


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


def _launch_faults(schemas: dict[str, Schema]) -> Iterator[Fault]:
    for schema in schemas.values():
        for backend in schema.backends:
            for iface in backend.launches:
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
            Span(database.roots[0].as_posix()),
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
    folder = database.roots[0] / arch
    return Fault(
        "no-data",
        Span((folder / f"{iface}.txtdb").as_posix()),
        f"{arch} {iface}: no data, no base",
        "add a table, or a file with `#! base ARCH`",
        Severity.ERROR,
    )
