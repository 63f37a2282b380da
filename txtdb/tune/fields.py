"""The candidates of a cell: everything that its schema admits, or what a file or a tunable narrows that down to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from itertools import product

from txtdb.faults import Fault, Span
from txtdb.model.schema import ArchSchema, ConfigField, Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional, Value, ValueType, functional_rank, print_value, print_values
from txtdb.tune.device import Config, Task
from txtdb.tune.tunable import Tunable
from txtdb.tune.tunable_faults import asked_items, unusable
from txtdb.views.asking import field_types, parse_words

# More configs than this are not listed: a field of this size needs narrowing, not patience.
MAX_FIELD = 1_000_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table that is tuned."""

    functional: Functional
    at: tuple[int, ...]

    @property
    def label(self) -> str:
        """`bf16 0 64 @ 128,256`: how journals name it."""
        return f"{print_values(self.functional)} @ {','.join(map(str, self.at))}"


@dataclass(frozen=True, slots=True)
class CellPlan:
    """A cell with all that is measured for it.

    `candidates` are in an order that follows from their content alone; `incumbent` is one of them or None, and so are
    `neighbours`, nearest first. `incumbent_layer` tells where the incumbent comes from: a place in a file, or
    `default`.
    """

    cell: Cell
    candidates: tuple[ConfigValues, ...]
    incumbent: ConfigValues | None
    incumbent_layer: str
    neighbours: tuple[ConfigValues, ...]


def task_of(schema: Schema, arch: str, cell: Cell) -> Task:
    """A cell as devices and tunables are told of it."""
    at = dict(zip(schema.axis_names, cell.at, strict=True))
    return Task(schema.iface, arch, schema.functional_dict(cell.functional), at)


def full_config(schema: Schema, functional: Functional, values: ConfigValues) -> dict[str, Value]:
    """A candidate as devices and tunables are told of it: with the fields that the functional derives."""
    return {**schema.config_dict(values), **schema.derived_values(functional)}


def schema_field(arch_schema: ArchSchema) -> tuple[ConfigValues, ...] | Fault:
    """Every config that may be used on an arch, or the fault that they cannot be listed."""
    schema, size = arch_schema.schema, 1
    domains = []
    for item in schema.config:
        values = _domain(item)
        size *= len(values)
        if not values or size > MAX_FIELD:
            what = f"`{item.name}` has no bounds" if not values else f"there are more than {MAX_FIELD} configs"
            return Fault("field", Span(schema.file), what, "name candidates with --candidates, or bound the domain")
        domains.append(values)
    return tuple(config for config in product(*domains) if arch_schema.illegal(config) is None)


def _domain(item: ConfigField) -> Sequence[Value]:
    """The values of a config field; none where they have no bounds."""
    if item.values:
        return item.values
    if item.type is ValueType.BOOL:
        return (False, True)
    if item.minimum is None or item.maximum is None:
        return ()
    return range(item.minimum, min(item.maximum, item.minimum + MAX_FIELD) + 1)


def narrowed(
    tunable: Tunable | None, schema: Schema, task: Task, functional: Functional, field: Iterable[ConfigValues]
) -> tuple[ConfigValues, ...]:
    """What a tunable leaves of a field for one task; all of it where there is no tunable.

    Raises TunableFault when the tunable raises, or gives what is no config of the field.
    """
    if tunable is None:
        return tuple(field)
    by_content = {_frozen(full_config(schema, functional, values)): values for values in field}
    given = sorted(by_content.values(), key=functional_rank)
    configs = [full_config(schema, functional, values) for values in given]
    chosen = asked_items(tunable, "narrow", Mapping, "configs of those that it is given", task, configs)
    for config in chosen:
        if not all(map(_hashable, config.values())) or _frozen(config) not in by_content:
            raise unusable(tunable, "narrow", f"gave a config that is not of the field: {dict(config)}")
    return tuple(by_content[_frozen(config)] for config in chosen)


def _hashable(value: object) -> bool:
    return isinstance(value, Hashable)


def _frozen(config: Config) -> frozenset[tuple[str, Value]]:
    return frozenset(config.items())


def ordered(schema: Schema, configs: Iterable[ConfigValues]) -> tuple[ConfigValues, ...]:
    """Configs, each once, in an order that follows from their content alone and keeps like ones apart.

    Candidates that fail alike, say those with the largest tiles, would else stand in one row.
    """
    return tuple(sorted(set(configs), key=partial(_shuffle_key, schema.field_names)))


@cache
def _shuffle_key(names: tuple[str, ...], values: ConfigValues) -> bytes:
    text = " ".join(f"{name}={print_value(value)}" for name, value in zip(names, values, strict=True))
    return sha256(text.encode()).digest()


def read_candidates(text: str, file: str, arch_schema: ArchSchema) -> tuple[tuple[ConfigValues, ...], list[Fault]]:
    """The configs of a file, one a line as `NAME=VALUE …`; fields left out are at their default."""
    found: list[ConfigValues] = []
    faults: list[Fault] = []
    for number, words in file_lines(text):
        values, wrong = _candidate(words, arch_schema)
        faults.extend(placed(fault, file, number) for fault in wrong)
        if values is not None:
            found.append(values)
    if not found and not faults:
        faults.append(Fault("field", Span(file), "the file names no candidate", "write one a line, as NAME=VALUE …"))
    return tuple(found), faults


def _candidate(words: list[str], arch_schema: ArchSchema) -> tuple[ConfigValues | None, list[Fault]]:
    schema = arch_schema.schema
    given, faults = parse_words(words, field_types(schema))
    missing = [item.name for item in schema.config if item.default is None and item.name not in given]
    if faults:
        return None, faults
    if missing:
        text = f"`{missing[0]}` is missing and has no default"
        return None, [Fault("field", Span(""), text, f"give {missing[0]}=VALUE")]
    chosen = (given.get(item.name, item.default) for item in schema.config)
    values = tuple(value for value in chosen if value is not None)
    reason = arch_schema.illegal(values)
    return (None, [Fault("field", Span(""), reason, "correct the line")]) if reason else (values, [])


def file_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """(number, words) of the lines that say something; what follows a `#` is a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def placed(fault: Fault, file: str, line: int) -> Fault:
    """A fault of a word, in the line of the file that it stands in."""
    return Fault(fault.rule, Span(file, line, 1, line, 1), fault.message, fault.hint, fault.severity)
