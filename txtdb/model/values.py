"""Typed values. bool, int and enum are three types: `true`, `1` and `one` never stand for each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

Value = bool | int | str
Functional = tuple[Value, ...]

# One spelling per number, of at most 18 digits, so that every number fits 64 bits.
_INT = re.compile(r"0|-?[1-9][0-9]{0,17}")
MAX_INT = 10**18 - 1
_ENUM = re.compile(r"[A-Za-z0-9_.:+-]+")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:e[-+]?[0-9]+)?")
_BOOLS = {"true": True, "false": False}


class ValueType(StrEnum):
    """The type of a key or config field."""

    BOOL = "bool"
    INT = "int"
    ENUM = "enum"


def parse_value(text: str, expected: ValueType) -> Value | None:
    """The value that a text spells in the given type, or None where it does not."""
    if expected is ValueType.BOOL:
        return _BOOLS.get(text)
    if expected is ValueType.INT:
        return int(text) if _INT.fullmatch(text) else None
    return text if text_type(text) == "name" and _ENUM.fullmatch(text) else None


def text_type(text: str) -> str:
    """What a text looks like, for messages."""
    if text in _BOOLS:
        return "bool"
    if _INT.fullmatch(text):
        return "int"
    return "float" if _FLOAT.fullmatch(text) else "name"


def print_value(value: Value) -> str:
    """The one spelling of a value in text files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def print_values(values: Iterable[Value]) -> str:
    """Values separated by blanks."""
    return " ".join(map(print_value, values))


def type_of(value: object) -> str:
    """The type name of a Python value, for messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    return "name" if isinstance(value, str) else type(value).__name__


def has_type(value: object, expected: ValueType) -> bool:
    """Whether a Python value is exactly of the type (True is no int)."""
    if expected is ValueType.BOOL:
        return isinstance(value, bool)
    if expected is ValueType.INT:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def can_be_written(value: object, expected: ValueType) -> bool:
    """Whether a Python value is exactly of the type and has a spelling in text files."""
    if not has_type(value, expected):
        return False
    if isinstance(value, str):
        return parse_value(value, expected) is not None
    return isinstance(value, int) and abs(value) <= MAX_INT


def value_rank(value: Value) -> tuple[int, int, str]:
    """Sort key inside one type: false before true, numbers by size, names by letter."""
    return (1, 0, value) if isinstance(value, str) else (0, int(value), "")


def functional_rank(values: Functional) -> list[tuple[int, int, str]]:
    """Sort key of functionals and configs."""
    return [value_rank(value) for value in values]
