"""A queue report as text or plain data, and as an ordinary report for the forms that know nothing of queues."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from txtdb.check.queue import QueueReport
from txtdb.check.report import RENDERERS, counts_json, counts_text, finding_json, finding_text
from txtdb.check.run import Report
from txtdb.diff.render import counted

MAX_DETAILS_SHOWN = 40


def queue_text(report: QueueReport, style: str) -> str:
    """The report in one of the forms of `txtdb check`."""
    if style == "text":
        return "\n".join(_lines(report))
    if style == "json":
        return _json(report)
    findings = sorted(report.findings, key=lambda finding: finding.order)
    return RENDERERS[style](Report(tuple(findings), report.combined.counts))


def _lines(report: QueueReport) -> Iterator[str]:
    for name, findings in report.alone:
        yield click.style(f"{name}: {_found(len(findings))} by itself", bold=True)
        yield from map(finding_text, findings)
    if len(report.alone) > 1:
        yield click.style(f"together, besides: {_found(len(report.together))}", bold=True)
    for item in report.together:
        yield finding_text(item.finding)
        yield f"    of {' and '.join(item.changes)}"
        yield from (f"    {line}" for line in item.details[:MAX_DETAILS_SHOWN])
        if len(item.details) > MAX_DETAILS_SHOWN:
            yield f"    … {len(item.details) - MAX_DETAILS_SHOWN} more"
    known = len(report.root.findings)
    if known:
        yield f"the database has {_found(known)} of its own, which `txtdb check` tells"
    yield from counts_text(report.combined.counts)


def _found(number: int) -> str:
    return counted(number, "finding") if number else "no finding"


def _json(report: QueueReport) -> str:
    alone = [{"change": name, "findings": list(map(finding_json, findings))} for name, findings in report.alone]
    together = [
        {**finding_json(item.finding), "changes": list(item.changes), "details": list(item.details)}
        for item in report.together
    ]
    data: dict[str, object] = {"alone": alone, "together": together, "known": len(report.root.findings)}
    data["counts"] = counts_json(report.combined.counts)
    return json.dumps(data, indent=2, ensure_ascii=False)
