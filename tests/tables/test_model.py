"""The model in numbers worked by hand, the estimate of registers, and the choice of few configs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tools.tables.choose import choose
from tools.tables.devices import DEVICES
from tools.tables.model import Need, Problem, resident, seconds

MI300X = DEVICES["gfx942"]
PLAIN = Problem("attn_fwd", "fp16", 128, False, False, False, (4096,), (4096,))
CONFIG = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 1, "waves_per_eu": 1, "PRE_LOAD_V": False}


def need(registers: float = 128, spills: float = 0, shared: float = 32768) -> Need:
    return Need(np.array([registers]), np.array([spills]), np.array([shared]), np.array([np.inf]))


@pytest.mark.parametrize(
    ("device", "warps", "registers", "shared", "expected"),
    [
        ("gfx942", 4, 128, 16384, 4),  # 512 / 128 = 4 waves of each of 4 SIMDs, in groups of 4; 65536 / 16384 = 4
        ("gfx942", 4, 129, 16384, 3),  # 136 in steps of 8: 3 waves
        ("gfx942", 4, 128, 40000, 1),  # one in local memory
        ("gfx942", 8, 512, 16384, 0),  # 4 waves of the 8
        ("gfx1100", 4, 256, 16384, 2),  # 264 in steps of 24: 5 waves of each of 2 SIMDs, 10 / 4
        ("sm_90", 4, 168, 65536, 3),  # 512 / 168 = 3 warps of each of 4 schedulers; 233472 / 65536 = 3
    ],
)
def test_workgroups_that_share_a_unit(device: str, warps: int, registers: int, shared: int, expected: int) -> None:
    assert resident(DEVICES[device], np.array([float(warps)]), need(registers, 0, shared))[0] == expected


def test_seconds_of_a_kernel_by_hand() -> None:
    """One visit of 128 queries to 64 keys: matrix 4 * 128 * 64 * 128 / 2048 = 2048 cycles. Scalar: 8192 scores *
    (8 / 64 + 1 / 16) = 1536, and 128 * (128 + 40) / 64 + 100 = 436, together 1972. Busy: 2048 + 986 = 3034.

    Three workgroups share a unit (136 registers): 9102 cycles for a visit of each, more than the chain. 32 tiles * 32
    heads = 1024 are one whole round of 304 * 3 = 912 and 112 more, one a unit, whose visits take the chain: 2048 +
    1972, 32768 bytes * 5 / 128 = 1280, the latency of 500 and 32768 / (54 * 0.6) = 1011, and a barrier of 60, together
    6871. A round is 64 visits and 3 * 500 + 2 * 128 * 128 * 2 / 54 = 2714 cycles.
    """
    cycles = 64 * 9102 + 2714 + 64 * 6871 + 2714
    given = seconds(MI300X, PLAIN, [CONFIG], need(136, 0, 16384))
    assert given.shape == (1, 1, 1)
    assert given[0, 0, 0] == pytest.approx(cycles / 2.1e9, rel=1e-3)


def test_what_does_not_fit_cannot_run() -> None:
    assert np.isinf(seconds(MI300X, PLAIN, [CONFIG], need(shared=65537))).all()


def test_a_causal_mask_saves_about_half() -> None:
    full, causal = (seconds(MI300X, replace(PLAIN, causal=mask), [CONFIG], need())[0, 0, 0] for mask in (False, True))
    assert 0.4 < causal / full < 0.75


@pytest.mark.parametrize("change", [{"dropout": True}, {"bias": True}, {"dtype": "fp32"}, {"keys": (8192,)}])
def test_what_costs_more(change: dict) -> None:
    plain, more = (seconds(MI300X, problem, [CONFIG], need())[0, 0, 0] for problem in (PLAIN, replace(PLAIN, **change)))
    assert more > plain * 1.05


def test_spills_cost() -> None:
    without, some = (seconds(MI300X, PLAIN, [CONFIG], need(spills=spills))[0, 0, 0] for spills in (0, 200))
    assert some > without * 1.5


def test_the_fused_kernel_does_the_work_of_both() -> None:
    parts = [
        seconds(MI300X, replace(PLAIN, iface=iface), [CONFIG], need())
        for iface in ("bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
    ]
    assert parts[2] == pytest.approx(parts[0] + parts[1])


def test_neighbours_agree_within_a_tie() -> None:
    """Candidate 1 is a little slower in two cells and much faster in the third: it takes all."""
    times = np.array([[[1.0, 1.0, 2.0]], [[1.04, 1.04, 1.0]]])
    assert choose(times, 1.05).tolist() == [[1, 1, 1]]


def test_beyond_a_tie_each_takes_its_own() -> None:
    times = np.array([[[1.0, 1.0, 2.0]], [[1.06, 1.06, 1.0]]])
    assert choose(times, 1.05).tolist() == [[0, 0, 1]]


def test_of_equal_candidates_the_faster_one_is_taken() -> None:
    times = np.array([[[1.02, 1.02]], [[1.0, 1.0]], [[1.01, 1.01]]])
    assert choose(times, 1.05).tolist() == [[1, 1]]


def test_a_candidate_that_cannot_run_is_never_taken() -> None:
    times = np.array([[[np.inf, np.inf]], [[3.0, 3.0]]])
    assert choose(times, 1.05).tolist() == [[1, 1]]


def test_no_more_workgroups_share_a_unit_than_the_compiler_makes_room_for() -> None:
    """An image with `waves_per_eu` 1 has few registers, and all of a SIMD."""
    few = Need(np.array([64.0]), np.array([0.0]), np.array([1024.0]), np.array([1.0]))
    warps = np.array([2.0])
    assert resident(MI300X, warps, need(64, 0, 1024))[0] == 16
    assert resident(MI300X, warps, few)[0] == 2
