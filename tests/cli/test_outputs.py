"""Files that commands are told to write: what is replaced, what is written to, and what is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import TABLE_B, make_db, write_files
from tests.cli.run import Ran, run
from tests.unprivileged import public_folder, unprivileged
from txtdb.cli.outputs import other_file_faults, unlike_faults
from txtdb.files import atomic_write, replaced_file, write_if_changed, write_output

OTHER = "which is not replaced"
NOTES = "precious\n"


def merge(folder: Path, out: Path) -> Ran:
    base = write_files(folder, {"base.txtdb": TABLE_B}) / "base.txtdb"
    return run("merge", base, base, base, "-o", out)


def test_a_link_stays_one_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to("target")
    dangling.symlink_to(tmp_path / "folder" / "new")
    for path in (link, dangling):
        write_output(path, b"new")
        assert path.is_symlink()
        assert path.read_bytes() == b"new"
    assert target.read_bytes() == b"new"


def test_a_link_in_a_database_is_replaced_and_leads_nobody_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    for number, write in enumerate((atomic_write, write_if_changed)):
        link = tmp_path / f"link{number}"
        link.symlink_to(outside)
        write(link, b"precious" if number else b"new")
        assert not link.is_symlink()
    assert outside.read_bytes() == b"precious"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output(pipe, b"data")
        assert os.read(reader, 100) == b"data"
    finally:
        os.close(reader)
    write_output(Path(os.devnull), b"data")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize("link", [False, True])
def test_standard_output_is_not_replaced_by_a_file(tmp_path: Path, link: bool) -> None:
    """Nor is what stands in it already cut off, nor what follows written over it."""
    out, place = tmp_path / "out", Path("/dev/stdout")
    if not place.exists():
        pytest.skip("there is no /dev/stdout here")
    if link:
        (tmp_path / "link").symlink_to(place)
        place = tmp_path / "link"
    code = f"import sys; from pathlib import Path; from txtdb.files import write_output as w; p = Path({str(place)!r})"
    code += "; print('first', flush=True); w(p, b'data\\n'); print('last')"
    with out.open("wb") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert out.read_text() == "first\ndata\nlast\n"


def test_a_file_in_memory_is_one_like_others() -> None:
    assert replaced_file(Path("/dev/shm/a")) == Path("/dev/shm/a").resolve()
    assert replaced_file(Path("/proc/self/fd/1")) is None


def test_the_file_that_is_looked_at_is_the_one_that_is_replaced(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.write_bytes(b"start of mine")
    other.write_bytes(b"something else")
    for target, count in ((own, 0), (other, 1)):
        link = tmp_path / f"link-{target.name}"
        link.symlink_to(target)
        assert len(other_file_faults(link, [b"start"])) == count
    assert unlike_faults(tmp_path, lambda head: True), "a folder"
    assert other_file_faults(Path(os.devnull), [b"start"]) == []


def test_a_path_that_cannot_be_looked_at_cannot_be_written(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / ("x" * 300), "File name too long"), (tmp_path / "loop", "symbolic links")):
        if path.name == "loop":
            path.symlink_to("loop")
        (fault,) = other_file_faults(path, [b"start"])
        assert (fault.rule, reason in fault.message) == ("unwritable", True)
        assert fault.message.startswith("cannot write: ")


def test_a_folder_that_nobody_else_may_enter() -> None:
    with public_folder() as folder:
        (folder / "closed").mkdir(0o700)
        path = folder / "closed" / "x"
        messages = unprivileged(lambda: [fault.message for fault in other_file_faults(path, [b"start"])])
    assert messages == ["cannot write: Permission denied"]


def test_a_merge_replaces_tables_and_what_a_merge_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for text in (TABLE_B, TABLE_B.replace("#! txtdb", "#! dbpatch"), "<<<<<<< ours\n", ""):
        out.write_text(text)
        assert merge(tmp_path, out).code == 0
        assert out.read_text() == TABLE_B
    for text in ("# Read me\n", NOTES):
        out.write_text(text)
        ran = merge(tmp_path, out)
        assert (ran.code, OTHER in ran.err, out.read_text()) == (2, True, text)


def test_a_baseline_replaces_baselines(tmp_path: Path) -> None:
    root, file = make_db(tmp_path), tmp_path / "known.txt"
    for _ in range(2):
        assert run("check", root, "--baseline", file, "--write-baseline").code == 0
    file.write_text(NOTES)
    ran = run("check", root, "--baseline", file, "--write-baseline")
    assert (ran.code, OTHER in ran.err, file.read_text()) == (2, True, NOTES)


def test_a_baseline_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_bytes(b"\xff\xfe")
    ran = run("check", make_db(tmp_path), "--baseline", file)
    assert (ran.code, "cannot read the baseline" in ran.err) == (2, True)


@pytest.mark.parametrize("before", [b"\n", b"\xef\xbb\xbf", b" \r\n\n"])
def test_a_merge_replaces_a_table_that_begins_untidily(tmp_path: Path, before: bytes) -> None:
    out = tmp_path / "out.txtdb"
    out.write_bytes(before + TABLE_B.encode())
    assert merge(tmp_path, out).code == 0
    assert out.read_text() == TABLE_B


def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 125 + ".html")
    write_output(path, b"x")
    assert path.read_bytes() == b"x"
