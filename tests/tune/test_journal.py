"""The journal's file: checksums, torn tails, repair, locks."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from txtdb.tune.journal import Journal, journal_name, open_journal

IDENTITY = {"iface": "attn_fwd", "arch": "gfxA", "policy": {"seed": 1}}
RECORDS = [{"cell": "64 @ 64", "is": "compiled", "config": f"BLOCK_M={number} é"} for number in range(5)]


def opened(path: Path, repair: bool = False) -> Journal:
    journal, faults = open_journal(path, IDENTITY, repair)
    assert journal is not None, faults
    return journal


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "new" / "folder" / "a.journal"
    journal = opened(path)
    for record in RECORDS:
        journal.append(record)
    journal.close()
    return path


def test_what_is_written_is_read(path):
    journal = opened(path)
    assert list(journal.records) == RECORDS
    journal.append({"is": "more", "cell": "64 @ 64"}, force=True)
    journal.close()
    assert opened(path).records == (*RECORDS, {"is": "more", "cell": "64 @ 64"})


def test_names_differ_with_anything_that_identifies_a_run_and_not_with_its_order():
    name = journal_name(IDENTITY)
    assert name.startswith("attn_fwd-gfxA-")
    assert journal_name(dict(reversed(IDENTITY.items()))) == name
    assert journal_name({**IDENTITY, "policy": {"seed": 2}}) != name


@pytest.mark.parametrize("cut", range(1, 40))
def test_row_082_a_file_cut_anywhere_in_its_last_record_loses_that_record_alone(path, cut):
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    journal, faults = open_journal(path, IDENTITY, repair=False)
    assert journal is not None
    assert list(journal.records) == RECORDS[:-1]
    assert [(fault.severity, fault.span.line) for fault in faults] == [("warning", 6)]
    journal.append(RECORDS[-1])
    journal.close()
    assert path.read_bytes() == data


@pytest.mark.parametrize("place", range(0, 700, 23))
def test_row_082_any_changed_byte_is_found(path, place):
    data = bytearray(path.read_bytes())
    place %= len(data) - 1
    data[place] ^= 1
    path.write_bytes(data)
    journal, faults = open_journal(path, IDENTITY, repair=False)
    assert journal is None
    assert [fault.span.line for fault in faults] == [bytes(data[:place]).count(b"\n") + 1]
    assert path.read_bytes() == data


def test_row_082_a_file_that_is_damaged_from_its_start_can_be_repaired_too(path):
    path.write_bytes(b"\0" * 100 + b"\n" + path.read_bytes())
    assert open_journal(path, IDENTITY, repair=False)[0] is None
    assert opened(path, repair=True).records == ()
    assert len(path.with_name("a.journal.damaged").read_bytes()) > 100


def test_row_082_what_every_repair_cuts_is_kept(path):
    whole = path.read_bytes().splitlines(keepends=True)
    for turn in range(3):
        path.write_bytes(b"".join([*whole[:3], b"%d\n" % turn, *whole[4:]]))
        assert "--repair" in open_journal(path, IDENTITY, repair=False)[1][0].hint
        journal, (fault,) = open_journal(path, IDENTITY, repair=True)
        assert journal
        journal.close()
        assert fault.hint == f"the rest is kept in a.journal.damaged{('', '-2', '-3')[turn]}"
    kept = {name: path.with_name(f"a.journal.damaged{name}").read_bytes() for name in ("", "-2", "-3")}
    assert kept == {name: b"".join([b"%d\n" % turn, *whole[4:]]) for turn, name in enumerate(kept)}


NO_JOURNALS = {
    "a diary": b"Dear diary, no newline",
    "a port": b"4711",
    "a revision": b"deadbeef",
    "a revision and more": b"deadbeef ",
    "a date and words": b"20261130 deploy window",
    "a line of JSON": b'deadbeef {"identify": 1}',
    "lines": b"first\nsecond\n",
    "a record without a checksum": b'00000000 {"is":"journal"}\n',
    "nothing but zeros": b"\0" * 4096,
}


@pytest.mark.parametrize("repair", [False, True], ids=["", "repair"])
@pytest.mark.parametrize("name", ["port.txt", "diary.journal"])
@pytest.mark.parametrize("content", NO_JOURNALS.values(), ids=NO_JOURNALS)
def test_what_never_was_a_journal_is_left_alone(tmp_path, content, name, repair):
    path = tmp_path / name
    path.write_bytes(content)
    journal, (fault,) = open_journal(path, IDENTITY, repair)
    assert (journal, fault.message, path.read_bytes()) == (None, "this is no journal", content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [11, 15, 21, 22, 60, -1])
def test_row_082_a_first_line_that_was_not_written_to_its_end_is_written_anew(tmp_path, size):
    path = tmp_path / "a.journal"
    opened(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    journal, (fault,) = open_journal(path, IDENTITY, repair=False)
    assert journal is not None
    journal.close()
    assert (fault.severity, path.read_bytes()) == ("warning", whole)


@pytest.mark.parametrize(
    "record",
    [
        {"cell": "64 @ 64"},
        {"is": 1},
        {"is": "compiled", "cell": {}},
        {"is": "compiled"},
        {"is": "journal", "version": 1, "identity": IDENTITY},
    ],
)
def test_a_line_that_no_tuner_writes_is_damaged_whatever_its_checksum(path, record):
    journal = opened(path)
    journal.append(record)
    journal.append(RECORDS[0])
    journal.close()
    found, faults = open_journal(path, IDENTITY, repair=False)
    assert found is None
    assert [(fault.message, fault.span.line) for fault in faults] == [("the line is damaged", 7)]


def test_a_journal_of_another_version_is_refused_and_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    monkeypatch.setattr("txtdb.tune.journal.JOURNAL_VERSION", 2)
    opened(path).close()
    data = path.read_bytes()
    monkeypatch.undo()
    journal, faults = open_journal(path, IDENTITY, repair=True)
    assert journal is None
    assert faults[0].message == "this journal has version 2; this program reads 1"
    assert path.read_bytes() == data


def test_an_empty_file_is_a_new_journal(tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(b"")
    assert opened(path).records == ()


def test_a_journal_of_another_run_is_left_alone(path):
    data = path.read_bytes()
    journal, (fault,) = open_journal(path, {**IDENTITY, "policy": {"seed": 2}}, repair=True)
    assert journal is None
    assert fault.message == 'this journal is of another run: policy is {"seed":1}, not {"seed":2}'
    assert path.read_bytes() == data


def test_a_journal_has_one_writer(path):
    first = opened(path)
    journal, (fault,) = open_journal(path, IDENTITY, repair=False)
    assert journal is None
    assert fault.message == "another tuner is writing this journal"
    first.close()
    assert opened(path)


def _append(path: Path, number: int) -> None:
    journal = None
    while journal is None:
        journal, faults = open_journal(path, IDENTITY, repair=False)
        assert [fault.message for fault in faults] in ([], ["another tuner is writing this journal"])
    for turn in range(50):
        journal.append({"is": "x", "cell": "64 @ 64", "number": number, "turn": turn})
    journal.close()


def test_row_114_processes_that_start_together_on_a_missing_folder_lose_nothing(tmp_path):
    path = tmp_path / "missing" / "a.journal"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append, args=(path, number)) for number in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    records = opened(path).records
    assert {(record["number"], record["turn"]) for record in records} == {(n, t) for n in range(8) for t in range(50)}
    assert len(records) == 400


def test_where_nothing_can_be_locked_a_run_goes_on_with_a_warning(path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", refused(errno.ENOSYS))
    journal, (fault,) = open_journal(path, IDENTITY, repair=False)
    assert journal is not None
    assert list(journal.records) == RECORDS
    assert (fault.severity, fault.message) == ("warning", "nothing can be locked here")
    assert "--journal-dir" in fault.hint


def test_another_error_of_a_lock_names_the_journal(path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", refused(errno.EIO))
    with pytest.raises(OSError, match="Input/output error") as raised:
        open_journal(path, IDENTITY, repair=False)
    assert raised.value.filename == str(path)


def refused(number: int) -> Any:
    """What locks nothing."""

    def flock(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return flock


def _linked(path: Path) -> None:
    os.link(path, path.with_name("another name"))
    path.unlink()


def _replaced(path: Path) -> None:
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").replace(path)


AWAY = {
    "removed": Path.unlink,
    "removed, with another name left": _linked,
    "renamed": lambda path: path.rename(path.with_name("moved")),
    "replaced": _replaced,
}


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")
@pytest.mark.parametrize("take", AWAY.values(), ids=AWAY)
def test_a_journal_that_was_removed_is_noticed_at_the_next_record(tmp_path, take):
    path = tmp_path / "some.journal"
    journal, faults = open_journal(path, {"iface": "x"}, repair=False)
    assert journal and not faults
    journal.append({"is": "times", "cell": "64 @ 64"})
    take(path)
    with pytest.raises(FileNotFoundError, match="removed during the run") as raised:
        journal.append({"is": "times", "cell": "64 @ 64"})
    assert raised.value.filename == str(path)
    journal.close()
