"""`txtdb set`: one cell, changed in the file that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    fail,
    format_option,
    open_root,
    overlay_option,
    print_json,
    root_argument,
    why_option,
)
from txtdb.cli.tables import choose_schema, named_archs
from txtdb.editing.cells import USAGE_RULES, Edit, plan_edit
from txtdb.faults import Fault, Span
from txtdb.layers.database import Database, load
from txtdb.layers.resolved import Explanation, ResolvedTable
from txtdb.model.evidence import MIXED
from txtdb.model.schema import Schema
from txtdb.model.table import MASKED, UNSET
from txtdb.model.values import Value
from txtdb.syntax.tree import MASK, TRANSPARENT
from txtdb.views.asking import field_types, lookup_types, parse_words
from txtdb.views.explained import explanation_json

_SPLIT = "--"


class _TwoParts(click.Command):
    """Keeps the words behind `--` apart: they name config fields, which may be called like keys."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index(_SPLIT) if _SPLIT in args else len(args)
        ctx.meta[_SPLIT] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])


@click.command("set", cls=_TwoParts, options_metavar="[OPTIONS]", short_help="Set one cell of a table or a patch.")
@root_argument
@click.argument("arch")
@click.argument("iface")
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE... AXIS=BIN... -- FIELD=VALUE...")
@click.option("--patch", metavar="NNNN-NAME", help="Set the cell in this patch instead of the arch's own table.")
@why_option("Start the patch if there is none, and say what it is for.")
@overlay_option
@format_option("json")
@click.pass_context
def set_(
    ctx: click.Context,
    root: Path,
    arch: str,
    iface: str,
    words: tuple[str, ...],
    patch: str | None,
    why: str | None,
    overlays: tuple[Path, ...],
    style: str,
) -> None:
    """Set one cell of the arch's own table, or of a patch.

    Fields that are left out stay as the cell has them now. `-- -` masks the cell, `-- .` lets the layers below show
    through. The rest of the file stays as it is, so that the diff shows the change alone. A table that is not there yet
    is started. With --overlay the file is one of the last overlay.
    """
    if why and not patch:
        raise click.UsageError("--why has no effect without --patch")
    database = open_root(root, overlays)
    archs = named_archs(database, arch)
    schema = choose_schema(database, iface, archs)
    if len(archs) != 1:
        fail([Fault("argument", Span(arch), "one cell belongs to one arch", "name one")], EXIT_USAGE)
    misplaced = _misplaced(words, schema)
    if misplaced:
        fail(misplaced, EXIT_USAGE)
    given, faults = parse_words(words, lookup_types(schema))
    content, more = _content(ctx.meta[_SPLIT], schema)
    if faults or more:
        fail([*faults, *more], EXIT_USAGE)
    edit = plan_edit(database, _table(database, archs[0], iface), given, content, patch, why)
    if isinstance(edit, Fault):
        fail([edit], EXIT_USAGE if edit.rule in USAGE_RULES else EXIT_FINDINGS)
    changed = _write(edit)
    table = _table(load(root, overlays), archs[0], iface)
    explanation = table.explain(**given)
    if style == "json":
        path = edit.path.as_posix()
        print_json({"file": path, "changed": changed, "explanation": explanation_json(table, explanation)})
    else:
        click.echo("\n".join(_lines(edit, changed, explanation, content == UNSET)))
    for note in _notes(edit, changed, table, content == MASKED):
        click.echo(f"{edit.path.as_posix()}: note: {note}", err=True)


def _table(database: Database, arch: str, iface: str) -> ResolvedTable:
    table = database.table_or_empty(arch, iface)
    return table if isinstance(table, ResolvedTable) else fail(dict.fromkeys(table))


def _misplaced(words: Iterable[str], schema: Schema) -> list[Fault]:
    """Words before the `--` that belong behind it."""
    fields = field_types(schema).keys() - lookup_types(schema).keys()
    return [
        Fault("argument", Span(word), f"{name} is a config field: write it behind `--`", f"like `… -- {word}`")
        for word in words
        if (name := word.partition("=")[0]) in fields
    ]


def _content(words: list[str], schema: Schema) -> tuple[Mapping[str, Value] | int, list[Fault]]:
    marks = {MASK: MASKED, TRANSPARENT: UNSET}
    if len(words) == 1 and words[0] in marks:
        return marks[words[0]], []
    if not words:
        hint = "write FIELD=VALUE behind `--`, or `-` to mask the cell, or `.` to leave it to the layers below"
        return {}, [Fault("argument", Span(schema.iface), "nothing to set", hint)]
    return parse_words(words, field_types(schema))


def _write(edit: Edit) -> bool:
    try:
        return edit.write()
    except OSError as error:
        message = f"cannot write: {error.strerror}"
        fail([Fault("unwritable", Span(edit.path.as_posix()), message, "the old file is as it was")], EXIT_USAGE)


def _notes(edit: Edit, changed: bool, table: ResolvedTable, is_masked: bool) -> Iterator[str]:
    """What the change leaves as it was, or brings with it, though nobody asked for it."""
    stays = f'the file\'s origin stays "{edit.origin}"' if edit.origin and not _is_hand(edit.origin) else ""
    unproven = "the file's evidence does not prove this cell any more" if edit.has_evidence else ""
    if changed and (stays or unproven):
        told = ", and ".join(filter(None, (unproven, stays)))
        yield f"{told}; with --patch NNNN-NAME --why … the change says that it is made by hand"
    if is_masked and edit.query.functional in table.arch_schema.declared:
        yield (
            "`txtdb check` and `txtdb codegen` report a masked cell as a hole, unless the schema declares its "
            "functional unsupported (or codegen runs with --on-hole none)"
        )


def _is_hand(origin: str) -> bool:
    """Whether a file says that all of its cells are made by hand."""
    kind, _, words = origin.partition(" ")
    return kind == "hand" and not words.startswith(MIXED)


def _lines(edit: Edit, changed: bool, explanation: Explanation, is_unset: bool) -> Iterator[str]:
    """What the cell gives from now on, read back from the files."""
    yield f"{edit.path.as_posix()}: {'written' if changed else 'unchanged, it says so already'}"
    yield f"  the cell gives  {explanation.answer}"
    winner = explanation.winner
    if winner:
        above = not is_unset and winner.layer.file != edit.path.as_posix()
        yield f"  set by          {winner.span}{', a higher layer: the change has no effect' if above else ''}"
