"""The journal of a run: every measurement, as soon as it is made, so that a run can be taken up where it ended.

A text file, one record a line: a checksum, a blank, a JSON object. It is only ever appended to. Each line is handed to
the operating system before the next measurement starts, so that killing the tuner loses at most the measurement in
flight; the file is forced to the disk before a candidate runs for the first time and when a cell is done, so that a
candidate that takes the machine down is known afterwards.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from txtdb.faults import Fault, Severity, Span
from txtdb.files import naming
from txtdb.locking import NOTHING_LOCKED, lock

JOURNAL_VERSION = 1
SUFFIX = ".journal"
# How a journal starts. Its first line may have been cut anywhere; less than _TELLING tells nothing.
_CHECKSUM, _START = re.compile(rb"[0-9a-f]{8}"), b' {"identity":'
_TELLING = b' {"'
_BUSY = "wait until it is done, or name another folder with --journal-dir, where all is measured anew"

Record = Mapping[str, Any]


def journal_name(identity: Mapping[str, Any]) -> str:
    """The file name of the journal of a run: runs with an equal identity share it, others never do."""
    digest = sha256(_json(identity).encode()).hexdigest()
    return f"{identity['iface']}-{identity['arch']}-{digest[:16]}{SUFFIX}"


@dataclass(frozen=True)
class Content:
    """What a journal holds. `size` is how many of its bytes are sound; what follows is a torn tail."""

    records: tuple[Record, ...]
    size: int


class Journal:
    """A journal that is open for writing; nobody else can open it meanwhile."""

    def __init__(self, path: Path, stream: IO[bytes], records: tuple[Record, ...]) -> None:
        self.path = path
        self.records = records
        self._stream = stream
        self._is_told = self._is_there()  # not by file systems that number files as they like
        self._mutex = threading.Lock()

    def append(self, record: Record, *, force: bool = False) -> None:
        """Write one record; `force` waits until it is on the disk. Threads may call this.

        Raises OSError, as of a full disk: the line may be torn then, and what is written later would go on with it. So
        it does where somebody removed or replaced the file: nothing that is written would be found again.
        """
        with self._mutex, naming(self.path):
            self._stream.write(_line(record))
            self._stream.flush()
            if self._is_told and not self._is_there():
                raise FileNotFoundError(errno.ENOENT, "the journal was removed during the run")
            if force:
                os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Force the file to the disk and let others have it, even where that fails. Raises OSError."""
        with self._mutex, naming(self.path):
            try:
                if not self._stream.closed:
                    self._stream.flush()
                    os.fsync(self._stream.fileno())
            finally:
                self._stream.close()

    def _is_there(self) -> bool:
        """Whether the name still leads to the file that is open."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._stream.fileno()))
        except FileNotFoundError:
            return False


def open_journal(path: Path, identity: Mapping[str, Any], repair: bool) -> tuple[Journal | None, list[Fault]]:
    """Open the journal of a run, or start it.

    A torn last line is dropped with a warning. None, with the file as it was, when another tuner has it open, when it
    is of another run or no journal, or when a line before the last is damaged; `repair` cuts the file there, and keeps
    what it cuts in a file beside it. Where nothing can be locked a warning says so. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a+b")
    journal = None
    try:
        with naming(path):
            is_free, notes = _locked(path, stream)
            if not is_free:
                return None, [_fault(path, 0, "another tuner is writing this journal", _BUSY)]
            journal, faults = _opened(path, stream, identity, repair)
    finally:
        if journal is None:
            stream.close()
    return journal, [*notes, *faults]


def _locked(path: Path, stream: IO[bytes]) -> tuple[bool, list[Fault]]:
    """Whether the journal is this process's, as far as the file system can tell, and a warning where it cannot."""
    try:
        return lock(stream), []
    except OSError as error:
        if error.errno not in NOTHING_LOCKED:
            raise
    hint = "let no other tuner write this journal meanwhile, or name a folder elsewhere with --journal-dir"
    return True, [_fault(path, 0, "nothing can be locked here", hint, Severity.WARNING)]


