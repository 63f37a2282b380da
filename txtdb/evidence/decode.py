"""The content of an evidence file → records. Nothing that a file says is believed before it was looked at.

Each function takes a JSON value and its path (`cells[3].blocks[0]`), and raises `Wrong` for the first thing in it that
cannot be. `txtdb.evidence.files` gathers these as faults. Entrants, blocks and standings are nearly all of a file:
those of a cell are looked at together, column by column, and one by one only where something is wrong or unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from itertools import chain
from math import isfinite
from typing import Any, TypeVar

from txtdb.evidence.encode import NO_NUMBERS, TRIALS
from txtdb.model.evidence import (
    Block,
    CellEvidence,
    Decision,
    Entrant,
    Evidence,
    Measured,
    Outcome,
    Reading,
    Reason,
    Standing,
    Status,
    TrialEvidence,
)
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import MAX_INT, Functional, Value, ValueType, can_be_written, type_of

# How deep the objects of policy, device and the like may be nested.
MAX_DEPTH = 8

_HEAD = (
    "evidence", "iface", "arch", "name", "state", "planned", "seed", "policy", "contract", "device", "software",
    "calibration", "fields", "configs", "cells",
)  # fmt: skip
_CELL = (
    "functional", "at", "strategy", "finished", "publish", "dropped", "incumbent", "incumbent_layer", "neighbours",
    "entrants", "depth", "watts", "blocks", "decision",
)  # fmt: skip
_DECISION = (
    "outcome", "reason", "winner", "incumbent", "certified", "gain_pct", "bar_pct", "floor_pct", "margin_pct",
    "total_ns", "standings",
)  # fmt: skip
_STANDING = ("entrant", "blocks", "slower", "spread", "eliminated")
_STRATEGIES = ("race", "exhaustive")
_TRIAL = ("twin", "functional", "at", "config", "strategy", "labels", "depth", "blocks")
_READING = tuple(item.name for item in fields(Reading))
# No trial has more labels.
_MOST_LABELS = 1000
_STATUS = {str(status): status for status in Status}

_Item = TypeVar("_Item")
_Name = TypeVar("_Name", bound=StrEnum)


class Wrong(Exception):
    """The value at a path cannot be. `unlike`: it is sound, but of something else than was asked for."""

    def __init__(self, path: str, message: str, unlike: bool = False) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.unlike = unlike


def members(value: object, path: str, names: Collection[str]) -> dict[str, Any]:
    """An object that has exactly these members."""
    if not isinstance(value, dict):
        raise Wrong(path, "an object is expected")
    for name in names:
        if name not in value:
            raise Wrong(path, f"`{name}` is missing")
    if len(value) > len(names):
        raise Wrong(path, f"`{min(value.keys() - set(names))}` is nothing that it may have")
    return value


def head(content: object) -> dict[str, Any]:
    """The members of the whole file."""
    return members(content, "", _HEAD)


def palette(given: Mapping[str, Any], schema: Schema) -> list[ConfigValues]:
    """The configs in the schema's field order. A field with a default may be missing, as in tables."""
    names = [text(name, f"fields[{number}]") for number, name in enumerate(items(given["fields"], "fields"))]
    unknown = sorted(set(names) - set(schema.field_names))
    needed = [item.name for item in schema.config if item.default is None and item.name not in names]
    if unknown or needed:
        what = f"the schema has no field `{unknown[0]}`" if unknown else f"field `{needed[0]}` is missing"
        raise Wrong("fields", f"{what}; its fields are {' '.join(schema.field_names)}", unlike=True)
    if len(set(names)) != len(names):
        raise Wrong("fields", "a name stands twice")
    rows = enumerate(items(given["configs"], "configs"))
    configs = [_config(row, f"configs[{number}]", names, schema) for number, row in rows]
    if len(set(configs)) != len(configs):
        raise Wrong("configs", "a config stands twice")
    return configs


def _config(value: object, path: str, names: list[str], schema: Schema) -> ConfigValues:
    row = items(value, path)
    if len(row) != len(names):
        raise Wrong(path, f"{len(row)} values for {len(names)} fields")
    have = dict(zip(names, row, strict=True))
    values: list[Value] = []
    for item in schema.config:
        default = item.default
        values.append(_typed(have[item.name], f"{path} {item.name}", item.type) if item.name in have else _is(default))
    return tuple(values)


def _is(default: Value | None) -> Value:
    assert default is not None, "palette() has seen to fields without default"
    return default


def _typed(value: object, path: str, expected: ValueType) -> Value:
    if not can_be_written(value, expected):
        raise Wrong(path, f"expected {expected}, found {type_of(value)}")
    assert isinstance(value, bool | int | str)
    return value


