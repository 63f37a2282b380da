"""Images compiled with the real compiler, for targets that are not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.aot import pool
from codegen.aot.build import Workshop, compile_specs
from codegen.aot.folder import BuildFolder
from codegen.aot.pack import read_pack, verify_pack
from codegen.aot.result import COMPILE_ERROR, CRASH, OK, TIMEOUT
from codegen.aot.sources import FOLDER, Sources
from codegen.aot.spec import Spec
from tests.aot.test_spec import GFX942, SM_90, spec
from tests.aot.tiny import PALETTE, make_root, table
from txtdb.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.compiles]


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*map(str, words)])
    return done.exit_code, done.output


def build(root: Path, out: Path, folder: Path, *words: object) -> tuple[int, dict]:
    code, output = run("aot", "build", root, "--out", out, "--build", folder, "--jobs", 2, "--format", "json", *words)
    return code, json.loads(output)


def test_packs_of_a_small_table(shop: Workshop, tmp_path: Path) -> None:
    """gfx942, gfx1100 and sm_90: packed, verified, recorded, and clean in a strict check."""
    root = make_root(tmp_path, "gfx942", "gfx1100", "sm_90", helper=True)
    text = (root / "sm_90" / "attn_fwd.txtdb").read_text()
    (root / "sm_90" / "attn_fwd.txtdb").write_text(text.replace("c = 64 32 true 2 2 1", "c = 64 32 true 0 2 1"))
    out = tmp_path / "small.pack"
    code, report = build(root, out, shop.folder.path)
    assert code == 0, report
    assert report["statuses"] == {"ok": 18, "compile_error": 0, "out_of_resources": 0, "timeout": 0, "crash": 0}
    assert run("aot", "verify", out, root) == (0, f"{out}: sound\n")
    with read_pack(out)[0] as opened:  # type: ignore[union-attr]
        for place, own in opened.manifest.tables.items():
            for image in own.images.values():
                assert image.binary.symbol == place.partition("/")[2]
                assert opened.data(image)[:4] == b"\x7fELF"
                assert image.binary.resources.registers > 0
    assert run("aot", "resources", root, out)[0] == 0
    assert len(list(root.rglob("*.resources"))) == 6
    code, output = run("check", root, "--strict", "--today", "2026-06-01", "--compiler", "3")
    assert code == 0, output
    again, report = build(root, tmp_path / "again.pack", shop.folder.path)
    assert (again, report["compiled"]) == (0, 0)
    assert (tmp_path / "again.pack").read_bytes() == out.read_bytes()


def test_equal_sources_make_equal_images(shop: Workshop, tmp_path: Path) -> None:
    """Another folder, other processes, another place on disk: the same bytes, and no path in them."""
    specs = [spec(shop.kernels, GFX942), spec(shop.kernels, SM_90)]
    first = compile_specs(specs, shop)
    second = compile_specs(specs, replace(shop, folder=BuildFolder(tmp_path / "elsewhere"), jobs=1))
    assert second.fresh == 2
    for own in specs:
        one, two = first.results[own].binary, second.results[own].binary
        assert one is not None
        assert two is not None
        assert one.digest == two.digest
        data = shop.folder.image(one.digest)
        assert data is not None
        assert str(FOLDER).encode() not in data
        assert str(tmp_path).encode() not in data


def broken(kernels: Sources, module: str) -> Spec:
    return replace(spec(kernels), module=f"tests.aot.{module}")


def test_what_goes_wrong_with_one_image_costs_that_image(shop: Workshop, tmp_path: Path) -> None:
    good, odd, dies = spec(shop.kernels), spec(shop.kernels, BLOCK_M=48), broken(shop.kernels, "dies")
    own = replace(shop, folder=BuildFolder(tmp_path / "own"))
    done = compile_specs([dies, odd, good, dies], own)
    assert {each: result.status for each, result in done.results.items()} == {dies: CRASH, odd: COMPILE_ERROR, good: OK}
    assert "the reason" in done.results[dies].detail
    assert "power of 2" in done.results[odd].detail
    again = compile_specs([dies, odd, good], own)
    assert again.fresh == 1, "only what need not happen again is tried again"


def test_an_image_that_takes_too_long(shop: Workshop, tmp_path: Path) -> None:
    hangs = broken(shop.kernels, "sleeps")
    own = replace(shop, folder=BuildFolder(tmp_path / "own"), limit_s=1.0)
    result = compile_specs([hangs], own).results[hangs]
    assert (result.status, result.detail) == (TIMEOUT, "not done after 1 s")


def test_a_failed_image_in_a_build(shop: Workshop, tmp_path: Path) -> None:
    """One image of a functional cannot be compiled: its cells go to the other, exit code 1, and check says so."""
    palette = {**PALETTE, "b": "48 32 false 0 4 1"}
    root = make_root(tmp_path, "gfx942", files={"gfx942/attn_fwd.txtdb": table("gfx942", palette=palette)})
    out = tmp_path / "one.pack"
    code, report = build(root, out, shop.folder.path)
    assert code == 1
    (item,) = report["replaced"]
    assert (item["status"], item["cells"]) == (COMPILE_ERROR, [[1024, 256], [1024, 1024]])
    assert item["by"].endswith("-32-32-false-0-4-1")
    assert verify_pack(out) == []
    text = run("aot", "build", root, "--out", out, "--build", shop.folder.path)[1]
    assert "2 cells go to" in text
    assert "power of 2" in text
    run("aot", "resources", root, out)
    assert "uncompilable-config" in run("check", root, "--today", "2026-06-01")[1]


def test_nothing_left_is_no_pack(shop: Workshop, tmp_path: Path) -> None:
    palette = dict.fromkeys("a", "48 32 false 0 4 1")
    blocks = {"bf16 0 32 false false 0": ["64-1024 a*3"], "bf16 3 32 false false 0": ["64-1024 a*3"]}
    root = make_root(tmp_path, "gfx942", files={"gfx942/attn_fwd.txtdb": table("gfx942", blocks, palette)})
    out = tmp_path / "none.pack"
    code, report = build(root, out, shop.folder.path)
    assert code == 1
    assert report["pack"] is None
    assert [fault["rule"] for fault in report["faults"]] == ["nothing-built"] * 2
    assert not out.exists()


def test_kernels_that_change_during_a_build(shop: Workshop, tmp_path: Path) -> None:
    """Images of other sources are never kept under the key of these."""
    (tmp_path / "kernels").mkdir()
    for path in FOLDER.glob("*.py"):
        (tmp_path / "kernels" / path.name).write_text(path.read_text() + "# edited\n")
    edited = replace(shop, folder=BuildFolder(tmp_path / "own"), kernels=Sources(tmp_path / "kernels"))
    with pytest.raises(pool.SourcesChanged):
        compile_specs([spec(edited.kernels)], edited)
    assert list((tmp_path / "own").rglob("*.json")) == []


def test_a_compiler_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether triton is installed here or not: a module of its name that fails is found first."""
    (tmp_path / "triton.py").write_text("raise ImportError('no compiler here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    root = make_root(tmp_path, "gfx942")
    code, output = run("aot", "build", root, "--out", tmp_path / "x.pack", "--build", tmp_path / "build")
    assert code == 2
    assert "the compiler does not start: ImportError: no compiler here" in output
    assert not (tmp_path / "x.pack").exists()
