"""A resolver in plain dictionaries, written from docs/format.md and docs/layers.md and not from the package.

It reads the files itself, splits lines at blanks, lays one layer over the other cell by cell, and looks up by scanning.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

Value = bool | int | str
Functional = tuple[Value, ...]
Point = tuple[int, ...]
Answer = dict[str, Value] | str

UNSUPPORTED = "unsupported"
NO_KERNEL = "no kernel"
INVALID = "invalid"


@dataclass
class Layer:
    """Cells that one file sets: a config, or None where it masks."""

    bins: list[list[int]]
    cells: dict[tuple[Functional, Point], dict[str, Value] | None]


@dataclass
class Table:
    """The outcome of some layers: for every functional and point a config or None."""

    bins: list[list[int]]
    cells: dict[tuple[Functional, Point], dict[str, Value] | None] = field(default_factory=dict)
    functionals: set[Functional] = field(default_factory=set)


class Brute:
    """A database with its overlays."""

    def __init__(self, root: Path, overlays: Sequence[Path] = ()) -> None:
        self.roots = [root, *overlays]
        self.archs = tomllib.loads((root / "archs.toml").read_text())["arch"]
        paths = sorted((root / "schema").glob("*.toml"))
        self.schemas = {path.stem: tomllib.loads(path.read_text()) for path in paths}
        self._tables: dict[tuple[str, str], Table] = {}

    def places(self) -> list[tuple[str, str]]:
        return [(arch, iface) for iface, schema in self.schemas.items() for arch in schema.get("arch", {})]

    def section(self, arch: str, iface: str) -> dict[str, Any] | None:
        sections = self.schemas[iface].get("arch", {})
        own: dict[str, Any] | None = sections.get(arch)
        return sections[own["like"]] if own and "like" in own else own

    def keys(self, iface: str) -> list[dict[str, Any]]:
        return [key for key in self.schemas[iface]["key"] if "fixed" not in key]

    def domain(self, arch: str, iface: str) -> list[list[Value]]:
        section = self.section(arch, iface) or {}
        all_values = [key.get("values", [False, True]) for key in self.keys(iface)]
        own = section.get("domain", {})
        return [own.get(key["name"], values) for key, values in zip(self.keys(iface), all_values, strict=True)]

    def supports(self, arch: str, iface: str, functional: Functional) -> bool:
        section = self.section(arch, iface)
        if section is None:
            return False
        if any(value not in values for value, values in zip(functional, self.domain(arch, iface), strict=True)):
            return False
        given = dict(zip([key["name"] for key in self.keys(iface)], functional, strict=True))
        rules = [*self.schemas[iface].get("absent", []), *section.get("unsupported", [])]
        return not any(all(given[n] in (v if isinstance(v, list) else [v]) for n, v in rule.items()) for rule in rules)

    def functionals(self, arch: str, iface: str) -> list[Functional]:
        return [f for f in product(*self.domain(arch, iface)) if self.supports(arch, iface, f)]

    def declared_bins(self, arch: str, iface: str) -> list[list[int]]:
        own = (self.section(arch, iface) or {}).get("bins", {})
        return [own.get(axis["name"], axis["bins"]) for axis in self.schemas[iface].get("axis", [])]

    def answer(self, arch: str, iface: str, problem: Mapping[str, Value]) -> Answer:
        """What a lookup says: a config, or one of the three words."""
        schema = self.schemas[iface]
        fixed = {key["name"]: key["fixed"] for key in schema["key"] if "fixed" in key}
        axes = [axis["name"] for axis in schema.get("axis", [])] if schema.get("kind") != "fixed" else []
        if any(problem[axis] < 0 for axis in axes):  # type: ignore[operator]
            return INVALID
        functional = tuple(problem.get(key["name"], key.get("fallback")) for key in self.keys(iface))
        if not self.supports(arch, iface, functional):  # type: ignore[arg-type]
            return UNSUPPORTED
        if any(problem.get(name, value) != value for name, value in fixed.items()):
            return UNSUPPORTED
        if schema.get("kind") == "fixed":
            return dict(schema["fixed_config"])
        table = self.table(arch, iface)
        point = tuple(at_least(bins, problem[axis]) for bins, axis in zip(table.bins, axes, strict=True))  # type: ignore[arg-type]
        return self.cell(table, iface, functional, point) or NO_KERNEL  # type: ignore[arg-type]

    def cell(self, table: Table, iface: str, functional: Functional, point: Point) -> dict[str, Value] | None:
        """The cell of a functional, else of its fallbacks, one key after the other given up."""
        config = table.cells.get((functional, point))
        if config is not None:
            return config
        tried = list(functional)
        for place, key in enumerate(self.keys(iface)):
            if config is not None:
                break
            if "fallback" in key and tried[place] != key["fallback"]:
                tried[place] = key["fallback"]
                config = table.cells.get((tuple(tried), point))
        return config

    def table(self, arch: str, iface: str) -> Table:
        if (arch, iface) not in self._tables:
            result = Table([[] for _ in self.schemas[iface]["axis"]])
            for layer in self.layers(arch, iface):
                result = lay(result, layer)
            self._tables[arch, iface] = result
        return self._tables[arch, iface]

    def layers(self, arch: str, iface: str) -> list[Layer]:
        """Lowest first: per root the base's layers, the table, patches by number, pins."""
        found: list[Layer] = []
        for root in self.roots:
            path = root / arch / f"{iface}.txtdb"
            if path.exists():
                base = re.search(r"^#! base +(\S+)", path.read_text(), re.MULTILINE)
                found += self.layers(base[1], iface) if base else []
                found.append(self.read(path, iface))
            patches = (root / arch).glob(f"{iface}.*-*.dbpatch") if (root / arch).is_dir() else []
            found += [
                self.read(path, iface)
                for path in sorted(patches, key=lambda p: int(p.name.split(".")[1].split("-")[0]))
            ]
            if (root / arch / "pins.toml").exists():
                found += self.pins(root / arch / "pins.toml", arch, iface)
        return [layer for layer in found if layer.cells]

    def read(self, path: Path, iface: str) -> Layer:
        fields = self.schemas[iface].get("config", [{"name": "backend", "type": "enum"}])
        types = {item["name"]: item["type"] for item in [*self.schemas[iface]["key"], *fields]}
        names: list[str] = []
        keys: list[str] = []
        bins: list[list[int]] = []
        palette: dict[str, dict[str, Value] | None] = {"-": None}
        functional: Functional = ()
        cells: dict[tuple[Functional, Point], dict[str, Value] | None] = {}
        for line in path.read_text().splitlines():
            words = line.replace("[", " [ ").replace("]", " ] ").split()
            if not words or (words[0].startswith("#") and words[0] != "#!"):
                continue
            if words[:2] == ["#!", "key"]:
                keys = words[2:]
            elif words[:2] == ["#!", "axis"]:
                bins.append([int(word) for word in words[3:]])
            elif words[:2] == ["#!", "config"]:
                names = words[2:]
            elif words[0] == "#!":
                pass
            elif words[0] == "[":
                given = {key: typed(word, types[key]) for key, word in zip(keys, words[1:-1], strict=True)}
                functional = tuple(given[key["name"]] for key in self.keys(iface))
            elif len(words) > 1 and words[1] == "=":
                config = {item["name"]: item.get("default") for item in fields}
                palette[words[0]] = config | {
                    name: typed(word, types[name]) for name, word in zip(names, words[2:], strict=True)
                }
            else:
                row(words, bins, functional, palette, cells)
        return Layer(bins, cells)

    def pins(self, path: Path, arch: str, iface: str) -> list[Layer]:
        axes = [axis["name"] for axis in self.schemas[iface]["axis"]]
        declared = dict(zip(axes, self.declared_bins(arch, iface), strict=True))
        layers = []
        for pin in tomllib.loads(path.read_text())["pin"]:
            if pin["iface"] == iface:
                functional = tuple(pin["functional"][key["name"]] for key in self.keys(iface))
                at = [pin.get("at", {}).get(axis, declared[axis]) for axis in axes]
                values = [value if isinstance(value, list) else [value] for value in at]
                config = {item["name"]: item.get("default") for item in self.schemas[iface]["config"]} | pin["config"]
                layers.append(Layer(values, {(functional, point): config for point in product(*values)}))
        return layers


