"""Names of kernel images: one rule, shared by the generated C++, the generated Python and the manifest.

A name is the interface, the values of the keys and the values of the config fields that change the binary, all in
declared order, joined by `-`: `attn_fwd-bf16-0-128-false-false-0-2-64-64-true-1-4-1`. A minus sign is written `m`. A
name longer than `MAX_NAME` keeps a prefix and ends with the FNV-1a digest of the whole text, so that it stays a legal
file name everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional, Value, print_value

MAX_NAME = 96

_DIGEST_LENGTH = 17  # a dash and 16 hexadecimal digits


def image_name(schema: Schema, functional: Functional, config: ConfigValues) -> str:
    """The name of the image of one functional and config."""
    return joined_name(schema.iface, pieces(functional), pieces(binary_values(schema, config)))


def joined_name(*parts: str) -> str:
    """The name made of parts that `pieces` gave; empty ones are left out."""
    text = "-".join(filter(None, parts))
    if len(text) <= MAX_NAME:
        return text
    return f"{text[: MAX_NAME - _DIGEST_LENGTH]}-{fnv1a(text.encode()):016x}"


def pieces(values: Iterable[Value]) -> str:
    """Values as part of a name."""
    return "-".join(print_value(value).replace("-", "m") for value in values)


def binary_values(schema: Schema, config: ConfigValues) -> ConfigValues:
    """The values of those fields that change the binary."""
    return tuple(value for item, value in zip(schema.config, config, strict=True) if item.binary)


def fnv1a(data: bytes) -> int:
    """The 64-bit FNV-1a hash (Fowler, Noll, Vo)."""
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest
