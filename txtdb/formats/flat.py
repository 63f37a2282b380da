"""Cells as flat records: one CSV row or JSON object for each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator

from txtdb.formats.cells import Exported
from txtdb.model.values import Value, print_value

Record = dict[str, Value]


def records(table: Exported) -> Iterator[Record]:
    """Arch, interface, keys, sizes, config fields and derived fields of each cell, by name."""
    schema = table.schema
    for functional, bins, config in table.cells():
        yield {
            "arch": table.arch.name,
            "iface": schema.iface,
            **schema.functional_dict(functional),
            **dict(zip(schema.axis_names, bins, strict=True)),
            **schema.config_dict(config),
            **schema.derived_values(functional),
        }


def csv_files(tables: Iterable[Exported]) -> Iterator[tuple[str, bytes]]:
    """(path below the output folder, content) of each table, with a header line."""
    for table in tables:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        for number, record in enumerate(records(table)):
            if number == 0:
                writer.writerow(record)
            writer.writerow(map(print_value, record.values()))
        yield f"{table.arch.name}/{table.schema.iface}.csv", stream.getvalue().encode()


def json_files(tables: Iterable[Exported]) -> Iterator[tuple[str, bytes]]:
    """(path below the output folder, content) of each table: a list with one record a line."""
    for table in tables:
        lines = ",\n".join(map(json.dumps, records(table)))
        yield f"{table.arch.name}/{table.schema.iface}.json", f"[\n{lines}\n]\n".encode()
