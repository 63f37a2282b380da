"""Checks of measured cells: kernels that changed since, and other compilers, as evidence tells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codegen.aot.measured import check_measured
from codegen.aot.rules import check_images
from codegen.aot.sources import FOLDER, Sources
from tests.aot.test_rules import TODAY, edit, recorded, resource_path
from tests.aot.tiny import CAUSAL, PALETTE, PLAIN, make_root, table
from tests.build import write_files
from tests.evidence.made import by_hand, run_of
from txtdb.check.context import Context
from txtdb.check.finding import Finding
from txtdb.cli import main
from txtdb.evidence.files import evidence_digest, write_evidence
from txtdb.layers.database import open_database
from txtdb.model.evidence import Block, Entrant, Measured, Status
from txtdb.model.schema import Schema
from txtdb.model.values import Value, parse_value, print_values

# The cells of a patch: functional, bins, symbol of the palette.
CELLS = ((PLAIN, (64, 64), "b"), (CAUSAL, (64, 64), "c"), (CAUSAL, (64, 256), "c"))
ROWS = {PLAIN: ["64 b . ."], CAUSAL: ["64 c c ."]}
WHOLE, PARTS = "kernel source", "kernel sources"
SIMPLE = """\
@triton.jit
def attn_fwd(Q, CAUSAL_TYPE: tl.constexpr):
    if CAUSAL_TYPE != 0:
        mask(Q)
    rest(Q)
"""


def folded(kernels: Sources, schema: Schema) -> dict[str, str]:
    """What a tuner writes of each functional."""
    kernel = kernels.kernels["attn_fwd"]
    arch_schema = schema.for_arch("gfx942")
    assert arch_schema is not None
    return {print_values(f): kernels.digest(kernel, schema.kernel_values(f)) for f in arch_schema.supported}


def values(text: str, types: Sequence[Any]) -> tuple[Value, ...]:
    found = [parse_value(word, item.type) for word, item in zip(text.split(), types, strict=True)]
    assert None not in found
    return tuple(value for value in found if value is not None)


def measured(schema: Schema, functional: str, at: tuple[int, ...], config: str) -> Measured:
    entrants = (Entrant(values(config, schema.config), Status.OK, error=0.25),)
    block = Block((0,), ((10000.0, 10010.0, 10020.0),))
    return Measured(values(functional, schema.keys), at, "race", entrants, None, "default", (), (), (block,))


def add_patch(
    root: Path, software: Mapping[str, Any], number: int = 10, rows: Mapping[str, list[str]] = ROWS, cells: Any = CELLS
) -> Path:
    """A measured patch of gfx942, with its evidence; `software` is what this states."""
    schema = open_database(root).schemas["attn_fwd"]
    decided = [by_hand(measured(schema, functional, at, PALETTE[symbol]), 0) for functional, at, symbol in cells]
    name = f"run{number}"
    data = write_evidence(run_of(decided, arch="gfx942", name=name, software=software, device={}), schema)
    used = {symbol: PALETTE[symbol] for symbol in sorted({symbol for *_, symbol in cells})}
    text = table("gfx942", rows, used, kind="dbpatch")
    lines = f"#! origin measured {name}\n#! why a test\n#! evidence {name}.json {evidence_digest(data)}\n"
    files = {
        f"gfx942/attn_fwd.{number:04}-{name}.dbpatch": text.replace("#! arch gfx942\n", f"#! arch gfx942\n{lines}"),
        f"gfx942/evidence/{name}.json": data.decode(),
    }
    write_files(root, files)
    return root / f"gfx942/attn_fwd.{number:04}-{name}.dbpatch"


def today(root: Path, **more: Any) -> dict[str, Any]:
    """What evidence of the kernels of today states."""
    schema, kernels = open_database(root).schemas["attn_fwd"], Sources()
    return {
        "triton": "3.9.0",
        WHOLE: kernels.whole(kernels.kernels["attn_fwd"]),
        PARTS: folded(kernels, schema),
        **more,
    }


def without(software: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in software.items() if name not in names}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path, "gfx942")


def findings(root: Path, kernels: Sources | None = None, compiler: str | None = None) -> list[Finding]:
    return list(check_measured(Context(open_database(root), TODAY, compiler), kernels or Sources()))


def simple(folder: Path, text: str = SIMPLE) -> Sources:
    """A kernel of a few lines."""
    write_files(folder, {"one.py": text})
    return Sources(folder)


def edited(folder: Path, old: str, new: str) -> Sources:
    """The kernels after an edit."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    assert any(old in text for text in texts.values())
    write_files(folder, {name: text.replace(old, new) for name, text in texts.items()})
    return Sources(folder)


