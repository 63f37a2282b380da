"""The attention kernels on a GPU: are they right at real sizes, and how fast are they beside PyTorch's own attention?

    python -m tools.bench.kernels right --out DIR     compare with float64, forward and backward
    python -m tools.bench.kernels speed --out DIR     tune each kernel, then compare times with PyTorch's back ends
    python -m tools.bench.kernels once  --out DIR     launch each kernel once as `speed` tuned it, for a profiler

The first two write DIR/kernels-<what>.json and print a summary; the exit code is 1 when a result is wrong, 2 without a
GPU. Kernels are compiled in several processes beforehand. `--divide N` makes all sequences shorter, and `--cpu` runs
`right` on the CPU: with TRITON_INTERPRET=1 that tries the program where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as processes
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from triton.errors import TritonError

from codegen.aot.sources import sources
from codegen.kernels.attention import Config, Problem, backward, forward, row_sums
from tools.bench.guarded import by_launches, guarded_like, lse_error
from tools.bench.machine import gpu
from tools.bench.problems import (
    CAUSAL,
    DTYPES,
    LARGEST_DIFFERENCE,
    LSE,
    MULTIPLE,
    UNLIKE,
    Case,
    error,
    errors_of,
    exact_results,
    exact_sums,
    inputs_of,
    limit,
    own_results,
    problem_of,
    write_json,
)

# How often forward and backward are repeated, to see whether the results stay the same to the bit.
REPEATS = 25
# What one timing takes, in milliseconds.
WARM_UP, MEASURE = 10, 50
BACK_ENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def cases() -> Iterator[Case]:
    """The shapes and features that are checked."""
    for dtype in DTYPES:
        for head_dim in (32, 64, 128, 256):
            yield Case(dtype, head_dim=head_dim, rows=2048, keys=2048)
            yield Case(dtype, head_dim=head_dim, rows=1999, keys=2053, window=CAUSAL, bottom_right=True)
    for copy in (False, True):
        yield Case(copy=copy, rows=4096, keys=4096, batch=1)
        yield Case(copy=copy, rows=4096, keys=4096, batch=1, window=CAUSAL)
        yield Case(copy=copy, rows=1021, keys=3001, window=CAUSAL, bottom_right=True)
        yield Case(copy=copy, rows=3001, keys=1021, window=(300, 17))
        yield Case(copy=copy, heads=8, key_heads=2, rows=2048, keys=2048, window=CAUSAL)
        yield Case("fp16", copy=copy, head_dim=64, rows=2048, keys=4096)
        yield Case("fp16", copy=copy, head_dim=64, rows=2111, keys=2111, window=(511, 0), sm_scale=-0.2)
        yield Case(copy=copy, head_dim=80, rows=1500, keys=1500, window=CAUSAL)
        yield Case(copy=copy, lengths=UNLIKE, window=CAUSAL, bottom_right=True)
        yield Case(copy=copy, lengths=UNLIKE, heads=6, key_heads=2, head_dim=64)
    for copy in (False, True):
        yield Case(copy=copy, bias=True, rows=1025, keys=1500)
        yield Case(copy=copy, bias=True, dropout=0.2, rows=1025, keys=900, window=CAUSAL, fused=True)
        yield Case(copy=copy, dropout=0.1, rows=2048, keys=2048, window=CAUSAL)
        yield Case("fp16", copy=copy, dropout=0.5, lengths=UNLIKE, head_dim=64)
        yield Case(copy=copy, fused=True, rows=2048, keys=2048, window=CAUSAL, heads=8, key_heads=4)
        yield Case("fp16", copy=copy, fused=True, rows=1999, keys=1001, head_dim=64)
    yield Case(head_dim=40, rows=1, keys=4096)
    yield Case(head_dim=96, rows=4096, keys=1)
    yield Case(head_dim=192, rows=999, keys=1001, window=(-3, 90))
    yield Case(rows=512, keys=512, window=(5, -9))
    yield Case(sm_scale=0.0, rows=777, keys=777, window=CAUSAL)


def safe_config(copy: bool, iface: str, functional: Mapping[str, Any], sizes: tuple[int, int]) -> Config:
    """A config with which a kernel fits an sm_90."""
    wide = functional["BLOCK_DMODEL"] > 128
    if iface == "bwd_preprocess":
        return {"BLOCK_M": 64, "num_warps": 4}
    if functional["Q_dtype"] == "fp32":
        return {"BLOCK_M": 32, "BLOCK_N": 16, "PRE_LOAD_V": False, "num_warps": 4, "num_stages": 1}
    warps, stages = (8, 1) if wide else (4, 2)
    config = {"BLOCK_M": 64, "BLOCK_N": 32 if wide else 64, "num_warps": warps, "num_stages": stages}
    return {**config, "PRE_LOAD_V": False, "TENSOR_COPY": copy}


def check(case: Case, device: str) -> dict[str, Any]:
    """Errors of the kernels and of PyTorch's own attention against float64, and what became of the memory.

    Results are NaN before; inputs and results stand between guard zones.
    """
    matrices, bias, upstream = inputs_of(case, device)
    held = [guarded_like(tensor) for tensor in (*matrices, upstream, *([] if bias is None else [bias]))]
    before = [item.tensor.clone() for item in held]
    inputs = [item.tensor for item in held[:3]], None if bias is None else held[4].tensor, held[3].tensor
    problem = problem_of(case, device, choose=partial(safe_config, case.copy))
    ours, lse, intact = by_launches(*inputs, problem)
    exact, exact_lse = exact_results(inputs, problem), exact_sums(inputs, problem)
    errors = errors_of(ours, own_results(inputs, problem), exact)
    kept = intact and all(item.intact for item in held)
    kept = kept and all(torch.equal(was, item.tensor) for was, item in zip(before, held, strict=True))
    off = lse_error(lse, exact_lse)
    right = all(mine <= limit(their, case.dtype) for mine, their in errors.values()) and off <= LSE[case.dtype]
    return {"case": case.name, "good": kept and right, "errors": errors, "lse": off, "memory kept": kept}


def _check_share(share: list[Case], device: str, answers: Any) -> None:
    for case in share:
        try:
            answers.put(check(case, device))
        except Exception as fault:
            answers.put(
                {"case": case.name, "good": False, "errors": {}, "fault": f"{type(fault).__name__}: {fault}"[-500:]}
            )


def right(options: argparse.Namespace) -> int:
    """Check all cases, in several processes as most of the time goes into compiling."""
    chosen = [case.divided(options.divide) for case in cases() if options.only in case.name]
    device = "cpu" if options.cpu else "cuda"
    context = processes.get_context("spawn")
    answers = context.Queue()
    jobs = min(options.jobs, len(chosen))
    workers = [context.Process(target=_check_share, args=(chosen[i::jobs], device, answers)) for i in range(jobs)]
    for worker in workers:
        worker.start()
    rows = [answers.get(timeout=options.patience) for _ in chosen]
    for worker in workers:
        worker.join()
    rows.sort(key=lambda row: [case.name for case in chosen].index(row["case"]))
    for row in rows:
        worst = max((mine / (their or 1.0) for mine, their in row["errors"].values()), default=float("nan"))
        print(
            f"{'ok ' if row['good'] else 'BAD'} {worst:5.2f} x PyTorch's error  {row['case']}  {row.get('fault', '')}"
            f"{'' if row.get('memory kept', True) else 'wrote where it must not'}"
        )
    bad = sum(not row["good"] for row in rows)
    print(f"{len(rows) - bad} of {len(rows)} cases are right (at most {MULTIPLE} x PyTorch's error against float64)")
    write_json(options.out / "kernels-right.json", {"about": about(device), "multiple": MULTIPLE, "cases": rows})
    return 1 if bad else 0


@dataclass(frozen=True)
class Shape:
    """A problem to time."""

    dtype: str
    batch: int
    heads: int
    key_heads: int
    rows: int
    head_dim: int
    causal: bool

    @property
    def flops(self) -> float:
        """Floating point operations of the forward; the backward has 2.5 times as many."""
        pairs = self.rows * (self.rows + 1) / 2 if self.causal else self.rows**2
        return 4.0 * self.batch * self.heads * pairs * self.head_dim

    @property
    def kind(self) -> tuple[str, int, bool]:
        """What the kernels are compiled for."""
        return self.dtype, self.head_dim, self.causal

    @property
    def name(self) -> str:
        """All of it in short."""
        mask = "causal" if self.causal else "full"
        heads = f"{self.heads}/{self.key_heads}"
        return f"{self.dtype} b{self.batch} h{heads} s{self.rows} d{self.head_dim} {mask}"


SHAPES = (
    Shape("bf16", 4, 16, 16, 4096, 128, False),
    Shape("bf16", 4, 16, 16, 4096, 128, True),
    Shape("bf16", 2, 16, 16, 8192, 128, False),
    Shape("bf16", 2, 16, 16, 8192, 128, True),
    Shape("bf16", 1, 16, 16, 16384, 128, True),
    Shape("bf16", 2, 32, 8, 4096, 128, True),
    Shape("bf16", 4, 32, 32, 4096, 64, True),
    Shape("fp16", 4, 16, 16, 4096, 128, True),
)


def field(iface: str, head_dim: int) -> list[Config]:
    """The configs that are tried, the most promising first."""
    if iface == "bwd_preprocess":
        return [{"BLOCK_M": rows, "num_warps": warps} for rows in (64, 128) for warps in (4, 8)]
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages", "TENSOR_COPY", "PRE_LOAD_V")
    return [dict(zip(names, values, strict=False)) for values in FIELDS[iface, head_dim]]


# Tile of queries, tile of keys, warps, stages, TENSOR_COPY, and for the forward PRE_LOAD_V.
FIELDS: dict[tuple[str, int], tuple[tuple[Any, ...], ...]] = {
    ("attn_fwd", 128): (
        (64, 64, 4, 3, True, True), (128, 128, 8, 3, True, True), (128, 64, 8, 3, True, True),
        (128, 64, 4, 2, True, False), (128, 64, 4, 2, True, True), (128, 128, 8, 2, True, True),
        (256, 64, 8, 3, True, True), (64, 64, 4, 2, True, False), (128, 128, 8, 2, False, False),
        (128, 64, 8, 3, False, True), (64, 64, 4, 3, False, True), (128, 128, 8, 3, True, False),
    ),
    ("attn_fwd", 64): (
        (64, 64, 4, 3, True, True), (64, 128, 4, 3, True, True), (128, 64, 8, 3, True, True),
        (128, 128, 4, 3, True, True), (128, 64, 4, 3, True, True), (128, 128, 4, 2, True, True),
        (128, 128, 8, 3, True, True), (64, 64, 4, 4, True, True), (128, 64, 8, 4, True, True),
        (128, 64, 4, 3, True, False), (128, 64, 8, 3, False, True),
    ),
    ("bwd_kernel_dk_dv", 128): (
        (64, 64, 4, 2, True), (64, 128, 8, 3, True), (64, 128, 8, 2, True), (64, 64, 4, 3, True), (64, 64, 4, 1, True),
        (32, 64, 4, 3, True), (32, 128, 8, 3, True), (128, 128, 8, 2, True), (64, 128, 8, 3, False),
        (64, 128, 8, 2, False), (64, 64, 4, 2, False),
    ),
    ("bwd_kernel_dk_dv", 64): (
        (128, 64, 4, 2, True), (64, 64, 4, 2, True), (64, 64, 4, 3, True), (128, 64, 4, 3, True),
        (64, 128, 8, 3, True), (128, 128, 8, 3, True), (128, 128, 8, 2, True), (64, 128, 4, 2, True),
        (64, 128, 8, 2, True), (64, 64, 4, 4, True), (64, 128, 8, 2, False), (64, 64, 4, 2, False),
    ),
    ("bwd_kernel_dq", 128): (
        (64, 64, 4, 2, True), (128, 64, 8, 3, True), (64, 64, 4, 3, True), (128, 64, 8, 2, True),
        (128, 128, 8, 2, True), (64, 128, 4, 1, True), (64, 64, 4, 1, True), (64, 32, 4, 3, True),
        (128, 32, 8, 4, True), (128, 64, 8, 3, False), (128, 64, 8, 2, False), (64, 64, 4, 2, False),
    ),
    ("bwd_kernel_dq", 64): (
        (64, 64, 4, 3, True), (64, 128, 4, 3, True), (128, 64, 8, 3, True), (64, 64, 4, 2, True),
        (64, 128, 4, 2, True), (128, 64, 4, 3, True), (128, 128, 8, 3, True), (128, 64, 8, 2, True),
        (128, 128, 8, 2, True), (64, 64, 4, 4, True), (128, 64, 8, 2, False), (64, 64, 4, 2, False),
    ),
    ("bwd_kernel_fuse", 128): (
        (64, 64, 4, 2, True), (64, 64, 4, 3, True), (128, 128, 8, 2, True), (64, 64, 4, 1, True),
        (64, 128, 8, 2, True), (128, 64, 8, 3, True), (64, 64, 4, 2, False),
    ),
    ("bwd_kernel_fuse", 64): (
        (128, 64, 4, 2, True), (64, 64, 4, 2, True), (64, 64, 4, 3, True), (128, 64, 4, 3, True),
        (128, 128, 8, 2, True), (128, 128, 8, 3, True), (64, 64, 4, 2, False),
    ),
}  # fmt: skip


class Buffers:
    """Random inputs of a shape, and room for everything that the kernels write."""

    def __init__(self, shape: Shape) -> None:
        torch.manual_seed(0)
        query = (shape.batch, shape.heads, shape.rows, shape.head_dim)
        key = (shape.batch, shape.key_heads, shape.rows, shape.head_dim)
        self.shape = shape
        self.q, self.k, self.v, self.do = (
            torch.randn(size, device="cuda", dtype=DTYPES[shape.dtype]) for size in (query, key, key, query)
        )
        self.out, self.dq = torch.empty_like(self.q), torch.empty_like(self.q)
        self.dk, self.dv = torch.empty_like(self.k), torch.empty_like(self.k)
        self.lse = row_sums(self.q)

    def problem(self, choose: Callable[..., Config], launch: Any = None, fused: bool = False) -> Problem:
        """The shape's problem with a choice of configs."""
        own = {} if launch is None else {"launch": launch}
        size, scale = self.shape.rows, self.shape.head_dim**-0.5
        window = CAUSAL if self.shape.causal else (None, None)
        return Problem(scale, window, max_seqlen_q=size, max_seqlen_k=size, fused_backward=fused, choose=choose, **own)

    def forward(self, problem: Problem) -> None:
        """Launch the forward."""
        forward(self.q, self.k, self.v, None, problem, self.out, self.lse)

    def backward(self, problem: Problem) -> None:
        """Launch all of the backward."""
        backward(
            self.q, self.k, self.v, None, problem, self.out, self.lse, self.do, self.dq, self.dk, self.dv, None
        )  # fmt: skip

    @property
    def results(self) -> tuple[torch.Tensor, ...]:
        """What forward and backward fill."""
        return self.out, self.dq, self.dk, self.dv

    def run(self, iface: str, problem: Problem) -> None:
        """Launch what contains an interface."""
        (self.forward if iface == "attn_fwd" else self.backward)(problem)


