"""Which cells are tuned, and what each starts from: the incumbent and what neighbouring cells use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from txtdb.faults import Fault, Span
from txtdb.layers.resolve import bin_index
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import UNSET, ConfigValues, functional_text
from txtdb.model.values import Functional, Value
from txtdb.tune.fields import Cell, file_lines, placed
from txtdb.views.asking import key_types, lookup_types, parse_words, value_faults

DEFAULT_LAYER = "default"


@dataclass(frozen=True)
class Choice:
    """What a person asked for. `everything` or `missing` alone, or some of the others together.

    `keys` are `K=V,…` texts: a functional is chosen when any of them matches. `shapes` and `cells` are (file name,
    text) of files that name sizes, or whole cells.
    """

    everything: bool = False
    missing: bool = False
    keys: Sequence[str] = ()
    shapes: tuple[str, str] | None = None
    cells: tuple[str, str] | None = None


def choose_cells(table: ResolvedTable, choice: Choice) -> tuple[list[Cell], list[Fault]]:
    """The chosen cells of a table's declared grid, in grid order. What does not exist is a fault, never passed over."""
    if choice.cells:
        return _listed_cells(table.arch_schema, *choice.cells)
    functionals, faults = _functionals(table.arch_schema, choice.keys)
    spots, more = _spots(table.arch_schema, choice.shapes)
    if faults or more:
        return [], [*faults, *more]
    cells = [Cell(functional, at) for functional in functionals for at in spots]
    return [cell for cell in cells if _is_missing(table, cell)] if choice.missing else cells, []


def _functionals(arch_schema: ArchSchema, keys: Sequence[str]) -> tuple[list[Functional], list[Fault]]:
    """The declared functionals that match any of the texts; all where there are none."""
    if not keys:
        return list(arch_schema.declared), []
    schema, matched, faults = arch_schema.schema, set(), []
    for text in keys:
        given, wrong = parse_words(filter(None, text.split(",")), key_types(schema))
        wrong = wrong or value_faults(schema, given)
        if not given and not wrong:
            wrong = [Fault("cell", Span("--keys"), "no key is named", "say KEY=VALUE, or --all for every functional")]
        found = [f for f in arch_schema.declared if given.items() <= _whole(schema, f).items()]
        if not found and not wrong:
            wrong = [Fault("cell", Span(text), f"no functional matches {text}", "see `txtdb schema show`")]
        faults.extend(wrong)
        matched.update(found)
    return [f for f in arch_schema.declared if f in matched], faults


def _whole(schema: Schema, functional: Functional) -> dict[str, Value]:
    """A functional with the fixed keys."""
    return {**{key.name: key.value for key in schema.fixed_keys}, **schema.functional_dict(functional)}


def _spots(arch_schema: ArchSchema, shapes: tuple[str, str] | None) -> tuple[list[tuple[int, ...]], list[Fault]]:
    """Bins on all axes: those that the sizes of a file fall into, else every one."""
    if shapes is None:
        return list(product(*arch_schema.bins)), []
    file, text = shapes
    names = arch_schema.schema.axis_names
    spots: set[tuple[int, ...]] = set()
    faults: list[Fault] = []
    for number, words in file_lines(text):
        given, wrong = parse_words(words, {name: lookup_types(arch_schema.schema)[name] for name in names})
        missing = [name for name in names if name not in given]
        if missing and not wrong:
            wrong = [Fault("cell", Span(""), f"the size on axis {missing[0]} is missing", f"add {missing[0]}=SIZE")]
        low = [name for name in names if not wrong and int(given[name]) < 0]
        wrong += [Fault("cell", Span(""), f"{name} is {given[name]}; a size is not negative") for name in low]
        faults.extend(placed(fault, file, number) for fault in wrong)
        if not wrong:
            sizes = [int(given[name]) for name in names]
            spots.add(tuple(own[bin_index(own, size)] for own, size in zip(arch_schema.bins, sizes, strict=True)))
    if not spots and not faults:
        faults.append(Fault("cell", Span(file), "the file names no shape", "write one a line, as AXIS=SIZE …"))
    return sorted(spots), faults


def _listed_cells(arch_schema: ArchSchema, file: str, text: str) -> tuple[list[Cell], list[Fault]]:
    """The cells of a file, one a line as `KEY=VALUE … AXIS=BIN …`."""
    found: set[Cell] = set()
    faults: list[Fault] = []
    for number, words in file_lines(text):
        cell = _listed_cell(arch_schema, words)
        if isinstance(cell, Cell):
            found.add(cell)
        else:
            faults.extend(placed(fault, file, number) for fault in cell)
    if not found and not faults:
        faults.append(Fault("cell", Span(file), "the file names no cell", "write one a line, as KEY=VALUE … AXIS=BIN"))
    order = {functional: place for place, functional in enumerate(arch_schema.declared)}
    return sorted(found, key=lambda cell: (order[cell.functional], cell.at)), faults


