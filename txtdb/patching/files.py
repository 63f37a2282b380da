"""The files of a database as plain data, changed in memory, and written back all or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from txtdb.diff.sides import open_files
from txtdb.faults import Fault, FaultError, Span
from txtdb.files import atomic_write
from txtdb.layers.database import Database
from txtdb.layers.listing import EVIDENCE_FOLDER

# Name below the root → content; in a change None removes the file.
Files = dict[str, bytes]
Change = Mapping[str, bytes | None]


def root_files(root: Path) -> Files:
    """All files of a database folder but the hidden ones. Raises FaultError where one cannot be read."""
    try:
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(_files_below(root))}
    except OSError as error:
        span = Span(Path(error.filename or root).as_posix())
        raise FaultError([Fault("unreadable", span, f"cannot read: {error.strerror}", "")]) from error


def _files_below(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files_below(entry)
        elif entry.is_file():
            yield entry


@contextmanager
def opened(files: Files, database: Database) -> Iterator[Database]:
    """Other files in the place of a database's, opened; spans name its root.

    Evidence, which may be large, is left out: no cell depends on it.
    """
    needed = {name: data for name, data in files.items() if f"/{EVIDENCE_FOLDER}/" not in name}
    with open_files(needed, database.listings[0].label) as other:
        yield other


@dataclass(frozen=True, slots=True)
class _Done:
    path: Path
    before: bytes | None


def write_change(root: Path, change: Change) -> None:
    """Write and remove files below a root: all of them, or none.

    Raises OSError, or what interrupts it, after everything that was done is undone. New content is written before old
    files are removed, so that a crash in between leaves more than there was, and nothing less.
    """
    done: list[_Done] = []
    try:
        for name, data in sorted(change.items(), key=lambda item: item[1] is None):
            path = root / name
            before = path.read_bytes() if path.exists() else None
            if data == before:
                continue
            done.append(_Done(path, before))  # before it is written: an interrupt may come in between
            _put(path, data)
    except BaseException:
        for item in reversed(done):
            _put(item.path, item.before)
        raise


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        atomic_write(path, data)