def trials(given: Mapping[str, Any], schema: Schema, configs: list[ConfigValues]) -> list[TrialEvidence]:
    """The trials of the calibration; none where it states none."""
    calibration = given["calibration"]
    rows = calibration.get(TRIALS, []) if isinstance(calibration, dict) else []
    return _each(rows, f"calibration.{TRIALS}", lambda item, path: _trial(item, path, schema, configs))


def _strategy(value: object, path: str) -> str:
    found = text(value, path)
    if found not in _STRATEGIES:
        raise Wrong(path, f"one of {', '.join(_STRATEGIES)} is expected")
    return found


def _trial(value: object, path: str, schema: Schema, configs: list[ConfigValues]) -> TrialEvidence:
    given = members(value, path, _TRIAL)
    labels = count(given["labels"], f"{path}.labels")
    if labels > _MOST_LABELS:
        raise Wrong(f"{path}.labels", f"more than {_MOST_LABELS} labels")
    place = _Place(labels, "label")
    return TrialEvidence(
        twin=flag(given["twin"], f"{path}.twin"),
        functional=_functional(given["functional"], f"{path}.functional", schema),
        at=_bins(given["at"], f"{path}.at", schema),
        config=configs[_Place(len(configs), "config").one(given["config"], f"{path}.config")],
        strategy=_strategy(given["strategy"], f"{path}.strategy"),
        labels=labels,
        depth=_depth(given["depth"], f"{path}.depth", labels),
        blocks=tuple(_each(given["blocks"], f"{path}.blocks", place.block)),
    )


def _calibration(value: object) -> dict[str, Any] | None:
    """What the trials are said to come to, without them."""
    if isinstance(value, dict):
        value = {name: item for name, item in value.items() if name != TRIALS}
    return None if value is None else plain_object(value, "calibration")


def evidence(
    given: Mapping[str, Any], cells: Iterable[CellEvidence], measured_trials: Iterable[TrialEvidence]
) -> Evidence:
    """The run, with its cells and trials. The state that it claims must be the one that they give."""
    made = Evidence(
        iface=text(given["iface"], "iface"),
        arch=text(given["arch"], "arch"),
        name=text(given["name"], "name"),
        seed=count(given["seed"], "seed"),
        planned=count(given["planned"], "planned"),
        policy=plain_object(given["policy"], "policy"),
        contract=plain_object(given["contract"], "contract"),
        device=plain_object(given["device"], "device"),
        software=plain_object(given["software"], "software"),
        calibration=_calibration(given["calibration"]),
        cells=tuple(cells),
        trials=tuple(measured_trials),
    )
    if len(made.cells) > made.planned:
        raise Wrong("planned", f"{made.planned} cells were planned, and {len(made.cells)} are there")
    if given["state"] != made.state:
        raise Wrong("state", f"the cells give `{made.state}`")
    return made


def cell(value: object, path: str, schema: Schema, configs: list[ConfigValues]) -> CellEvidence:
    """One cell with its decision."""
    given = members(value, path, _CELL)
    entrants = _entrants(given["entrants"], f"{path}.entrants", configs)
    place = _Place(len(entrants))
    measured = Measured(
        functional=_functional(given["functional"], f"{path}.functional", schema),
        at=_bins(given["at"], f"{path}.at", schema),
        strategy=_strategy(given["strategy"], f"{path}.strategy"),
        entrants=entrants,
        incumbent=place.maybe(given["incumbent"], f"{path}.incumbent"),
        incumbent_layer=text(given["incumbent_layer"], f"{path}.incumbent_layer"),
        neighbours=place.distinct(given["neighbours"], f"{path}.neighbours"),
        depth=_depth(given["depth"], f"{path}.depth", len(entrants)),
        blocks=tuple(_each(given["blocks"], f"{path}.blocks", place.block)),
        finished=flag(given["finished"], f"{path}.finished"),
        publish=flag(given["publish"], f"{path}.publish"),
        dropped=count(given["dropped"], f"{path}.dropped"),
        watts=_watts(given["watts"], f"{path}.watts", len(entrants)),
    )
    return CellEvidence(measured, _decision(given["decision"], f"{path}.decision", place))


def _functional(value: object, path: str, schema: Schema) -> Functional:
    if isinstance(value, dict) and value.keys() != set(schema.key_names):
        raise Wrong(path, f"the keys of the schema are {' '.join(schema.key_names)}", unlike=True)
    given = members(value, path, schema.key_names)
    return tuple(_typed(given[key.name], f"{path}.{key.name}", key.type) for key in schema.keys)


