"""The manifest: every image that tables can ask for, once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from codegen import Image, read_images
from codegen.manifest import kept_lines, manifest_text
from tests.build import make_db
from tests.codegen import databases
from tests.codegen.brute import Brute
from tests.codegen.tools import generated


def images(root: Path, out: Path, arch: str, *overlays: Path) -> list[Image]:
    return list(read_images(generated(root, out, overlays, on_hole="none") / "manifest" / f"{arch}.json"))


def test_the_images_of_a_small_database_by_hand(tmp_path):
    found = images(make_db(tmp_path), tmp_path / "out", "gfxA")
    # F1 is inherited and uses all four configs; F2 uses three of them.
    assert Counter(image.functional["head_dim"] for image in found) == {64: 4, 128: 3}
    assert found[0] == Image(
        iface="attn_fwd",
        functional={"dtype": "fp16", "causal": 0, "head_dim": 64},
        fixed={},
        derived={},
        config={"BLOCK_M": 32, "PRE_LOAD_V": True, "num_warps": 2, "num_stages": 1, "waves_per_eu": 0},
        name="attn_fwd-fp16-0-64-32-true-2-1-0",
    )


def test_fixed_kernels_are_listed_and_operators_are_not(tmp_path):
    out = generated(databases.operators(tmp_path), tmp_path / "out")
    found = list(read_images(out / "manifest" / "gfxA.json"))
    assert {image.iface for image in found} == {"f", "helper"}
    helpers = [image for image in found if image.iface == "helper"]
    assert [image.name for image in helpers] == ["helper-bf16-0-128-true", "helper-fp16-0-128-true"]
    kernel = next(image for image in found if image.iface == "f")
    assert kernel.fixed == {"alibi": False, "bits": 8, "layout": "bshd"}
    assert kernel.derived == {"persistent": 0, "math": "exact", "wide": True}


def test_configs_that_differ_in_other_fields_are_one_image(tmp_path):
    root, overlays = databases.layered(tmp_path, 2)
    found = images(root, tmp_path / "out", "gfxA", *overlays)
    assert all(set(image.config) == {"tile", "fast"} for image in found)
    assert len({image.name for image in found}) == len(found)


@pytest.mark.parametrize("arch", ["gfxA", "gfxB"])
def test_it_lists_what_the_cells_hold_and_nothing_else(arch, tmp_path):
    root, overlays = databases.layered(tmp_path, 3)
    brute = Brute(root, overlays)
    table = brute.table(arch, "f")
    expected = set()
    points = {point for _, point in table.cells}
    for functional in brute.functionals(arch, "f"):
        configs = (brute.cell(table, "f", functional, point) for point in points)
        expected |= {(functional, config["tile"], config["fast"]) for config in configs if config}
    found = {
        (tuple(image.functional.values()), image.config["tile"], image.config["fast"])
        for image in images(root, tmp_path / "out", arch, *overlays)
    }
    assert found == expected


def test_it_is_json_with_a_line_for_each_interface(tmp_path):
    out = generated(databases.operators(tmp_path), tmp_path / "out")
    text = (out / "manifest" / "gfxA.json").read_text()
    assert len(text.splitlines()) == 4
    assert list(json.loads(text)["ifaces"]) == ["f", "helper"]
    assert manifest_text("gfxA", kept_lines(text)) == text


def test_an_arch_without_kernels_has_an_empty_one(tmp_path):
    out = generated(databases.operators(tmp_path), tmp_path / "out", ifaces=("op",))
    text = (out / "manifest" / "gfxA.json").read_text()
    assert json.loads(text) == {"format": 1, "arch": "gfxA", "ifaces": {}}
    assert kept_lines(text) == {}


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"format": 2}')
    with pytest.raises(ValueError, match="format 2"):
        list(read_images(path))
