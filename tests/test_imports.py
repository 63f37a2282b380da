"""Modules import one way. Each is imported in a fresh interpreter, and what it drew in is looked at."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import codegen
import txtdb

# Lowest first; those of one line stand beside each other. The root's own modules lie below all.
LAYERS = (
    ("faults", "files"),
    ("syntax",),
    ("model",),
    ("layers",),
    ("formats", "diff", "evidence"),
    ("views", "editing", "patching", "merge"),
    ("check",),
    ("review",),
    ("tune",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# What only the modules that measure, compile, connect or compare may load.
HEAVY = ("torch", "triton", "scipy", "deepdiff", "pandas", "click")
MAY_LOAD = {"deepdiff": ("diff", "review", "merge"), "click": ("cli",)}

# The façade `txtdb/__init__.py` imports from everywhere, so that a bare package stands in for it.
IMPORT = """
import importlib, json, sys, types
for name, path in json.loads(sys.argv[2]).items():
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def modules(package: object) -> list[str]:
    name, path = package.__name__, package.__path__  # type: ignore[attr-defined]
    found = [item.name for item in pkgutil.walk_packages(path, f"{name}.")]
    return [module for module in found if not module.endswith("__main__")]


def loaded(module: str) -> tuple[list[str], str]:
    """What is in `sys.modules` after the import, and what was printed on the way."""
    paths = json.dumps({package.__name__: str(Path(package.__path__[0])) for package in (txtdb, codegen)})
    command = [sys.executable, "-c", IMPORT, module, paths]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    *printed, names = result.stdout.splitlines()
    return json.loads(names), "\n".join([*printed, result.stderr])


def part(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("module", modules(txtdb))
def test_a_module_imports_nothing_from_above(module: str) -> None:
    names, printed = loaded(module)
    assert printed == ""
    assert part(module) in RANK, f"{part(module)} has no place in LAYERS"
    ours = [name for name in names if name.startswith("txtdb.")]
    assert [name for name in ours if RANK[part(name)] > RANK[part(module)]] == []
    assert [name for name in names if name.split(".")[0] == "codegen" and name != "codegen"] == []
    allowed = [name for name, parts in MAY_LOAD.items() if part(module) in parts]
    assert [name for name in HEAVY if name in names and name not in allowed] == []


@pytest.mark.parametrize("module", modules(codegen))
def test_a_module_of_codegen_prints_nothing(module: str) -> None:
    assert loaded(module)[1] == ""


def test_the_facade_loads_what_a_database_needs() -> None:
    code = "import json, sys, txtdb; print(json.dumps(sorted(sys.modules)))"
    names = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    ours = {part(name) for name in names if name.startswith("txtdb.")}
    assert ours <= {"faults", "files", "syntax", "model", "layers"}
    assert [name for name in HEAVY if name in names] == []


def test_public_names() -> None:
    assert sorted(txtdb.__all__) == list(txtdb.__all__)
    assert [name for name in txtdb.__all__ if not hasattr(txtdb, name)] == []