def _bins(value: object, path: str, schema: Schema) -> tuple[int, ...]:
    if isinstance(value, dict) and value.keys() != set(schema.axis_names):
        raise Wrong(path, f"the axes of the schema are {' '.join(schema.axis_names)}", unlike=True)
    given = members(value, path, schema.axis_names)
    return tuple(count(given[name], f"{path}.{name}") for name in schema.axis_names)


def _entrants(value: object, path: str, configs: list[ConfigValues]) -> tuple[Entrant, ...]:
    rows = items(value, path)
    if set(map(type, rows)) == {list} and set(map(len, rows)) == {4}:
        numbers, states, errors, details = zip(*rows, strict=True)
        if (
            _are_places(numbers, len(configs))
            and set(map(type, states)) == set(map(type, details)) == {str}
            and set(states) <= _STATUS.keys()
            and _are_floats([error for error in errors if error is not None])
            and "".join(details).isascii()
        ):
            found = map(configs.__getitem__, numbers), map(_STATUS.__getitem__, states)
            return tuple(map(Entrant, *found, details, errors))
    known = _Place(len(configs), "config")
    return tuple(_each(value, path, lambda item, at: _entrant(item, at, configs, known)))


def _entrant(value: object, path: str, configs: list[ConfigValues], place: _Place) -> Entrant:
    row = items(value, path)
    if len(row) != 4:
        raise Wrong(path, "[config, status, error, detail] is expected")
    number, status, error, detail = row
    return Entrant(
        configs[place.one(number, path)], member(status, path, Status), text(detail, path), number_or_none(error, path)
    )


def _depth(value: object, path: str, entrants: int) -> tuple[tuple[float, ...], ...]:
    rows = rows_of_numbers(value, path)
    if len(rows) not in (0, entrants):
        raise Wrong(path, f"{len(rows)} lists for {entrants} entrants")
    return rows


def _watts(value: object, path: str, entrants: int) -> tuple[Reading | None, ...]:
    row = tuple(_each(value, path, _reading))
    if len(row) not in (0, entrants):
        raise Wrong(path, f"{len(row)} readings for {entrants} entrants")
    return row


def _reading(value: object, path: str) -> Reading | None:
    if value is None:
        return None
    given = members(value, path, _READING)
    return Reading(
        path=text(given["path"], f"{path}.path"),
        reason=text(given["reason"], f"{path}.reason"),
        source=text(given["source"], f"{path}.source"),
        calls=count(given["calls"], f"{path}.calls"),
        windows=numbers(given["windows"], f"{path}.windows"),
        raw_watts=number_or_none(given["raw_watts"], f"{path}.raw_watts"),
        utilization=number(given["utilization"], f"{path}.utilization"),
        idle_watts=number_or_none(given["idle_watts"], f"{path}.idle_watts"),
        updates=count(given["updates"], f"{path}.updates"),
        seconds=number(given["seconds"], f"{path}.seconds"),
        trials=count(given["trials"], f"{path}.trials"),
        dropped=count(given["dropped"], f"{path}.dropped"),
        reliable=flag(given["reliable"], f"{path}.reliable"),
    )


def _decision(value: object, path: str, place: _Place) -> Decision:
    given = members(value, path, _DECISION)
    return Decision(
        outcome=member(given["outcome"], f"{path}.outcome", Outcome),
        reason=member(given["reason"], f"{path}.reason", Reason),
        winner=place.maybe(given["winner"], f"{path}.winner"),
        incumbent=place.maybe(given["incumbent"], f"{path}.incumbent"),
        certified=flag(given["certified"], f"{path}.certified"),
        gain_pct=number_or_none(given["gain_pct"], f"{path}.gain_pct"),
        bar_pct=number_or_none(given["bar_pct"], f"{path}.bar_pct"),
        floor_pct=number_or_none(given["floor_pct"], f"{path}.floor_pct"),
        margin_pct=number_or_none(given["margin_pct"], f"{path}.margin_pct"),
        total_ns=number(given["total_ns"], f"{path}.total_ns"),
        standings=place.standings(given["standings"], f"{path}.standings"),
    )


