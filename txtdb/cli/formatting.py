"""`txtdb fmt`: files into canonical form."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fault_json, format_option, print_faults, print_json
from txtdb.editing.tidy import ENVIRONMENT_RULES, Tidied, find_files, rewrite, tidy, unified_diff
from txtdb.faults import Fault


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change and exit with 1.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--prune", is_flag=True, help="Leave out palette entries that no row uses, unless they have a comment.")
@format_option("json")
def fmt(paths: tuple[Path, ...], check: bool, show_diff: bool, prune: bool, style: str) -> None:
    """Rewrite tables and patches in canonical form.

    A PATH is a file, or a folder whose *.txtdb and *.dbpatch files are taken, with those of its folders. A file with
    faults is left as it is, reported, and makes the exit code 1.
    """
    files, faults = find_files(paths)
    tidied = [tidy(file, prune) for file in files]
    if not check and not show_diff:
        tidied = list(map(rewrite, tidied))
    faults += [fault for item in tidied for fault in item.faults]
    if style == "json":
        print_json({"files": [_json(item, show_diff) for item in tidied], "faults": [fault_json(f) for f in faults]})
    else:
        _report(tidied, show_diff, "to reformat" if check or show_diff else "reformatted")
    print_faults(faults)
    sys.exit(_exit_code(faults, check and any(item.changes for item in tidied)))


def _json(item: Tidied, show_diff: bool) -> dict[str, str]:
    entry = {"file": item.path.as_posix(), "state": item.state}
    return {**entry, "diff": unified_diff(item)} if show_diff else entry


def _report(tidied: Sequence[Tidied], show_diff: bool, word: str) -> None:
    """Names or diffs to stdout, the summary to stderr."""
    for item in tidied:
        if show_diff:
            click.echo("".join(map(_coloured, unified_diff(item).splitlines(keepends=True))), nl=False)
        elif item.changes:
            click.echo(item.path.as_posix())
    counts = Counter(item.state for item in tidied)
    states = (("changed", word), ("unchanged", "unchanged"), ("faulty", "with faults, left alone"))
    parts = [f"{counts[state]} {text}" for state, text in states if counts[state]]
    if parts:
        click.echo(", ".join(parts), err=True)


def _coloured(line: str) -> str:
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[0])
    return click.style(line, fg=colour) if colour else line


def _exit_code(faults: Sequence[Fault], would_change: bool) -> int:
    if any(fault.rule in ENVIRONMENT_RULES for fault in faults):
        return EXIT_USAGE
    return EXIT_FINDINGS if faults or would_change else 0
