"""The real database: its true faults and no others, and what one more fault adds."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from txtdb.check.finding import Finding
from txtdb.check.run import run_checks
from txtdb.layers.database import open_database

pytestmark = pytest.mark.real


def check(root: Path) -> tuple[Finding, ...]:
    return run_checks(open_database(root), date(2026, 6, 1)).findings


def cells(findings: tuple[Finding, ...], rule: str, arch: str) -> int:
    return sum(len(finding.cells) for finding in findings if finding.rule == rule and finding.arch == arch)


@pytest.fixture(scope="module")
def known(real_db: Path) -> tuple[Finding, ...]:
    return check(real_db)


@pytest.fixture
def copy(real_db: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(real_db, tmp_path / "copy"))


def test_true_faults_and_no_others(known: tuple[Finding, ...]) -> None:
    assert {finding.rule for finding in known} == {"hole", "backend-without-kernel"}
    assert cells(known, "hole", "gfx950") == 10
    assert cells(known, "hole", "gfx1201") == 4
    heirs = {(f.iface, f.inherited_by) for f in known if f.rule == "hole"}
    assert heirs == {("op_attn_fwd", ()), ("op_attn_bwd", ("gfx1200",))}
    assert sum(len(f.cells) for f in known if f.rule == "backend-without-kernel") == 3204
    assert all(
        dict(c.functional)["BLOCK_DMODEL"] == 256 for f in known if f.rule == "backend-without-kernel" for c in f.cells
    )


def _more(root: Path, known: tuple[Finding, ...]) -> list[Finding]:
    """Findings of the copy that the original does not have (lines may have moved)."""

    def key(finding: Finding) -> tuple[object, ...]:
        return finding.rule, finding.arch, finding.iface, finding.cells

    before = Counter(map(key, known))
    return [finding for finding in check(root) if not before[key(finding)]]


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert count == 1
    path.write_text(changed, encoding="utf-8", newline="\n")


def test_one_cell_removed(copy: Path, known: tuple[Finding, ...]) -> None:
    path = copy / "gfx942" / "attn_fwd.txtdb"
    _edit(
        path,
        r"^(\[bf16 0 128 .*\]\n16) [A-Za-z]+\*?(\d*)",
        lambda m: f"{m[1]} ." + (f" a*{int(m[2]) - 1}" if m[2] else ""),
    )  # type: ignore[arg-type]
    [finding] = _more(copy, known)
    assert (finding.rule, len(finding.cells), finding.inherited_by) == ("hole", 1, ("gfx1250",))


def test_one_sequence_length_removed(copy: Path, known: tuple[Finding, ...]) -> None:
    _edit(copy / "gfx950" / "bwd_kernel_dq.txtdb", r"^(\[bf16 0 128 .*\]\n)16 .*\n", r"\1")
    [finding] = _more(copy, known)
    assert (finding.rule, len(finding.cells)) == ("missing-row", 10)


def test_one_functional_removed(copy: Path, known: tuple[Finding, ...]) -> None:
    _edit(copy / "gfx90a" / "bwd_kernel_dk_dv.txtdb", r"^\[bf16 0 128 .*\]\n(?:[0-9].*\n)+\n", "")
    [finding] = _more(copy, known)
    assert (finding.rule, len(finding.cells)) == ("missing-functional", 100)


def test_a_tile_size_of_100(copy: Path, known: tuple[Finding, ...]) -> None:
    """In a config that exactly ten cells use: one that the test puts there."""
    path = copy / "gfx950" / "bwd_kernel_fuse.txtdb"
    fields = re.search(r"^#! config (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert fields
    values = " ".join({"BLOCK_M": "100", "BLOCK_N": "16"}.get(name, "1") for name in fields[1].split())
    _edit(path, r"^\n\[", f"zz = {values}\n\n[")
    _edit(path, r"^(\[bf16 0 128 .*\]\n)16 .*$", r"\g<1>16 zz*10")
    [finding] = _more(copy, known)
    assert (finding.rule, len(finding.cells)) == ("illegal-config", 10)
    assert "BLOCK_M = 100" in finding.message
