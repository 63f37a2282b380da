"""Checks the tunables in Triton's interpreter and prints their errors as JSON: interface → [check, confirmation].

Errors are in tolerances. A program of its own, because the interpreter is chosen when triton is imported. Problems have
fewer heads than those of a GPU, where heads decide which image is used: here there is none.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import json
import sys
from dataclasses import replace

import torch

from codegen.tuning import attention, problems
from tests.tuning.test_timing import FakeStream
from txtdb.tune.device import Task
from txtdb.tune.gpu import GpuDevice
from txtdb.tune.tunable import Problem

FUNCTIONAL = {
    "Q_dtype": "fp16", "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 32, "ENABLE_DROPOUT": False, "PADDED_HEAD": False,
    "BIAS_TYPE": 1,
}  # fmt: skip
MASKED = {**FUNCTIONAL, "CAUSAL_TYPE": 3, "PADDED_HEAD": True, "BIAS_TYPE": 0, "ENABLE_DROPOUT": True}
CONFIG = {"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": False, "TENSOR_COPY": False, "num_warps": 4, "num_stages": 1}


class Fewer(attention.AttentionTunable):
    """Problems with two query heads and one key head, without the largest."""

    def accuracy_problems(self, task: Task) -> list[Problem]:
        return fewer([problems.accuracy_problems(task)[number] for number in (0, 3, -1)])

    def confirmation_problems(self, task: Task) -> list[Problem]:
        return fewer(problems.confirmation_problems(task))


def fewer(whole: list[Problem]) -> list[Problem]:
    return [replace(item, sizes={**item.sizes, "heads": 2, "key_heads": 1}) for item in whole]


class Wrong(Fewer):
    """A kernel whose every launch scales by a little too much."""

    def call(self, task: Task, config: object, arguments: dict[str, object]) -> None:  # type: ignore[override]
        super().call(task, config, {**arguments, "sm_scale": arguments["sm_scale"] * 1.05})  # type: ignore


def main(case: str) -> None:
    torch.manual_seed(0)
    kind = Wrong if case == "wrong" else Fewer
    ifaces = tuple(attention.RESULTS) if case != "wrong" else ("attn_fwd", "bwd_kernel_dq")
    device = GpuDevice(tunables=kind, queue=FakeStream())
    functional = MASKED if case == "masked" else FUNCTIONAL
    bins = {"Max_seqlen_q": 64, "Max_seqlen_k": 64}
    tasks = {iface: Task(iface, "sm_90", functional, bins) for iface in ifaces}
    steps = (device.check, device.confirm)
    print(json.dumps({iface: [step(task, CONFIG) for step in steps] for iface, task in tasks.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