def typed(word: str, kind: str) -> Value:
    return {"bool": lambda: word == "true", "int": lambda: int(word), "enum": lambda: word}[kind]()


def row(
    words: list[str],
    bins: list[list[int]],
    functional: Functional,
    palette: dict[str, dict[str, Value] | None],
    cells: dict[tuple[Functional, Point], dict[str, Value] | None],
) -> None:
    labels: list[Point] = [()]
    if len(bins) > 1:
        head, _, last = words[0].partition("-")
        first = tuple(int(part) for part in head.split(","))
        stop = int(last) if last else first[-1]
        labels = [(*first[:-1], value) for value in bins[len(first) - 1] if first[-1] <= value <= stop]
        words = words[1:]
    symbols = [part for word in words for part in [word.partition("*")[0]] * int(word.partition("*")[2] or 1)]
    for label in labels:
        for value, symbol in zip(bins[-1], symbols, strict=True):
            if symbol != ".":
                cells[functional, (*label, value)] = palette[symbol]


def at_least(bins: list[int], value: int) -> int:
    for one in bins:
        if one >= value:
            return one
    return bins[-1]


def lay(below: Table, layer: Layer) -> Table:
    """One layer over a table. Where it is silent, the table below is looked up at that point."""
    bins = [sorted({*a, *b}) for a, b in zip(below.bins, layer.bins, strict=True)]
    functionals = below.functionals | {functional for functional, _ in layer.cells}
    result = Table(bins, {}, functionals)
    for point in product(*bins):
        below_point = tuple(
            at_least(own, value) if own else value for own, value in zip(below.bins, point, strict=True)
        )
        for functional in functionals:
            if (functional, point) in layer.cells:
                result.cells[functional, point] = layer.cells[functional, point]
            elif (functional, below_point) in below.cells:
                result.cells[functional, point] = below.cells[functional, below_point]
    return result
