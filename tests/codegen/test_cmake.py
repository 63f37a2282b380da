"""The example CMake project is configured, built and run, and built again after a change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import write_files
from tests.codegen.databases import key, section, table_text
from tests.codegen.tools import needs_compiler

PROJECT = Path(__file__).parents[1] / "cmake_project"
GENERATORS = {"Ninja": "ninja", "Unix Makefiles": "make"}
KEYS = {"Q_dtype": ["bf16", "fp16"], "BLOCK_DMODEL": [64, 128]}
AXES = {"Max_seqlen_q": [1024, 4096], "Max_seqlen_k": [1024, 4096]}

pytestmark = [
    pytest.mark.slow,
    needs_compiler,
    pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake on PATH"),
]


def database(root: Path) -> Path:
    heads = "".join(key(name, values) for name, values in KEYS.items())
    axes = "".join(section("axis", name=name, bins=bins) for name, bins in AXES.items())
    config = section("config", name="BLOCK_M", type="int", values=[16, 64, 128])
    archs = "[arch.gfx942]\n[arch.gfx950]\n"
    files = {"archs.toml": '[arch.gfx942]\naliases = ["MI300X"]\n[arch.gfx950]\n'}
    files["schema/attn_fwd.toml"] = f'iface = "attn_fwd"\n{heads}{axes}{config}{archs}'
    files["schema/other.toml"] = f'iface = "other"\n{heads}{axes}{config}{archs}'
    for arch in ("gfx942", "gfx950"):
        for iface in ("attn_fwd", "other"):
            files[f"{arch}/{iface}.txtdb"] = table_text(
                arch, KEYS, AXES, ["BLOCK_M"], lambda _f, at: (64 if at[0] == 1024 else 128,), iface=iface
            )
    return write_files(root, files)


def patch(size: int) -> str:
    return table_text(
        "gfx942", KEYS, {"Max_seqlen_q": [4096], "Max_seqlen_k": [1024]}, ["BLOCK_M"], lambda _f, _at: (size,),
        iface="attn_fwd", kind="dbpatch", functionals=[("bf16", 128)],
    )  # fmt: skip


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program prints, found as a reader of the documentation finds it: this interpreter's programs first."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def program() -> Path:
    found = Path(sys.executable).parent / "txtdb"
    if not found.exists():
        pytest.skip(f"the program is not installed as {found}")
    return found


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_example_is_built_run_and_built_again(generator, program, tmp_path):
    if shutil.which(GENERATORS[generator]) is None:
        pytest.skip(f"no {GENERATORS[generator]} on PATH")
    root, build = database(tmp_path / "a database"), tmp_path / "build"
    options = [f"-DDATABASE={root}", f"-DTXTDB_EXECUTABLE={program}", f"-DPython3_EXECUTABLE={sys.executable}"]
    run("cmake", "-G", generator, "-S", PROJECT, "-B", build, *options)
    log = run("cmake", "--build", build)
    assert "warning" not in log
    name = "gfx942 BLOCK_M={0} attn_fwd-bf16-128-{0}\n"
    assert run(build / "example", "MI300X:xnack-", "4096", "1024") == name.format(128)
    assert compiled(run("cmake", "--build", build)) == set()
    (root / "gfx942" / "attn_fwd.0010-x.dbpatch").write_text(patch(16))
    assert compiled(run("cmake", "--build", build)) == {"attn_fwd"}
    assert run(build / "example", "gfx942", "4096", "1024") == name.format(16)
    (root / "gfx942" / "attn_fwd.0010-x.dbpatch").write_text(patch(64))
    assert compiled(run("cmake", "--build", build)) == {"attn_fwd"}
    assert run(build / "example", "gfx942", "4096", "1024") == name.format(64)
    (root / "gfx942" / "attn_fwd.0010-x.dbpatch").unlink()
    run("cmake", "--build", build)
    assert run(build / "example", "gfx942", "4096", "1024") == name.format(128)


def compiled(log: str) -> set[str]:
    return set(re.findall(r"Building CXX object \S*/(\w+)\.cpp\.o", log))


def test_faults_of_the_database_fail_the_build(program, tmp_path):
    if shutil.which("ninja") is None:
        pytest.skip("no ninja on PATH")
    root, build = database(tmp_path / "db"), tmp_path / "build"
    (root / "gfx942" / "attn_fwd.0010-x.dbpatch").write_text("<<<<<<< ours\n" + patch(16))
    options = [f"-DDATABASE={root}", f"-DTXTDB_EXECUTABLE={program}", f"-DPython3_EXECUTABLE={sys.executable}"]
    run("cmake", "-G", "Ninja", "-S", PROJECT, "-B", build, *options)
    done = subprocess.run(["cmake", "--build", str(build)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "attn_fwd.0010-x.dbpatch:1:1" in done.stdout + done.stderr


PAGE = Path(__file__).parents[2] / "docs" / "codegen.md"


def documented(language: str) -> str:
    """The one fence of this language on the page."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_documented_cmake_lines_build_a_library(program, tmp_path):
    if shutil.which("ninja") is None:
        pytest.skip("no ninja on PATH")
    database(tmp_path / "amd")
    head = "cmake_minimum_required(VERSION 3.20)\nproject(mylib LANGUAGES CXX)\nadd_library(mylib SHARED mylib.cpp)\n"
    (tmp_path / "CMakeLists.txt").write_text(head + documented("cmake"))
    (tmp_path / "mylib.cpp").write_text(
        '#include "attn_fwd.h"\nbool known(const char* name) { return bool(mylib::tables::find_arch(name)); }\n'
    )
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    assert {path.name for path in (tmp_path / "build").glob("lib*")} == {"libmylib.so", "libtables.a"}
    assert {path.name for path in (tmp_path / "build" / "tables" / "manifest").iterdir()} == {
        "gfx942.json",
        "gfx950.json",
    }


def test_the_documented_ninja_lines_generate_again_after_a_change(program, tmp_path):
    if shutil.which("ninja") is None:
        pytest.skip("no ninja on PATH")
    root = database(tmp_path / "amd")
    (tmp_path / "build.ninja").write_text(documented("ninja"))
    assert "written" in run("ninja", cwd=tmp_path)
    assert "no work to do" in run("ninja", cwd=tmp_path)
    (root / "gfx942" / "attn_fwd.0010-x.dbpatch").write_text(patch(16))
    assert "4 tables of 2 archs and 2 interfaces, 3 of them" in run("ninja", cwd=tmp_path)
