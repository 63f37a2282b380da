"""An AOTriton database → the files of a text database. Nothing is written here: see `Import.files`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txtdb.faults import Fault, Span, errors
from txtdb.formats.aotriton_build import ArchCells, Built, build_cells
from txtdb.formats.aotriton_gpus import Gpus, archs_text
from txtdb.formats.aotriton_infer import helper_schema, infer_schema
from txtdb.formats.aotriton_names import BACKENDS, HELPER, schema_columns
from txtdb.formats.aotriton_source import Progress, Rows, join_tables, read_source
from txtdb.formats.columns import Column
from txtdb.formats.schema_text import schema_text
from txtdb.formats.updating import updated_text
from txtdb.layers.database import Database, open_database
from txtdb.layers.listing import ARCHS_FILE, SCHEMA_FOLDER, LayerFile
from txtdb.model.archs import Arch, read_archs
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.model.table import UNSET, ConfigPool
from txtdb.model.writing import table_text
from txtdb.syntax import read


@dataclass(frozen=True)
class Import:
    """What an import would write, and what it left out. `files` maps paths to their content.

    `cells` counts cells by (arch, interface). With any error in `faults` something of the source is not in the files;
    the faults name all of it.
    """

    files: Mapping[Path, bytes]
    faults: tuple[Fault, ...]
    cells: Mapping[tuple[str, str], int]
    sources: int = 0
    rows_left_out: int = 0
    rows_repeated: int = 0
    empty_tables: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything of the source is in the files."""
        return not errors(self.faults)


def import_aotriton(
    source: Path,
    root: Path,
    bases: Sequence[tuple[str, str]] = (),
    emit_schema: bool = False,
    progress: Progress = lambda _: None,
) -> Import:
    """Read a database at `source` for the text database at `root`.

    `bases` are (child, parent) archs. With `emit_schema` the schemas are inferred and archs.toml is completed; without
    it those of the root type the data.
    """
    return _Importer(source, root, emit_schema).run(bases, progress)


