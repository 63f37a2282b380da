"""SQLite databases out of files that are not trusted: plain ones, and ones in a `.tar.xz`.

Nothing is ever extracted by a name that an archive states: the bytes of its one member go into memory, bounded in size,
and SQLite opens them there.
"""

from __future__ import annotations

import io
import lzma
import os
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path

from txtdb.faults import Fault, Span

PLAIN_SUFFIX = ".sqlite3"
ARCHIVE_SUFFIX = ".sqlite3.tar.xz"
MAX_BYTES = 1 << 30
# xz needs a dictionary as large as its stream says; the largest preset asks for 64 MiB.
_MAX_DECODER_BYTES = 1 << 28
_MAGIC = b"SQLite format 3\x00"


def find_sources(source: Path) -> list[Path]:
    """The SQLite files and archives at or below a path, sorted; links to folders are not followed."""
    if source.is_file():
        return [source]
    found = [Path(folder, name) for folder, _, names in os.walk(source) for name in names]
    return sorted(path for path in found if path.name.endswith((PLAIN_SUFFIX, ARCHIVE_SUFFIX)))


def open_database(path: Path, file: str) -> sqlite3.Connection | Fault:
    """A private copy, in memory, of the database in a file, checked for damage. `file` is the name that spans carry."""
    data = _read(path, file)
    return data if isinstance(data, Fault) else _connect(data, file)


def _read(path: Path, file: str) -> bytes | Fault:
    pending = [f"{path.name}{suffix}" for suffix in ("-journal", "-wal") if _is_filled(path, suffix)]
    if pending:
        message = f"half-written: {pending[0]} holds changes that are not in it"
        return _damaged(file, message, "open and close it once with SQLite")
    try:
        if path.stat().st_size > MAX_BYTES:
            return _too_large(file)
        data = path.read_bytes()
    except OSError as error:
        return Fault("unreadable", Span(file), f"cannot be read: {error.strerror}", "")
    if path.name.endswith(PLAIN_SUFFIX):
        return data
    unpacked = _decompress(data, file)
    return unpacked if isinstance(unpacked, Fault) else _only_member(unpacked, file)


def _is_filled(path: Path, suffix: str) -> bool:
    beside = path.with_name(path.name + suffix)
    return beside.is_file() and beside.stat().st_size > 0


def _decompress(data: bytes, file: str) -> bytes | Fault:
    """All xz streams of an archive, up to MAX_BYTES: an archive is read to its end, so that a cut one is noticed."""
    parts: list[bytes] = []
    left = MAX_BYTES
    try:
        while data:
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_DECODER_BYTES)
            part = decoder.decompress(data, max_length=left + 1)
            left -= len(part)
            if left < 0:
                return _too_large(file)
            if not decoder.eof:
                return _damaged(file, "half-written: the archive ends in the middle")
            parts.append(part)
            data = decoder.unused_data.lstrip(b"\0")
    except lzma.LZMAError as error:
        return _damaged(file, f"corrupt archive: {error}")
    return b"".join(parts)


def _only_member(data: bytes, file: str) -> bytes | Fault:
    """The content of the one member of a tar, which must be a regular file named *.sqlite3."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            members = list(tar)
            wrong = next(filter(None, map(_member_trouble, members)), None)
            if wrong or len(members) != 1:
                return Fault(
                    "hostile-archive",
                    Span(file),
                    wrong or f"the archive has {len(members)} members",
                    f"it must hold one regular file named *{PLAIN_SUFFIX}, without a path that leaves its folder",
                )
            stream = tar.extractfile(members[0])
            content = stream.read() if stream else b""
    except (tarfile.TarError, EOFError, ValueError) as error:
        return _damaged(file, f"corrupt archive: {error}")
    if len(content) != members[0].size:
        return _damaged(file, "half-written: the archive ends in the middle of its member")
    return content


def _member_trouble(member: tarfile.TarInfo) -> str | None:
    if not member.isreg() or member.sparse is not None:
        return f"member {member.name!r} is no regular file"
    parts = member.name.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or ":" in parts[0] or "\0" in member.name:
        return f"member {member.name!r} names a place outside its folder"
    return None if member.name.endswith(PLAIN_SUFFIX) else f"member {member.name!r} is not named *{PLAIN_SUFFIX}"


def _connect(data: bytes, file: str) -> sqlite3.Connection | Fault:
    trouble = _header_trouble(data)
    if trouble:
        return _damaged(file, trouble)
    # A database kept in WAL mode says so in bytes 18 and 19, which a copy in memory cannot have; its content is whole.
    content = data[:18] + b"\1\1" + data[20:]
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(content)
        for pragma in ("trusted_schema = off", "cell_size_check = on", "query_only = on"):
            connection.execute(f"PRAGMA {pragma}")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        connection.close()
        return _damaged(file, f"corrupt database: {error}")
    if verdict != "ok":
        connection.close()
        return _damaged(file, f"corrupt database: {' '.join(str(verdict).split())}")
    return connection


def _header_trouble(data: bytes) -> str | None:
    """What the first 100 bytes tell: a file shorter than its pages was cut while it was written."""
    if not data.startswith(_MAGIC) or len(data) < 100:
        return "no SQLite database"
    page = int.from_bytes(data[16:18], "big")
    size = (65536 if page == 1 else page) * int.from_bytes(data[28:32], "big")
    return f"half-written: {len(data)} of {size} bytes" if len(data) < size else None


def _damaged(file: str, message: str, hint: str = "get a whole copy of the file") -> Fault:
    return Fault("damaged-source", Span(file), message, hint)


def _too_large(file: str) -> Fault:
    return Fault("source-too-large", Span(file), f"it unpacks to more than {MAX_BYTES} bytes", "")


def iterate_tables(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """(type, name) of everything in a database but indexes and SQLite's own tables, in order of name."""
    query = "SELECT type, name, sql FROM sqlite_master WHERE type != 'index' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    for kind, name, sql in sorted(connection.execute(query).fetchall(), key=lambda item: str(item[1])):
        virtual = kind == "table" and not str(sql).upper().startswith("CREATE TABLE")
        yield "virtual table" if virtual else str(kind), str(name)
