"""Files in canonical form: found, compared with what they would be, rewritten."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from txtdb.faults import Fault, Span
from txtdb.files import atomic_write
from txtdb.model.edit import without_unused
from txtdb.syntax import print_source, read

SUFFIXES = (".txtdb", ".dbpatch")
# Lines end with LF alone: a carriage return is content here, and a change of it is shown.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

ENVIRONMENT_RULES = ("no-path", "no-files", "unreadable", "unwritable")


@dataclass(frozen=True)
class Tidied:
    """One file as it is and its canonical text, which is None where the file has faults."""

    path: Path
    before: bytes
    after: str | None
    faults: tuple[Fault, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether rewriting would change the file."""
        return self.after is not None and self.after.encode() != self.before

    @property
    def state(self) -> str:
        """`faulty`, `changed` or `unchanged`."""
        return "faulty" if self.faults else "changed" if self.changes else "unchanged"


def find_files(paths: Iterable[Path]) -> tuple[list[Path], list[Fault]]:
    """Files as given, and all tables and patches below folders, each once. Hidden files and folders are passed over."""
    found: dict[Path, None] = {}
    faults: list[Fault] = []
    for path in paths:
        if path.is_dir():
            files = sorted(_below(path), key=lambda file: file.as_posix())
            if not files:
                hint = f"the files that are formatted end with {' or '.join(SUFFIXES)}"
                faults.append(Fault("no-files", Span(path.as_posix()), "no tables or patches in this folder", hint))
            found |= dict.fromkeys(files)
        elif path.is_file():
            found[path] = None
        else:
            hint = "name a table, a patch, or a folder"
            faults.append(Fault("no-path", Span(path.as_posix()), "no such file or folder", hint))
    return list(found), faults


def _below(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(entry)
        elif entry.suffix in SUFFIXES:
            yield entry


def tidy(path: Path, prune: bool = False) -> Tidied:
    """Read a file and lay it out anew; nothing is written. `prune` leaves out palette entries that no cell uses."""
    try:
        data = path.read_bytes()
    except OSError as error:
        fault = Fault("unreadable", Span(path.as_posix()), f"cannot read: {error.strerror}", "")
        return Tidied(path, b"", None, (fault,))
    source, faults = read(data, path.as_posix())
    if source is None or faults:
        return Tidied(path, data, None, tuple(faults))
    return Tidied(path, data, print_source(without_unused(source) if prune else source))


def rewrite(tidied: Tidied) -> Tidied:
    """Write a file that changes, whole or not at all; what comes back has the fault of a file that could not be.

    A link stays a link; the file it names is written.
    """
    if tidied.after is None or not tidied.changes:
        return tidied
    try:
        atomic_write(tidied.path.resolve(), tidied.after.encode())
    except OSError as error:
        fault = Fault("unwritable", Span(tidied.path.as_posix()), f"cannot write: {error.strerror}", "")
        return Tidied(tidied.path, tidied.before, None, (fault,))
    return tidied


def unified_diff(tidied: Tidied) -> str:
    """What rewriting would change, as a diff that `patch -p0` applies; empty where nothing changes."""
    if tidied.after is None:
        return ""
    name = tidied.path.as_posix()
    before, after = (_LINE.findall(text) for text in (tidied.before.decode(), tidied.after))
    lines = difflib.unified_diff(before, after, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