def test_measured_by_the_kernels_and_the_compiler_of_today(root: Path) -> None:
    add_patch(root, today(root))
    assert findings(root, compiler="3.9") == []
    done = CliRunner().invoke(main, ["check", str(root), "--strict", "--today", "2026-06-01"])
    assert done.exit_code == 0, done.output


def test_a_kernel_that_has_changed_since(root: Path, tmp_path: Path) -> None:
    patch = add_patch(root, today(root))
    (finding,) = findings(root, edited(tmp_path / "kernels", "LN2 = tl.constexpr(0.69", "LN2 = tl.constexpr(0.68"))
    assert (finding.rule, finding.severity, finding.arch) == ("stale-evidence", "warning", "gfx942")
    assert patch.read_text().splitlines()[finding.span.line - 1].startswith("#! evidence run10.json")
    assert "has changed since run10 measured 2 functionals of 2" in finding.message
    assert "--compare" in finding.hint
    assert [cell.at for cell in finding.cells] == [(64, 64), (64, 64), (64, 256)]


def test_a_comment_marks_nothing(root: Path, tmp_path: Path) -> None:
    add_patch(root, today(root))
    assert findings(root, edited(tmp_path / "kernels", "import triton\n", "# a comment\n\nimport triton\n")) == []


def test_a_branch_marks_the_functionals_that_compile_it(root: Path, tmp_path: Path) -> None:
    before = simple(tmp_path / "before")
    add_patch(root, {PARTS: folded(before, open_database(root).schemas["attn_fwd"])})
    assert findings(root, before) == []
    (finding,) = findings(root, simple(tmp_path / "after", SIMPLE.replace("mask(Q)", "other(Q)")))
    assert "1 functional of 2" in finding.message
    assert [dict(cell.functional)["CAUSAL_TYPE"] for cell in finding.cells] == [3, 3]
    (finding,) = findings(root, simple(tmp_path / "rest", SIMPLE.replace("rest(Q)", "other(Q)")))
    assert "2 functionals of 2" in finding.message


def test_evidence_of_the_whole_kernel_alone(root: Path, tmp_path: Path) -> None:
    """As older evidence has it: any edit marks all."""
    add_patch(root, without(today(root), PARTS))
    assert findings(root) == []
    (finding,) = findings(root, edited(tmp_path / "kernels", "LN2 = tl.constexpr(0.69", "LN2 = tl.constexpr(0.68"))
    assert "2 functionals of 2" in finding.message


@pytest.mark.parametrize("software", [{}, {WHOLE: "simulated"}, {WHOLE: None, PARTS: "none"}])
def test_evidence_that_names_no_source_is_no_pass(root: Path, software: dict[str, Any]) -> None:
    add_patch(root, software)
    (finding,) = findings(root)
    assert (finding.rule, finding.severity, len(finding.cells)) == ("stale-evidence", "warning", 3)
    assert "run10 does not say of which source of kernel attn_fwd it measured 2 functionals of 2" in finding.message


