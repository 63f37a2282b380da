"""Each rule id: a fixture that fires it and nothing else, a line in the docs, and a place in the table."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

import txtdb
from tests.build import F1, make_db, patch, write_files
from tests.check.fixtures import FIXTURES, Fixture, evidence_patch, make
from tests.merge.repository import make_repository
from txtdb.check.queue import check_queue
from txtdb.check.rules import QUEUE_IDS, READING_IDS, RULES, all_rules
from txtdb.check.run import Report, run_checks
from txtdb.layers.database import open_database

TODAY = date(2026, 6, 1)
TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
# Ids that no fixture can fire, and the file that tests each: they end the run before there is anything to check, need
# a baseline, open changes or a file that is no text.
ELSEWHERE = {
    "no-archs": "layers/test_listing.py",
    "no-root": "layers/test_listing.py",
    "stale-baseline": "check/test_command.py",
    "unreadable": "layers/test_field_reports.py",
    "same-cell": "check/test_rules.py",
    "merge-conflict": "check/test_rules.py",
}


def check(root: Path, overlays: list[Path] | None = None, today: date = TODAY) -> Report:
    return run_checks(open_database(root, overlays or []), today)


def fired(report: Report) -> list[str]:
    return sorted(finding.rule for finding in report.findings)


def own_ids() -> set[str]:
    return {*READING_IDS, *QUEUE_IDS, *(name for rule in RULES for name in rule.ids)}


def plugin_ids() -> set[str]:
    """The ids of other packages' rules, those of the images among them."""
    return {name for rule in all_rules() for name in rule.ids} - own_ids()


def plugin_page(rule: str) -> str:
    """The file that tests an id of another package's."""
    return f"aot/test_{'measured' if 'evidence' in rule else 'rules'}.py"


def table_ids(page: str, heading: str) -> list[str]:
    """The ids that the tables below a heading explain."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    level = heading.partition(" ")[0]
    own = re.split(rf"^#{{1,{len(level)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([a-z0-9-]+)` \|", own, re.MULTILINE)


@pytest.mark.parametrize("rule", sorted(FIXTURES))
def test_fixture_fires_exactly(rule: str, tmp_path: Path) -> None:
    fixture = FIXTURES[rule]
    root, overlays = make(fixture, tmp_path)
    if rule == "not-utf8":
        (root / "gfxB" / "attn_fwd.txtdb").write_bytes(b"#! txtdb 1\n# \xff\n")
    report = check(root, overlays)
    assert fired(report) == sorted(fixture.fires)
    assert rule in fixture.fires


@pytest.mark.parametrize(("stated", "fires"), [("sm_90", ["unlike-evidence"]), ("gfxB:xnack-", [])])
def test_evidence_whose_device_is_another_arch_than_its_table(stated: str, fires: list[str], tmp_path: Path) -> None:
    fixture = Fixture(evidence_patch(device={"name": "some", "arch": stated}), tuple(fires))
    assert fired(check(*make(fixture, tmp_path))) == fires


def test_the_default_database_has_no_findings(tmp_path: Path) -> None:
    assert check(make_db(tmp_path)).findings == ()


def test_every_id_has_a_fixture() -> None:
    assert own_ids() == {*FIXTURES, *ELSEWHERE}
    assert not FIXTURES.keys() & ELSEWHERE


@pytest.mark.parametrize(
    ("rule", "file"), [*ELSEWHERE.items(), *((rule, plugin_page(rule)) for rule in sorted(plugin_ids()))]
)
def test_ids_without_a_fixture_are_tested_elsewhere(rule: str, file: str) -> None:
    assert f'"{rule}"' in (TESTS / file).read_text(encoding="utf-8")


def test_every_id_is_explained_once() -> None:
    assert sorted(table_ids("checks.md", "## Rules")) == sorted(own_ids())


def test_ids_of_other_packages_are_explained_on_their_page() -> None:
    assert "never-compiled" in plugin_ids()
    assert sorted(table_ids("aot.md", "## Checks")) == sorted(plugin_ids())


def _set(symbol: str) -> str:
    return patch("gfxB", {F1: [f"64 {symbol} . ."]})


def queued(root: Path, *changes: str) -> list[tuple[str, tuple[str, ...], int]]:
    """Rule, changes and number of cells of what open changes break together."""
    report = check_queue(root, (), changes, TODAY)
    assert all(not findings for _, findings in report.alone)
    return [(item.finding.rule, item.changes, len(item.finding.cells)) for item in report.together]


def test_same_cell_fires_between_two_patches(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    files = {"a/attn_fwd.0010-x.dbpatch": _set("d"), "a/attn_fwd.0020-y.dbpatch": _set("c")}
    write_files(tmp_path, {**files, "a/attn_fwd.0030-z.dbpatch": _set("d")})
    first, second, third = (str(tmp_path / name) for name in sorted({*files, "a/attn_fwd.0030-z.dbpatch"}))
    assert ("same-cell", (first, second), 1) in queued(root, first, second)
    assert "same-cell" not in [rule for rule, *_ in queued(root, first, third)]


def test_merge_conflict_fires_between_two_branches(tmp_path: Path) -> None:
    make_db(tmp_path / "made")
    files = {
        path.relative_to(tmp_path / "made").as_posix(): path.read_text()
        for path in (tmp_path / "made").rglob("*")
        if path.is_file()
    }
    repository = make_repository(tmp_path / "repo", files)
    archs = files["db/archs.toml"]
    for number in (1, 2):
        repository.branch(f"units-{number}", {"db/archs.toml": archs.replace("= 110", f"= 11{number}")})
    root = repository.path / "db"
    assert queued(root, "units-1", "units-2") == [("merge-conflict", ("units-1", "units-2"), 0)]
    assert queued(root, "units-1") == []


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
    assert used - own_ids() - other == set()
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
