"""Generates, compiles and asks: what the tests of generated code share."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from codegen import Inputs, Options, generate, write
from txtdb.layers.database import open_database
from txtdb.model.schema import Schema
from txtdb.model.values import Value, ValueType

COMPILER = shutil.which("g++")
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-pedantic-errors", "-Werror")
STATUSES = ("kernel", "no kernel", "unsupported", "invalid")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH: the generated C++ cannot be compiled")

_numbers = count()


def generated(root: Path, out: Path, overlays: Sequence[Path] = (), **options: Any) -> Path:
    """Generate a database without faults into a folder."""
    database = open_database(root, overlays)
    assert not database.faults
    result = generate(database, Options(**options), Inputs(database))
    assert not result.faults, "\n".join(map(str, result.faults))
    write(out, result, None)
    return out


def tree(folder: Path) -> dict[str, bytes]:
    """Path below the folder → content of every file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def python_package(out: Path) -> ModuleType:
    """The generated package, under a name of its own."""
    name = f"generated_{next(_numbers)}"
    folder = out / "python"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def python_iface(package: ModuleType, iface: str) -> Any:
    """The generated module of an interface."""
    return importlib.import_module(f"{package.__name__}.{iface}")


_DRIVER = Template(
    """\
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>
#include "${iface}.h"
using namespace dispatch;
using namespace dispatch::${iface};

[[maybe_unused]] static const char* backends[] = {${backends}};

static Params read_row([[maybe_unused]] const std::int64_t* row) {
  Params params;
${reads}  return params;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const auto found = find_arch(argv[2]);
  if (!found) return 3;
  const Arch arch = *found;
  if (mode == "arch") std::cout << arch_name(arch);
  if (mode == "digest") std::cout << inputs_digest(arch);
  if (mode == "configs") {
    for (std::uint32_t n = 0; n < config_count(arch); ++n) {
      [[maybe_unused]] const Config& config = *dispatch::${iface}::config(arch, n);
      std::cout${fields} << "\\n";
    }
    if (dispatch::${iface}::config(arch, config_count(arch)) != nullptr) return 4;
  }
  std::string data{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<std::int64_t> numbers(data.size() / 8);
  data.copy(reinterpret_cast<char*>(numbers.data()), data.size());
  for (std::size_t at = 0; at < numbers.size(); at += ${width}) {
    const Params params = read_row(&numbers[at]);
    const Result r = lookup(arch, params);
    if (mode == "lookup") {
      const std::uint32_t answer[2] = {static_cast<std::uint32_t>(r.status), r.index};
      std::cout.write(reinterpret_cast<const char*>(answer), sizeof answer);
    }
    if (mode == "names") std::cout << (r.status == Status::kernel ? ${name} : std::string()) << "\\n";
    if (mode == "derived") {
      ${derived}
      std::cout << "\\n";
    }
  }
  return 0;
}
"""
)


class Compiled:
    """The generated C++ of one interface as a program that answers many lookups at once."""

    def __init__(self, out: Path, schema: Schema, build: Path, optimize: str = "-O0") -> None:
        build.mkdir(parents=True, exist_ok=True)
        self.schema, self._program = schema, build / schema.iface
        driver = build / f"{schema.iface}_driver.cpp"
        driver.write_text(driver_text(schema))
        source = out / "cpp" / f"{schema.iface}.cpp"
        command = [COMPILER, *FLAGS, optimize, f"-I{out / 'cpp'}", driver, source, "-o", self._program]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def lookup(self, arch: str, rows: npt.NDArray[np.int64]) -> list[tuple[str, int]]:
        """(status, index) for each row of key codes and sizes; see `problem_row`."""
        data = self._run("lookup", arch, rows.astype(np.int64).tobytes())
        answers = np.frombuffer(data, np.uint32).reshape(-1, 2)
        return [(STATUSES[status], index) for status, index in answers.tolist()]

    def configs(self, arch: str) -> list[tuple[Value, ...]]:
        """The configs of an arch, by index."""
        lines = self._run("configs", arch, b"").decode().splitlines()
        return [tuple(map(_typed, line.split("|"))) for line in lines]

    def names(self, arch: str, rows: npt.NDArray[np.int64]) -> list[str]:
        """The image names of those rows that have a config; empty for the others."""
        return self._run("names", arch, rows.astype(np.int64).tobytes()).decode().splitlines()

    def derived(self, arch: str, rows: npt.NDArray[np.int64]) -> list[str]:
        """The derived fields of each row, joined by `|`; empty where there are none."""
        return self._run("derived", arch, rows.astype(np.int64).tobytes()).decode().splitlines()

    def text(self, mode: str, arch: str) -> str:
        """What the program prints."""
        return self._run(mode, arch, b"").decode().strip()

    def _run(self, mode: str, arch: str, data: bytes) -> bytes:
        done = subprocess.run([self._program, mode, arch], input=data, capture_output=True, check=True)
        return done.stdout


