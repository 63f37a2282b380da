"""`txtdb verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import click

from txtdb.check.finding import CellRef, Finding
from txtdb.check.report import finding_json, finding_text
from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    choose_archs,
    fail,
    format_option,
    open_root,
    overlay_option,
    print_json,
    root_argument,
)
from txtdb.evidence.policy import Policy, overridden
from txtdb.evidence.verify import Counts, Objection, verify
from txtdb.faults import Span
from txtdb.layers.database import Database
from txtdb.wording import install_hint, plural

_POLICY_HELP = "A JSON file with what differs from the default policy: evidence of a laxer one is a finding."


@click.command("verify", short_help="Prove from evidence what was measured.")
@root_argument
@overlay_option
@click.option("--arch", "archs", multiple=True, help="Only these archs.  [default: all]")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help=_POLICY_HELP)
@format_option("json")
def verify_(
    root: Path, overlays: tuple[Path, ...], archs: tuple[str, ...], policy_file: Path | None, style: str
) -> None:
    """Make every decision of the database ROOT again from the samples in its evidence files, and hold against them all
    cells of the tables and patches that name evidence.

    Needs no GPU. Exit code 0: all is proven; 1: something is not; 2: nothing could be verified.
    """
    if find_spec("scipy") is None:
        raise click.UsageError(f"verify needs scipy: {install_hint('verify')}")
    asked = _asked(policy_file)
    database = open_root(root, overlays)
    found = verify(database, choose_archs(database, archs), asked)
    findings = [_finding(database, objection) for objection in found.objections]
    if style == "json":
        print_json({"findings": [finding_json(item) for item in findings], "counts": asdict(found.counts)})
    else:
        click.echo("\n".join([*map(finding_text, findings), *_summary(len(findings), found.counts)]))
    sys.exit(EXIT_FINDINGS if findings else 0)


def _asked(policy_file: Path | None) -> Policy:
    """The least policy; ends the program where the file states none."""
    if policy_file is None:
        return Policy()
    try:
        changes = json.loads(policy_file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise click.UsageError(f"cannot read the policy {policy_file}: {error}") from error
    policy, faults = overridden(Policy(), changes, Span(policy_file.as_posix()))
    if policy is None:
        fail(faults, EXIT_USAGE)
    return policy


def _finding(database: Database, objection: Objection) -> Finding:
    fault, schema = objection.fault, database.schemas.get(objection.iface)
    names = schema.key_names if schema else ()
    cells = tuple(CellRef(tuple(zip(names, keys, strict=True)), at) for keys, at in objection.cells)
    span, arch, iface = fault.span, objection.arch, objection.iface
    return Finding(fault.rule, fault.severity, span, fault.message, fault.hint, arch, iface, (), cells)


def _summary(findings: int, counts: Counts) -> Iterator[str]:
    yield (
        f"{_counted(findings, 'finding')}; {_counted(counts.files, 'file')} with measured cells, "
        f"{_counted(counts.evidence, 'evidence file')}, {_counted(counts.decisions, 'decision')} made again, "
        f"{_counted(counts.cells, 'cell')} compared"
    )


def _counted(number: int, word: str) -> str:
    return f"{number:,} {plural(number, word)}"
