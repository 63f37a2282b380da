"""`txtdb patch`: create, apply, squash, rebase, revert."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    choose_archs,
    fail,
    fault_json,
    format_option,
    open_root,
    print_faults,
    print_json,
    root_argument,
    why_option,
)
from txtdb.cli.tables import choose_schema
from txtdb.diff.history import open_history
from txtdb.diff.repository import path_in_repository
from txtdb.diff.sides import open_side
from txtdb.faults import Fault, FaultError, Span
from txtdb.layers.database import Database, open_database
from txtdb.layers.listing import LayerFile
from txtdb.patching.apply import apply_patches
from txtdb.patching.create import Request, create_patches
from txtdb.patching.grounds import Past, no_past
from txtdb.patching.outcome import Outcome
from txtdb.patching.past import past_databases
from txtdb.patching.rebase import rebase_patches
from txtdb.patching.report import outcome_json, outcome_lines
from txtdb.patching.revert import revert_patch
from txtdb.patching.squash import INTO_TABLE, Into, squash_patches

# Rules of the faults that say the request makes no sense; others say that the database stands in its way.
_USAGE_RULES = ("argument", "no-patch", "no-side", "no-root", "no-archs", "unreadable", "unwritable", "git", "no-git")

_INTO = re.compile(r"(?:(?P<number>[0-9]{1,9})-)?(?P<name>.+)")

_Command = TypeVar("_Command", bound=Callable[..., Any])

_patch_argument = click.argument("files", nargs=-1, required=True, metavar="PATCH...", type=click.Path(path_type=Path))


def _writing_options(command: _Command) -> _Command:
    """`--dry-run` and `--format`, of every command that writes."""
    dry_run = click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
    return dry_run(format_option("json")(command))


@click.group(short_help="Make, apply, fold and rebase patches.")
def patch() -> None:
    """Make patches of a difference, apply them, fold them together, renew their ground, take them back.

    Each command writes all of its files or none, and none when there is a fault.
    Exit code 0: done; 1: something stands in the way; 2: usage or environment.
    """


@patch.command()
@click.argument("old")
@click.argument("new")
@click.option("--name", required=True, help="The patches' own name, behind their number.")
@why_option("What they are for.  [default: what the new side's patches say]")
@click.option("--arch", "archs", multiple=True, help="These archs alone.")
@click.option("--iface", "ifaces", multiple=True, help="These interfaces alone.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The root to write to.  [default: OLD, where it is a folder]"
)
@_writing_options
def create(
    old: str,
    new: str,
    name: str,
    why: str | None,
    archs: tuple[str, ...],
    ifaces: tuple[str, ...],
    out: Path | None,
    dry_run: bool,
    style: str,
) -> None:
    """Make the patches that give OLD the answers of NEW: one for each table in which lookups differ.

    Each side is a database folder or a git revision of one (main:amd). What an heir merely inherits comes with the
    patch of its base.
    """
    target = out or (Path(old) if Path(old).is_dir() else None)
    if target is None:
        raise click.UsageError(f"{old} is no folder: say with --out where the patches go")
    with _usage_faults(), ExitStack() as stack:
        before, after = (stack.enter_context(open_side(spec, Path())) for spec in (old, new))
        if before.only or after.only:
            fail(
                [Fault("no-side", Span(before.only or after.only), "a side is a file", "name the folders")], EXIT_USAGE
            )
        _known_ifaces(before.database, ifaces)
        chosen = choose_archs(before.database, archs) if archs else ()
        outcome = create_patches(before.database, after.database, Request(name, why, chosen, ifaces))
    outcome.root = target
    _finish(outcome.fail(_occupied(outcome)), dry_run, style)


@patch.command()
@_patch_argument
@root_argument
@click.option("--force", is_flag=True, help="Also over cells that a patch was not made for.")
@_writing_options
def apply(files: tuple[Path, ...], root: Path, force: bool, dry_run: bool, style: str) -> None:
    """Put patch files into the database ROOT, under the next free number where theirs is taken.

    What lies under each must be what it was made for.
    """
    _finish(apply_patches(open_root(root), files, force), dry_run, style)


@patch.command()
@root_argument
@click.argument("arch")
@click.argument("iface")
@click.argument("numbers", nargs=-1, type=int)
@click.option("--into", default="table", show_default=True, metavar="table|[NNNN-]NAME", help="What they become.")
@why_option("What the new patch is for.  [default: what the folded ones say]")
@_writing_options
def squash(
    root: Path,
    arch: str,
    iface: str,
    numbers: tuple[int, ...],
    into: str,
    why: str | None,
    dry_run: bool,
    style: str,
) -> None:
    """Fold patches, all or those with these NUMBERS, into the table or into one patch.

    No lookup changes, and the evidence of the folded patches stays named.
    """
    if why and into == "table":
        raise click.UsageError("--why has no effect with --into table")
    database = open_root(root)
    chosen = choose_archs(database, [arch])
    if len(chosen) != 1:
        fail([Fault("argument", Span(arch), "patches of one arch are folded at a time", "name one")], EXIT_USAGE)
    choose_schema(database, iface, chosen)
    _finish(squash_patches(database, (chosen[0], iface), numbers, _into(into, why)), dry_run, style)


@patch.command()
@_patch_argument
@click.option(
    "--was", metavar="SIDE", help="What they were made over: a folder or a revision.  [default: searched in git]"
)
@click.option("--accept", is_flag=True, help="Write although there are cells to look at.")
@click.option("--on-top", is_flag=True, help="Move them over higher patches that set cells of theirs.")
@_writing_options
def rebase(files: tuple[Path, ...], was: str | None, accept: bool, on_top: bool, dry_run: bool, style: str) -> None:
    """Renew the ground of patches over a base that changed, and their numbers where others have them.

    Cells that now lie over other contents than the patch was made for are listed, and so are those that lookups answer
    otherwise: exit code 1, unless they are accepted.
    """
    database, chosen = _in_database(files)
    with _usage_faults(), _past(database.roots[0], was) as past:
        outcome = rebase_patches(database, chosen, past, accept, on_top)
    _finish(outcome, dry_run, style)


@patch.command()
@click.argument("file", metavar="PATCH", type=click.Path(path_type=Path))
@why_option("What the new patch is for, if there is one.  [default: what it reverts]")
@_writing_options
def revert(file: Path, why: str | None, dry_run: bool, style: str) -> None:
    """Take a patch back: remove it if nothing lies over it, else undo it with a patch on top."""
    database, chosen = _in_database((file,))
    _finish(revert_patch(database, chosen[0], why), dry_run, style)


def _into(text: str, why: str | None) -> Into:
    if text == "table":
        return INTO_TABLE
    found = _INTO.fullmatch(text)
    assert found is not None, "the pattern takes every text but the empty one"
    return Into(found["name"], int(found["number"]) if found["number"] else None, why)


def _known_ifaces(database: Database, ifaces: Sequence[str]) -> None:
    for iface in ifaces:
        choose_schema(database, iface, ())


def _occupied(outcome: Outcome) -> Iterator[Fault]:
    """New files that would replace others: the root to write to is not the one that they were made for."""
    for name, data in outcome.change.items():
        path = outcome.root / name
        if path.is_file() and path.read_bytes() != data:
            yield Fault("argument", Span(path.as_posix()), "there is another file of this name", "name another --out")


def _in_database(files: Sequence[Path]) -> tuple[Database, list[LayerFile]]:
    """The database that patch files lie in."""
    whole = [file if file.parent.name not in ("", "..") else Path(os.path.abspath(file)) for file in files]  # noqa: PTH100
    roots = dict.fromkeys(file.parent.parent for file in whole)
    if len(roots) != 1:
        fail(
            [Fault("argument", Span(str(file)), "patches of one database at a time", "") for file in files], EXIT_USAGE
        )
    root = next(iter(roots))
    if any(fault.rule == "no-archs" for fault in open_database(root).faults):
        message, hint = "this lies in no database", "`txtdb patch apply` puts patches into one"
        fail([Fault("no-archs", Span(file.as_posix()), message, hint) for file in files], EXIT_USAGE)
    database = open_root(root)
    there = {file.path: file for file in database.listings[0].layer_files() if file.number is not None}
    unknown = [file for file in whole if file not in there]
    if unknown:
        hint = "name files like amd/gfx942/attn_fwd.0010-name.dbpatch"
        fail([Fault("no-patch", Span(file.as_posix()), "no such patch", hint) for file in unknown], EXIT_USAGE)
    return database, [there[file] for file in whole]


@contextmanager
def _past(root: Path, was: str | None) -> Iterator[Past]:
    """Earlier states: the one that is named, else those that git knows."""
    with ExitStack() as stack:
        if was is not None:
            side = stack.enter_context(open_side(was, Path()))
            yield lambda place: (side.database,)
        elif _in_git(root):
            yield partial(past_databases, stack.enter_context(open_history(root)))
        else:
            yield no_past


def _in_git(root: Path) -> bool:
    try:
        path_in_repository(root)
    except FaultError:
        return False
    return True


@contextmanager
def _usage_faults() -> Iterator[None]:
    """Ends the program where a side, or git, cannot be read."""
    try:
        yield
    except FaultError as error:
        fail(error.faults, EXIT_USAGE)


def _finish(outcome: Outcome, dry_run: bool, style: str) -> NoReturn:
    """Write, tell, and end the program."""
    if not outcome.faults and not dry_run:
        try:
            outcome.apply()
        except OSError as error:
            span = Span(Path(error.filename or outcome.root).as_posix())
            message = f"cannot write: {error.strerror}"
            outcome.fail([Fault("unwritable", span, message, "everything is as it was")])
    if style == "json":
        print_json({**outcome_json(outcome), "dry_run": dry_run, "faults": [fault_json(f) for f in outcome.faults]})
    else:
        click.echo("\n".join(outcome_lines(outcome, dry_run)))
    print_faults(outcome.faults)
    usage = any(fault.rule in _USAGE_RULES for fault in outcome.faults)
    sys.exit(EXIT_USAGE if usage else EXIT_FINDINGS if outcome.faults else 0)