def _typed(text: str) -> Value:
    kind, _, value = text.partition(":")
    return {"b": lambda: value == "1", "i": lambda: int(value), "e": lambda: value}[kind]()


def problem_row(schema: Schema, problem: Mapping[str, Value]) -> list[int]:
    """A problem as the driver reads it: keys, sizes, fixed keys; an enum by its place, an unknown one by another."""
    row = []
    for key in schema.keys:
        value = problem.get(key.name, key.fallback)
        known = key.type is not ValueType.ENUM or value in key.values
        row.append(key.values.index(value) if known and key.type is ValueType.ENUM else int(value) if known else 99)  # type: ignore[arg-type]
    row += [int(problem[axis]) for axis in axes_of(schema)]
    row += [int(problem.get(fixed.name, fixed.value)) for fixed in plain_fixed(schema)]
    return row


def axes_of(schema: Schema) -> tuple[str, ...]:
    """The axes that a lookup has."""
    return () if schema.kind == "fixed" else schema.axis_names


def plain_fixed(schema: Schema) -> list[Any]:
    """The fixed keys that can have another value in C++."""
    return [fixed for fixed in schema.fixed_keys if fixed.type is not ValueType.ENUM]


def driver_text(schema: Schema) -> str:
    """A program that reads rows of 64-bit numbers and answers each."""
    members = [(key.name, key.type) for key in schema.keys]
    members += [(axis, ValueType.INT) for axis in axes_of(schema)]
    members += [(fixed.name, fixed.type) for fixed in plain_fixed(schema)]
    reads = "".join(f"  params.{name} = {_from_number(name, kind, at)};\n" for at, (name, kind) in enumerate(members))
    kernel = schema.kind != "operator"
    fields = " << '|'".join(f" << {_field(name, kind)}" for name, kind in ((f.name, f.type) for f in schema.config))
    fields = fields if kernel else ' << "e:" << backends[static_cast<int>(config)]'
    derived = " << '|'".join(f" << {_field(f.name, f.type, 'd->')}" for f in schema.derived)
    backends = ", ".join(f'"{backend.name}"' for backend in schema.backends) or '""'
    name = "image_name(params, *config(arch, r.index))" if kernel else '""'
    show = f"const auto d = derived(params); if (d) std::cout{derived};" if schema.derived else ""
    return _DRIVER.substitute(
        iface=schema.iface, reads=reads, width=len(members), fields=fields, backends=backends, name=name, derived=show
    )


def _from_number(name: str, kind: ValueType, at: int) -> str:
    if kind is ValueType.BOOL:
        return f"row[{at}] != 0"
    return f"row[{at}]" if kind is ValueType.INT else f"static_cast<{name}_t>(row[{at}])"


def _field(name: str, kind: ValueType, owner: str = "config.") -> str:
    if kind is ValueType.ENUM:
        return f'"e:" << text({owner}{name})'
    return f'"{"b" if kind is ValueType.BOOL else "i"}:" << {owner}{name}'
