"""One spec → one image, in this process. Only this module imports triton, and only the worker imports this module."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.errors import TritonError

from codegen.aot.measure import amd_resources, cuda_resources
from codegen.aot.result import COMPILE_ERROR, OK, OUT_OF_RESOURCES, Binary, Resources, Result
from codegen.aot.target import CUDA, HIP

# The reason stands at the end of what the compiler says.
MAX_DETAIL = 2000

# How the back ends tell that a kernel does not fit.
_TOO_LARGE = re.compile(
    r"out of resource|ran out of registers|local memory.*exceeds limit|uses too much shared data", re.IGNORECASE
)
# What the front end and the passes raise. Anything else ends the process, which is an answer as well.
_REFUSALS = (TritonError, RuntimeError, ValueError, TypeError, AssertionError)
_VERSION = re.compile(r"V(\d+(?:\.\d+)+)")


def compiler_id(backend: str, processor: str) -> str:
    """Names what turns sources into images for a target: `triton-3.9.0+llvm-…`, `triton-3.9.0+ptxas-13.1.80`."""
    backend_name = _backend_id(backend, processor)
    return f"triton-{triton.__version__}+{backend_name}"


def _backend_id(backend: str, processor: str) -> str:
    if backend == CUDA:
        version = import_module("triton.backends.nvidia.compiler").get_ptxas_version(int(processor))
        found = _VERSION.search(version)
        return f"ptxas-{found[1] if found else sha256(version.encode()).hexdigest()[:12]}"
    target = triton.compiler.make_backend(GPUTarget(backend, processor, 0))
    revision = str(target.hash()).partition("-")[2]
    return f"llvm-{revision[:12]}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome, and the image's bytes when it is `ok`."""

    result: Result
    data: bytes = b""


def compile_spec(spec: Mapping[str, Any]) -> Compiled:
    """Compile a spec, given as plain data. What the compiler refuses is a result; it may also end the process."""
    begin = time.perf_counter()
    try:
        data, binary = _compile(spec)
    except _REFUSALS as error:
        detail = f"{type(error).__name__}: {error}"
        status = OUT_OF_RESOURCES if _TOO_LARGE.search(detail) else COMPILE_ERROR
        return Compiled(Result(status, detail[-MAX_DETAIL:], _since(begin)))
    finally:
        shutil.rmtree(knobs.cache.dir, ignore_errors=True)
    return Compiled(Result(OK, "", _since(begin), binary), data)


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 3)


def _compile(spec: Mapping[str, Any]) -> tuple[bytes, Binary]:
    function = getattr(import_module(spec["module"]), spec["kernel"])
    target = GPUTarget(spec["target"]["backend"], *_processor(spec["target"]))
    kernel = triton.compile(_source(function, spec), target=target, options=dict(spec["options"]))
    metadata, data = kernel.metadata, kernel.kernel
    return data, Binary(
        digest=sha256(data).hexdigest(),
        size=len(data),
        symbol=metadata.name,
        warps=metadata.num_warps,
        wave=metadata.warp_size,
        scratch=metadata.global_scratch_size,
        resources=_MEASURES[target.backend](kernel),
    )


def _processor(target: Mapping[str, Any]) -> tuple[str | int, int]:
    name = target["processor"]
    return (int(name) if target["backend"] == CUDA else name), target["wave"]


def _source(function: Any, spec: Mapping[str, Any]) -> ASTSource:
    own = spec["interface"]
    constants = {**dict(spec["constants"]), **dict(own["fixed"])}
    types = {**dict(own["arguments"]), **dict.fromkeys(constants, "constexpr")}
    signature = {name: types[name] for name in function.arg_names}
    places = {name: place for place, name in enumerate(function.arg_names)}
    hints = {(places[name],): [["tt.divisibility", multiple]] for name, multiple in own["multiples"]}
    return ASTSource(function, signature, constants, hints)


def _amd(kernel: Any) -> Resources:
    return amd_resources(kernel.asm["amdgcn"], kernel.metadata.shared)


def _cuda(kernel: Any) -> Resources:
    return cuda_resources(knobs.nvidia.cuobjdump.path, kernel.kernel, kernel.metadata.shared)


_MEASURES: dict[str, Callable[[Any], Resources]] = {HIP: _amd, CUDA: _cuda}
