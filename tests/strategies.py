"""What Hypothesis draws for the laws: tables as text, schemas, TOML values and layered databases.

Everything is written to text here by hand, without the package's printers, so that a law compares two programs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import product
from math import prod

from hypothesis import settings
from hypothesis import strategies as st

LAW = settings(max_examples=120)
SLOW_LAW = settings(max_examples=40)

Cell = str
Bins = tuple[int, ...]


# --- tables, as text --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableSpec:
    """A table in plain data: `blocks` maps key values to rows of cell texts (a symbol, `.` or `-`)."""

    keys: tuple[str, ...]
    axes: tuple[tuple[str, Bins], ...]
    fields: tuple[str, ...]
    palette: tuple[tuple[str, tuple[str, ...]], ...]
    blocks: tuple[tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]], ...]

    @property
    def labels(self) -> list[tuple[int, ...]]:
        """The bins that each row's label names."""
        return list(product(*(bins for _, bins in self.axes[:-1])))


def bins(most: int = 4) -> st.SearchStrategy[Bins]:
    """Increasing bins of one axis."""
    small = st.integers(0, 5000) | st.sampled_from([0, 1, 10**18 - 1])
    return st.lists(small, min_size=1, max_size=most, unique=True).map(lambda values: tuple(sorted(values)))


@st.composite
def table_specs(draw: st.DrawFn, axes: int | None = None) -> TableSpec:
    """Tables of one to four axes with bool, int and enum keys and fields."""
    count = axes or draw(st.integers(1, 4))
    shape = tuple((f"axis{number}", draw(bins(4 if count < 4 else 3))) for number in range(count))
    keys = tuple(f"key{number}" for number in range(draw(st.integers(1, 3))))
    fields = tuple(f"field{number}" for number in range(draw(st.integers(1, 3))))
    value = st.sampled_from(["true", "false", "0", "1", "-7", "64", "fp16", "bf16", "a.b", "x-1"])
    symbols = draw(st.lists(st.sampled_from(["a", "b", "c", "z", "A", "Z", "aa", "aZ", "ba"]), max_size=5, unique=True))
    configs = st.tuples(*[value] * len(fields))
    contents = draw(st.lists(configs, min_size=len(symbols), max_size=len(symbols), unique=True))
    cell = st.sampled_from([".", "-", *symbols])
    row = st.lists(cell, min_size=len(shape[-1][1]), max_size=len(shape[-1][1])).map(tuple)
    rows = prod(len(values) for _, values in shape[:-1])
    # Few different rows, so that neighbours are often equal.
    few = draw(st.lists(row, min_size=1, max_size=3))
    block = st.tuples(*[value] * len(keys))
    heads = draw(st.lists(block, max_size=3, unique=True))
    blocks = tuple((head, tuple(draw(st.lists(st.sampled_from(few), min_size=rows, max_size=rows)))) for head in heads)
    return TableSpec(keys, shape, fields, tuple(zip(symbols, contents, strict=True)), blocks)


def header_lines(spec: TableSpec) -> list[str]:
    """The directives of a table, in canonical order."""
    axes = [f"#! axis {name} {' '.join(map(str, values))}" for name, values in spec.axes]
    key, config = f"#! key {' '.join(spec.keys)}", f"#! config {' '.join(spec.fields)}"
    return ["#! iface f", "#! arch g", key, *axes, config]


def row_line(label: Sequence[int], cells: Sequence[Cell]) -> str:
    """One row, each cell a run of its own."""
    return " ".join([*([",".join(map(str, label))] if label else []), *cells])


def plain_text(spec: TableSpec) -> str:
    """The table with every row and every cell written out, in the order given."""
    lines = ["#! txtdb 1", *header_lines(spec)]
    lines += [f"{symbol} = {' '.join(values)}" for symbol, values in spec.palette]
    for head, rows in spec.blocks:
        lines.append(f"[{' '.join(head)}]")
        lines += [row_line(label, cells) for label, cells in zip(spec.labels, rows, strict=True)]
    return "\n".join([*lines, "#! end"]) + "\n"


def untidy(text: str, seed: int, comments: bool = True) -> str:
    """The same content in another layout: blank lines, blanks, comments, `x-` directives, runs, CRLF."""
    chance = random.Random(seed)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if number and comments and chance.random() < 0.2:
            lines.append(chance.choice([f"# note {number}", f"#! x-note {number}", f"#{number}", f"## {number} é ⟨×⟩"]))
        if number and chance.random() < 0.2:
            lines.append(chance.choice(["", "   "]))
        if number and comments and chance.random() < 0.1:
            lines.append(f"# more {number}")
        if chance.random() < 0.3 and not line.startswith("#"):
            line = _loose(line, chance)
        lines.append(line + " " * chance.choice([0, 0, 0, 2]))
    ends = chance.choice([["\n"], ["\r\n"], ["\n", "\r\n"]])
    return "".join(line + chance.choice(ends) for line in lines)