class _Importer:
    def __init__(self, source: Path, root: Path, emit_schema: bool) -> None:
        self._source, self._root, self._emit = source, root, emit_schema
        self._faults: list[Fault] = []
        self._files: dict[Path, bytes] = {}
        self._left_out = 0
        self._archs: dict[str, Arch] = {}
        self._schemas: dict[str, Schema] = {}
        self._database: Database | None = None
        self._tables: dict[tuple[str, str], LayerFile] = {}
        self._parents: dict[str, str] = {}

    def run(self, bases: Sequence[tuple[str, str]], progress: Progress) -> Import:
        self._open_root()
        if errors(self._faults):
            return Import({}, tuple(self._faults), {})
        self._gpus = Gpus(self._archs, self._emit)
        known = {iface: {c.full: c for c in schema_columns(s)} for iface, s in self._tuned()}
        reading = read_source(self._source, None if self._emit else known, progress)
        self._faults += reading.faults
        joined, faults, left_out = join_tables(reading.tables)
        self._faults += faults
        self._left_out += reading.rows_left_out + left_out
        placed = {iface: self._place(rows) for iface, rows in joined.items()}
        self._lay_bases(bases, {arch for _, archs in placed.values() for arch in archs.seen()})
        if self._emit:
            progress("schemas")
            self._emit_schemas(placed)
        built = {iface: self._build(iface, *item, progress) for iface, item in placed.items() if len(item[0])}
        self._write_tables(built, progress)
        self._write_archs()
        counts = {(a, i): int(np.count_nonzero(c.cells != UNSET)) for i, b in built.items() for a, c in b.archs.items()}
        return Import(
            files=self._files,
            faults=tuple(self._faults),
            cells=dict(sorted(counts.items())),
            sources=reading.files,
            rows_left_out=self._left_out,
            rows_repeated=sum(item.repeated for item in built.values()),
            empty_tables=reading.empty_tables,
        )

    def _tuned(self) -> Iterator[tuple[str, Schema]]:
        return ((iface, schema) for iface, schema in self._schemas.items() if schema.kind != "fixed")

    def _open_root(self) -> None:
        if self._emit and not (self._root / ARCHS_FILE).is_file():
            return
        database = open_database(self._root)
        self._faults += database.faults
        self._archs, self._schemas = database.archs, dict(database.schemas)
        self._database, self._tables = database, database.listings[0].tables

    def _place(self, rows: Rows) -> tuple[Rows, Column]:
        """The rows whose GPU has an arch, and the arch of each."""
        gpus = rows.columns["gpu"]
        names: list[str] = []
        for code, gpu in enumerate(gpus.values):
            arch = self._gpus.arch_of(str(gpu))
            mine = gpus.codes == code
            if isinstance(arch, Fault):
                self._faults += rows.faults(arch.rule, mine, arch.message, arch.hint)
                self._left_out += int(np.count_nonzero(mine))
                names.append("")
                continue
            if arch.gpu_name != gpu:
                message = f"gpu {gpu!r} is arch {arch.name}, and will be exported as {arch.gpu_name}"
                self._faults += rows.faults("gpu-renamed", mine, message, warn=True)
            names.append(arch.name)
        distinct = tuple(sorted(set(names)))
        codes = np.array([distinct.index(name) for name in names], np.int64)[gpus.codes]
        keep = np.array([name != "" for name in distinct])[codes]
        return rows.select(keep), Column(distinct, codes[keep])

    def _lay_bases(self, bases: Sequence[tuple[str, str]], with_rows: set[object]) -> None:
        with_tables = {arch for arch, _ in self._tables}
        for child, parent in bases:
            found = [self._gpus.named(name) for name in (child, parent)]
            unknown = [item for item in found if isinstance(item, Fault)]
            self._faults += unknown
            if unknown:
                continue
            below, above = (item.name for item in found if isinstance(item, Arch))
            if self._parents.setdefault(below, above) != above:
                self._base_fault(f"{below} has two bases, {self._parents[below]} and {above}")
            if above in self._line(above)[1:]:
                self._base_fault(f"the bases run in a circle through {above}")
        for parent in sorted(set(self._parents.values())):
            if not with_rows.union(with_tables).intersection(self._line(parent)):
                self._base_fault(f"base {parent} has no rows in the source and no table in the database")

    def _base_fault(self, message: str) -> None:
        self._faults.append(Fault("bad-base", Span(self._source.as_posix()), message, "correct --base"))

    def _line(self, arch: str) -> list[str]:
        """An arch and all that it lies over; in a circle the arch where it closes stands twice."""
        line = [arch]
        while (parent := self._parents.get(line[-1])) is not None:
            line.append(parent)
            if parent in line[:-1]:
                break
        return line

    def _emit_schemas(self, placed: Mapping[str, tuple[Rows, Column]]) -> None:
        emitted: dict[str, Schema] = {}
        for iface, (rows, archs) in placed.items():
            if len(rows):
                emitted[iface] = infer_schema(rows, archs, self._parents, self._schema_file(iface).as_posix())
        operator = next((emitted[iface] for iface in BACKENDS if _launches_helper(iface, emitted)), None)
        if operator:
            emitted[HELPER] = helper_schema(operator, self._schema_file(HELPER).as_posix())
        for iface, schema in emitted.items():
            self._emit_schema(iface, schema)
        self._check_launches(emitted)

    def _schema_file(self, iface: str) -> Path:
        return self._root / SCHEMA_FOLDER / f"{iface}.toml"

    def _emit_schema(self, iface: str, schema: Schema) -> None:
        """Write a schema out and read it again: the file is what types the data."""
        path = self._schema_file(iface)
        comment = f"What may stand in the tables of {iface}. Inferred from {self._source.name}."
        data = schema_text(schema, [comment]).encode()
        read, faults = read_schema(data, path.as_posix(), iface)
        self._faults += faults
        existing = self._schemas.get(iface)
        lost = sorted(set(existing.archs if existing else ()) - set(schema.archs))
        if lost:
            message = f"the new schema of {iface} would lose {', '.join(lost)}, of which the source has no rows"
            hint = "import without --emit-schema, or remove the file first"
            self._faults.append(Fault("schema-archs-lost", Span(path.as_posix()), message, hint))
        elif read:
            self._schemas[iface] = read
            self._files[path] = data

    def _check_launches(self, emitted: Mapping[str, Schema]) -> None:
        for schema in emitted.values():
            for backend in schema.backends:
                for iface in backend.launches:
                    if iface not in self._schemas:
                        message = (
                            f"back end {backend.name} launches {iface}, of which there is neither table nor schema"
                        )
                        hint = "import it as well, or before"
                        self._faults.append(Fault("missing-launch", Span(schema.file), message, hint))

    def _build(self, iface: str, rows: Rows, archs: Column, progress: Progress) -> Built:
        progress(iface)
        schema = self._schemas.get(iface)
        if schema is None:
            self._left_out += len(rows)
            return Built.nothing()
        built = build_cells(rows, archs, schema)
        self._faults += built.faults
        self._left_out += built.rows_left_out
        return built

    def _write_tables(self, built: Mapping[str, Built], progress: Progress) -> None:
        imported = {(arch, iface) for iface, item in built.items() for arch in item.archs}
        existing = imported.union(self._tables)
        for iface, item in built.items():
            progress(f"{iface} tables")
            for arch in sorted({*item.archs, *self._heirs(iface, existing)}):
                base = self._base(arch, iface, existing)
                if arch in item.archs or (arch, iface) not in self._tables:
                    self._write_table(arch, iface, item, base)
                elif base != self._written_base(arch, iface):
                    file = self._tables[arch, iface].display
                    message = f"it has another base than {base}, and the source has no rows for it"
                    self._faults.append(Fault("bad-base", Span(file), message, "edit its `#! base`"))

    def _heirs(self, iface: str, existing: set[tuple[str, str]]) -> set[str]:
        return {child for child in self._parents if self._base(child, iface, existing)}

    def _base(self, arch: str, iface: str, existing: set[tuple[str, str]]) -> str | None:
        """The base of an arch where that has the interface, itself or by its own base; else the one in its file."""
        above = self._line(arch)[1:]
        if any((name, iface) in existing for name in above):
            return above[0]
        return self._written_base(arch, iface)

    def _written_base(self, arch: str, iface: str) -> str | None:
        file = self._tables.get((arch, iface))
        named = self._database.base_of(file) if self._database and file else None
        return named[0] if named else None

    def _write_table(self, arch: str, iface: str, built: Built, base: str | None) -> None:
        schema = self._schemas[iface]
        header = {"origin": f"imported {self._source.name}"}
        if base:
            header["base"] = base
        cells = built.archs.get(arch) or ArchCells.nothing(schema)
        text = self._updated(arch, schema, cells, built.pool, header)
        if text is None:
            lists = {name: [value] for name, value in header.items()}
            text = table_text(schema, arch, cells.functionals, cells.bins, cells.cells, built.pool, lists)
        self._files[self._root / arch / f"{iface}.txtdb"] = text.encode()

    def _updated(
        self, arch: str, schema: Schema, cells: ArchCells, pool: ConfigPool, header: Mapping[str, str]
    ) -> str | None:
        """The text of the table that is there, changed; None where there is none, or it has to be made anew."""
        file, arch_schema = self._tables.get((arch, schema.iface)), schema.for_arch(arch)
        if self._database is None or file is None or arch_schema is None:
            return None
        source, faults = read(file.path.read_bytes(), file.display)
        return None if source is None or faults else updated_text(source, arch_schema, cells, pool, header)

    def _write_archs(self) -> None:
        if not self._gpus.added:
            return
        path = self._root / ARCHS_FILE
        existing = path.read_text(encoding="utf-8") if path.is_file() else ""
        data = archs_text(existing, self._gpus.added).encode()
        self._faults += read_archs(data, path.as_posix())[1]
        self._files[path] = data


def _launches_helper(iface: str, emitted: Mapping[str, Schema]) -> bool:
    return iface in emitted and any(HELPER in launches for _, launches in BACKENDS[iface])
