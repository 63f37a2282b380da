"""SQLite tables of an AOTriton database → typed columns, with a fault for every row that could not be typed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from txtdb.faults import Fault, Severity, Span
from txtdb.formats.aotriton_names import PYTHON_TYPES, TABLE_PREFIX, Role, SourceColumn, known_columns
from txtdb.formats.archive import find_sources, iterate_tables, open_database
from txtdb.formats.columns import Codes, Column, Mask, factor, join, rows_text
from txtdb.model.values import ValueType

Columns = Mapping[str, SourceColumn]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class SourceTable:
    """The rows of one table of one file that could be typed. `columns` are by short name, `gpu` among them.

    `rowids` are the rows' numbers in SQLite, for messages.
    """

    file: str
    name: str
    iface: str
    meanings: tuple[SourceColumn, ...]
    columns: Mapping[str, Column]
    rowids: Codes

    def __len__(self) -> int:
        return len(self.rowids)

    def select(self, rows: Mask) -> SourceTable:
        """The table with some of its rows."""
        columns = {name: column.select(rows) for name, column in self.columns.items()}
        return SourceTable(self.file, self.name, self.iface, self.meanings, columns, self.rowids[rows])


@dataclass
class ReadTables:
    """What was read so far. `rows_left_out` counts the rows of tables that were read but could not be typed."""

    tables: list[SourceTable] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    files: int = 0
    empty_tables: int = 0
    rows_left_out: int = 0


def read_source(source: Path, ifaces: Mapping[str, Columns] | None, progress: Progress) -> ReadTables:
    """Read every database at or below a path.

    `ifaces` gives the columns of each interface by full name; None means what this kind of database is known to hold.
    A table or row that cannot be typed is left out, with a fault.
    """
    reading = ReadTables()
    paths = find_sources(source)
    if not paths:
        hint = "name a folder with .sqlite3.tar.xz or .sqlite3 files, or one of them"
        reading.faults.append(Fault("no-source", Span(source.as_posix()), "no database is there", hint))
    for path in paths:
        progress(path.name)
        _read_file(path, ifaces, reading)
    return reading


def _read_file(path: Path, ifaces: Mapping[str, Columns] | None, reading: ReadTables) -> None:
    file = path.as_posix()
    connection = open_database(path, file)
    if isinstance(connection, Fault):
        reading.faults.append(connection)
        return
    reading.files += 1
    try:
        for kind, name in iterate_tables(connection):
            iface = name.removeprefix(TABLE_PREFIX)
            columns = _columns_of(kind, name, ifaces)
            if columns is None:
                reading.faults.append(_unknown_table(file, kind, name, ifaces))
            else:
                _TableReader(reading, connection, file, name, iface, columns).read()
    except sqlite3.Error as error:
        reading.faults.append(Fault("damaged-source", Span(file), f"corrupt database: {error}", ""))
    finally:
        connection.close()


def _columns_of(kind: str, name: str, ifaces: Mapping[str, Columns] | None) -> Columns | None:
    iface = name.removeprefix(TABLE_PREFIX)
    named = kind == "table" and name.startswith(TABLE_PREFIX) and iface.isascii() and iface.isidentifier()
    if not named:
        return None
    return known_columns(iface) if ifaces is None else ifaces.get(iface)


def _unknown_table(file: str, kind: str, name: str, ifaces: Mapping[str, Columns] | None) -> Fault:
    hint = f"tables are named {TABLE_PREFIX}<interface>"
    if ifaces is not None:
        hint += f"; the database has schemas for {', '.join(sorted(ifaces)) or 'none'}"
    return Fault("unknown-table", Span(file), f"{kind} {name!r} is not known", hint)


class _TableReader:
    """Reads one table into `reading`."""

    def __init__(
        self,
        reading: ReadTables,
        connection: sqlite3.Connection,
        file: str,
        name: str,
        iface: str,
        known: Columns,
    ) -> None:
        self._reading, self._connection = reading, connection
        self._file, self._name, self._iface, self._known = file, name, iface, known

    def read(self) -> None:
        rows = self._rows()
        if not rows:
            self._reading.empty_tables += rows is not None
            return
        raw = list(zip(*rows, strict=True))
        rowids = np.array(raw[0], np.int64)
        keep = np.ones(len(rows), np.bool_)
        columns: dict[str, Column] = {}
        for meaning, values in zip(self._meanings, raw[1:], strict=True):
            if meaning.role is Role.ROW_NUMBER:
                continue
            column, good = self._typed(meaning, values, rowids)
            keep &= good
            if meaning.role is not Role.NOTHING:
                columns[meaning.name] = column
        table = SourceTable(self._file, self._name, self._iface, self._meanings, columns, rowids)
        self._reading.rows_left_out += int(len(rows) - np.count_nonzero(keep))
        self._reading.tables.append(table if keep.all() else table.select(keep))

    def _rows(self) -> list[tuple[object, ...]] | None:
        """Row number and values of each row; None, with a fault, when the columns are not the known ones."""
        quoted = '"' + self._name.replace('"', '""') + '"'
        names = [str(info[1]) for info in self._connection.execute(f"PRAGMA table_xinfo({quoted})")]
        unknown = [name for name in names if name not in self._known]
        if unknown or "gpu" not in names:
            self._column_faults(unknown, self._count(quoted), "gpu" in names)
            return None
        self._meanings = tuple(self._known[name] for name in names)
        try:
            return self._fetch(f"SELECT rowid, * FROM {quoted} ORDER BY rowid")
        except sqlite3.OperationalError as error:
            if "no such column: rowid" not in str(error):
                raise
            rows = self._fetch(f"SELECT 0, * FROM {quoted}")
            return [(number, *row[1:]) for number, row in enumerate(rows, 1)]

    def _fetch(self, query: str) -> list[tuple[object, ...]]:
        return self._connection.execute(query).fetchall()

    def _count(self, quoted: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0])

    def _column_faults(self, unknown: Sequence[str], rows: int, has_gpu: bool) -> None:
        self._reading.rows_left_out += rows
        tail = f"the table's {rows} rows cannot be told apart" if rows else "the table is empty"
        for name in unknown:
            hint = f"known are {', '.join(self._known)}"
            self._fault("unknown-column", f"column {name!r} is not known; {tail}", hint)
        if not has_gpu:
            self._fault("missing-column", f"there is no column 'gpu'; {tail}")

    def _typed(self, meaning: SourceColumn, raw: Sequence[object], rowids: Codes) -> tuple[Column, Mask]:
        """The column and which rows of it have a value; the others are told of, one fault for each wrong value."""
        expected = PYTHON_TYPES[meaning.sql_type]
        if set(map(type, raw)) == {expected}:
            distinct, codes = factor(raw)
        else:
            # 1 and 1.0 are equal and must not be taken for each other.
            distinct, codes = factor([value if type(value) is expected else _Wrong(repr(value)) for value in raw])
        decoded = [None if isinstance(value, _Wrong) else meaning.decode(value) for value in distinct]
        for place, value in enumerate(decoded):
            if value is None:
                self._value_fault(meaning, distinct[place], rowids[codes == place])
        good = np.array([value is not None for value in decoded], np.bool_)
        stand_in = next((value for value in decoded if value is not None), 0)
        column = Column(tuple(stand_in if value is None else value for value in decoded), codes)
        return join([column]), good[codes]

    def _value_fault(self, meaning: SourceColumn, raw: object, rowids: Codes) -> None:
        value = raw.text if isinstance(raw, _Wrong) else repr(raw)
        message = f"{rows_text(rowids.tolist())}: {meaning.full} = {value}"
        if isinstance(raw, _Wrong):
            self._fault("wrong-type", f"{message} is no {meaning.sql_type}")
        elif meaning.role is Role.NOTHING:
            self._fault("wrong-value", f"{message}: only 0.0 is known here", "another value would be lost on import")
        else:
            self._fault("wrong-value", f"{message} means nothing", _hint(meaning))

    def _fault(self, rule: str, message: str, hint: str = "") -> None:
        self._reading.faults.append(Fault(rule, Span(self._file), f"table {self._name}: {message}", hint))


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A value of another type than its column's, as Python spells it."""

    text: str


