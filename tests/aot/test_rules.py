"""Checks of images: each id has a case that fires it, a line in the docs, and silence where no image is on record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.aot import liveness
from codegen.aot.compiler_name import is_compiler
from codegen.aot.pack import read_pack
from codegen.aot.recording import record
from codegen.aot.result import OUT_OF_RESOURCES
from codegen.aot.rules import RULES, check_images
from codegen.aot.sources import FOLDER, Sources
from tests.aot.tiny import BLOCKS, COMPILER, PALETTE, fake_pack, make_root, table
from tests.build import write_files
from txtdb.check.context import Context
from txtdb.check.finding import Finding
from txtdb.check.rules import READING_IDS
from txtdb.check.rules import RULES as TXTDB_RULES
from txtdb.cli import main
from txtdb.layers.database import open_database

TODAY = date(2026, 6, 1)
IDS = {name for rule in RULES for name in rule.ids}
PLAIN = {"Q_dtype": "bf16", "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 32, "ENABLE_DROPOUT": False, "PADDED_HEAD": False}


def recorded(tmp_path: Path, *archs: str, heirs: tuple[str, ...] = (), helper: bool = False) -> Path:
    """A database whose images are all on record; `heirs` take the table of the first arch."""
    based = {f"{heir}/attn_fwd.txtdb": table(heir, {}, base=archs[0]) for heir in heirs}
    root = make_root(tmp_path, *archs, *heirs, files=based, helper=helper)
    pack = fake_pack(root, tmp_path / "one.pack", *archs, *heirs)
    with read_pack(pack)[0] as opened:  # type: ignore[union-attr]
        assert record(open_database(root), [opened.manifest]).faults == ()
    return root


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def findings(root: Path, sources: Sources | None = None, compiler: str | None = None) -> list[Finding]:
    context = Context(open_database(root), TODAY, compiler)
    return list(check_images(context, sources or Sources()))


def fired(root: Path, **options) -> list[str]:
    return sorted(finding.rule for finding in findings(root, **options))


def resource_path(root: Path, arch: str = "gfx942", iface: str = "attn_fwd") -> Path:
    return root / arch / f"{iface}.resources"


def test_nothing_on_record_nothing_to_find(tmp_path: Path) -> None:
    assert findings(make_root(tmp_path, "gfx942", "sm_90", helper=True)) == []


def test_everything_on_record_is_clean(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942", "gfx1100", heirs=("gfx950",), helper=True)
    assert findings(root) == []
    done = CliRunner().invoke(main, ["check", str(root), "--strict", "--today", "2026-06-01"])
    assert done.exit_code == 0, done.output


def test_kernels_of_other_packages_need_no_images_on_record(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    for name in ("schema/{}.toml", "gfx942/{}.txtdb"):
        text = (root / name.format("attn_fwd")).read_text()
        (root / name.format("own_gemm")).write_text(text.replace("attn_fwd", "own_gemm"))
    assert "own_gemm" in open_database(root).schemas
    assert findings(root) == []
    assert (
        "aot-kernel"
        in CliRunner()
        .invoke(
            main,
            ["aot", "build", str(root), "--iface", "own_gemm", "--out", str(tmp_path / "p"), "--build", str(tmp_path)],
        )
        .output
    )


def test_a_damaged_resource_file(tmp_path: Path) -> None:
    """Told once, without the findings that would follow from it."""
    root = recorded(tmp_path, "gfx942")
    edit(resource_path(root), "#! end\n", "")
    (finding,) = findings(root)
    assert (finding.rule, finding.arch, finding.iface) == ("resources", "gfx942", "attn_fwd")


def test_a_resource_file_in_the_wrong_place(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942", "gfx950")
    resource_path(root, "gfx950").write_text(resource_path(root).read_text())
    assert fired(root) == ["resources"]


def test_a_resource_file_of_nothing(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    text = resource_path(root).read_text()
    resource_path(root, iface="other").write_text(text.replace("iface attn_fwd", "iface other"))
    (finding,) = findings(root)
    assert finding.rule == "unused-resources"
    assert finding.span.file.endswith("gfx942/other.resources")


def test_a_resource_file_of_an_unknown_arch(tmp_path: Path) -> None:
    """The folder is a finding of its own; there is not another one for what lies in it."""
    root = recorded(tmp_path, "gfx942")
    (root / "gfx943").mkdir()
    resource_path(root, "gfx943").write_text(resource_path(root).read_text().replace("gfx942", "gfx943"))
    assert findings(root) == []


def test_an_overlay_brings_its_own_record(tmp_path: Path) -> None:
    """A config that only an overlay uses: its line may stand in the overlay; without it, it was never compiled."""
    root = recorded(tmp_path, "gfx942")
    patch = table("gfx942", {next(iter(BLOCKS)): ["64 b . ."]}, {"b": "64 16 false 0 4 1"}, kind="dbpatch")
    over = write_files(tmp_path / "over", {"gfx942/attn_fwd.0001-x.dbpatch": patch})
    context = Context(open_database(root, [over]), TODAY)
    assert [finding.rule for finding in check_images(context, Sources())] == ["never-compiled"]
    lines = resource_path(root).read_text().splitlines()
    block = next(number for number, line in enumerate(lines) if line.startswith("[bf16 0"))
    own = [*lines[: block + 1], "64 16 false 0 4 1 = 64 30 0 0 4096 8", "#! end", ""]
    (over / "gfx942" / "attn_fwd.resources").write_text("\n".join(own))
    assert list(check_images(Context(open_database(root, [over]), TODAY), Sources())) == []


def test_a_config_that_was_never_compiled(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    edit(root / "gfx942" / "attn_fwd.txtdb", "b = 64 32 false 0 4 1", "b = 64 16 false 0 4 1")
    (finding,) = findings(root)
    assert finding.rule == "never-compiled"
    assert "1 image of 4 never compiled: [bf16 0 32 false false 0] 64 16 false 0 4 1" in finding.message
    assert [cell.at for cell in finding.cells] == [(1024, 256), (1024, 1024)]
    assert dict(finding.cells[0].functional) == {**PLAIN, "BIAS_TYPE": 0}


def test_an_heir_without_a_record(tmp_path: Path) -> None:
    """What is inherited has to be compiled for the heir as well; a missing file is one finding."""
    root = recorded(tmp_path, "gfx942", heirs=("gfx950",))
    resource_path(root, "gfx950").unlink()
    (finding,) = findings(root)
    assert (finding.rule, finding.arch) == ("never-compiled", "gfx950")
    assert "4 images of 4" in finding.message


def test_an_arch_without_a_record_where_another_has_one(tmp_path: Path) -> None:
    """Its files were lost, or nobody compiled for it yet; both have a table of their own."""
    root = recorded(tmp_path, "gfx942", "gfx1100", helper=True)
    for path in (root / "gfx1100").glob("*.resources"):
        path.unlink()
    found = findings(root)
    assert [(finding.rule, finding.arch) for finding in found] == [("never-compiled", "gfx1100")] * 2
    assert [finding.span.file.rpartition("/")[2] for finding in found] == [
        "attn_fwd.resources",
        "bwd_preprocess.resources",
    ]
    assert "4 images of 4" in found[0].message


def test_all_records_are_lost_of_a_database_that_keeps_them(tmp_path: Path) -> None:
    root = make_root(tmp_path, "gfx942", "gfx1100")
    archs = (root / "archs.toml").read_text()
    (root / "archs.toml").write_text(f"resources = true\n{archs}")
    assert [(finding.rule, finding.arch) for finding in findings(root)] == [
        ("never-compiled", "gfx1100"),
        ("never-compiled", "gfx942"),
    ]
    (root / "archs.toml").write_text(f"resources = false\n{archs}")
    assert findings(root) == []


def test_what_cannot_be_compiled_here_needs_no_record(tmp_path: Path) -> None:
    """Kernels of another package, and archs that the compiler does not know."""
    root = recorded(tmp_path, "gfx942")
    for path in (root / "archs.toml", root / "schema" / "attn_fwd.toml"):
        path.write_text(f"{path.read_text()}[arch.tpu7]\n")
    (root / "tpu7").mkdir()
    (root / "tpu7" / "attn_fwd.txtdb").write_text(table("tpu7"))
    schema = (root / "schema" / "attn_fwd.toml").read_text().partition("[arch.")[0]
    (root / "schema" / "conv.toml").write_text(f"{schema.replace('attn_fwd', 'conv')}[arch.gfx1100]\n")
    (root / "gfx1100").mkdir()
    (root / "gfx1100" / "conv.txtdb").write_text(table("gfx1100").replace("attn_fwd", "conv"))
    assert findings(root) == []


def test_an_overlays_record_asks_for_no_other_arch(tmp_path: Path) -> None:
    """The database below keeps none."""
    root = recorded(tmp_path, "gfx942", "gfx1100")
    over = write_files(tmp_path / "over", {"gfx942/attn_fwd.resources": resource_path(root).read_text()})
    for path in root.rglob("*.resources"):
        path.unlink()
    assert list(check_images(Context(open_database(root, [over]), TODAY), Sources())) == []


def test_the_helper_of_an_arch_on_record(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942", helper=True)
    resource_path(root, iface="bwd_preprocess").unlink()
    (finding,) = findings(root)
    assert (finding.rule, finding.iface) == ("never-compiled", "bwd_preprocess")
    assert [cell.at for cell in finding.cells] == [(), ()]


def test_a_config_that_could_not_be_compiled(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    edit(resource_path(root), "64 32 false 0 4 1 = 64 30 0 0 4096 8", f"64 32 false 0 4 1 = {OUT_OF_RESOURCES}")
    (finding,) = findings(root)
    assert finding.rule == "uncompilable-config"
    assert OUT_OF_RESOURCES in finding.message
    assert resource_path(root).read_text().splitlines()[finding.span.line - 1].startswith("64 32 false")
    assert len(finding.cells) == 2


def test_local_memory_over_the_limit(tmp_path: Path) -> None:
    """The same image fits gfx950, which has more."""
    root = recorded(tmp_path, "gfx942", heirs=("gfx950",))
    for arch in ("gfx942", "gfx950"):
        edit(resource_path(root, arch), "64 32 false 0 4 1 = 64 30 0 0 4096 8", "64 32 false 0 4 1 = 64 30 0 0 65537 8")
    (finding,) = findings(root)
    assert (finding.rule, finding.arch, finding.inherited_by) == ("over-lds", "gfx942", ())
    assert "65537" in finding.message
    assert "65536" in finding.message


def test_a_spilling_config_where_another_candidate_does_not_spill(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942", heirs=("gfx950",))
    for arch in ("gfx942", "gfx950"):
        edit(resource_path(root, arch), "64 32 false 0 4 1 = 64 30 0", "64 32 false 0 4 1 = 64 30 5")
    (finding,) = findings(root)
    assert (finding.rule, finding.severity, finding.arch) == ("spilling-config", "warning", "gfx942")
    assert finding.inherited_by == ("gfx950",)
    assert "5 registers" in finding.message


def test_a_spilling_config_without_a_better_candidate(tmp_path: Path) -> None:
    """A candidate that is over the limit is none."""
    root = recorded(tmp_path, "gfx942")
    edit(resource_path(root), " = 64 30 0", " = 64 30 5")
    assert findings(root) == []
    edit(resource_path(root), "#! end", "16 16 false 0 4 1 = 64 30 0 0 65537 8\n#! end")
    assert findings(root) == []
    edit(resource_path(root), "65537", "65536")
    assert fired(root) == ["spilling-config"] * 2  # the candidate is one of the last functional


@pytest.fixture
def kernels(tmp_path: Path) -> Callable[[str, str], Sources]:
    """The kernels after an edit."""

    def edited(old: str, new: str) -> Sources:
        folder = tmp_path / "kernels"
        folder.mkdir()
        met = 0
        for path in FOLDER.glob("*.py"):
            text = path.read_text(encoding="utf-8")
            met += old in text
            (folder / path.name).write_text(text.replace(old, new), encoding="utf-8")
        assert met
        return Sources(folder)

    return edited


def test_a_kernel_that_has_changed(tmp_path: Path, kernels: Callable[[str, str], Sources]) -> None:
    root = recorded(tmp_path, "gfx942", helper=True)
    sources = kernels("LN2 = tl.constexpr(0.69", "LN2 = tl.constexpr(0.68")
    (finding,) = findings(root, sources)
    assert (finding.rule, finding.severity, finding.iface) == ("stale-kernel", "warning", "attn_fwd")
    assert "2 functionals of 2" in finding.message
    assert len(finding.cells) == 12


def test_a_kernel_whose_comment_has_changed(tmp_path: Path, kernels: Callable[[str, str], Sources]) -> None:
    root = recorded(tmp_path, "gfx942", helper=True)
    assert findings(root, kernels("import triton\n", "# a comment\n\nimport triton\n")) == []


def test_a_branch_of_some_functionals_has_changed(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    (tmp_path / "kernels").mkdir()
    text = (
        "@triton.jit\ndef attn_fwd(Q, CAUSAL_TYPE: tl.constexpr):\n    if CAUSAL_TYPE != 0:\n        mask(Q)\n"
        "    rest(Q)\n"
    )
    path = tmp_path / "kernels" / "one.py"
    path.write_text(text)
    before = Sources(tmp_path / "kernels")
    for causal in (0, 3):
        digest = before.digest(before.kernels["attn_fwd"], {"CAUSAL_TYPE": causal})
        own = resource_path(root).read_text()
        resource_path(root).write_text(re.sub(rf"(\[bf16 {causal} .*\]) \w+", rf"\1 {digest}", own))
    assert findings(root, before) == []
    path.write_text(text.replace("mask(Q)", "other_mask(Q)"))
    (finding,) = findings(root, Sources(tmp_path / "kernels"))
    assert "1 functional of 2" in finding.message
    assert {dict(cell.functional)["CAUSAL_TYPE"] for cell in finding.cells} == {3}
    path.write_text(text.replace("rest(Q)", "other(Q)"))
    assert "2 functionals of 2" in findings(root, Sources(tmp_path / "kernels"))[0].message


def test_row_044_another_compiler_is_counted_per_functional(tmp_path: Path) -> None:
    """Images by 3.3 where 3.4 is wanted: the cells of each functional, and a strict check fails."""
    root = recorded(tmp_path, "gfx942")
    text = resource_path(root).read_text()
    resource_path(root).write_text(text.replace("triton-3.9.0+llvm-0123456789ab", "triton-3.3.1+llvm-0123456789ab"))
    found = findings(root, compiler="3.4")
    assert [finding.rule for finding in found] == ["other-compiler"] * 2
    assert [len(finding.cells) for finding in found] == [6, 6]
    assert "CAUSAL_TYPE=0" in found[0].message
    assert "6 cells are by triton-3.3.1+llvm-0123456789ab, not 3.4" in found[0].message
    assert findings(root, compiler="3.3") == []
    words = ["check", str(root), "--today", "2026-06-01", "--compiler", "3.4"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, [*words, "--strict"]).exit_code == 1
    report = json.loads(CliRunner().invoke(main, [*words, "--format", "json"]).output)
    assert [len(finding["cells"]) for finding in report["findings"] if finding["rule"] == "other-compiler"] == [6, 6]


def test_no_record_is_no_pass_for_a_compiler(tmp_path: Path) -> None:
    (finding,) = findings(make_root(tmp_path, "gfx942"), compiler="3.9")
    assert finding.rule == "other-compiler"


@pytest.mark.parametrize(
    ("wanted", "same"),
    [
        ("3.9", True),
        ("3.9.0", True),
        ("3", True),
        ("triton-3.9", True),
        (COMPILER, True),
        ("3.90", False),
        ("3.9.1", False),
        ("9", False),
        ("triton-3.9.0+llvm-ba9876543210", False),
    ],
)
def test_names_of_compilers(wanted: str, same: bool) -> None:
    assert is_compiler(COMPILER, wanted) is same


def test_a_field_that_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "INERT", frozenset({("gfx9", "attn_fwd", "waves_per_eu"), ("gfx9", "attn_fwd", "x")}))
    root = recorded(tmp_path, "gfx942", heirs=("gfx950",))
    (finding,) = findings(root)
    assert (finding.rule, finding.arch, finding.inherited_by) == ("inert-field", "gfx942", ("gfx950",))
    assert "waves_per_eu changes nothing on gfx9" in finding.message
    same = {**PALETTE, "c": "64 32 true 0 2 1"}
    (root / "gfx942" / "attn_fwd.txtdb").write_text(table("gfx942", BLOCKS, same))
    assert "inert-field" not in fired(root)


def test_every_id_is_explained_and_is_nobody_elses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "aot.md").read_text(encoding="utf-8")
    _, _, checks = page.partition("\n## Checks\n")
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", checks, re.MULTILINE)) == IDS
    assert IDS & {*READING_IDS, *(name for rule in TXTDB_RULES for name in rule.ids)} == set()


def test_every_id_has_a_case() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert {name for name in IDS if f'"{name}"' not in text.replace("IDS", "")} == set()
