"""The real database: every cell and many lookups between cells, four ways; its images; its sizes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from codegen import Inputs, Options, Previous, generate, read_images, read_index, write
from tests.build import config_values
from tests.codegen.brute import Brute
from tests.codegen.test_answers import cpp_answers, python_answer, resolved_answer, without_derived
from tests.codegen.tools import Compiled, axes_of, generated, needs_compiler, python_iface, python_package, tree
from txtdb.layers.database import Database, load, open_database
from txtdb.model.schema import Schema
from txtdb.model.values import Functional, Value, ValueType

pytestmark = [pytest.mark.real, pytest.mark.slow]

RANDOM_LOOKUPS = 100_000


class Real:
    """The real database, generated once, with the four ways to ask it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.out = generated(root, folder / "out", on_hole="none")
        self.database: Database = load(root)
        self.brute = Brute(root)
        self._compiled: dict[str, Compiled] = {}
        self._values: dict[int, tuple[Value, ...]] = {}

    @cached_property
    def package(self) -> ModuleType:
        return python_package(self.out)

    def module(self, iface: str) -> Any:
        return python_iface(self.package, iface)

    def compiled(self, iface: str) -> Compiled:
        if iface not in self._compiled:
            self._compiled[iface] = Compiled(self.out, self.database.schemas[iface], self.folder / "build")
        return self._compiled[iface]

    def values(self, schema: Schema, config: dict[str, Value]) -> tuple[Value, ...]:
        """The values of a config, kept by the dictionary's identity: palettes are shared by many cells."""
        if id(config) not in self._values:
            self._values[id(config)] = tuple(config[name] for name in schema.field_names)
        return self._values[id(config)]

    @property
    def places(self) -> list[tuple[str, str]]:
        return [(arch, schema.iface) for schema in self.database.schemas.values() for arch in schema.archs]


