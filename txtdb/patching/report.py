"""An outcome for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from txtdb.diff.edits import CellEdit
from txtdb.diff.folding import fold_edits
from txtdb.diff.render import (
    cell_json,
    change_text,
    content_json,
    content_words,
    counted,
    group_functionals,
    place_text,
)
from txtdb.model.schema import Schema
from txtdb.model.table import functional_text
from txtdb.patching.outcome import Action, MovedGround, Outcome, Step


def outcome_lines(outcome: Outcome, dry_run: bool) -> Iterator[str]:
    """What is done, or would be, and the cells to look at."""
    yield from _ground_lines(outcome)
    yield from _answer_lines(outcome)
    if outcome.faults:
        yield "nothing is written"
        return
    for step in outcome.steps:
        yield f"{outcome.root.as_posix()}/{step.file}: {_step_text(step, dry_run)}"
    if not outcome.steps:
        yield "nothing to do"
    for covered in outcome.covered:
        cells = counted(covered.cells, "cell")
        yield f"{covered.file}: {covered.by} sets {cells} of it and stays above; --on-top puts this patch over it"
    for unproven in outcome.unproven:
        cells = counted(unproven.cells, "cell")
        yield f"{unproven.file}: sets {cells} by hand that evidence decided: `txtdb verify` will refuse the result"
    for file in outcome.stale:
        yield f"{file}: other contents lie under this patch now: look at it, then `txtdb patch rebase` it"


def _step_text(step: Step, dry_run: bool) -> str:
    done = str(step.action) if step.action is Action.UNCHANGED or not dry_run else f"would be {step.action}"
    cells = "" if step.cells is None else f", {counted(step.cells, 'cell')}"
    return f"{done}{cells}{f', was {step.was}' if step.was else ''}"


def _ground_lines(outcome: Outcome) -> Iterator[str]:
    for file, moved in groupby(outcome.ground, key=lambda item: item.file):
        cells = list(moved)
        known = cells[0].is_known
        told = f"other contents lie under {counted(len(cells), 'cell')}"
        told = told if known else "what it was made over is not known"
        yield f"{file}: {told}"
        yield from _cell_lines(outcome.schemas[cells[0].iface], list(map(_as_edit, cells)), known)


def _as_edit(moved: MovedGround) -> CellEdit:
    return CellEdit(moved.arch, moved.iface, moved.functional, moved.bins, moved.old, moved.new, None, None)


def _answer_lines(outcome: Outcome) -> Iterator[str]:
    for (arch, iface), edits in groupby(outcome.answers, key=lambda edit: (edit.arch, edit.iface)):
        yield f"{arch} {iface}: lookups change"
        yield from _cell_lines(outcome.schemas[iface], list(edits), True)


def _cell_lines(schema: Schema, edits: Sequence[CellEdit], known: bool) -> Iterator[str]:
    for functional, own in group_functionals(edits):
        yield f"  {functional_text(schema, functional)}"
        for folded in fold_edits(schema, own):
            edit, count = folded.edits[0], len(folded.edits)
            change = change_text(edit.old, edit.new) if known else f"now {content_words(edit.new)}"
            yield f"    {place_text(schema, folded)}{f' ({count} cells)' if count > 1 else ''}: {change}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The same as plain data; docs/patches.md describes it. With faults no file is named: none is written."""
    steps = () if outcome.faults else outcome.steps
    return {
        "root": outcome.root.as_posix(),
        "files": [{**asdict(step), "action": str(step.action)} for step in steps],
        "ground": [_ground_json(outcome, moved) for moved in outcome.ground],
        "stale": list(outcome.stale),
        "covered": [asdict(covered) for covered in outcome.covered],
        "unproven": [asdict(unproven) for unproven in outcome.unproven],
        "answers": [cell_json(outcome.schemas[edit.iface], edit) for edit in outcome.answers],
    }


def _ground_json(outcome: Outcome, moved: MovedGround) -> dict[str, Any]:
    return {
        "file": moved.file,
        "arch": moved.arch,
        "iface": moved.iface,
        "functional": outcome.schemas[moved.iface].functional_dict(moved.functional),
        "at": list(moved.bins),
        "old": content_json(moved.old),
        "new": content_json(moved.new),
        "known": moved.is_known,
    }
