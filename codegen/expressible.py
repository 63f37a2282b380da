"""What a target language cannot say is a fault, found before anything is written: names, values, paths.

Names are never changed to fit. A renamed key would be one more thing to look up in two places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from keyword import kwlist
from pathlib import Path

import numpy as np

from codegen.dispatch import DispatchTable
from txtdb.faults import Fault, Span
from txtdb.layers.resolve import cell_history
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Value, ValueType

RULE = "not-expressible"
CPP, PYTHON = "cpp", "python"
MAX_PATH = 120

_CPP_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    NULL EOF assert errno linux unix std
"""
# What the shared files of each language define; a namespace or package of that name would hide it.
_SHARED_WORDS = """
    archs support detail Arch Status Result arch_count arch_name find_arch ARCHS IFACES Absent NO_KERNEL UNSUPPORTED
    LookupFault check_type check_enum check_size image_piece image_text annotations Enum
"""
_STRUCTS = ("Params", "Config", "Derived")
# Names that Windows keeps for devices, with any ending and in any case.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)
_IMAGE_PIECE = re.compile(r"[A-Za-z0-9_.+]+")
_INT64_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class _Target:
    """A language: what its names look like (leading and double underscores are its own) and which it keeps."""

    label: str
    pattern: re.Pattern[str]
    keywords: frozenset[str]

    def reason(self, name: str) -> str | None:
        """Why a name cannot be used, or None."""
        if name in self.keywords:
            return f"is a word of {self.label}"
        return None if self.pattern.fullmatch(name) else f"is no name in {self.label}"


