"""What the columns of record files are: keys, fields, measurements, problem arguments, or something unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from txtdb.faults import Fault, Span
from txtdb.formats.record_files import Record, RecordFile
from txtdb.model.schema import Schema

ARCH_NAME = "arch"


@dataclass(frozen=True)
class Reading:
    """How records are read.

    `columns` maps a column to the name of a key, axis or config field (or `arch`); a column that has such a name itself
    needs no entry. `values` hold for all records. `time`, `error` and `device` name columns; a record whose error is
    above `max_error` is wrong. `arguments` are columns that must agree in all records; when there are none, all columns
    without a meaning must. `ignored` columns are passed over.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None
    error: str | None = None
    max_error: float | None = None
    device: str | None = None
    arguments: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns of measurements."""
        return tuple(name for name in (self.time, self.error, self.device) if name is not None)


@dataclass(frozen=True)
class FileColumns:
    """The columns of one file. `names` maps those with a meaning to the name of a key, axis or field, or `arch`.

    `unknown` are parameters that the schema does not have: a record that has one of them cannot be used. `arguments`
    have one value in the whole file, told as text.
    """

    names: Mapping[str, str]
    unknown: frozenset[str]
    arguments: Mapping[str, str]


def classify(files: Sequence[RecordFile], schema: Schema, reading: Reading) -> tuple[list[FileColumns], list[Fault]]:
    """The columns of each file. With any fault nothing of the files may be used."""
    known = {*_names(schema), ARCH_NAME}
    faults = list(_option_faults(files, known, schema, reading))
    found = []
    for file in files:
        columns, more = _Classifier(file, known, frozenset(schema.field_names), reading).run()
        found.append(columns)
        faults += more
    return found, faults + list(_differing_arguments(files, found))


def _names(schema: Schema) -> tuple[str, ...]:
    others = (*(key.name for key in schema.fixed_keys), *(item.name for item in schema.derived))
    return (*schema.key_names, *schema.axis_names, *schema.field_names, *others)


def _option_faults(files: Sequence[RecordFile], known: set[str], schema: Schema, reading: Reading) -> Iterator[Fault]:
    hint = f"{schema.iface} has {', '.join(sorted(known))}"
    for name in (*reading.columns.values(), *reading.values):
        if name not in known:
            yield Fault("unknown-name", Span(name), f"{schema.iface} has no key, axis or field `{name}`", hint)
    for file in files:
        for column in (*reading.columns, *reading.measured, *reading.arguments):
            if column not in file.columns:
                hint = f"its columns are {', '.join(file.columns)}"
                yield Fault("missing-column", Span(file.file), f"there is no column `{column}`", hint)


class _Classifier:
    def __init__(self, file: RecordFile, known: set[str], fields: frozenset[str], reading: Reading) -> None:
        self._file, self._reading = file, reading
        self._faults: list[Fault] = []
        self._names = {c: name for c in file.columns if (name := self._meaning(c, known))}
        self._parameter_objects = {_object(c) for c, name in self._names.items() if name in fields} - {""}
        self._unknown: set[str] = set()
        self._arguments: dict[str, str] = {}

    def run(self) -> tuple[FileColumns, list[Fault]]:
        self._repeated_names()
        varying = [column for column in self._file.columns if self._varies(column)]
        if varying:
            hint = "map what is a key, axis or field, --ignore what was measured; other parameters cannot be told apart"
            message = f"columns without a meaning vary: {', '.join(varying)}"
            self._faults.append(self._first_change(varying[0]).fault("unknown-parameter", message, hint))
        return FileColumns(self._names, frozenset(self._unknown), self._arguments), self._faults

    def _meaning(self, column: str, known: set[str]) -> str | None:
        if column in self._reading.columns:
            return self._reading.columns[column]
        if column in (*self._reading.measured, *self._reading.ignored, *self._reading.arguments):
            return None
        own = column.rpartition(".")[2]
        return own if own in known else None

    def _repeated_names(self) -> None:
        by_name = {name: f"--value {name}" for name in self._reading.values}
        for column, name in self._names.items():
            if by_name.setdefault(name, column) != column:
                message = f"`{by_name[name]}` and column `{column}` both mean `{name}`"
                self._faults.append(Fault("ambiguous-column", Span(self._file.file), message, "--ignore one of them"))

    def _varies(self, column: str) -> bool:
        """Sort in a column without a meaning; whether it takes several values, so that records do not compare."""
        reading = self._reading
        if column in self._names or column in (*reading.measured, *reading.ignored):
            return False
        texts = {value_text(record.fields.get(column)) for record in self._file.records}
        if column in reading.arguments:
            self._argument(column, texts)
        elif _object(column) in self._parameter_objects or (value_text(None) in texts):
            self._unknown.add(column)
        elif len(texts) > 1:
            return True
        elif not reading.arguments:
            self._arguments[column] = texts.pop()
        return False

    def _argument(self, column: str, texts: set[str]) -> None:
        self._arguments[column] = value_text(self._file.records[0].fields.get(column))
        if len(texts) > 1:
            record = self._first_change(column)
            other = value_text(record.fields.get(column))
            message = f"argument {column} is {other}, and {self._arguments[column]} in record 1"
            self._faults.append(
                record.fault("argument-differs", message, "measure one problem only, or split the file")
            )

    def _first_change(self, column: str) -> Record:
        first = self._file.records[0].fields.get(column)
        return next(record for record in self._file.records if record.fields.get(column) != first)


def _object(column: str) -> str:
    """The object that a column is a member of."""
    return column.rpartition(".")[0]


def value_text(value: object) -> str:
    """A value for comparison across CSV and JSON, and for people."""
    if value is None:
        return "absent"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _differing_arguments(files: Sequence[RecordFile], found: Sequence[FileColumns]) -> Iterator[Fault]:
    """Records of different problems do not compare."""
    for file, columns in zip(files[1:], found[1:], strict=True):
        first = found[0].arguments
        for name in dict.fromkeys((*first, *columns.arguments)):
            one, other = first.get(name, value_text(None)), columns.arguments.get(name, value_text(None))
            if one != other:
                message = f"argument {name} is {other}, and {one} in {files[0].file}"
                hint = "import files of one problem only, or --ignore the column"
                yield Fault("argument-differs", Span(file.file), message, hint)
