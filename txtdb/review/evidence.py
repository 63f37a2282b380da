"""Evidence files → gain and noise of cells.

Of an evidence file this reads only

    {"cells": [{"functional": {key: value, …}, "at": [bin, …], "gain_pct": number, "noise_pct": number}, …]}

where `functional` has every key of the schema and `at` a bin for each axis. Other members are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from txtdb.faults import Fault, Severity, Span
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, has_type
from txtdb.review.records import Gain

Gains = Mapping[tuple[Functional, tuple[int, ...]], Gain]


def read_gains(data: bytes, file: str, schema: Schema) -> tuple[Gains, list[Fault]]:
    """The gains that one evidence file states. Cells that it states wrongly are left out: one fault tells the first."""
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return {}, [_fault(file, f"this is no JSON: {error}")]
    cells = content.get("cells", []) if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return {}, [_fault(file, "`cells` is no list")]
    problems = [next(_problems(cell, schema), "") for cell in cells]
    sound = (cell for cell, problem in zip(cells, problems, strict=True) if not problem)
    return dict(_gain(cell, file, schema) for cell in sound), _faults(file, problems)


def _gain(cell: dict[str, Any], file: str, schema: Schema) -> tuple[tuple[Functional, tuple[int, ...]], Gain]:
    functional = tuple(cell["functional"][name] for name in schema.key_names)
    return (functional, tuple(cell["at"])), Gain(float(cell["gain_pct"]), float(cell["noise_pct"]), file)


def _faults(file: str, problems: list[str]) -> list[Fault]:
    wrong = [f"cells[{number}]: {problem}" for number, problem in enumerate(problems) if problem]
    more = f"; {len(wrong) - 1} more are wrong" if len(wrong) > 1 else ""
    return [_fault(file, f"{wrong[0]}{more}")] if wrong else []


def _problems(cell: Any, schema: Schema) -> Iterator[str]:
    """What is wrong with one cell of the list."""
    if not isinstance(cell, dict):
        yield "this is no object"
        return
    functional, at = cell.get("functional"), cell.get("at")
    if not isinstance(functional, dict) or set(functional) != set(schema.key_names):
        yield f"`functional` must have the keys {' '.join(schema.key_names)}"
    elif not all(has_type(functional[key.name], key.type) for key in schema.keys):
        yield "a key value has the wrong type"
    if not isinstance(at, list) or len(at) != len(schema.axes) or not all(type(value) is int for value in at):
        yield f"`at` must have a bin for each of {' '.join(schema.axis_names)}"
    for name in ("gain_pct", "noise_pct"):
        if not _is_number(cell.get(name)):
            yield f"`{name}` is no finite number"
    if _is_number(cell.get("noise_pct")) and cell["noise_pct"] < 0:
        yield "`noise_pct` is negative"


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(float(value))
    except OverflowError:
        return False


def _fault(file: str, message: str) -> Fault:
    return Fault("evidence", Span(file), message, "docs/review.md describes what is read", Severity.WARNING)
