"""Evidence: the measurements and decisions that cells were published from, as one run of the tuner leaves them.

Times are nanoseconds of device time per call. An entrant is a candidate of one cell, named by its place in
`Measured.entrants`. Everything that a decision rests on is here, so that it can be made again offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional

# The member of `Evidence.device` that states the device's arch; a device without it answers for any.
ARCH_FACT = "arch"
# Members of `Evidence.software`: the digest of the whole kernel, and where the device can tell, by functional as files
# spell it, the digest of what the kernel compiles for it.
SOURCE_FACT, SOURCES_FACT = "kernel source", "kernel sources"
# Stands after the kind of an origin (`#! origin modelled mixed: …`) where cells of several sources are in one file.
MIXED = "mixed:"


class Status(StrEnum):
    """What became of a candidate."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    COMPILE_ERROR = "compile_error"
    OUT_OF_RESOURCES = "out_of_resources"
    TIMEOUT = "timeout"
    CRASH = "crash"
    NOT_RUN = "not_run"


class Outcome(StrEnum):
    """What became of a cell: a config was published, the incumbent stays, no candidate was valid, or not measured."""

    PUBLISHED = "published"
    RETAINED = "retained"
    FAILED = "failed"
    UNMEASURED = "unmeasured"


class Reason(StrEnum):
    """Why a decision has its outcome."""

    GAIN = "gain"  # published: the winner's gain reaches the bar
    NO_BASELINE = "no-baseline"  # published: there was no incumbent
    INCUMBENT_FAILED = "incumbent-failed"  # published: the incumbent is no longer valid
    BELOW_BAR = "below-bar"  # retained: the winner's gain is less than the bar
    INCUMBENT_WINS = "incumbent-wins"  # retained: the incumbent is the winner, ties included
    NO_CERTIFICATE = "no-certificate"  # retained: the race ended before the winner was proven
    COMPARED_ONLY = "compared-only"  # retained: nothing was to be published
    NO_VALID_CANDIDATE = "no-valid-candidate"  # failed
    STOPPED = "stopped"  # unmeasured: the run ended before the cell was done


@dataclass(frozen=True, slots=True)
class Entrant:
    """A candidate: its config in the schema's field order, what became of it, and its error.

    `error` is the largest error of its results in units of the tolerance (right up to 1.0), unrounded; None where no
    result was compared.
    """

    config: ConfigValues
    status: Status
    detail: str = ""
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Some calls of each of several entrants, one entrant after the other: what is compared is of one block.

    `order` names the entrants as they ran; `times[i]` are the calls of `order[i]`.
    """

    order: tuple[int, ...]
    times: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The power of an entrant, as sampling gave it.

    `windows` are the watts at work of each window that was kept, `trials` how many there were, `dropped` those of them
    that were throttled. `path` is `graph` or `eager`, `reason` why it is no graph, `calls` how many a graph holds,
    `source` where the sensor's numbers come from. `raw_watts` is the mean before the launch-gap correction,
    `utilization` the share of the time in which the device worked, `idle_watts` what it draws between calls (None on
    the path `graph`). `updates` of the sensor and `seconds` are those of the windows. A reading that is not `reliable`
    ranks nothing.
    """

    path: str
    reason: str
    source: str
    calls: int
    windows: tuple[float, ...]
    raw_watts: float | None
    utilization: float
    idle_watts: float | None
    updates: int
    seconds: float
    trials: int
    dropped: int
    reliable: bool

    @property
    def watts(self) -> float | None:
        """The mean of the windows; None where none was kept."""
        return sum(self.windows) / len(self.windows) if self.windows else None


@dataclass(frozen=True, slots=True)
class Standing:
    """One valid entrant beside the winner, over the blocks that both ran in.

    `slower` is the trimmed mean logarithm of (its time / the winner's time), `spread` the standard error of that mean;
    `eliminated` the number of the block (from 0) after which it left the race, None where it stayed.
    """

    entrant: int
    blocks: int
    slower: float
    spread: float
    eliminated: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the samples of a cell. Percentages are of the incumbent's time; None where there is no such.

    `gain_pct` is what the winner saves; `bar_pct` is the larger of the policy's least improvement and `floor_pct`, the
    noise floor; `margin_pct` is gain minus bar. `certified`: the winner is proven to be within delta of the best valid
    candidate. `total_ns` is the sum of all samples.
    """

    outcome: Outcome
    reason: Reason
    winner: int | None
    incumbent: int | None
    certified: bool
    gain_pct: float | None
    bar_pct: float | None
    floor_pct: float | None
    margin_pct: float | None
    total_ns: float
    standings: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The samples of one cell, and all else that its decision follows from but the policy.

    `depth` are the calls of each entrant by itself (exhaustive search; empty tuples where there are none), `blocks` the
    paired ones (the race, or the finalists' rounds). `neighbours` are entrants that neighbouring cells use, nearest
    first: ties go to them. `incumbent_layer` says where the incumbent comes from (file:line), or that it is the
    default. `finished`: the run was not ended before the cell was done. `publish`: false where before and after were
    compared only. `dropped` counts samples that were thrown away because the device throttled; `watts` has the reading
    of each entrant where energy decides, None for one that was not read, else it is empty.
    """

    functional: Functional
    at: tuple[int, ...]
    strategy: str
    entrants: tuple[Entrant, ...]
    incumbent: int | None
    incumbent_layer: str
    neighbours: tuple[int, ...]
    depth: tuple[tuple[float, ...], ...]
    blocks: tuple[Block, ...]
    finished: bool = True
    publish: bool = True
    dropped: int = 0
    watts: tuple[Reading | None, ...] = ()


@dataclass(frozen=True, slots=True)
class CellEvidence:
    """One cell with what was decided."""

    measured: Measured
    decision: Decision


@dataclass(frozen=True, slots=True)
class TrialEvidence:
    """A trial of the calibration: one config of one cell under `labels` labels, the first of which is the incumbent.

    `twin`: the incumbent's times were multiplied, so that it is slower than the one other label by a known share.
    `depth` and `blocks` are the samples, as in `Measured`.
    """

    twin: bool
    functional: Functional
    at: tuple[int, ...]
    config: ConfigValues
    strategy: str
    labels: int
    depth: tuple[tuple[float, ...], ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Evidence:
    """One run of the tuner. `policy`, `contract`, `device` and `software` are plain JSON objects.

    contract: how times were taken (DESIGN of measuring: method, warm-up, cache, fill, clocks); numbers of different
    contracts are never compared. `cells` may be fewer than `planned`: then the run is partial. `calibration` says what
    the `trials` make of the bar, None where the run was not calibrated.
    """

    iface: str
    arch: str
    name: str
    seed: int
    planned: int
    policy: Mapping[str, Any]
    contract: Mapping[str, Any]
    device: Mapping[str, Any]
    software: Mapping[str, Any]
    calibration: Mapping[str, Any] | None
    cells: tuple[CellEvidence, ...]
    trials: tuple[TrialEvidence, ...] = ()

    @property
    def device_arch(self) -> object:
        """The arch that the device stated, a text; None where it did not, and whatever else a file may hold."""
        return self.device.get(ARCH_FACT)

    @property
    def state(self) -> str:
        """`complete n/n` or `partial m/n`; n counts the cells of the plan."""
        done = sum(cell.decision.outcome is not Outcome.UNMEASURED for cell in self.cells)
        return f"{'complete' if done == self.planned else 'partial'} {done}/{self.planned}"
