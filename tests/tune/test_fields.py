"""Candidate fields, and how a file or a tunable narrows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tune.bench import CONFIGS, make_bench
from txtdb.faults import Fault
from txtdb.layers.database import load
from txtdb.model.schema import Predicate
from txtdb.tune.device import Task
from txtdb.tune.fields import Cell as FieldCell
from txtdb.tune.fields import full_config, narrowed, ordered, read_candidates, schema_field, task_of
from txtdb.tune.tunable import TUNABLES_GROUP, find_tunable
from txtdb.tune.tunable_faults import TunableFault

CELL = FieldCell((64,), (64, 128))


@pytest.fixture
def arch_schema(tmp_path):
    return load(make_bench(tmp_path).root).schemas["attn_fwd"].for_arch("gfxA")


def test_the_field_is_the_product_of_the_domains(arch_schema):
    assert schema_field(arch_schema) == CONFIGS


def test_the_field_leaves_out_what_is_illegal_on_the_arch(arch_schema):
    section = replace(arch_schema.section, illegal=(Predicate((("BLOCK_M", (64,)), ("num_warps", (2,)))),))
    assert schema_field(replace(arch_schema, section=section)) == tuple(c for c in CONFIGS if c != (64, 2))


def test_a_domain_without_bounds_is_a_fault(arch_schema):
    config = (replace(arch_schema.schema.config[0], values=(), minimum=1), arch_schema.schema.config[1])
    found = schema_field(replace(arch_schema, schema=replace(arch_schema.schema, config=config)))
    assert isinstance(found, Fault)
    assert found.message == "`BLOCK_M` has no bounds"


def test_a_field_that_is_too_large_is_a_fault(arch_schema):
    config = tuple(replace(item, values=(), minimum=1, maximum=2000) for item in arch_schema.schema.config)
    found = schema_field(replace(arch_schema, schema=replace(arch_schema.schema, config=config)))
    assert isinstance(found, Fault)
    assert "more than 1000000 configs" in found.message


def test_the_order_follows_from_the_content_alone(arch_schema):
    schema = arch_schema.schema
    assert ordered(schema, CONFIGS) == ordered(schema, [*reversed(CONFIGS), CONFIGS[0]])
    assert sorted(ordered(schema, CONFIGS)) == sorted(CONFIGS)
    assert ordered(schema, CONFIGS) != CONFIGS


def test_candidates_of_a_file_may_be_spelled_in_any_order(arch_schema):
    text = "# two\nBLOCK_M=16 num_warps=4\nnum_warps=2 BLOCK_M=64  # the second\n\n"
    assert read_candidates(text, "c.txt", arch_schema) == (((16, 4), (64, 2)), [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("BLOCK_M=16", "`num_warps` is missing and has no default"),
        ("BLOCK_M=17 num_warps=2", "BLOCK_M = 17 is outside its domain (16 32 64)"),
        ("BLOCK=16 num_warps=2", "unknown name `BLOCK`"),
        ("BLOCK_M=true num_warps=2", "BLOCK_M: expected int, found bool `true`"),
    ],
)
def test_each_wrong_line_of_a_file_is_told_with_its_place(arch_schema, line, message):
    configs, (fault,) = read_candidates(f"BLOCK_M=16 num_warps=2\n{line}\n", "c.txt", arch_schema)
    assert (str(fault.span), fault.message) == ("c.txt:2:1", message)
    assert configs == ((16, 2),)


class Narrow:
    def __init__(self, keep):
        self.keep = keep

    def narrow(self, task: Task, configs):
        assert task.at == {"seqlen_q": 64, "seqlen_k": 128}
        return self.keep(configs)


def test_a_tunable_narrows_the_field(arch_schema):
    schema = arch_schema.schema
    tunable = Narrow(lambda configs: [config for config in configs if config["BLOCK_M"] == 16])
    task = task_of(schema, "gfxA", CELL)
    assert narrowed(tunable, schema, task, (64,), CONFIGS) == ((16, 2), (16, 4))
    assert narrowed(None, schema, task, (64,), CONFIGS) == CONFIGS
    assert full_config(schema, (64,), (16, 2)) == {"BLOCK_M": 16, "num_warps": 2}


def test_a_tunable_cannot_add_to_the_field(arch_schema):
    tunable = Narrow(lambda configs: [*configs, {"BLOCK_M": 7, "num_warps": 2}])
    with pytest.raises(TunableFault, match="not of the field"):
        narrowed(tunable, arch_schema.schema, task_of(arch_schema.schema, "gfxA", CELL), (64,), CONFIGS)


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """Makes a package that is installed with entry points."""

    def offer(code: str, **points: str) -> None:
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "offered_tunables.py").write_text(code, encoding="utf-8")
        info = tmp_path / "site" / "offered-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n", encoding="utf-8")
        lines = [f"{name} = offered_tunables:{value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{TUNABLES_GROUP}]", *lines, ""]), encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.delitem(__import__("sys").modules, "offered_tunables", raising=False)

    return offer


WHOLE = """
class Whole:
    iface = "some_kernel"
    asks = restored = zeroed = ()
    def _any(self, *args): ...
    source = functional_source = _any
    narrow = timing_problem = accuracy_problems = confirmation_problems = arguments = compile = call = results = _any
    reference = tolerance = policy = _any
class Part:
    iface = "some_kernel"
    asks = restored = zeroed = ()
"""


def test_a_tunable_is_found_by_its_interface(offered):
    offered(WHOLE, some_kernel="Whole")
    found = find_tunable("some_kernel")
    assert found is not None
    assert found.iface == "some_kernel"
    assert find_tunable("no_such_kernel") is None


def test_a_tunable_that_lacks_something_is_refused_whole(offered):
    offered(WHOLE, some_kernel="Part")
    with pytest.raises(TunableFault, match="it has no policy, source, functional_source, narrow, timing_problem"):
        find_tunable("some_kernel")


def test_a_tunable_under_another_name_is_refused(offered):
    offered(WHOLE, other_kernel="Whole")
    with pytest.raises(TunableFault, match="tunes some_kernel"):
        find_tunable("other_kernel")