def _opened(
    path: Path, stream: IO[bytes], identity: Mapping[str, Any], repair: bool
) -> tuple[Journal | None, list[Fault]]:
    stream.seek(0)
    data = stream.read()
    content, faults = read_journal(data, path, repair)
    if content is None:
        return None, faults
    wrong = version_faults(content, path)
    if wrong:
        return None, wrong
    if content.records:
        other = _differences(content.records[0].get("identity"), identity)
        if other:
            message = f"this journal is of another run: {'; '.join(other)}"
            return None, [_fault(path, 1, message, "leave out --journal, so that the run gets its own")]
    if content.size < len(data):
        if repair and not _is_torn(data, content.size):
            _beside(path).write_bytes(data[content.size :])
        stream.truncate(content.size)
    journal = Journal(path, stream, content.records[1:])
    if not content.records:
        journal.append({"is": "journal", "version": JOURNAL_VERSION, "identity": identity}, force=True)
    return journal, faults


def version_faults(content: Content, path: Path) -> list[Fault]:
    """What forbids to go on with a journal of another version."""
    version = content.records[0].get("version") if content.records else JOURNAL_VERSION
    if version == JOURNAL_VERSION:
        return []
    message = f"this journal has version {_short(version)}; this program reads {JOURNAL_VERSION}"
    return [_fault(path, 1, message, "name another folder with --journal-dir")]


def read_journal(data: bytes, path: Path, repair: bool = False) -> tuple[Content | None, list[Fault]]:
    """The records of a journal. None where a line before the last is damaged, unless that is to be repaired."""
    records: list[Record] = []
    size = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        record = _record(line)
        is_header = record is not None and record.get("is") == "journal"
        if number == 1 and not is_header and not _is_journal(data):
            return None, [_fault(path, 1, "this is no journal", "name another file with --journal, or remove this one")]
        if record is None or is_header != (number == 1) or (number > 1 and "cell" not in record):
            return _damaged(Content(tuple(records), size), number, data, path, repair)
        records.append(record)
        size += len(line)
    return Content(tuple(records), size), []


def _damaged(
    content: Content, number: int, data: bytes, path: Path, repair: bool
) -> tuple[Content | None, list[Fault]]:
    if _is_torn(data, content.size):
        message = "the last line is incomplete: it is dropped"
        return content, [_fault(path, number, message, "what it held is measured again", Severity.WARNING)]
    if repair:
        message = "the line is damaged: the journal is cut here"
        return content, [_fault(path, number, message, f"the rest is kept in {_beside(path).name}", Severity.WARNING)]
    hint = "run again with --repair to cut the journal here and measure what followed again"
    return None, [_fault(path, number, "the line is damaged", hint)]


def _is_journal(data: bytes) -> bool:
    """Whether a file whose first line is damaged was a journal: it starts like one, or one of its lines is sound."""
    start = data[8 : 8 + len(_START)]
    starts_so = start.startswith(_TELLING) and _START.startswith(start) and _CHECKSUM.match(data) is not None
    return starts_so or any(_record(line) is not None for line in data.splitlines(keepends=True))


def _beside(path: Path) -> Path:
    """Where what is cut off a journal is kept: `a.journal.damaged`, or the first of `a.journal.damaged-2`, … free."""
    names = (f"{path.name}.damaged{f'-{number}' * (number > 1)}" for number in count(1))
    return next(place for name in names if not (place := path.with_name(name)).exists())


def _is_torn(data: bytes, size: int) -> bool:
    """Whether what follows the sound part is one line that was not written to its end."""
    return b"\n" not in data[size:-1] and not data.endswith(b"\n")


def _record(line: bytes) -> Record | None:
    """The record of a line; None where the line is not as it was written."""
    checksum, _, text = line.partition(b" ")
    if not text.endswith(b"\n") or checksum != _checksum(text[:-1]):
        return None
    with suppress(ValueError):
        record = json.loads(text)
        return record if _is_record(record) else None
    return None


def _is_record(value: object) -> bool:
    """Whether a value says what it is, and of which cell where it is of one."""
    return isinstance(value, dict) and isinstance(value.get("is"), str) and isinstance(value.get("cell", ""), str)


def _line(record: Record) -> bytes:
    text = _json(record).encode()
    return _checksum(text) + b" " + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x" % crc32(text)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _differences(theirs: object, ours: Mapping[str, Any]) -> list[str]:
    """In what two identities differ, for people."""
    if not isinstance(theirs, dict):
        return ["it does not say of which"]
    return [
        f"{name} is {_short(theirs.get(name))}, not {_short(ours.get(name))}"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != json.loads(_json(ours.get(name)))
    ]


def _short(value: object, length: int = 60) -> str:
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _fault(path: Path, line: int, message: str, hint: str, severity: Severity = Severity.ERROR) -> Fault:
    span = Span(path.as_posix(), line, 1 if line else 0, line, 1 if line else 0)
    return Fault("journal", span, message, hint, severity)
