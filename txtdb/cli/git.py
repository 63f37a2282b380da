"""`txtdb git`: the drivers in a repository, and what git runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fail, format_option, print_faults, print_json
from txtdb.cli.merging import report_lines
from txtdb.faults import FaultError
from txtdb.files import atomic_write
from txtdb.merge import git_setup
from txtdb.merge.expanded import expanded
from txtdb.merge.git_driver import drive_ancestors, drive_merge
from txtdb.merge.threeway import Three

_FILE = click.Path(path_type=Path)
_T = TypeVar("_T")


@click.group()
def git() -> None:
    """Make git merge and show tables and patches by cell."""


@git.command()
def install() -> None:
    """Set the merge and the diff driver in this repository, and name their files in .gitattributes.

    The settings are local to the repository and hold in all its worktrees. Commit .gitattributes, so that others need
    this command alone.
    """
    changed = _or_fail(git_setup.install)
    click.echo("\n".join(f"set {what}" for what in changed) or "nothing to do: the drivers are installed")


@git.command()
def uninstall() -> None:
    """Take away what `txtdb git install` added, and nothing else."""
    changed = _or_fail(git_setup.uninstall)
    click.echo("\n".join(f"removed {what}" for what in changed) or "nothing to do: the drivers are not installed")


@git.command()
@format_option("json")
def status(style: str) -> None:
    """Say which drivers are set, and whether git uses them for every table and patch.

    Exit code 0: all is installed; 1: something is missing.
    """
    found = _or_fail(git_setup.status)
    if style == "json":
        settings = {item.key: {"state": item.state, "value": item.value} for item in found.settings}
        print_json({"installed": found.is_installed, "settings": settings, "files": found.files})
    else:
        for item in found.settings:
            click.echo(f"{item.state:<8} {item.key}{'' if item.value is None else f' = {item.value}'}")
        for file, used in found.files.items():
            if not used:
                click.echo(f"unused   {file}: its attributes do not name the drivers")
        click.echo(f"{sum(found.files.values())} of {len(found.files)} files or patterns have the attributes")
    sys.exit(0 if found.is_installed else EXIT_FINDINGS)


@git.command("merge-driver")
@click.option("--ancestor", is_flag=True, help="The three are common ancestors of what is merged.")
@click.argument("base", type=_FILE)
@click.argument("ours", type=_FILE)
@click.argument("theirs", type=_FILE)
@click.argument("path")
def merge_driver(ancestor: bool, base: Path, ours: Path, theirs: Path, path: str) -> None:
    """Run by git: merge three files; the result replaces OURS. PATH is where they belong in the working tree.

    Exit code 0: merged; 1: conflict. A version with faults is left to git's own merge by lines, and is a conflict.
    """
    files = Three(base, ours, theirs)
    if ancestor:
        content = drive_ancestors(files, path)
        if content is not None:
            atomic_write(ours, content)
        return
    driven = drive_merge(files, path)
    if driven.content is not None:
        atomic_write(ours, driven.content)
    print_faults(driven.faults)
    if driven.merged is None:
        click.echo(f"{path}: merged by lines, because a version has faults; look at all of it", err=True)
    elif driven.merged.has_conflict:
        click.echo("\n".join(report_lines(driven.merged, path)), err=True)
    sys.exit(0 if driven.is_clean else EXIT_FINDINGS)


@git.command()
@click.argument("file", type=_FILE)
def textconv(file: Path) -> None:
    """Run by git: print FILE with its configs written out, one line for each run of cells."""
    click.echo(expanded(file.read_bytes()), nl=False)


def _or_fail(action: Callable[[Path], _T]) -> _T:
    try:
        return action(Path())
    except FaultError as error:
        fail(error.faults, EXIT_USAGE)
