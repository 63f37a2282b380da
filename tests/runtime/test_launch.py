"""What the driver is asked to do: grids, argument bytes, stand-ins, scratch memory, loading once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from codegen.aot.pack_manifest import Signature  # noqa: E402 after the skip
from codegen.kernels import attention as kernels_of  # noqa: E402
from codegen.runtime import Kernels, LaunchFault, Misaligned, NoKernel, Unsupported  # noqa: E402
from codegen.runtime.arguments import Arguments  # noqa: E402
from tests.aot.tiny import failed  # noqa: E402
from tests.runtime.small import needing, pack_of  # noqa: E402
from txtdb.faults import FaultError  # noqa: E402


def tensors(*q: int, k: tuple[int, ...] = (), dtype: Any = None) -> list[Any]:
    made = [torch.zeros(shape, dtype=dtype or torch.float16) for shape in (q, k or q, k or q)]
    return [tensor.requires_grad_() for tensor in made]


def names(driver: Any) -> list[str]:
    return [launch.image.name for launch in driver.launches]


def test_forward_and_backward_go_through_the_pack(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    out = kernels.attention(*tensors(3, 4, 37, 32, k=(3, 2, 53, 32)))
    out.sum().backward()
    assert [(launch.iface, launch.shape.grid) for launch in driver.launches] == [
        ("attn_fwd", (2, 4, 3)),
        ("bwd_preprocess", (1, 4, 3)),
        ("bwd_kernel_dk_dv", (2, 2, 3)),
        ("bwd_kernel_dq", (2, 4, 3)),
    ]
    assert names(driver)[:2] == [
        "attn_fwd-fp16-0-32-false-false-0-32-32-4-1-false",
        "bwd_preprocess-fp16-32-false-128-4",
    ]
    assert {(launch.stream, launch.shape.threads, launch.shape.shared) for launch in driver.launches} == {
        (1000, 4 * 64, 4096)
    }


def test_the_hooks_of_the_attention_function(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    out = kernels_of.attention(*tensors(1, 2, 65, 32), causal=True, choose=kernels.choose, launch=kernels.launch)
    out.sum().backward()
    assert [launch.iface for launch in driver.launches][-2:] == ["bwd_kernel_dk_dv", "bwd_kernel_dq"]
    assert names(driver)[0] == "attn_fwd-fp16-3-32-false-false-0-64-32-4-1-true"


def test_the_operators_table_chooses_the_backward(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    kernels.attention(*tensors(1, 2, 65, 32)).sum().backward()
    assert [(launch.iface, launch.shape.grid) for launch in driver.launches][2:] == [
        ("bwd_kernel_fuse", (2 * 2 + 5 * 2, 1, 1))
    ]
    driver.launches.clear()
    kernels.attention(*tensors(1, 2, 65, 32), fused_backward=False).sum().backward()
    assert [launch.iface for launch in driver.launches][2:] == ["bwd_kernel_dk_dv", "bwd_kernel_dq"]


def test_a_back_end_that_is_no_kernel_of_the_pack(opened: Callable[..., Any]) -> None:
    kernels, _ = opened()
    bias = torch.zeros(5, 5, dtype=torch.float16)
    out = kernels.attention(*tensors(1, 2, 5, 32), causal=True, bias=bias)
    with pytest.raises(LaunchFault, match="chooses assembly"):
        out.sum().backward()


def test_argument_bytes_of_the_forward(opened: Callable[..., Any]) -> None:
    """Each argument read through its pointer, against values worked out by hand."""
    kernels, driver = opened()
    q, k, v = tensors(3, 4, 37, 32, k=(3, 2, 53, 32))
    kernels.attention(q, k, v, window=(7, -2), bottom_right=True, sm_scale=-0.25, seed=-(2**40) - 1)
    (launch,) = driver.launches
    values = launch.values
    assert list(values)[:6] == ["Q", "K", "V", "Bias", "Out", "Lse"]
    assert (values["Q"], values["K"], values["V"]) == (q.data_ptr(), k.data_ptr(), v.data_ptr())
    assert values["Bias"] == q.data_ptr()
    assert "stride_bn" not in values
    expected = {
        "stride_qz": 4 * 37 * 32, "stride_qh": 37 * 32, "stride_qm": 32,
        "stride_kz": 2 * 53 * 32, "stride_kh": 53 * 32, "stride_kn": 32,
        "stride_bz": 0, "stride_bh": 0, "stride_bm": 0,
        "stride_oz": 4 * 37 * 32, "stride_oh": 37 * 32, "stride_om": 32, "stride_lz": 4 * 37, "stride_lh": 37,
        "num_seqlens": 0, "num_heads_q": 4, "num_heads_k": 2, "max_seqlen_q": 37, "max_seqlen_k": 53, "head_dim": 32,
        "sm_scale": -0.25, "dropout_p": 0.0, "seed": -(2**40) - 1, "window_left": 7, "window_right": -2,
        "bottom_right": 1, "global_scratch": 0, "profile_scratch": 0,
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected
    assert list(values)[-2:] == ["global_scratch", "profile_scratch"]


def test_argument_bytes_of_varlen_and_bias(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    q, k, v = tensors(20, 4, 32, k=(24, 2, 32))
    ends = torch.tensor([0, 9, 20], dtype=torch.int32), torch.tensor([0, 9, 24], dtype=torch.int32)
    given = {"cu_seqlens_q": ends[0], "cu_seqlens_k": ends[1], "max_seqlen_q": 11, "max_seqlen_k": 15}
    kernels.attention(q, k, v, **given)
    bias = torch.zeros(4, 5, 7, dtype=torch.float16)
    kernels.attention(*tensors(2, 4, 5, 32, k=(2, 4, 7, 32)), bias=bias)
    ragged, biased = driver.launches
    assert ragged.shape.grid == (1, 4, 2)
    assert (ragged.values["cu_seqlens_q"], ragged.values["num_seqlens"]) == (ends[0].data_ptr(), 2)
    assert [ragged.values[f"stride_q{axis}"] for axis in "zhm"] == [0, 32, 4 * 32]
    assert biased.values["Bias"] == bias.data_ptr()
    assert [biased.values[f"stride_b{axis}"] for axis in "zhm"] == [0, 5 * 7, 7]


def test_row_092_the_grid_is_that_of_the_image_that_stands_in(
    opened: Callable[..., Any], root: Path, tmp_path: Path
) -> None:
    """The tile of 64 queries could not be built: the tile of 32 is launched, with twice the workgroups."""

    def judge(plan: Any, wanted: Any) -> Any:
        return failed("crash") if plan.schema.iface == "attn_fwd" and wanted.config[0] == 64 else None

    kernels, driver = opened(pack_of(root, tmp_path / "replaced.pack", judge))
    kernels.attention(*tensors(1, 2, 130, 32))
    assert names(driver) == ["attn_fwd-fp16-0-32-false-false-0-32-32-4-1-false"]
    assert driver.launches[0].shape.grid == (5, 2, 1)


def test_scratch_and_local_memory(opened: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    own = pack_of(root, tmp_path / "needy.pack", lambda plan, wanted: needing(wanted, scratch=256, shared=100_000))
    kernels, driver = opened(own)
    kernels.attention(*tensors(1, 2, 130, 32))
    (launch,), (scratch,) = driver.launches, driver.scratches
    assert scratch.numel() == 256 * 3 * 2
    assert (launch.values["global_scratch"], launch.values["profile_scratch"]) == (scratch.data_ptr(), 0)
    assert (launch.shape.shared, driver.loads[0][2:]) == (100_000, ("attn_fwd", 100_000))


def test_images_are_loaded_once_a_device(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    for _ in range(2):
        kernels.attention(*tensors(1, 2, 5, 32))
        kernels.attention(*tensors(1, 2, 9, 32))
    assert [load[0] for load in driver.loads] == [0]
    driver.device = 1
    kernels.attention(*tensors(1, 2, 5, 32))
    assert [load[0] for load in driver.loads] == [0, 1]
    assert [launch.stream for launch in driver.launches] == [1000] * 4 + [1001]
    assert len(kernels.images) == 1


def test_nothing_is_launched_for_nothing(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    q, k, v = tensors(1, 2, 5, 32, k=(1, 2, 0, 32))
    kernels.attention(q, k, v).sum().backward()
    assert [launch.iface for launch in driver.launches] == ["attn_fwd", "bwd_preprocess", "bwd_kernel_dq"]


def test_launches_of_two_threads_do_not_share_memory(opened: Callable[..., Any]) -> None:
    """While the driver reads the arguments of one launch, another thread launches the same image."""
    kernels, driver = opened()

    def meanwhile() -> None:
        driver.during = lambda: None
        thread = threading.Thread(target=kernels.attention, args=tensors(1, 2, 9, 32))
        thread.start()
        thread.join()

    driver.during = meanwhile
    kernels.attention(*tensors(1, 2, 5, 32))
    assert [launch.values["max_seqlen_q"] for launch in driver.launches] == [9, 5]


def test_a_padded_head_dim_takes_the_config_of_the_unpadded_one(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    kernels.attention(*tensors(1, 2, 5, 24))
    assert names(driver) == ["attn_fwd-fp16-0-32-false-true-0-32-32-4-1-false"]
    assert driver.launches[0].values["head_dim"] == 24


def test_a_head_dim_that_is_no_multiple_of_8_is_padded_with_zeros(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    q, k, v = tensors(1, 2, 5, 20)
    out = kernels.attention(q, k, v)
    out.sum().backward()
    assert out.shape == q.shape
    assert q.grad.shape == q.shape
    forward = driver.launches[0].values
    assert (forward["head_dim"], forward["stride_qm"]) == (24, 24)
    assert forward["sm_scale"] == pytest.approx(20**-0.5)


def test_the_hooks_refuse_a_head_dim_that_is_no_multiple_of_8(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    q, k, v, out = (torch.zeros(1, 2, 5, 24, dtype=torch.float16)[..., :20] for _ in range(4))
    problem = kernels_of.Problem(1.0, max_seqlen_q=5, max_seqlen_k=5, choose=kernels.choose, launch=kernels.launch)
    with pytest.raises(Misaligned, match="head_dim is 20, which is no multiple of 8") as caught:
        kernels_of.forward(q, k, v, None, problem, out, kernels_of.row_sums(q))
    assert "pad the head dim with zeros" in str(caught.value)
    assert driver.launches == []


SHIFTED: dict[str, Callable[[Any], Any]] = {
    "an address": lambda q: torch.zeros(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape),
    "rows": lambda q: torch.zeros(*q.shape[:-1], 36, dtype=q.dtype)[..., :32],
    "one row far from nothing": lambda q: torch.zeros(500, dtype=q.dtype).as_strided(q.shape, (7, 4, 36, 1)),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_tensors_that_images_cannot_read(opened: Callable[..., Any], name: str) -> None:
    """The hooks refuse them and say what to do; `attention` copies them."""
    kernels, driver = opened()
    q, k, v = tensors(1, 2, 5, 32)
    other = SHIFTED[name](q)
    with pytest.raises(Misaligned, match="no multiple of") as caught:
        kernels_of.attention(other, k, v, choose=kernels.choose, launch=kernels.launch)
    assert "`Kernels.attention` copies" in str(caught.value)
    assert driver.launches == []
    kernels.attention(other, k, v)
    assert driver.launches[0].values["Q"] not in (0, other.data_ptr())


def test_gradients_that_images_cannot_read_are_copied(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    out = kernels.attention(*tensors(1, 2, 5, 32))
    gradient = torch.ones(1, 2, 5, 36, dtype=torch.float16)[..., :32]
    out.backward(gradient)
    preprocess = driver.launches[1].values
    assert preprocess["DOut"] != gradient.data_ptr()
    assert preprocess["stride_dom"] == 32


BIASES: dict[str, Callable[[], Any]] = {
    "one for all keys": lambda: torch.zeros(5, 1, dtype=torch.float16),
    "one for all": lambda: torch.zeros((), dtype=torch.float16),
    "turned": lambda: torch.zeros(7, 5, dtype=torch.float16).T,
    "at an odd address": lambda: torch.zeros(36, dtype=torch.float16)[1:].view(5, 7),
}


@pytest.mark.parametrize("name", BIASES)
def test_biases_whose_keys_do_not_follow_each_other(opened: Callable[..., Any], name: str) -> None:
    kernels, driver = opened()
    q, k, v = tensors(1, 2, 5, 32, k=(1, 2, 7, 32))
    bias = BIASES[name]()
    with pytest.raises(Misaligned):
        kernels_of.attention(q, k, v, bias=bias, choose=kernels.choose, launch=kernels.launch)
    kernels.attention(q, k, v, bias=bias)
    assert driver.launches[0].values["Bias"] % 16 == 0
    assert driver.launches[0].values["stride_bm"] in (0, 7)


def test_lengths_at_an_odd_address_are_copied(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    ends = torch.tensor([5, 0, 9, 20], dtype=torch.int32)[1:]
    given = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": 11, "max_seqlen_k": 11}
    kernels.attention(*tensors(20, 4, 32), **given)
    assert driver.launches[0].values["cu_seqlens_q"] % 16 == 0


def test_no_kernel_and_unsupported_are_different_faults(opened: Callable[..., Any]) -> None:
    kernels, _ = opened()
    bias = torch.zeros(65, 65, dtype=torch.float16)
    with pytest.raises(NoKernel, match=r"no config for .*BIAS_TYPE=1 at 65 x 65.*\n *tune the cell"):
        kernels.attention(*tensors(1, 2, 65, 32), bias=bias)
    with pytest.raises(Unsupported, match=r"do not support .*BLOCK_DMODEL=128"):
        kernels.attention(*tensors(1, 2, 5, 128))
    with pytest.raises(Unsupported, match="Q_dtype=bf16"):
        kernels.attention(*tensors(1, 2, 5, 32, dtype=torch.bfloat16))
    out = kernels.attention(*tensors(1, 2, 5, 64))
    with pytest.raises(Unsupported, match="bwd_kernel_dk_dv"):
        out.sum().backward()


def test_a_pack_without_an_interface(opened: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    kernels, _ = opened(pack_of(root, tmp_path / "forward.pack", ifaces=("attn_fwd",)))
    out = kernels.attention(*tensors(1, 2, 5, 32))
    with pytest.raises(FaultError, match="no image `bwd_preprocess-fp16-32-false-128-4`"):
        out.sum().backward()


def test_a_number_that_does_not_fit(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    with pytest.raises(LaunchFault, match="does not fit its type") as caught:
        kernels.attention(*tensors(1, 2, 5, 32), seed=2**63)
    assert f"seed={2**63}" in str(caught.value)
    assert driver.launches == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("global_scratch", "*i8", 1), ("profile_scratch", "*i8", 1), ("x", "fp8", 1)), "x: fp8"),
        ((("profile_scratch", "*i8", 1),), "no arguments for memory: global_scratch"),
        ((), "no arguments for memory: global_scratch, profile_scratch"),
    ],
)
def test_arguments_that_no_launch_passes(arguments: tuple[tuple[str, str, int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Arguments(Signature(arguments, ()))


def test_configs_of_somebody_else(opened: Callable[..., Any]) -> None:
    kernels, _ = opened()
    with pytest.raises(TypeError, match="that `choose` of the same kernels gives"):
        Kernels.launch(kernels, "attn_fwd", lambda config: (1, 1, 1), {}, {"BLOCK_M": 32}, {})


def test_a_device_of_another_arch(opened: Callable[..., Any]) -> None:
    kernels, driver = opened()
    driver.own_arch = "sm_80"
    with pytest.raises(LaunchFault, match="is of sm_80; the pack's images for sm_90 are for sm_90"):
        kernels.attention(*tensors(1, 2, 5, 32))
