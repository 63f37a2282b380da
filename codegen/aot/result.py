"""What became of one image: compiled, with what it needs of a device, or not, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from codegen.aot.target import MAX_THREADS

OK = "ok"
COMPILE_ERROR = "compile_error"
OUT_OF_RESOURCES = "out_of_resources"
TIMEOUT = "timeout"
CRASH = "crash"
STATUSES = (OK, COMPILE_ERROR, OUT_OF_RESOURCES, TIMEOUT, CRASH)

# What a time limit or a lost process says of an image need not hold for the next run.
REPEATED = frozenset({TIMEOUT, CRASH})


@dataclass(frozen=True, slots=True)
class Resources:
    """What an image needs, as the compiler states it.

    `registers` per lane: vector registers, accumulation registers included; `sgprs` per wave, None on NVIDIA. `spills`
    are registers kept in memory, `sgpr_spills` scalar ones kept in vector registers (None on NVIDIA). `shared` is the
    local memory of a workgroup in bytes. `occupancy` is the number of waves of a SIMD (warps of a scheduler) that the
    registers leave room for; local memory may leave less.
    """

    registers: int
    sgprs: int | None
    spills: int
    sgpr_spills: int | None
    shared: int
    occupancy: int


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled image. `digest` is the SHA-256 of its bytes; `scratch` the global memory that a launch provides per
    workgroup, in bytes.
    """

    digest: str
    size: int
    symbol: str
    warps: int
    wave: int
    scratch: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class Result:
    """`binary` is what came out of the compiler, if anything; `detail` says what went wrong. `seconds` of compiling."""

    status: str
    detail: str
    seconds: float
    binary: Binary | None = None

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def result_from(data: Mapping[str, Any]) -> Result:
    """The result that `Result.json` gave. Raises KeyError, TypeError or ValueError for anything else."""
    given = data["binary"]
    if (data["status"] == OK) is (given is None) or data["status"] not in STATUSES:
        raise ValueError("a result is ok and has a binary, or neither")
    binary = binary_from(given) if given else None
    return Result(data["status"], str(data["detail"]), float(data["seconds"]), binary)


def binary_from(data: Mapping[str, Any]) -> Binary:
    """The binary out of plain data. Raises as `result_from` does."""
    return Binary(
        digest=str(data["digest"]),
        size=_number(data["size"]),
        symbol=str(data["symbol"]),
        warps=_number(data["warps"]),
        wave=_number(data["wave"]),
        scratch=_number(data["scratch"]),
        resources=resources_from(data["resources"]),
    )


def resources_from(data: Mapping[str, Any]) -> Resources:
    """The resources out of plain data. Raises as `result_from` does."""
    return Resources(
        registers=_number(data["registers"]),
        sgprs=_optional(data["sgprs"]),
        spills=_number(data["spills"]),
        sgpr_spills=_optional(data["sgpr_spills"]),
        shared=_number(data["shared"]),
        occupancy=_number(data["occupancy"]),
    )


def _optional(value: object) -> int | None:
    return None if value is None else _number(value)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number")
    return value


def judged(result: Result, lds_bytes: int | None) -> Result:
    """A compiled image that no device of its arch can launch is `out_of_resources`; it keeps its `binary`."""
    if result.binary is None:
        return result
    shared, threads = result.binary.resources.shared, result.binary.warps * result.binary.wave
    reason = ""
    if lds_bytes is not None and shared > lds_bytes:
        reason = f"{shared} bytes of local memory; the arch has {lds_bytes}"
    elif threads > MAX_THREADS:
        reason = f"{threads} threads; a workgroup has at most {MAX_THREADS}"
    return replace(result, status=OUT_OF_RESOURCES, detail=reason) if reason else result
