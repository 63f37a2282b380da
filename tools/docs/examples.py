"""The examples of a documentation page, taken out of it and run.

A page's examples share one empty folder and run from top to bottom:

- a fence whose info string has `file=PATH` is a file: it is written there (again, where an earlier one had that path);
- a `console` fence is a session: lines that start with `$ ` are run by bash, what follows is what they print. A line
  `…` stands for any number of lines. A command that fails must show its exit code, as in `$ false; echo $?`;
- a `pycon` fence is a Python session, checked by doctest; all of a page's share their names;
- `<!-- run: COMMAND -->` runs a command that the reader does not see; `$REPO` is this repository. Each command is run
  by a new shell, which reads the file `.environment` first, where there is one;
- a fence whose info string has `needs=PROGRAM` is passed over where that program is not on PATH.

Every other fence is text that no one runs; files and patches without `file=` are a mistake.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from difflib import ndiff
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
WILDCARD = "…"
TIME_LIMIT_S = 120

_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<info>[^`]*)")
_HIDDEN = re.compile(r"<!-- run: (?P<command>.+) -->")
_FILE = re.compile(r"(?:^|\s)file=(\S+)")
_NEEDS = re.compile(r"(?:^|\s)needs=(\S+)")
_NEEDS_FILE = ("txtdb", "dbpatch")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: the number of its first line inside, its info string and its lines."""

    line: int
    info: str
    lines: tuple[str, ...]

    @property
    def language(self) -> str:
        """The first word of the info string."""
        return self.info.split()[0] if self.info else ""

    @property
    def file(self) -> str | None:
        """The path after `file=`."""
        found = _FILE.search(self.info)
        return found[1] if found else None

    @property
    def lacks(self) -> str | None:
        """The program after `needs=`, where it is not there."""
        found = _NEEDS.search(self.info)
        return found[1] if found and shutil.which(found[1]) is None else None


@dataclass(frozen=True, slots=True)
class Session:
    """One command of a console fence: its line number, its text, and the lines that must follow."""

    line: int
    command: str
    expected: tuple[str, ...]


@dataclass
class Outcome:
    """What a page's examples did: `problems` in words, and for each command (by its line) what it printed.

    `lacking` are the programs for want of which some were passed over.
    """

    problems: list[str] = field(default_factory=list)
    printed: dict[int, list[str]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)


