"""manifest/<arch>.json: every kernel image that the tables of an arch can ask for, once.

The file is JSON with one line per interface, so that a line whose inputs did not change can be kept as it is:

    {"format":1,"arch":"gfx942","ifaces":{
    "attn_fwd":{"kind":"kernel","inputs":"sha256:…","keys":[…],"fixed":{…},"fields":[…],"derived":[…],
        "configs":[[value…]…],"functionals":[[[key value…],[derived value…],[config number…]]…]}
    }}

`fields` are the config fields that change the binary; configs that differ in others only are one image. `configs` holds
each such config once, and a functional lists the numbers of those that stand in its cells, its inherited ones and those
of its fallbacks included. Operators have no images and no line. Readers ignore members that they do not know, so that a
program that compiles images can add what it measured of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.dispatch import DispatchTable
from codegen.names import binary_values, joined_name, pieces
from txtdb.model.table import ConfigValues
from txtdb.model.values import Value

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Section:
    """The line of one interface, and how many images it lists."""

    line: str
    images: int


@dataclass(frozen=True, slots=True)
class Image:
    """One kernel image: what it is compiled from, and its name."""

    iface: str
    functional: dict[str, Value]
    fixed: dict[str, Value]
    derived: dict[str, Value]
    config: dict[str, Value]
    name: str


def section(table: DispatchTable) -> Section:
    """The manifest line of a table of kernels."""
    schema = table.schema
    configs, numbers = _binary_configs(table)
    used = [sorted({numbers[place] for place in set(row) if place < len(numbers)}) for row in table.grids.tolist()]
    functionals = [
        [functional, list(schema.derived_values(functional).values()), used[grid]]
        for functional, grid in zip(table.space.functionals, table.grid_of, strict=True)
    ]
    content = {
        "kind": schema.kind,
        "inputs": table.inputs,
        "keys": schema.key_names,
        "fixed": {key.name: key.value for key in schema.fixed_keys},
        "fields": [item.name for item in schema.config if item.binary],
        "derived": [item.name for item in schema.derived],
        "configs": configs,
        "functionals": functionals,
    }
    line = f"{json.dumps(schema.iface)}:{json.dumps(content, separators=(',', ':'))}"
    return Section(line, sum(len(used[grid]) for grid in table.grid_of))


def manifest_text(arch: str, lines: Mapping[str, str]) -> str:
    """The file of one arch. `lines` maps interfaces to their lines."""
    body = ",\n".join(lines[iface] for iface in sorted(lines))
    return f'{{"format":{FORMAT},"arch":{json.dumps(arch)},"ifaces":{{\n{body}\n}}}}\n'


def kept_lines(text: str) -> dict[str, str]:
    """Interface → line of a file that `manifest_text` wrote."""
    lines = (line.removesuffix(",") for line in text.splitlines()[1:-1])
    return {json.loads(line.partition(":")[0]): line for line in lines if line}


def read_images(path: Path) -> Iterator[Image]:
    """Every image that a manifest lists. Raises ValueError for a file that is no manifest of this format."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT:
        raise ValueError(f"{path}: manifest format {content.get('format')}; this program reads {FORMAT}")
    for iface, given in content["ifaces"].items():
        yield from _images(iface, given)


def _images(iface: str, given: Mapping[str, Any]) -> Iterator[Image]:
    config_names = [pieces(config) for config in given["configs"]]
    configs = [dict(zip(given["fields"], config, strict=True)) for config in given["configs"]]
    for values, derived, numbers in given["functionals"]:
        functional = dict(zip(given["keys"], values, strict=True))
        derived_fields = dict(zip(given["derived"], derived, strict=True))
        for number in numbers:
            name = joined_name(iface, pieces(values), config_names[number])
            yield Image(iface, functional, given["fixed"], derived_fields, configs[number], name)


def _binary_configs(table: DispatchTable) -> tuple[list[ConfigValues], list[int]]:
    """The table's configs by the fields that change the binary, and for each config which of them it is."""
    numbers: dict[ConfigValues, int] = {}
    which = [numbers.setdefault(binary_values(table.schema, config), len(numbers)) for config in table.configs]
    return list(numbers), which
