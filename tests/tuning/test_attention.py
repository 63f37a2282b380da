"""The attention kernels as tunables: fields, problems, and that one image serves all problems of a functional."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.needs import NEEDS_TRITON
from txtdb.layers.database import load
from txtdb.model.evidence import Status
from txtdb.model.schema import Schema
from txtdb.model.values import print_values
from txtdb.tune.choosing import shapes_in_bin
from txtdb.tune.device import CandidateFault, Task

pytestmark = NEEDS_TRITON

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

from codegen.aot import read_resources  # noqa: E402 after the skips
from codegen.tuning import attention, compiling, problems  # noqa: E402
from txtdb.tune.tunable import Problem, find_tunable, tunable_names  # noqa: E402

ROOT = Path(__file__).parents[2]
IFACES = ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
PLAIN = {
    "Q_dtype": "bf16", "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 128, "ENABLE_DROPOUT": False, "PADDED_HEAD": False,
    "BIAS_TYPE": 0,
}  # fmt: skip
CONFIG = {"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": True, "TENSOR_COPY": True, "num_warps": 4, "num_stages": 2}
BINS = (16, 64, 256, 1024, 8192)


def task(iface: str = "attn_fwd", rows: int = 1024, keys: int = 1024, **changes: Any) -> Task:
    return Task(iface, "sm_90", {**PLAIN, **changes}, {"Max_seqlen_q": rows, "Max_seqlen_k": keys})


def all_configs(iface: str) -> list[dict[str, Any]]:
    fields = {
        "BLOCK_M": (16, 32, 64, 128, *((256,) if iface == "attn_fwd" else ())), "BLOCK_N": (16, 32, 64, 128),
        "PRE_LOAD_V": (False, True), "TENSOR_COPY": (False, True), "num_warps": (1, 2, 4, 8),
        "num_stages": (1, 2, 3, 4),
    }  # fmt: skip
    if iface != "attn_fwd":
        del fields["PRE_LOAD_V"]
    return [dict(zip(fields, values, strict=True)) for values in product(*fields.values())]


@pytest.mark.parametrize("iface", IFACES)
def test_the_tuner_finds_the_tunables(iface: str) -> None:
    if iface not in tunable_names():
        pytest.skip("the entry points are those of an older installation")
    found = find_tunable(iface)
    assert found and found.source().startswith("sha256:")


@pytest.mark.parametrize("iface", IFACES)
def test_sources_of_functionals_are_those_of_resource_files(iface: str) -> None:
    schema, path = load(ROOT / "nvidia").schemas[iface], ROOT / "nvidia" / "sm_90" / f"{iface}.resources"
    content, _ = read_resources(path.read_bytes(), path.name)
    arch_schema, tunable = schema.for_arch("sm_90"), attention.AttentionTunable(iface)
    assert content and arch_schema
    own = {print_values(f): tunable.functional_source(schema.kernel_values(f)) for f in arch_schema.supported}
    assert own == {name: block.source for name, block in content.blocks.items()}
    assert len(set(own.values())) > 1


@pytest.mark.parametrize("width", [64, 128])
def test_the_field_of_the_forward_has_at_least_200_candidates(width: int) -> None:
    assert len(attention.attn_fwd().narrow(task(BLOCK_DMODEL=width), all_configs("attn_fwd"))) >= 200


@pytest.mark.parametrize("iface", IFACES)
def test_no_field_is_empty(iface: str) -> None:
    configs, tunable = all_configs(iface), attention.AttentionTunable(iface)
    empty = [
        (dtype, width, rows, keys)
        for dtype, width, rows, keys in product(("bf16", "fp32"), (32, 64, 128, 256), BINS, BINS)
        if not tunable.narrow(task(iface, rows, keys, Q_dtype=dtype, BLOCK_DMODEL=width), configs)
    ]
    assert empty == []


@pytest.mark.parametrize("iface", IFACES)
def test_narrowing_looks_at_one_config_at_a_time(iface: str) -> None:
    configs, tunable = all_configs(iface), attention.AttentionTunable(iface)
    whole = tunable.narrow(task(iface), configs)
    assert list(reversed(tunable.narrow(task(iface), configs[::-1]))) == whole
    assert [config for config in configs if tunable.narrow(task(iface), [config])] == whole


@pytest.mark.parametrize("rows", [16, 128, 1024, 8192])
def test_timing_problems_fill_the_device(rows: int) -> None:
    sizes = problems.timing_problem(task(rows=rows, keys=rows), 1 << 17).sizes
    assert sizes["batch"] * sizes["heads"] * rows == pytest.approx(1 << 17)


def test_timing_problems_fit_into_memory() -> None:
    """16 rows would take a batch of 512; with 8192 keys 32 of them have 2 GiB of K and V."""
    assert problems.timing_problem(task(rows=16, keys=8192), 1 << 17).sizes["batch"] == 32


def test_a_mask_ends_at_the_last_key_where_keys_are_longer() -> None:
    assert problems.timing_problem(task(rows=64, keys=256, CAUSAL_TYPE=3), 1 << 17).sizes["bottom_right"] == 1
    assert problems.timing_problem(task(rows=256, keys=64, CAUSAL_TYPE=3), 1 << 17).sizes["bottom_right"] == 0


def test_accuracy_problems_are_small_odd_and_at_the_edges_of_the_bin() -> None:
    found = [(item.sizes["rows"], item.sizes["keys"]) for item in problems.accuracy_problems(task(rows=256, keys=8192))]
    assert {(256, 512), (129, 257), (1, 515)} <= set(found)
    assert max(max(pair) for pair in found) <= 515


def scores(problem: Problem) -> int:
    return problem.sizes["heads"] * problem.sizes["rows"] * problem.sizes["keys"]


@pytest.mark.parametrize("root", ["nvidia", "amd"])
@pytest.mark.parametrize("iface", IFACES)
def test_every_cell_is_confirmed_with_other_problems_than_it_is_checked_with(root: str, iface: str) -> None:
    """Longer ones where the checks are cut, at odd sizes, with other inputs, and at a cost that is bounded."""
    schema = load(ROOT / root).schemas[iface]
    spots = {(arch, at) for arch in schema.archs for at in product(*_bins(schema, arch))}
    assert spots
    for arch, at in sorted(spots):
        arch_schema = schema.for_arch(arch)
        assert arch_schema
        checked = problems.accuracy_problems(task(iface, *at))
        shapes = shapes_in_bin(arch_schema, at)
        found = [one for shape in shapes for one in problems.confirmation_problems(task(iface, *shape))]
        assert found and not {one.seed for one in checked} & {one.seed for one in found}
        sizes = [{(one.sizes["rows"], one.sizes["keys"]) for one in some} for some in (checked, found)]
        assert sizes[1] - sizes[0], at
        assert sum(map(scores, found)) < 1 << 26
        for axis, name in enumerate(("rows", "keys")):
            assert max(one.sizes[name] for one in found) == at[axis] - 1, "the last odd length of the bin"
            assert any(one.sizes[name] % 2 for one in found)
        assert {one.sizes["heads"] % problems.ALIGNED for one in found} == {0}


def _bins(schema: Schema, arch: str) -> tuple[tuple[int, ...], ...]:
    arch_schema = schema.for_arch(arch)
    assert arch_schema
    return arch_schema.bins


def test_a_confirmation_that_is_too_large_has_each_side_at_its_length_once() -> None:
    found = [
        (one.sizes["rows"], one.sizes["keys"]) for one in problems.confirmation_problems(task(rows=8191, keys=5121))
    ]
    assert found == [(8191, 79), (127, 5121)]
    (small,) = problems.confirmation_problems(task(rows=513, keys=513, CAUSAL_TYPE=3))
    assert small.sizes | {"rows": 513, "keys": 513, "window_right": 0, "bottom_right": 1} == small.sizes


@pytest.mark.parametrize("iface", ["attn_fwd", "bwd_kernel_dq"])
@pytest.mark.parametrize("bias", [0, 1])
def test_one_image_serves_all_problems_of_a_functional(iface: str, bias: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked is what is timed, and nothing is compiled twice."""
    images = set()

    def warm(self: Any, grid: Any) -> Any:
        return lambda **arguments: images.add(self.kernel.warmup(grid=grid, **arguments).hash)

    monkeypatch.setattr(compiling._Warmed, "__getitem__", warm)
    tunable = attention.AttentionTunable(iface)
    asked = task(iface, BLOCK_DMODEL=64, BIAS_TYPE=bias)
    longer = task(iface, 4097, 8191, BLOCK_DMODEL=64, BIAS_TYPE=bias)
    confirming = [*problems.confirmation_problems(longer), *problems.confirmation_problems(task(iface, 1, 1))]
    checking = problems.accuracy_problems(asked)
    for problem in (*checking, *confirming, problems.timing_problem(asked, 1 << 17)):
        arguments = tunable._arguments(asked, problem, "meta")
        with compiling.ahead("sm_90") as wrapped:
            attention._launch(wrapped, asked, CONFIG, arguments)
    assert len(images) == 1


