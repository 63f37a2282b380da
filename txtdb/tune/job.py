"""One call of the tuner: what it was asked for, prepared into plans, measured, and written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from txtdb.evidence.files import MAX_BYTES, write_evidence
from txtdb.faults import Fault, Severity, Span, errors
from txtdb.files import write_output
from txtdb.layers.database import Database, open_database
from txtdb.layers.resolved import ResolvedTable
from txtdb.locking import alone_in
from txtdb.model.archs import arch_text, is_arch
from txtdb.model.evidence import ARCH_FACT, SOURCES_FACT, Evidence
from txtdb.model.schema import ArchSchema
from txtdb.model.table import ConfigValues
from txtdb.patching.outcome import Outcome as Change
from txtdb.tune.calibrating import Calibrated, plan_trials
from txtdb.tune.choosing import Choice, choose_cells, config_at, ground_of
from txtdb.tune.device import DeviceFacts
from txtdb.tune.fields import CellPlan, full_config, ordered, read_candidates, schema_field, task_of
from txtdb.tune.journal import SUFFIX, Journal, journal_name, open_journal
from txtdb.tune.measuring import Measurer
from txtdb.tune.publish import Publication, is_published, moved_fault, publish
from txtdb.tune.session import Settings, Watcher, evidence_of, plan_cell, run_session
from txtdb.tune.simulate import SimulatedDevice
from txtdb.tune.tunable import Tunable
from txtdb.wording import plural

# Guesses for the estimate of a dry run: seconds of one compilation, of one accuracy check, of one timed call with what
# is restored and flushed around it, and of the watts of a candidate.
_COMPILE_S, _CHECK_S, _CALL_S, _POWER_S = 1.5, 0.2, 1e-3, 4.0
# To start a process and to make it ready to time a cell, seconds.
_START_S = 5.0
# Blocks that a candidate is in before it is eliminated, on average, and that a race of equals has.
_BLOCKS, _TRIAL_BLOCKS = 6.0, 30.0
# Bytes of evidence: of a time, of a candidate's status and standing, and of a reading of its watts. A cell of 200
# candidates with 2,000 samples has some 52 kB.
_SAMPLE_BYTES, _CANDIDATE_BYTES, _READING_BYTES = 19, 100, 350


@dataclass(frozen=True)
class Field:
    """Where candidates come from: (name, text) of a file of theirs, else the schema, narrowed by a tunable."""

    file: tuple[str, str] | None = None
    tunable: Tunable | None = None


@dataclass(frozen=True)
class Prepared:
    """The cells that will be measured. `notes` tell of cells that were left out."""

    table: ResolvedTable
    plans: tuple[CellPlan, ...]
    notes: tuple[Fault, ...]

    @property
    def arch_schema(self) -> ArchSchema:
        """The schema as it holds on the arch."""
        return self.table.arch_schema


def table_of(database: Database, arch: str, iface: str) -> ResolvedTable | list[Fault]:
    """The resolved table that is tuned; one without any cell where there are no files yet."""
    return database.table_or_empty(arch, iface)


def prepare(database: Database, table: ResolvedTable, choice: Choice, field: Field) -> Prepared | list[Fault]:
    """Choose cells and plan what is measured for each. Cells that a pin decides are left out, with a note.

    Raises TunableFault for a tunable that cannot narrow the field.
    """
    cells, faults = choose_cells(table, choice)
    known, more = _configs(table.arch_schema, field)
    if faults or more:
        return [*faults, *more]
    grounds = [(cell, ground_of(table, cell, database.listings[0].label)) for cell in cells]
    pins = [ground.pin for _, ground in grounds if ground.pin]
    plans = (plan_cell(table, cell, ground, known, field.tunable) for cell, ground in grounds if not ground.pin)
    return Prepared(table, tuple(plans), tuple(_pinned(pins)))


def _configs(arch_schema: ArchSchema, field: Field) -> tuple[Sequence[ConfigValues], list[Fault]]:
    if field.file:
        name, text = field.file
        return read_candidates(text, name, arch_schema)
    configs = schema_field(arch_schema)
    return ((), [configs]) if isinstance(configs, Fault) else (configs, [])


def _pinned(pins: Sequence[str]) -> Iterator[Fault]:
    """A note of the cells that pins decide; `pins` has the file of each."""
    if pins:
        message = f"{len(pins)} of the cells {'is' if len(pins) == 1 else 'are'} pinned: left out"
        yield Fault("pinned", Span(pins[0]), message, "remove the pins to tune them", Severity.WARNING)


def prepare_comparison(
    old: Database, before: ResolvedTable, after: ResolvedTable, choice: Choice
) -> Prepared | list[Fault]:
    """Plan to measure, where two tables differ, what each gives. What was before is the incumbent."""
    cells, faults = choose_cells(after, choice)
    if faults:
        return faults
    plans, lone = [], 0
    for cell in cells:
        first, second = config_at(before, cell), config_at(after, cell)
        lone += (first is None) is not (second is None)
        if first is not None and second is not None and first != second:
            layer = ground_of(before, cell, old.listings[0].label).layer
            plans.append(CellPlan(cell, ordered(after.schema, (first, second)), first, layer, ()))
    return Prepared(after, tuple(plans), tuple(_lone(old.listings[0].label, lone)))


def _lone(label: str, count: int) -> Iterator[Fault]:
    """A note of the cells that have a config on one side only."""
    if count:
        message = (
            f"{count} {plural(count, 'cell')} {'has' if count == 1 else 'have'} a config on one side only: left out"
        )
        yield Fault("cell", Span(label), message, "`txtdb diff` lists them", Severity.WARNING)


def empty_field_faults(prepared: Prepared) -> Iterator[Fault]:
    """What forbids to measure cells of which none has a candidate."""
    if prepared.plans and not any(plan.candidates for plan in prepared.plans):
        hint = "look at `narrow` of its tunable, or name candidates with --candidates"
        message = f"no cell of {prepared.table.iface} has a candidate"
        yield Fault("field", Span(prepared.table.schema.file), message, hint)


@dataclass(frozen=True)
class Work:
    """How much a run will do, before anything is known of how fast it goes. Seconds and bytes are guesses.

    `trials`: those of a calibration, with a twin or without.
    """

    cells: int
    candidates: int
    trials: int
    seconds: float
    evidence_bytes: int


def work_of(prepared: Prepared, settings: Settings, trials: int = 0, checked: int = 0) -> Work:
    """Count what a run measures, with so many trials of equals before it; `checked` candidates are known to be right
    or wrong."""
    candidates, cells = sum(len(plan.candidates) for plan in prepared.plans), len(prepared.plans)
    prepared_s = (candidates - checked) * (_COMPILE_S / settings.jobs + _CHECK_S)
    prepared_s += candidates * _POWER_S if settings.by_energy else 0.0
    planned = plan_trials(trials)
    labels = sum(trial.labels for trial in planned)
    parts = _calls(candidates, cells, _BLOCKS, settings), _calls(labels, len(planned), _TRIAL_BLOCKS, settings)
    warm_up, calls, starts = (sum(part) for part in zip(*parts, strict=True))
    seconds = prepared_s + (warm_up + calls) * _CALL_S + starts * _START_S
    size = calls * _SAMPLE_BYTES + candidates * (_CANDIDATE_BYTES + settings.by_energy * _READING_BYTES)
    return Work(cells, candidates, len(planned), seconds, round(size))


def _calls(candidates: int, cells: int, blocks_each: float, settings: Settings) -> tuple[float, float, int]:
    """Calls that are not counted, those that are, and processes that start for rounds."""
    measurement, finalists = settings.policy.measurement, settings.policy.finalists
    if settings.strategy == "race":
        blocks = candidates * blocks_each
        return blocks * measurement.block_warm_up, blocks * settings.policy.race.block_calls, 0
    rounds = cells * finalists.rounds
    warm_up = (candidates + rounds * finalists.count) * measurement.warm_up
    return warm_up, candidates * measurement.calls + rounds * finalists.count * finalists.calls, rounds


def size_faults(work: Work) -> list[Fault]:
    """What forbids a run whose evidence would be too large a file: nobody could read it."""
    if work.evidence_bytes <= MAX_BYTES:
        return []
    parts = -(-work.evidence_bytes // MAX_BYTES)
    sizes = _mib(work.evidence_bytes), _mib(MAX_BYTES)
    message = "{} cells make about {} of evidence, and a file holds {}".format(work.cells, *sizes)
    hint = f"split the run into {parts} or more: by --keys, each with another --name"
    return [Fault("size", Span("--name"), message, hint)]


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def arch_faults(database: Database, arch: str, facts: DeviceFacts) -> list[Fault]:
    """What forbids to tune an arch on a device: that the device says it is another one."""
    stated = facts.device.get(ARCH_FACT)
    if stated is None or (isinstance(stated, str) and is_arch(stated, arch, database.archs)):
        return []
    hint = "tune what it is (--root, --arch), or name another device with --device"
    return [Fault("device", Span("--arch"), f"the device is {arch_text(stated)}, not {arch}", hint)]


def lacking_faults(device: SimulatedDevice, prepared: Prepared) -> list[Fault]:
    """What forbids to measure cells on a simulated device: that it is described for none of their candidates."""
    schema, arch, lacking = prepared.table.schema, prepared.table.arch, []
    for plan in prepared.plans:
        configs = (full_config(schema, plan.cell.functional, one) for one in plan.candidates)
        lacking.append(device.lack(task_of(schema, arch, plan.cell), configs))
    told = [text for text in lacking if text]
    if not told:
        return []
    message = f"the simulated device has {told[0]}"
    message += f", and nothing of {len(told) - 1} more of the {len(lacking)} cells" if len(told) > 1 else ""
    hint = "choose cells that it is described for, by --cells or --keys, or describe these"
    return [Fault("device", Span("--device"), message, hint)]


@dataclass(frozen=True)
class Place:
    """Where a run keeps its journal: a folder, or a file that is named."""

    folder: Path
    file: Path | None = None
    repair: bool = False

    def may_resume(self, iface: str, arch: str) -> bool:
        """Whether there is a journal of a run that may be the same."""
        return bool(self.file) or any(self.folder.glob(f"{iface}-{arch}-*{SUFFIX}"))

    def journals(self, identity: Mapping[str, Any]) -> list[Path]:
        """The journals of the folder that are of the interface and arch, sorted."""
        return sorted(self.folder.glob(f"{identity['iface']}-{identity['arch']}-*{SUFFIX}"))

    def open(self, identity: Mapping[str, Any]) -> tuple[Journal | None, list[Fault]]:
        """Open the journal of a run. Raises OSError where it cannot be written."""
        return open_journal(self.path(identity), identity, self.repair)

    def path(self, identity: Mapping[str, Any]) -> Path:
        """The file of the journal of a run."""
        return self.file or self.folder / journal_name(identity)


@dataclass(frozen=True)
class Report:
    """What a run came to: its evidence, whether it was ended early, and whether it may write what it found."""

    evidence: Evidence
    stopped: bool
    publishes: bool


@dataclass(frozen=True)
class Instruments:
    """What a run works with: what the device says of itself, the journal, the measuring process, and who watches.

    `clocks`: what the run asked for of clocks and power cap, and what is there; empty where it asked for nothing.
    """

    facts: DeviceFacts
    journal: Journal
    measurer: Measurer
    watcher: Watcher
    clocks: Mapping[str, Any]


def perform(
    prepared: Prepared, settings: Settings, instruments: Instruments, name: str, calibration: Calibrated | None = None
) -> Report:
    """Measure and decide. Raises DeviceMissing."""
    if calibration:
        settings = replace(settings, bar_pct=max(settings.bar_pct, calibration.stated["bar_pct"]))
    tools, arch_schema, run = instruments, prepared.arch_schema, _run_of(name, prepared)
    first = _conditions(tools, run, "start", tools.measurer.conditions)
    software = {**tools.facts.software, **_sources(tools, prepared)}
    clocks = _conditions(tools, run, "clocks", lambda: tools.clocks) if tools.clocks else {}
    session = run_session(arch_schema, prepared.plans, settings, tools.journal, tools.measurer, tools.watcher)
    planned = len(prepared.plans)
    last = _conditions(tools, run, "end", tools.measurer.conditions) if session.is_whole else {}
    facts = replace(tools.facts, device={**tools.facts.device, **clocks, **first, **last}, software=software)
    evidence = evidence_of(arch_schema, name, planned, settings, facts, calibration, session)
    return Report(evidence, session.stopped, settings.publish and session.is_whole)


def write_down(database: Database, prepared: Prepared, report: Report, publication: Publication) -> Change:
    """Write what a run publishes, all of it or nothing; what it was, or what stood in the way.

    A comparison publishes nothing, nor does a run that was ended early or left cells unmeasured: its journal has what
    was measured, and its evidence would prove nothing. Raises OSError.
    """
    if not report.publishes:
        return Change(database.roots[0], schemas=database.schemas)
    with alone_in(database.roots[0]):  # two runs that end at once do not number their patches alike
        change = _planned(database, prepared.table, report.evidence, publication)
        if not change.faults:
            change.apply()
    return change


def _planned(database: Database, table: ResolvedTable, evidence: Evidence, publication: Publication) -> Change:
    """The files that publish a run in the root as it is by now: others may have written there while it measured."""
    change = Change(database.roots[0], schemas=database.schemas)
    if not is_published(evidence, publication):
        return change
    root, *overlays = database.roots
    now = open_database(root, overlays, database.listings[0].label)
    if errors(now.faults):
        return change.fail(now.faults)
    schema = now.schemas.get(table.iface)
    if schema is None or schema.for_arch(table.arch) != table.arch_schema:
        return change.fail([moved_fault(table.iface, "the schema was changed during the run")])
    found = table_of(now, table.arch, table.iface)
    return change.fail(found) if isinstance(found, list) else publish(now, table, found, evidence, publication)


def _sources(tools: Instruments, prepared: Prepared) -> dict[str, Any]:
    """What the kernel compiles for each functional of a run, where the device can tell."""
    functionals = dict.fromkeys(plan.cell.functional for plan in prepared.plans)
    found = tools.measurer.sources(prepared.arch_schema.schema, functionals)
    return {SOURCES_FACT: found} if found else {}


def _run_of(name: str, prepared: Prepared) -> str:
    """What tells runs apart that share a journal: a run that goes on has the same name, cells and candidates."""
    plans = [[plan.cell.functional, plan.cell.at, plan.candidates, plan.incumbent] for plan in prepared.plans]
    return sha256(json.dumps([name, plans], separators=(",", ":")).encode()).hexdigest()[:16]


def _conditions(tools: Instruments, run: str, when: str, ask: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Clocks and temperatures at the start or end of a run, by that name: those of the first time that it got there."""
    key = {"is": "conditions", "cell": "", "run": run, "when": when}
    known = next((record["found"] for record in tools.journal.records if key.items() <= record.items()), None)
    found = known or dict(ask())
    if found and not known:
        tools.journal.append({**key, "found": found})
    return {when: found} if found else {}


def keep_evidence(path: Path, evidence: Evidence, prepared: Prepared) -> None:
    """Write the evidence of a run, whatever it came to. Raises OSError."""
    write_output(path, write_evidence(evidence, prepared.table.schema))
