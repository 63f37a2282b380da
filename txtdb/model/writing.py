"""Cells → the text of a new file, in canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from txtdb.model.schema import Schema
from txtdb.model.table import UNSET, Cells, ConfigPool, ConfigValues
from txtdb.model.values import Functional, functional_rank, print_values
from txtdb.syntax.grid import Shape, encode_cells, merge_rows
from txtdb.syntax.symbols import symbol_at

Header = Mapping[str, Sequence[str]]


def table_text(
    schema: Schema,
    arch: str,
    functionals: Sequence[Functional],
    bins: tuple[tuple[int, ...], ...],
    cells: Cells,
    pool: ConfigPool,
    header: Header | None = None,
    kind: str = "txtdb",
) -> str:
    """The text of a table or patch. `cells` has shape (functionals, bins of axis 1, …); see `FileTable`.

    `header` gives further directives by name, each with the texts after it (`{"origin": ["imported x"]}`). Symbols go
    to configs by how many runs they make, so that the most frequent are the shortest. Fields that all configs leave at
    their default are left out.
    """
    shape = Shape(tuple(zip(schema.axis_names, bins, strict=True)))
    rows = cells.reshape(len(functionals), shape.rows, shape.width)
    used = _by_frequency(rows, pool)
    fields = _needed_fields(schema, [pool[number] for number in used])
    names = {number: symbol_at(place) for place, number in enumerate(used)}
    lines = [f"#! {kind} 1", *_header(schema, arch, header or {}, shape, fields, bool(functionals))]
    for number in used:
        config = schema.config_dict(pool[number])
        entry = f"{names[number]} = {print_values(config[name] for name in fields)}"
        lines.extend(("", entry) if number == used[0] else (entry,))
    for place in sorted(range(len(functionals)), key=lambda place: functional_rank(functionals[place])):
        block = list(_block_rows(shape, rows[place], names))
        if block:
            lines.extend(("", f"[{print_values(functionals[place])}]", *block))
    return "\n".join([*lines, "#! end"]) + "\n"


def _header(
    schema: Schema, arch: str, header: Header, shape: Shape, fields: list[str], has_cells: bool
) -> Iterator[str]:
    yield f"#! iface {schema.iface}"
    yield f"#! arch {arch}"
    for name in ("base", "origin", "why", "evidence", "onto"):
        for text in header.get(name, ()):
            yield f"#! {name} {text}"
    if has_cells:
        yield f"#! key {' '.join(schema.key_names)}"
        for axis, bins in shape.axes:
            yield f"#! axis {axis} {' '.join(map(str, bins))}"
        yield f"#! config {' '.join(fields)}"


def _block_rows(shape: Shape, rows: Cells, names: Mapping[int, str]) -> Iterator[str]:
    listed = [
        (place, encode_cells(row, names), ()) for place, row in enumerate(rows.tolist()) if any(c != UNSET for c in row)
    ]
    return (line for line, _ in merge_rows(shape, listed))


def _by_frequency(rows: Cells, pool: ConfigPool) -> list[int]:
    """Config numbers, those with the most runs first; equal ones by content."""
    runs: Counter[int] = Counter()
    for block in rows.tolist():
        above: list[int] = []
        for row in block:
            if row != above:
                runs.update(
                    cell for cell, left in zip(row, [UNSET, *row[:-1]], strict=True) if cell != left and cell >= 0
                )
            above = row
    return sorted(runs, key=lambda number: (-runs[number], functional_rank(pool[number])))


def _needed_fields(schema: Schema, configs: Sequence[ConfigValues]) -> list[str]:
    """Fields without a default and those that any config sets to another value; never none."""
    fields = [
        item.name
        for place, item in enumerate(schema.config)
        if item.default is None or any(config[place] != item.default for config in configs)
    ]
    return fields or [schema.field_names[0]]