def fences(text: str) -> Iterator[Fence | str]:
    """Fenced blocks, and the hidden commands between them, in order."""
    opened: tuple[str, int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _FENCE.fullmatch(line.rstrip())
        if opened is None:
            hidden = _HIDDEN.fullmatch(line.strip())
            if hidden:
                yield hidden["command"]
            if match:
                opened, inside = (match["ticks"], number + 1, match["info"].strip()), []
        elif line.rstrip() == opened[0]:
            yield Fence(opened[1], opened[2], tuple(inside))
            opened = None
        else:
            inside.append(line)
    if opened is not None:
        raise ValueError(f"the fence above line {opened[1]} is never closed")


def sessions(fence: Fence) -> Iterator[Session]:
    """The commands of a console fence; a line that ends in a backslash goes on in the next."""
    lines = list(enumerate(fence.lines, fence.line))
    while lines:
        number, line = lines.pop(0)
        if not line.startswith("$ "):
            raise ValueError(f"line {number}: a console fence starts with `$ `")
        command = [line[2:]]
        while command[-1].endswith("\\") and lines:
            command.append(lines.pop(0)[1])
        expected = []
        while lines and not lines[0][1].startswith("$ "):
            expected.append(lines.pop(0)[1])
        yield Session(number, "\n".join(command), tuple(expected))


def run_page(page: Path, folder: Path) -> Outcome:
    """Run all examples of a page in an empty folder."""
    with _own_modules(folder):
        return _run_fences(page, folder)


def _run_fences(page: Path, folder: Path) -> Outcome:
    outcome = Outcome()
    names: dict[str, object] = {}
    for item in fences(page.read_text(encoding="utf-8")):
        if isinstance(item, str):
            _run_hidden(item, folder, outcome)
        elif item.lacks:
            outcome.lacking.add(item.lacks)
        elif item.file:
            path = folder / item.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join((*item.lines, "")), encoding="utf-8", newline="\n")
        elif item.language in _NEEDS_FILE:
            outcome.problems.append(f"line {item.line}: name the file (`{item.language} file=PATH`), or make it `text`")
        elif item.language == "console":
            for session in sessions(item):
                _run_session(session, folder, outcome)
        elif item.language == "pycon":
            _run_python(item, page.name, folder, names, outcome)
    return outcome


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether lines are as expected; a wildcard line stands for any number of them."""
    if not expected:
        return not printed
    if expected[0].strip() == WILDCARD:
        return any(matches(expected[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and matches(expected[1:], printed[1:])


def _run_hidden(command: str, folder: Path, outcome: Outcome) -> None:
    code, lines = run_shell(command, folder)
    if code:
        outcome.problems.append("\n".join((f"hidden command ended with {code}: {command}", *lines)))


def _run_session(session: Session, folder: Path, outcome: Outcome) -> None:
    code, printed = run_shell(session.command, folder)
    outcome.printed[session.line] = printed
    expected = _trimmed(list(session.expected))
    if code:
        outcome.problems.append(f"line {session.line}: `{session.command}` ended with {code}; show it with `; echo $?`")
    if not matches(expected, printed):
        difference = ndiff(expected, printed)
        outcome.problems.append("\n".join((f"line {session.line}: $ {session.command}", *difference)))


def run_shell(command: str, folder: Path) -> tuple[int, list[str]]:
    """Exit code and lines of a command (both outputs together), run by bash in a folder, the same on every machine."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    lines = done.stdout.decode("utf-8").split("\n")
    return done.returncode, _trimmed([line.rstrip() for line in lines])


def _environment(folder: Path) -> dict[str, str]:
    """Programs of this interpreter first; no settings of the person who runs it."""
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _GIT_PERSON.items()}
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(folder),
        "REPO": str(REPO),
        "BASH_ENV": str(folder / ".environment"),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_PAGER": "cat",
        **who,
    }


_GIT_PERSON = {"NAME": "Reader", "EMAIL": "reader@example.org", "DATE": "2026-01-01T12:00:00Z"}


def _run_python(fence: Fence, name: str, folder: Path, names: dict[str, object], outcome: Outcome) -> None:
    text = "\n".join((*fence.lines, ""))
    test = doctest.DocTestParser().get_doctest(text, names, name, name, fence.line - 1)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    with chdir(folder):
        result = runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    if result.failed:
        outcome.problems.append("".join(report))


@contextmanager
def _own_modules(folder: Path) -> Iterator[None]:
    """Modules out of a page's folder are forgotten behind the page: another one may have others of the same name."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        # What was found for `dispatch` is the folder of this page, whatever the next one's is.
        for place in [place for place in sys.path_importer_cache if not Path(place).is_absolute()]:
            del sys.path_importer_cache[place]
        for name, module in list(sys.modules.items()):
            file = Path(getattr(module, "__file__", None) or "/")
            if not file.is_absolute() or file.is_relative_to(folder):
                del sys.modules[name]


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines at the end."""
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


def rewritten(text: str, printed: dict[int, list[str]]) -> str:
    """The page with what its commands print now; a session with a wildcard stays as it is."""
    lines = text.split("\n")
    edits = [
        (session, printed[session.line])
        for fence in fences(text)
        if isinstance(fence, Fence) and fence.language == "console"
        for session in sessions(fence)
        if session.line in printed and WILDCARD not in map(str.strip, session.expected)
    ]
    for session, now in reversed(edits):
        start = session.line + session.command.count("\n")
        lines[start : start + len(session.expected)] = now
    return "\n".join(lines)
