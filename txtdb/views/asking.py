"""Words like `head_dim=64` → typed values, and names of interfaces → their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from txtdb.faults import Fault, Span
from txtdb.layers.database import Database
from txtdb.model.schema import Schema
from txtdb.model.values import Value, ValueType, parse_value, print_values, text_type
from txtdb.wording import did_you_mean

_SPELLING = {ValueType.BOOL: "write true or false", ValueType.INT: "write digits", ValueType.ENUM: "write a name"}


def find_schema(database: Database, iface: str) -> Schema | Fault:
    """The schema of an interface; the fault of an unknown one names those that there are."""
    schema = database.schemas.get(iface)
    if schema is None:
        known = sorted(database.schemas)
        hint = f"{did_you_mean(iface, known)}known are {', '.join(known)}"
        return Fault("unknown-iface", Span(iface), f"unknown interface `{iface}`", hint)
    return schema


def find_tuned_schema(database: Database, iface: str) -> Schema | Fault:
    """The schema of an interface that has tables."""
    schema = find_schema(database, iface)
    if isinstance(schema, Schema) and schema.kind == "fixed":
        hint = "see `txtdb schema show`"
        return Fault("not-tuned", Span(schema.file), f"{iface} is not tuned: it has one config and no table", hint)
    return schema


def key_types(schema: Schema) -> dict[str, ValueType]:
    """Name → type of everything that selects a functional, fixed keys included."""
    return {**{key.name: key.type for key in schema.keys}, **{key.name: key.type for key in schema.fixed_keys}}


def lookup_types(schema: Schema) -> dict[str, ValueType]:
    """Name → type of everything that a lookup may give: keys, fixed keys and axes."""
    return {**key_types(schema), **dict.fromkeys(schema.axis_names, ValueType.INT)}


def field_types(schema: Schema) -> dict[str, ValueType]:
    """Name → type of the config fields."""
    return {item.name: item.type for item in schema.config}


def parse_words(words: Iterable[str], types: Mapping[str, ValueType]) -> tuple[dict[str, Value], list[Fault]]:
    """`NAME=VALUE` words → values of the types that the names have. Each wrong word is a fault."""
    values: dict[str, Value] = {}
    faults: list[Fault] = []
    for word in words:
        name, _, text = word.partition("=")
        value = parse_value(text, types[name]) if name in types else None
        if name in values:
            faults.append(Fault("argument", Span(word), f"`{name}` is given twice", "keep one"))
        elif value is None:
            faults.append(_word_fault(word, types))
        else:
            values[name] = value
    return values, faults


def _word_fault(word: str, types: Mapping[str, ValueType]) -> Fault:
    name, sign, text = word.partition("=")
    known = sorted(types)
    if not sign:
        return Fault("argument", Span(word), f"`{word}` is no NAME=VALUE", f"names are {', '.join(known)}")
    if name not in types:
        return Fault(
            "argument", Span(word), f"unknown name `{name}`", f"{did_you_mean(name, known)}known are {', '.join(known)}"
        )
    message = f"{name}: expected {types[name]}, found {text_type(text)} `{text}`" if text else f"{name} has no value"
    return Fault("argument", Span(word), message, _SPELLING[types[name]])


def value_faults(schema: Schema, given: Mapping[str, Value]) -> list[Fault]:
    """Key values that no functional of the schema has."""
    domains = {key.name: key.values for key in schema.keys} | {key.name: (key.value,) for key in schema.fixed_keys}
    return [
        Fault(
            "argument",
            Span(f"{name}={print_values([value])}"),
            f"{name} has no value {print_values([value])}",
            f"it has {print_values(domains[name])}",
        )
        for name, value in given.items()
        if name in domains and value not in domains[name]
    ]
