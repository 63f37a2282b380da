"""Figures of the database tools on the real database: import, check, generation, lookups.

    python -m tools.bench.database SOURCE [--runs 5]

SOURCE is the folder of the AOTriton flash database. Whole processes are timed from outside, start included; the
median and the range of the runs are printed, beside the bar where there is one. Needs g++. Run from the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bench.synthetic import enlarge

BASES = (
    *(f"{child}=gfx1100" for child in ("gfx1150", "gfx1151", "gfx1101", "gfx1102", "gfx1103", "gfx1152", "gfx1153")),
    "gfx1200=gfx1201",
    "gfx1250=gfx942",
)
LOOKUPS = 2_000_000
CXX = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-pedantic-errors"]


@dataclass(frozen=True)
class Figure:
    """One measured quantity: all its runs, its unit and the bar that it is held against."""

    name: str
    unit: str
    runs: tuple[float, ...]
    bar: float | None = None

    def row(self) -> str:
        values = sorted(self.runs)
        shown = f"{statistics.median(values):.3g}"
        spread = f"{values[0]:.3g} – {values[-1]:.3g}" if len(values) > 1 else ""
        bar = "" if self.bar is None else f"{self.bar:g} {self.unit}"
        return f"| {self.name} | {shown} {self.unit} | {spread} | {bar} |"


@dataclass(frozen=True)
class Cost:
    """Wall seconds, peak memory in MB and processor seconds of one process."""

    seconds: float
    megabytes: float
    processor: float


def measured(command: list[str], allowed: tuple[int, ...] = (0,)) -> Cost:
    """Run a command as a whole process. Raises SystemExit with its words when it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in allowed:
        raise SystemExit(f"{' '.join(command)} failed:\n{output.decode(errors='replace')}")
    return Cost(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def txtdb(*arguments: object) -> list[str]:
    return [str(Path(sys.executable).with_name("txtdb")), *map(str, arguments)]


def repeated(runs: int, run: Callable[[], Cost]) -> list[Cost]:
    """One run that does not count, then the counted ones."""
    run()
    return [run() for _ in range(runs)]


def seconds(costs: list[Cost]) -> tuple[float, ...]:
    return tuple(cost.seconds for cost in costs)


def import_figures(source: Path, root: Path, runs: int) -> Iterator[Figure]:
    bases = [word for base in BASES for word in ("--base", base)]

    def run() -> Cost:
        shutil.rmtree(root, ignore_errors=True)
        return measured(txtdb("import", "aotriton", source, "--root", root, "--emit-schema", *bases))

    yield Figure("`import aotriton` of 35 tables, 527,602 cells", "s", seconds(repeated(runs, run)))
    size = sum(path.stat().st_size for path in root.rglob("*.txtdb"))
    yield Figure("size of all `.txtdb` files", "bytes", (float(size),), 1_000_000)


def check_figures(root: Path, folder: Path, runs: int) -> Iterator[Figure]:
    costs = repeated(runs, lambda: measured(txtdb("check", root), (1,)))
    yield Figure("`check` of the whole database", "s", seconds(costs), 2.5)
    yield Figure("peak memory of that", "MB", tuple(cost.megabytes for cost in costs), 400)
    large = folder / "large"
    enlarge(root, large, 10)
    costs = [measured(txtdb("check", large), (1,)) for _ in range(max(1, runs // 2))]
    small = statistics.median(seconds(repeated(runs, lambda: measured(txtdb("check", root), (1,)))))
    yield Figure("`check` of ten times as much, against that", "×", tuple(c.seconds / small for c in costs), 12)
    yield Figure("peak memory of that", "MB", tuple(cost.megabytes for cost in costs), 1500)


def codegen_figures(root: Path, out: Path, runs: int) -> Iterator[Figure]:
    command = txtdb("codegen", root, "--out", out, "--on-hole", "none")

    def clean() -> Cost:
        shutil.rmtree(out, ignore_errors=True)
        return measured(command)

    yield Figure("`codegen` of 14 archs, from nothing", "s", seconds(repeated(runs, clean)), 3.0)
    yield Figure("`codegen`, nothing changed", "s", seconds(repeated(runs, lambda: measured(command))))
    yield Figure("`codegen` after a patch on gfx90a (no heirs)", "s", _patched(root, "gfx90a", command, runs), 0.6)
    yield Figure("`codegen` after a patch on gfx1100 (7 heirs)", "s", _patched(root, "gfx1100", command, runs), 1.2)


def _patched(root: Path, arch: str, command: list[str], runs: int) -> tuple[float, ...]:
    """Time `command` after each of several changes to one patch of an arch."""
    table = (root / arch / "bwd_kernel_dq.txtdb").read_text(encoding="utf-8")
    header = "\n".join(line for line in table.splitlines() if re.match(r"#! (iface|arch|key|axis|config) ", line))
    entry = re.search(r"^a = .*$", table, re.M)
    block = re.search(r"^(\[.*\])\n", table, re.M)
    width = len(re.findall(r"^#! axis .*$", table, re.M)[-1].split()) - 3
    patch = root / arch / "bwd_kernel_dq.0010-bench.dbpatch"
    times = []
    for number in range(runs + 1):
        row = (
            f"16 {'.*' + str(number % width) + ' ' if number % width else ''}a .*{width - number % width - 1}".replace(
                " .*0", ""
            )
        )
        assert entry and block
        text = f"#! dbpatch 1\n{header}\n\n{entry[0]}\n\n{block[1]}\n{row}\n#! end\n"
        patch.write_text(text, encoding="utf-8", newline="\n")
        times.append(measured(command).seconds)
    patch.unlink()
    measured(command)
    return tuple(times[1:])


def cpp_figures(root: Path, out: Path, folder: Path, runs: int) -> Iterator[Figure]:
    sources = sorted((out / "cpp").glob("*.cpp"))

    def compile_all() -> Cost:
        costs = [measured([*CXX, "-c", str(path), "-o", str(folder / f"{path.stem}.o")]) for path in sources]
        wall, processor = sum(cost.seconds for cost in costs), sum(cost.processor for cost in costs)
        return Cost(wall, max(cost.megabytes for cost in costs), processor)

    yield Figure("`g++ -O2` of all generated C++, one after the other", "s", seconds(repeated(runs, compile_all)), 6.0)
    program = folder / "lookups"
    (folder / "lookups.cpp").write_text(LOOKUP_PROGRAM, encoding="utf-8")
    objects = [str(folder / f"{path.stem}.o") for path in sources]
    measured([*CXX, "-I", str(out / "cpp"), str(folder / "lookups.cpp"), *objects, "-o", str(program)])
    times = [json.loads(subprocess.run([program], capture_output=True, check=True).stdout) for _ in range(runs)]
    for name in times[0]:
        yield Figure(f"C++ lookup, random, {name} on gfx942", "ns", tuple(run[name] for run in times), 8.0)


# Random functionals and sizes of one arch and interface, made before the clock starts.
LOOKUP_PROGRAM = f"""\
#include "attn_fwd.h"
#include "bwd_kernel_dq.h"
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

template <class Params, class Lookup, class Fill>
double nanoseconds(Lookup lookup, Fill fill) {{
  std::mt19937_64 random(1);
  std::vector<Params> problems(65536);
  for (Params& p : problems) fill(p, random);
  std::uint64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < {LOOKUPS}; ++i) sum += lookup(dispatch::Arch::gfx942, problems[i & 65535]).index;
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  if (sum == 0) std::puts("no kernel at all");
  return time.count() / {LOOKUPS};
}}

int main() {{
  const std::int64_t dims[] = {{16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 512}};
  const auto common = [&](auto& p, auto& random) {{
    p.Q_dtype = static_cast<decltype(p.Q_dtype)>(random() % 3);
    p.CAUSAL_TYPE = random() % 2 * 3;
    p.BLOCK_DMODEL = dims[random() % 12];
    p.ENABLE_DROPOUT = random() % 2;
    p.PADDED_HEAD = random() % 2;
    p.BIAS_TYPE = p.CAUSAL_TYPE ? 0 : random() % 2;
  }};
  const double fwd = nanoseconds<dispatch::attn_fwd::Params>(dispatch::attn_fwd::lookup, [&](auto& p, auto& random) {{
    common(p, random);
    p.Max_seqlen_q = random() % 10000;
    p.Max_seqlen_k = random() % 10000;
  }});
  const auto lookup_dq = dispatch::bwd_kernel_dq::lookup;
  const double dq = nanoseconds<dispatch::bwd_kernel_dq::Params>(lookup_dq, [&](auto& p, auto& random) {{
    common(p, random);
    p.max_seqlen_q = random() % 10000;
    p.max_seqlen_k = random() % 10000;
  }});
  std::printf("{{\\"attn_fwd\\": %.3f, \\"bwd_kernel_dq\\": %.3f}}\\n", fwd, dq);
}}
"""

PYTHON_LOOKUPS = """\
import random, sys, time
sys.path.insert(0, sys.argv[1])
from python import attn_fwd
random.seed(1)
problems = [
    dict(Q_dtype=random.choice(["fp16", "bf16", "fp32"]), CAUSAL_TYPE=0, BLOCK_DMODEL=random.choice([16, 64, 128, 256]),
         ENABLE_DROPOUT=random.random() < 0.5, PADDED_HEAD=random.random() < 0.5, BIAS_TYPE=random.randrange(2),
         Max_seqlen_q=random.randrange(10000), Max_seqlen_k=random.randrange(10000))
    for _ in range(10000)
]
lookup = attn_fwd.lookup
for problem in problems: lookup("gfx942", **problem)
start = time.perf_counter()
for _ in range(10):
    for problem in problems: lookup("gfx942", **problem)
print((time.perf_counter() - start) / 100000 * 1e6)
"""


def python_figures(out: Path, runs: int) -> Iterator[Figure]:
    command = [sys.executable, "-c", PYTHON_LOOKUPS, str(out)]
    times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(runs)]
    yield Figure("Python lookup, random, attn_fwd on gfx942", "µs", tuple(times), 1.0)


def machine() -> str:
    """The machine and versions that the figures belong to."""
    cpu = "unknown processor"
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        cpu = found[1] if found else cpu
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, g++ {compiler}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root, out = folder / "amd", folder / "dispatch"
        print(f"{machine()}; {options.runs} runs each\n")
        print("| what | median | range | bar |\n|---|---|---|---|")
        for figures in (
            import_figures(options.source, root, options.runs),
            check_figures(root, folder, options.runs),
            codegen_figures(root, out, options.runs),
            cpp_figures(root, out, folder, options.runs),
            python_figures(out, options.runs),
        ):
            for figure in figures:
                print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
