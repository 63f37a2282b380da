"""Writes the starter tables of `amd/` from its schemas and arch facts: `python -m tools.starter [ROOT]`.

archs.toml and schema/ are written by hand; tables, patches and the files that only name a base come from here.
Running it again changes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from tools.starter.rule import VERSION, Problem, choose, few_queries
from txtdb.faults import FaultError
from txtdb.files import write_if_changed
from txtdb.layers.database import load
from txtdb.layers.resolve import Layer, empty_fold, fold_layer, ground_digest
from txtdb.model.archs import Arch
from txtdb.model.schema import ArchSchema
from txtdb.model.table import UNSET, Cells, ConfigPool, build_table
from txtdb.model.values import Functional, Value
from txtdb.model.writing import table_text
from txtdb.syntax import read

IFACE = "attn_fwd"
OWN_TABLES = ("gfx942", "gfx950", "gfx1100", "gfx1201")
PATCHED = ("gfx942", "gfx1100")
BASES = {
    **dict.fromkeys(
        ("gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170", "gfx1171"), "gfx1100"
    ),
    "gfx1200": "gfx1201",
}
PATCH_NAME = f"{IFACE}.0010-few-queries.dbpatch"
PATCH_WHY = "few queries, many keys: half the key tile and a second stage, in the same local memory"
ORIGIN = f"modelled {VERSION}"


def main() -> None:
    """Write every file whose content would change, and say which."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.starter",
        description="Write the starter tables of a database from its schemas and arch facts.",
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path("amd"), help="the database  [default: amd]")
    root = parser.parse_args().root
    try:
        made = files(root)
    except FaultError as error:
        parser.error(str(error))
    written = [path for path, text in sorted(made.items()) if write_if_changed(path, text.encode())]
    print("\n".join(path.as_posix() for path in written) or "unchanged")


def files(root: Path) -> dict[Path, str]:
    """Path → text of all files that the rule makes."""
    database = load(root)
    schema = database.schemas[IFACE]
    made: dict[Path, str] = {}
    for name in OWN_TABLES:
        arch_schema = schema.for_arch(name)
        assert arch_schema is not None, f"the schema has no section for {name}"
        made.update(_own_files(root, database.archs[name], arch_schema))
    for name, base in BASES.items():
        lines = ("#! txtdb 1", f"#! iface {IFACE}", f"#! arch {name}", f"#! base {base}", f"#! origin {ORIGIN}")
        made[root / name / f"{IFACE}.txtdb"] = "\n".join((*lines, "#! end", ""))
    return made


def _own_files(root: Path, arch: Arch, arch_schema: ArchSchema) -> Iterator[tuple[Path, str]]:
    pool = ConfigPool()
    table, patch = _grids(arch, arch_schema, pool)
    folder = root / arch.name
    text = _text(arch_schema, arch.name, table, pool, {"origin": [ORIGIN]})
    yield folder / f"{IFACE}.txtdb", text
    if arch.name in PATCHED:
        header = {"origin": [ORIGIN], "why": [PATCH_WHY]}
        unanchored = _text(arch_schema, arch.name, patch, pool, header, "dbpatch")
        onto = _ground(arch_schema, text, unanchored)
        yield folder / PATCH_NAME, _text(arch_schema, arch.name, patch, pool, {**header, "onto": [onto]}, "dbpatch")


def _grids(arch: Arch, arch_schema: ArchSchema, pool: ConfigPool) -> tuple[Cells, Cells]:
    """The cells of table and patch, each of shape (functionals, Max_seqlen_q, Max_seqlen_k)."""
    shape = (len(arch_schema.declared), *map(len, arch_schema.bins))
    table, patch = np.full(shape, UNSET, np.int32), np.full(shape, UNSET, np.int32)
    for number, functional in enumerate(arch_schema.declared):
        for place in product(*map(range, shape[1:])):
            sizes = [bins[index] for bins, index in zip(arch_schema.bins, place, strict=True)]
            problem = _problem(arch_schema, functional, sizes)
            config = choose(arch, problem)
            table[(number, *place)] = _intern(arch_schema, pool, config)
            better = few_queries(problem, config)
            if better:
                patch[(number, *place)] = _intern(arch_schema, pool, better)
    return table, patch


def _problem(arch_schema: ArchSchema, functional: Functional, sizes: list[int]) -> Problem:
    keys = arch_schema.schema.functional_dict(functional)
    return Problem(
        dtype=str(keys["Q_dtype"]),
        head_dim=int(keys["BLOCK_DMODEL"]),
        dropout=bool(keys["ENABLE_DROPOUT"]),
        bias=bool(keys["BIAS_TYPE"]),
        seqlen_q=sizes[0],
        seqlen_k=sizes[1],
    )


def _intern(arch_schema: ArchSchema, pool: ConfigPool, config: Mapping[str, Value]) -> int:
    values = tuple(config[name] for name in arch_schema.schema.field_names)
    assert not arch_schema.illegal(values), f"{config}: {arch_schema.illegal(values)}"
    return pool.intern(values)


def _text(
    arch_schema: ArchSchema,
    arch: str,
    cells: Cells,
    pool: ConfigPool,
    header: Mapping[str, list[str]],
    kind: str = "txtdb",
) -> str:
    return table_text(arch_schema.schema, arch, arch_schema.declared, arch_schema.bins, cells, pool, header, kind)


def _ground(arch_schema: ArchSchema, table: str, patch: str) -> str:
    """The digest for `#! onto`: what the table holds under the cells of the patch."""
    schema, arch = arch_schema.schema, arch_schema.section.arch
    pool = ConfigPool()
    layers = []
    for text in (table, patch):
        source, faults = read(text.encode(), "made")
        assert source is not None and not faults, faults
        layers.append(Layer("table", 0, arch, "made", build_table(source, schema, arch, pool)[0]))
    below = fold_layer(empty_fold(len(schema.axes)), layers[0], 0)
    return ground_digest(schema, pool, below, layers[1].table)


if __name__ == "__main__":
    main()
