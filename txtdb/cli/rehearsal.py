"""`txtdb tune --dry-run`: how much there is to do, how much of it a journal has, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from txtdb.cli.common import EXIT_USAGE, fail, print_faults, print_json
from txtdb.faults import errors
from txtdb.tune.device import DeviceFacts
from txtdb.tune.job import Place, Prepared, Work, work_of
from txtdb.tune.known import Known, early_identity, journals_like, known_of
from txtdb.tune.session import Settings, identity_of
from txtdb.tune.taken import Taken
from txtdb.wording import duration, plural


@dataclass(frozen=True)
class Rehearsal:
    """A run that is not made. `facts` are those of the device; None where it is not opened for this. `taken` is what
    the root has of its name.
    """

    prepared: Prepared
    settings: Settings
    place: Place
    trials: int
    facts: DeviceFacts | None
    taken: Taken | None

    def tell(self, style: str) -> None:
        """Print the numbers. Ends the program where the run would: its journal is damaged, or its name is taken."""
        known = self._known()
        if self.taken and self.facts and self.prepared.plans and (known is None or known.new):
            fail([self.taken.fault()], EXIT_USAGE)
        print_faults([self.taken.note()] if self.taken and not self.facts and self.prepared.plans else [])
        work = self._left(known) if known and self.facts else self._whole()
        counts = {"cell": len(self.prepared.plans), "candidate": self._whole().candidates, "trial": work.trials}
        if style == "json":
            told = {f"{word}s": count for word, count in counts.items()}
            print_json({**told, "estimate_s": round(work.seconds), "journal": _plain(known)})
            return
        words = [_counted(count, word) for word, count in counts.items() if count or word != "trial"]
        click.echo(f"{', '.join(words)}, about {duration(work.seconds)}")
        if known:
            click.echo(self._held(known))

    def _whole(self) -> Work:
        return work_of(self.prepared, self.settings, self.trials)

    def _left(self, known: Known) -> Work:
        """What is left to do; trials of a calibration are counted whole."""
        return work_of(replace(self.prepared, plans=known.left), self.settings, self.trials, known.checked)

    def _held(self, known: Known) -> str:
        held = (
            f"{known.path.as_posix()} has {_counted(known.cells, 'cell')} and {_counted(known.candidates, 'candidate')}"
        )
        if self.facts:
            return f"{held} of these already: the time is for the rest"
        return f"{held} of these already, if device, compiler and kernel are what they were: the time is for all"

    def _journal(self, identity: Mapping[str, Any]) -> Path | None:
        if self.place.file or self.facts:
            path = self.place.path(identity)
            return path if path.exists() else None
        return _one(journals_like(self.place.journals(identity), early_identity(identity)))

    def _known(self) -> Known | None:
        """What the run's journal has; nothing where it is not certain which one that is."""
        facts, arch_schema = self.facts or DeviceFacts({}, {}, {}, ""), self.prepared.arch_schema
        identity = identity_of(arch_schema, self.settings, facts)
        path = self._journal(identity)
        if path is None or find_spec("scipy") is None:  # decisions need it
            return None
        wanted = identity if self.facts else early_identity(identity)
        known, faults = known_of(path, wanted, self.place.repair, arch_schema, self.prepared.plans, self.settings)
        print_faults(faults)
        if errors(faults):
            fail([], EXIT_USAGE)
        return known if known and known.candidates else None


def is_new(prepared: Prepared, settings: Settings, place: Place, identity: Mapping[str, Any]) -> bool:
    """Whether no run with the journal of this one has done all its cells. A journal that cannot be read is told when it
    is opened.
    """
    path = place.path(identity)
    if not path.exists():
        return True
    known, faults = known_of(path, identity, place.repair, prepared.arch_schema, prepared.plans, settings)
    return known.new if known else not errors(faults)


def _one(paths: Sequence[Path]) -> Path | None:
    return paths[0] if len(paths) == 1 else None


def _counted(count: int, word: str) -> str:
    return f"{count} {plural(count, word)}"


def _plain(known: Known | None) -> Mapping[str, Any] | None:
    return {"file": known.path.as_posix(), "cells": known.cells, "candidates": known.candidates} if known else None