def _loose(line: str, chance: random.Random) -> str:
    if line.startswith("["):
        return line.replace("[", "[ ").replace("]", "  ]").replace(" ", "  ")
    return line.replace(" ", " " * chance.choice([1, 2, 3]))


seeds = st.integers(0, 2**32 - 1)


# --- TOML ------------------------------------------------------------------------------------------------------------


# Stands for a number of more digits than Python turns into text.
HUGE = "a huge number"


def toml_values(leaves: int = 8) -> st.SearchStrategy[object]:
    """Anything that a TOML file can hold."""
    scalar = (
        st.booleans()
        | st.integers(-(10**20), 10**20)
        | st.sampled_from([0, 1, -1, HUGE])
        | st.floats(allow_nan=True)
        | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
        | st.sampled_from(
            ["", "true", "int", "bool", "enum", "a b", "gfxB", "dtype", "1", "kernel", "operator", "fixed"]
        )
        | st.just(date(2030, 1, 2))
        | st.just(datetime(2030, 1, 2, 3, 4))
        | st.just(time(3, 4))
    )
    names = st.sampled_from(["name", "type", "values", "dtype", "causal", "like", "bins", "x y", "", "gfxB", "min"])
    return st.recursive(
        scalar,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=leaves,
    )


def toml_text(table: Mapping[str, object]) -> str:
    """A TOML file: top-level names, everything below them inline."""
    return "".join(f"{_quoted(name)} = {_inline(value)}\n" for name, value in table.items())


def _inline(value: object) -> str:
    if value == HUGE:
        return "0x" + "f" * 5000
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(name)} = {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return value.isoformat() if isinstance(value, date | time) else repr(value)


def _quoted(text: str) -> str:
    safe = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return '"' + "".join(safe) + '"'


# --- schemas ---------------------------------------------------------------------------------------------------------

Value = bool | int | str
Functional = tuple[Value, ...]
ConfigValues = tuple[Value, ...]

_TYPES = {"bool": (False, True), "int": (0, 3, 16, 64), "enum": ("bf16", "fp16", "fp32")}


@dataclass(frozen=True)
class KeySpec:
    """A key; a `fallback` makes it a fallback key."""

    name: str
    type: str
    values: tuple[Value, ...]
    fallback: Value | None = None


@dataclass(frozen=True)
class FieldSpec:
    """A config field."""

    name: str
    type: str
    values: tuple[Value, ...]
    default: Value | None = None


@dataclass(frozen=True)
class SchemaSpec:
    """A schema in plain data: `absent` holds functionals' values that exist nowhere, `unsupported` those per arch."""

    keys: tuple[KeySpec, ...]
    axes: tuple[tuple[str, Bins], ...]
    fields: tuple[FieldSpec, ...]
    absent: tuple[tuple[str, Value], ...] = ()

    def text(self, archs: Sequence[str]) -> str:
        """The schema file."""
        tables = [_table("key", name=k.name, type=k.type, values=k.values, fallback=k.fallback) for k in self.keys]
        tables += [_table("axis", name=name, bins=values) for name, values in self.axes]
        tables += [_table("config", name=f.name, type=f.type, values=f.values, default=f.default) for f in self.fields]
        tables += [_table("absent", **{name: value}) for name, value in self.absent]
        return 'iface = "f"\n' + "".join(tables) + "".join(f"[arch.{arch}]\n" for arch in archs)

    def exists(self, functional: Functional) -> bool:
        """Whether a lookup of the functional is supported."""
        given = dict(zip((key.name for key in self.keys), functional, strict=True))
        return not any(given[name] == value for name, value in self.absent)

    @property
    def functionals(self) -> list[Functional]:
        """All that exist."""
        return [f for f in product(*(key.values for key in self.keys)) if self.exists(f)]

    @property
    def configs(self) -> st.SearchStrategy[ConfigValues]:
        """Any config of the domain."""
        return st.tuples(*(st.sampled_from(field.values) for field in self.fields))


def _table(head: str, **values: object) -> str:
    lines = [f"{name} = {_inline(value)}\n" for name, value in values.items() if value is not None]
    return f"[[{head}]]\n" + "".join(lines)


@st.composite
def schema_specs(draw: st.DrawFn, most_bins: int = 4) -> SchemaSpec:
    """Schemas of one to four axes; keys of every type, one of them perhaps a fallback key."""
    count = draw(st.integers(1, 4))
    axes = tuple((f"axis{number}", draw(bins(most_bins if count < 3 else 2))) for number in range(count))
    keys = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(sorted(_TYPES)), min_size=1, max_size=3))):
        values = draw(st.lists(st.sampled_from(_TYPES[kind]), min_size=1, max_size=3, unique=True))
        fallback = draw(st.none() | st.sampled_from(values))
        keys.append(KeySpec(f"key{number}", kind, tuple(values), fallback))
    fields = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(sorted(_TYPES)), min_size=1, max_size=3))):
        domain = _TYPES[kind]
        fields.append(FieldSpec(f"field{number}", kind, domain, draw(st.none() | st.sampled_from(domain))))
    terms = [(key.name, value) for key in keys if len(key.values) > 1 for value in key.values]
    absent = draw(st.lists(st.sampled_from(terms), max_size=1)) if terms else []
    return SchemaSpec(tuple(keys), axes, tuple(fields), tuple(absent))