def test_kernels_of_somebody_else_are_not_judged(root: Path, tmp_path: Path) -> None:
    """Neither one that is not here, nor one of the same name that has other keys."""
    add_patch(root, {WHOLE: "sha256:0"})
    assert findings(root, simple(tmp_path / "none", SIMPLE.replace("attn_fwd", "other"))) == []
    assert findings(root, simple(tmp_path / "unlike")) == []


def test_what_a_newer_patch_replaces_is_not_told(root: Path) -> None:
    add_patch(root, without(today(root), PARTS) | {WHOLE: "sha256:0"})
    assert len(findings(root)[0].cells) == 3
    add_patch(root, today(root), 20, {CAUSAL: ["64 c a ."]}, [(CAUSAL, (64, 64), "c"), (CAUSAL, (64, 256), "a")])
    (finding,) = findings(root)
    assert [dict(cell.functional)["CAUSAL_TYPE"] for cell in finding.cells] == [0]
    assert "1 functional of 1" in finding.message


def test_any_evidence_of_a_file_that_stands_for_the_cell_will_do(root: Path) -> None:
    """Squashed: two runs measured alike, and the newer one is of today. What it does not have stays with the older."""
    old = add_patch(root, {"triton": "3.3.1", WHOLE: "sha256:0"})
    new = add_patch(root, today(root), 20, {PLAIN: ["64 b . ."]}, CELLS[:1])
    line = next(line for line in new.read_text().splitlines() if line.startswith("#! evidence"))
    new.unlink()
    edit(old, "#! why a test\n", f"#! why a test\n{line}\n")
    found = findings(root, compiler="3.9")
    assert [finding.rule for finding in found] == ["stale-evidence", "evidence-compiler"]
    assert [[dict(cell.functional)["CAUSAL_TYPE"] for cell in finding.cells] for finding in found] == [[3, 3]] * 2
    assert "run10" in found[0].message


def test_cells_that_the_evidence_does_not_stand_for_are_left_to_verify(root: Path) -> None:
    add_patch(root, {}, cells=[(PLAIN, (64, 64), "c"), (CAUSAL, (64, 64), "c")])
    edit(next(root.glob("gfx942/*.dbpatch")), "c = ", "b = 64 32 false 0 4 1\nc = ")
    (finding,) = findings(root)
    assert [cell.at for cell in finding.cells] == [(64, 64)]


def test_evidence_that_is_not_the_named_one_is_a_finding_of_another_rule(root: Path) -> None:
    patch = add_patch(root, {})
    edit(patch, "run10.json sha256:", "run10.json sha256:0")
    assert findings(root, compiler="3.9") == []


def test_a_config_that_was_measured_may_spill(tmp_path: Path) -> None:
    """It beat those that do not; its other cells are told, and all on an heir, where nobody measured."""
    root = recorded(tmp_path, "gfx942", heirs=("gfx950",))
    for arch in ("gfx942", "gfx950"):
        edit(resource_path(root, arch), "64 32 false 0 4 1 = 64 30 0", "64 32 false 0 4 1 = 64 30 5")
    add_patch(root, today(root), rows={PLAIN: ["64 b . ."]}, cells=CELLS[:1])
    found = list(check_images(Context(open_database(root), TODAY), Sources()))
    assert {finding.rule for finding in found} == {"spilling-config"}
    others = [(1024, 256), (1024, 1024)]
    cells = {finding.arch: [cell.at for cell in finding.cells] for finding in found}
    assert cells == {"gfx942": others, "gfx950": [(64, 64), *others]}
    edit(next(root.glob("gfx942/*.dbpatch")), "#! evidence run10.json", "#! evidence run11.json")
    (finding,) = check_images(Context(open_database(root), TODAY), Sources())
    assert [cell.at for cell in finding.cells] == [(64, 64), *others]
    assert finding.inherited_by == ("gfx950",)