IFACES = ("attn_fwd", "bwd_preprocess", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")


def _launches(buffers: Buffers, iface: str, config: Config) -> Callable[[], None]:
    """A function that launches one kernel alone, with one config."""
    caught: list[tuple[Any, ...]] = []

    def catch(name: str, *launch: Any) -> None:
        if name == iface:
            caught.append((name, *launch))

    fused = iface == "bwd_kernel_fuse"
    buffers.run(iface, buffers.problem(lambda *_: config, catch, fused))
    return lambda: Problem(1.0).launch(*caught[0])


def _compile_share(share: list[tuple[Shape, str, Config]]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what does not compile is told when it is timed
    for shape, iface, config in share:
        try:
            _launches(Buffers(replace(shape, batch=1, rows=256)), iface, config)()
        except Exception:
            continue


def compile_all(work: list[tuple[Shape, str, Config]], jobs: int) -> None:
    """Fill the compiler's cache."""
    unique = list({(shape.dtype, shape.head_dim, shape.causal, iface, str(config)): (shape, iface, config)
                   for shape, iface, config in work}.values())  # fmt: skip
    context = processes.get_context("spawn")
    workers = [context.Process(target=_compile_share, args=(unique[i::jobs],)) for i in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def milliseconds(function: Callable[[], object]) -> float:
    """Median time on the device, the L2 cache cleared before each run."""
    return float(triton.testing.do_bench(function, warmup=WARM_UP, rep=MEASURE, return_mode="median"))


def tune(buffers: Buffers, iface: str, most: int) -> dict[str, Any]:
    """Time a kernel with the first `most` configs of its field."""
    tried = []
    for config in field(iface, buffers.shape.head_dim)[:most]:
        try:
            tried.append({"config": config, "ms": milliseconds(_launches(buffers, iface, config))})
        except (RuntimeError, TritonError) as fault:
            tried.append({"config": config, "fault": str(fault)[-200:]})
    timed = [row for row in tried if "ms" in row]
    return {"shape": buffers.shape.name, "best": min(timed, key=lambda row: row["ms"]), "tried": tried}


def of_pytorch(buffers: Buffers) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Forward and backward times of each back end of PyTorch's own function that takes the shape, and its results."""
    leaves = [tensor.detach().requires_grad_() for tensor in (buffers.q, buffers.k, buffers.v)]
    shape = buffers.shape

    def run() -> torch.Tensor:
        grouped = shape.heads != shape.key_heads
        return scaled_dot_product_attention(*leaves, is_causal=shape.causal, enable_gqa=grouped)

    def gradients(out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(out, leaves, buffers.do, retain_graph=True)

    times: dict[str, Any] = {}
    answer: list[torch.Tensor] = []
    for name, back_end in BACK_ENDS.items():
        try:
            with sdpa_kernel(back_end):
                out = run()
                times[name] = {"forward": milliseconds(run), "backward": milliseconds(partial(gradients, out))}
                answer = [out.detach(), *gradients(out)]
        except RuntimeError as fault:
            times[name] = {"fault": str(fault)[:200]}
    return times, answer


def repeated(buffers: Buffers, problem: Problem) -> list[torch.Tensor]:
    """Forward and backward once more, into memory that is NaN before."""
    for result in buffers.results:
        result.fill_(math.nan)
    buffers.forward(problem)
    buffers.backward(problem)
    return [result.clone() for result in buffers.results]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    """Whether results are the same to the bit; NaN is like nothing."""
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def measure(shape: Shape, tuned: dict[str, Any]) -> dict[str, Any]:
    """Time forward and backward as a whole with tuned kernels, beside PyTorch's; compare the results."""
    buffers = Buffers(shape)

    def best(iface: str, functional: Mapping[str, Any], sizes: tuple[int, int]) -> Config:
        return dict(tuned[iface]["best"]["config"])

    split, fused = buffers.problem(best), buffers.problem(best, fused=True)
    ours = {
        "forward": milliseconds(partial(buffers.forward, split)),
        "split": milliseconds(partial(buffers.backward, split)),
        "fused": milliseconds(partial(buffers.backward, fused)),
    }
    ours["backward"] = min(ours["split"], ours["fused"])
    theirs, answer = of_pytorch(buffers)
    difference, changed = 0.0, 0
    for problem in (split, fused):
        first = repeated(buffers, problem)
        errors = [error(mine, their.double()) for mine, their in zip(first, answer, strict=True)]
        difference = max(difference, *(math.inf if math.isnan(off) else off for off in errors))
        changed += sum(not same(first, repeated(buffers, problem)) for _ in range(REPEATS))
    ratios = {}
    for way in ("forward", "backward"):
        times = {name: row[way] for name, row in theirs.items() if way in row}
        fastest = min(times, key=lambda name: times[name])
        ratios[way] = {"fastest": fastest, "ratio": times[fastest] / ours[way]}
    return {
        "shape": shape.name, "flops": shape.flops, "ours": ours, "pytorch": theirs, "ratios": ratios,
        "difference": difference, "changed": changed,
    }  # fmt: skip


def speed(options: argparse.Namespace) -> int:
    """Time all shapes. Kernels are tuned on the first shape of a data type, head dim and mask."""
    shapes = [shape for shape in SHAPES if options.only in shape.name]
    begin = time.perf_counter()
    kinds: dict[tuple[str, int, bool], Shape] = {}
    for shape in shapes:
        kinds.setdefault(shape.kind, shape)
    work = [
        (shape, iface, config)
        for shape in kinds.values()
        for iface in IFACES
        for config in field(iface, shape.head_dim)[: options.field]
    ]
    compile_all(work, options.jobs)
    print(f"compiled {len(work)} images in {time.perf_counter() - begin:.0f} s", flush=True)
    tuned = {}
    for kind, shape in kinds.items():
        buffers = Buffers(shape)
        buffers.forward(buffers.problem(partial(safe_config, False)))
        tuned[kind] = {iface: tune(buffers, iface, options.field) for iface in IFACES}
        for iface, found in tuned[kind].items():
            print(f"{shape.name:42} {iface:18} {found['best']['ms']:8.3f} ms  {found['best']['config']}", flush=True)
    rows = []
    for shape in shapes:
        rows.append(measure(shape, tuned[shape.kind]))
        _print_row(shape, rows[-1])
        data = {"about": about("cuda"), "tuned": list(tuned.values()), "shapes": rows}
        write_json(options.out / "kernels-speed.json", data)
    for way in ("forward", "backward"):
        ratios = [row["ratios"][way]["ratio"] for row in rows]
        print(f"{way}: ratios {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}")
    worst, changed = max(row["difference"] for row in rows), sum(row["changed"] for row in rows)
    print(f"largest difference from PyTorch's results: {worst:.1e} of their root mean square")
    print(f"{changed} of {2 * REPEATS * len(rows)} repetitions gave other bits")
    return 0 if worst < LARGEST_DIFFERENCE and not changed else 1


def once(options: argparse.Namespace) -> int:
    """Launch each kernel once, on the first shape of each kind, with the configs in the results of `speed`."""
    tuned = json.loads((options.out / "kernels-speed.json").read_text())["tuned"]
    shapes = {shape.name: shape for shape in SHAPES if options.only in shape.name}
    for best in tuned:
        shape = shapes.get(best["attn_fwd"]["shape"])
        if shape is None:
            continue
        buffers = Buffers(shape)
        for iface in IFACES:
            _launches(buffers, iface, best[iface]["best"]["config"])()
            print(f"{shape.name:42} {iface:18} {best[iface]['best']['config']}", flush=True)
        torch.cuda.synchronize()
    return 0


def _print_row(shape: Shape, row: dict[str, Any]) -> None:
    for way, factor in (("forward", 1.0), ("backward", 2.5)):
        time_taken, ratio = row["ours"][way], row["ratios"][way]
        rate = factor * shape.flops / time_taken / 1e9
        theirs = row["pytorch"][ratio["fastest"]][way]
        against = f"{ratio['ratio']:.2f} of {ratio['fastest']} ({theirs:.3f} ms)"
        print(f"{shape.name:42} {way:8} {time_taken:8.3f} ms {rate:5.0f} TFLOP/s  {against}", flush=True)


def about(device: str) -> dict[str, Any]:
    """What the numbers were made with."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "sources": {iface: sources().whole(sources().kernels[iface]) for iface in IFACES},
    }
    if device == "cuda":
        facts |= {
            "device": torch.cuda.get_device_name(),
            "gpu": gpu(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "timing": f"events, median of {MEASURE} ms after {WARM_UP} ms, L2 cleared before each run",
        }
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("right", "speed", "once"))
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compile")
    parser.add_argument("--only", default="", help="only cases or shapes whose name contains this")
    parser.add_argument("--field", type=int, default=100, help="configs to try for each kernel")
    parser.add_argument("--divide", type=int, default=1, help="divide the lengths of sequences by this")
    parser.add_argument("--cpu", action="store_true", help="check on the CPU, through Triton's interpreter")
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for the next case")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        print("there is no GPU that PyTorch can use", file=sys.stderr)
        return 2
    return {"right": right, "speed": speed, "once": once}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
