"""C++17 texts: the shared headers, an interface's header and source, and the table of one arch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import gcd

import numpy as np

from codegen.dispatch import DispatchTable
from codegen.expressible import enums
from codegen.keyspace import code_count, key_codes
from codegen.names import MAX_NAME
from codegen.rendering import lines, number_lines, render
from txtdb.model.archs import Arch
from txtdb.model.schema import Derived, Key, Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Value, ValueType

# Larger than any code (the schema reader allows a million functionals), and small enough that 255 of them add up.
NO_CODE = 1 << 24
# Up to this many codes a table has one entry a code; above, its codes are sorted and searched.
MAX_DIRECT_CODES = 65_536
# Up to this many steps the values of an int key are looked up by their distance from the first.
MAX_KEY_STEPS = 1024

_WIDTHS = 65  # of sizes: 0 to 63 bits, and one more for the end of the last


def archs_header(namespace: str, archs: Sequence[Arch]) -> str:
    """archs.h: the archs that anything was generated for."""
    known = [(name, arch.name) for arch in archs for name in arch_names(arch)]
    return render(
        "archs.h",
        namespace=namespace,
        enumerators=lines((f"{arch.name}," for arch in archs), "  "),
        count=len(archs),
        names=lines((f'"{arch.name}",' for arch in archs), "      "),
        known=lines((f'{{"{name}", Arch::{arch}}},' for name, arch in known), "      "),
    )


def arch_names(arch: Arch) -> list[str]:
    """The names under which an arch is found, as they are compared: lower case, without feature suffixes."""
    plain = (name.strip().lower().partition(":")[0] for name in (arch.name, *arch.aliases))
    return list(dict.fromkeys(plain))


def support_header(namespace: str) -> str:
    """support.h: searching tables and building image names."""
    return render("support.h", namespace=namespace, no_code=NO_CODE, max_name=MAX_NAME)


def iface_header(schema: Schema, namespace: str) -> str:
    """<iface>.h: enums, params, config and the functions of an interface. It depends on the schema alone."""
    return render(
        "iface.h",
        namespace=namespace,
        iface=schema.iface,
        enums="".join(f"{text}\n\n" for text in _enum_types(schema)),
        axes_words=" and sizes" if axis_names(schema) else "",
        params=lines(_param_members(schema), "  "),
        config=_config_type(schema),
        derived=_derived_declaration(schema),
        image_name=_IMAGE_NAME_DECLARATION if schema.kind != "operator" else "",
    )


def iface_source(schema: Schema, namespace: str, tables: Mapping[str, str]) -> str:
    """<iface>.cpp: the functions of an interface over its tables.

    `tables` maps archs to the digests of their files. They stand in the text, so that it changes with any table and a
    build that knows of the source alone compiles it again.
    """
    archs = sorted(tables)
    return render(
        "iface.cpp",
        namespace=namespace,
        iface=schema.iface,
        includes="".join(f'\n#include "{schema.iface}/{arch}.inc"  // {tables[arch]}' for arch in archs),
        key_tables="".join(_key_tables(schema)),
        grid="Table::grids[code]"
        if is_direct(schema)
        else "Table::grids[detail::code_place(Table::codes, Table::code_count, code)]",
        cell="".join(_cell_steps(schema)),
        guards="".join(_guards(schema)),
        code="\n      + ".join(_code_terms(schema)),
        codes=code_count(schema),
        find_cases=_cases(archs, "find<table_{}>(params, code)"),
        config_cases=_cases(archs, "at<table_{}>(index)"),
        count_cases=_cases(archs, "table_{}::config_count"),
        digest_cases=_cases(archs, "table_{}::inputs"),
        texts="".join(f"\n{text}\n" for text in _enum_texts(schema)),
        derived=_derived_definition(schema),
        image_name=_image_name_definition(schema) if schema.kind != "operator" else "",
    )


def table_data(table: DispatchTable) -> str:
    """<iface>/<arch>.inc: the table of one arch as data."""
    schema, none = table.schema, len(table.grids)
    numbers = [str(number) for number in range(len(table.configs) + 1)]
    cells = ",\n".join("    " + ",".join([numbers[cell] for cell in row]) for row in table.grids.tolist())
    return render(
        "table.inc",
        iface=schema.iface,
        arch=table.arch,
        functionals=len(table.space.functionals),
        shape=" x ".join(str(len(bins)) for bins in table.bins) or "1",
        inputs=table.inputs,
        axes=lines(f"  static constexpr {text};" for text in map(_axis, range(len(table.bins)), table.bins)),
        configs=len(table.configs),
        config_rows=lines(_config_rows(schema, table.configs), "    "),
        grids=none,
        grid_order=", by code" if is_direct(schema) else ", in the order of the codes",
        codes="" if is_direct(schema) else _code_array(table),
        grid_type=_uint_type(none),
        grid_rows=number_lines([str(grid) for grid in _grids_by_code(table)], 24, "    "),
        cell_type=f"std::uint{8 * table.cell_bytes}_t",
        cell_rows=cells or "    0",
    )


def is_direct(schema: Schema) -> bool:
    """Whether tables of an interface have one entry for each code."""
    return code_count(schema) <= MAX_DIRECT_CODES


def axis_names(schema: Schema) -> tuple[str, ...]:
    """The axes that a lookup has: none where there is one config for everything."""
    return () if schema.kind == "fixed" else schema.axis_names


def literal(value: Value, name: str) -> str:
    """A value as C++. `name` is the key or field, whose enum type has its name and `_t`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f"{name}_t::{value}"


