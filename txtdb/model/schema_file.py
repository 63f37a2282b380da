"""schema/<iface>.toml → `Schema`. docs/schema.md describes the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from txtdb.faults import Fault
from txtdb.model.schema import (
    ArchSection,
    Axis,
    Backend,
    ConfigField,
    Derived,
    FixedKey,
    Key,
    Predicate,
    Schema,
)
from txtdb.model.toml import NAME, NAME_HINT, TomlReader, parse_toml, shown
from txtdb.model.values import Value, ValueType, can_be_written, parse_value, print_value
from txtdb.syntax.grid import MAX_CELLS

KINDS = ("kernel", "operator", "fixed")
BACKEND_FIELD = "backend"
MAX_FUNCTIONALS = 1_000_000

_Domain = Key | ConfigField
_TOP = (
    "iface",
    "kind",
    "key",
    "axis",
    "config",
    "derived",
    "backend",
    "absent",
    "illegal",
    "fixed_config",
    "arch",
)
_SECTION = ("like", "bins", "domain", "unsupported", "illegal")


def read_schema(data: bytes, file: str, iface: str) -> tuple[Schema | None, list[Fault]]:
    """Read a schema. It is None when there is any fault: a half understood schema would accuse good tables."""
    content, faults = parse_toml(data, file)
    if content is None:
        return None, faults
    reader = _SchemaReader(file, "schema", data=data)
    schema = reader.schema(content, iface)
    return (None if reader.faults else schema), reader.faults


class _SchemaReader(TomlReader):
    def schema(self, content: dict[str, Any], iface: str) -> Schema | None:
        """The schema, or None with faults. What refers to keys and fields is read when these are right."""
        self.known(content, _TOP, "schema")
        self.text(content, "iface", "schema")
        kind = self.text(content, "kind", "schema", "kernel")
        if isinstance(content.get("iface"), str) and content["iface"] != iface:
            self.fault(f"`iface` is not `{iface}`", "the file name and `iface` must agree")
        if not NAME.fullmatch(iface):
            self.fault(f"`{iface}` is no name for an interface", NAME_HINT)
        if kind not in KINDS:
            self.fault(f"unknown kind `{kind}`", f"known are {', '.join(KINDS)}")
        key_tables = self.tables(content, "key")
        keys = tuple(self.key(table) for table in key_tables if "fixed" not in table)
        fixed_keys = tuple(self.fixed_key(table) for table in key_tables if "fixed" in table)
        backends = tuple(self.backend(table) for table in self.tables(content, "backend"))
        config = self.config_fields(content, kind, backends)
        axes = tuple(self.axis(table) for table in self.tables(content, "axis"))
        names = [*(key.name for key in keys), *(key.name for key in fixed_keys), *(axis.name for axis in axes)]
        self.unique(names, "key or axis")
        derived = self.tables(content, "derived")
        derived_names = [table["name"] for table in derived if isinstance(table.get("name"), str)]
        self.unique([*(item.name for item in config), *derived_names], "config field")
        self.unique([backend.name for backend in backends], "backend")
        if self.faults:
            return None
        self.shape(kind, keys, axes, config, backends)
        return Schema(
            file=self.file,
            iface=iface,
            kind=kind,
            keys=keys,
            fixed_keys=fixed_keys,
            axes=axes,
            config=config,
            derived=tuple(self.derived(table, keys) for table in derived),
            backends=backends,
            absent=self.predicates(content, "absent", keys),
            illegal=self.predicates(content, "illegal", config),
            fixed_config=self.fixed_config(content, kind, config),
            sections=self.sections(content, keys, axes, config),
        )

    def shape(
        self,
        kind: str,
        keys: tuple[Key, ...],
        axes: tuple[Axis, ...],
        config: tuple[ConfigField, ...],
        backends: tuple[Backend, ...],
    ) -> None:
        if not keys:
            self.fault("no keys", "declare at least one [[key]]")
        if kind != "fixed" and not 1 <= len(axes) <= 4:
            self.fault(f"{len(axes)} axes; a table has one to four")
        if not config:
            self.fault("no back ends" if kind == "operator" else "no config fields")
        if backends and kind != "operator":
            self.fault("only an operator has back ends")
        self.size("schema", keys, axes, {})

    def size(self, where: str, keys: tuple[Key, ...], axes: tuple[Axis, ...], bins: Mapping[str, Sized]) -> None:
        functionals = prod(len(key.values) for key in keys)
        cells = functionals * prod(len(bins.get(axis.name, axis.bins)) for axis in axes)
        if functionals > MAX_FUNCTIONALS or cells > MAX_CELLS:
            limits = f"the limits are {MAX_FUNCTIONALS} and {MAX_CELLS}"
            self.fault(f"{where}: {functionals} functionals with {cells} cells are too many", limits)

    def key(self, table: dict[str, Any]) -> Key:
        self.known(table, ("name", "type", "values", "fallback"), f"key {_label(table)}")
        name, kind = self.name(table, "key"), self.type(table, "key")
        if kind is None:
            return Key(name, ValueType.INT, ())
        values = self.values(table, kind, f"key {name}")
        if kind is ValueType.BOOL and "values" not in table:
            values = (False, True)
        if not values:
            self.missing(table, "values", f"key {name}")
        fallback = table.get("fallback")
        if "fallback" in table and not (can_be_written(fallback, kind) and fallback in values):
            self.fault(f"key {name}: fallback {shown(fallback)} is none of its values")
        return Key(name, kind, values, fallback)

    def fixed_key(self, table: dict[str, Any]) -> FixedKey:
        self.known(table, ("name", "type", "fixed"), f"key {_label(table)}")
        name, kind = self.name(table, "key"), self.type(table, "key")
        if kind is None:
            return FixedKey(name, ValueType.INT, 0)
        if not can_be_written(table["fixed"], kind):
            self.fault(f"key {name}: {shown(table['fixed'])} is no {kind}")
        return FixedKey(name, kind, table["fixed"])

    def axis(self, table: dict[str, Any]) -> Axis:
        self.known(table, ("name", "bins", "lookup"), f"axis {_label(table)}")
        name = self.name(table, "axis")
        if self.text(table, "lookup", f"axis {name}", "ceil") != "ceil":
            self.fault(
                f"axis {name}: unknown lookup rule",
                "the rule is `ceil`: the first bin that is not smaller, else the last",
            )
        if (id(table), "bins") in self.meant:
            return Axis(name, ())
        return Axis(name, self.bins(table.get("bins"), f"axis {name}"))

    def bins(self, value: object, where: str) -> tuple[int, ...]:
        if (
            isinstance(value, list)
            and value
            and all(can_be_written(item, ValueType.INT) and item >= 0 for item in value)
            and all(before < after for before, after in pairwise(value))
        ):
            return tuple(value)
        self.fault(f"{where}: `bins` must be a list of ints, at least one, not negative, and increasing")
        return ()

    def config_fields(
        self, content: dict[str, Any], kind: str, backends: tuple[Backend, ...]
    ) -> tuple[ConfigField, ...]:
        tables = self.tables(content, "config")
        if kind != "operator":
            return tuple(self.config_field(table) for table in tables)
        if tables:
            self.fault("an operator has no config fields", f"its one field is `{BACKEND_FIELD}`, from [[backend]]")
        names = tuple(backend.name for backend in backends)
        return (ConfigField(BACKEND_FIELD, ValueType.ENUM, names, binary=False),) if names else ()

    def config_field(self, table: dict[str, Any]) -> ConfigField:
        where = f"config {_label(table)}"
        self.known(table, ("name", "type", "values", "min", "max", "default", "binary"), where)
        name, kind = self.name(table, "config"), self.type(table, "config")
        if kind is None:
            return ConfigField(name, ValueType.INT)
        values = self.values(table, kind, where)
        minimum, maximum = self.limit(table, "min", kind, where), self.limit(table, "max", kind, where)
        if minimum is not None and maximum is not None and minimum > maximum:
            self.fault(f"{where}: min {minimum} is above max {maximum}")
        if kind is ValueType.ENUM and not values:
            self.missing(table, "values", where)
        default, binary = table.get("default"), table.get("binary", True)
        if not isinstance(binary, bool):
            self.fault(f"{where}: `binary` must be true or false")
        item = ConfigField(name, kind, values, minimum, maximum, default, binary is True)
        if "default" in table and not _allows(item, default):
            self.fault(f"{where}: default {shown(default)} is outside its domain")
        return item

    def limit(self, table: dict[str, Any], name: str, kind: ValueType, where: str) -> int | None:
        value = table.get(name)
        if value is None:
            return None
        if kind is ValueType.INT and can_be_written(value, ValueType.INT):
            return int(value)
        self.fault(f"{where}: `{name}` must be an int, and stands at int fields only")
        return None

    def derived(self, table: dict[str, Any], keys: tuple[Key, ...]) -> Derived:
        where = f"derived {_label(table)}"
        self.known(table, ("name", "type", "key", "map"), where)
        name, kind = self.name(table, "derived"), self.type(table, "derived")
        if kind is None:
            return Derived(name, ValueType.INT, "", ())
        key = next((key for key in keys if key.name == table.get("key")), None)
        mapping: list[tuple[Value, Value]] = []
        if key is None:
            self.fault(f"{where}: `key` names no key")
            return Derived(name, kind, "", ())
        for text, result in self.table(table, "map", where).items():
            given = parse_value(text, key.type)
            if given is None or not _allows(key, given) or not can_be_written(result, kind):
                self.fault(f"{where}: map entry {text} = {shown(result)} does not fit")
            else:
                mapping.append((given, result))
        missing = [print_value(v) for v in key.values if v not in [given for given, _ in mapping]]
        if missing:
            self.fault(f"{where}: map has no entry for {', '.join(missing)}")
        return Derived(name, kind, key.name, tuple(mapping))

    def backend(self, table: dict[str, Any]) -> Backend:
        self.known(table, ("name", "launches"), f"backend {_label(table)}")
        name = self.name(table, "backend")
        if "name" in table and not can_be_written(name, ValueType.ENUM):
            self.fault(f"backend {name}: a back end is not named like a value of another type")
        return Backend(name, self.list_of(table.get("launches", []), str, f"backend {name}: `launches`"))

    def fixed_config(
        self, content: dict[str, Any], kind: str, config: tuple[ConfigField, ...]
    ) -> tuple[Value, ...] | None:
        given = self.table(content, "fixed_config", "schema")
        if (kind == "fixed") != ("fixed_config" in content):
            self.fault('[fixed_config] belongs to kind = "fixed", and to nothing else')
        if kind != "fixed":
            return None
        self.known(given, [item.name for item in config], "fixed_config")
        values = {item.name: given.get(item.name, item.default) for item in config}
        for item in config:
            if not _allows(item, values[item.name]):
                self.fault(f"fixed_config: {item.name} = {shown(values[item.name])} is outside its domain")
        return tuple(value for value in values.values() if value is not None)

    def sections(
        self,
        content: dict[str, Any],
        keys: tuple[Key, ...],
        axes: tuple[Axis, ...],
        config: tuple[ConfigField, ...],
    ) -> tuple[ArchSection, ...]:
        given = self.table(content, "arch", "schema")
        tables = {arch: self.table(given, arch, "arch") for arch in given}
        written: dict[str, ArchSection] = {}
        for arch, table in tables.items():
            self.known(table, _SECTION, f"arch {arch}")
            if not NAME.fullmatch(arch):
                self.fault(f"arch {arch}: `{arch}` is no name", NAME_HINT)
            if "like" not in table:
                written[arch] = self.section(arch, table, keys, axes, config)
        alike = (self.like(arch, table, written) for arch, table in tables.items() if "like" in table)
        return tuple(sorted((*written.values(), *alike), key=lambda section: section.arch))

    def like(self, arch: str, table: dict[str, Any], written: Mapping[str, ArchSection]) -> ArchSection:
        model = written.get(self.text(table, "like", f"arch {arch}"))
        if model is None or len(table) > 1:
            self.fault(f"arch {arch}: `like` stands alone and names an arch that is written out")
        return replace(model, arch=arch) if model else ArchSection(arch)

    def section(
        self,
        arch: str,
        table: dict[str, Any],
        keys: tuple[Key, ...],
        axes: tuple[Axis, ...],
        config: tuple[ConfigField, ...],
    ) -> ArchSection:
        where = f"arch {arch}"
        bins, domains = self.table(table, "bins", where), self.table(table, "domain", where)
        self.known(bins, [axis.name for axis in axes], f"{where}: bins")
        self.known(domains, [key.name for key in keys], f"{where}: domain")
        own = {axis.name: self.bins(bins[axis.name], f"{where}: {axis.name}") for axis in axes if axis.name in bins}
        self.size(where, keys, axes, own)
        return ArchSection(
            arch,
            tuple(own.items()),
            tuple((key.name, self.domain(key, domains[key.name], where)) for key in keys if key.name in domains),
            self.predicates(table, "unsupported", keys),
            self.predicates(table, "illegal", config),
        )

    def domain(self, key: Key, values: object, where: str) -> tuple[Value, ...]:
        if isinstance(values, list) and values and all(_allows(key, value) for value in values):
            return tuple(values)
        self.fault(f"{where}: domain of {key.name} must be a list of its values, at least one")
        return ()

    def predicates(self, table: dict[str, Any], name: str, items: Sequence[_Domain]) -> tuple[Predicate, ...]:
        return tuple(self.predicate(term, name, items) for term in self.tables(table, name))

    def predicate(self, table: dict[str, Any], where: str, items: Sequence[_Domain]) -> Predicate:
        self.known(table, [item.name for item in items], where)
        terms = []
        for item in items:
            if item.name in table:
                given = table[item.name]
                values = given if isinstance(given, list) else [given]
                wrong = [value for value in values if not _allows(item, value)]
                if wrong or not values:
                    self.fault(f"{where}: {item.name} never is {shown(wrong[0] if wrong else given)}")
                terms.append((item.name, tuple(values)))
        if not terms:
            self.fault(f"{where}: an empty condition would match everything")
        return Predicate(tuple(terms))

    def name(self, table: dict[str, Any], where: str) -> str:
        name = self.text(table, "name", where)
        if name and not NAME.fullmatch(name):
            self.fault(f"{where}: `{name}` is no name", NAME_HINT)
        return name

    def type(self, table: dict[str, Any], where: str) -> ValueType | None:
        """The declared type; None where it is unknown, so that nothing is judged by a wrong one."""
        where = f"{where} {shown(table.get('name'))}"
        text = self.text(table, "type", where)
        if text in list(ValueType):
            return ValueType(text)
        if text:
            self.fault(f"{where}: unknown type `{text}`", f"known are {', '.join(ValueType)}")
        return None

    def values(self, table: dict[str, Any], kind: ValueType, where: str) -> tuple[Value, ...]:
        values = table.get("values", [])
        if not isinstance(values, list) or not all(can_be_written(value, kind) for value in values):
            self.fault(f"{where}: `values` must be a list of {kind} values")
            return ()
        self.unique([print_value(value).lower() for value in values], f"value of {where}")
        return tuple(values)

    def unique(self, names: Iterable[str], what: str) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.fault(f"{what} `{name}` stands twice", "names that differ only in case count as equal")
            seen.add(name)


def _label(table: Mapping[str, Any]) -> str:
    """The name that a table gives itself, for messages; empty where it gives none."""
    name = table.get("name")
    return name if isinstance(name, str) else ""


def _allows(item: _Domain, value: Any) -> bool:
    """Whether a value may stand in a key or field."""
    return can_be_written(value, item.type) and (value in item.values if isinstance(item, Key) else item.admits(value))
