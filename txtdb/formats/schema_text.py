"""`Schema` → the text of its file, in the order in which people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from txtdb.model.schema import ArchSection, ConfigField, FixedKey, Key, Predicate, Schema
from txtdb.model.values import Value, print_value

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def schema_text(schema: Schema, comments: Sequence[str] = ()) -> str:
    """The TOML text of a schema; reading it gives the schema back. `comments` are lines for its top."""
    lines = [f"# {comment}" for comment in comments]
    lines.append(f"iface = {_value(schema.iface)}")
    if schema.kind != "kernel":
        lines.append(f"kind = {_value(schema.kind)}")
    if schema.fixed_config is not None:
        config = ", ".join(f"{_name(n)} = {_value(v)}" for n, v in schema.config_dict(schema.fixed_config).items())
        lines.append(f"fixed_config = {{ {config} }}")
    for head, items in _entries(schema):
        lines += ["", f"[[{head}]]", *(f"{name} = {text}" for name, text in items)]
    for arch, section in _sections(schema.sections).items():
        lines += ["", f"[arch.{_name(arch)}]", *section]
    return "\n".join(lines) + "\n"


_Items = list[tuple[str, str]]


def _entries(schema: Schema) -> Iterator[tuple[str, _Items]]:
    """The arrays of tables, in order: (name, items)."""
    yield from (("key", _key(key)) for key in schema.keys)
    yield from (("key", _fixed_key(key)) for key in schema.fixed_keys)
    yield from (("axis", [("name", _value(axis.name)), ("bins", _list(axis.bins))]) for axis in schema.axes)
    if schema.kind == "operator":
        yield from (
            ("backend", [("name", _value(item.name)), ("launches", _list(item.launches))]) for item in schema.backends
        )
    else:
        yield from (("config", _config_field(item)) for item in schema.config)
    for item in schema.derived:
        mapping = ", ".join(f"{_name(print_value(given))} = {_value(result)}" for given, result in item.mapping)
        start = [("name", _value(item.name)), ("type", _value(item.type))]
        yield "derived", [*start, ("key", _value(item.key)), ("map", f"{{ {mapping} }}")]
    yield from (("absent", list(_terms(predicate))) for predicate in schema.absent)
    yield from (("illegal", list(_terms(predicate))) for predicate in schema.illegal)


def _key(key: Key) -> _Items:
    items = [("name", _value(key.name)), ("type", _value(key.type))]
    if key.type != "bool" or key.values != (False, True):
        items.append(("values", _list(key.values)))
    return items if key.fallback is None else [*items, ("fallback", _value(key.fallback))]


def _fixed_key(key: FixedKey) -> _Items:
    return [("name", _value(key.name)), ("type", _value(key.type)), ("fixed", _value(key.value))]


def _config_field(item: ConfigField) -> _Items:
    items = [("name", _value(item.name)), ("type", _value(item.type))]
    if item.values:
        items.append(("values", _list(item.values)))
    options = {"min": item.minimum, "max": item.maximum, "default": item.default}
    items += [(name, _value(value)) for name, value in options.items() if value is not None]
    return items if item.binary else [*items, ("binary", "false")]


def _terms(predicate: Predicate) -> Iterator[tuple[str, str]]:
    for name, values in predicate.terms:
        yield _name(name), _value(values[0]) if len(values) == 1 else _list(values)


def _sections(sections: Sequence[ArchSection]) -> Mapping[str, list[str]]:
    """Lines of each arch. An arch that says the same as an earlier one is `like` it, one that says nothing is bare."""
    models: dict[ArchSection, str] = {}
    lines: dict[str, list[str]] = {}
    for section in sections:
        own = list(_section(section))
        model = models.setdefault(replace(section, arch=""), section.arch)
        lines[section.arch] = own if model == section.arch or not own else [f"like = {_value(model)}"]
    return lines


def _section(section: ArchSection) -> Iterator[str]:
    yield from (f"domain.{_name(name)} = {_list(values)}" for name, values in section.domains)
    yield from (f"bins.{_name(name)} = {_list(bins)}" for name, bins in section.bins)
    for head, predicates in (("unsupported", section.unsupported), ("illegal", section.illegal)):
        if predicates:
            tables = (", ".join(f"{name} = {text}" for name, text in _terms(item)) for item in predicates)
            yield f"{head} = [{', '.join(f'{{ {table} }}' for table in tables)}]"


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: Value) -> str:
    return json.dumps(value) if isinstance(value, str) else print_value(value)


def _list(values: Iterable[Value]) -> str:
    return f"[{', '.join(map(_value, values))}]"