def _type(name: str, kind: ValueType) -> str:
    return {ValueType.BOOL: "bool", ValueType.INT: "std::int64_t", ValueType.ENUM: f"{name}_t"}[kind]


def _uint_type(largest: int) -> str:
    return f"std::uint{8 * np.min_scalar_type(largest).itemsize}_t"


# The header


def _enum_types(schema: Schema) -> Iterator[str]:
    if schema.kind != "operator":
        names = dict(enums(schema))
    else:
        names = {name: values for name, values in enums(schema) if name not in schema.field_names}
    for name, values in names.items():
        enumerators = lines((f"{value}," for value in values), "  ")
        yield (
            f"enum class {name}_t : {_uint_type(len(values))} {{\n{enumerators}\n}};\n\n"
            f"/// The name of a value; empty for one that does not exist.\n"
            f"std::string_view text({name}_t value) noexcept;"
        )


def _param_members(schema: Schema) -> Iterator[str]:
    for key in schema.keys:
        default = "{}" if key.fallback is None else f" = {literal(key.fallback, key.name)}"
        yield f"{_type(key.name, key.type)} {key.name}{default};"
    for axis in axis_names(schema):
        yield f"std::int64_t {axis} = 0;"
    for fixed in schema.fixed_keys:
        yield f"{_type(fixed.name, fixed.type)} {fixed.name} = {literal(fixed.value, fixed.name)};"


def _config_type(schema: Schema) -> str:
    if schema.kind == "operator":
        names = lines((f"{backend.name}," for backend in schema.backends), "  ")
        return f"/// The back ends.\nenum class Config : {_uint_type(len(schema.backends))} {{\n{names}\n}};"
    members = lines((f"{_type(item.name, item.type)} {item.name}{{}};" for item in schema.config), "  ")
    return f"/// One config.\nstruct Config {{\n{members}\n}};"


def _derived_declaration(schema: Schema) -> str:
    if not schema.derived:
        return ""
    members = lines((f"{_type(item.name, item.type)} {item.name}{{}};" for item in schema.derived), "  ")
    return (
        f"\n/// Fields that follow from the problem, whatever its config.\nstruct Derived {{\n{members}\n}};\n\n"
        "/// The derived fields; none where a key has a value outside its domain.\n"
        "std::optional<Derived> derived(const Params& params) noexcept;\n"
    )


_IMAGE_NAME_DECLARATION = """
/// The name of the kernel image for a problem and a config, without a file name's ending.
std::string image_name(const Params& params, const Config& config);
"""


# The source


def _cases(archs: Sequence[str], expression: str) -> str:
    return "".join(f"    case Arch::{arch}: return {expression.format(arch)};\n" for arch in archs)


def _key_tables(schema: Schema) -> Iterator[str]:
    """A search table for each int key; enums and bools need none."""
    for key, codes in zip(schema.keys, key_codes(schema), strict=True):
        if key.type is ValueType.INT:
            yield f"// {key.name}\nconstexpr detail::{_key_table(key, codes)};\n\n"


