"""The console program `txtdb`. Commands are imported when they are run, so that each starts fast."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click

from txtdb.wording import did_you_mean

# name → module of this package and the command in it
_COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("checking", "check"),
    "diff": ("comparing", "diff"),
    "explain": ("explaining", "explain"),
    "export": ("exporting", "export"),
    "fmt": ("formatting", "fmt"),
    "git": ("git", "git"),
    "import": ("importing", "import_"),
    "log": ("history", "log"),
    "merge": ("merging", "merge"),
    "patch": ("patching", "patch"),
    "resolve": ("resolving", "resolve"),
    "review": ("reviewing", "review"),
    "schema": ("schemas", "schema"),
    "set": ("editing", "set_"),
    "show": ("showing", "show"),
    "tune": ("tuning", "tune"),
    "verify": ("verifying", "verify_"),
}
COMMANDS_GROUP = "txtdb.commands"


class _LazyGroup(click.Group):
    """A group whose commands are imported by name; other packages add theirs through an entry-point group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        plugins = (point.name for point in entry_points(group=COMMANDS_GROUP))
        return sorted({*_COMMANDS, *plugins})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, attribute = _COMMANDS[cmd_name]
            command = getattr(import_module(f"txtdb.cli.{module}"), attribute)
        else:
            points = entry_points(group=COMMANDS_GROUP, name=cmd_name)
            command = next((point.load() for point in points), None)
        assert command is None or isinstance(command, click.Command)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Faults of files are told where they happen. This is what standard output raises on a full disk.
            if error.errno != errno.ENOSPC or error.filename is not None:
                raise
            # What is left in its buffer would fail once more when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            click.echo("error: output: the disk is full", err=True)
            sys.exit(2)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            ctx.fail(f"no command is called `{name}`; {did_you_mean(name, known)}known are {', '.join(known)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="txtdb", prog_name="txtdb")
def main() -> None:
    """Tuning databases of GPU kernels as text.

    Exit codes: 0 clean, 1 findings or incomplete, 2 usage or environment.
    """