@pytest.mark.parametrize("iface", ["attn_fwd", "bwd_kernel_dk_dv"])
def test_compiling_needs_no_context_on_the_device(iface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise AssertionError("a context is created")

    monkeypatch.setattr(torch.cuda, "_lazy_init", refused)
    config = {name: value for name, value in CONFIG.items() if iface == "attn_fwd" or name != "PRE_LOAD_V"}
    attention.AttentionTunable(iface).compile(task(iface, BLOCK_DMODEL=32), config)


def test_a_config_that_asks_for_too_much_shared_memory_is_out_of_resources() -> None:
    with pytest.raises(CandidateFault) as caught:
        attention.attn_fwd().compile(task(), {**CONFIG, "BLOCK_N": 64, "num_stages": 8})
    assert caught.value.status is Status.OUT_OF_RESOURCES


def test_a_config_that_triton_cannot_compile_is_a_compile_error() -> None:
    with pytest.raises(CandidateFault) as caught:
        attention.attn_fwd().compile(task(), {**CONFIG, "BLOCK_M": 48})
    assert caught.value.status is Status.COMPILE_ERROR


def test_without_a_bias_nothing_that_is_zeroed_is_an_input() -> None:
    """The kernels take any tensor in place of a bias that is not there; the tuner writes zeros to its gradient."""
    tunable = attention.bwd_kernel_dq()
    asked = task("bwd_kernel_dq", Q_dtype="fp16", BLOCK_DMODEL=32)
    arguments = tunable._arguments(asked, problems.accuracy_problems(asked)[0], "cpu")
    inputs = {arguments[name].data_ptr() for name in ("Q", "K", "V", "DOut")}
    assert not inputs & {arguments[name].data_ptr() for name in tunable.zeroed}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["plain", "masked", "wrong"])
def test_results_in_the_interpreter(case: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.tuning.interpreted", case]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors: Mapping[str, list[float]] = json.loads(done.stdout)
    right = {iface: [error <= 1.0 for error in found] for iface, found in errors.items()}
    assert right == dict.fromkeys(errors, [case != "wrong"] * 2), errors
