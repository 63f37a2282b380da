"""Evidence as the layer files meet it that name it with `#! evidence`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest
from pathlib import Path

from txtdb.evidence.files import MAX_BYTES, UNLIKE, read_evidence
from txtdb.faults import Fault, Span
from txtdb.layers.listing import EVIDENCE_FOLDER, LayerFile
from txtdb.model.archs import Arch, arch_text, is_arch
from txtdb.model.evidence import CellEvidence, Evidence, Outcome
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional

PARTIAL = "partial-evidence"

Cell = tuple[Functional, tuple[int, ...]]


@dataclass(frozen=True)
class EvidenceFile:
    """One evidence file as a layer file of an interface meets it.

    `digest` is empty where there is no such file, or none that can be read. `evidence` is None where it cannot be used;
    but for a file that is not there, `faults` say why.
    """

    name: str
    display: str
    digest: str
    evidence: Evidence | None
    faults: tuple[Fault, ...]

    @cached_property
    def chosen(self) -> dict[Cell, ConfigValues]:
        """The config that each decision stands for; without cells where it stands for none."""
        cells = self.evidence.cells if self.evidence else ()
        found = {(cell.measured.functional, cell.measured.at): stands_for(cell) for cell in cells}
        return {cell: config for cell, config in found.items() if config is not None}

    @cached_property
    def published(self) -> dict[Cell, ConfigValues]:
        """The configs that the run published."""
        cells = self.evidence.cells if self.evidence else ()
        new = [cell.measured for cell in cells if cell.decision.outcome is Outcome.PUBLISHED]
        places = ((item.functional, item.at) for item in new)
        return {place: self.chosen[place] for place in places if place in self.chosen}


def stands_for(cell: CellEvidence) -> ConfigValues | None:
    """The config that a decision leaves in its cell; None where it decides nothing."""
    decision, measured = cell.decision, cell.measured
    if decision.outcome is Outcome.PUBLISHED:
        place = decision.winner
    elif decision.outcome is Outcome.RETAINED and measured.publish:
        place = measured.incumbent
    else:
        place = None
    return None if place is None else measured.entrants[place].config


def open_evidence(file: LayerFile, name: str, schema: Schema) -> EvidenceFile:
    """The evidence that a layer file names.

    Its faults are `bad-evidence` and `unlike-evidence`, or `unreadable` where the system does not give the file.
    """
    path = file.path.parent / EVIDENCE_FOLDER / name
    display = f"{file.display.rpartition('/')[0]}/{EVIDENCE_FOLDER}/{name}"
    if path.name != name or not path.is_file():
        return EvidenceFile(name, display, "", None, ())
    try:
        digest, data = _read(path)
    except OSError as error:
        fault = Fault(
            "unreadable", Span(display), f"the file cannot be read: {error.strerror}", "change its permissions"
        )
        return EvidenceFile(name, display, "", None, (fault,))
    evidence, faults = read_evidence(data, display, schema)
    return EvidenceFile(name, display, digest, evidence, tuple(faults))


def _read(path: Path) -> tuple[str, bytes]:
    """Digest and content; of a file that is too large, enough to see that it is."""
    with path.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        return f"sha256:{digest}", stream.read(MAX_BYTES + 1)


def missing_fault(name: str, span: Span) -> Fault:
    """`missing-evidence`: a name that no file of the arch's evidence folder has."""
    return Fault("missing-evidence", span, f"there is no evidence file {name}", "it lies in the arch's evidence folder")


def partial_fault(evidence: Evidence, span: Span) -> Fault:
    """`partial-evidence`: a run that ended early."""
    hint = "run it to its end: what was measured is kept"
    return Fault(PARTIAL, span, f"the run is not complete: {evidence.state}", hint)


def is_partial(evidence: Evidence) -> bool:
    """Whether cells of the plan were not measured."""
    return not evidence.state.startswith("complete")


def device_fault(name: str, evidence: Evidence, arch: str, archs: dict[str, Arch], span: Span) -> Fault | None:
    """`unlike-evidence`: measured on a device that says it is another arch; one that does not say answers for any."""
    stated = evidence.device_arch
    if stated is None or (isinstance(stated, str) and is_arch(stated, arch, archs)):
        return None
    return Fault(UNLIKE, span, f"{name} was measured on {arch_text(stated)}, not on {arch}", f"measure on {arch}")


def unlike_fault(name: str, evidence: Evidence, arch: str, span: Span) -> Fault:
    """`unlike-evidence`: of another arch than the file that names it."""
    return Fault(UNLIKE, span, f"{name} is evidence of {evidence.arch}, not of {arch}", f"measure on {arch}")
