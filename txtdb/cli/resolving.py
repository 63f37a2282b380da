"""`txtdb resolve`: all layers of one table as one flat table."""

from __future__ import annotations

from pathlib import Path

import click

from txtdb.cli.common import EXIT_USAGE, fail, format_option, overlay_option, print_json, root_argument
from txtdb.cli.tables import open_tables
from txtdb.faults import Fault, Span
from txtdb.views.flat import flat_text
from txtdb.views.grids import make_view, view_json


@click.command(short_help="Print a resolved table as one flat table.")
@root_argument
@click.argument("arch")
@click.argument("iface")
@overlay_option
@format_option("json")
def resolve(root: Path, arch: str, iface: str, overlays: tuple[Path, ...], style: str) -> None:
    """Print the resolved table as one flat table in canonical text, which resolves to the same cells."""
    tables = open_tables(root, overlays, arch, iface)
    if style == "json":
        print_json({"tables": [view_json(make_view(table, {})) for table in tables]})
    elif len(tables) == 1:
        click.echo(flat_text(tables[0], (root, *overlays)), nl=False)
    else:
        fail([Fault("argument", Span(arch), "one file holds one arch", "name one, or use --format json")], EXIT_USAGE)
