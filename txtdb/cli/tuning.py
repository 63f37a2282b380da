"""`txtdb tune`: measure candidates for cells and write the patch that follows."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    choose_archs,
    fail,
    fault_json,
    format_option,
    open_root,
    overlay_option,
    print_faults,
    print_json,
    why_option,
)
from txtdb.cli.evidence_page import report
from txtdb.cli.evidence_places import asked_faults, evidence_faults
from txtdb.cli.policies import changed_policy, family_policy, lax_notes, show_policy
from txtdb.cli.rehearsal import Rehearsal, is_new
from txtdb.cli.tables import choose_schema
from txtdb.cli.usage import named_text, usage_faults
from txtdb.diff.sides import open_side
from txtdb.evidence.named import is_partial
from txtdb.evidence.policy import Policy
from txtdb.faults import Fault, Span, errors
from txtdb.interrupts import terminated_as_interrupted
from txtdb.layers.database import Database
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.schema import Schema
from txtdb.patching.outcome import Outcome as Change
from txtdb.patching.report import outcome_lines
from txtdb.tune.calibrating import Calibrated, Calibrator
from txtdb.tune.cell_run import RACE, STRATEGIES
from txtdb.tune.choosing import Choice
from txtdb.tune.clocks import Requested, arranged
from txtdb.tune.device import CandidateFault, DeviceFacts
from txtdb.tune.devices import (
    DeviceMissing,
    known_device,
    needs_tunable,
    runs_kernels,
    simulation_of,
    with_measurement,
)
from txtdb.tune.job import (
    Field,
    Instruments,
    Place,
    Prepared,
    Report,
    arch_faults,
    empty_field_faults,
    keep_evidence,
    lacking_faults,
    perform,
    prepare,
    prepare_comparison,
    size_faults,
    table_of,
    work_of,
    write_down,
)
from txtdb.tune.journal import Journal
from txtdb.tune.measuring import Measurer, Throttled, default_jobs
from txtdb.tune.progress import (
    Progress,
    TrialProgress,
    calibration_text,
    summary_json,
    summary_lines,
    summary_of,
)
from txtdb.tune.publish import Publication, place_faults, publication_faults
from txtdb.tune.session import SELECT_ENERGY, SELECT_TIME, Settings, Watcher, identity_of
from txtdb.tune.simulate import SimulatedDevice, find_simulated
from txtdb.tune.taken import Taken, find_taken
from txtdb.tune.tunable import Tunable, find_tunable, tunable_names
from txtdb.tune.tunable_check import check_asks, check_tunable
from txtdb.wording import install_hint

JOURNAL_FOLDER = ".txtdb-tune"

_SELECT = (SELECT_TIME, SELECT_ENERGY)
_NO_TRIALS_OF_ENERGY = (
    "--calibrate finds the bar of times: trials of energy would need the watts of every label anew, some 4 s each; "
    "leave it out with --select energy, whose noise floor has the noise of the watts"
)

_file = click.Path(path_type=Path, dir_okay=False)
_existing = click.Path(path_type=Path, dir_okay=False, exists=True)


class _Tune(click.Command):
    """`txtdb tune IFACE …`, and `txtdb tune report EVIDENCE …`, which is a command of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command that the first word names."""
        if args[:1] == [report.name]:
            return report.make_context(f"{info_name} {report.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_Tune, short_help="Measure candidates for cells and write a patch.")
@click.argument("iface", required=False)
@click.option("--root", type=click.Path(path_type=Path), help="The database.")
@overlay_option
@click.option("--arch", help="The arch that is tuned: the one of the device.")
@click.option("--device", default="gpu", show_default=True, help="What measures: gpu, or simulated:FILE.")
@click.option("--all", "everything", is_flag=True, help="Tune every declared cell.")
@click.option("--missing", is_flag=True, help="Tune the cells without a config, which `txtdb check` reports.")
@click.option("--keys", multiple=True, metavar="KEY=VALUE,…", help="Tune the functionals that match; repeat for more.")
@click.option("--shapes", type=_existing, help="Tune the cells that sizes fall into: AXIS=SIZE … a line.")
@click.option("--cells", type=_existing, help="Tune these cells: KEY=VALUE … AXIS=BIN … a line.")
@click.option("--candidates", type=_existing, help="Measure these configs: FIELD=VALUE … a line.")
@click.option("--strategy", type=click.Choice(STRATEGIES), default=RACE, show_default=True, help="How to search.")
@click.option(
    "--select", type=click.Choice(_SELECT), default=SELECT_TIME, show_default=True, help="What has to be least."
)
@click.option("--policy", "policy_file", type=_existing, help="A JSON file with what differs from the default policy.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a number of the policy.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that compile.  [default: two less than processors]")
@click.option("--clocks", type=click.IntRange(1), metavar="MHZ", help="Lock the device's clock for the run.")
@click.option(
    "--power-cap", type=click.FloatRange(0, min_open=True), metavar="W", help="Cap the device's power for the run."
)
@click.option("--name", default="tuned", show_default=True, help="The name of the patch and of its evidence.")
@why_option("What the patch is for.  [default: the gains]")
@click.option("--table", "whole_table", is_flag=True, help="Write the arch's own table, not a patch.")
@click.option("--compare", metavar="OLD", help="Measure what OLD (a folder or revision) and ROOT give; write nothing.")
@click.option("--calibrate", "trials", type=click.IntRange(1), metavar="N", help="First find the bar by N A/A trials.")
@click.option(
    "--journal-dir",
    type=click.Path(path_type=Path),
    default=JOURNAL_FOLDER,
    show_default=True,
    help="Where journals are kept.",
)
@click.option("--journal", type=_file, help="Go on with this journal.  [default: the one of an equal run]")
@click.option("--repair", is_flag=True, help="Cut a damaged journal where it is damaged.")
@click.option("--evidence-out", type=_file, help="Keep the evidence here.  [default: beside the journal]")
@click.option("--dry-run", is_flag=True, help="Say what would be measured, and how long that may take.")
@click.option("--show-policy", is_flag=True, help="Print every number that decides, with its reason.")
@format_option("json")
def tune(**given: Any) -> None:
    """Measure candidates for cells of IFACE, and write the patch that follows, with its evidence.

    Every measurement is kept in a journal: the same command goes on where it ended. Choose cells by --all, --missing,
    --keys, --shapes or --cells.

    Exit code 0: every cell is done; 1: incomplete, or a cell has no valid candidate; 2: usage or environment.
    """
    given["policy_text"] = named_text(given["policy_file"])  # once: the file may be a pipe
    changed_policy(Policy(), given)  # what is wrong with it is told before a tunable is loaded
    with usage_faults(), ExitStack() as stack:
        if given["show_policy"]:
            if given["iface"] in tunable_names() and not runs_kernels(given["device"]):
                _tell(_not_asked(given["iface"]))
            show_policy(changed_policy(family_policy(_tunable(given)), given), given["style"])
        else:
            _Command(given, stack).run()


class _Command:
    """One call of `txtdb tune`."""

    def __init__(self, given: dict[str, Any], stack: ExitStack) -> None:
        self._given, self._stack = given, stack
        self._publication = Publication(given["name"], given["why"], given["whole_table"])
        self._taken: Taken | None = None
        self._kept = ""

    @cached_property
    def _tunable(self) -> Tunable | None:
        return _tunable(self._given)

    @cached_property
    def _settings(self) -> Settings:
        given = self._given
        policy = changed_policy(family_policy(self._tunable), given)
        return Settings(
            device=with_measurement(given["device"], policy.measurement),
            policy=policy,
            strategy=given["strategy"],
            jobs=given["jobs"] or default_jobs(),
            bar_pct=policy.promotion.min_improvement_pct,
            publish=given["compare"] is None,
            by_energy=given["select"] == SELECT_ENERGY,
        )

    def run(self) -> None:
        if self._given["trials"] and self._given["select"] == SELECT_ENERGY:
            raise click.UsageError(_NO_TRIALS_OF_ENERGY)
        database, table = self._table()
        faults = publication_faults(database, table, self._publication)
        faults += asked_faults(self._given["evidence_out"], self._given["journal"], database.roots)
        if self._given["compare"] is None and not self._given["dry_run"]:
            faults += place_faults(database.roots[0], table.arch)
        if faults:
            fail(faults, EXIT_USAGE)
        prepared = self._prepared(database, table)
        print_faults(prepared.notes)
        if self._given["compare"] is None:
            self._taken = find_taken(database.roots[0], table.arch, self._publication.name)
            print_faults(lax_notes(self._settings.policy))
        faults = [*empty_field_faults(prepared)]
        faults += size_faults(work_of(prepared, self._settings, self._given["trials"] or 0))
        faults += self._device_faults(database, prepared)
        if faults:
            fail(faults, EXIT_USAGE)
        if self._given["dry_run"]:
            self._dry_run(prepared)
        elif not prepared.plans:
            self._say("nothing to measure")
        elif find_spec("scipy") is None:
            hints = f"{install_hint('verify')}, or for kernels on a GPU {install_hint('tune')}"
            raise click.UsageError(f"tune needs scipy: {hints}")
        else:
            self._finish(database, prepared, self._measured(database, prepared))

    def _table(self) -> tuple[Database, ResolvedTable]:
        for name in ("iface", "root", "arch"):
            if not self._given[name]:
                raise click.UsageError(f"{'IFACE' if name == 'iface' else f'--{name}'} is missing")
        database = open_root(self._given["root"], self._given["overlays"])
        archs = choose_archs(database, [self._given["arch"]])
        if len(archs) != 1:
            fail([Fault("argument", Span(self._given["arch"]), "one arch is tuned at a time", "name one")], EXIT_USAGE)
        choose_schema(database, self._given["iface"], archs)
        return database, _usable(table_of(database, archs[0], self._given["iface"]))

    def _prepared(self, database: Database, table: ResolvedTable) -> Prepared:
        choice = self._choice()
        if self._given["compare"] is None:
            found = prepare(database, table, choice, self._field(table.schema))
        else:
            side = self._stack.enter_context(open_side(self._given["compare"], Path()))
            wrong = errors(side.database.faults)
            if wrong:
                fail(wrong, EXIT_USAGE)
            before = _usable(table_of(side.database, table.arch, table.iface))
            found = prepare_comparison(side.database, before, table, choice)
        if isinstance(found, list):
            fail(found, EXIT_USAGE)
        return found

    def _field(self, schema: Schema) -> Field:
        if self._given["candidates"]:
            return Field(named_text(self._given["candidates"]))
        if self._tunable is None and needs_tunable(self._given["device"]):
            known = ", ".join(tunable_names()) or "none"
            raise DeviceMissing(f"no package offers a tunable of {schema.iface}; there are: {known}")
        if self._tunable is not None:
            check_asks(self._tunable, schema)
        return Field(tunable=self._tunable)

    def _choice(self) -> Choice:
        given = self._given
        ways = [name for name in ("everything", "missing", "cells") if given[name]]
        narrowing = [name for name in ("everything", "missing", "keys", "shapes") if given[name]]
        if given["cells"] and narrowing:
            words = " and ".join("--all" if name == "everything" else f"--{name}" for name in narrowing)
            raise click.UsageError(f"--cells lists all cells that are measured: leave out {words}, or --cells")
        if len(ways) > 1:
            raise click.UsageError("--all and --missing exclude each other: give one of them")
        if not ways and not given["keys"] and not given["shapes"]:
            raise click.UsageError("say which cells: --all, --missing, --keys, --shapes or --cells")
        shapes, cells = named_text(given["shapes"]), named_text(given["cells"])
        return Choice(given["everything"], given["missing"], given["keys"], shapes, cells)

    def _device_faults(self, database: Database, prepared: Prepared) -> list[Fault]:
        """What is wrong with the device or the tunable, as far as it is known before the device is opened."""
        if self._simulated:
            faults = arch_faults(database, prepared.table.arch, self._simulated.facts(prepared.table.iface))
            return faults or lacking_faults(self._simulated, prepared)
        if self._tunable and needs_tunable(self._given["device"]):
            fill = self._settings.policy.measurement.fill
            check_tunable(self._tunable, prepared.arch_schema, prepared.plans, fill)
        return []

    @cached_property
    def _simulated(self) -> SimulatedDevice | None:
        """The simulated device; it ends the program where its description cannot be used."""
        file = simulation_of(self._given["device"])
        found = None if file is None else find_simulated(file)
        if isinstance(found, list):
            fail(found, EXIT_USAGE)
        return found

    @cached_property
    def _place(self) -> Place:
        return Place(self._given["journal_dir"], self._given["journal"], self._given["repair"])

    def _dry_run(self, prepared: Prepared) -> None:
        iface, device = prepared.table.iface, self._simulated
        if device and iface in tunable_names():
            _tell(_not_asked(iface))
        facts = device.facts(iface) if device else None
        if facts and device and self._settings.by_energy:
            facts = replace(facts, contract={**facts.contract, "power": device.power_contract()})
        Rehearsal(prepared, self._settings, self._place, self._given["trials"] or 0, facts, self._taken).tell(
            self._given["style"]
        )

    def _measured(self, database: Database, prepared: Prepared) -> Report:
        given, place = self._given, self._place
        resumes = place.may_resume(given["iface"], prepared.table.arch)
        measurer = Measurer(self._settings.device, self._settings.policy.run, resumes)
        self._stack.callback(measurer.close)
        faults = arch_faults(database, prepared.table.arch, measurer.facts(given["iface"]))
        if faults:
            fail(faults, EXIT_USAGE)
        clocks = self._clocks(measurer)
        facts = _with_clocks(measurer.facts(given["iface"]), clocks)
        if self._settings.by_energy:
            facts = replace(facts, contract={**facts.contract, "power": measurer.power_contract()})
        identity = identity_of(prepared.arch_schema, self._settings, facts)
        if self._taken and is_new(prepared, self._settings, place, identity):
            fail([self._taken.fault()], EXIT_USAGE)
        journal, faults = place.open(identity)
        print_faults(faults)
        if journal is None:
            sys.exit(EXIT_USAGE)
        self._stack.callback(journal.close)
        evidence_file = self._evidence_file(journal.path)
        calibration = self._calibration(prepared, journal, measurer)
        estimate_s = work_of(prepared, self._settings).seconds
        progress = Progress(prepared.table.schema, prepared.plans, self._say, _tell, time.monotonic, estimate_s)
        instruments = Instruments(facts, journal, measurer, Watcher(progress.tick, progress.cell), clocks)
        found = perform(prepared, self._settings, instruments, self._publication.name, calibration)
        keep_evidence(evidence_file, found.evidence, prepared)
        self._kept = evidence_file.as_posix()
        return found

    def _evidence_file(self, journal: Path) -> Path:
        """Where the evidence goes; ends the program where something else is there."""
        beside = journal.with_name(f"{journal.stem}-{self._publication.name}.json")
        file: Path = self._given["evidence_out"] or beside
        faults = evidence_faults(file, journal)
        if faults:
            fail(faults, EXIT_USAGE)
        return file

    def _clocks(self, measurer: Measurer) -> dict[str, Any]:
        """Change clocks and cap until the command ends, where that is asked for; what came of it."""
        requested = Requested(self._given["clocks"], self._given["power_cap"])
        return self._stack.enter_context(arranged(measurer.sensor(), requested, _tell))

    def _calibration(self, prepared: Prepared, journal: Journal, measurer: Measurer) -> Calibrated | None:
        """What trials of equals say of the bar, where they are asked for."""
        if self._given["trials"] is None:
            return None
        calibrator = Calibrator(prepared.arch_schema, self._settings.policy, self._settings.strategy, journal, measurer)
        progress = TrialProgress(_tell, time.monotonic)
        try:
            with terminated_as_interrupted():
                found = calibrator.run(prepared.plans, self._given["trials"], progress.tick)
        except (CandidateFault, Throttled) as error:
            hint = "the same command tries again; without --calibrate, cells are tuned whatever trials come to"
            fail([Fault("calibration", Span("--calibrate"), f"the trials failed: {error}", hint)])
        except KeyboardInterrupt:
            click.echo("stopped in the trials: the same command goes on from here")
            sys.exit(EXIT_FINDINGS)
        self._say(calibration_text(found.stated))
        return found

    def _finish(self, database: Database, prepared: Prepared, found: Report) -> NoReturn:
        """Write, tell, and end the program."""
        summary = summary_of(found.evidence)
        self._stack.close()  # device, clocks and journal are others' from here on, also while this waits
        try:
            with terminated_as_interrupted():
                change = write_down(database, prepared, found, self._publication)
        except KeyboardInterrupt:
            self._say("stopped: the same command goes on from here")
            sys.exit(EXIT_FINDINGS)
        if self._given["style"] == "json":
            files = [] if change.faults else [step.file for step in change.steps]
            faults = [fault_json(fault) for fault in change.faults]
            told = {**summary_json(summary), "stopped": found.stopped, "evidence": self._kept}
            print_json({**told, "files": files, "faults": faults})
        else:
            click.echo("\n".join(summary_lines(prepared.table.schema, summary)))
            if summary.details:
                click.echo(f"all that was said of candidates is in {self._kept}")
            click.echo(self._ending(found, change))
        print_faults(change.faults)
        sys.exit(0 if summary.is_clean and not change.faults else EXIT_FINDINGS)

    def _ending(self, found: Report, change: Change) -> str:
        if found.stopped:
            return "stopped: the same command goes on from here"
        is_comparison = self._given["compare"] is not None
        if is_partial(found.evidence):
            written = (
                "" if is_comparison else f"no {'table' if self._publication.whole_table else 'patch'} is written; "
            )
            return f"not complete: {written}the same command goes on from here"
        if is_comparison:
            return "compared: the database stays as it is"
        if not change.steps and not change.faults:
            return "nothing changes: no patch is written"
        return "\n".join(outcome_lines(change, False))

    def _say(self, line: str) -> None:
        click.echo(line, err=self._given["style"] == "json")


def _with_clocks(facts: DeviceFacts, clocks: dict[str, Any]) -> DeviceFacts:
    """Facts that tell runs with other requests apart; what the device made of them is no identity."""
    asked = {"clocks": {"requested": clocks["requested"]}} if clocks else {}
    return replace(facts, device={**facts.device, **asked})


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _not_asked(iface: str) -> str:
    return (
        f"the tunable of {iface} is not asked: a simulated device has the usual policy, and all configs of the schema"
    )


def _usable(found: ResolvedTable | list[Fault]) -> ResolvedTable:
    if isinstance(found, list):
        fail(found, EXIT_USAGE)
    return found


def _tunable(given: dict[str, Any]) -> Tunable | None:
    """The kernels of the interface, for a device that runs them. Raises TunableFault for a broken offer."""
    known_device(given["device"])
    if not given["iface"] or not runs_kernels(given["device"]):
        return None
    return find_tunable(given["iface"])
