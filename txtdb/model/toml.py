"""TOML files → dictionaries, and the small checks that schema, arch facts and pins share."""

from __future__ import annotations

import re
import reprlib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from txtdb.faults import Fault, Severity, Span
from txtdb.model.values import MAX_INT, print_value
from txtdb.wording import did_you_mean, near_names

# What the text format takes for a name.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:+-]*")
NAME_HINT = "letters, digits and _ . : + -, not starting with a digit"

_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")


def parse_toml(data: bytes, file: str) -> tuple[dict[str, Any] | None, list[Fault]]:
    """Decode a TOML file; a fault carries the position that the decoder names."""
    try:
        return tomllib.loads(data.decode("utf-8").replace("\r\n", "\n")), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, [
            Fault("not-utf8", Span(file, line, 1, line, 1), "the file is not valid UTF-8", "save it as UTF-8")
        ]
    except RecursionError:
        return None, [Fault("toml", Span(file), "no valid TOML: nested too deeply", "")]
    except ValueError as error:  # TOMLDecodeError, and what int() says of a number with thousands of digits
        found = _POSITION.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found else (0, 0)
        return None, [Fault("toml", Span(file, line, column, line, column), f"no valid TOML: {error}", "")]


def shown(value: object) -> str:
    """A decoded value for a message: short, whatever it is."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INT:
        return "a number of more than 18 digits"
    return print_value(value) if isinstance(value, bool | int) else reprlib.repr(value)


@dataclass
class TomlReader:
    """Reads typed values out of one decoded file and collects what is wrong with them.

    With `data`, the file's bytes, an unknown name is told at its place, if that is certain. `meant` holds what such
    names were perhaps meant to be, as (id of the table, name): these are not reported as missing as well.
    """

    file: str
    rule: str
    faults: list[Fault] = field(default_factory=list)
    span: Span | None = None
    data: bytes = b""
    meant: set[tuple[int, str]] = field(default_factory=set)

    def fault(self, message: str, hint: str = "", severity: Severity = Severity.ERROR) -> None:
        """Record one fault, at the current span."""
        self.faults.append(Fault(self.rule, self.span or Span(self.file), message, hint, severity))

    def known(self, table: Mapping[str, Any], names: Collection[str], where: str) -> None:
        """Complain about names that have no meaning here: a misspelt option must not be ignored."""
        for name in table:
            if name not in names:
                near = did_you_mean(name, names)
                self.meant.update((id(table), other) for other in near_names(name, names))
                hint = f"{near}known are {', '.join(sorted(names))}"
                span = self._place(name) or self.span or Span(self.file)
                self.faults.append(Fault(self.rule, span, f"{where}: unknown name `{name}`", hint))

    def _place(self, name: str) -> Span | None:
        """Where a name stands; None where that is not certain: more than one place, or a text with escapes."""
        text = self.data.decode("utf-8", "replace").replace("\r\n", "\n")
        found = list(re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))
        if len(found) != 1 or "\\" in text or not name:
            return None
        start = found[0].start()
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        return Span(self.file, line, column, line, column + len(name) - 1)

    def missing(self, table: Mapping[str, Any], name: str, where: str) -> None:
        """Complain about a missing name, unless an unknown one of the table was perhaps meant to be it."""
        if (id(table), name) not in self.meant:
            self.fault(f"{where}: `{name}` is missing")

    def text(self, table: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
        """A text value; a missing one without default is a fault."""
        value = table.get(name, default)
        if isinstance(value, str):
            return value
        if name in table:
            self.fault(f"{where}: `{name}` must be a text")
        else:
            self.missing(table, name, where)
        return default or ""

    def tables(self, table: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        """An array of tables; absent means empty."""
        value = table.get(name, [])
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return value
        self.fault(f"`{name}` must be an array of tables (`[[{name}]]`)")
        return []

    def table(self, table: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
        """A table; absent means empty."""
        value = table.get(name, {})
        if isinstance(value, dict):
            return value
        self.fault(f"{where}: `{name}` must be a table")
        return {}

    def list_of(self, value: object, kind: type, where: str) -> tuple[Any, ...]:
        """A list whose items are exactly of the given Python type."""
        if isinstance(value, list) and all(type(item) is kind for item in value):
            return tuple(value)
        self.fault(f"{where} must be a list of {kind.__name__} values")
        return ()