def _hint(meaning: SourceColumn) -> str:
    if meaning.choices:
        return ", ".join(f"{number} is {name}" for number, name in enumerate(meaning.choices))
    hints = {ValueType.BOOL: "0 or 1", ValueType.INT: "a whole number of at most 18 digits", ValueType.ENUM: "a name"}
    return f"expected {'a size, not negative' if meaning.role is Role.AXIS else hints[meaning.type]}"


@dataclass(frozen=True)
class Rows:
    """All rows of one interface, from every table that has it. `origin` gives the table of each row."""

    iface: str
    tables: tuple[SourceTable, ...]
    columns: Mapping[str, Column]
    origin: Codes
    rowids: Codes

    def __len__(self) -> int:
        return len(self.origin)

    def select(self, rows: Mask) -> Rows:
        """Some of the rows."""
        if rows.all():
            return self
        columns = {name: column.select(rows) for name, column in self.columns.items()}
        return Rows(self.iface, self.tables, columns, self.origin[rows], self.rowids[rows])

    def faults(self, rule: str, rows: Mask, message: str, hint: str = "", warn: bool = False) -> list[Fault]:
        """One fault for each table that some of the rows come from."""
        severity = Severity.WARNING if warn else Severity.ERROR
        found = []
        for number in np.unique(self.origin[rows]).tolist():
            table, mine = self.tables[number], rows & (self.origin == number)
            place = f"table {table.name}: {rows_text(self.rowids[mine].tolist())}"
            found.append(Fault(rule, Span(table.file), f"{place}: {message}", hint, severity))
        return found


def join_tables(tables: Iterable[SourceTable]) -> tuple[dict[str, Rows], list[Fault], int]:
    """Tables by interface, those of one interface joined: interface → rows, faults, and how many rows are left out.

    Tables of one interface must have the same columns; one that lacks some is left out.
    """
    by_iface: dict[str, list[SourceTable]] = {}
    for table in tables:
        by_iface.setdefault(table.iface, []).append(table)
    joined: dict[str, Rows] = {}
    faults: list[Fault] = []
    left_out = 0
    for iface, same in sorted(by_iface.items()):
        names = {name for table in same for name in table.columns}
        complete = [table for table in same if names == set(table.columns)]
        for table in same:
            missing = sorted(names - set(table.columns))
            if missing:
                left_out += len(table)
                faults.append(_missing_columns(table, missing))
        if complete:
            joined[iface] = _join(iface, tuple(complete))
    return joined, faults, left_out


def _missing_columns(table: SourceTable, missing: Sequence[str]) -> Fault:
    message = f"table {table.name}: it lacks {', '.join(missing)}; its {len(table)} rows are left out"
    return Fault("missing-column", Span(table.file), message, "other tables of the interface have them")


def _join(iface: str, tables: tuple[SourceTable, ...]) -> Rows:
    columns = {name: join([table.columns[name] for table in tables]) for name in tables[0].columns}
    origin = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return Rows(iface, tables, columns, origin, np.concatenate([table.rowids for table in tables]))
