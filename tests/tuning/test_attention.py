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
from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault, Task

pytestmark = NEEDS_TRITON

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

from codegen.tuning import attention, compiling, problems  # noqa: E402 after the skips
from txtdb.tune.tunable import find_tunable, tunable_names  # noqa: E402

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
    for problem in (*problems.accuracy_problems(asked), problems.timing_problem(asked, 1 << 17)):
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
    errors: Mapping[str, float] = json.loads(done.stdout)
    right = {iface: error <= 1.0 for iface, error in errors.items()}
    assert right == dict.fromkeys(errors, case != "wrong"), errors
