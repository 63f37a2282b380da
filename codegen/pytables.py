"""Python texts: the package, an interface's module and the table of one arch. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.cpp import arch_names, axis_names
from codegen.dispatch import DispatchTable
from codegen.names import MAX_NAME
from codegen.rendering import lines, render
from txtdb.model.archs import Arch
from txtdb.model.schema import Schema
from txtdb.model.values import Value, ValueType

_IMAGE_IMPORTS = "from .. import image_piece as _piece\nfrom .. import image_text as _image_text\n"
_TYPE_NAMES = {ValueType.BOOL: "bool", ValueType.INT: "int", ValueType.ENUM: "str"}


def package(archs: Sequence[Arch], ifaces: Sequence[str]) -> str:
    """__init__.py of the package: archs, interfaces and what all lookups share."""
    known = [(name, arch.name) for arch in archs for name in arch_names(arch)]
    return render(
        "package.py",
        archs=lines((f'"{arch.name}",' for arch in archs), "    "),
        ifaces=lines((f'"{iface}",' for iface in ifaces), "    "),
        known=lines((f'"{name}": "{arch}",' for name, arch in known), "    "),
        max_name=MAX_NAME,
    )


def iface_module(schema: Schema, archs: Sequence[str]) -> str:
    """__init__.py of an interface's package. `archs` have a table of it."""
    axes, arguments = axis_names(schema), _arguments(schema)
    return render(
        "iface.py",
        iface=schema.iface,
        exports=lines((f'"{name}",' for name in _exports(schema)), "    "),
        archs=lines((f'"{arch}",' for arch in archs), "    "),
        bisect_import="from bisect import bisect_left as _bisect\n" if axes else "",
        image_imports=_IMAGE_IMPORTS if schema.kind != "operator" else "",
        fields=lines((f"{item.name}: {_TYPE_NAMES[item.type]}" for item in schema.config), "    "),
        derived_class=_derived_class(schema),
        arguments_types=lines((f'"{name}": {_TYPE_NAMES[kind]},' for name, kind in arguments), "    "),
        enums=lines(_enum_values(schema), "    "),
        axes=" ".join(f'"{axis}",' for axis in axes),
        types=" ".join(f"{_TYPE_NAMES[kind]}," for _, kind in _type_checked(schema)),
        parameters=lines(_parameters(schema), "    "),
        unpack=", ".join(["_starts", "_cells", "_answers", *_numbered("_bins", axes), *_numbered("_stride", axes)]),
        type_check=_type_check(schema),
        arguments=_argument_list(schema, "            "),
        keys=", ".join(schema.key_names),
        suspicious="\n        or ".join(_suspicions(schema)),
        cell=" + ".join(["_start", *_cell_terms(axes)]),
        functions=_derived_function(schema) + _image_name_function(schema),
        no_axes=", ()" * len(axes) + ", 0" * len(axes),
    )


def table_data(table: DispatchTable) -> str:
    """<arch>.py: the table of one arch as data."""
    grids = table.grids.astype(table.grids.dtype.newbyteorder(">"))
    return render(
        "table.py",
        iface=table.schema.iface,
        arch=table.arch,
        inputs=table.inputs,
        bins=lines((f"{_tuple(map(str, bins))}," for bins in table.bins), "    "),
        configs=len(table.configs),
        config_rows=lines((f"{_tuple(map(literal, config))}," for config in table.configs), "    "),
        size=table.grids.shape[1],
        cell_bytes=table.cell_bytes,
        cell_rows=lines(row.tobytes().hex() for row in grids),
        grid_rows=lines(_grid_rows(table), "    "),
    )