def test_whoever_says_again_what_was_measured_may_spill_too(tmp_path: Path) -> None:
    """A patch by hand above the measured one, with the same config; not with another one's."""
    root = recorded(tmp_path, "gfx942")
    edit(resource_path(root, "gfx942"), "64 32 false 0 4 1 = 64 30 0", "64 32 false 0 4 1 = 64 30 5")
    add_patch(root, today(root), rows={PLAIN: ["64 b . ."]}, cells=CELLS[:1])
    again = table("gfx942", {PLAIN: ["64 b b ."]}, {"b": PALETTE["b"]}, kind="dbpatch")
    again = again.replace("#! arch gfx942\n", "#! arch gfx942\n#! origin hand test\n#! why a test\n")
    write_files(root, {"gfx942/attn_fwd.0020-hand.dbpatch": again})
    (finding,) = check_images(Context(open_database(root), TODAY), Sources())
    assert finding.rule == "spilling-config"
    assert [cell.at for cell in finding.cells] == [(64, 256), (1024, 256), (1024, 1024)]


def test_evidence_of_another_device_lets_nothing_spill(tmp_path: Path) -> None:
    root = recorded(tmp_path, "gfx942")
    edit(resource_path(root, "gfx942"), "64 32 false 0 4 1 = 64 30 0", "64 32 false 0 4 1 = 64 30 5")
    patch = add_patch(root, today(root), rows={PLAIN: ["64 b . ."]}, cells=CELLS[:1])
    path = root / "gfx942/evidence/run10.json"
    before = evidence_digest(path.read_bytes())
    edit(path, '"device": {}', '"device": {"arch": "gfx90a"}')
    edit(patch, before, evidence_digest(path.read_bytes()))
    (finding,) = check_images(Context(open_database(root), TODAY), Sources())
    assert (64, 64) in [cell.at for cell in finding.cells]


def test_heirs_are_named(tmp_path: Path) -> None:
    root = make_root(tmp_path, "gfx942", "gfx950", files={"gfx950/attn_fwd.txtdb": table("gfx950", {}, base="gfx942")})
    add_patch(root, {})
    (finding,) = findings(root)
    assert (finding.arch, finding.inherited_by) == ("gfx942", ("gfx950",))


def test_another_compiler_than_the_evidences_is_counted_per_functional(root: Path) -> None:
    add_patch(root, today(root, triton="3.3.1"))
    found = findings(root, compiler="3.9")
    assert [(finding.rule, finding.severity) for finding in found] == [("evidence-compiler", "warning")] * 2
    assert [len(finding.cells) for finding in found] == [1, 2]
    assert "CAUSAL_TYPE=3" in found[1].message
    assert "the measurements of 2 cells are by triton-3.3.1, not 3.9" in found[1].message
    assert findings(root, compiler="3.3") == []
    words = ["check", str(root), "--today", "2026-06-01", "--compiler", "3.9"]
    assert "evidence-compiler" in CliRunner().invoke(main, words).output


@pytest.mark.parametrize("software", [{}, {"triton": 3}])
def test_evidence_that_names_no_compiler_is_no_pass(root: Path, software: dict[str, Any]) -> None:
    add_patch(root, without(today(root), "triton") | software)
    assert findings(root) == []
    assert ["a compiler that the evidence does not name" in item.message for item in findings(root, compiler="3")] == [
        True,
        True,
    ]


def test_a_full_name_is_more_than_evidence_states(root: Path) -> None:
    add_patch(root, today(root))
    assert len(findings(root, compiler="triton-3.9.0+llvm-0123456789ab")) == 2


def test_neither_triton_nor_torch_is_loaded(root: Path) -> None:
    add_patch(root, today(root))
    code = (
        "import sys; from txtdb.cli import main; main(['check', *sys.argv[1:]], standalone_mode=False); "
        "assert not {'triton', 'torch'} & sys.modules.keys()"
    )
    words = [sys.executable, "-c", code, str(root), "--today", "2026-06-01"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
