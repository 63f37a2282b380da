"""Archives and databases that cannot be trusted."""

from __future__ import annotations

import io
import lzma
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.formats.source import archive, kernel_database, kernel_rows, tar
from txtdb.faults import Fault
from txtdb.formats import archive as module
from txtdb.formats.archive import find_sources, iterate_tables, open_database

# Enough rows for several pages.
BIG = kernel_database(kernel_rows(bins=(16, 32, 64, 128, 256, 512)))


def opened(tmp_path: Path, data: bytes, name: str = "x.sqlite3.tar.xz") -> sqlite3.Connection | Fault:
    path = tmp_path / name
    path.write_bytes(data)
    return open_database(path, path.as_posix())


def fault(tmp_path: Path, data: bytes, name: str = "x.sqlite3.tar.xz") -> Fault:
    result = opened(tmp_path, data, name)
    assert isinstance(result, Fault)
    assert result.span.file == (tmp_path / name).as_posix()
    return result


def special(name: str, kind: bytes, target: str = "") -> bytes:
    """A tar.xz whose one member is no regular file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as out:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        out.addfile(info)
    return lzma.compress(stream.getvalue())


def count(connection: sqlite3.Connection | Fault) -> int:
    assert isinstance(connection, sqlite3.Connection)
    return int(connection.execute('SELECT count(*) FROM "FLASH$attn_fwd"').fetchone()[0])


@pytest.mark.parametrize("name", ["x.sqlite3", "./attn_fwd.sqlite3", "some/folder/x.sqlite3"])
def test_one_member_below_any_folder_is_read(tmp_path: Path, name: str) -> None:
    assert count(opened(tmp_path, archive(kernel_database(), name))) == 36


def test_a_plain_database_is_read(tmp_path: Path) -> None:
    assert count(opened(tmp_path, kernel_database(), "x.sqlite3")) == 36


def test_an_archive_of_several_streams_is_read_to_the_end(tmp_path: Path) -> None:
    whole = tar({"x.sqlite3": kernel_database()})
    data = lzma.compress(whole[:5000]) + lzma.compress(whole[5000:]) + b"\0" * 8
    assert count(opened(tmp_path, data)) == 36


@pytest.mark.parametrize(
    "name",
    ["/etc/x.sqlite3", "../x.sqlite3", "a/../../x.sqlite3", "..\\x.sqlite3", "C:\\x.sqlite3", "\\\\host\\x.sqlite3"],
)
def test_hostile_paths_are_refused(tmp_path: Path, name: str) -> None:
    found = fault(tmp_path, archive(kernel_database(), name))
    assert found.rule == "hostile-archive"
    assert "outside its folder" in found.message
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["x.sqlite3.tar.xz"]


HOSTILE_MEMBERS: dict[str, Callable[[], bytes]] = {
    "symlink": lambda: special("x.sqlite3", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": lambda: special("x.sqlite3", tarfile.LNKTYPE, "/etc/passwd"),
    "folder": lambda: special("x.sqlite3", tarfile.DIRTYPE),
    "device": lambda: special("x.sqlite3", tarfile.CHRTYPE),
    "fifo": lambda: special("x.sqlite3", tarfile.FIFOTYPE),
    "two files": lambda: lzma.compress(tar({"x.sqlite3": b"", "y.sqlite3": b""})),
    "no file": lambda: lzma.compress(tar({})),
    "another suffix": lambda: archive(kernel_database(), "x.sh"),
}


@pytest.mark.parametrize("case", HOSTILE_MEMBERS)
def test_hostile_members_are_refused(tmp_path: Path, case: str) -> None:
    assert fault(tmp_path, HOSTILE_MEMBERS[case]()).rule == "hostile-archive"


def test_a_bomb_is_refused_without_being_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    data = archive(b"\0" * (64 << 20))
    assert len(data) < 1 << 20
    assert fault(tmp_path, data).rule == "source-too-large"
    assert fault(tmp_path, b"\0" * ((1 << 20) + 1), "x.sqlite3").rule == "source-too-large"


def test_zeros_behind_the_member_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    data = lzma.compress(tar({"x.sqlite3": kernel_database()}) + b"\0" * (2 << 20))
    assert fault(tmp_path, data).rule == "source-too-large"


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_half_written_archive_is_a_fault(tmp_path: Path, kept: float) -> None:
    data = archive(kernel_database())
    assert fault(tmp_path, data[: int(len(data) * kept)]).rule in ("damaged-source", "hostile-archive")


def test_a_tar_that_was_cut_before_it_was_packed_is_a_fault(tmp_path: Path) -> None:
    assert fault(tmp_path, lzma.compress(tar({"x.sqlite3": BIG})[:9000])).rule == "damaged-source"


@pytest.mark.parametrize("at", [10, 40, 500, -20])
def test_a_flipped_byte_in_an_archive_is_a_fault(tmp_path: Path, at: int) -> None:
    data = bytearray(archive(kernel_database()))
    data[at] ^= 0xFF
    assert fault(tmp_path, bytes(data)).rule == "damaged-source"


@pytest.mark.parametrize("kept", [0, 50, 100, 4096, 8192, -1])
def test_a_half_written_database_is_a_fault(tmp_path: Path, kept: int) -> None:
    assert fault(tmp_path, BIG[:kept], "x.sqlite3").rule == "damaged-source"


def test_pages_of_garbage_are_a_fault(tmp_path: Path) -> None:
    data = BIG[:4096] + b"\xa5" * (len(BIG) - 4096)
    assert fault(tmp_path, data, "x.sqlite3").rule == "damaged-source"


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_database_with_pending_changes_is_a_fault(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"x.sqlite3{suffix}").write_bytes(b"pending")
    assert "half-written" in fault(tmp_path, kernel_database(), "x.sqlite3").message


def test_a_database_in_wal_mode_without_pending_changes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(kernel_database())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.read_bytes()[18:20] == b"\2\2"
    assert count(open_database(path, "x")) == 36


def test_reading_leaves_the_source_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(kernel_database())
    connection = open_database(path, "x")
    assert isinstance(connection, sqlite3.Connection)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute('DELETE FROM "FLASH$attn_fwd"')
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite3"]


def test_sources_are_found_at_any_depth_in_order(tmp_path: Path) -> None:
    for name in ("b/x.sqlite3", "a/deep/er/y.sqlite3.tar.xz", "LICENSE", "z.sqlite3-journal"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in find_sources(tmp_path)] == [
        "a/deep/er/y.sqlite3.tar.xz",
        "b/x.sqlite3",
    ]
    assert find_sources(tmp_path / "LICENSE") == [tmp_path / "LICENSE"]


def test_views_and_virtual_tables_are_told_apart_from_tables() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE plain (a)")
    connection.execute("CREATE VIEW seen AS SELECT * FROM plain")
    connection.execute("CREATE INDEX quick ON plain (a)")
    connection.execute("CREATE VIRTUAL TABLE made USING fts5(a)")
    found = {name: kind for kind, name in iterate_tables(connection)}
    assert (found["plain"], found["seen"], found["made"]) == ("table", "view", "virtual table")
    assert "quick" not in found