def _key_table(key: Key, codes: tuple[int, ...]) -> str:
    pairs = sorted((int(value), code) for value, code in zip(key.values, codes, strict=True))
    values, sorted_codes = [value for value, _ in pairs], [code for _, code in pairs]
    first = values[0]
    step = reduce(gcd, (value - first for value in values), 0) or 1
    count = (values[-1] - first) // step + 1
    if count > MAX_KEY_STEPS:
        texts = f"{{{', '.join(map(str, values))}}}, {{{', '.join(map(str, sorted_codes))}}}"
        return f"Sorted<{len(values)}> code_of_{key.name} = {{{texts}}}"
    slots = ["detail::no_code"] * count
    for value, code in pairs:
        slots[(value - first) // step] = str(code)
    return f"Steps<{count}> code_of_{key.name} = {{{first}, {step}U, {{{', '.join(slots)}}}}}"


def _code_terms(schema: Schema) -> Iterator[str]:
    for key, codes in zip(schema.keys, key_codes(schema), strict=True):
        if key.type is ValueType.INT:
            yield f"detail::key_code(code_of_{key.name}, params.{key.name})"
        elif key.type is ValueType.ENUM:
            yield f"static_cast<std::uint32_t>(params.{key.name}) * {codes[1] if len(codes) > 1 else 0}U"
        else:
            by_value = dict(zip(key.values, map(str, codes), strict=True))
            chosen = (f"{code}U" if (code := by_value.get(value)) else "detail::no_code" for value in (True, False))
            yield "(params.{} ? {} : {})".format(key.name, *chosen)


def _guards(schema: Schema) -> Iterator[str]:
    """Checks in front of the lookup: what is invalid, then keys of one value."""
    for name, values in _param_enums(schema):
        yield f"  if (static_cast<std::size_t>(params.{name}) >= {len(values)}U) return {{Status::invalid, 0}};\n"
    axes = axis_names(schema)
    if axes:
        sizes = " | ".join(f"params.{axis}" for axis in axes)
        yield f"  if (({sizes}) < 0) return {{Status::invalid, 0}};\n"
    for fixed in schema.fixed_keys:
        if fixed.type is not ValueType.ENUM:
            wrong = f"params.{fixed.name} != {literal(fixed.value, fixed.name)}"
            yield f"  if ({wrong}) return {{Status::unsupported, 0}};\n"


def _param_enums(schema: Schema) -> Iterator[tuple[str, tuple[Value, ...]]]:
    members = {*schema.key_names, *(key.name for key in schema.fixed_keys)}
    return ((name, values) for name, values in enums(schema) if name in members)


def _cell_steps(schema: Schema) -> Iterator[str]:
    for number, axis in enumerate(axis_names(schema)):
        place = f"detail::bin(Table::axis_{number}, params.{axis})"
        yield f"  cell = cell * Table::axis_{number}.count + {place};\n"


def _enum_texts(schema: Schema) -> Iterator[str]:
    for name, values in enums(schema):
        if schema.kind == "operator" and name in schema.field_names:
            continue
        cases = lines((f'case {name}_t::{value}: return "{value}";' for value in values), "    ")
        yield (
            f"std::string_view text({name}_t value) noexcept {{\n  switch (value) {{\n{cases}\n  }}\n  return {{}};\n}}"
        )


def _derived_definition(schema: Schema) -> str:
    if not schema.derived:
        return ""
    steps = "".join(step for item in schema.derived for step in _derived_steps(item))
    return (
        "\nstd::optional<Derived> derived(const Params& params) noexcept {\n  Derived result;\n"
        f"{steps}  return result;\n}}\n"
    )


def _derived_steps(item: Derived) -> Iterator[str]:
    word = "if"
    for given, result in item.mapping:
        condition = f"params.{item.key} == {literal(given, item.key)}"
        yield f"  {word} ({condition}) {{\n    result.{item.name} = {literal(result, item.name)};\n"
        word = "} else if"
    yield "  } else {\n    return std::nullopt;\n  }\n"


def _image_name_definition(schema: Schema) -> str:
    pieces = [_name_piece("params", key.name, key.type) for key in schema.keys]
    pieces += [_name_piece("config", item.name, item.type) for item in schema.config if item.binary]
    unused = "" if any(item.binary for item in schema.config) else "[[maybe_unused]] "
    return (
        f"\nstd::string image_name(const Params& params, {unused}const Config& config) {{\n"
        f'  detail::ImageName name("{schema.iface}");\n{"".join(pieces)}  return name.finish();\n}}\n'
    )


def _name_piece(owner: str, name: str, kind: ValueType) -> str:
    value = f"{owner}.{name}"
    return f"  name.add({f'text({value})' if kind is ValueType.ENUM else value});\n"


# The table of one arch


def _axis(number: int, bins: tuple[int, ...]) -> str:
    """The axis with the first bin for each width of `size - 1`; see `Axis` in support.h."""
    last = len(bins) - 1
    lowest = [0, *(2 ** (width - 1) + 1 for width in range(1, _WIDTHS - 1))]
    first = [min(bisect_left(bins, size), last) for size in lowest] + [last]
    highest = [2**width for width in range(_WIDTHS - 1)]
    exact = all(min(bisect_left(bins, size), last) == place for size, place in zip(highest, first, strict=False))
    kind = "Axis" if exact else "UnevenAxis"
    values = f"{{{', '.join(map(str, bins))}}}, {{{', '.join(map(str, first))}}}"
    return f"detail::{kind}<{len(bins)}> axis_{number} = {{{values}}}"


def _config_rows(schema: Schema, configs: Sequence[ConfigValues]) -> Iterator[str]:
    if not configs:
        yield "Config{}"
    for config in configs:
        if schema.kind == "operator":
            yield f"Config::{config[0]},"
        else:
            values = (literal(value, item.name) for value, item in zip(config, schema.config, strict=True))
            yield f"{{{', '.join(values)}}},"


def _grids_by_code(table: DispatchTable) -> list[int]:
    """The grid of each code; of sorted codes with one more at the end, for those that are none of them."""
    none = len(table.grids)
    by_code: Mapping[int, int] = dict(zip(table.space.codes, table.grid_of, strict=True))
    if is_direct(table.schema):
        return [by_code.get(code, none) for code in range(code_count(table.schema))]
    return [*(by_code[code] for code in sorted(by_code)), none]


def _code_array(table: DispatchTable) -> str:
    codes = [str(code) for code in sorted(table.space.codes)]
    rows = number_lines(codes or ["0"], 16, "    ")
    return (
        f"  static constexpr std::size_t code_count = {len(codes)}U;\n"
        f"  static constexpr std::uint32_t codes[] = {{\n{rows}\n  }};\n"
    )
