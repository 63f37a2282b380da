"""What compilers and drivers of GPUs say, turned into what becomes of a candidate."""

from __future__ import annotations

from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault

# Registers, shared memory, threads or device memory do not suffice.
_SHORTAGES = (
    "out of resource",
    "out of memory",
    "register allocation failed",
    "too much shared data",
    "too many resources",
)
# After these the context of the process answers nothing but errors.
_LOST = (
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "unspecified launch failure",
    "device-side assert",
    "invalid address space",
    "invalid program counter",
    "hardware stack error",
    "launch timed out",
    "uncorrectable ecc error",
)
# Of a long message the end tells what is wrong, the begin which error it is.
_BEGIN, _END = 100, 200


class DeviceLost(SystemExit):
    """A candidate left the device's context unusable. It ends the process, which costs that candidate alone."""


def fault_of(error: Exception, otherwise: Status) -> CandidateFault:
    """The fault that an error of a compiler or driver means. Raises DeviceLost when the process has to end."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    detail = text if len(text) <= _BEGIN + _END else f"{text[:_BEGIN]} … {text[-_END:]}"
    if any(sign in text.lower() for sign in _LOST):
        raise DeviceLost(detail) from error
    short = any(sign in text.lower() for sign in _SHORTAGES)
    return CandidateFault(Status.OUT_OF_RESOURCES if short else otherwise, detail)
