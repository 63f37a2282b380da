"""schema/<iface>.toml → `Schema`. docs/schema.md describes the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
from txtdb.model.toml import TomlReader, parse_toml
from txtdb.model.values import Value, ValueType, has_type, parse_value, print_value

KINDS = ("kernel", "operator", "fixed")
BACKEND_FIELD = "backend"
MAX_FUNCTIONALS = 1_000_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:+-]*")
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
    reader = _SchemaReader(file)
    schema = reader.schema(content, iface)
    return (None if reader.faults else schema), reader.faults


class _SchemaReader(TomlReader):
    def __init__(self, file: str) -> None:
        super().__init__(file, "schema")

    def schema(self, content: dict[str, Any], iface: str) -> Schema:
        self.known(content, _TOP, "schema")
        kind = self.text(content, "kind", "schema", "kernel")
        if self.text(content, "iface", "schema") != iface:
            self.fault(
                f"iface is `{content.get('iface')}` in the schema of `{iface}`",
                "the file name and `iface` must agree",
            )
        if kind not in KINDS:
            self.fault(f"unknown kind `{kind}`", f"known are {', '.join(KINDS)}")
        key_tables = self.tables(content, "key")
        keys = tuple(self.key(table) for table in key_tables if "fixed" not in table)
        fixed_keys = tuple(self.fixed_key(table) for table in key_tables if "fixed" in table)
        backends = tuple(self.backend(table) for table in self.tables(content, "backend"))
        config = self.config_fields(content, kind, backends)
        axes = tuple(self.axis(table) for table in self.tables(content, "axis"))
        self.unique(
            [*(key.name for key in keys), *(key.name for key in fixed_keys), *(axis.name for axis in axes)],
            "key or axis",
        )
        self.unique(
            [*(item.name for item in config), *(str(t.get("name")) for t in self.tables(content, "derived"))],
            "config field",
        )
        key_types = {key.name: key.type for key in keys}
        config_types = {item.name: item.type for item in config}
        self.shape(kind, keys, axes, config, backends)
        return Schema(
            file=self.file,
            iface=iface,
            kind=kind,
            keys=keys,
            fixed_keys=fixed_keys,
            axes=axes,
            config=config,
            derived=tuple(self.derived(table, keys) for table in self.tables(content, "derived")),
            backends=backends,
            absent=self.predicates(content, "absent", key_types),
            illegal=self.predicates(content, "illegal", config_types),
            fixed_config=self.fixed_config(content, kind, config),
            sections=self.sections(content, keys, axes, config_types),
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
        if prod(len(key.values) for key in keys) > MAX_FUNCTIONALS:
            self.fault(f"more than {MAX_FUNCTIONALS} functionals")

    def key(self, table: dict[str, Any]) -> Key:
        name, kind = self.name(table, "key"), self.type(table, "key")
        self.known(table, ("name", "type", "values", "fallback"), f"key {name}")
        values = self.values(table, kind, f"key {name}")
        if kind is ValueType.BOOL and "values" not in table:
            values = (False, True)
        if not values:
            self.fault(f"key {name}: `values` is missing")
        fallback = table.get("fallback")
        if "fallback" in table and not self.is_one_of(fallback, kind, values):
            self.fault(f"key {name}: fallback {fallback!r} is none of its values")
        return Key(name, kind, values, fallback)

    def fixed_key(self, table: dict[str, Any]) -> FixedKey:
        name, kind = self.name(table, "key"), self.type(table, "key")
        self.known(table, ("name", "type", "fixed"), f"key {name}")
        if not self.spells(table["fixed"], kind):
            self.fault(f"key {name}: {table['fixed']!r} is no {kind}")
        return FixedKey(name, kind, table["fixed"])

    def axis(self, table: dict[str, Any]) -> Axis:
        name = self.name(table, "axis")
        self.known(table, ("name", "bins", "lookup"), f"axis {name}")
        if self.text(table, "lookup", f"axis {name}", "ceil") != "ceil":
            self.fault(
                f"axis {name}: unknown lookup rule",
                "the rule is `ceil`: the first bin that is not smaller, else the last",
            )
        return Axis(name, self.bins(table.get("bins"), f"axis {name}"))

    def bins(self, value: object, where: str) -> tuple[int, ...]:
        bins: tuple[int, ...] = self.list_of(value, int, f"{where}: `bins`")
        if any(b <= a for a, b in pairwise(bins)) or any(b < 0 for b in bins) or not bins:
            self.fault(f"{where}: bins must be at least one, not negative, and increase")
        return bins

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
        name, kind = self.name(table, "config"), self.type(table, "config")
        where = f"config {name}"
        self.known(table, ("name", "type", "values", "min", "max", "default", "binary"), where)
        values = self.values(table, kind, where)
        limits = [table.get("min"), table.get("max")]
        for limit in limits:
            if limit is not None and (kind is not ValueType.INT or not has_type(limit, ValueType.INT)):
                self.fault(f"{where}: min and max are ints, for an int field")
        if kind is ValueType.ENUM and not values:
            self.fault(f"{where}: `values` is missing")
        default, binary = table.get("default"), table.get("binary", True)
        if not isinstance(binary, bool):
            self.fault(f"{where}: `binary` must be true or false")
        minimum, maximum = limits
        item = ConfigField(name, kind, values, minimum, maximum, default, bool(binary))
        if "default" in table and not (self.spells(default, kind) and item.admits(table["default"])):
            self.fault(f"{where}: default {default!r} is outside its domain")
        return item

    def derived(self, table: dict[str, Any], keys: tuple[Key, ...]) -> Derived:
        name, kind = self.name(table, "derived"), self.type(table, "derived")
        where = f"derived {name}"
        self.known(table, ("name", "type", "key", "map"), where)
        key = next((key for key in keys if key.name == table.get("key")), None)
        mapping: list[tuple[Value, Value]] = []
        if key is None:
            self.fault(f"{where}: `key` names no key")
            return Derived(name, kind, "", ())
        for text, result in self.table(table, "map", where).items():
            given = parse_value(text, key.type)
            if given is None or not self.is_one_of(given, key.type, key.values) or not self.spells(result, kind):
                self.fault(f"{where}: map entry {text} = {result!r} does not fit")
            else:
                mapping.append((given, result))
        missing = [print_value(v) for v in key.values if v not in [given for given, _ in mapping]]
        if missing:
            self.fault(f"{where}: map has no entry for {', '.join(missing)}")
        return Derived(name, kind, key.name, tuple(mapping))

    def backend(self, table: dict[str, Any]) -> Backend:
        name = self.name(table, "backend")
        self.known(table, ("name", "launches"), f"backend {name}")
        return Backend(name, self.list_of(table.get("launches", []), str, f"backend {name}: `launches`"))

    def fixed_config(
        self, content: dict[str, Any], kind: str, config: tuple[ConfigField, ...]
    ) -> tuple[Value, ...] | None:
        given = self.table(content, "fixed_config", "schema")
        if (kind == "fixed") != bool(given):
            self.fault('[fixed_config] belongs to kind = "fixed", and to nothing else')
        if kind != "fixed":
            return None
        self.known(given, [item.name for item in config], "fixed_config")
        values = []
        for item in config:
            value = given.get(item.name, item.default)
            if not self.spells(value, item.type) or value is None or not item.admits(value):
                self.fault(f"fixed_config: {item.name} = {value!r} is outside its domain")
            values.append(value)
        return tuple(v for v in values if v is not None)

    def sections(
        self,
        content: dict[str, Any],
        keys: tuple[Key, ...],
        axes: tuple[Axis, ...],
        config_types: Mapping[str, ValueType],
    ) -> tuple[ArchSection, ...]:
        given = self.table(content, "arch", "schema")
        read: dict[str, ArchSection] = {}
        for arch in given:
            table = self.table(given, arch, "arch")
            self.known(table, _SECTION, f"arch {arch}")
            if "like" not in table:
                read[arch] = self.section(arch, table, keys, axes, config_types)
        for arch, table in given.items():
            if not isinstance(table, dict) or "like" not in table:
                continue
            model = read.get(str(table["like"]))
            if model is None or len(table) > 1:
                self.fault(f"arch {arch}: `like` stands alone and names an arch that is written out", "")
            else:
                read[arch] = ArchSection(arch, model.bins, model.domains, model.unsupported, model.illegal)
        return tuple(read[arch] for arch in sorted(read))

    def section(
        self,
        arch: str,
        table: dict[str, Any],
        keys: tuple[Key, ...],
        axes: tuple[Axis, ...],
        config_types: Mapping[str, ValueType],
    ) -> ArchSection:
        where = f"arch {arch}"
        bins, domains = self.table(table, "bins", where), self.table(table, "domain", where)
        self.known(bins, [axis.name for axis in axes], f"{where}: bins")
        self.known(domains, [key.name for key in keys], f"{where}: domain")
        key_types = {key.name: key.type for key in keys}
        return ArchSection(
            arch,
            tuple((name, self.bins(value, f"{where}: {name}")) for name, value in bins.items()),
            tuple((key.name, self.domain(key, domains[key.name], where)) for key in keys if key.name in domains),
            self.predicates(table, "unsupported", key_types),
            self.predicates(table, "illegal", config_types),
        )

    def domain(self, key: Key, values: object, where: str) -> tuple[Value, ...]:
        if isinstance(values, list) and all(self.is_one_of(value, key.type, key.values) for value in values):
            return tuple(values)
        self.fault(f"{where}: domain of {key.name} must be a list of its values")
        return ()

    def predicates(self, table: dict[str, Any], name: str, types: Mapping[str, ValueType]) -> tuple[Predicate, ...]:
        return tuple(self.predicate(item, name, types) for item in self.tables(table, name))

    def predicate(self, table: dict[str, Any], where: str, types: Mapping[str, ValueType]) -> Predicate:
        self.known(table, list(types), where)
        terms = []
        for name, given in table.items():
            values = given if isinstance(given, list) else [given]
            kind = types.get(name)
            if kind is not None and not all(self.spells(value, kind) for value in values):
                self.fault(f"{where}: {name} = {given!r} is no {kind}")
            terms.append((name, tuple(values)))
        if not terms:
            self.fault(f"{where}: an empty condition would match everything")
        return Predicate(tuple(terms))

    def name(self, table: dict[str, Any], where: str) -> str:
        name = self.text(table, "name", where)
        if name and not _NAME.fullmatch(name):
            self.fault(f"{where}: `{name}` is no name", "letters, digits and _ . : + -, not starting with a digit")
        return name

    def type(self, table: dict[str, Any], where: str) -> ValueType:
        text = self.text(table, "type", f"{where} {table.get('name')}")
        if text in list(ValueType):
            return ValueType(text)
        self.fault(f"{where} {table.get('name')}: unknown type `{text}`", f"known are {', '.join(ValueType)}")
        return ValueType.INT

    def values(self, table: dict[str, Any], kind: ValueType, where: str) -> tuple[Value, ...]:
        values = table.get("values", [])
        if not isinstance(values, list) or not all(self.spells(value, kind) for value in values):
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

    def spells(self, value: object, kind: ValueType) -> bool:
        """Whether a value has the type and can be written in a table."""
        return has_type(value, kind) and parse_value(print_value(value), kind) == value  # type: ignore[arg-type]

    def is_one_of(self, value: object, kind: ValueType, values: tuple[Value, ...]) -> bool:
        return has_type(value, kind) and value in values
