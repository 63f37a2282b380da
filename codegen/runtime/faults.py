"""What forbids a launch, each with what to do about it."""

from __future__ import annotations

from txtdb.faults import Fault, FaultError, Span


class LaunchFault(FaultError):
    """A launch that cannot be made; `faults` has one element."""

    def __init__(self, rule: str, where: str, message: str, hint: str = "") -> None:
        super().__init__([Fault(rule, Span(where), message, hint)])


class Unsupported(LaunchFault):
    """The tables declare the problem unsupported: another implementation has to take it."""


class NoKernel(LaunchFault):
    """The problem is supported, but its cell has no config."""


class Misaligned(LaunchFault):
    """A tensor or a size breaks a promise that images rely on."""


class DriverFault(LaunchFault):
    """The driver refused an image or a launch."""
