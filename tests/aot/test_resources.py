"""Resource files: their text, and what is read out of images."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.aot.measure import amd_resources, cuda_usage
from codegen.aot.resources import Record, merged, read_resources, resource_file, resources_text, update_resources
from codegen.aot.result import OK, OUT_OF_RESOURCES, TIMEOUT, Resources, judged
from tests.aot.tiny import COMPILER, NEEDS, failed, fake, fake_pack, make_root
from txtdb.cli import main
from txtdb.layers.database import open_database

SOURCE = "0123456789abcdef"
PLAIN = ("bf16", 0, 32, False, False, 0)
CAUSAL = ("bf16", 3, 32, False, False, 0)
SMALL, LARGE = (16, 32, False, 0, 4, 1), (64, 32, True, 2, 2, 1)

TEXT = f"""\
#! resources 1
#! iface attn_fwd
#! arch gfx942
#! key Q_dtype CAUSAL_TYPE BLOCK_DMODEL ENABLE_DROPOUT PADDED_HEAD BIAS_TYPE
#! config BLOCK_M BLOCK_N PRE_LOAD_V waves_per_eu num_warps num_stages
#! columns registers sgprs spills sgpr_spills shared occupancy

[bf16 0 32 false false 0] {SOURCE} {COMPILER}
16 32 false 0 4 1 = 64 30 0 0 4096 8
64 32 true 2 2 1 = timeout

