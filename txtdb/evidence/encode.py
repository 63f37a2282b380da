"""Evidence → the text of its file: one entrant, block or standing a line, so that a diff tells two runs apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

from txtdb.model.evidence import (
    Block,
    CellEvidence,
    Decision,
    Entrant,
    Evidence,
    Measured,
    Reading,
    Standing,
    TrialEvidence,
)
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues

EVIDENCE_VERSION = 1
# How every evidence file begins.
EVIDENCE_START = b'{\n"evidence": '
# The member of a calibration that holds its samples.
TRIALS = "trials"
# JSON has no such numbers; a time that is none is kept as one of these texts.
NO_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def evidence_text(evidence: Evidence, schema: Schema) -> str:
    """The text of an evidence file; equal evidence has equal text.

    Raises ValueError where `policy`, `contract`, `device`, `software` or `calibration` holds something that JSON does
    not have, infinite numbers and NaN among it.
    """
    palette: dict[ConfigValues, int] = {}
    cells = [_cell(cell, schema, palette) for cell in evidence.cells]
    head = _head(evidence, schema, palette)
    members = {**head, "configs": _lines(map(_json, map(list, palette))), "cells": _lines(cells)}
    return "{\n" + ",\n".join(f"{_json(name)}: {text}" for name, text in members.items()) + "\n}\n"


def _head(evidence: Evidence, schema: Schema, palette: dict[ConfigValues, int]) -> dict[str, str]:
    return {
        "evidence": _json(EVIDENCE_VERSION),
        "iface": _json(evidence.iface),
        "arch": _json(evidence.arch),
        "name": _json(_text(evidence.name)),
        "state": _json(evidence.state),
        "planned": _json(evidence.planned),
        "seed": _json(evidence.seed),
        "policy": _object(evidence.policy),
        "contract": _object(evidence.contract),
        "device": _object(evidence.device),
        "software": _object(evidence.software),
        "calibration": "null" if evidence.calibration is None else _calibration(evidence, schema, palette),
        "fields": _json(list(schema.field_names)),
    }


def _calibration(evidence: Evidence, schema: Schema, palette: dict[ConfigValues, int]) -> str:
    """What the trials say, and the trials."""
    trials = _lines(_trial(trial, schema, palette) for trial in evidence.trials)
    stated = _members(evidence.calibration or {})
    return "{\n" + ",\n".join([*stated, f'"{TRIALS}": {trials}']) + "\n}"


def _trial(trial: TrialEvidence, schema: Schema, palette: dict[ConfigValues, int]) -> str:
    facts = {
        "twin": trial.twin,
        "functional": schema.functional_dict(trial.functional),
        "at": dict(zip(schema.axis_names, trial.at, strict=True)),
        "config": palette.setdefault(trial.config, len(palette)),
        "strategy": trial.strategy,
        "labels": trial.labels,
    }
    depth = _lines(_json(_numbers(times)) for times in trial.depth)
    return f'{_json(facts)[:-1]},\n"depth": {depth},\n"blocks": {_lines(map(_block, trial.blocks))}}}'


def _cell(cell: CellEvidence, schema: Schema, palette: dict[ConfigValues, int]) -> str:
    """A cell's first line names it; `palette` numbers the configs in the order of their first use."""
    measured = cell.measured
    entrants = [_entrant(entrant, palette.setdefault(entrant.config, len(palette))) for entrant in measured.entrants]
    lists = {
        "entrants": _lines(entrants),
        "depth": _lines(_json(_numbers(times)) for times in measured.depth),
        "watts": _lines(map(_reading, measured.watts)),
        "blocks": _lines(map(_block, measured.blocks)),
        "decision": _decision(cell.decision),
    }
    rest = ",\n".join(f"{_json(name)}: {text}" for name, text in lists.items())
    return f"{_json(_facts(measured, schema))[:-1]},\n{rest}}}"


def _facts(measured: Measured, schema: Schema) -> dict[str, Any]:
    return {
        "functional": schema.functional_dict(measured.functional),
        "at": dict(zip(schema.axis_names, measured.at, strict=True)),
        "strategy": measured.strategy,
        "finished": measured.finished,
        "publish": measured.publish,
        "dropped": measured.dropped,
        "incumbent": measured.incumbent,
        "incumbent_layer": _text(measured.incumbent_layer),
        "neighbours": list(measured.neighbours),
    }


def _entrant(entrant: Entrant, config: int) -> str:
    return _json([config, str(entrant.status), _number(entrant.error), _text(entrant.detail)])


def _reading(reading: Reading | None) -> str:
    if reading is None:
        return "null"
    facts = {item.name: getattr(reading, item.name) for item in fields(Reading)}
    numbers = {name: _number(value) for name, value in facts.items() if isinstance(value, float)}
    texts = {name: _text(value) for name, value in facts.items() if isinstance(value, str)}
    return _json({**facts, **numbers, **texts, "windows": _numbers(reading.windows)})


def _block(block: Block) -> str:
    return _json({"order": list(block.order), "times": [_numbers(times) for times in block.times]})


def _decision(decision: Decision) -> str:
    facts = {
        "outcome": str(decision.outcome),
        "reason": str(decision.reason),
        "winner": decision.winner,
        "incumbent": decision.incumbent,
        "certified": decision.certified,
        "gain_pct": _number(decision.gain_pct),
        "bar_pct": _number(decision.bar_pct),
        "floor_pct": _number(decision.floor_pct),
        "margin_pct": _number(decision.margin_pct),
        "total_ns": _number(decision.total_ns),
    }
    return f'{_json(facts)[:-1]},\n"standings": {_lines(map(_standing, decision.standings))}}}'


def _standing(standing: Standing) -> str:
    return _json(
        {
            "entrant": standing.entrant,
            "blocks": standing.blocks,
            "slower": _number(standing.slower),
            "spread": _number(standing.spread),
            "eliminated": standing.eliminated,
        }
    )


def _numbers(values: Iterable[float | None]) -> list[float | str | None]:
    return [_number(value) for value in values]


def _number(value: float | None) -> float | str | None:
    """A number as JSON has it: the shortest text that reads as the same float."""
    if value is None:
        return None
    value = float(value)
    return value if isfinite(value) else repr(value)


def _lines(items: Iterable[str]) -> str:
    text = ",\n".join(items)
    return f"[\n{text}\n]" if text else "[]"


def _object(members: Mapping[str, Any]) -> str:
    lines = _members(members)
    return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"


def _members(members: Mapping[str, Any]) -> list[str]:
    return [f"{_json(_text(name))}: {_json(_plain(value), True)}" for name, value in sorted(members.items())]


def _plain(value: object) -> object:
    """A JSON value with sound texts."""
    if isinstance(value, Mapping):
        return {_text(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    """A text with question marks for lone surrogates, which messages in no known encoding bring."""
    return value.encode("utf-8", "replace").decode("utf-8")


def _json(value: object, sort_members: bool = False) -> str:
    """One line of ASCII: nothing in a diff can be invisible or run backwards."""
    return json.dumps(value, allow_nan=False, sort_keys=sort_members)
