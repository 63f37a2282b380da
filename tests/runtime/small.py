"""A database of all five kernels and the operator of the backward on sm_90, and a driver that records.

Two tiles of queries by two of keys, up to 64 and up to 1024. `attn_fwd` takes tiles `a` up to 64 queries and `b` above;
with a bias its last cell is empty. The backward is split up to 64 queries and fused above, and knows no head dim 64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from codegen.aot.folder import BuildFolder
from codegen.aot.pack_manifest import PackedImage, Signature
from codegen.aot.pack_writing import pack_manifest, write_pack
from codegen.aot.plan import TablePlan, Wanted
from codegen.aot.result import OK, Result
from codegen.runtime import Kernels, Shape
from tests.aot.tiny import fake, fake_tables, plans_of
from tests.build import write_files
from tests.codegen.tools import generated

KEYS = "Q_dtype CAUSAL_TYPE BLOCK_DMODEL ENABLE_DROPOUT PADDED_HEAD BIAS_TYPE"
PLAIN, BIASED, WIDE = "fp16 0 32 false false 0", "fp16 0 32 false false 1", "fp16 0 64 false false 0"
CAUSAL = "fp16 3 32 false false 0"
ARCHS = """\
[arch.sm_90]
aliases = ["H200"]
wave_size = 32
lds_bytes = 232448
[arch.sm_80]
[arch.gfx942]
wave_size = 64
lds_bytes = 65536
"""

_AXES = "".join(f'[[axis]]\nname = "Max_seqlen_{letter}"\nbins = [64, 1024]\n' for letter in "qk")


def _key(name: str, kind: str, rest: str) -> str:
    return f'[[key]]\nname = "{name}"\ntype = "{kind}"\n{rest}'


def _field(name: str, kind: str = "int") -> str:
    return f'[[config]]\nname = "{name}"\ntype = "{kind}"\n'


def _keys(widths: str, biases: str = "[0, 1]") -> str:
    return (
        _key("Q_dtype", "enum", 'values = ["fp16"]\n')
        + _key("CAUSAL_TYPE", "int", "values = [0, 3]\n")
        + _key("BLOCK_DMODEL", "int", f"values = {widths}\n")
        + _key("ENABLE_DROPOUT", "bool", "")
        + _key("PADDED_HEAD", "bool", "fallback = false\n")
        + _key("BIAS_TYPE", "int", f"values = {biases}\n")
    )


def _schema(iface: str, widths: str, fields: str, arch: str, domain: str) -> str:
    kind = "operator" if iface.startswith("op_") else "kernel"
    return f'iface = "{iface}"\nkind = "{kind}"\n{_keys(widths)}{_AXES}{fields}[arch.{arch}]\n{domain}'


_TILES = "".join(map(_field, ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")))
_DOMAIN = "domain.ENABLE_DROPOUT = [false]\n"
_BACK_ENDS = """\
[[backend]]
name = "triton_split"
launches = ["bwd_kernel_dk_dv", "bwd_kernel_dq"]
[[backend]]
name = "triton_fused"
launches = ["bwd_kernel_fuse"]
[[backend]]
name = "assembly"
"""
_PREPROCESS = (
    'iface = "bwd_preprocess"\nkind = "fixed"\n'
    + _key("Q_dtype", "enum", 'values = ["fp16"]\n')
    + _key("BLOCK_DMODEL", "int", "values = [32, 64]\n")
    + _key("PADDED_HEAD", "bool", "")
    + _field("BLOCK_M")
    + _field("num_warps")
    + "[fixed_config]\nBLOCK_M = 128\nnum_warps = 4\n"
)


def _table(arch: str, iface: str, fields: str, palette: Mapping[str, str], blocks: Mapping[str, list[str]]) -> str:
    head = ["#! txtdb 1", f"#! iface {iface}", f"#! arch {arch}", f"#! key {KEYS}"]
    head += ["#! axis Max_seqlen_q 64 1024", "#! axis Max_seqlen_k 64 1024", f"#! config {fields}", ""]
    lines = [f"{symbol} = {config}" for symbol, config in palette.items()]
    for functional, rows in blocks.items():
        lines += ["", f"[{functional}]", *rows]
    return "\n".join([*head, *lines, "#! end"]) + "\n"


def make_root(folder: Path, arch: str = "sm_90", tile: int = 32) -> Path:
    """The database; `tile` is the smaller tile of queries of the forward."""
    backward = [PLAIN, CAUSAL, BIASED, CAUSAL[:-1] + "1"]
    rows = ["64 a*2", "1024 b*2"]
    fields = "BLOCK_M BLOCK_N num_warps num_stages"
    forward = {PLAIN: rows, CAUSAL: rows, BIASED: ["64 a*2", "1024 b ."], CAUSAL[:-1] + "1": rows, WIDE: rows}
    forward |= {"fp16 3 64 false false 0": rows, "fp16 0 64 false false 1": rows, "fp16 3 64 false false 1": rows}
    files: dict[str, str | None] = {
        "archs.toml": ARCHS,
        "schema/attn_fwd.toml": _schema("attn_fwd", "[32, 64]", _TILES + _field("PRE_LOAD_V", "bool"), arch, _DOMAIN),
        "schema/bwd_preprocess.toml": f"{_PREPROCESS}[arch.{arch}]\n",
        f"{arch}/attn_fwd.txtdb": _table(
            arch, "attn_fwd", f"{fields} PRE_LOAD_V",
            {"a": f"{tile} 32 4 1 false", "b": "64 32 4 1 true"}, forward,
        ),
        f"{arch}/op_attn_bwd.txtdb": _table(
            arch, "op_attn_bwd", "backend", {"s": "triton_split", "f": "triton_fused", "x": "assembly"},
            {name: ["64 s*2", "1024 f*2"] for name in backward[:3]} | {backward[3]: ["64-1024 x*2"]},
        ),
    }  # fmt: skip
    files["schema/op_attn_bwd.toml"] = _schema("op_attn_bwd", "[32]", _BACK_ENDS, arch, _DOMAIN)
    for iface in ("bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse"):
        files[f"schema/{iface}.toml"] = _schema(iface, "[32]", _TILES, arch, _DOMAIN)
        files[f"{arch}/{iface}.txtdb"] = _table(
            arch, iface, fields, {"a": "32 32 4 1", "b": "16 64 4 2"}, dict.fromkeys(backward, rows)
        )
    return write_files(folder / "db", files)


def tables_of(root: Path, folder: Path) -> Path:
    """The generated Python tables."""
    return generated(root, folder, on_hole="none") / "python"


Judge = Callable[[TablePlan, Wanted], Result | None]


def pack_of(root: Path, path: Path, judge: Judge = lambda plan, wanted: None, ifaces: tuple[str, ...] = ()) -> Path:
    """A pack of images that nobody compiled."""
    plans = [plan for plan in plans_of(root)[1] if plan.schema.iface in ifaces or not ifaces]
    folder = BuildFolder(path.parent / "build")
    write_pack(path, pack_manifest(*fake_tables(plans, folder, judge)), folder)
    return path


def needing(wanted: Wanted, scratch: int, shared: int) -> Result:
    """An image that needs global scratch memory a workgroup, and local memory."""
    result = fake(wanted, shared=shared)[0]
    assert result.binary is not None
    return Result(OK, "", 1.0, replace(result.binary, scratch=scratch))


@dataclass(frozen=True)
class Launch:
    """What a driver was asked to do. `values` are the arguments by name, read as the image reads them."""

    iface: str
    image: PackedImage
    shape: Shape
    stream: int
    values: dict[str, Any]


class RecordingDriver:
    """Launches nothing: it proves what is asked of a driver, not what a device makes of it."""

    def __init__(self, arch: str = "sm_90") -> None:
        self.device, self.own_arch = 0, arch
        self.now: tuple[str, PackedImage]
        self.loads: list[tuple[int, bytes, str, int]] = []
        self.launches: list[Launch] = []
        self.scratches: list[Any] = []
        self.during: Callable[[], None] = lambda: None

    def place(self, tensors: Any) -> tuple[int, int]:
        return self.device, 1000 + self.device

    def arch(self, device: int) -> str:
        return self.own_arch

    def scratch(self, device: int, size: int) -> Any:
        self.scratches.append(torch.empty(size, dtype=torch.int8))
        return self.scratches[-1]

    def load(self, device: int, image: bytes, symbol: str, shared: int) -> tuple[int, bytes]:
        self.loads.append((device, image, symbol, shared))
        return device, image

    def launch(self, function: tuple[int, bytes], shape: Shape, stream: int, pointers: int) -> None:
        iface, image = self.now
        self.during()
        self.launches.append(Launch(iface, image, shape, stream, read_arguments(pointers, image.signature)))


TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float}


def read_arguments(pointers: int, signature: Signature) -> dict[str, Any]:
    """The values behind an array of addresses, each read as its own C type."""
    addresses = (ctypes.c_uint64 * len(signature.arguments)).from_address(pointers)
    arguments = zip(addresses, signature.arguments, strict=True)
    return {name: TYPES.get(kind, ctypes.c_uint64).from_address(where).value for where, (name, kind, _) in arguments}


def recorded(kernels: Kernels, driver: RecordingDriver) -> Kernels:
    """The same kernels, which tell the driver what they launch."""
    launch = kernels.launch

    def telling(iface: str, grid: Any, functional: Any, config: Any, arguments: Any) -> None:
        driver.now = iface, config.loadable.image
        launch(iface, grid, functional, config, arguments)

    kernels.launch = telling  # type: ignore[method-assign]
    return kernels
