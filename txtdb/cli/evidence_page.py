"""`txtdb tune report`: evidence as a page."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import click

from txtdb.cli.common import EXIT_USAGE, fail, open_root
from txtdb.cli.outputs import other_file_faults
from txtdb.cli.usage import bytes_of, usage_faults
from txtdb.evidence.files import read_evidence
from txtdb.faults import Fault, Span
from txtdb.files import replaced_file, write_output
from txtdb.layers.database import Database
from txtdb.layers.listing import EVIDENCE_FOLDER
from txtdb.model.schema import ArchSchema
from txtdb.review.markup import PAGE_START
from txtdb.tune.report import report_page

_file = click.Path(path_type=Path, dir_okay=False)
_existing = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("report", short_help="Render evidence as a page.")
@click.argument("evidence", type=_existing)
@click.option("--root", type=click.Path(path_type=Path), help="The database.  [default: the one that holds EVIDENCE]")
@click.option("-o", "--out", type=_file, required=True, help="The page.")
def report(evidence: Path, root: Path | None, out: Path) -> None:
    """Render an evidence file as one HTML page, with a plot of each race."""
    root = root or _holder(evidence)
    data = bytes_of(evidence)
    faults = other_file_faults(out, [PAGE_START])
    if faults:
        fail(faults, EXIT_USAGE)
    arch_schema = _schema_of(open_root(root), data, evidence)
    found, faults = read_evidence(data, evidence.as_posix(), arch_schema.schema)
    if found is None:
        fail(faults)
    with usage_faults():
        write_output(out, report_page(found, arch_schema).encode())
    click.echo(f"{out.as_posix()}: written", err=replaced_file(out) is None)  # not into the page on standard output


def _holder(evidence: Path) -> Path:
    """The database that has an evidence file in the folder of an arch."""
    folder, *above = evidence.absolute().parents
    if folder.name != EVIDENCE_FOLDER or len(above) < 2:
        raise click.UsageError("EVIDENCE lies in no database: name its database with --root")
    return above[1]


def _schema_of(database: Database, data: bytes, file: Path) -> ArchSchema:
    """The schema of the interface and arch that evidence names."""
    arch_schema = None
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        hint = "it may be cut short, or another file"
        fail([Fault("bad-evidence", Span(file.as_posix()), "this is no JSON", hint)], EXIT_USAGE)
    with suppress(KeyError, TypeError):
        schema = database.schemas[given["iface"]]
        arch_schema = schema.for_arch(given["arch"])
    if arch_schema is None:
        message, hint = "this is no evidence of an interface and arch of the database", "name the database with --root"
        fail([Fault("bad-evidence", Span(file.as_posix()), message, hint)], EXIT_USAGE)
    return arch_schema
