"""Generated tables and a pack on a GPU: is what they launch right?

    python -m tools.bench.packs PACK TABLES --out results.json

TABLES is the folder `python` that `txtdb codegen` wrote. Each shape goes through table, pack and driver, forward and,
where the tables support it, backward; new memory is NaN before. The results are compared with float64 as
`tools.bench.kernels right` does, those of large shapes with PyTorch's own in the same type; of small shapes, whose sums
are so short that errors are as much chance as computation, a result within the type's precision is right as well.
Shapes that the tables declare unsupported are left out. Prints one line a shape; exit code 1 when a result is wrong,
an input was changed, or fewer than --least shapes were left; 2 without a GPU. Triton is hidden from imports.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from codegen.kernels.attention import Problem, forward, functional_of, row_sums
from codegen.runtime import Kernels, open_kernels
from codegen.runtime.driver import Shape, TorchDevices
from tools.bench.machine import gpu
from tools.bench.problems import (
    CAUSAL,
    DTYPES,
    LARGEST_DIFFERENCE,
    MULTIPLE,
    PRECISION,
    UNLIKE,
    Case,
    errors_of,
    exact_results,
    inputs_of,
    limit,
    own_results,
    problem_of,
    results,
    write_json,
)
from txtdb.faults import FaultError

# So many scores are computed in float64 at most.
EXACT_SCORES = 2**29
# Fewer rows or keys than this make a small shape.
SMALL = 64
# How often a launch is repeated to time what it costs the host.
REPEATS = 500


def cases() -> Iterator[Case]:
    """The shapes, from all that the kernels can."""
    for dtype in ("bf16", "fp16", "fp32"):
        for head_dim in (32, 64, 128, 256):
            yield Case(dtype, head_dim=head_dim, rows=2048, keys=2048)
            yield Case(dtype, head_dim=head_dim, rows=1999, keys=2053, window=CAUSAL, bottom_right=True)
    for dtype in ("bf16", "fp16"):
        for head_dim in (64, 128):
            yield Case(dtype, head_dim=head_dim, bias=True, rows=1025, keys=1500)
            yield Case(dtype, head_dim=head_dim, bias=True, rows=777, keys=900, window=CAUSAL)
            yield Case(dtype, head_dim=head_dim, dropout=0.1, rows=1024, keys=2048)
            yield Case(dtype, head_dim=head_dim, dropout=0.5, rows=1500, keys=1500, window=CAUSAL)
            yield Case(dtype, head_dim=head_dim, dropout=0.2, bias=True, rows=513, keys=1025)
            yield Case(dtype, head_dim=head_dim, dropout=0.2, bias=True, rows=1025, keys=900, window=CAUSAL)
            yield Case(dtype, head_dim=head_dim, heads=8, key_heads=2, rows=2048, keys=2048, window=CAUSAL)
            yield Case(dtype, head_dim=head_dim, lengths=UNLIKE)
            yield Case(dtype, head_dim=head_dim, lengths=UNLIKE, heads=6, key_heads=2, window=CAUSAL, bottom_right=True)
    yield from _small()
    yield from _padded()
    yield from _large()
    yield Case(rows=3001, keys=1021, window=(300, 17))
    yield Case("fp16", head_dim=64, rows=2111, keys=2111, window=(511, 0), sm_scale=-0.2)
    yield Case(fused=True, rows=2048, keys=2048, window=CAUSAL, heads=8, key_heads=4)
    yield Case("fp16", fused=True, rows=1999, keys=1001, head_dim=64)


def _small() -> Iterator[Case]:
    """Sizes down to one row or key, of primes, and one sequence without keys."""
    for rows, keys in ((1, 1), (7, 13), (17, 127), (1, 4096), (4096, 1), (61, 61), (128, 128)):
        yield Case(rows=rows, keys=keys)
        yield Case("fp16", head_dim=64, rows=rows, keys=keys, window=CAUSAL, bottom_right=True)
    yield Case(lengths=((5, 0), (1, 3), (0, 7), (64, 64)), window=CAUSAL)
    yield Case(batch=64, heads=8, key_heads=8, rows=128, keys=128, window=CAUSAL)


def _padded() -> Iterator[Case]:
    """Head dims between those of the tiles; 36 and 100 are no multiple of 8, so that their tensors are copied."""
    for head_dim in (36, 40, 80, 96, 100, 192):
        yield Case(head_dim=head_dim, rows=1500, keys=1501, window=CAUSAL)
        yield Case("fp16", head_dim=head_dim, rows=515, keys=1030)


def _large() -> Iterator[Case]:
    for head_dim in (64, 128):
        for window in ((None, None), CAUSAL):
            yield Case(head_dim=head_dim, batch=1, heads=16, key_heads=16, rows=4096, keys=4096, window=window)
            yield Case(head_dim=head_dim, batch=1, heads=16, key_heads=4, rows=8192, keys=8192, window=window)
    yield Case("fp16", batch=1, heads=8, key_heads=8, rows=16384, keys=16384, window=CAUSAL)


@dataclass(frozen=True)
class Work:
    """A case with what the tables support of it. `backward` is split or fused, or empty."""

    case: Case
    backward: str


def supported(case: Case, kernels: Kernels) -> Work | None:
    """What the tables support of a case; None where that is not even the forward."""
    q, problem = _probe(case)
    sizes = (problem.max_seqlen_q, problem.max_seqlen_k)
    functional = functional_of(q, q if case.bias else None, problem)
    if not kernels.supports("attn_fwd", functional, sizes):
        return None
    chosen = "triton_fused" if case.fused else str(kernels.choose("op_attn_bwd", functional, sizes)["backend"])
    backward = chosen.removeprefix("triton_")
    names = ("bwd_kernel_fuse",) if backward == "fused" else ("bwd_kernel_dk_dv", "bwd_kernel_dq")
    has = all(kernels.supports(iface, functional, sizes) for iface in ("bwd_preprocess", *names))
    return Work(case, backward if has else "")


def _probe(case: Case) -> tuple[torch.Tensor, Problem]:
    """A tensor with a case's type and head dim as it is launched, and its problem, without memory on the GPU."""
    width = -(-case.head_dim // 8) * 8
    return torch.empty((1, 1, 1, width), dtype=DTYPES[case.dtype]), problem_of(case, "cpu")


@contextmanager
def new_memory_is_nan() -> Iterator[None]:
    """What a kernel leaves out cannot be right by chance."""
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode("default")


def by_pack(kernels: Kernels, fused: bool) -> Callable[..., torch.Tensor]:
    """Attention by the kernels, as a function of tensors and a problem."""

    def function(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, problem: Problem
    ) -> torch.Tensor:
        names = ("sm_scale", "window", "bottom_right", "dropout", "seed", "cu_seqlens_q", "cu_seqlens_k")
        given = {name: getattr(problem, name) for name in (*names, "max_seqlen_q", "max_seqlen_k")}
        return kernels.attention(q, k, v, bias=bias, fused_backward=fused or None, **given)

    return function


def check(work: Work, kernels: Kernels, device: str) -> dict[str, Any]:
    """Errors of the images and of PyTorch's own attention, and whether the inputs are what they were."""
    case, backward = work.case, bool(work.backward)
    inputs, problem = inputs_of(case, device), problem_of(case, device)
    before = [tensor.clone() for tensor in inputs[0]]
    with new_memory_is_nan():
        ours = results(by_pack(kernels, case.fused), *inputs, problem, backward)
    kept = all(torch.equal(*pair) for pair in zip(before, inputs[0], strict=True))
    theirs = own_results(inputs, problem, backward)
    exact = bool(case.lengths) or case.batch * case.heads * case.rows * case.keys <= EXACT_SCORES
    truth = exact_results(inputs, problem, backward) if exact else [tensor.double() for tensor in theirs]
    errors = errors_of(ours, theirs, truth)
    good = all(mine <= allowed(case, their, exact) for mine, their in errors.values())
    against = "float64" if exact else "PyTorch"
    return {
        "case": case.name, "backward": work.backward, "against": against, "good": good and kept, "inputs_kept": kept,
        "errors": errors,
    }  # fmt: skip


def allowed(case: Case, their: float, exact: bool) -> float:
    """The largest error that is right, where PyTorch's own is off by `their`."""
    if not exact:
        return LARGEST_DIFFERENCE
    small = not case.lengths and min(case.rows, case.keys) < SMALL
    return max(limit(their, case.dtype), PRECISION[case.dtype] if small else 0.0)


def line(row: dict[str, Any]) -> str:
    """One line about a shape."""
    verdict, what = "ok " if row["good"] else "BAD", f"forward {row['backward']}"
    if "fault" in row:
        return f"BAD {what:14} {row['case']}: {row['fault']}"
    if row["against"] == "float64":
        worst = max((mine / max(their, 1e-9) for mine, their in row["errors"].values()), key=_nan_last)
        told = f"{worst:5.2f} x PyTorch's error"
    else:
        told = f"{max((mine for mine, _ in row['errors'].values()), key=_nan_last):7.1e} off PyTorch's"
    kept = "" if row["inputs_kept"] else "  AN INPUT WAS CHANGED"
    return f"{verdict} {what:14} {told:22}  {row['case']}{kept}"


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value


class _NoDriver(TorchDevices):
    """Does all of a launch but the launch."""

    def __init__(self, function: object) -> None:
        self._function = function

    def load(self, device: int, image: bytes, symbol: str, shared: int) -> object:
        """Nothing."""
        return self._function

    def launch(self, function: object, shape: Shape, stream: int, pointers: int) -> None:
        """Nothing."""


def host_times(case: Case, kernels: Kernels, without: Kernels, device: str) -> dict[str, float]:
    """Microseconds of the host for one forward of a case, made small, and for choosing and launching alone."""
    case = replace(case, rows=128, keys=128)
    (q, k, v), _, _ = inputs_of(case, device)
    out, lse = torch.empty_like(q), row_sums(q)
    caught: list[Any] = []

    def run(own: Kernels, launch: Any = None) -> Callable[[], None]:
        problem = problem_of(case, device, choose=own.choose, launch=launch or own.launch)
        return lambda: forward(q, k, v, None, problem, out, lse)

    run(kernels, lambda *given: caught.append(given))()
    functional, config = caught[0][2], without.choose("attn_fwd", caught[0][2], (128, 128))
    given = {"whole forward": run(kernels), "whole forward without the driver's launch": run(without)}
    given["choose"] = lambda: kernels.choose("attn_fwd", functional, (128, 128))
    given["launch"] = lambda: kernels.launch(*caught[0])
    given["launch without the driver's"] = lambda: without.launch(*caught[0][:3], config, caught[0][4])
    return {name: _microseconds(function) for name, function in given.items()}


def _microseconds(function: Callable[[], object]) -> float:
    """Mean of REPEATS calls, which do not wait for the device; the better of two rounds, after one that warms up."""
    rounds = []
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(REPEATS):
            function()
        rounds.append((time.perf_counter() - begin) / REPEATS * 1e6)
    return round(min(rounds[1:]), 2)


def about(options: argparse.Namespace, kernels: Kernels, triton: str) -> dict[str, Any]:
    """What was run."""
    try:
        bindings = version("cuda-bindings")
    except PackageNotFoundError:
        bindings = ""
    return {
        "arch": kernels.tables.arch,
        "device": torch.cuda.get_device_name(),
        "gpu": gpu(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cuda-bindings": bindings,
        "triton": triton,
        "pack": {"name": options.pack.name, "sha256": sha256(options.pack.read_bytes()).hexdigest()},
        "tables": kernels.tables.digests,
        "compilers": sorted({image.origin.compiler for image in kernels.images}),
    }


def hide_triton() -> str:
    """No import finds Triton from here on. Says whether something has loaded it before."""
    loaded = sys.modules.get("triton") is not None
    sys.modules["triton"] = None  # type: ignore[assignment]
    return "loaded by PyTorch, then hidden" if loaded else "not loaded, and hidden from imports"


def run(options: argparse.Namespace, kernels: Kernels, triton: str) -> int:
    """Check all shapes."""
    begin = time.perf_counter()
    chosen = [case for case in cases() if options.only in case.name]
    found = {case: supported(case, kernels) for case in chosen}
    works = [work for work in found.values() if work]
    rows = []
    for work in works:
        try:
            row = check(work, kernels, "cuda")
        except (FaultError, RuntimeError, ValueError) as error:
            row = {"case": work.case.name, "backward": work.backward, "good": False, "fault": str(error)[:400]}
        rows.append(row)
        print(line(row), flush=True)
    skipped = [case.name for case, work in found.items() if work is None]
    host = {}
    if works and not any("fault" in row for row in rows):
        without = open_kernels(options.pack, options.tables, options.arch, _NoDriver("image"))
        host = host_times(works[0].case, kernels, without, "cuda")
    report = {
        "about": about(options, kernels, triton),
        "multiple": MULTIPLE,
        "difference": LARGEST_DIFFERENCE,
        "shapes": rows,
        "unsupported": skipped,
        "images": len(kernels.images),
        "host_microseconds": host,
    }
    write_json(options.out, report)
    return _summary(report, options.least, time.perf_counter() - begin)


def _summary(report: dict[str, Any], least: int, seconds: float) -> int:
    rows = report["shapes"]
    good = sum(row["good"] for row in rows)
    backward = sum(bool(row["backward"]) for row in rows)
    for name, spent in report["host_microseconds"].items():
        print(f"host: {spent:7.2f} µs  {name}")
    print(f"{good} of {len(rows)} shapes are right, {backward} of them forward and backward; {seconds:.0f} s")
    print(f"{report['images']} images of the pack were chosen; {len(report['unsupported'])} shapes are unsupported")
    print(f"triton: {report['about']['triton']}")
    if len(rows) < least:
        print(f"the tables support {len(rows)} of the shapes, which is less than {least}")
    return 0 if good == len(rows) >= least else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("tables", type=Path, help="the folder of the generated Python tables")
    parser.add_argument("--out", type=Path, required=True, help="file for the results")
    parser.add_argument("--arch", help="the arch of the tables (default: that of the GPU)")
    parser.add_argument("--only", default="", help="only shapes whose name contains this")
    parser.add_argument("--least", type=int, default=40, help="fewer supported shapes are a failure")
    options = parser.parse_args()
    triton = hide_triton()
    if not torch.cuda.is_available():
        print("there is no GPU that PyTorch can use", file=sys.stderr)
        return 2
    options.arch = options.arch or TorchDevices().arch(0)
    try:
        kernels = open_kernels(options.pack, options.tables, options.arch)
    except (FaultError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    return run(options, kernels, triton)


if __name__ == "__main__":
    sys.exit(main())