def spelled(value: Value) -> str:
    """A value as tables write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- layers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerSpec:
    """What one file sets, in plain data: (functional, bins of each axis) → a config, or None for a mask.

    `file` is the path below its root. `functionals` also names those that have a block and set nothing.
    """

    file: str
    axes: tuple[Bins, ...]
    functionals: tuple[Functional, ...]
    cells: Mapping[tuple[Functional, tuple[int, ...]], ConfigValues | None]
    base: str | None = None


@st.composite
def layer_specs(
    draw: st.DrawFn, schema: SchemaSpec, file: str, base: str | None = None, pins: bool = False, least: int = 0
) -> LayerSpec:
    """A layer on some of the schema's bins, with `least` blocks or more; a pin has no mask."""
    axes = tuple(
        tuple(sorted(draw(st.lists(st.sampled_from(values), min_size=1, max_size=len(values), unique=True))))
        for _, values in schema.axes
    )
    exists = schema.functionals
    functionals = draw(st.lists(st.sampled_from(exists), min_size=least, max_size=3, unique=True)) if exists else []
    places = [(functional, at) for functional in functionals for at in product(*axes)]
    chosen = draw(st.lists(st.sampled_from(places), max_size=6, unique=True)) if places else []
    content = schema.configs if pins else st.none() | schema.configs
    cells = {place: draw(content) for place in chosen}
    return LayerSpec(file, axes, tuple(functionals), cells, base)


def layer_text(schema: SchemaSpec, layer: LayerSpec, seed: int) -> str:
    """The text of a table or patch, with key and field order drawn, and fields at their default left out if all are."""
    chance = random.Random(seed)
    arch, kind = layer.file.split("/")[0], layer.file.rpartition(".")[2]
    configs = list(dict.fromkeys(config for config in layer.cells.values() if config is not None))
    chance.shuffle(configs)
    keys = chance.sample(range(len(schema.keys)), len(schema.keys))
    fields = [n for n, f in enumerate(schema.fields) if f.default is None or any(c[n] != f.default for c in configs)]
    fields = chance.sample(fields, len(fields)) or [0]
    lines = [f"#! {kind} 1", "#! iface f", f"#! arch {arch}", *([f"#! base {layer.base}"] if layer.base else [])]
    lines.append(f"#! key {' '.join(schema.keys[n].name for n in keys)}")
    lines += [
        f"#! axis {name} {' '.join(map(str, own))}" for (name, _), own in zip(schema.axes, layer.axes, strict=True)
    ]
    lines.append(f"#! config {' '.join(schema.fields[n].name for n in fields)}")
    symbols = dict(zip(configs, ["b", "a", "Z", "z", "aa", "c", "d"], strict=False))
    lines += [f"{symbols[config]} = {' '.join(spelled(config[n]) for n in fields)}" for config in configs]
    for functional in layer.functionals:
        lines.append(f"[{' '.join(spelled(functional[n]) for n in keys)}]")
        for label in product(*layer.axes[:-1]):
            cells = [layer.cells.get((functional, (*label, value)), ...) for value in layer.axes[-1]]
            lines.append(row_line(label, ["." if c is ... else "-" if c is None else symbols[c] for c in cells]))
    return "\n".join([*lines, "#! end"]) + "\n"


def pins_text(schema: SchemaSpec, layer: LayerSpec) -> str:
    """The same as pins.toml."""
    pins = []
    for (functional, at), config in layer.cells.items():
        assert config is not None
        named = {
            "functional": dict(zip((key.name for key in schema.keys), functional, strict=True)),
            "at": dict(zip((name for name, _ in schema.axes), at, strict=True)),
            "config": dict(zip((field.name for field in schema.fields), config, strict=True)),
        }
        pins.append(_table("pin", iface="f", reason="a test", until=date(2030, 1, 1), **named))
    return "".join(pins)
