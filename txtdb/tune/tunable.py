"""What the tuner asks of a family of kernels, and how it finds one: the entry-point group `txtdb.tunables`.

An entry point is named after its interface and loads a `Tunable`, or a function without arguments that makes one.
Tensors are those of whatever library launches the kernels; here they pass through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from txtdb.evidence.policy import Policy
from txtdb.faults import Span
from txtdb.model.values import Value
from txtdb.tune.device import Config, Task
from txtdb.tune.tunable_faults import VALUES, TunableFault, asked, lacks_own_need, not_loaded

TUNABLES_GROUP = "txtdb.tunables"


@dataclass(frozen=True)
class Problem:
    """One problem of a task: its sizes by name (batch, heads, sequence lengths …), and the seed of its inputs."""

    sizes: Mapping[str, int]
    seed: int = 0


Arguments = Mapping[str, Any]


class Tunable(Protocol):
    """The kernels of one interface.

    A candidate is called with the arguments of a problem. Before each call, timed or not, the device restores those
    arguments that `restored` names to what `arguments` gave, and fills those that `zeroed` names with zeros: the one is
    for kernels that work in place, the other for those that add to their results.
    """

    @property
    def iface(self) -> str:
        """The interface that it tunes."""

    @property
    def asks(self) -> Sequence[str]:
        """Keys, axes and config fields that the schema must have: tasks and candidates are read by these names."""

    @property
    def restored(self) -> Sequence[str]:
        """Arguments that the kernel changes and reads."""

    @property
    def zeroed(self) -> Sequence[str]:
        """Arguments that the kernel adds to."""

    def policy(self, usual: Policy) -> Policy:
        """By what numbers the kernels are tuned: the usual ones, with fields replaced (`dataclasses.replace`)."""

    def source(self) -> str:
        """The digest of the kernels' source: `sha256:` and hexadecimal digits."""

    def functional_source(self, values: Mapping[str, Value]) -> str:
        """The digest of what one functional compiles; `values` are its keys, fixed keys and derived fields by name.

        It differs only where an edit changes what is compiled for the functional.
        """

    def narrow(self, task: Task, configs: Sequence[Config]) -> Sequence[Config]:
        """The candidates of a task, out of all that the schema admits; depends on neither order nor device."""

    def timing_problem(self, task: Task, fill: int) -> Problem:
        """The problem that a task is timed with: batch × heads × rows is about `fill`, so that the device is full."""

    def accuracy_problems(self, task: Task) -> Sequence[Problem]:
        """Several small problems of a task, odd sizes and those at the edges of its bin among them."""

    def confirmation_problems(self, task: Task) -> Sequence[Problem]:
        """The problems that a candidate is checked with again before its cell is decided for it.

        The sizes of `task` are no bins here, but any of the bin of a cell. The problems are others than those of
        `accuracy_problems`, and as long as the sizes are, as far as a reference can be afforded.
        """

    def arguments(self, task: Task, problem: Problem) -> Arguments:
        """The arguments of a problem on the current device, results included, by name; equal for equal problems."""

    def compile(self, task: Task, config: Config) -> None:
        """Compile a candidate for the current device into the compiler's cache, without running it."""

    def call(self, task: Task, config: Config, arguments: Arguments) -> None:
        """Launch a candidate once, without waiting for it."""

    def results(self, arguments: Arguments) -> Mapping[str, Any]:
        """Those of the arguments that hold results after a call."""

    def reference(self, task: Task, problem: Problem, arguments: Arguments) -> Mapping[str, Any]:
        """The right results for arguments as `arguments` gave them, computed in a higher precision."""

    def tolerance(self, task: Task, problem: Problem, name: str) -> float:
        """The largest allowed absolute difference of a result from its reference."""


_METHODS = (
    "policy",
    "source",
    "functional_source",
    "narrow",
    "timing_problem",
    "accuracy_problems",
    "confirmation_problems",
    "arguments",
    "compile",
    "call",
    "results",
    "reference",
    "tolerance",
)


def find_tunable(iface: str) -> Tunable | None:
    """The tunable of an interface; None where no package brings one.

    Raises TunableFault when what a package offers cannot be loaded or is no tunable of this interface, or two packages
    offer one: nothing of it is used then. Raises ImportError where txtdb's own extras are missing.
    """
    points = sorted(entry_points(group=TUNABLES_GROUP, name=iface), key=lambda point: point.value)
    if len({point.value for point in points}) > 1:
        values = ", ".join(point.value for point in points)
        raise TunableFault(f"{iface} has several tunables: {values}", Span(TUNABLES_GROUP), "uninstall all but one")
    return _verified(points[0]) if points else None


def tunable_names() -> list[str]:
    """The interfaces that have a tunable, sorted; nothing is loaded."""
    return sorted({point.name for point in entry_points(group=TUNABLES_GROUP)})


def _verified(point: EntryPoint) -> Tunable:
    tunable = _loaded(point)
    missing = [name for name in (*VALUES, *_METHODS) if not _has(tunable, name)]
    start = f"entry point {point.name} ({point.value})"
    if missing:
        raise TunableFault(f"{start} is no tunable: it has no {', '.join(missing)}", Span(point.value))
    values = [name for name in _METHODS if not callable(getattr(tunable, name))]
    if values:
        raise TunableFault(f"{start} is no tunable: {', '.join(values)} cannot be called", Span(point.value))
    if tunable.iface != point.name:
        raise TunableFault(f"{start} tunes {tunable.iface}", Span(point.value), "name both alike")
    return tunable


def _loaded(point: EntryPoint) -> Tunable:
    try:
        offered = point.load()
        tunable: Tunable = offered() if callable(offered) else offered
    except (Exception, SystemExit) as error:  # it is code of others
        if isinstance(error, ImportError) and lacks_own_need(error):
            raise
        raise not_loaded(point.name, point.value, error) from error
    return tunable


def _has(tunable: Tunable, name: str) -> bool:
    """Whether there is such a member; one that raises is there, and tells so."""
    if name in VALUES and hasattr(type(tunable), name):
        asked(tunable, name)
    return hasattr(tunable, name)
