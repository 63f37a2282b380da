"""`txtdb schema show`: what may stand in the tables of one interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from txtdb.cli.common import EXIT_USAGE, choose_archs, fail, format_option, open_root, print_json, root_argument
from txtdb.cli.layout import Piece, Row, aligned
from txtdb.faults import Fault
from txtdb.model.schema import Derived, Schema
from txtdb.model.values import print_value, print_values
from txtdb.views.asking import find_schema
from txtdb.views.schemas import arch_groups, differences, domain_text, predicate_text, schema_json


@click.group()
def schema() -> None:
    """Look at schemas."""


@schema.command("show")
@root_argument
@click.argument("iface")
@click.option("--arch", "archs", multiple=True, help="Only these archs: names or aliases, commas allowed; repeatable.")
@format_option("json")
def show_schema(root: Path, iface: str, archs: tuple[str, ...], style: str) -> None:
    """Show the keys, axes and config fields of an interface, and how archs differ."""
    database = open_root(root)
    chosen = choose_archs(database, archs)
    found = find_schema(database, iface)
    if isinstance(found, Fault):
        fail([found], EXIT_USAGE)
    if style == "json":
        print_json(schema_json(found, chosen))
    else:
        click.echo("\n".join(schema_lines(found, chosen)))


def schema_lines(schema: Schema, archs: list[str]) -> Iterator[str]:
    """The text of a schema, with colours."""
    yield f"{click.style(f'{schema.iface}  {schema.kind}', bold=True)}  {schema.file}"
    for title, rows in _sections(schema):
        if rows:
            yield from ("", click.style(title, bold=True), *aligned(rows, left=9))
    groups = arch_groups(schema, archs)
    yield from ("", click.style("archs", bold=True))
    for group in groups:
        count = f"functionals: {group.functionals}, cells: {group.cells}"
        yield f"  {' '.join(group.archs)}  {click.style(count, dim=True)}"
        yield from (f"    {text}" for text in differences(group))
    if not groups:
        yield "  none"


def _sections(schema: Schema) -> Iterator[tuple[str, list[Row]]]:
    yield "keys", list(_keys(schema))
    yield "axes", [[axis.name, print_values(axis.bins)] for axis in schema.axes]
    yield "config", [] if schema.backends else list(_fields(schema))
    yield "back ends", [[item.name, _launches(item.launches)] for item in schema.backends]
    yield "derived", [[item.name, str(item.type), f"from {item.key}", _mapping(item)] for item in schema.derived]
    yield "fixed config", _fixed_config(schema)
    yield "functionals that do not exist", [[predicate_text(item)] for item in schema.absent]
    yield "configs that are illegal", [[predicate_text(item)] for item in schema.illegal]


def _keys(schema: Schema) -> Iterator[Row]:
    for key in schema.keys:
        note = "" if key.fallback is None else f"falls back to {print_value(key.fallback)}"
        yield [key.name, str(key.type), print_values(key.values), Piece(note, {"dim": True})]
    for fixed in schema.fixed_keys:
        yield [fixed.name, str(fixed.type), print_value(fixed.value), Piece("fixed", {"dim": True})]


def _fields(schema: Schema) -> Iterator[Row]:
    for item in schema.config:
        default = "" if item.default is None else f"default {print_value(item.default)}"
        binary = "" if item.binary else "not part of the image"
        note = ", ".join(filter(None, (default, binary)))
        yield [item.name, str(item.type), domain_text(item), Piece(note, {"dim": True})]


def _fixed_config(schema: Schema) -> list[Row]:
    if schema.fixed_config is None:
        return []
    return [[name, print_value(value)] for name, value in schema.config_dict(schema.fixed_config).items()]


def _mapping(item: Derived) -> str:
    return " ".join(f"{print_value(given)}->{print_value(result)}" for given, result in item.mapping)


def _launches(launches: tuple[str, ...]) -> str:
    return f"launches {' '.join(launches)}" if launches else "an external kernel"
