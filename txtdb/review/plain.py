"""A review as JSON for programs. docs/review.md describes the form."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from txtdb.check.finding import Finding
from txtdb.diff.edits import Content
from txtdb.faults import Fault, Span
from txtdb.model.schema import Schema
from txtdb.review.records import Review, ReviewedCell, TableReview
from txtdb.review.words import kind_counts


def as_json(review: Review) -> str:
    """Every changed cell by itself, with what is said of it."""
    data = {
        "root": review.root,
        "old": review.old,
        "new": review.new,
        "tables": [_table(table) for table in review.tables],
        "images": [asdict(images) for images in review.images],
        "facts": [asdict(fact) for fact in review.facts],
        "findings": {
            "new": [_finding(finding) for finding in review.new_findings],
            "gone": [_finding(finding) for finding in review.gone_findings],
            "kept": review.kept_findings,
        },
        "faults": [_fault(fault) for fault in review.faults],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _table(table: TableReview) -> dict[str, Any]:
    return {
        "arch": table.arch,
        "iface": table.iface,
        "counts": {str(kind): count for kind, count in kind_counts(table.cells).items()},
        "heirs": {heir.arch: heir.moved for heir in table.heirs},
        "sources": [asdict(source) for source in table.sources],
        "cells": [_cell(table.schema, cell) for cell in table.cells],
    }


def _cell(schema: Schema, cell: ReviewedCell) -> dict[str, Any]:
    edit, gain = cell.edit, cell.gain
    return {
        "functional": schema.functional_dict(edit.functional),
        "at": list(edit.bins),
        "kind": str(edit.kind),
        "old": _content(edit.old),
        "new": _content(edit.new),
        "old_span": _span(edit.old_span),
        "new_span": _span(edit.new_span),
        "flags": [str(flag) for flag in cell.flags],
        "heirs": list(cell.heirs),
        "gain": asdict(gain) if gain else None,
        "findings": [finding.rule for finding in cell.findings],
    }


def _content(content: Content) -> dict[str, Any] | str | None:
    return dict(content) if isinstance(content, tuple) else "masked" if content else None


def _span(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {"file": span.file, "line": span.line, "column": span.column, "last_column": span.last_column}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "span": _span(finding.span),
        "message": finding.message,
        "arch": finding.arch,
        "iface": finding.iface,
        "inherited_by": list(finding.inherited_by),
        "cells": len(finding.cells),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "rule": fault.rule,
        "severity": str(fault.severity),
        "span": _span(fault.span),
        "message": fault.message,
    }