class _Place:
    """Reads what names the entrants of one cell, or the configs of the file, by number."""

    def __init__(self, length: int, word: str = "entrant") -> None:
        self._length, self._word = length, word

    def one(self, value: object, path: str) -> int:
        number = count(value, path)
        if number >= self._length:
            raise Wrong(path, f"there is no {self._word} {number}")
        return number

    def maybe(self, value: object, path: str) -> int | None:
        return None if value is None else self.one(value, path)

    def distinct(self, value: object, path: str) -> tuple[int, ...]:
        listed = items(value, path)
        are_sound = _are_places(listed, self._length)
        found = tuple(listed) if are_sound else tuple(self.one(item, path) for item in listed)
        if len(set(found)) != len(found):
            raise Wrong(path, f"an {self._word} stands twice")
        return found

    def block(self, value: object, path: str) -> Block:
        given = members(value, path, ("order", "times"))
        order = self.distinct(given["order"], f"{path}.order")
        times = rows_of_numbers(given["times"], f"{path}.times")
        if len(times) != len(order):
            raise Wrong(f"{path}.times", f"{len(times)} lists for {len(order)} entrants")
        return Block(order, times)

    def standings(self, value: object, path: str) -> tuple[Standing, ...]:
        rows = items(value, path)
        if set(map(type, rows)) == {dict} and set(map(tuple, rows)) == {_STANDING}:
            entrants, blocks, slower, spreads, eliminated = zip(*map(dict.values, rows), strict=True)
            if (
                _are_places(entrants, self._length)
                and _are_places([*blocks, *(number for number in eliminated if number is not None)], MAX_INT + 1)
                and _are_floats(slower)
                and _are_floats(spreads)
            ):
                return tuple(map(Standing, entrants, blocks, slower, spreads, eliminated))
        return tuple(_each(value, path, self.standing))

    def standing(self, value: object, path: str) -> Standing:
        given = members(value, path, _STANDING)
        eliminated = given["eliminated"]
        return Standing(
            self.one(given["entrant"], f"{path}.entrant"),
            count(given["blocks"], f"{path}.blocks"),
            number(given["slower"], f"{path}.slower"),
            number(given["spread"], f"{path}.spread"),
            None if eliminated is None else count(eliminated, f"{path}.eliminated"),
        )


def _are_places(values: Sequence[Any], length: int) -> bool:
    """Whether all are whole numbers from 0 and less than `length`."""
    return set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) < length))


def _are_floats(values: Sequence[Any]) -> bool:
    """Whether all are floats, and finite."""
    return set(map(type, values)) <= {float} and all(map(isfinite, values))


def _each(value: object, path: str, read: Callable[[object, str], _Item]) -> list[_Item]:
    return [read(item, f"{path}[{number}]") for number, item in enumerate(items(value, path))]


def items(value: object, path: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise Wrong(path, "a list is expected")
    return value


def text(value: object, path: str) -> str:
    """A text that can be encoded: no half of a character."""
    if not isinstance(value, str):
        raise Wrong(path, "a text is expected")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Wrong(path, "a text with half a character")
    return value


def flag(value: object, path: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise Wrong(path, "true or false is expected")
    return value


def count(value: object, path: str) -> int:
    """A whole number from 0."""
    if type(value) is not int or not 0 <= value <= MAX_INT:
        raise Wrong(path, "a whole number from 0 is expected")
    return value


def member(value: object, path: str, names: type[_Name]) -> _Name:
    """One of some names."""
    try:
        if isinstance(value, str):
            return names(value)
    except ValueError:
        pass
    raise Wrong(path, f"one of {', '.join(names)} is expected")


def number(value: object, path: str) -> float:
    """A float; NaN and infinite ones are texts, and a literal too large for a float is none."""
    if type(value) is float and isfinite(value):
        return value
    if isinstance(value, str) and value in NO_NUMBERS:
        return NO_NUMBERS[value]
    if type(value) is not int or abs(value) > MAX_INT:
        raise Wrong(path, f"a number, or one of {', '.join(NO_NUMBERS)} as a text, is expected")
    return float(value)


def number_or_none(value: object, path: str) -> float | None:
    """A float or null."""
    return None if value is None else number(value, path)


def numbers(value: object, path: str) -> tuple[float, ...]:
    """Some floats."""
    return tuple(number(item, f"{path}[{place}]") for place, item in enumerate(items(value, path)))


def rows_of_numbers(value: object, path: str) -> tuple[tuple[float, ...], ...]:
    """Lists of floats."""
    rows = items(value, path)
    if set(map(type, rows)) <= {list}:
        together = list(chain.from_iterable(rows))
        if _are_floats(together):
            return tuple(map(tuple, rows))
    return tuple(numbers(row, f"{path}[{place}]") for place, row in enumerate(rows))


def plain_object(value: object, path: str) -> dict[str, Any]:
    """An object of texts, finite numbers, true, false, null, and lists and objects of these."""
    if not isinstance(value, dict):
        raise Wrong(path, "an object is expected")
    _look_at(value, path, MAX_DEPTH)
    return value


def _look_at(value: object, path: str, depth: int) -> None:
    if depth < 0:
        raise Wrong(path, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for name, item in value.items():
            _look_at(item, f"{path}.{text(name, path)}", depth - 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _look_at(item, f"{path}[{place}]", depth - 1)
    elif isinstance(value, float) and not isfinite(value):
        raise Wrong(path, "the number is too large")
    elif isinstance(value, str):
        text(value, path)
