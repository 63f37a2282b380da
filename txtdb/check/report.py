"""A report as text, JSON, GitHub annotations or SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import click

from txtdb.check.finding import CellRef, Finding
from txtdb.check.run import Counts, Report
from txtdb.faults import Severity
from txtdb.model.values import print_value
from txtdb.wording import plural

MAX_CELLS_SHOWN = 4

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_text(report: Report) -> str:
    """For people: one paragraph a finding, then the counts."""
    lines = [finding_text(finding) for finding in report.findings]
    return "\n".join([*lines, *_text_counts(report)])


def finding_text(finding: Finding) -> str:
    """One finding for people."""
    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    head = f"{click.style(str(finding.span), bold=True)}: {click.style(finding.severity, fg=colour)}: {finding.message}"
    lines = [f"{head} {click.style(f'[{finding.rule}]', dim=True)}"]
    if finding.inherited_by:
        lines.append(f"    inherited by {', '.join(finding.inherited_by)}")
    if finding.cells:
        lines.append(f"    {_cells_text(finding.cells)}")
    if finding.hint:
        lines.extend(f"    {line}" for line in finding.hint.split("\n"))
    return "\n".join(lines)


def _cells_text(cells: tuple[CellRef, ...]) -> str:
    shown = "; ".join(map(_cell_text, cells[:MAX_CELLS_SHOWN]))
    more = len(cells) - MAX_CELLS_SHOWN
    count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{count}: {shown}{f'; … {more} more' if more > 0 else ''}"


def _cell_text(cell: CellRef) -> str:
    return f"[{' '.join(print_value(value) for _, value in cell.functional)}] {','.join(map(str, cell.at))}"


def _text_counts(report: Report) -> Iterator[str]:
    errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
    yield f"{_counted(errors, 'error')}, {_counted(len(report.findings) - errors, 'warning')}"
    yield from counts_text(report.counts)


def counts_text(counts: Counts) -> Iterator[str]:
    """How much was looked at, for people."""
    yield (
        f"{_counted(counts.files, 'file')}, {_counted(counts.archs, 'arch')}, {_counted(counts.tables, 'table')}, "
        f"{_counted(counts.functionals, 'functional')}; cells: {counts.set} set, {counts.inherited} inherited, "
        f"{counts.shadowed} shadowed, {counts.masked} masked, {_counted(counts.holes, 'hole')}"
    )
    yield "files by arch: " + ", ".join(f"{arch} {number}" for arch, number in counts.files_by_arch)
    if counts.not_judged:
        be, whose = ("was", "its") if counts.not_judged == 1 else ("were", "their")
        yield f"{_counted(counts.not_judged, 'table')} {be} not judged, because {whose} files have faults"


def _counted(number: int, word: str) -> str:
    return f"{number} {plural(number, word)}"


def as_json(report: Report) -> str:
    """For programs; docs/checks.md describes the form. The cells can be handed to a tuner."""
    findings = [finding_json(finding) for finding in report.findings]
    return json.dumps({"findings": findings, "counts": counts_json(report.counts)}, indent=2, ensure_ascii=False)


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "file": finding.span.file,
        "line": finding.span.line,
        "column": finding.span.column,
        "last_line": finding.span.last_line,
        "last_column": finding.span.last_column,
        "message": finding.message,
        "hint": finding.hint,
        "arch": finding.arch,
        "iface": finding.iface,
        "inherited_by": list(finding.inherited_by),
        "cells": [{"functional": dict(cell.functional), "at": list(cell.at)} for cell in finding.cells],
    }


def counts_json(counts: Counts) -> dict[str, Any]:
    """How much was looked at, as plain data."""
    return {**asdict(counts), "files_by_arch": dict(counts.files_by_arch)}


def as_github(report: Report) -> str:
    """Workflow commands: GitHub shows each at its line of the change."""
    return "\n".join([*map(_github_finding, report.findings), *_text_counts(report)])


def _github_finding(finding: Finding) -> str:
    span = finding.span
    place = f"file={_github_value(span.file)}"
    if span.line:
        place += f",line={span.line},endLine={span.last_line},col={span.column},endColumn={span.last_column}"
    heirs = f" (inherited by {', '.join(finding.inherited_by)})" if finding.inherited_by else ""
    return f"::{finding.severity} {place},title={finding.rule}::{_github_text(finding.message + heirs)}"


def _github_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_value(text: str) -> str:
    return _github_text(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(report: Report) -> str:
    """SARIF 2.1.0, for code-scanning services."""
    rules = sorted({finding.rule for finding in report.findings})
    run = {
        "tool": {"driver": {"name": "txtdb", "rules": [{"id": rule} for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding) for finding in report.findings],
        "properties": {"counts": counts_json(report.counts)},
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _sarif_result(finding: Finding) -> dict[str, Any]:
    span = finding.span
    location: dict[str, Any] = {"artifactLocation": {"uri": span.file}}
    if span.line:
        # SARIF's end column is the one behind the last character.
        location["region"] = {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.last_line,
            "endColumn": span.last_column + 1,
        }
    return {
        "ruleId": finding.rule,
        "level": str(finding.severity),
        "message": {"text": f"{finding.message}\n{finding.hint}".strip()},
        "locations": [{"physicalLocation": location}],
        "properties": {"arch": finding.arch, "iface": finding.iface, "inherited_by": list(finding.inherited_by)},
    }


RENDERERS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}