def _listed_cell(arch_schema: ArchSchema, words: list[str]) -> Cell | list[Fault]:
    schema = arch_schema.schema
    given, faults = parse_words(words, lookup_types(schema))
    missing = [name for name in (*schema.key_names, *schema.axis_names) if name not in given]
    if faults or missing:
        return faults or [Fault("cell", Span(""), f"`{missing[0]}` is missing", f"add {missing[0]}=VALUE")]
    functional = tuple(given[name] for name in schema.key_names)
    at = tuple(int(given[name]) for name in schema.axis_names)
    if functional not in arch_schema.declared:
        return [_unknown(f"no such functional on {arch_schema.section.arch}: {functional_text(schema, functional)}")]
    for name, value, bins in zip(schema.axis_names, at, arch_schema.bins, strict=True):
        if value not in bins:
            return [_unknown(f"{value} is no bin of {name}; its bins are {' '.join(map(str, bins))}")]
    return Cell(functional, at)


def _unknown(message: str) -> Fault:
    return Fault("cell", Span(""), message, "see `txtdb schema show`")


@dataclass(frozen=True, slots=True)
class Ground:
    """What a cell starts from. `pin` is the file of the pin that decides the cell, else empty."""

    incumbent: ConfigValues | None
    layer: str
    neighbours: tuple[ConfigValues, ...]
    pin: str = ""


def ground_of(table: ResolvedTable, cell: Cell, root: str = "") -> Ground:
    """Today's config of a cell, where it comes from, and what the cells beside it use.

    `root` is how the database's root stands in spans; without it the layer is the same wherever the root lies.
    """
    neighbours = _neighbours(table, cell)
    config = config_at(table, cell)
    if config is None:
        default = default_config(table.arch_schema)
        return Ground(default, DEFAULT_LAYER if default else "", neighbours)
    winner = table.explain(**_lookup(table.schema, cell)).winner
    assert winner is not None, "a cell with a config was set by a layer"
    layer = str(winner.span).removeprefix(f"{root}/")
    return Ground(config, layer, neighbours, winner.layer.file if winner.layer.kind == "pins" else "")


def _lookup(schema: Schema, cell: Cell) -> Mapping[str, Value]:
    return {**schema.functional_dict(cell.functional), **dict(zip(schema.axis_names, cell.at, strict=True))}


def config_at(table: ResolvedTable, cell: Cell) -> ConfigValues | None:
    """What a lookup of a cell gives, derived fields left out; None where there is no config."""
    number = _number_at(table, cell.functional, cell.at)
    return table.pool[number] if number >= 0 else None


def _number_at(table: ResolvedTable, functional: Functional, at: tuple[int, ...]) -> int:
    if not all(table.bins):
        return UNSET
    places = tuple(bin_index(bins, value) for bins, value in zip(table.bins, at, strict=True))
    return int(table.effective(functional)[places])


def _is_missing(table: ResolvedTable, cell: Cell) -> bool:
    """Whether a lookup of the cell finds no config; what is masked by intent counts, as it does in `check`."""
    return _number_at(table, cell.functional, cell.at) < 0


def default_config(arch_schema: ArchSchema) -> ConfigValues | None:
    """The config of defaults; None where a field has none, or they may not be used together."""
    values = tuple(item.default for item in arch_schema.schema.config if item.default is not None)
    if len(values) < len(arch_schema.schema.config) or arch_schema.illegal(values):
        return None
    return values


def _neighbours(table: ResolvedTable, cell: Cell) -> tuple[ConfigValues, ...]:
    """The configs of the cells beside one, on each axis, smaller bins first: each once."""
    numbers = (_number_at(table, cell.functional, at) for at in _beside(table.arch_schema, cell))
    return tuple(dict.fromkeys(table.pool[number] for number in numbers if number >= 0))


def _beside(arch_schema: ArchSchema, cell: Cell) -> Iterator[tuple[int, ...]]:
    for axis, (bins, value) in enumerate(zip(arch_schema.bins, cell.at, strict=True)):
        place = bins.index(value)
        for other in (place - 1, place + 1):
            if 0 <= other < len(bins):
                yield (*cell.at[:axis], bins[other], *cell.at[axis + 1 :])


def shapes_in_bin(arch_schema: ArchSchema, at: Iterable[int]) -> list[tuple[int, ...]]:
    """More shapes that lookups answer with the same cell: the smallest one, an odd one in the middle, the last odd one.

    None where the bins hold a single size each.
    """
    pairs = [(_below(bins, value) + 1, value) for bins, value in zip(arch_schema.bins, at, strict=True)]
    smallest = tuple(low for low, _ in pairs)
    middle = tuple(min(value, (low + value) // 2 | 1) for low, value in pairs)
    last = tuple(max(low, (value - 1) | 1) for low, value in pairs)
    return [shape for shape in dict.fromkeys((smallest, middle, last)) if shape != tuple(value for _, value in pairs)]


def _below(bins: Sequence[int], value: int) -> int:
    """The bin before one, 0 for the first."""
    place = bins.index(value)
    return bins[place - 1] if place else 0
