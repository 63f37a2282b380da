"""A review as data: frozen records, in the order in which they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from txtdb.check.finding import Finding
from txtdb.diff.edits import CellEdit, Content, FactEdit
from txtdb.faults import Fault
from txtdb.layers.resolve import Bins
from txtdb.model.schema import Schema
from txtdb.model.table import Cells
from txtdb.model.values import Functional


class Flag(StrEnum):
    """What a reviewer should look at in a changed cell, the gravest first."""

    ILLEGAL = "illegal"
    FINDING = "finding"
    GROUND_MOVED = "ground-moved"
    SLOWER = "slower"
    MORE_ENERGY = "more-energy"
    WITHIN_NOISE = "within-noise"
    NO_EVIDENCE = "no-evidence"
    NO_GAIN = "no-gain"
    USED_ONCE = "used-once"
    THROUGH_BASE = "through-base"
    NO_EFFECT = "no-effect"
    INHERITED = "inherited"


FLAG_WORDS: dict[Flag, str] = {
    Flag.ILLEGAL: "the schema forbids this config here, or its back end has no kernel to launch",
    Flag.FINDING: "a check names this cell",
    Flag.GROUND_MOVED: "the patch that sets it was made for another content underneath",
    Flag.SLOWER: "evidence says that it is slower by more than the noise",
    Flag.MORE_ENERGY: "evidence says that it takes more energy by more than the noise",
    Flag.WITHIN_NOISE: "evidence says no more than noise",
    Flag.NO_EVIDENCE: "its file names no evidence that decided for this config",
    Flag.NO_GAIN: "no gain over the config before was measured",
    Flag.USED_ONCE: "no other cell of the table has this config",
    Flag.THROUGH_BASE: "no file of this arch changed it: its base did, or its bins",
    Flag.NO_EFFECT: "files write it otherwise, lookups give what they gave",
    Flag.INHERITED: "archs that lie over this one change with it",
}

# Flags that are marked in the maps; the others tell where a change comes from and how far it reaches.
GRAVE_FLAGS = frozenset({Flag.ILLEGAL, Flag.FINDING, Flag.GROUND_MOVED, Flag.SLOWER, Flag.MORE_ENERGY})


@dataclass(frozen=True, slots=True)
class TimeGain:
    """What a cell's new config saves of the old one's time, in percent, and the noise of that; negative for a loss."""

    gain_pct: float
    noise_pct: float


@dataclass(frozen=True, slots=True)
class Gain:
    """What a cell's new config saves of what the old one needs, in percent, and the noise of that; negative for a loss.

    `file` is the evidence that says so. `derived`: the run decided otherwise; the gain is of the samples of these
    two. `energy`: it is of energy, which decided there, and not of time; `time` is then the gain of time by the same
    samples with its noise, None where they do not tell it.
    """

    gain_pct: float
    noise_pct: float
    file: str
    derived: bool = False
    energy: bool = False
    time: TimeGain | None = None

    @property
    def is_slower(self) -> bool:
        """Whether the new config takes more time, by more than the noise."""
        if self.energy:
            return self.time is not None and self.time.gain_pct < -self.time.noise_pct
        return self.gain_pct < -self.noise_pct

    @property
    def takes_more_energy(self) -> bool:
        """Whether the new config takes more energy, by more than the noise."""
        return self.energy and self.gain_pct < -self.noise_pct

    @property
    def is_noise(self) -> bool:
        """Whether what decided there is not above the noise."""
        return abs(self.gain_pct) <= self.noise_pct


@dataclass(frozen=True, slots=True)
class ReviewedCell:
    """One changed cell, told where it originates. `heirs` are the archs whose lookups change with it.

    The edit's contents are what lookups gave and give; of a cell without effect, what files wrote and write.
    """

    edit: CellEdit
    flags: tuple[Flag, ...]
    heirs: tuple[str, ...]
    gain: Gain | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class ReviewedFunctional:
    """A functional with changed cells. `after` has the shape of the table's bins and numbers its contents."""

    functional: Functional
    after: Cells
    cells: tuple[ReviewedCell, ...]


@dataclass(frozen=True, slots=True)
class Heir:
    """An arch over the reviewed one, and in how many of the changed cells its lookups change as well."""

    arch: str
    moved: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that sets changed cells, with what it says of itself."""

    file: str
    cells: int
    origin: str
    why: str


@dataclass(frozen=True)
class TableReview:
    """What changed in one arch and interface. `contents` are the distinct contents of its cells, sorted."""

    arch: str
    schema: Schema
    bins: Bins
    contents: tuple[Content, ...]
    functionals: tuple[ReviewedFunctional, ...]
    heirs: tuple[Heir, ...]
    sources: tuple[SourceFile, ...]

    @property
    def iface(self) -> str:
        """The interface's name."""
        return self.schema.iface

    @cached_property
    def cells(self) -> tuple[ReviewedCell, ...]:
        """All changed cells, in order."""
        return tuple(cell for functional in self.functionals for cell in functional.cells)


@dataclass(frozen=True, slots=True)
class Images:
    """Distinct kernel images that the tables of an arch name: pairs of functional and fields that make a binary."""

    arch: str
    before: int
    after: int
    new: int
    gone: int


@dataclass(frozen=True)
class Review:
    """A change from one state of a database to another.

    `new_findings` and `gone_findings` are those of a whole check that the change brings and takes away; `kept_findings`
    counts the others. With `faults` the cells of some files could not be compared.
    """

    root: str
    old: str
    new: str
    tables: tuple[TableReview, ...]
    images: tuple[Images, ...]
    facts: tuple[FactEdit, ...]
    new_findings: tuple[Finding, ...]
    gone_findings: tuple[Finding, ...]
    kept_findings: int
    faults: tuple[Fault, ...]

    @cached_property
    def cells(self) -> tuple[ReviewedCell, ...]:
        """All changed cells, in order."""
        return tuple(cell for table in self.tables for cell in table.cells)