_TARGETS = {
    CPP: _Target("C++", re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*_?"), frozenset(_CPP_WORDS.split())),
    PYTHON: _Target("Python", re.compile(r"[A-Za-z][A-Za-z0-9_]*"), frozenset(kwlist)),
}
_HINT = "rename it; generated code carries the names of the schema unchanged"


def is_namespace(text: str) -> bool:
    """Whether a text is a C++ namespace, nested ones joined by `::`."""
    return all(_TARGETS[CPP].reason(piece) is None for piece in text.split("::"))


def schema_faults(schema: Schema, path: Path, langs: Sequence[str]) -> list[Fault]:
    """What of a schema cannot be said in the languages. `path` is its file, in which names are looked for."""
    checker = _SchemaChecker(schema, path, langs)
    checker.check()
    return checker.faults


def arch_faults(archs: Iterable[str], path: Path, shown: str, langs: Sequence[str]) -> list[Fault]:
    """Arch names that cannot be said in the languages, or not told apart as file names. `shown` is how spans name the
    file of arch facts.
    """
    names = list(archs)
    faults = [
        Fault(RULE, _text_span(path, shown, rf"^\[arch\.\"?({re.escape(name)})\"?\]"), message, _HINT)
        for name in names
        for message in _name_messages("arch", name, langs)
    ]
    return faults + _equal_names("arch", names, Span(shown))


def iface_faults(schemas: Iterable[Schema]) -> list[Fault]:
    """Interface names that cannot be told apart as file names."""
    found = list(schemas)
    return _equal_names("interface", [schema.iface for schema in found], Span(found[0].file)) if found else []


def path_faults(paths: Iterable[str]) -> list[Fault]:
    """Generated paths that are too long for a checkout on Windows."""
    return [
        Fault(
            RULE, Span(path), f"a path of {len(path)} characters; at most {MAX_PATH} work everywhere", "shorten names"
        )
        for path in sorted(paths)
        if len(path) > MAX_PATH
    ]


def value_faults(table: DispatchTable, resolved: ResolvedTable, langs: Sequence[str]) -> list[Fault]:
    """Numbers that do not fit 64 bits, with the pin that sets the first such cell: other files cannot hold one."""
    if CPP not in langs:
        return []
    wrong = [(config, value) for config in table.configs for value in config if not _fits(value)]
    return [
        Fault(RULE, _cell_span(resolved, config), f"{value} does not fit 64 bits", "correct the config")
        for config, value in wrong
    ]


def _fits(value: Value) -> bool:
    return isinstance(value, str) or -_INT64_LIMIT < value < _INT64_LIMIT


def _cell_span(resolved: ResolvedTable, config: ConfigValues) -> Span:
    """Where the first cell is set that holds a config."""
    place, *at = np.argwhere(resolved.cells == resolved.pool.intern(config))[0].tolist()
    bins = tuple(own[index] for own, index in zip(resolved.bins, at, strict=True))
    return cell_history(resolved.layers, resolved.pool, resolved.functionals[place], bins)[0].span


class _SchemaChecker:
    def __init__(self, schema: Schema, path: Path, langs: Sequence[str]) -> None:
        self.faults: list[Fault] = []
        self._schema, self._path, self._langs = schema, path, langs

    def check(self) -> None:
        schema = self._schema
        for message in _name_messages("interface", schema.iface, self._langs):
            self.fault(message, rf"^iface\s*=\s*[\"']({re.escape(schema.iface)})[\"']")
        if schema.iface in _SHARED_WORDS.split():
            self.fault(f"interface `{schema.iface}`: the shared generated files use that name")
        members = [*schema.key_names, *(key.name for key in schema.fixed_keys), *schema.axis_names]
        fields = [*schema.field_names, *(item.name for item in schema.derived)]
        for name in (*members, *fields):
            self.name(name, "name")
        for name, values in self._enums():
            self.enum_values(name, values)
        if CPP in self._langs:
            self.types(members, fields)

    def name(self, name: str, what: str) -> None:
        for lang in self._langs:
            reason = _TARGETS[lang].reason(name)
            reason = "is a type of the generated code" if reason is None and name in _STRUCTS else reason
            if reason:
                self.fault(f"{self._schema.iface}: {what} `{name}` {reason}", rf"[\"']({re.escape(name)})[\"']")
                return

    def enum_values(self, owner: str, values: tuple[Value, ...]) -> None:
        for value in map(str, values):
            if CPP in self._langs:
                self.name(value, f"value of {owner}")
            elif not _IMAGE_PIECE.fullmatch(value):
                self.fault(f"{self._schema.iface}: value `{value}` of {owner} cannot stand in an image name")

    def types(self, members: list[str], fields: list[str]) -> None:
        """Each enum becomes a type `<name>_t` of the interface's namespace."""
        owners = Counter(f"{name}_t" for name, _ in self._enums())
        for name in sorted(owners):
            if owners[name] > 1 or name in members or name in fields:
                self.fault(f"{self._schema.iface}: two names become `{name}` in C++")

    def fault(self, message: str, pattern: str | None = None) -> None:
        span = Span(self._schema.file)
        span = _text_span(self._path, self._schema.file, pattern) if pattern else span
        self.faults.append(Fault(RULE, span, message, _HINT))

    def _enums(self) -> Iterator[tuple[str, tuple[Value, ...]]]:
        return enums(self._schema)


def enums(schema: Schema) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Every enum of a schema, by the name of its key or field, with its values in declared order."""
    for key in schema.keys:
        if key.type is ValueType.ENUM:
            yield key.name, key.values
    for fixed in schema.fixed_keys:
        if fixed.type is ValueType.ENUM:
            yield fixed.name, (fixed.value,)
    for item in schema.config:
        if item.type is ValueType.ENUM:
            yield item.name, item.values
    for derived in schema.derived:
        if derived.type is ValueType.ENUM:
            yield derived.name, tuple(dict.fromkeys(result for _, result in derived.mapping))


def _name_messages(what: str, name: str, langs: Sequence[str]) -> Iterator[str]:
    """Why an arch or interface name cannot be used; it also becomes a file name."""
    reasons = [reason for lang in langs if (reason := _TARGETS[lang].reason(name))]
    if _DEVICES.fullmatch(name):
        reasons.append("is no file name on Windows")
    yield from (f"{what} `{name}` {reason}" for reason in reasons)


def _equal_names(what: str, names: Sequence[str], span: Span) -> list[Fault]:
    counts = Counter(map(str.lower, names))
    wrong = [name for name in names if counts[name.lower()] > 1]
    message = f"{what} names {', '.join(f'`{name}`' for name in wrong)} differ in case only"
    return [Fault(RULE, span, message, "rename one: they are one file name on some systems")] if wrong else []


def _text_span(path: Path, shown: str, pattern: str) -> Span:
    """Where a pattern's group stands in a file; the whole file unless it is there exactly once."""
    text = path.read_text(encoding="utf-8")
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if len(found) != 1:
        return Span(shown)
    start = found[0].start(1)
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(shown, line, column, line, column + len(found[0][1]) - 1)
