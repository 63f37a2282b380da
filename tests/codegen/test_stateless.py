"""Generated code has no state: C++ from eight threads at once, no writable data, Python without site packages."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.codegen import databases
from tests.codegen.test_answers import python_answer, resolved_answer
from tests.codegen.tools import (
    COMPILER,
    FLAGS,
    axes_of,
    driver_text,
    generated,
    needs_compiler,
    problem_row,
    python_iface,
    python_package,
)
from txtdb.layers.database import load
from txtdb.model.schema import Schema
from txtdb.model.values import Value

THREADS = 8
# Sections of what a program may change while it runs. Constants that hold addresses lie in .data.rel.ro, which is
# read-only once the program is loaded; DW.ref is the compiler's own, for exceptions.
WRITABLE = re.compile(r"\.(?:data(?!\.rel\.ro|\.rel\.local\.DW\.ref)|bss|tdata|tbss)\b\S*")

# Every thread asks every row, each from another start, and keeps its answers. The threads wait for each other, so that
# the first lookups, where a lazily filled table would be filled, happen at once.
_THREADS_MAIN = """
#include <atomic>
#include <thread>

static std::string asked(const std::string& name, const Params& params) {
  const auto arch = find_arch(name);
  if (!arch) return "no arch";
  const Result r = lookup(*arch, params);
  std::string text(arch_name(*arch));
  text += inputs_digest(*arch);
  text += std::to_string(static_cast<int>(r.status)) + " " + std::to_string(r.index);
  if (r.status == Status::kernel) text += image_name(params, *dispatch::IFACE::config(*arch, r.index));
  return text;
}

