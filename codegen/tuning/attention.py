"""The attention kernels as the tuner takes them: `attn_fwd` and the three kernels of the backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from codegen.aot.sources import sources
from codegen.kernels.attention import Args, Grid, backward, compiled_values, forward, sums_strides
from codegen.kernels.attention import Problem as Attention
from codegen.kernels.jit import KERNELS, start
from codegen.kernels.reference import by_pytorch, reference
from codegen.tuning import problems
from codegen.tuning.compiling import ahead, judged
from codegen.tuning.field import narrow
from codegen.tuning.tensors import Inputs, aligned_like, aligned_sums, attention_of, inputs_of, row_statistics
from txtdb.evidence.policy import Policy
from txtdb.model.evidence import Status
from txtdb.model.values import Value
from txtdb.tune.device import Config, Task
from txtdb.tune.tunable import Arguments, Problem

# A result may be off by so many times what PyTorch's own attention is off by in the same type, and by one rounding.
MULTIPLE = 5.0
# The log-sum-exp is float32: the backward's weights are off by as much as it is, which rounding to 16 bits hides.
LSE_LEAST = {"fp16": 1e-4, "bf16": 1e-4, "fp32": 1e-5}
RESULTS = {
    "attn_fwd": ("Out", "Lse"),
    "bwd_kernel_dk_dv": ("DK", "DV"),
    "bwd_kernel_dq": ("DQ", "DBias"),
    "bwd_kernel_fuse": ("DK", "DV", "DQ", "DBias"),
}
NAN = float("nan")
Answer = Mapping[str, torch.Tensor]


ASKS = (
    "Q_dtype", "CAUSAL_TYPE", "BLOCK_DMODEL", "ENABLE_DROPOUT", "PADDED_HEAD", "BIAS_TYPE",
    "Max_seqlen_q", "Max_seqlen_k", "BLOCK_M", "BLOCK_N", "num_warps", "num_stages",
)  # fmt: skip


def device_name() -> str:
    """Where tensors go: the GPU, or the CPU for Triton's interpreter."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class AttentionTunable:
    """One of the kernels. Arguments are the kernel's own by name, and under `grid` a config's grid."""

    iface: str

    @property
    def asks(self) -> Sequence[str]:
        """What the schemas of the attention kernels have in common."""
        return ASKS

    @property
    def restored(self) -> Sequence[str]:
        """No kernel works in place."""
        return ()

    @property
    def zeroed(self) -> Sequence[str]:
        """The gradient of the bias, which is not written where the window hides all of a tile."""
        return ("DBias",) if "DBias" in RESULTS[self.iface] else ()

    def policy(self, usual: Policy) -> Policy:
        """Nothing is otherwise than usual."""
        return usual

    def source(self) -> str:
        """The digest of the kernel with all that it calls."""
        kernels = sources()
        return kernels.whole(kernels.kernels[self.iface])

    def functional_source(self, values: Mapping[str, Value]) -> str:
        """The digest that resource files have for the functional."""
        kernels = sources()
        return kernels.digest(kernels.kernels[self.iface], values)

    def narrow(self, task: Task, configs: Sequence[Config]) -> Sequence[Config]:
        """See `field.narrow`."""
        return narrow(task, configs)

    def timing_problem(self, task: Task, fill: int) -> Problem:
        """See `problems.timing_problem`."""
        return problems.timing_problem(task, fill)

    def accuracy_problems(self, task: Task) -> Sequence[Problem]:
        """See `problems.accuracy_problems`."""
        return problems.accuracy_problems(task)

    def confirmation_problems(self, task: Task) -> Sequence[Problem]:
        """See `problems.confirmation_problems`."""
        return problems.confirmation_problems(task)

    def arguments(self, task: Task, problem: Problem) -> Arguments:
        """The kernel's arguments; results are NaN, but for those that are zeroed."""
        return self._arguments(task, problem, device_name())

    def _arguments(self, task: Task, problem: Problem, device: str) -> Arguments:
        attention = attention_of(task, problem, device)
        inputs = inputs_of(task, problem, device)
        caught: list[Args] = []

        def catch(iface: str, grid: Grid, functional: Any, config: Config, arguments: Args) -> None:
            if iface == self.iface:
                caught.append({**arguments, "grid": grid})

        fused = self.iface == "bwd_kernel_fuse"
        catching = replace(attention, launch=catch, choose=lambda *_: {}, fused_backward=fused)
        if self.iface == "attn_fwd":
            lse = aligned_sums(inputs.q, NAN)
            forward(inputs.q, inputs.k, inputs.v, inputs.bias, catching, torch.full_like(inputs.q, NAN), lse)
        else:
            _catch_backward(inputs, catching)
        arguments = caught[0]
        if "Delta" in arguments:
            arguments |= _statistics(inputs, attention, device)
        return arguments | _stand_ins(inputs, arguments)

    def compile(self, task: Task, config: Config) -> None:
        """Compile for the task's arch into the compiler's cache; no device is used or needed."""
        arguments = self._arguments(task, problems.accuracy_problems(task)[0], "meta")
        with judged(Status.COMPILE_ERROR), ahead(task.arch) as wrapped:
            _launch(wrapped, task, config, arguments)

    def call(self, task: Task, config: Config, arguments: Arguments) -> None:
        """Launch a candidate."""
        with judged(Status.CRASH):
            _launch(lambda kernel: kernel, task, config, arguments)

    def results(self, arguments: Arguments) -> Answer:
        """Results by the names of the arguments."""
        names = [name for name in RESULTS[self.iface] if name != "DBias" or arguments["store_dbias"]]
        return {name: arguments[name] for name in names}

    def reference(self, task: Task, problem: Problem, arguments: Arguments) -> Answer:
        """By the definition, in float64."""
        device = arguments["Q"].device.type
        answer = _by_definition(inputs_of(task, problem, device), attention_of(task, problem, device), torch.float64)
        return {name: answer[name] for name in self.results(arguments)}

    def tolerance(self, task: Task, problem: Problem, name: str) -> float:
        """`MULTIPLE` times the largest error of PyTorch's own attention, and one rounding of the largest result."""
        key = (*task.functional.items(),)
        return _tolerances(key, (*sorted(problem.sizes.items()),), problem.seed, device_name())[name]


