"""Cells whose image could not be built, and what is compiled when."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.aot.plan import TablePlan
from codegen.aot.reassign import reassign
from codegen.aot.result import CRASH, OK, OUT_OF_RESOURCES, TIMEOUT, judged
from tests.aot.tiny import BLOCKS, FIELDS, failed, fake, make_root, plans_of, table
from tests.codegen.tools import generated, tree


@pytest.fixture
def plan(tmp_path: Path) -> TablePlan:
    return plans_of(make_root(tmp_path, "gfx942"), "gfx942")[1][0]


def replacements(plan: TablePlan, failing: dict[str, str]) -> dict[str, str]:
    """Image → stand-in, where images whose names hold a text fail with a status."""

    def result_of(wanted):
        statuses = [status for text, status in failing.items() if text in wanted.name]
        return failed(statuses[0]) if statuses else fake(wanted)[0]

    replaced, faults = reassign(plan, result_of)
    assert faults == ()
    return {item.wanted.name: item.by.name for item in replaced}


def test_row_092_a_failed_image_goes_to_the_built_one_that_serves_most_cells(tmp_path: Path) -> None:
    """c2 fails and is used in 2 cells: both go to the built config with most cells; the tables stay as they are."""
    root = make_root(tmp_path, "gfx942")
    before = tree(generated(root, tmp_path / "before"))
    _, (plan,) = plans_of(root, "gfx942")
    replaced, faults = reassign(plan, lambda w: failed(CRASH) if w.config[0] == 64 and not w.config[2] else fake(w)[0])
    (item,) = replaced
    assert faults == ()
    assert item.wanted.config == (64, 32, False, 0, 4, 1)
    assert item.by.config == (32, 32, False, 0, 4, 1)
    assert item.cells == ((1024, 256), (1024, 1024))
    assert tree(generated(root, tmp_path / "after")) == before


def test_row_092_nothing_left_is_a_fault(plan: TablePlan) -> None:
    replaced, faults = reassign(plan, lambda wanted: failed(TIMEOUT))
    assert replaced == ()
    assert [fault.rule for fault in faults] == ["nothing-built"] * 2
    assert "CAUSAL_TYPE=3" in faults[1].message
    assert "timeout" in faults[1].message


def test_equal_counts_are_settled_by_the_order_of_configs(tmp_path: Path) -> None:
    """Three configs with two cells each; the configs' order is that of their values, not that of the symbols."""
    palette = {"z": "16 32 false 0 4 1", "y": "32 16 false 0 4 1", "x": "32 32 false 0 4 1"}
    blocks = {functional: ["64 x*2 y", "1024 y z*2"] for functional in BLOCKS}
    root = make_root(tmp_path, "gfx942", files={"gfx942/attn_fwd.txtdb": table("gfx942", blocks, palette)})
    plan = plans_of(root, "gfx942")[1][0]
    for name, by in replacements(plan, {"-32-32-false-0-4-1": CRASH}).items():
        assert by == name.replace("-32-32-false-0-4-1", "-16-32-false-0-4-1")
    for name, by in replacements(plan, {"-16-32-false-0-4-1": CRASH}).items():
        assert by == name.replace("-16-32-false-0-4-1", "-32-16-false-0-4-1")


def test_functionals_are_settled_by_themselves(plan: TablePlan) -> None:
    """`a` fails for the causal functional only: the other one keeps it."""
    assert replacements(plan, {"bf16-3-32-false-false-0-32-32": TIMEOUT}) == {
        "attn_fwd-bf16-3-32-false-false-0-32-32-false-0-4-1": "attn_fwd-bf16-3-32-false-false-0-64-32-true-2-2-1"
    }


def test_configs_that_differ_in_other_fields_only_are_one_image(tmp_path: Path) -> None:
    """A field that does not change the binary: two configs, one image, counted together."""
    root = make_root(tmp_path, "gfx942")
    schema = root / "schema" / "attn_fwd.toml"
    old = 'name = "num_stages"\ntype = "int"\n'
    schema.write_text(schema.read_text().replace(old, old + "binary = false\n"))
    blocks = {functional: ["64 a d*2", "1024 b*3"] for functional in BLOCKS}
    palette = {"a": "32 32 false 0 4 1", "b": "64 32 false 0 4 1", "d": "32 32 false 0 4 2"}
    (root / "gfx942" / "attn_fwd.txtdb").write_text(table("gfx942", blocks, palette))
    plan = plans_of(root, "gfx942")[1][0]
    first = plan.wanted[0]
    assert [wanted.cells for wanted in plan.wanted] == [3, 3, 3, 3]
    assert plan.field_names == tuple(FIELDS.split()[:-1])
    assert plan.cells_of(first) == [(64, 64), (64, 256), (64, 1024)]


def test_an_image_that_no_device_can_launch_has_run_out_of_resources(plan: TablePlan) -> None:
    small, _ = fake(plan.wanted[0], shared=65536)
    large, _ = fake(plan.wanted[0], shared=65537)
    assert judged(small, 65536).status == OK
    assert judged(large, 65536).status == OUT_OF_RESOURCES
    assert judged(large, 65536).detail == "65537 bytes of local memory; the arch has 65536"
    assert judged(large, None).status == OK
    assert judged(failed(CRASH), 1) == failed(CRASH)


def test_a_padded_functional_asks_for_the_configs_of_its_fallback(tmp_path: Path) -> None:
    root = make_root(tmp_path, "gfx942")
    schema = root / "schema" / "attn_fwd.toml"
    old = 'name = "PADDED_HEAD"\ntype = "bool"\nvalues = [false]'
    schema.write_text(schema.read_text().replace(old, old.replace("values = [false]", "fallback = false")))
    plan = plans_of(root, "gfx942")[1][0]
    padded = [wanted for wanted in plan.wanted if wanted.functional[4]]
    assert [(wanted.config[0], wanted.cells) for wanted in padded] == [(32, 4), (64, 2), (32, 3), (64, 3)]


def test_an_interface_without_axes_has_one_cell_a_functional(tmp_path: Path) -> None:
    _, plans = plans_of(make_root(tmp_path, "gfx942", helper=True), "gfx942")
    helper = plans[1]
    assert [helper.cells_of(wanted) for wanted in helper.wanted] == [[()], [()]]
    assert [wanted.name for wanted in helper.wanted] == [
        "bwd_preprocess-bf16-32-false-32-4",
        "bwd_preprocess-bf16-32-true-32-4",
    ]