[bf16 3 32 false false 0] {SOURCE} {COMPILER}
16 32 false 0 4 1 = 64 - 0 - 4096 8
#! end
"""
RECORDS = [
    Record(CAUSAL, SMALL, SOURCE, COMPILER, OK, Resources(64, None, 0, None, 4096, 8)),
    Record(PLAIN, LARGE, SOURCE, COMPILER, TIMEOUT, None),
    Record(PLAIN, SMALL, SOURCE, COMPILER, OK, NEEDS),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path, "gfx942", "gfx950")


def schema(root: Path):
    return open_database(root).schemas["attn_fwd"]


def test_one_text_whatever_the_order(root: Path) -> None:
    assert resources_text(resource_file(schema(root), "gfx942", RECORDS)) == TEXT
    assert resources_text(resource_file(schema(root), "gfx942", RECORDS[::-1])) == TEXT


def test_the_text_comes_back() -> None:
    content, faults = read_resources(TEXT.encode(), "x.resources")
    assert faults == []
    assert content is not None
    assert resources_text(content) == TEXT
    block = content.blocks["bf16 0 32 false false 0"]
    entry = block.entry("16 32 false 0 4 1")
    assert entry is not None
    assert (entry.line, entry.status, entry.resources) == (9, OK, NEEDS)
    assert block.entry("64 32 true 2 2 1").status == TIMEOUT  # type: ignore[union-attr]
    assert block.entry("64 32 true 2 2 2") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("#! resources 1", "#! resources 2", 1, "first line"),
        ("#! end\n", "", 13, "closing"),
        ("= 64 30 0 0 4096 8", "= 64 30 0 0 4096", 9, "no line of a resource file"),
        ("= 64 30 0 0 4096 8", "= - 30 0 0 4096 8", 9, "no line of a resource file"),
        ("= timeout", "= lost", 10, "no line of a resource file"),
        ("= timeout", "= ok", 10, "no line of a resource file"),
        ("64 32 true 2 2 1 = timeout", "16 32 false 0 4 1 = timeout", 10, "two lines"),
        ("[bf16 3", "[bf16 0", 12, "two blocks"),
        (f"[bf16 3 32 false false 0] {SOURCE}", "[bf16 3 32 false false 0] 12", 12, "a block starts with"),
        (f"[bf16 0 32 false false 0] {SOURCE} {COMPILER}\n", "", 8, "before the first block"),
        ("#! arch gfx942\n", "", 1, "header"),
        ("sgprs spills", "spills sgprs", 1, "header"),
    ],
)
def test_what_is_no_resource_file(old: str, new: str, line: int, message: str) -> None:
    assert old in TEXT
    content, faults = read_resources(TEXT.replace(old, new).encode(), "x.resources")
    assert content is None
    assert faults[0].span.line == line
    assert message in faults[0].message


def test_every_cut_is_found() -> None:
    lines = TEXT.splitlines(keepends=True)
    for count in range(len(lines)):
        assert read_resources("".join(lines[:count]).encode(), "x")[0] is None


def test_no_text_at_all() -> None:
    assert read_resources(b"\xff\xfe", "x")[0] is None


def test_candidates_of_earlier_runs_stay_while_kernel_and_compiler_do(root: Path) -> None:
    """A run that compiles one config keeps the lines of the others, unless they are of another source or compiler."""
    old = resource_file(schema(root), "gfx942", RECORDS)
    more = Record(PLAIN, (32, 32, False, 0, 4, 1), SOURCE, COMPILER, OK, NEEDS)
    both = merged(old, resource_file(schema(root), "gfx942", [more]), [PLAIN, CAUSAL])
    assert {name: len(block.lines) for name, block in both.blocks.items()} == {
        "bf16 0 32 false false 0": 3,
        "bf16 3 32 false false 0": 1,
    }
    other = Record(PLAIN, SMALL, "fedcba9876543210", COMPILER, OK, NEEDS)
    renewed = merged(old, resource_file(schema(root), "gfx942", [other]), [PLAIN])
    assert {name: len(block.lines) for name, block in renewed.blocks.items()} == {"bf16 0 32 false false 0": 1}


def test_update_writes_once(root: Path) -> None:
    path, written, faults = update_resources(root, schema(root), "gfx942", RECORDS)
    assert (path, written, faults) == (root / "gfx942" / "attn_fwd.resources", True, [])
    assert path.read_text() == TEXT
    assert update_resources(root, schema(root), "gfx942", RECORDS[:1])[1] is False


def test_a_damaged_file_is_not_overwritten(root: Path) -> None:
    path = root / "gfx942" / "attn_fwd.resources"
    path.write_text(TEXT.replace("#! end\n", ""))
    _, written, faults = update_resources(root, schema(root), "gfx942", RECORDS)
    assert not written
    assert faults[0].rule == "resources"
    assert "#! end" not in path.read_text()


def test_the_command_writes_what_packs_know(root: Path, tmp_path: Path) -> None:
    """A replaced image has a line, too: its status, or what it needs where only the device has too little."""

    def judge(plan, wanted):
        if wanted.config[0] == 64:
            return judged(fake(wanted, shared=70000)[0], 65536) if wanted.config[2] else failed(TIMEOUT)
        return None

    pack = fake_pack(root, tmp_path / "one.pack", "gfx942", judge=judge)
    done = CliRunner().invoke(main, ["aot", "resources", str(root), str(pack)])
    assert done.exit_code == 0, done.output
    assert "1 resource file, 1 changed" in done.output
    lines = (root / "gfx942" / "attn_fwd.resources").read_text().splitlines()
    assert "64 32 false 0 4 1 = timeout" in lines
    assert "64 32 true 2 2 1 = 64 30 0 0 70000 8" in lines
    assert OUT_OF_RESOURCES not in "\n".join(lines)
    again = CliRunner().invoke(main, ["aot", "resources", str(root), str(pack)])
    assert "1 resource file, 0 changed" in again.output


def test_a_pack_of_other_fields_is_refused(root: Path, tmp_path: Path) -> None:
    pack = fake_pack(root, tmp_path / "one.pack", "gfx942")
    path = root / "schema" / "attn_fwd.toml"
    path.write_text(path.read_text().replace('name = "num_stages"\n', 'name = "num_stages"\nbinary = false\n'))
    done = CliRunner().invoke(main, ["aot", "resources", str(root), str(pack), "--format", "json"])
    assert done.exit_code == 1
    assert "not those of the schema" in done.output
    assert not (root / "gfx942" / "attn_fwd.resources").exists()


def test_a_changed_line_is_one_line_of_a_diff(root: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not on PATH")
    path, _, _ = update_resources(root, schema(root), "gfx942", RECORDS)
    before = path.with_suffix(".before")
    before.write_bytes(path.read_bytes())
    update_resources(root, schema(root), "gfx942", [Record(PLAIN, SMALL, SOURCE, COMPILER, TIMEOUT, None)])
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", str(before), str(path)], capture_output=True, text=True, check=False
    )
    assert diff.stdout.split()[:2] == ["1", "1"]


CDNA = """\
; NumVgprs: 120
; NumAgprs: 64
; TotalNumVgprs: 184
; Occupancy: 2
amdhsa.kernels:
  - .agpr_count:     64
    .sgpr_count:     60
    .sgpr_spill_count: 3
    .vgpr_count:     184
    .vgpr_spill_count: 7
"""


def test_numbers_of_amd_assembly() -> None:
    assert amd_resources(CDNA, 8192) == Resources(184, 60, 7, 3, 8192, 2)
    narrow = "\n".join(line for line in CDNA.splitlines() if "Agprs" not in line and "Total" not in line)
    assert amd_resources(narrow, 0).registers == 120
    with pytest.raises(KeyError, match="Occupancy"):
        amd_resources(CDNA.replace("Occupancy", "Other"), 0)


def test_numbers_of_a_cubin() -> None:
    """168 registers a thread: 512 // 168 warps of a scheduler. 40 bytes of stack are 10 registers."""
    text = "Function attn_fwd:\n  REG:164 STACK:40 SHARED:1024 LOCAL:0 CONSTANT[0]:800 TEXTURE:0\n"
    assert cuda_usage(text, 4096) == Resources(164, None, 10, None, 4096, 3)
    assert cuda_usage(text.replace("164", "8"), 0).occupancy == 16
