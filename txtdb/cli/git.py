"""`txtdb git`: the drivers in a repository, and what git runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import click

from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fail, format_option, print_faults, print_json
from txtdb.cli.merging import report_lines
from txtdb.faults import FaultError
from txtdb.files import atomic_write
from txtdb.merge import attributes, git_setup
from txtdb.merge.expanded import expanded
from txtdb.merge.git_driver import drive_ancestors, drive_merge
from txtdb.merge.git_setup import Setting, State
from txtdb.merge.threeway import Three

# What `txtdb git install` puts right.
_MENDED = (State.MISSING, State.BROKEN, State.OLD)

_FILE = click.Path(path_type=Path)
_T = TypeVar("_T")


@click.group()
def git() -> None:
    """Make git merge and show tables and patches by cell."""


@git.command()
def install() -> None:
    """Set the merge and the diff driver in this repository, and name their files in .gitattributes.

    The settings are local to the repository and hold in all its worktrees. Commit .gitattributes, so that others need
    this command alone. Run it again after this environment was moved or made anew.
    """
    changed = _or_fail(git_setup.install)
    click.echo("\n".join(f"set {what}" for what in changed) or "nothing to do: the drivers are installed")
    if attributes.FILE in changed:
        click.echo(f"commit {attributes.FILE}: others then need this command alone")


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
        settings = {
            item.key: {"state": item.state, "value": item.value, "program": item.program} for item in found.settings
        }
        print_json({"installed": found.is_installed, "settings": settings, "files": found.files})
    else:
        click.echo("\n".join(_status_lines(found)))
    sys.exit(0 if found.is_installed else EXIT_FINDINGS)


def _status_lines(found: git_setup.Status) -> Iterator[str]:
    if found.is_absent:
        yield "not installed in this clone: run `txtdb git install`"
        return
    for item in found.settings:
        yield f"{item.state:<8} {item.key}{_setting_text(item)}"
    unused = [file for file, used in found.files.items() if not used]
    yield from (f"unused   {file}: its attributes do not name the drivers" for file in unused)
    yield f"{len(found.files) - len(unused)} of {len(found.files)} files or patterns have the attributes"
    if any(item.state in _MENDED for item in found.settings) or len(unused) == len(found.files):
        yield "run `txtdb git install`"


def _setting_text(item: Setting) -> str:
    if item.state is State.BROKEN:
        return f": there is no program {item.program}"
    if item.state is State.OLD:
        return ": from another version of txtdb"
    if item.value is None:
        return ""
    return f": {item.program}" if item.program else f" = {item.value}"


@git.command("merge-driver")
@click.option("--ancestor", is_flag=True, help="The three are common ancestors of what is merged.")
@click.argument("base", type=_FILE)
@click.argument("ours", type=_FILE)
@click.argument("theirs", type=_FILE)
@click.argument("path")
def merge_driver(ancestor: bool, base: Path, ours: Path, theirs: Path, path: str) -> None:
    """Run by git: merge three files; the result replaces OURS. PATH is where they belong in the working tree.

    Exit code 0: merged; 100: conflict, and OURS has it. A version with faults is left to git's own merge by lines, and
    is a conflict. With any other code OURS is as it was.
    """
    files = Three(base, ours, theirs)
    if ancestor:
        atomic_write(ours, drive_ancestors(files, path))
        return
    driven = drive_merge(files, path)
    print_faults(driven.faults)
    if driven.merged is None:
        click.echo(f"{path}: merged by lines, because a version has faults; look at all of it", err=True)
    elif driven.merged.has_conflict:
        click.echo("\n".join(report_lines(driven.merged, path)), err=True)
    # The last thing, so that nothing can go wrong behind it.
    atomic_write(ours, driven.content)
    sys.exit(0 if driven.is_clean else git_setup.EXIT_CONFLICT)


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
