"""`txtdb review`."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, FormChoice, fail
from txtdb.cli.outputs import other_file_faults, unwritable
from txtdb.diff.history import open_history
from txtdb.diff.repository import run_git
from txtdb.diff.sides import Side, open_side
from txtdb.faults import FaultError, Severity, errors
from txtdb.files import write_output
from txtdb.patching.grounds import Past, no_past
from txtdb.patching.past import past_databases
from txtdb.review.build import build_review
from txtdb.review.markdown import as_markdown
from txtdb.review.markup import PAGE_START
from txtdb.review.page import as_html
from txtdb.review.plain import as_json
from txtdb.review.records import Review
from txtdb.review.words import headline

_RENDERERS = {"html": as_html, "json": as_json, "md": as_markdown}
# How files begin that an output of a form may replace.
_STARTS = {"html": [PAGE_START], "json": [b'{\n  "root": '], "md": [b"## Review of "]}
_RANGE = re.compile(r"(?P<base>[^-].*?)(?P<dots>\.{2,3})(?P<head>(?:[^-.].*)?)")


@click.command(short_help="Review a change between git revisions.")
@click.argument("revisions", metavar="BASE..[HEAD]")
@click.option("--root", type=click.Path(path_type=Path), required=True, help="The database folder.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write.  [default: stdout]")
@click.option(
    "--format",
    "style",
    type=FormChoice(sorted(_RENDERERS)),
    help="[default: as the name of --out ends; md without one]",
)
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="The day for end dates of pins.  [default: today]")
def review(revisions: str, root: Path, out: Path | None, style: str | None, today: datetime | None) -> None:
    """Review what changed in the database from git revision BASE to HEAD.

    Without HEAD the new side is the work tree. BASE...HEAD starts where both parted, as a pull request does.
    html is one page that needs no network, md a comment of bounded length.

    Exit code 0: reviewed; 1: the change brings errors, which the review shows; 2: a side cannot be read, or
    the file not be written.
    """
    found = _RANGE.fullmatch(revisions)
    if not found:
        raise click.UsageError(f"`{revisions}` is no BASE..HEAD, BASE...HEAD or BASE..")
    style = style or _style_of(out)
    faults = other_file_faults(out, _STARTS[style]) if out else []
    if faults:
        fail(faults, EXIT_USAGE)
    with ExitStack() as stack:
        try:
            past = _past(stack, root, found["head"])
            sides = _open_sides(stack, root, found["base"], found["head"], parted=found["dots"] == "...")
        except FaultError as error:
            fail(error.faults, EXIT_USAGE)
        wrong = errors(fault for side in sides for fault in side.database.faults)
        if wrong:
            fail(wrong, EXIT_USAGE)
        result = build_review(*sides, root.resolve().name, today.date() if today else date.today(), past)
    _write(_RENDERERS[style](result), out, result)
    failing = (*errors(result.faults), *(f for f in result.new_findings if f.severity is Severity.ERROR))
    sys.exit(EXIT_FINDINGS if failing else 0)


def _style_of(out: Path | None) -> str:
    """The form that the name of the file asks for; md without a name, or where that has no ending."""
    ending = out.suffix[1:] if out else ""
    if ending and ending not in _RENDERERS:
        forms = ", ".join(sorted(_RENDERERS))
        raise click.UsageError(f"no form is called `{ending}`; name {out} otherwise, or say with --format: {forms}")
    return ending or "md"


def _open_sides(stack: ExitStack, root: Path, base: str, head: str, parted: bool) -> tuple[Side, Side]:
    folder, inside = _in_repository(root)
    base_name = base
    if parted:
        parting = run_git(folder, "merge-base", base, head or "HEAD", fault=base).decode().strip()
        base = run_git(folder, "rev-parse", "--short", parting).decode().strip()
    old = stack.enter_context(open_side(f"{base}:{inside}", folder))
    if not head:
        new = stack.enter_context(open_side(root.as_posix(), Path()))
        return replace(old, name=_named(folder, base_name, base)), replace(new, name="work tree")
    new = stack.enter_context(open_side(f"{head}:{inside}", folder))
    return replace(old, name=_named(folder, base_name, base)), replace(new, name=_named(folder, head, head))


def _past(stack: ExitStack, root: Path, head: str) -> Past:
    """Earlier states of a table: those of the commits that led to the new side. None of a root that is not there."""
    if not root.is_dir():
        return no_past
    return partial(past_databases, stack.enter_context(open_history(root)), tip=head or "HEAD")


def _in_repository(root: Path) -> tuple[Path, str]:
    """A folder in the repository, and the root's path from there; the root itself need not be in the work tree."""
    absolute = root.absolute()
    return (absolute, ".") if (absolute / ".git").exists() else (absolute.parent, absolute.name)


def _named(folder: Path, name: str, revision: str) -> str:
    """A revision with its commit, which the name may not mean tomorrow."""
    commit = run_git(folder, "rev-parse", "--short", revision).decode().strip()
    return name if commit == name else f"{name} ({commit})"


def _write(text: str, out: Path | None, result: Review) -> None:
    if out is None:
        click.echo(text)
        return
    try:
        write_output(out, f"{text}\n".encode())
    except OSError as error:
        fail([unwritable(out, error)], EXIT_USAGE)
    click.echo(f"{out}: {headline(result, 'the page')}", err=True)
