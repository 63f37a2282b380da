"""`txtdb codegen`: dispatch tables, generated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from codegen.expressible import is_namespace
from codegen.generate import LANGS, ON_HOLE, Generated, Options, generate
from codegen.index import INDEX_FILE, Index, Previous, read_index
from codegen.inputs import Inputs
from codegen.output import Written, depfile_text, differences, foreign_files, is_depfile, write
from codegen.removals import removal_lines
from codegen.report import print_report
from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    choose_archs,
    fail,
    format_option,
    open_root,
    overlay_option,
    root_argument,
)
from txtdb.cli.outputs import unlike_faults
from txtdb.faults import Fault, Span
from txtdb.files import write_output
from txtdb.layers.database import Database
from txtdb.model.archs import split_archs


@click.command(short_help="Generate dispatch tables and the manifest of images.")
@root_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder for the generated files.")
@overlay_option
@click.option("--arch", "archs", multiple=True, help="Only these archs (separated by commas; repeatable).")
@click.option("--iface", "ifaces", multiple=True, help="Only these interfaces (separated by commas; repeatable).")
@click.option("--lang", "langs", default=",".join(LANGS), show_default=True, help="Languages, separated by commas.")
@click.option("--namespace", default="dispatch", show_default=True, help="The C++ namespace, like `a::b`.")
@click.option("--depfile", type=click.Path(path_type=Path), help="Also write a depfile for make and ninja.")
@click.option(
    "--on-hole",
    type=click.Choice(ON_HOLE),
    default="fault",
    show_default=True,
    help="What a declared cell without a config is: a fault, or the answer `no kernel`.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when the files are not what would be written.")
@format_option("json")
def codegen(
    root: Path,
    out: Path,
    overlays: tuple[Path, ...],
    archs: tuple[str, ...],
    ifaces: tuple[str, ...],
    langs: str,
    namespace: str,
    depfile: Path | None,
    on_hole: str,
    check: bool,
    style: str,
) -> None:
    """Generate dispatch tables in C++ and Python, and the manifest of kernel images.

    Only what changed is read and written. With any fault in a file that is needed, nothing is written.
    """
    _refuse_idle_options(langs, depfile, check)
    faults = unlike_faults(depfile, is_depfile) if depfile else []
    if faults:
        fail(faults, EXIT_USAGE)
    database = open_root(root, overlays)
    _refuse_out_in_root(database, out)
    options = Options(
        archs=tuple(choose_archs(database, archs)) if archs else (),
        ifaces=_choose("interface", split_archs(ifaces), sorted(database.schemas)),
        langs=_choose("language", split_archs([langs]), LANGS) or LANGS,
        namespace=_namespace(namespace),
        on_hole=on_hole,
    )
    inputs, old = Inputs(database), read_index(out)
    previous = Previous(out, old) if old and not check else None
    generated = generate(database, options, inputs, previous)
    outcome = None if generated.faults else _finish(out, generated, old, check)
    if outcome and depfile and not check:
        _write(depfile, depfile_text(out / INDEX_FILE, inputs.watched(generated.places)))
    notes = removal_lines(old, generated, options, database) if outcome and outcome.removed and not check else ()
    print_report(generated, outcome, database.schemas, check, style, notes)
    if outcome is None or (check and (outcome.written or outcome.removed)):
        sys.exit(EXIT_FINDINGS)


def _refuse_idle_options(langs: str, depfile: Path | None, check: bool) -> None:
    """An option that another one disables is no silent no-op."""
    given = click.get_current_context().get_parameter_source("namespace") is ParameterSource.COMMANDLINE
    if check and depfile:
        raise click.UsageError("--depfile has no effect with --check, which writes nothing")
    if given and "cpp" not in (split_archs([langs]) or LANGS):
        raise click.UsageError("--namespace has no effect when --lang does not name cpp")


def _refuse_out_in_root(database: Database, out: Path) -> None:
    for root in database.roots:
        if out.resolve().is_relative_to(root.resolve()):
            message = f"the output folder lies inside the database {root.as_posix()}"
            fail([Fault("usage", Span(out.as_posix()), message, "name a folder elsewhere")], EXIT_USAGE)


def _choose(what: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The given names, each once, in the order of the known ones; ends the program when one is unknown."""
    unknown = [name for name in given if name not in known]
    if unknown:
        hint = f"known are {', '.join(known)}"
        fail([Fault("usage", Span(name), f"unknown {what} `{name}`", hint) for name in unknown], EXIT_USAGE)
    return tuple(name for name in known if name in given)


def _namespace(text: str) -> str:
    if not is_namespace(text):
        hint = "names of letters, digits and single _, joined by ::"
        fail([Fault("usage", Span("--namespace"), f"`{text}` is no C++ namespace", hint)], EXIT_USAGE)
    return text


def _finish(out: Path, generated: Generated, old: Index | None, check: bool) -> Written:
    try:
        if check:
            return differences(out, generated, old)
        foreign = foreign_files(out, differences(out, generated, old), old)
        if foreign:
            message, hint = "there is a file of this name that is no generated one", "name another folder with --out"
            fail([Fault("output", Span((out / path).as_posix()), message, hint) for path in foreign], EXIT_USAGE)
        return write(out, generated, old)
    except OSError as error:
        fail([_write_fault(out, error)], EXIT_USAGE)


def _write(path: Path, text: str) -> None:
    try:
        write_output(path, text.encode())
    except OSError as error:
        fail([_write_fault(path, error)], EXIT_USAGE)


def _write_fault(path: Path, error: OSError) -> Fault:
    return Fault("output", Span(path.as_posix()), f"cannot be written: {error.strerror or error}")
