"""`txtdb check`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import NoReturn

import click

from txtdb.check.baseline import BASELINE_START, baseline_text, compare
from txtdb.check.finding import Finding
from txtdb.check.report import RENDERERS
from txtdb.check.run import Report, run_checks
from txtdb.cli.common import EXIT_FINDINGS, EXIT_USAGE, fail, format_option, open_root, overlay_option, root_argument
from txtdb.cli.outputs import other_file_faults
from txtdb.faults import FaultError, Severity, errors
from txtdb.files import write_output
from txtdb.layers.database import open_database
from txtdb.wording import plural

_WITH_HELP = "An open change: a git branch, or a patch file. It is merged with the work tree as it is now; repeatable."
# Faults that mean that there is nothing to check.
_NO_DATABASE = ("no-root", "no-archs")


@click.command(short_help="Check the whole database.")
@root_argument
@overlay_option
@click.option("--strict", is_flag=True, help="Warnings fail as well.")
@format_option("json", "github", "sarif")
@click.option("--baseline", type=click.Path(path_type=Path), help="A file of known findings that do not fail.")
@click.option("--write-baseline", is_flag=True, help="Write all present findings to the --baseline file.")
@click.option("--with", "changes", multiple=True, metavar="BRANCH|PATCH", help=_WITH_HELP)
@click.option("--compiler", help="What kernel images should be made by, like 3.9: what is not is found.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="The day for end dates of pins.  [default: today]")
def check(
    root: Path,
    overlays: tuple[Path, ...],
    strict: bool,
    style: str,
    baseline: Path | None,
    write_baseline: bool,
    changes: tuple[str, ...],
    compiler: str | None,
    today: datetime | None,
) -> None:
    """Check the whole database ROOT: every arch and every layer that is there.

    With --with, repeated for each open change, check what they bring: each by itself, and all of them merged. What
    they break together is told cell by cell, before any of them is merged.

    Exit code 0: clean; 1: errors, or warnings with --strict; 2: there is nothing to check.
    """
    if write_baseline and baseline is None:
        raise click.UsageError("--write-baseline needs --baseline FILE")
    if changes and baseline:
        raise click.UsageError("--baseline has no effect with --with, which tells new findings alone")
    if changes and compiler:
        raise click.UsageError("--compiler has no effect with --with, which tells new findings alone")
    faults = other_file_faults(baseline, [BASELINE_START]) if baseline and write_baseline else []
    if faults:
        fail(faults, EXIT_USAGE)
    day = today.date() if today else date.today()
    if changes:
        _check_queue(root, overlays, changes, day, strict, style)
    database = open_database(root, overlays)
    if any(fault.rule in _NO_DATABASE for fault in errors(database.faults)):
        fail(database.faults, EXIT_USAGE)
    report = run_checks(database, day, compiler)
    if baseline and write_baseline:
        _write_baseline(report, baseline, root)
    if baseline:
        report = _without_known(report, baseline, root)
    click.echo(RENDERERS[style](report))
    _exit(report.findings, strict)


def _exit(findings: Iterable[Finding], strict: bool) -> NoReturn:
    failing = [finding for finding in findings if strict or finding.severity is Severity.ERROR]
    sys.exit(EXIT_FINDINGS if failing else 0)


def _check_queue(
    root: Path, overlays: tuple[Path, ...], changes: tuple[str, ...], today: date, strict: bool, style: str
) -> NoReturn:
    # It needs git, merging and patches, which the ordinary check starts faster without.
    from txtdb.check.queue import check_queue
    from txtdb.check.queue_report import queue_text

    open_root(root, overlays)
    try:
        report = check_queue(root, overlays, changes, today)
    except FaultError as error:
        fail(error.faults, EXIT_USAGE)
    click.echo(queue_text(report, style))
    _exit(report.findings, strict)


def _write_baseline(report: Report, baseline: Path, root: Path) -> None:
    try:
        write_output(baseline, baseline_text(report.findings, root).encode())
    except OSError as error:
        raise click.UsageError(f"cannot write the baseline: {error}") from error
    count = len(report.findings)
    click.echo(f"{count} {plural(count, 'finding')} written to {baseline}", err=True)


def _without_known(report: Report, baseline: Path, root: Path) -> Report:
    try:
        text = baseline.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read the baseline: {error}") from error
    compared = compare(report.findings, text, baseline.as_posix(), root)
    if compared.known:
        count = len(compared.known)
        be = "is" if count == 1 else "are"
        click.echo(f"{count} known {plural(count, 'finding')} {be} in {baseline}", err=True)
    return replace(report, findings=compared.new)
