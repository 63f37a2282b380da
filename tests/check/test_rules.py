"""Each rule id: a fixture that fires it and nothing else, a line in the docs, and a place in the table."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

import txtdb
from tests.build import make_db
from tests.check.fixtures import FIXTURES, make
from txtdb.check.rules import READING_IDS, RULES
from txtdb.check.run import Report, run_checks
from txtdb.layers.database import open_database

TODAY = date(2026, 6, 1)
# These end the run before there is anything to check, or need a baseline: tested in test_command.py. An unreadable
# file is no text that a fixture could hold: tested in tests/layers.
ELSEWHERE = {"no-archs", "no-root", "stale-baseline", "unreadable"}


def check(root: Path, overlays: list[Path] | None = None, today: date = TODAY) -> Report:
    return run_checks(open_database(root, overlays or []), today)


def fired(report: Report) -> list[str]:
    return sorted(finding.rule for finding in report.findings)


def all_ids() -> set[str]:
    return {*READING_IDS, *(name for rule in RULES for name in rule.ids)}


@pytest.mark.parametrize("rule", sorted(FIXTURES))
def test_fixture_fires_exactly(rule: str, tmp_path: Path) -> None:
    fixture = FIXTURES[rule]
    root, overlays = make(fixture, tmp_path)
    if rule == "not-utf8":
        (root / "gfxB" / "attn_fwd.txtdb").write_bytes(b"#! txtdb 1\n# \xff\n")
    report = check(root, overlays)
    assert fired(report) == sorted(fixture.fires)
    assert rule in fixture.fires


def test_the_default_database_has_no_findings(tmp_path: Path) -> None:
    assert check(make_db(tmp_path)).findings == ()


def test_every_id_has_a_fixture() -> None:
    assert all_ids() == set(FIXTURES) | ELSEWHERE


def test_every_id_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)) == all_ids()


def test_every_id_in_the_code_is_in_the_table() -> None:
    """First arguments of Fault(…), Finding(…) and their kin in the packages that read a database."""
    # Of questions, not of files: an arch or interface that somebody asks for.
    other = {"unknown-arch", "unsupported-iface", "unknown-iface"}
    used: set[str] = set()
    for path in Path(txtdb.__file__).parent.rglob("*.py"):
        if path.parent.name not in ("syntax", "model", "layers", "check"):
            continue  # commands refuse things that no check meets
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                named = node.func.id in ("Fault", "Finding", "_mistake", "_first_line_fault", "_file_finding")
                if named and isinstance(first, ast.Constant) and isinstance(first.value, str):
                    used.add(first.value)
    assert used - all_ids() - other == set()
    assert len(used) > 50


def test_findings_point_into_their_files(tmp_path: Path) -> None:
    for rule, fixture in FIXTURES.items():
        root, overlays = make(fixture, tmp_path / rule)
        for finding in check(root, overlays).findings:
            path = Path(finding.span.file)
            if finding.span.line:
                lines = path.read_bytes().decode("utf-8", "replace").split("\n")
                assert 1 <= finding.span.line <= len(lines), (rule, finding)
                assert 1 <= finding.span.column <= finding.span.last_column, (rule, finding)
