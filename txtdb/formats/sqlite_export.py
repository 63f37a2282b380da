"""Cells → SQLite files as AOTriton keeps them: the inverse of the import."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from txtdb.formats.aotriton_names import INPUTS, TABLE_PREFIX, Role, SourceColumn, schema_columns
from txtdb.formats.cells import Exported
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, Value

OPERATORS_FILE = "op_database.sqlite3"

_Encoded = tuple[str | int | float, ...]


def sqlite_files(tables: Iterable[Exported]) -> Iterator[tuple[str, bytes]]:
    """(path below the output folder, content) of each database.

    A kernel's table has a file of its own per arch, the operators' tables are in one file with a row for every arch.
    """
    operators = []
    for table in tables:
        if table.schema.kind == "operator":
            operators.append(table)
        else:
            yield f"{table.arch.name}/{table.schema.iface}.sqlite3", _database([table])
    if operators:
        yield OPERATORS_FILE, _database(operators)


def _database(tables: Sequence[Exported]) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        for schema in {table.schema.iface: table.schema for table in tables}.values():
            connection.execute(_create(schema))
        for table in tables:
            columns = _stored_columns(table.schema)
            name, marks = TABLE_PREFIX + table.schema.iface, ", ".join("?" * len(columns))
            names = ", ".join(f'"{column.full}"' for column in columns)
            connection.executemany(f'INSERT INTO "{name}" ({names}) VALUES ({marks})', _rows(table, columns))
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


def _stored_columns(schema: Schema) -> list[SourceColumn]:
    """Columns that are written; row numbers come from SQLite."""
    return [column for column in schema_columns(schema) if column.role is not Role.ROW_NUMBER]


def _create(schema: Schema) -> str:
    columns = schema_columns(schema)
    unique = [f'"{column.full}"' for column in columns if column.role is Role.GPU or column.full.startswith(INPUTS)]
    lines = [_definition(column) for column in columns]
    return f'CREATE TABLE "{TABLE_PREFIX}{schema.iface}" ({", ".join(lines)}, UNIQUE({", ".join(unique)}))'


def _definition(column: SourceColumn) -> str:
    if column.role is Role.ROW_NUMBER:
        return f"{column.full} INTEGER PRIMARY KEY"
    return f'"{column.full}" {column.sql_type}'


def _rows(table: Exported, columns: Sequence[SourceColumn]) -> Iterator[_Encoded]:
    """A row for each cell, its values in the order of the columns.

    A row is put together from parts that many rows share (of the functional, of the config) and then sorted.
    """
    schema, by_name = table.schema, {column.name: column for column in columns}
    constants: dict[str, str | float] = {"gpu": table.arch.gpu_name, "tflops": 0.0}
    functional_names = (*schema.key_names, *(item.name for item in schema.derived))
    fixed: _Encoded = tuple(by_name[key.name].encode(key.value) for key in schema.fixed_keys)
    names = [*functional_names, *schema.axis_names, *schema.field_names]
    names += [*(key.name for key in schema.fixed_keys), *constants]
    in_order: Callable[[_Encoded], _Encoded] = itemgetter(*(names.index(column.name) for column in columns))
    tail = (*fixed, *constants.values())
    functionals: dict[Functional, _Encoded] = {}
    configs: dict[Functional, _Encoded] = {}
    for functional, bins, config in table.cells():
        head = functionals.get(functional)
        if head is None:
            values = (*functional, *schema.derived_values(functional).values())
            head = functionals[functional] = _encode(by_name, functional_names, values)
        body = configs.get(config)
        if body is None:
            body = configs[config] = _encode(by_name, schema.field_names, config)
        yield in_order((*head, *bins, *body, *tail))


def _encode(by_name: dict[str, SourceColumn], names: Sequence[str], values: Sequence[Value]) -> _Encoded:
    return tuple(by_name[name].encode(value) for name, value in zip(names, values, strict=True))
