"""What a config field that a file leaves out stands for: the defaults of the schemas around the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from txtdb.faults import Fault, errors
from txtdb.layers.listing import SCHEMA_FOLDER
from txtdb.model.schema_file import read_schema
from txtdb.model.values import print_value

# Interface → field → the text of its default. Asked only where versions write out different fields.
Defaults = Callable[[str], Mapping[str, str]]


def defaults_near(files: Iterable[Path]) -> Defaults:
    """Those that the schemas of the databases around some files agree on."""
    roots = sorted({file.absolute().parent.parent for file in files})

    def find(iface: str) -> Mapping[str, str]:
        paths = [root / SCHEMA_FOLDER / f"{iface}.toml" for root in roots]
        return agreed_defaults([path.read_bytes() for path in paths if path.is_file()], iface)

    return find


def agreed_defaults(schemas: Iterable[bytes], iface: str) -> Mapping[str, str]:
    """The defaults on which schema files agree; one that does not name a default for a field has no say in it.

    A schema with faults has no say at all.
    """
    found: dict[str, set[str]] = {}
    for data in schemas:
        defaults, faults = schema_defaults(data, f"{iface}.toml", iface)
        if not faults:
            for name, text in defaults.items():
                found.setdefault(name, set()).add(text)
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def schema_defaults(data: bytes, file: str, iface: str) -> tuple[Mapping[str, str], tuple[Fault, ...]]:
    """The defaults that one schema file states, and its errors."""
    schema, faults = read_schema(data, file, iface)
    fields = schema.config if schema else ()
    return {item.name: print_value(item.default) for item in fields if item.default is not None}, errors(faults)
