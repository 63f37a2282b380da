"""One explained lookup as plain data, and the pieces of it that a text shows too."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from txtdb.faults import Span
from txtdb.layers.resolve import HistoryEntry, Layer
from txtdb.layers.resolved import Attempt, Config, Explanation, ResolvedTable
from txtdb.views.grids import base_archs, layer_json


def layer_says(layer: Layer, attempt: Attempt) -> str:
    """What one layer says of the cell that was looked up."""
    entry = next((entry for entry in attempt.history if entry.layer is layer), None)
    if entry is None:
        return "leaves the cell alone" if attempt.functional in layer.index else "has no such functional"
    if entry.config is None:
        return "masks the cell"
    return "decides" if entry is attempt.history[0] else "is overridden"


def deciding_attempt(explanation: Explanation) -> Attempt:
    """The attempt whose history is the explanation's: the one that answered, else the asked functional."""
    return explanation.attempts[-1 if explanation.answered_by else 0]


def same_name(layers: tuple[Layer, ...], layer: Layer) -> Layer | None:
    """The layer of a lower root whose file lies at the same place: both apply, and the higher root wins."""
    name = PurePath(layer.file).name
    lower = (other for other in layers if other.root < layer.root and other.arch == layer.arch)
    return next((other for other in lower if PurePath(other.file).name == name), None)


def attempt_reason(attempt: Attempt, layers: tuple[Layer, ...]) -> str:
    """Why a functional gives no config; empty where it does."""
    if attempt.has_config:
        return ""
    if attempt.history:
        return f"masked at {attempt.history[0].span}"
    has_rows = any(attempt.functional in layer.index for layer in layers)
    return "no layer sets this cell" if has_rows else "no layer has this functional"


def absent_reason(explanation: Explanation) -> str:
    """Why there is no config; empty where there is one."""
    if explanation.reason or isinstance(explanation.answer, Config):
        return explanation.reason
    return attempt_reason(explanation.attempts[0], explanation.layers)


def explanation_json(table: ResolvedTable, explanation: Explanation) -> dict[str, Any]:
    """The whole explanation. `layers` are in order, the lowest first; `history` names them by their place there."""
    schema, layers = table.schema, explanation.layers
    deciding = deciding_attempt(explanation)
    answer = explanation.answer
    return {
        "arch": explanation.arch,
        "iface": explanation.iface,
        "functional": schema.functional_dict(explanation.query.functional),
        "sizes": dict(zip(schema.axis_names, explanation.query.sizes, strict=True)),
        "answer": "config" if isinstance(answer, Config) else str(answer),
        "config": dict(answer) if isinstance(answer, Config) else None,
        "reason": absent_reason(explanation),
        "bins": dict(zip(schema.axis_names, explanation.bins, strict=False)),
        "tried": [_attempt_json(table, attempt, layers) for attempt in explanation.attempts],
        "winner": _entry_json(table, explanation.winner, layers) if explanation.winner else None,
        "bases": base_archs(layers, table.arch),
        "fallbacks": table.fallbacks,
        "layers": [_layer_json(layers, layer, deciding) for layer in layers],
    }


def _layer_json(layers: tuple[Layer, ...], layer: Layer, attempt: Attempt) -> dict[str, Any]:
    same = same_name(layers, layer)
    return {
        **layer_json(layer),
        "says": layer_says(layer, attempt),
        "same_name_as": same.file if same else None,
    }


def _attempt_json(table: ResolvedTable, attempt: Attempt, layers: tuple[Layer, ...]) -> dict[str, Any]:
    return {
        "functional": table.schema.functional_dict(attempt.functional),
        "answers": attempt.has_config,
        "reason": attempt_reason(attempt, layers),
        "history": [_entry_json(table, entry, layers) for entry in attempt.history],
    }


def _entry_json(table: ResolvedTable, entry: HistoryEntry, layers: tuple[Layer, ...]) -> dict[str, Any]:
    return {
        "layer": next(place for place, layer in enumerate(layers) if layer is entry.layer),
        "bins": dict(zip(table.schema.axis_names, entry.values, strict=True)),
        "config": None if entry.config is None else table.schema.config_dict(entry.config),
        "origin": entry.layer.origin,
        "evidence": list(entry.layer.evidence),
        **span_json(entry.span),
    }


def span_json(span: Span) -> dict[str, Any]:
    """A span as plain data."""
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "last_line": span.last_line,
        "last_column": span.last_column,
    }