@pytest.fixture(scope="module")
def real(real_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    return Real(real_db, tmp_path_factory.mktemp("codegen"))


@needs_compiler
def test_row_098_every_cell_of_every_arch(real: Real) -> None:
    cells = 0
    for arch, iface in real.places:
        schema = real.database.schemas[iface]
        functionals, points = real.brute.functionals(arch, iface), points_of(real, arch, schema)
        expected = [config for f in functionals for config in brute_cells(real, arch, schema, f, points)]
        assert list(cpp_cells(real, arch, schema, functionals, points)) == expected
        assert list(python_cells(real, arch, schema, functionals, points)) == expected
        if schema.kind != "fixed":
            assert list(resolved_cells(real, arch, schema, functionals)) == expected
        cells += len(expected)
    # The cells of all resolved tables, padded head dims included, and one for each functional of the fixed kernel.
    assert cells == 2 * 1_188_864 + 960


Config = tuple[Value, ...] | None


def points_of(real: Real, arch: str, schema: Schema) -> list[tuple[int, ...]]:
    if schema.kind == "fixed":
        return [()]
    return list(product(*real.brute.table(arch, schema.iface).bins))


def brute_cells(
    real: Real, arch: str, schema: Schema, functional: Functional, points: list[tuple[int, ...]]
) -> Iterator[Config]:
    if schema.kind == "fixed":
        yield schema.fixed_config
        return
    table = real.brute.table(arch, schema.iface)
    for point in points:
        config = real.brute.cell(table, schema.iface, functional, point)
        yield config and real.values(schema, config)


def cpp_cells(
    real: Real, arch: str, schema: Schema, functionals: list[Functional], points: list[tuple[int, ...]]
) -> Iterator[Config]:
    compiled = real.compiled(schema.iface)
    configs = compiled.configs(arch)
    coded = [[coded_key(key, value) for key, value in zip(schema.keys, f, strict=True)] for f in functionals]
    fixed = [0] * len(schema.fixed_keys)
    rows = np.array([(*f, *point, *fixed) for f in coded for point in points], np.int64)
    for status, index in compiled.lookup(arch, rows):
        assert status in ("kernel", "no kernel")
        yield configs[index] if status == "kernel" else None


def coded_key(key: Any, value: Value) -> int:
    return int(key.values.index(value)) if key.type is ValueType.ENUM else int(value)


def python_cells(
    real: Real, arch: str, schema: Schema, functionals: list[Functional], points: list[tuple[int, ...]]
) -> Iterator[Config]:
    lookup, sizes = real.module(schema.iface).lookup, [dict(zip(axes_of(schema), p, strict=True)) for p in points]
    for functional in functionals:
        keys = dict(zip(schema.key_names, functional, strict=True))
        for size in sizes:
            answer = lookup(arch, **keys, **size)
            assert answer is not real.package.UNSUPPORTED
            yield None if answer is real.package.NO_KERNEL else answer


def resolved_cells(real: Real, arch: str, schema: Schema, functionals: list[Functional]) -> Iterator[Config]:
    table = real.database[arch][schema.iface]
    for functional in functionals:
        yield from (config_values(table, cell) for cell in table.effective(functional).ravel().tolist())


@needs_compiler
def test_row_098_random_lookups_between_the_cells(real: Real) -> None:
    chance = random.Random(20)
    share = -(-RANDOM_LOOKUPS // len(real.places))
    kinds = set()
    for arch, iface in real.places:
        schema, module = real.database.schemas[iface], real.module(iface)
        asked = [random_problem(schema, chance) for _ in range(share)]
        answers = [real.brute.answer(arch, iface, problem) for problem in asked]
        kinds |= {answer if isinstance(answer, str) else "kernel" for answer in answers}
        assert cpp_answers(real.compiled(iface), schema, arch, asked) == answers
        assert [python_answer(real.package, module, arch, problem) for problem in asked] == answers
        if schema.kind != "fixed":
            resolved = [resolved_answer(real.database, arch, iface, problem) for problem in asked]
            assert [without_derived(schema, answer) for answer in resolved] == answers
    assert kinds == {"kernel", "no kernel", "unsupported", "invalid"}


def random_problem(schema: Schema, chance: random.Random) -> dict[str, Value]:
    problem: dict[str, Value] = {key.name: chance.choice(key.values) for key in schema.keys}
    for key in schema.keys:
        if key.type is ValueType.INT and chance.random() < 0.05:
            problem[key.name] = chance.choice([-1, 1, 17, 33, 1024, 2**40])
    for axis in axes_of(schema):
        near = 2 ** chance.randrange(3, 15) + chance.choice([-1, 0, 1])
        problem[axis] = chance.choice([near, chance.randrange(20_000), 0, 8192, 2**62 + chance.randrange(9)])
        if chance.random() < 0.01:
            problem[axis] = -chance.randrange(1, 2**40)
    for fixed in schema.fixed_keys:
        if chance.random() < 0.02:
            problem[fixed.name] = True
    return problem


def test_row_096_images_are_those_that_the_tables_name(real: Real) -> None:
    named = 0
    for arch in real.database:
        listed = [
            (image.iface, image.functional, image.name) for image in read_images(real.out / "manifest" / f"{arch}.json")
        ]
        names = {name for _, _, name in listed}
        assert len(names) == len(listed)
        assert {iface for iface, _, _ in listed} >= {"attn_fwd", "bwd_preprocess"}
        named += sum(not f["PADDED_HEAD"] for iface, f, _ in listed if iface != "bwd_preprocess")
        if arch in ("gfx942", "gfx1151"):
            assert used_names(real, arch) <= names
    # Padded head dims fall back to the others, and are images of their own.
    assert named == 135_597


def used_names(real: Real, arch: str) -> set[str]:
    used = set()
    for schema in real.database.schemas.values():
        if schema.kind == "operator" or schema.for_arch(arch) is None:
            continue
        module = real.module(schema.iface)
        for functional in real.brute.functionals(arch, schema.iface):
            keys = dict(zip(schema.key_names, functional, strict=True))
            for point in points_of(real, arch, schema):
                answer = module.lookup(arch, **keys, **dict(zip(axes_of(schema), point, strict=True)))
                used.add(module.image_name(answer, **keys))
    return used


def test_the_holes_are_faults_unless_accepted(real: Real) -> None:
    result = generate(real.database, Options(), Inputs(real.database))
    counts = {place: len(holes) for place, holes in result.holes.items()}
    assert counts == {("gfx1200", "op_attn_bwd"): 4, ("gfx1201", "op_attn_bwd"): 4, ("gfx950", "op_attn_fwd"): 10}
    assert [fault.rule for fault in result.faults] == ["hole"] * 3
    assert "index.json" not in result.files


@pytest.mark.parametrize(("arch", "made"), [("gfx950", 1), ("gfx1100", 8)])
def test_one_changed_patch_costs_its_tables_only(real: Real, arch: str, made: int, tmp_path: Path) -> None:
    root, out = Path(shutil.copytree(real.root, tmp_path / "db")), Path(shutil.copytree(real.out, tmp_path / "out"))
    head = (root / arch / "attn_fwd.txtdb").read_text().splitlines()
    lines = [line for line in head if line.startswith(("#! iface", "#! arch", "#! key", "#! config"))]
    config = next(line for line in head if " = " in line)
    symbol, functional = config.split()[0], next(line for line in head if line.startswith("["))
    axes = ["#! axis Max_seqlen_q 16", "#! axis Max_seqlen_k 16"]
    text = ["#! dbpatch 1", *lines[:3], *axes, lines[3], config, functional, f"16 {symbol}", "#! end", ""]
    (root / arch / "attn_fwd.0010-x.dbpatch").write_text("\n".join(text))
    database, old = open_database(root), read_index(out)
    assert old is not None
    result = generate(database, Options(on_hole="none"), Inputs(database), Previous(out, old))
    assert sum(not unit.reused for unit in result.units) == made
    write(out, result, old)
    assert tree(out) == tree(generated(root, tmp_path / "clean", on_hole="none"))


def test_files_of_one_arch_do_not_depend_on_the_others(real: Real, tmp_path: Path) -> None:
    everything, one = tree(real.out), tree(generated(real.root, tmp_path / "one", archs=("gfx1151",)))
    own = [path for path in one if "gfx1151" in path]
    assert len(own) == 13
    assert all(one[path] == everything[path] for path in own)
    assert all(one[path] == everything[path] for path in one if path.endswith(".h") and "archs" not in path)
