"""Images of the real compiler: what they take is what a launch passes. Nothing runs them here."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from codegen.aot.build import Workshop, build  # noqa: E402 after the skip
from codegen.aot.folder import BuildFolder  # noqa: E402
from codegen.aot.pack_writing import pack_manifest, write_pack  # noqa: E402
from codegen.runtime import open_kernels  # noqa: E402
from tests.aot.tiny import plans_of  # noqa: E402
from tests.runtime.small import RecordingDriver, make_root, recorded, tables_of  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: nothing can be compiled"),
]

# Of a cubin's section .nv.info.<kernel>: records (format, attribute, size or value); this one tells of a parameter.
_PARAMETER = (0x04, 0x17)
_BYTES = {"i32": 4, "i64": 8, "fp32": 4}


def sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each section of an ELF file of 64 bits."""
    start, size, count, names = *struct.unpack_from("<Q", cubin, 0x28), *struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + number * size) for number in range(count)]
    texts = headers[names][4]
    for name, _, _, _, offset, length in headers:
        yield cubin[texts + name : cubin.index(b"\0", texts + name)].decode(), cubin[offset : offset + length]


def parameters(cubin: bytes, symbol: str) -> list[int]:
    """The sizes of a kernel's parameters in bytes, in their order."""
    data = dict(sections(cubin))[f".nv.info.{symbol}"]
    found, at = {}, 0
    while at < len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if (kind, attribute) == _PARAMETER:
            _, ordinal, _, packed = struct.unpack_from("<IHHI", data, at)
            found[ordinal] = packed >> 18
        at += value if kind == 0x04 else 0
    return [found[ordinal] for ordinal in sorted(found)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, RecordingDriver]:
    """The images that one small call, forward and backward, asks for."""
    folder = tmp_path_factory.mktemp("compiled")
    root = make_root(folder)
    database, plans = plans_of(root)
    wanted = {
        "attn_fwd": "attn_fwd-fp16-3-32-false-true-0-32-32-4-1-false",
        "bwd_preprocess": "bwd_preprocess-fp16-32-true-128-4",
        "bwd_kernel_dk_dv": "bwd_kernel_dk_dv-fp16-3-32-false-true-0-32-32-4-1",
        "bwd_kernel_dq": "bwd_kernel_dq-fp16-3-32-false-true-0-32-32-4-1",
    }
    chosen = [_only(plan, wanted[plan.schema.iface]) for plan in plans if plan.schema.iface in wanted]
    build_folder = BuildFolder(folder / "build")
    done = build(chosen, database.archs, Workshop(build_folder, jobs=2))
    assert done.faults == ()
    write_pack(folder / "real.pack", pack_manifest(done.tables, done.compilation), build_folder)
    driver = RecordingDriver()
    return recorded(
        open_kernels(folder / "real.pack", tables_of(root, folder / "tables"), "sm_90", driver), driver
    ), driver


def _only(plan: Any, name: str) -> Any:
    return replace(plan, wanted=tuple(wanted for wanted in plan.wanted if wanted.name == name))


def test_images_take_what_a_launch_passes(compiled: tuple[Any, RecordingDriver]) -> None:
    """The compiler's own record of each parameter's size, beside the manifest's types."""
    kernels, driver = compiled
    inputs = [torch.zeros(1, 2, 5, 24, dtype=torch.float16).requires_grad_() for _ in range(3)]
    kernels.attention(*inputs, causal=True).sum().backward()
    assert [launch.iface for launch in driver.launches] == [
        "attn_fwd", "bwd_preprocess", "bwd_kernel_dk_dv", "bwd_kernel_dq",
    ]  # fmt: skip
    for launch, (_, cubin, symbol, shared) in zip(driver.launches, driver.loads, strict=True):
        assert symbol == launch.iface
        assert shared == launch.image.binary.resources.shared
        assert launch.shape.threads == 32 * 4
        passed = [_BYTES.get(kind, 8) for _, kind, _ in launch.image.signature.arguments]
        assert parameters(cubin, symbol) == passed
        assert list(launch.values)[-2:] == ["global_scratch", "profile_scratch"]
