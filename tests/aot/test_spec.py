"""Targets, argument types and what makes two images one. Nothing is compiled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen.aot.abi import interface
from codegen.aot.sources import Sources
from codegen.aot.spec import Spec, make_spec
from codegen.aot.target import Target, target_of
from txtdb.model.archs import Arch

KEYS = {
    "Q_dtype": "bf16", "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 32, "ENABLE_DROPOUT": False, "PADDED_HEAD": False,
    "BIAS_TYPE": 0,
}  # fmt: skip
CONFIG = {"BLOCK_M": 32, "BLOCK_N": 32, "PRE_LOAD_V": False, "waves_per_eu": 2, "num_warps": 4, "num_stages": 1}
IFACES = ("attn_fwd", "bwd_preprocess", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
GFX942, SM_90 = Target("hip", "gfx942", 64), Target("cuda", "90", 32)


@pytest.fixture(scope="module")
def kernels() -> Sources:
    return Sources()


def spec(kernels: Sources, target: Target = GFX942, keys: dict = KEYS, **config) -> Spec:
    made = make_spec(kernels, "attn_fwd", keys, {**CONFIG, **config}, target)
    assert isinstance(made, Spec), made
    return made


@pytest.mark.parametrize(
    ("arch", "target"),
    [
        ("gfx90a", Target("hip", "gfx90a", 64)),
        ("gfx942", GFX942),
        ("gfx942_mod1", GFX942),
        ("gfx950", Target("hip", "gfx950", 64)),
        ("gfx1100", Target("hip", "gfx1100", 32)),
        ("gfx1250", Target("hip", "gfx1250", 32)),
        ("sm_90", SM_90),
        ("sm_120", Target("cuda", "120", 32)),
        ("gfxA", None),
        ("cpu", None),
    ],
)
def test_targets(arch: str, target: Target | None) -> None:
    assert target_of(Arch(arch)) == target


def test_a_stated_wave_size_counts() -> None:
    assert target_of(Arch("gfx1100", wave_size=64)) == Target("hip", "gfx1100", 64)


@pytest.mark.parametrize("iface", IFACES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_argument_of_every_kernel_has_a_type(kernels: Sources, iface: str, dtype: str) -> None:
    own = interface(kernels.kernels[iface], dtype)
    assert not isinstance(own, str), own
    types = dict(own.arguments)
    kernel = kernels.kernels[iface]
    assert [*types] == [n for n in kernel.arguments if n not in kernel.constants and n not in dict(own.fixed)]
    assert {kind for name, kind in types.items() if name in ("Q", "K", "V", "Out", "DOut")} == {f"*{dtype}"}
    assert {types[name] for name in ("Lse", "Delta") if name in types} == {"*fp32"}


def test_the_interface_of_the_forward_kernel(kernels: Sources) -> None:
    own = interface(kernels.kernels["attn_fwd"], "fp16")
    assert not isinstance(own, str)
    types, multiples = dict(own.arguments), dict(own.multiples)
    assert [types[name] for name in ("stride_qz", "stride_qm", "cu_seqlens_q", "sm_scale", "seed", "head_dim")] == [
        "i64", "i32", "*i32", "fp32", "i64", "i32",
    ]  # fmt: skip
    promised = {name: multiples.get(name) for name in ("Q", "Lse", "stride_qz", "stride_om", "head_dim", "stride_bm")}
    assert promised == {"Q": 16, "Lse": 16, "stride_qz": 8, "stride_om": 8, "head_dim": 8, "stride_bm": None}
    assert own.fixed == (("stride_bn", 1),)


def test_what_does_not_fit_a_kernel_is_said(kernels: Sources) -> None:
    known = "attn_fwd, bwd_kernel_dk_dv, bwd_kernel_dq, bwd_kernel_fuse, bwd_preprocess"
    where = "codegen.kernels, whose kernels alone are compiled"
    message = f"there is no kernel `nothing` in {where}; there are {known}"
    assert make_spec(kernels, "nothing", KEYS, CONFIG, GFX942) == message
    for keys, config, message in (
        ({**KEYS, "Q_dtype": "fp8"}, CONFIG, "data type `fp8`"),
        ({k: v for k, v in KEYS.items() if k != "Q_dtype"}, CONFIG, "data type `None`"),
        ({k: v for k, v in KEYS.items() if k != "BIAS_TYPE"}, CONFIG, "nothing gives a value to BIAS_TYPE"),
        ({**KEYS, "USE_FP8": True}, CONFIG, "`USE_FP8`"),
        (KEYS, {**CONFIG, "BLOCK_K": 3}, "`BLOCK_K`"),
        ({**KEYS, "num_warps": 4}, {k: v for k, v in CONFIG.items() if k != "num_warps"}, "`num_warps`"),
    ):
        made = make_spec(kernels, "attn_fwd", keys, config, GFX942)
        assert isinstance(made, str), message
        assert message in made


def test_an_argument_without_a_rule_is_said(tmp_path) -> None:
    (tmp_path / "one.py").write_text("@triton.jit\ndef one(Q, mystery, A: tl.constexpr):\n    pass\n")
    kernels = Sources(tmp_path)
    assert interface(kernels.kernels["one"], "bf16") == "no rule gives a type to mystery"


def test_everything_that_determines_an_image_is_in_its_key(kernels: Sources) -> None:
    one = spec(kernels)
    variants = [
        spec(kernels, SM_90),
        spec(kernels, Target("hip", "gfx950", 64)),
        spec(kernels, keys={**KEYS, "Q_dtype": "fp16"}),
        spec(kernels, keys={**KEYS, "CAUSAL_TYPE": 3}),
        spec(kernels, BLOCK_M=64),
        spec(kernels, num_warps=2),
        spec(kernels, waves_per_eu=0),
        replace(one, source="0" * 16),
        replace(one, interface=replace(one.interface, multiples=())),
        replace(one, arguments=one.arguments[::-1]),
    ]
    keys = {own.key("c") for own in (one, *variants)} | {one.key("d")}
    assert len(keys) == len(variants) + 2
    assert spec(kernels).key("c") == one.key("c")


def test_bool_and_int_constants_are_two(kernels: Sources) -> None:
    assert spec(kernels, PRE_LOAD_V=False).key("c") != spec(kernels, PRE_LOAD_V=0).key("c")


def test_options_of_the_other_back_end_change_nothing(kernels: Sources) -> None:
    assert spec(kernels, SM_90, waves_per_eu=1) == spec(kernels, SM_90, waves_per_eu=2)
    assert spec(kernels, GFX942, waves_per_eu=1) != spec(kernels, GFX942, waves_per_eu=2)
    assert dict(spec(kernels).options)["enable_fp_fusion"] is True


def test_a_default_of_the_kernel_may_be_left_out(tmp_path) -> None:
    text = "@triton.jit\ndef attn_fwd(Q, A: tl.constexpr, B: tl.constexpr = 0):\n    pass\n"
    (tmp_path / "one.py").write_text(text)
    kernels = Sources(tmp_path)
    left_out = make_spec(kernels, "attn_fwd", {"Q_dtype": "bf16", "A": 1}, {}, GFX942)
    given = make_spec(kernels, "attn_fwd", {"Q_dtype": "bf16", "A": 1}, {"B": 0}, GFX942)
    other = make_spec(kernels, "attn_fwd", {"Q_dtype": "bf16", "A": 1}, {"B": 1}, GFX942)
    assert left_out == given != other
