"""What a journal holds of a run that is planned. It is read alone: others may write it meanwhile."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from txtdb.faults import Fault, Span
from txtdb.model.schema import ArchSchema
from txtdb.model.table import config_text
from txtdb.tune.cell_run import Bench, CellRun, Streaks
from txtdb.tune.fields import CellPlan
from txtdb.tune.journal import Content, Journal, Record, read_journal, version_faults
from txtdb.tune.log import CellLog
from txtdb.tune.measuring import Compilers, Measurer, Throttled
from txtdb.tune.session import Settings

# What of a journal's identity the device says; all else is known before.
_LATE = ("contract", "device", "software", "source")


@dataclass(frozen=True)
class Known:
    """What a journal has of a run: `left` are the plans of cells that are not done, `checked` how many candidates of
    those need no compilation and check any more. `new` tells whether a cell is among them that never was done: others
    were, with another incumbent or other neighbours.
    """

    path: Path
    cells: int
    candidates: int
    left: tuple[CellPlan, ...]
    checked: int
    new: bool


class _NotKnown(Exception):
    """Something has to be measured."""


class _Nothing:
    """Stands for the device, the compilers and the journal of a run that only looks."""

    def append(self, record: Record, *, force: bool = False) -> None:
        """Nothing is written."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _NotKnown


def early_identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a journal's identity without the device."""
    return {name: value for name, value in identity.items() if name not in _LATE}


def journals_like(paths: Iterable[Path], identity: Mapping[str, Any]) -> list[Path]:
    """The journals that agree with an identity, which need not be whole."""
    return [path for path in paths if _agrees(_header(path), identity)]


def _header(path: Path) -> Content | None:
    """The first line of a journal; None where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return read_journal(stream.readline(), path)[0]
    except OSError:
        return None


def _agrees(content: Content | None, identity: Mapping[str, Any]) -> bool:
    found = content.records[0].get("identity") if content and content.records else None
    wanted = json.loads(json.dumps(identity)).items()
    return isinstance(found, dict) and all(name in found and found[name] == value for name, value in wanted)


def known_of(
    path: Path,
    identity: Mapping[str, Any],
    repair: bool,
    arch_schema: ArchSchema,
    plans: Sequence[CellPlan],
    settings: Settings,
) -> tuple[Known | None, list[Fault]]:
    """What a journal has of these plans, and what is wrong with it. Raises OSError."""
    content, faults = read_journal(path.read_bytes(), path, repair)
    if content is None or not content.records:
        return None, faults
    wrong = version_faults(content, path)
    if wrong:
        return None, wrong
    if not _agrees(content, identity):
        hint = "leave out --journal, so that the run gets its own"
        return None, [Fault("journal", Span(path.as_posix()), "this journal is of another run", hint)]
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in content.records[1:]:
        groups[record["cell"]].append(record)
    bench, nothing = _bench(arch_schema, settings), cast(Journal, _Nothing())
    left, checked, candidates, new = [], 0, 0, False
    for plan in plans:
        log = CellLog(plan.cell.label, nothing, groups[plan.cell.label])
        looked_at = sum(config_text(arch_schema.schema, one) in log.verdicts for one in plan.candidates)
        candidates += looked_at
        if not _is_done(CellRun(bench, plan, log)):
            left.append(plan)
            checked += looked_at
            new = new or not any(record["is"] == "done" for record in groups[plan.cell.label])
    return Known(path, len(plans) - len(left), candidates, tuple(left), checked, new), faults


def _is_done(run: CellRun) -> bool:
    """Whether the run of a cell comes to its end without asking for anything."""
    try:
        run.run()
    except (_NotKnown, Throttled):
        return False
    return True


def _bench(arch_schema: ArchSchema, settings: Settings) -> Bench:
    nothing = _Nothing()
    return Bench(
        arch_schema,
        settings.policy,
        settings.strategy,
        settings.publish,
        settings.by_energy,
        settings.bar_pct,
        cast(Measurer, nothing),
        cast(Compilers, nothing),
        Streaks(settings.policy.run.faults_in_a_row),
        lambda: None,
    )