def _launch(wrapped: Callable[[Any], Any], task: Task, config: Config, arguments: Arguments) -> None:
    own = {name: value for name, value in arguments.items() if name != "grid"}
    values = compiled_values(task.functional, config, own)
    start(wrapped(KERNELS[task.iface]), arguments["grid"](config), values, own)


def _catch_backward(inputs: Inputs, catching: Attention) -> None:
    """Have the backward make up its arguments, with results that are NaN. Statistics of rows are given later."""
    q, k, v, do = inputs.q, inputs.k, inputs.v, inputs.do
    dq, dk, dv = (torch.full_like(tensor, NAN) for tensor in (q, k, v))
    dbias = None if inputs.bias is None else aligned_like(inputs.bias)
    backward(q, k, v, inputs.bias, catching, torch.empty_like(q), aligned_sums(q), do, dq, dk, dv, dbias)


def _statistics(inputs: Inputs, attention: Attention, device: str) -> Args:
    sums = [aligned_sums(inputs.q) for _ in range(2)]
    if device != "meta":
        for own, value in zip(sums, row_statistics(inputs, attention), strict=True):
            own.copy_(value)
    return {"Lse": sums[0], "Delta": sums[1], **sums_strides(sums[0])}


def _stand_ins(inputs: Inputs, arguments: Args) -> Args:
    """Memory of their own for arguments that nothing reads: what is zeroed must not be an input."""
    names = [name for name in ("Bias", "DBias") if name in arguments and inputs.bias is None]
    return {name: torch.zeros(1, dtype=inputs.q.dtype, device=inputs.q.device) for name in names}


def _by_definition(inputs: Inputs, attention: Attention, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All results of forward and backward, computed in a type."""
    return _results(lambda *a: reference(*a), inputs, attention, dtype)


def _results(
    function: Callable[..., Any], inputs: Inputs, attention: Attention, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    matrices = (inputs.q, inputs.k, inputs.v, *([] if inputs.bias is None else [inputs.bias]))
    leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in matrices]
    out, lse = function(*leaves[:3], leaves[3] if inputs.bias is not None else None, attention)
    gradients = torch.autograd.grad(out, leaves, inputs.do.to(out.dtype))
    named = dict(zip(("DQ", "DK", "DV", "DBias"), gradients, strict=False))
    return {"Out": out.detach(), "Lse": lse.detach(), **named}


def _own(inputs: Inputs, attention: Attention) -> dict[str, torch.Tensor]:
    """What PyTorch makes of it in the type of the inputs; the log-sum-exp in float32, as which it is kept."""
    # Its own function cannot draw what the kernels draw, and has no log-sum-exp.
    if attention.dropout:
        results = _results(lambda *a: reference(*a), inputs, attention, inputs.q.dtype)
    else:
        results = _results(lambda *a: (by_pytorch(*a), torch.zeros(())), inputs, attention, inputs.q.dtype)
    return {**results, "Lse": _by_definition(inputs, attention, torch.float32)["Lse"]}


@lru_cache(maxsize=256)
def _tolerances(
    functional: tuple[tuple[str, Any], ...], sizes: tuple[tuple[str, int], ...], seed: int, device: str
) -> dict[str, float]:
    task, problem = Task("", "", dict(functional), {}), Problem(dict(sizes), seed)
    inputs, attention = inputs_of(task, problem, device), attention_of(task, problem, device)
    exact, own = _by_definition(inputs, attention, torch.float64), _own(inputs, attention)
    epsilon = torch.finfo(inputs.q.dtype).eps
    found = {
        name: MULTIPLE * largest_difference(own[name], truth) + epsilon * _largest(truth)
        for name, truth in exact.items()
        if name != "Lse"
    }
    lse = MULTIPLE * largest_difference(own["Lse"], exact["Lse"]) + LSE_LEAST[str(task.functional["Q_dtype"])]
    return {**found, "Lse": lse}


def _largest(truth: torch.Tensor) -> float:
    return float(truth.abs().max()) if truth.numel() else 0.0


def largest_difference(value: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest absolute difference, in float64. Equal infinities do not differ; NaN in either gives NaN."""
    if not truth.numel():
        return 0.0
    value, truth = value.double(), truth.double()
    return float(torch.where(value == truth, 0.0, (value - truth).abs()).max())


def attn_fwd() -> AttentionTunable:
    """The forward."""
    return AttentionTunable("attn_fwd")


def bwd_kernel_dk_dv() -> AttentionTunable:
    """The gradients of K and V."""
    return AttentionTunable("bwd_kernel_dk_dv")


def bwd_kernel_dq() -> AttentionTunable:
    """The gradients of Q and of the bias."""
    return AttentionTunable("bwd_kernel_dq")


def bwd_kernel_fuse() -> AttentionTunable:
    """All gradients in one launch."""
    return AttentionTunable("bwd_kernel_fuse")
