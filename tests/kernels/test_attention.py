"""What PyTorch sees of the kernels: refused calls, functionals, ways of copying, and the reference itself."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.needs import NEEDS_TRITON

pytestmark = NEEDS_TRITON

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

from codegen.kernels import attention as kernels  # noqa: E402 after the skips
from codegen.kernels import jit, reference  # noqa: E402

SCHEMAS = Path(__file__).parents[2] / "amd" / "schema"


def tensors(dtype: Any = None, q: tuple[int, ...] = (1, 4, 5, 32), k: tuple[int, ...] = (1, 2, 7, 32)) -> list[Any]:
    return [torch.zeros(shape, dtype=dtype or torch.float16) for shape in (q, k, k)]


def lengths(*ends: int, dtype: Any = None) -> Any:
    return torch.tensor(ends, dtype=dtype or torch.int32)


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "types that differ": ([*tensors()[:2], tensors(torch.float32)[2]], {}, "must share one of the types"),
    "a type without kernels": (tensors(torch.float64), {}, "must share one of the types"),
    "two dimensions": (tensors(q=(5, 32), k=(7, 32)), {}, "4 dimensions"),
    "head dims that differ": (tensors(k=(1, 2, 7, 64)), {}, "head dims must agree"),
    "a head dim above 256": (tensors(q=(1, 4, 5, 288), k=(1, 2, 7, 288)), {}, "be 1 to 256"),
    "batches that differ": (tensors(k=(3, 2, 7, 32)), {}, "q has 1 batch entries, k and v have 3"),
    "heads without groups": (tensors(k=(1, 3, 7, 32)), {}, "4 query heads are no multiple of 3 key heads"),
    "sequences without lengths": (tensors(q=(5, 4, 32), k=(7, 2, 32)), {}, "cumulative lengths belong to"),
    "lengths of queries alone": (
        tensors(q=(5, 4, 32), k=(7, 2, 32)), {"cu_seqlens_q": lengths(0, 5)}, "for both queries and keys",
    ),
    "lengths in 64 bits": (
        tensors(q=(5, 4, 32), k=(7, 2, 32)),
        {"cu_seqlens_q": lengths(0, 5, dtype=torch.int64), "cu_seqlens_k": lengths(0, 7)},
        "must be int32",
    ),
    "unlike numbers of lengths": (
        tensors(q=(5, 4, 32), k=(7, 2, 32)),
        {"cu_seqlens_q": lengths(0, 5), "cu_seqlens_k": lengths(0, 7, 7)},
        "as many cumulative lengths",
    ),
    "no longest sequence of queries": (
        tensors(q=(5, 4, 32), k=(7, 2, 32)),
        {"cu_seqlens_q": lengths(0, 5), "cu_seqlens_k": lengths(0, 7), "max_seqlen_k": 7},
        "max_seqlen_q is 0: too little for 5 rows in all, of this many sequences: 1",
    ),
    "a longest sequence of keys that is too short": (
        tensors(q=(5, 4, 32), k=(7, 2, 32)),
        {"cu_seqlens_q": lengths(0, 1, 5), "cu_seqlens_k": lengths(0, 3, 7), "max_seqlen_q": 4, "max_seqlen_k": 3},
        "max_seqlen_k is 3: too little for 7 rows in all, of this many sequences: 2",
    ),
    "more sequences than a grid has": (tensors(q=(65536, 4, 5, 32), k=(65536, 2, 7, 32)), {}, "at most 65535"),
    "more heads than a grid has": (tensors(q=(1, 65536, 5, 32)), {}, "at most 65535"),
    "a bias of another type": (tensors(), {"bias": torch.zeros(5, 7)}, "a bias has the type of q"),
    "dropout of everything": (tensors(), {"dropout": 1.0}, "at least 0 and below 1"),
    "a negative dropout": (tensors(), {"dropout": -0.1}, "at least 0 and below 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    inputs, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        kernels.attention(*inputs, **options)


def test_too_long_sequences_are_refused() -> None:
    size = kernels.MAX_SEQLEN + 1
    q, k, v = (tensor.expand(1, 4, -1, 32) for tensor in tensors(q=(1, 1, 1, 32), k=(1, 1, 1, 32)))
    with pytest.raises(ValueError, match="sequences have at most 4194304 rows"):
        kernels.attention(q, k.expand(1, 4, size, 32), v.expand(1, 4, size, 32))


KERNELS = ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse", "bwd_preprocess")


@pytest.mark.parametrize("iface", KERNELS)
def test_functionals_are_those_of_the_schemas(iface: str) -> None:
    keys = {key["name"]: key for key in tomllib.loads((SCHEMAS / f"{iface}.toml").read_text())["key"]}
    problem = kernels.Problem(1.0, window=(3, 0), dropout=0.5, max_seqlen_q=5, max_seqlen_k=7)
    functional = kernels.functional_of(torch.zeros(1, 4, 5, 80), torch.zeros(5, 7), problem)
    assert keys.keys() <= functional.keys()
    for name, key in keys.items():
        assert functional[name] in key.get("values", [False, True])


def test_functional_of_a_padded_head() -> None:
    problem = kernels.Problem(1.0, window=(None, 0))
    assert kernels.functional_of(torch.zeros(1, 4, 5, 80, dtype=torch.bfloat16), None, problem) == {
        "Q_dtype": "bf16",
        "CAUSAL_TYPE": 3,
        "BLOCK_DMODEL": 128,
        "ENABLE_DROPOUT": False,
        "PADDED_HEAD": True,
        "BIAS_TYPE": 0,
    }


class Recorder:
    """Takes the place of launches and keeps what they were."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []

    def __call__(self, iface: str, grid: Any, functional: Any, config: Any, arguments: Any) -> None:
        self.launches.append((iface, grid(config), arguments))

    def call(self, inputs: list[Any], **options: Any) -> None:
        leaves = [tensor.requires_grad_() for tensor in inputs]
        out = kernels.attention(*leaves, launch=self, choose=lambda *_: {"BLOCK_M": 32, "BLOCK_N": 16}, **options)
        out.sum().backward()