int main() {
  std::string data{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<std::int64_t> numbers(data.size() / 8);
  data.copy(reinterpret_cast<char*>(numbers.data()), data.size());
  const std::size_t rows = numbers.size() / WIDTH;
  std::vector<std::vector<std::string>> answers(THREADS, std::vector<std::string>(rows * 2));
  std::atomic<int> waiting{THREADS};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < THREADS; ++t) threads.emplace_back([&, t] {
    --waiting;
    while (waiting != 0) std::this_thread::yield();
    for (std::size_t n = 0; n < rows; ++n) {
      const std::size_t at = (n + t * rows / THREADS) % rows;
      const Params params = read_row(&numbers[at * WIDTH]);
      answers[t][at * 2] = asked("gfxA", params);
      answers[t][at * 2 + 1] = asked("gfxB:xnack-", params);
    }
  });
  for (auto& thread : threads) thread.join();
  for (std::size_t at = 0; at < rows * 2; ++at) {
    const Params params = read_row(&numbers[at / 2 * WIDTH]);
    const std::string alone = asked(at % 2 ? "gfxB:xnack-" : "gfxA", params);
    for (const auto& own : answers) if (own[at] != alone) return 5;
  }
  std::cout << rows * 2 * THREADS;
  return 0;
}
"""


def some_problems(schema: Schema, count: int) -> list[dict[str, Value]]:
    chance = random.Random(3)
    functionals = list(product(*(key.values for key in schema.keys)))
    return [
        {
            **dict(zip(schema.key_names, chance.choice(functionals), strict=True)),
            **{axis: chance.choice([chance.randrange(6000), 0, -1, 2**62]) for axis in axes_of(schema)},
        }
        for _ in range(count)
    ]


def compiles_and_runs(folder: Path, text: str, *flags: str) -> bool:
    """Whether a program can be made with some flags here, and ends well."""
    source = folder / "probe.cpp"
    source.write_text(text)
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *flags, source, "-o", folder / "probe"], capture_output=True, check=False)
    return done.returncode == 0 and subprocess.run([folder / "probe"], capture_output=True, check=False).returncode == 0


THREADED = "#include <thread>\nint main() { int x = 0; std::thread t([&] { x = 1; }); t.join(); return x - 1; }\n"


@needs_compiler
def test_eight_threads_get_the_answers_of_one(tmp_path: Path) -> None:
    """Under the thread sanitizer where the compiler has one, which ends the program at any race with another code."""
    root, overlays = databases.layered(tmp_path, 2)
    out, schema = generated(root, tmp_path / "out", overlays, on_hole="none"), load(root).schemas["f"]
    rows = [problem_row(schema, problem) for problem in some_problems(schema, 2_000)]
    head = driver_text(schema).partition("int main(")[0]
    main = _THREADS_MAIN.replace("WIDTH", str(len(rows[0]))).replace("THREADS", str(THREADS)).replace("IFACE", "f")
    (tmp_path / "threads.cpp").write_text(head + main)
    sanitizer = ["-fsanitize=thread"] if compiles_and_runs(tmp_path, THREADED, "-pthread", "-fsanitize=thread") else []
    sources = [tmp_path / "threads.cpp", out / "cpp" / "f.cpp"]
    command = [COMPILER, *FLAGS, "-O1", "-g", "-pthread", *sanitizer, f"-I{out / 'cpp'}", *sources, "-o", "threads"]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run(
        [tmp_path / "threads"], input=np.array(rows, np.int64).tobytes(), capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, str(2_000 * 2 * THREADS).encode()), ran.stderr.decode()


def writable_sections(source: Path, folder: Path, *flags: str) -> dict[str, int]:
    """Name → size of the sections of an object that a program may write to, empty ones left out."""
    target = folder / f"{source.stem}.o"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-std=c++17", *flags, "-c", source, "-o", target], check=True)
    text = subprocess.run(["objdump", "-h", "-w", target], capture_output=True, text=True, check=True).stdout
    sections = [line.split()[1:3] for line in text.splitlines() if re.match(r"\s+\d+ ", line)]
    assert any(name.startswith(".text") for name, _ in sections)
    return {name: int(size, 16) for name, size in sections if WRITABLE.fullmatch(name) and int(size, 16)}


needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump on PATH")


@needs_compiler
@needs_objdump
@pytest.mark.parametrize("flags", [("-O2", "-fPIC"), ("-O0", "-fno-pic")], ids=" ".join)
def test_objects_hold_no_writable_data(flags: tuple[str, ...], tmp_path: Path) -> None:
    root, overlays = databases.layered(tmp_path / "layered", 2)
    roots = [(root, overlays), (databases.operators(tmp_path / "operators"), []), (databases.many_codes(tmp_path), [])]
    checked = 0
    for number, (root, overlays) in enumerate(roots):
        out = generated(root, tmp_path / f"out{number}", overlays, on_hole="none")
        for source in sorted((out / "cpp").glob("*.cpp")):
            assert writable_sections(source, tmp_path, *flags) == {}, source.name
            checked += 1
    assert checked >= 5


@needs_compiler
@needs_objdump
@pytest.mark.parametrize(
    "line", ["int counter = 1;", "static int calls; int f() { return ++calls; }", "thread_local int own = 2;"]
)
def test_writable_data_would_be_seen(line: str, tmp_path: Path) -> None:
    source = tmp_path / "state.cpp"
    source.write_text(f"{line}\nint g() {{ return 1; }}\n")
    assert writable_sections(source, tmp_path, "-O0", "-fPIC")


_ALONE = """
import importlib, json, sys

sys.path.insert(0, sys.argv[1])
package, module = importlib.import_module("python"), importlib.import_module("python.f")
answers = []
for problem in json.load(sys.stdin):
    try:
        answer = module.lookup("gfxA", **problem)
    except package.LookupFault:
        answers.append("invalid")
    else:
        answers.append(str(answer.value) if isinstance(answer, package.Absent) else answer._asdict())
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps([answers, sorted(foreign), "site" in sys.modules, sys.flags.isolated]))
"""


def test_python_runs_without_site_packages(tmp_path: Path) -> None:
    """`python -I -S`: the interpreter and its standard library, and the same answers as with everything installed."""
    root, overlays = databases.layered(tmp_path, 2)
    out, database = generated(root, tmp_path / "out", overlays, on_hole="none"), load(root, overlays)
    asked = some_problems(database.schemas["f"], 500)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ALONE, out],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers, foreign, site, isolated = json.loads(done.stdout)
    assert (foreign, site, isolated) == (["__main__", "python"], False, 1)
    package = python_package(out)
    assert answers == [python_answer(package, python_iface(package, "f"), "gfxA", problem) for problem in asked]
    assert answers == [resolved_answer(database, "gfxA", "f", problem) for problem in asked]
    assert {answer if isinstance(answer, str) else "kernel" for answer in answers} >= {"kernel", "invalid"}