def literal(value: Value) -> str:
    """A value as Python."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def _grid_rows(table: DispatchTable) -> Iterator[str]:
    for functional, grid in zip(table.space.functionals, table.grid_of, strict=True):
        yield f"{_tuple(map(literal, functional))}: {grid},"


def _tuple(texts: Iterator[str]) -> str:
    joined = ", ".join(texts)
    return f"({joined})" if "," in joined else f"({joined},)"


def _numbered(name: str, axes: Sequence[str]) -> list[str]:
    return [f"{name}_{number}" for number in range(len(axes))]


def _arguments(schema: Schema) -> list[tuple[str, ValueType]]:
    """Name and type of each argument of a lookup, in order."""
    return [
        *((key.name, key.type) for key in schema.keys),
        *((axis, ValueType.INT) for axis in axis_names(schema)),
        *((fixed.name, fixed.type) for fixed in schema.fixed_keys),
    ]


def _parameters(schema: Schema) -> Iterator[str]:
    """A key with one value has it as default, one with a fallback value that."""
    defaults = {key.name: f" = {literal(key.fallback)}" for key in schema.keys if key.fallback is not None}
    defaults |= {fixed.name: f" = {literal(fixed.value)}" for fixed in schema.fixed_keys}
    return (f"{name}: {_TYPE_NAMES[kind]}{defaults.get(name, '')}," for name, kind in _arguments(schema))


def _exports(schema: Schema) -> list[str]:
    names = [
        "ARCHS",
        "NO_KERNEL",
        "UNSUPPORTED",
        "Absent",
        "Config",
        "LookupFault",
        "configs",
        "inputs_digest",
        "lookup",
    ]
    names += ["Derived", "derived"] if schema.derived else []
    names += ["image_name"] if schema.kind != "operator" else []
    return sorted(names)


def _enum_values(schema: Schema) -> Iterator[str]:
    return (f'"{key.name}": {_tuple(map(literal, key.values))},' for key in schema.keys if key.type is ValueType.ENUM)


def _type_checked(schema: Schema) -> list[tuple[str, ValueType]]:
    """The arguments whose type a hit does not prove: numbers and truth values are equal where their types differ."""
    fixed_bools = [fixed.name for fixed in schema.fixed_keys if fixed.type is ValueType.BOOL]
    return [(name, kind) for name, kind in _arguments(schema) if kind is not ValueType.ENUM and name not in fixed_bools]


def _type_check(schema: Schema) -> str:
    checked = _type_checked(schema)
    if not checked:
        return ""
    calls = " ".join(f"_type({name})," for name, _ in checked)
    arguments = _argument_list(schema, "            ")
    return f"    if ({calls}) != _TYPES:\n        _check_types(\n            {arguments}\n        )\n"


def _argument_list(schema: Schema, indent: str) -> str:
    return f"\n{indent}".join(f"{name}," for name, _ in _arguments(schema))


def _suspicions(schema: Schema) -> Iterator[str]:
    """What sends a lookup to the slow path: no grid, a negative size, a fixed key with another value."""
    yield "_start is None"
    yield from (f"{axis} < 0" for axis in axis_names(schema))
    for fixed in schema.fixed_keys:
        yield f"{fixed.name} {'is not' if fixed.type is ValueType.BOOL else '!='} {literal(fixed.value)}"


def _cell_terms(axes: Sequence[str]) -> Iterator[str]:
    for number, axis in enumerate(axes):
        stride = f" * _stride_{number}" if number < len(axes) - 1 else ""
        yield f"_bisect(_bins_{number}, {axis}){stride}"


def _derived_class(schema: Schema) -> str:
    if not schema.derived:
        return ""
    fields = lines((f"{item.name}: {_TYPE_NAMES[item.type]}" for item in schema.derived), "    ")
    maps = lines(
        f"    {literal(item.name)}: {{{', '.join(f'{literal(a)}: {literal(b)}' for a, b in item.mapping)}}},"
        for item in schema.derived
    )
    return (
        'class Derived(NamedTuple):\n    """Fields that follow from the problem, whatever its config."""\n\n'
        f"{fields}\n\n\n"
        f"_DERIVED: dict[str, dict[_Any, _Any]] = {{\n{maps}\n}}\n\n"
    )


def _key_parameters(schema: Schema) -> str:
    return "\n    ".join(list(_parameters(schema))[: len(schema.keys)])


def _derived_function(schema: Schema) -> str:
    if not schema.derived:
        return ""
    values = "\n        ".join(f'_DERIVED["{item.name}"].get({item.key}),' for item in schema.derived)
    return (
        f"def derived(\n    *,\n    {_key_parameters(schema)}\n) -> Derived | None:\n"
        '    """The derived fields; None where a key has a value outside its domain."""\n'
        f"    _values: tuple[_Any, ...] = (\n        {values}\n    )\n"
        "    return None if None in _values else Derived(*_values)\n\n\n"
    )


def _image_name_function(schema: Schema) -> str:
    if schema.kind == "operator":
        return ""
    fields = [f"_config.{item.name}" for item in schema.config if item.binary]
    values = "\n        ".join(f"{value}," for value in (*schema.key_names, *fields))
    return (
        f"def image_name(\n    _config: Config,\n    /,\n    *,\n    {_key_parameters(schema)}\n) -> str:\n"
        '    """The name of the kernel image for a problem and a config, without a file name\'s ending."""\n'
        f"    _values = (\n        {values}\n    )\n"
        f'    return _image_text("-".join(("{schema.iface}", *map(_piece, _values))))\n\n\n'
    )
