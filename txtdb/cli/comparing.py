"""`txtdb diff`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import date
from pathlib import Path, PurePosixPath

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, FormChoice, fail
from txtdb.diff import render
from txtdb.diff.compare import compare
from txtdb.diff.sides import Side, open_side
from txtdb.faults import FaultError

_RENDERERS = {"text": render.as_text, "json": render.as_json, "md": render.as_markdown}


@click.command(short_help="Show what changed between two databases.")
@click.argument("old")
@click.argument("new")
@click.option("--effect", is_flag=True, help="Compare resolved tables, so that heirs show what they inherit.")
@click.option("--format", "style", type=FormChoice(sorted((*_RENDERERS, "html"))), default="text", show_default=True)
def diff(old: str, new: str, effect: bool, style: str) -> None:
    """Show what changed from OLD to NEW in cells and facts.

    Each side is a database folder, a file in one, or a git revision of either (main:amd, HEAD~3:amd).
    html is the page of `txtdb review`, which shows the effect as well.
    Exit code 0: the same; 1: different; 2: a side cannot be read.
    """
    with ExitStack() as stack:
        try:
            before, after = (stack.enter_context(open_side(spec, Path())) for spec in (old, new))
        except FaultError as error:
            fail(error.faults, EXIT_USAGE)
        found, faults = compare(before, after, effect)
        if faults:
            fail(faults, EXIT_USAGE)
        click.echo(_page(before, after) if style == "html" else _RENDERERS[style](found))
    sys.exit(EXIT_FINDINGS if found else 0)


def _page(old: Side, new: Side) -> str:
    # Pages need the checks and what they import; other forms start faster without.
    from txtdb.review.build import build_review
    from txtdb.review.page import as_html

    label = new.database.listings[0].label.rpartition(":")[2]
    return as_html(build_review(old, new, PurePosixPath(label).name, date.today()))
