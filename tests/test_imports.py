"""Modules import one way. Each is imported in a fresh interpreter, and what it drew in is looked at."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import codegen
import txtdb

# Lowest first; those of one line stand beside each other.
LAYERS = (
    ("faults", "files", "interrupts", "locking", "wording"),
    ("syntax",),
    ("model",),
    ("layers",),
    ("editing",),
    ("formats", "diff", "evidence", "views"),
    ("merge", "patching"),
    ("check",),
    ("review",),
    ("tune",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# What only the modules that measure, compile, launch, verify or compare may load.
HEAVY = ("torch", "triton", "cuda", "scipy", "deepdiff")
MAY_LOAD = {
    "torch": ("codegen.aot", "codegen.kernels", "codegen.runtime", "codegen.tuning", "txtdb.tune"),
    "triton": ("codegen.aot", "codegen.kernels", "codegen.tuning", "txtdb.tune"),
    "cuda": ("codegen.runtime",),
    "scipy": ("txtdb.tune", "txtdb.evidence"),
    "deepdiff": ("txtdb.diff", "txtdb.review"),
}

# One interpreter that has imported nothing of ours and forks for each module. The façade `txtdb/__init__.py` imports
# from several layers, so that a bare package stands in for it.
IMPORTER = """
import importlib, json, os, sys, types
import lark, numpy
def child(module, packages):
    for name, path in packages.items():
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    try:
        importlib.import_module(module)
    except ImportError as error:
        return {"error": str(error), "missing": (error.name or "").partition(".")[0]}
    return {"loaded": sorted(sys.modules)}
modules, packages, folder = json.load(sys.stdin)
for number, module in enumerate(modules):
    pid = os.fork()
    if not pid:
        with open(os.path.join(folder, f"{number}.out"), "wb", 0) as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            result = child(module, packages)
            sys.stdout.flush()
        with open(os.path.join(folder, f"{number}.json"), "w") as stream:
            json.dump(result, stream)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@dataclass(frozen=True)
class Import:
    """The modules that an import loaded, what was printed on the way, and the package that was not there."""

    loaded: tuple[str, ...]
    printed: str
    missing: str


def modules(package: ModuleType) -> list[str]:
    found = [item.name for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return sorted(module for module in found if not module.endswith("__main__"))


OURS = modules(txtdb)
THEIRS = modules(codegen)


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Import]:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    folder = tmp_path_factory.mktemp("imports")
    packages = {package.__name__: str(Path(package.__path__[0])) for package in (txtdb, codegen)}
    order = json.dumps([[*OURS, *THEIRS], packages, str(folder)])
    subprocess.run([sys.executable, "-c", IMPORTER], input=order, text=True, check=True)
    found = {}
    for number, module in enumerate([*OURS, *THEIRS]):
        result = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
        printed = (folder / f"{number}.out").read_text(encoding="utf-8")
        assert "error" not in result or result["missing"] in HEAVY, result
        found[module] = Import(tuple(result.get("loaded", ())), printed, result.get("missing", ""))
    return found


def part(module: str) -> str:
    return module.split(".")[1]


def too_heavy(module: str, found: Import) -> list[str]:
    within = ".".join(module.split(".")[:2])
    return [name for name in HEAVY if name in (*found.loaded, found.missing) and within not in MAY_LOAD[name]]


@pytest.mark.parametrize("module", OURS)
def test_a_module_imports_nothing_from_above(imports: dict[str, Import], module: str) -> None:
    found = imports[module]
    assert part(module) in RANK, f"{part(module)} has no place in LAYERS"
    ours = [name for name in found.loaded if name.startswith("txtdb.")]
    assert [name for name in ours if RANK[part(name)] > RANK[part(module)]] == []
    assert [name for name in found.loaded if name.startswith("codegen.")] == []
    assert too_heavy(module, found) == []
    assert found.printed == ""


@pytest.mark.parametrize("module", THEIRS)
def test_a_module_of_codegen_loads_what_it_needs(imports: dict[str, Import], module: str) -> None:
    assert too_heavy(module, imports[module]) == []
    assert imports[module].printed == ""


@pytest.mark.parametrize("module", ["codegen.kernels.attention", "codegen.kernels.reference", "codegen.runtime"])
def test_images_of_a_pack_are_called_without_triton(imports: dict[str, Import], module: str) -> None:
    assert "triton" not in (*imports[module].loaded, imports[module].missing)


def test_the_facade_loads_what_a_database_needs() -> None:
    code = "import json, sys, txtdb; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = json.loads(output.stdout)
    assert output.stderr == ""
    assert {part(name) for name in names if name.startswith("txtdb.")} <= {
        "faults",
        "files",
        "wording",
        "syntax",
        "model",
        "layers",
    }
    assert [name for name in HEAVY if name in names] == []


def test_public_names_are_there() -> None:
    assert [name for name in txtdb.__all__ if not hasattr(txtdb, name)] == []