def test_split_launches_and_their_grids() -> None:
    recorder = Recorder()
    recorder.call(tensors(q=(3, 4, 37, 32), k=(3, 2, 53, 32)))
    assert [(iface, grid) for iface, grid, _ in recorder.launches] == [
        ("attn_fwd", (2, 4, 3)),
        ("bwd_preprocess", (2, 4, 3)),
        ("bwd_kernel_dk_dv", (4, 2, 3)),
        ("bwd_kernel_dq", (2, 4, 3)),
    ]


def test_fused_launch_and_its_grid() -> None:
    recorder = Recorder()
    recorder.call(tensors(q=(3, 4, 37, 32), k=(3, 2, 53, 32)), fused_backward=True)
    assert [grid for iface, grid, _ in recorder.launches if iface == "bwd_kernel_fuse"] == [(4 * 2 + 2 * 4, 1, 3)]


@pytest.mark.parametrize("fused", [False, True])
def test_launches_give_every_argument_that_is_no_constant(fused: bool) -> None:
    recorder = Recorder()
    recorder.call(tensors(), fused_backward=fused)
    for iface, _, arguments in recorder.launches:
        kernel = jit.KERNELS[iface]
        constants = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        assert arguments.keys() == set(kernel.arg_names) - constants


def arguments_of(inputs: list[Any], **options: Any) -> dict[str, Any]:
    recorder = Recorder()
    recorder.call(inputs, **options)
    return next(arguments for iface, _, arguments in recorder.launches if iface == "bwd_kernel_dk_dv")


def test_aligned_tensors_can_be_copied() -> None:
    assert kernels.copyable(arguments_of(tensors(q=(1, 4, 5, 40), k=(1, 2, 7, 40))))


def test_rows_that_are_no_multiple_of_16_bytes_cannot_be_copied() -> None:
    assert not kernels.copyable(arguments_of(tensors(q=(1, 4, 5, 36), k=(1, 2, 7, 36))))


def test_an_unaligned_address_cannot_be_copied() -> None:
    q, k, v = tensors()
    shifted = torch.zeros(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape)
    assert not kernels.copyable(arguments_of([shifted, k, v]))


def test_rows_far_apart_are_copied() -> None:
    step = kernels.MAX_ROW_STRIDE
    apart = torch.zeros(step + 32, dtype=torch.float16).as_strided((1, 1, 2, 32), (step, step, step, 1))
    assert kernels.rows_of(apart).stride(2) == 32


def test_turned_rows_are_copied() -> None:
    turned = torch.zeros(1, 2, 32, 5).transpose(-1, -2)
    assert kernels.rows_of(turned).stride(-1) == 1


def test_other_rows_are_not_copied() -> None:
    rows = torch.zeros(1, 5, 2, 32).transpose(1, 2)
    assert kernels.rows_of(rows) is rows


def test_first_word_of_philox() -> None:
    """Counter 0 and key 0 give 0x6627e8d5 (the known answers of Random123), which is 0.798 of 2^31."""
    problem = kernels.Problem(1.0, dropout=0.7980, seed=0)
    zero = torch.zeros((), dtype=torch.int64)
    assert reference.kept(zero, 1, 1, problem).item()
    problem = kernels.Problem(1.0, dropout=0.7982, seed=0)
    assert not reference.kept(zero, 1, 1, problem).item()


def test_share_that_dropout_keeps() -> None:
    problem = kernels.Problem(1.0, dropout=0.3, seed=1234567)
    kept = reference.kept(torch.arange(4), 200, 300, problem)
    assert kept.double().mean().item() == pytest.approx(0.7, abs=0.005)
    assert len({row.numpy().tobytes() for row in kept.reshape(-1, 300)}) == 800


def test_reference_by_hand() -> None:
    """Two keys with the scores 0 and log 3: weights of a quarter and three quarters, and a log-sum-exp of log 4."""
    q, k = torch.tensor([[[[1.0], [1.0]]]]), torch.tensor([[[[0.0], [1.0986123]]]])
    v = torch.tensor([[[[4.0], [8.0]]]])
    out, lse = reference.reference(q, k, v, None, kernels.Problem(1.0, window=(1, 1)))
    assert out.flatten().tolist() == pytest.approx([7.0, 7.0])
    assert lse.flatten().tolist() == pytest.approx([1.3862944, 1.3862944])


def test_reference_of_a_row_without_keys_by_hand() -> None:
    """Row 0 sees no key, row 1 the first alone."""
    q, k = torch.tensor([[[[1.0], [1.0]]]]), torch.tensor([[[[0.0], [1.0986123]]]])
    v = torch.tensor([[[[4.0], [8.0]]]])
    out, lse = reference.reference(q, k, v, None, kernels.Problem(1.0, window=(1, -1)))
    assert out.flatten().tolist() == [0.0, 4.0]
    assert lse.flatten().tolist() == [float("-inf"), 0.0]
