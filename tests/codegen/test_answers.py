"""Generated C++ = generated Python = `resolve` = a brute-force resolver, on small databases of every kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from codegen import image_name, read_images
from tests.build import make_db
from tests.codegen import databases
from tests.codegen.brute import INVALID, NO_KERNEL, UNSUPPORTED, Answer, Brute
from tests.codegen.tools import (
    Compiled,
    axes_of,
    generated,
    needs_compiler,
    plain_fixed,
    problem_row,
    python_iface,
    python_package,
)
from txtdb.layers.database import Database, load
from txtdb.layers.resolved import Absent, LookupFault
from txtdb.model.schema import Schema
from txtdb.model.values import Value, ValueType

Problem = dict[str, Value]


def layered(axes: int) -> Callable[[Path], tuple[Path, list[Path]]]:
    return lambda folder: databases.layered(folder, axes)


def alone(make: Callable[[Path], Path]) -> Callable[[Path], tuple[Path, list[Path]]]:
    return lambda folder: (make(folder), [])


CASES: dict[str, Callable[[Path], tuple[Path, list[Path]]]] = {
    "one axis": layered(1),
    "two axes": layered(2),
    "three axes": layered(3),
    "four axes": layered(4),
    "the small example": alone(make_db),
    "300 configs": alone(databases.many_configs),
    "twelve keys": alone(databases.twelve_keys),
    "sorted codes": alone(databases.many_codes),
    "operator and fixed kernel": alone(databases.operators),
}


def problems(brute: Brute, schema: Schema, arch: str) -> list[Problem]:
    """Every functional of the schema at sizes on, below and above each bin; then random ones; then wrong ones."""
    chance = random.Random(11)
    axes = axes_of(schema)
    bins = brute.table(arch, schema.iface).bins if axes else []
    near = [sorted({size for b in own for size in (b - 1, b, b + 1) if size >= 0} | {0, 10**12}) for own in bins]
    functionals = list(product(*(key.values for key in schema.keys)))
    if len(functionals) > 400:
        functionals = chance.sample(functionals, 150) + brute.functionals(arch, schema.iface)[:200]
    points = (
        list(product(*near))
        if np.prod([len(own) for own in near]) < 150
        else [tuple(map(chance.choice, near)) for _ in range(100)]
    )
    found = [dict(zip((*schema.key_names, *axes), (*f, *at), strict=True)) for f in functionals for at in points[:150]]
    for _ in range(500):
        one = dict(chance.choice(found))
        for name in axes:
            one[name] = chance.choice([chance.randrange(6000), 2 ** chance.randrange(62), -1, 2**63 - 1])
        for key in schema.keys:
            if key.type is ValueType.INT and chance.random() < 0.2:
                one[key.name] = chance.choice([-5, 1, 2, 33, 10**17, -(10**17)])
        for fixed in plain_fixed(schema):
            if chance.random() < 0.3:
                one[fixed.name] = chance.choice([True, False] if fixed.type is ValueType.BOOL else [8, 16])
        found.append(one)
    return chance.sample(found, min(len(found), 6000))


def resolved_answer(database: Database, arch: str, iface: str, problem: Problem) -> Answer:
    try:
        answer = database[arch][iface].lookup(**problem)
    except LookupFault:
        return INVALID
    return str(answer) if isinstance(answer, Absent) else dict(answer)


def python_answer(package: Any, module: Any, arch: str, problem: Problem) -> Answer:
    try:
        answer = module.lookup(arch, **problem)
    except package.LookupFault:
        return INVALID
    if isinstance(answer, package.Absent):
        return str(answer.value)
    return dict(answer._asdict())


def without_derived(schema: Schema, answer: Answer) -> Answer:
    derived = [item.name for item in schema.derived]
    return answer if isinstance(answer, str) else {n: v for n, v in answer.items() if n not in derived}


@dataclass(frozen=True)
class Case:
    """A database, generated and compiled."""

    out: Path
    database: Database
    brute: Brute
    package: ModuleType
    compiled: dict[str, Compiled]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("case")
    root, overlays = CASES[request.param](folder)
    out = generated(root, folder / "out", overlays, on_hole="none")
    database = load(root, overlays)
    compiled = {iface: Compiled(out, schema, folder / "build") for iface, schema in database.schemas.items()}
    return Case(out, database, Brute(root, overlays), python_package(out), compiled)


@needs_compiler
def test_row_098_cpp_python_resolve_and_brute_force_agree(case: Case) -> None:
    seen: set[str] = set()
    for schema in case.database.schemas.values():
        module = python_iface(case.package, schema.iface)
        for arch in schema.archs:
            asked = problems(case.brute, schema, arch)
            answers = [case.brute.answer(arch, schema.iface, problem) for problem in asked]
            seen |= {answer if isinstance(answer, str) else "kernel" for answer in answers}
            assert [python_answer(case.package, module, arch, problem) for problem in asked] == answers
            assert cpp_answers(case.compiled[schema.iface], schema, arch, asked) == answers
            if schema.kind != "fixed":
                found = [resolved_answer(case.database, arch, schema.iface, problem) for problem in asked]
                assert [without_derived(schema, answer) for answer in found] == answers
    assert "kernel" in seen
    assert {NO_KERNEL, UNSUPPORTED, INVALID} & seen


def cpp_answers(compiled: Compiled, schema: Schema, arch: str, asked: list[Problem]) -> list[Answer]:
    configs = compiled.configs(arch)
    rows = np.array([problem_row(schema, problem) for problem in asked], np.int64)
    return [
        dict(zip(schema.field_names, configs[index], strict=True)) if status == "kernel" else status
        for status, index in compiled.lookup(arch, rows)
    ]


@needs_compiler
def test_row_096_image_names_agree_and_are_in_the_manifest(case: Case) -> None:
    for arch in case.package.ARCHS:
        listed = [image.name for image in read_images(case.out / "manifest" / f"{arch}.json")]
        assert len(listed) == len({name.lower() for name in listed})
        used: set[str] = set()
        for schema in case.database.schemas.values():
            if schema.for_arch(arch) is not None and schema.kind != "operator":
                used |= agreed_names(case, schema, arch)
        assert used <= set(listed)
        assert all(len(name) <= 96 for name in listed)


def agreed_names(case: Case, schema: Schema, arch: str) -> set[str]:
    module, iface = python_iface(case.package, schema.iface), schema.iface
    answers = [(problem, case.brute.answer(arch, iface, problem)) for problem in problems(case.brute, schema, arch)]
    asked = [problem for problem, answer in answers if isinstance(answer, dict)]
    rows = np.array([problem_row(schema, problem) for problem in asked], np.int64)
    names = [python_name(module, schema, arch, problem) for problem in asked]
    assert case.compiled[iface].names(arch, rows) == names
    assert names == [own_name(schema, answer, problem) for problem, answer in answers if isinstance(answer, dict)]
    return set(names)


def python_name(module: Any, schema: Schema, arch: str, problem: Problem) -> str:
    keys = {key.name: problem[key.name] for key in schema.keys}
    return str(module.image_name(module.lookup(arch, **problem), **keys))


def own_name(schema: Schema, config: Mapping[str, Value], problem: Mapping[str, Value]) -> str:
    return image_name(
        schema, tuple(problem[key.name] for key in schema.keys), tuple(config[f.name] for f in schema.config)
    )


@needs_compiler
def test_derived_fields_of_cpp_and_python_agree_with_resolve(tmp_path: Path) -> None:
    root = databases.operators(tmp_path)
    out = generated(root, tmp_path / "out")
    schema, module = load(root).schemas["f"], python_iface(python_package(out), "f")
    asked = [{"dtype": d, "causal": c, "n": 1} for d, c in product(["fp16", "bf16"], [0, 3, 7])]
    rows = np.array([problem_row(schema, problem) for problem in asked], np.int64)
    from_python = [module.derived(dtype=problem["dtype"], causal=problem["causal"]) for problem in asked]
    assert Compiled(out, schema, tmp_path / "build").derived("gfxA", rows) == [
        f"i:{d.persistent}|e:{d.math}|b:{int(d.wide)}" if d else "" for d in from_python
    ]
    table = load(root)["gfxA"]["f"]
    known = dict(table.lookup(dtype="fp16", causal=3, n=64))  # type: ignore[arg-type]
    assert from_python[1]._asdict() == {name: known[name] for name in ("persistent", "math", "wide")}


@needs_compiler
def test_fallback_keys_may_be_left_out(tmp_path: Path) -> None:
    root, overlays = databases.layered(tmp_path, 1)
    out = generated(root, tmp_path / "out", overlays, on_hole="none")
    module = python_iface(python_package(out), "f")
    assert module.lookup("gfxB", dtype="bf16", dim=16, n0=5) == module.lookup(
        "gfxB", dtype="bf16", pad=False, dim=16, n0=5
    )
    assert "bool pad = false;" in (out / "cpp" / "f.h").read_text()


def test_row_110_python_takes_sizes_by_name(tmp_path: Path) -> None:
    out = generated(make_db(tmp_path), tmp_path / "out")
    lookup = python_iface(python_package(out), "attn_fwd").lookup
    keys = {"dtype": "fp16", "causal": 0, "head_dim": 64}
    one = lookup("gfxB", **keys, seqlen_q=256, seqlen_k=64)
    assert lookup("gfxB", seqlen_k=64, seqlen_q=256, **keys) == one
    assert lookup("gfxB", **keys, seqlen_q=64, seqlen_k=256) != one
    with pytest.raises(TypeError):
        lookup("gfxB", "fp16", 0, 64, 256, 64)


WRONG_ARGUMENTS: dict[str, Problem] = {
    "bool for int": {"causal": False},
    "int for bool": {"alibi": 0},
    "float for int": {"n": 64.0},  # type: ignore[dict-item]
    "int for enum": {"dtype": 0},
    "unknown enum value": {"dtype": "fp8"},
    "negative size": {"n": -1},
    "bool for a fixed int": {"bits": True},
    "int for a fixed enum": {"layout": 1},
}


@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS)
def test_python_refuses_what_resolve_refuses(wrong: str, tmp_path: Path) -> None:
    root = databases.operators(tmp_path)
    package = python_package(generated(root, tmp_path / "out"))
    problem = {"dtype": "fp16", "causal": 0, "n": 64} | WRONG_ARGUMENTS[wrong]
    assert resolved_answer(load(root), "gfxA", "f", problem) == INVALID
    assert python_answer(package, python_iface(package, "f"), "gfxA", problem) == INVALID


def test_a_text_subclass_is_a_text(tmp_path: Path) -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        __slots__ = ()

    lookup = python_iface(python_package(generated(databases.operators(tmp_path), tmp_path / "out")), "f").lookup
    assert lookup("gfxA", dtype=Text("fp16"), causal=Number(3), n=Number(64)).tile == 16


@needs_compiler
def test_archs_are_found_by_alias_case_and_features(tmp_path: Path) -> None:
    root = databases.operators(tmp_path)
    out = generated(root, tmp_path / "out")
    package, compiled = python_package(out), Compiled(out, load(root).schemas["op"], tmp_path / "build")
    for name in ("gfxA", "GFXA:sramecc+:xnack-", "alpha", "ALPHA:xnack+"):
        assert package.find_arch(name) == compiled.text("arch", name) == "gfxA"
    with pytest.raises(package.LookupFault, match="known are gfxA, gfxB"):
        package.find_arch("gfx")
    module = python_iface(package, "op")
    assert module.lookup("Alpha", dtype="fp16", causal=0, n=1) == module.lookup("gfxA", dtype="fp16", causal=0, n=1)
    assert module.lookup("gfxB", dtype="fp16", causal=0, n=1) is package.UNSUPPORTED


@needs_compiler
def test_the_digest_of_the_inputs_is_in_both_languages(tmp_path: Path) -> None:
    root = databases.operators(tmp_path)
    out = generated(root, tmp_path / "out")
    compiled = Compiled(out, load(root).schemas["op"], tmp_path / "build")
    module = python_iface(python_package(out), "op")
    assert module.inputs_digest("gfxA") == compiled.text("digest", "gfxA")
    assert compiled.text("digest", "gfxA").startswith("sha256:")
    assert module.inputs_digest("gfxB") == compiled.text("digest", "gfxB") == ""


def test_configs_by_index_are_those_of_lookups(tmp_path: Path) -> None:
    module = python_iface(python_package(generated(make_db(tmp_path), tmp_path / "out")), "attn_fwd")
    config = module.lookup("gfxB", dtype="fp16", causal=0, head_dim=64, seqlen_q=256, seqlen_k=256)
    assert config in module.configs("gfxB")
    assert config == module.Config(BLOCK_M=128, PRE_LOAD_V=False, num_warps=8, num_stages=2, waves_per_eu=0)
