"""What a command writes on a terminal and what elsewhere: colours and progress on a real pseudo-terminal, or a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.build import make_db
from tests.formats.source import write_source

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")

_TXTDB = (sys.executable, "-c", "from txtdb.cli import main; main(prog_name='txtdb')")
ESCAPE = "\x1b["
TIME_LIMIT_S = 60


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class _Output:
    """One output of a program: a terminal's or a pipe's reading end, read by a thread until the program is gone."""

    def __init__(self, terminal: bool) -> None:
        self._reading, self.writing = pty.openpty() if terminal else os.pipe()
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read)

    def start(self) -> None:
        """Give the writing end away, and read."""
        os.close(self.writing)
        self._thread.start()

    def text(self) -> str:
        """All of it, with a terminal's line ends made plain."""
        self._thread.join(TIME_LIMIT_S)
        os.close(self._reading)
        return self._data.decode("utf-8").replace("\r\n", "\n")

    def _read(self) -> None:
        try:
            while data := os.read(self._reading, 65536):
                self._data += data
        except OSError:
            return  # a terminal whose other end is closed: the end of the output


def txtdb(*arguments: object, out: bool, err: bool) -> Said:
    """Run the program in a process of its own, each output on a terminal or in a pipe."""
    outputs = _Output(out), _Output(err)
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [*_TXTDB, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=outputs[0].writing,
        stderr=outputs[1].writing,
        env={**environment, "TERM": "xterm", "COLUMNS": "100"},
    )
    for output in outputs:
        output.start()
    code = process.wait(TIME_LIMIT_S)
    return Said(code, *(output.text() for output in outputs))


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    return make_db(tmp_path, {"gfxA/attn_fwd.txtdb": None})


def test_check_is_coloured_on_a_terminal_and_plain_in_a_pipe(faulty: Path) -> None:
    shown, piped = (txtdb("check", faulty, out=terminal, err=terminal) for terminal in (True, False))
    assert (shown.code, piped.code) == (1, 1)
    assert ESCAPE in shown.out
    assert ESCAPE not in piped.out + piped.err
    assert "no-data" in piped.out
    assert plain(shown.out) == piped.out


def test_machine_formats_are_plain_on_a_terminal_too(faulty: Path) -> None:
    for style in ("json", "github", "sarif"):
        said = txtdb("check", faulty, "--format", style, out=True, err=True)
        assert said.code == 1
        assert ESCAPE not in said.out + said.err


def test_faults_are_coloured_where_stderr_is_a_terminal(tmp_path: Path) -> None:
    shown, piped = (
        txtdb("resolve", tmp_path / "none", "x", "y", out=False, err=terminal) for terminal in (True, False)
    )
    assert (shown.code, piped.code) == (2, 2)
    assert ESCAPE in shown.err
    assert ESCAPE not in piped.err
    assert plain(shown.err) == piped.err


def test_import_shows_progress_on_a_terminal_only(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    said = {
        terminal: txtdb(
            "import", "aotriton", source, "--root", tmp_path / f"db{terminal}", "--emit-schema", out=False, err=terminal
        )
        for terminal in (True, False)
    }
    assert [result.code for result in said.values()] == [0, 0]
    assert said[False].err == ""
    assert said[True].out == said[False].out
    lines = said[True].err.split(f"\r{ESCAPE}K")
    assert len(lines) > 3
    assert any("attn_fwd" in line for line in lines)
    assert lines[-1] == "", "the line is cleared at the end"


def test_progress_is_no_part_of_what_is_redirected(tmp_path: Path) -> None:
    """Standard output on a terminal does not make standard error one."""
    source = write_source(tmp_path / "source")
    said = txtdb("import", "aotriton", source, "--root", tmp_path / "db", "--emit-schema", out=True, err=False)
    assert (said.code, said.err) == (0, "")


def plain(text: str) -> str:
    """A text without its colours."""
    first, *others = text.split(ESCAPE)
    return first + "".join(other.partition("m")[2] for other in others)
