"""A database → all generated files, in memory, with every fault that forbids them. Nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from codegen import cpp, pytables
from codegen.dispatch import DispatchTable, Hole, find_holes, fixed_table, tuned_table
from codegen.expressible import (
    CPP,
    PYTHON,
    arch_faults,
    iface_faults,
    path_faults,
    schema_faults,
    value_faults,
)
from codegen.holes import hole_fault
from codegen.index import INDEX_FILE, Index, Previous, UnitRecord, digest, generator_digest
from codegen.inputs import Inputs
from codegen.keyspace import KeySpaces
from codegen.manifest import kept_lines, manifest_text, section
from codegen.overlays import block_faults, overlay_faults
from txtdb.faults import Fault, Span, errors
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import ArchSchema, Schema

LANGS = (CPP, PYTHON)
ON_HOLE = ("fault", "none")

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Options:
    """What to generate. No archs or no interfaces means all that there are.

    `on_hole` says what a declared cell without a config is: "fault", or "none" for the answer `no kernel`.
    """

    archs: tuple[str, ...] = ()
    ifaces: tuple[str, ...] = ()
    langs: tuple[str, ...] = LANGS
    namespace: str = "dispatch"
    on_hole: str = "fault"


@dataclass(frozen=True, slots=True)
class Unit:
    """What was generated for one arch and interface.

    `layers` names the files of its layers, lowest first, bases included; `overlays` those of them in overlay roots.
    """

    arch: str
    iface: str
    record: UnitRecord
    reused: bool
    layers: tuple[str, ...]
    overlays: tuple[str, ...]


@dataclass(frozen=True)
class Generated:
    """The outcome. `files` maps paths below the output folder to contents, the index last; `kept` maps those that stay
    as they are to their digests. With faults both are incomplete and must not be written.

    `holes` are the declared cells without a config of those tables that were read in this run.
    """

    files: dict[str, bytes]
    kept: dict[str, str]
    units: tuple[Unit, ...]
    faults: tuple[Fault, ...]
    holes: dict[Place, tuple[Hole, ...]]

    @property
    def places(self) -> list[Place]:
        """The (arch, interface) of all units."""
        return [(unit.arch, unit.iface) for unit in self.units]


def generate(database: Database, options: Options, inputs: Inputs, previous: Previous | None = None) -> Generated:
    """Generate everything that the options ask for.

    A table whose inputs have not changed since the `previous` run is neither read nor generated again; the result is
    the same. Faults of the schemas and arch facts are the caller's to look at.
    """
    run = _Run(database, options, inputs, previous)
    run.name_faults()
    run.units_of_all_places()
    if not run.faults:
        run.manifests()
        run.shared_files()
        run.index()
    # Heirs repeat the faults of their base: each is told once.
    faults = tuple(dict.fromkeys(run.faults))
    return Generated(run.files, run.kept, tuple(run.units), faults, run.holes)


@dataclass
class _Run:
    database: Database
    options: Options
    inputs: Inputs
    previous: Previous | None
    files: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    holes: dict[Place, tuple[Hole, ...]] = field(default_factory=dict)
    _spaces: KeySpaces = field(default_factory=KeySpaces)
    _lines: dict[str, dict[str, str]] = field(default_factory=dict)
    _kept_lines: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def schemas(self) -> list[Schema]:
        """The schemas of the chosen interfaces, by name."""
        chosen = self.options.ifaces or tuple(self.database.schemas)
        return [self.database.schemas[iface] for iface in sorted(chosen)]

    @cached_property
    def places(self) -> list[Place]:
        """The chosen (arch, interface) that exist, by interface and arch."""
        chosen = self.options.archs or tuple(self.database.archs)
        return [(arch, schema.iface) for schema in self.schemas for arch in sorted(chosen) if schema.for_arch(arch)]

    @cached_property
    def archs(self) -> list[str]:
        """The archs for which there is anything, sorted."""
        return sorted({arch for arch, _ in self.places})

    def name_faults(self) -> None:
        listing, langs = self.database.listings[0], self.options.langs
        assert listing.archs_file is not None, "without arch facts there is no database"
        self.faults += overlay_faults(self.database)
        self.faults += iface_faults(self.schemas)
        self.faults += arch_faults(self.archs, listing.archs_file, listing.shown(listing.archs_file), langs)
        for schema in self.schemas:
            self.faults += schema_faults(schema, listing.schemas[schema.iface], langs)
        self.faults += path_faults(path for place in self.places for path in self.unit_files(*place))
        absent = [arch for arch in self.options.archs if arch not in self.archs]
        where = Span(listing.label)
        if absent or not self.places:
            names = ", ".join(absent) or "any arch"
            hint = "an interface exists on the archs that have a section in its schema"
            self.faults.append(Fault("nothing-to-generate", where, f"no chosen interface exists on {names}", hint))

    def unit_files(self, arch: str, iface: str) -> tuple[str, ...]:
        """The files of one arch and interface alone."""
        names = {CPP: f"cpp/{iface}/{arch}.inc", PYTHON: f"python/{iface}/{arch}.py"}
        return tuple(names[lang] for lang in LANGS if lang in self.options.langs)

    def units_of_all_places(self) -> None:
        for arch, iface in self.places:
            inputs = self.inputs.digest(arch, iface)
            if not self.reuse(arch, iface, inputs):
                self.make(arch, iface, inputs)

    def reuse(self, arch: str, iface: str, inputs: str) -> bool:
        """Take a unit over from the previous run; False where it must be made."""
        if self.previous is None:
            return False
        files, line = self.unit_files(arch, iface), self.kept_line(arch, iface)
        record = self.previous.unit(f"{arch}/{iface}", inputs, files)
        if record is None or line is None or (record.holes and self.options.on_hole == "fault"):
            return False
        for path in files:
            self.kept[path] = self.previous.digest(path)
        self.add_unit(arch, iface, record, line, reused=True)
        return True

    def kept_line(self, arch: str, iface: str) -> str | None:
        """The manifest's line of an interface, empty for an operator, or None where the manifest is not intact."""
        assert self.previous is not None
        if arch not in self._kept_lines:
            data = self.previous.intact(manifest_path(arch))
            self._kept_lines[arch] = kept_lines(data.decode()) if data else {}
        kernel = self.database.schemas[iface].kind != "operator"
        return self._kept_lines[arch].get(iface) if kernel else ""

    def make(self, arch: str, iface: str, inputs: str) -> None:
        arch_schema = self.database.schemas[iface].for_arch(arch)
        assert arch_schema is not None, "places exist"
        space = self._spaces.of(arch_schema)
        if arch_schema.schema.kind == "fixed":
            self.add_table(fixed_table(arch_schema, space, inputs), arch_schema)
            return
        resolution = self.database.resolve(arch, iface)
        wrong = errors(resolution.faults)
        self.faults += wrong
        if resolution.table is None or wrong:
            return
        table = tuned_table(resolution.table, space, inputs)
        self.faults += block_faults(resolution.table)
        self.faults += value_faults(table, resolution.table, self.options.langs)
        self.add_table(table, arch_schema, resolution.table)

    def add_table(self, table: DispatchTable, arch_schema: ArchSchema, resolved: ResolvedTable | None = None) -> None:
        arch, iface = table.arch, table.schema.iface
        holes = find_holes(table, arch_schema)
        if holes:
            assert resolved is not None, "a fixed interface has no axes"
            self.holes[arch, iface] = tuple(holes)
            self.faults += [hole_fault(resolved, holes)] if self.options.on_hole == "fault" else []
        if self.faults:
            return
        if CPP in self.options.langs:
            self.files[f"cpp/{iface}/{arch}.inc"] = cpp.table_data(table).encode()
        if PYTHON in self.options.langs:
            self.files[f"python/{iface}/{arch}.py"] = pytables.table_data(table).encode()
        kernel = section(table) if table.schema.kind != "operator" else None
        record = UnitRecord(
            inputs=table.inputs,
            functionals=len(table.space.functionals),
            configs=len(table.configs),
            images=kernel.images if kernel else 0,
            holes=len(holes),
        )
        self.add_unit(arch, iface, record, kernel.line if kernel else "", reused=False)

    def add_unit(self, arch: str, iface: str, record: UnitRecord, line: str, *, reused: bool) -> None:
        lines = self._lines.setdefault(arch, {})
        if line:
            lines[iface] = line
        files = self.inputs.layers(arch, iface)
        shown = {file: self.database.listings[file.root].shown(file.path) for file in files}
        overlays = tuple(text for file, text in shown.items() if file.root > 0)
        self.units.append(Unit(arch, iface, record, reused, tuple(shown.values()), overlays))

    def manifests(self) -> None:
        for arch in self.archs:
            self.files[manifest_path(arch)] = manifest_text(arch, self._lines[arch]).encode()

    def shared_files(self) -> None:
        """The files that are not of one arch: small, and written anew every time."""
        archs = [self.database.archs[arch] for arch in self.archs]
        texts = _cpp_files(self) if CPP in self.options.langs else {}
        if CPP in self.options.langs:
            texts["cpp/archs.h"] = cpp.archs_header(self.options.namespace, archs)
            texts["cpp/support.h"] = cpp.support_header(self.options.namespace)
        if PYTHON in self.options.langs:
            texts["python/__init__.py"] = pytables.package(archs, [schema.iface for schema in self.schemas])
            for schema in self.schemas:
                module = pytables.iface_module(schema, self.archs_of(schema.iface))
                texts[f"python/{schema.iface}/__init__.py"] = module
        self.files |= {path: text.encode() for path, text in texts.items()}

    def archs_of(self, iface: str) -> list[str]:
        return [arch for arch, own in self.places if own == iface]

    def index(self) -> None:
        digests = {path: digest(data) for path, data in self.files.items()} | self.kept
        records = {f"{unit.arch}/{unit.iface}": unit.record for unit in self.units}
        self.files[INDEX_FILE] = Index(generator_digest(), digests, records).text().encode()


def _cpp_files(run: _Run) -> dict[str, str]:
    texts = {}
    for schema in run.schemas:
        tables = {}
        for arch in run.archs_of(schema.iface):
            path = f"cpp/{schema.iface}/{arch}.inc"
            tables[arch] = run.kept.get(path) or digest(run.files[path])
        texts[f"cpp/{schema.iface}.h"] = cpp.iface_header(schema, run.options.namespace)
        texts[f"cpp/{schema.iface}.cpp"] = cpp.iface_source(schema, run.options.namespace, tables)
    return texts


def manifest_path(arch: str) -> str:
    """Where the manifest of an arch lies."""
    return f"manifest/{arch}.json"
