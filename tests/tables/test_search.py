"""Which candidates are compiled next, and what is known of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import txtdb
from codegen.aot import BuildFolder, Resources, Result, Spec, Workshop, target_of
from codegen.aot.build import Compilation
from codegen.aot.result import OK, OUT_OF_RESOURCES, Binary
from codegen.aot.sources import sources
from tools.tables.candidates import candidates, estimate
from tools.tables.devices import DEVICES
from tools.tables.models import trust
from tools.tables.search import FRUGAL, Search, make_search, run

AMD = Path(__file__).resolve().parents[2] / "amd"


@pytest.fixture
def search() -> Search:
    database = txtdb.load(AMD)
    schema = database.schemas["attn_fwd"].for_arch("gfx942")
    target = target_of(database.archs["gfx942"])
    assert schema and target
    functional = ("fp16", 0, 128, False, False, 0)
    return make_search(database.archs["gfx942"], schema, functional, DEVICES["gfx942"], target, sources())


NEEDS = Resources(64, 60, 0, 0, 16384, 8)


def compiled(registers: int, spills: int = 0, shared: int = 16384) -> Result:
    resources = Resources(registers, 60, spills, 0, shared, 2)
    return Result(OK, "", 1.0, Binary("0" * 64, 1, "attn_fwd", 4, 64, 0, resources))


def test_candidates_are_legal_and_in_a_fixed_order(search: Search) -> None:
    again = candidates(search.arch_schema, search.device, search.problem)
    assert again == search.configs
    assert len(search.configs) > 50
    names = search.arch_schema.schema.field_names
    for config in search.configs:
        assert not search.arch_schema.illegal(tuple(config[name] for name in names))
        assert int(config["BLOCK_M"]) * int(config["BLOCK_N"]) <= 64 * int(config["num_warps"]) * 64


def test_the_best_by_estimate_is_compiled_first(search: Search) -> None:
    times = search.times()
    (first,) = search.hopeful()
    wins = (times.argmin(axis=0) == first).sum()
    assert wins == max((times.argmin(axis=0) == place).sum() for place in range(len(search.configs)))


def test_no_more_is_compiled_when_nothing_can_be_much_faster(search: Search) -> None:
    """Every place has an image with what was estimated: none is open, and none is hoped for."""
    need = estimate(search.device, search.problem, search.configs)
    for place in range(len(search.configs)):
        search.results[place] = compiled(int(need.registers[place]), int(need.spills[place]), int(need.shared[place]))
    assert search.hopeful() == []


def test_the_search_goes_on_until_nothing_is_hoped_for(
    search: Search, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No image can run on the device but the last one: each of them leaves hope for another."""
    last = len(search.configs) - 1

    def compile_specs(specs: list[Spec], shop: Workshop) -> Compilation:
        made = {spec: compiled(64) if spec is search.specs[last] else failed for spec in specs}
        return Compilation(made, dict.fromkeys(specs, "triton-3.9.0"), len(specs), 1.0)

    failed = Result(OUT_OF_RESOURCES, "too much local memory", 1.0)
    monkeypatch.setattr("tools.tables.search.compile_specs", compile_specs)
    said: list[str] = []
    run([search], Workshop(BuildFolder(tmp_path), jobs=1), said.append)
    assert search.compiled() == [last]
    assert search.hopeful() == []
    assert len(search.results) == len(said) > 8


def test_a_compiled_candidate_stops_the_search_of_slower_ones(search: Search) -> None:
    (first,) = search.hopeful()
    need = estimate(search.device, search.problem, search.configs)
    search.results[first] = compiled(int(need.registers[first]), 0, int(need.shared[first]))
    best = search.times()[first]
    for place in search.hopeful():
        assert (search.times()[place] * trust(search.device).hope < best).any()


def test_what_failed_is_never_chosen(search: Search) -> None:
    (first,) = search.hopeful()
    search.results[first] = Result(OUT_OF_RESOURCES, "too much local memory", 1.0)
    assert np.isinf(search.times()[first]).all()
    assert search.compiled() == []
    assert first not in search.hopeful()


def test_what_spills_comes_after_all_that_does_not(search: Search) -> None:
    (first,) = search.hopeful()
    search.results[first] = compiled(256, spills=1)
    (second,) = search.hopeful()
    search.results[second] = compiled(200)
    times = search.times()
    assert (times[first] > times[second]).all()


def test_images_correct_the_estimate_of_the_others(search: Search) -> None:
    before = search.need()
    (first,) = search.hopeful()
    search.results[first] = compiled(int(before.registers[first] * 2))
    after = search.need()
    others = [place for place in range(len(search.configs)) if place != first]
    held = after.registers[others] + after.spills[others]
    assert (held >= (before.registers[others] + before.spills[others]) * 1.9).all()


def test_where_every_image_spills_those_of_the_fewest_registers_are_compiled(search: Search) -> None:
    (first,) = search.hopeful()
    search.results[first] = compiled(256, spills=40)
    more = search.frugal()
    need = estimate(search.device, search.problem, search.configs)
    held = need.registers + need.spills
    assert len(more) == FRUGAL and first not in more
    assert {search.configs[place]["num_stages"] for place in more} == {1}
    others = [place for place, config in enumerate(search.configs) if config["num_stages"] == 1]
    assert max(held[more]) <= min(held[place] for place in others if place not in (*more, first))


def test_one_image_without_spills_is_enough(search: Search) -> None:
    (first,) = search.hopeful()
    search.results[first] = compiled(200)
    assert search.frugal() == []


def test_where_no_image_came_out_small_ones_are_tried(search: Search) -> None:
    (first,) = search.hopeful()
    search.results[first] = Result(OUT_OF_RESOURCES, "too much local memory", 1.0)
    assert len(search.frugal()) == FRUGAL


def test_what_the_compiler_says_of_occupancy_is_known_of_compiled_ones(search: Search) -> None:
    (first,) = search.hopeful()
    before = search.need().waves[first]
    search.results[first] = Result(OK, "", 1.0, Binary("0" * 64, 1, "attn_fwd", 4, 64, 0, replace(NEEDS, occupancy=1)))
    assert before > 1
    assert search.need().waves[first] == 1


def test_no_candidate_leaves_registers_to_nobody(search: Search) -> None:
    """Triton takes `waves_per_eu` for the most waves as well."""
    assert {config["waves_per_eu"] for config in search.configs} == {0, 2}
