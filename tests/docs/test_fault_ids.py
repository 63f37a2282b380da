"""Every fault id that a package reports stands in a table of its page, and no other does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import codegen
import txtdb
from tools.docs.examples import REPO

TXTDB, CODEGEN = Path(txtdb.__file__).parent, Path(codegen.__file__).parent
AOT_COMMAND = CODEGEN / "aot_command.py"
DOCS = REPO / "docs"

# Page → the files whose ids it explains.
PAGES: dict[str, list[Path]] = {
    "import-export.md": sorted((TXTDB / "formats").glob("*.py")),
    "evidence.md": sorted((TXTDB / "evidence").glob("*.py")),
    "commands.md": sorted(
        path
        for package in ("editing", "views", "diff", "patching", "merge", "cli")
        for path in (TXTDB / package).glob("*.py")
    ),
    "tuning-tutorial.md": [
        TXTDB / "tune" / f"{name}.py"
        for name in (
            "choosing",
            "description",
            "fields",
            "job",
            "journal",
            "known",
            "publish",
            "session",
            "simulate",
            "taken",
            "tunable_faults",
        )
    ],
    "codegen.md": sorted(path for path in CODEGEN.glob("*.py") if path.name != AOT_COMMAND.name),
    "aot.md": [*sorted((CODEGEN / "aot").glob("*.py")), AOT_COMMAND],
    "runtime.md": sorted((CODEGEN / "runtime").glob("*.py")),
}
# Texts of the form of an id that are none: encodings, words of git, names of git's settings.
OTHER = {
    "utf-8", "utf-8-sig", "rev-parse", "cat-file", "ls-tree", "ls-files", "check-attr", "merge-file", "merge-base",
    "merge-driver", "txtdb-ancestor", "kill-parent",
}  # fmt: skip
LAUNCH_FAULTS = ("LaunchFault", "Unsupported", "NoKernel", "Misaligned", "DriverFault")
ID = re.compile(r"[a-z]+(?:-[a-z]+)*")


def used_ids(paths: Iterable[Path]) -> set[str]:
    """First arguments of Fault(…), Finding(…) and their kin, and every text that has a hyphen as ids have it."""
    return {text for path in paths for text in _ids(ast.parse(path.read_text(encoding="utf-8")))} - OTHER


def _ids(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _reports(node.func):
            yield from _id(node.args[0])
        if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == [
            "RULE"
        ]:
            yield from _id(node.value)
        yield from (text for text in _id(node) if "-" in text)


def _reports(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name in ("Fault", "Finding", "fault", "faults", "_fault", "_write_fault", *LAUNCH_FAULTS)


def _id(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
        yield node.value


def table_ids(page: str) -> set[str]:
    """The ids in the first column of the tables that are headed `id` or `rule`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    tables = re.findall(r"^\| (?:id|rule) \|.*\n\|[-|]+\|\n((?:\|.*\n?)+)", text, re.MULTILINE)
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("page", PAGES)
def test_every_id_is_explained_and_no_other(page: str) -> None:
    used, told, checks = used_ids(PAGES[page]), table_ids(page), table_ids("checks.md")
    assert len(used - checks) >= 5
    assert used - checks - told == set(), "not explained"
    assert told - used == set(), "not reported by anything"


def test_ids_are_found_in_code_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text('RULE = "one"\nself._fault("two-ids", 1)\nFault("three", 2)\nprint("four", "a sentence - no id")\n')
    assert used_ids([path]) == {"one", "two-ids", "three"}
    assert {"hole", "usage", "output"} <= table_ids("codegen.md")
    assert "--on-hole fault" not in table_ids("codegen.md")
