"""The calls of the two drivers, against libraries that record them. No device has seen these."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from codegen.runtime import DriverFault, LaunchFault, Shape  # noqa: E402 after the skip
from codegen.runtime.driver import TorchDevices  # noqa: E402
from codegen.runtime.hip import HipDriver  # noqa: E402

SHAPE = Shape((3, 4, 5), 128, 60_000)


class FakeCuda(ModuleType):
    """`cuda.bindings.driver`: every function answers an error code and its values, as that module does."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[Any, ...]] = []
        self.stack: list[int] = []
        self.error = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*given: Any) -> tuple[Any, ...]:
            self.calls.append((name, *given))
            return getattr(self, f"_{name}", lambda *_: (0,))(*given)

        return call

    def _cuDeviceGet(self, device: int) -> tuple[int, int]:
        return 0, device

    def _cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return 0, 0xC0 + device

    def _cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.stack[-1] if self.stack else 0

    def _cuCtxPushCurrent(self, context: int) -> tuple[int]:
        self.stack.append(context)
        return (0,)

    def _cuCtxPopCurrent(self) -> tuple[int, int]:
        return 0, self.stack.pop()

    def _cuModuleLoadData(self, image: bytes) -> tuple[int, str]:
        return self.error, f"module of {image.decode()} in {self.stack[-1]:#x}"

    def _cuModuleGetFunction(self, module: str, name: bytes) -> tuple[int, str]:
        return 0, f"{name.decode()} of {module}"

    def _cuLaunchKernel(self, *given: Any) -> tuple[int]:
        return (self.error if self.stack else 201,)

    def _cuGetErrorName(self, error: int) -> tuple[int, bytes]:
        return 0, f"CUDA_ERROR_{error}".encode()

    def _cuGetErrorString(self, error: int) -> tuple[int, bytes]:
        return 0, b"as a sentence"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake, package, bindings = FakeCuda(), ModuleType("cuda"), ModuleType("cuda.bindings")
    package.bindings, bindings.driver = bindings, fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    sys.modules.pop("codegen.runtime.cuda", None)
    yield fake
    sys.modules.pop("codegen.runtime.cuda", None)


def cuda_driver() -> Any:
    return import_module("codegen.runtime.cuda").CudaDriver()


def test_cuda_loads_in_the_context_of_the_device(cuda: FakeCuda) -> None:
    driver = cuda_driver()
    function = driver.load(1, b"cubin", "attn_fwd", 48 * 1024)
    assert function.handle == "attn_fwd of module of cubin in 0xc1"
    assert cuda.stack == []
    assert "cuFuncSetAttribute" not in [call[0] for call in cuda.calls]


def test_cuda_allows_more_local_memory_than_48_kb(cuda: FakeCuda) -> None:
    driver = cuda_driver()
    handle = driver.load(0, b"cubin", "attn_fwd", 48 * 1024 + 1).handle
    assert ("cuFuncSetAttribute", handle, 8, 48 * 1024 + 1) in cuda.calls


def test_cuda_launches_where_the_context_is_current_or_makes_it_so(cuda: FakeCuda) -> None:
    driver = cuda_driver()
    function = driver.load(1, b"cubin", "attn_fwd", 60_000)
    launch = ("cuLaunchKernel", function.handle, 3, 4, 5, 128, 1, 1, 60_000, 77, 0xABC, 0)
    for stack, switches in ([0xC1], 0), ([], 1), ([0xC0], 1):
        cuda.calls.clear()
        cuda.stack[:] = stack
        driver.launch(function, SHAPE, 77, 0xABC)
        called = [call[0] for call in cuda.calls]
        assert launch in cuda.calls
        assert [called.count("cuCtxPushCurrent"), called.count("cuCtxPopCurrent")] == [switches] * 2
        assert cuda.stack == stack


def test_what_cuda_refuses_is_told_in_its_words(cuda: FakeCuda) -> None:
    driver = cuda_driver()
    function = driver.load(0, b"cubin", "attn_fwd", 0)
    cuda.error = 209
    with pytest.raises(DriverFault, match=r"cuModuleLoadData of attn_fwd.*CUDA_ERROR_209 as a sentence"):
        driver.load(0, b"cubin", "attn_fwd", 0)
    assert cuda.stack == []
    with pytest.raises(DriverFault, match=r"cuLaunchKernel of Shape\(grid=\(3, 4, 5\).*CUDA_ERROR_209"):
        driver.launch(function, SHAPE, 0, 0)


class FakeHip:
    """The HIP runtime: writes through the pointers that it is given, as that library does."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.device = 0
        self.error = 0
        self.hipGetErrorString = _ErrorString()

    def hipGetDevice(self, device: Any) -> int:
        device._obj.value = self.device
        return 0

    def hipSetDevice(self, device: ctypes.c_int) -> int:
        self.device = device.value
        return 0

    def hipModuleLoadData(self, module: Any, image: bytes) -> int:
        self.calls.append(("load", image, self.device))
        module._obj.value = 0x111
        return self.error

    def hipModuleGetFunction(self, function: Any, module: ctypes.c_void_p, name: bytes) -> int:
        self.calls.append(("get", module.value, name))
        function._obj.value = 0x222
        return 0

    def hipModuleLaunchKernel(self, function: ctypes.c_void_p, *given: Any) -> int:
        self.calls.append(("launch", function.value, *[item and item.value for item in given], self.device))
        return self.error


class _ErrorString:
    restype: Any = None

    def __call__(self, error: ctypes.c_int) -> bytes:
        return b"as a sentence"


def test_hip_loads_and_launches_on_the_device() -> None:
    hip = FakeHip()
    driver = HipDriver(hip)
    function = driver.load(1, b"hsaco", "attn_fwd", 60_000)
    driver.launch(function, SHAPE, 77, 0xABC)
    assert hip.calls == [
        ("load", b"hsaco", 1),
        ("get", 0x111, b"attn_fwd"),
        ("launch", 0x222, 3, 4, 5, 128, 1, 1, 60_000, 77, 0xABC, None, 1),
    ]
    assert hip.device == 0


def test_what_hip_refuses_is_told_in_its_words() -> None:
    hip = FakeHip()
    hip.error = 209
    with pytest.raises(DriverFault, match="hipModuleLoadData: error: the HIP driver answers 209 as a sentence"):
        HipDriver(hip).load(1, b"hsaco", "attn_fwd", 0)
    assert hip.device == 0


def test_tensors_must_lie_on_one_gpu() -> None:
    with pytest.raises(LaunchFault, match="the tensors of a launch lie on cpu"):
        TorchDevices().place([torch.zeros(1)])
    with pytest.raises(LaunchFault, match="lie on cpu, meta"):
        TorchDevices().place([torch.zeros(1), torch.zeros(1, device="meta")])


def test_archs_as_pytorch_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert TorchDevices().arch(0) == "sm_90"
    monkeypatch.setattr(torch.version, "hip", "7.0")
    properties = SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert TorchDevices().arch(0) == "gfx942"
