"""Where the evidence of a run may be written: looked at before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from txtdb.cli.outputs import other_file_faults, unwritable
from txtdb.evidence.encode import EVIDENCE_START
from txtdb.faults import Fault, Span
from txtdb.files import replaced_file
from txtdb.layers.listing import ARCHS_FILE, EVIDENCE_FOLDER
from txtdb.tune.publish import can_write


def asked_faults(file: Path | None, journal: Path | None, roots: Iterable[Path]) -> list[Fault]:
    """Why `--evidence-out FILE` or `--journal` is refused, as far as that is known before there is a journal.

    Databases have the evidence that their tables and patches name; what is kept of a run has no place there.
    """
    if journal and journal.absolute().parent.name == EVIDENCE_FOLDER and _database_around(journal, roots):
        message, hint = (
            "the journal would lie beside published evidence, and its own beside it",
            "name a file elsewhere",
        )
        return [Fault("unwritable", Span(journal.as_posix()), message, hint)]
    if file is None:
        return []
    holder = _database_around(file, roots)
    if holder:
        message = f"the file would lie in the database {holder.as_posix()}"
        hint = "name a file elsewhere; a run that publishes something writes its evidence there by itself"
        return [Fault("unwritable", Span(file.as_posix()), message, hint)]
    return evidence_faults(file, journal)


def evidence_faults(file: Path, journal: Path | None) -> list[Fault]:
    """Why the evidence of a run cannot be written to a file: not there, or something else would be lost."""
    if journal and _same(file, journal):
        return [Fault("unwritable", Span(file.as_posix()), "this is the journal of the run", "name another file")]
    try:
        place = replaced_file(file)
        shut = place is not None and not can_write(place.parent)
    except OSError as error:
        return [unwritable(file, error)]
    if shut:
        message, hint = "no file can be written here", "name a file in a folder that you may write to"
        return [Fault("unwritable", Span(file.as_posix()), message, hint)]
    return other_file_faults(file, [EVIDENCE_START])


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _database_around(file: Path, roots: Iterable[Path]) -> Path | None:
    """The database that a file would lie in: one of the run's, or any other."""
    known = {root.resolve() for root in roots}
    around = Path(os.path.realpath(file)).parents
    return next((folder for folder in around if folder in known or _is_database(folder)), None)


def _is_database(folder: Path) -> bool:
    try:
        return (folder / ARCHS_FILE).is_file()
    except OSError:
        return False
