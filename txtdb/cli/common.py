"""What the commands share: the root and its overlays, arch selection, and how faults and JSON reach the terminal."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from txtdb.faults import Fault, Severity, Span, errors
from txtdb.layers.database import Database, open_database
from txtdb.model.archs import find_arch, split_archs

EXIT_FINDINGS = 1
EXIT_USAGE = 2

_Command = TypeVar("_Command", bound=Callable[..., Any])

root_argument = click.argument("root", type=click.Path(path_type=Path))


def overlay_option(command: _Command) -> _Command:
    """`--overlay DIR`, repeatable: further roots, each above all before it."""
    return click.option(
        "--overlay",
        "overlays",
        type=click.Path(path_type=Path),
        multiple=True,
        help="A further root whose layers lie above ROOT's; repeat for several, the last is the highest.",
    )(command)


class FormChoice(click.Choice[str]):
    """The forms of a comparison, of which `md` may be written out as `markdown`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The form, by its one name; ends the program for another word."""
        return super().convert("md" if value == "markdown" else value, param, ctx)


def format_option(*formats: str) -> Callable[[_Command], _Command]:
    """`--format` with `text` as the default."""
    return click.option("--format", "style", type=click.Choice(["text", *formats]), default="text", show_default=True)


# Control characters, halves of characters, signs that turn the direction or are invisible.
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})
# Between two signs these part letters or join pictures into one: text is not spelled without them.
_JOINERS = "\u200c\u200d"


def why_option(text: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """`--why TEXT`, for a file's `#! why`."""
    return click.option("--why", metavar="TEXT", callback=_reason, default=default, help=text)


def _reason(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Refuses what files cannot hold, and what would show them otherwise than they are."""
    whole = text or ""
    bad = next((sign for place, sign in enumerate(whole) if _is_unseen(whole, place)), None)
    if bad:
        raise click.BadParameter(f"the text has the sign U+{ord(bad):04X}, which nobody sees: leave it out")
    return text


def _is_unseen(text: str, place: int) -> bool:
    sign = text[place]
    if sign in _JOINERS and 0 < place < len(text) - 1:
        around = text[place - 1], text[place + 1]
        return any(other.isspace() or unicodedata.category(other) in _UNSEEN for other in around)
    return sign not in "\n\t" and unicodedata.category(sign) in _UNSEEN


def open_root(root: Path, overlays: Sequence[Path] = ()) -> Database:
    """Open a database, or end with exit code 2 when it is none."""
    database = open_database(root, overlays)
    if errors(database.faults):
        fail(database.faults, EXIT_USAGE)
    return database


def choose_archs(database: Database, given: Iterable[str]) -> list[str]:
    """Arch names from options (commas, semicolons, blanks and aliases allowed); all of them when none is given."""
    words = list(given)
    names = split_archs(words)
    if words and not names:
        message, hint = "no arch is named", "leave --arch out for all of them"
        fail([Fault("argument", Span("--arch"), message, hint)], EXIT_USAGE)
    found = [find_arch(name, database.archs) for name in names]
    unknown = [item for item in found if isinstance(item, Fault)]
    if unknown:
        fail(unknown, EXIT_USAGE)
    chosen = sorted({item.name for item in found if not isinstance(item, Fault)})
    return chosen if names else sorted(database.archs)


def fail(faults: Iterable[Fault], code: int = EXIT_FINDINGS) -> NoReturn:
    """Print faults to stderr and end the program."""
    print_faults(faults)
    sys.exit(code)


def print_faults(faults: Iterable[Fault]) -> None:
    """Faults to stderr, one after the other, coloured on a terminal."""
    for fault in faults:
        click.echo(fault_text(fault), err=True)


def fault_text(fault: Fault) -> str:
    """One fault for a terminal; click drops the colours elsewhere."""
    colour = "red" if fault.severity is Severity.ERROR else "yellow"
    head = f"{click.style(str(fault.span), bold=True)}: {click.style(fault.severity, fg=colour)}: {fault.message}"
    text = f"{head} {click.style(f'[{fault.rule}]', dim=True)}"
    return f"{text}\n    {fault.hint}" if fault.hint else text


def fault_json(fault: Fault) -> dict[str, Any]:
    """One fault as plain data."""
    return {
        "rule": fault.rule,
        "severity": str(fault.severity),
        "file": fault.span.file,
        "line": fault.span.line,
        "column": fault.span.column,
        "last_line": fault.span.last_line,
        "last_column": fault.span.last_column,
        "message": fault.message,
        "hint": fault.hint,
    }


def print_json(data: object) -> None:
    """Plain data to stdout."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
