"""The drivers in a repository's configuration: set, taken away, looked at."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from txtdb.diff.repository import run_git
from txtdb.faults import Fault, FaultError, Span
from txtdb.files import write_if_changed
from txtdb.merge import attributes

# The driver's exit code for a conflict that it has written. No crash of an interpreter or a shell ends with this one,
# so that with any other the file is known to be as git made it.
EXIT_CONFLICT = 100

# What git's shell runs. It quotes %P itself, and the others are names without blanks. Where the program does not do its
# work (it is gone, it crashes, it is killed), git's own merge by lines does: git would otherwise take the file as it
# stands, which is ours without a word of theirs.
_BY_LINES = (
    f" || {{ test $? = {EXIT_CONFLICT} && exit 1; "
    'echo %P": merged by lines, because txtdb did not run (see txtdb git status)" >&2; '
    "git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B || exit 1; }"
)
# Before and behind the program's name.
_COMMANDS = {
    "merge.txtdb.driver": ("", f" git merge-driver %O %A %B %P{_BY_LINES}"),
    "merge.txtdb-ancestor.driver": ("", f" git merge-driver --ancestor %O %A %B %P{_BY_LINES}"),
    # git gives the file as the last argument.
    "diff.txtdb.textconv": ("f() { ", ' git textconv "$1" || cat "$1"; }; f'),
}
# What the values of every version have in them.
_CALLS = {
    "merge.txtdb.driver": " git merge-driver ",
    "merge.txtdb-ancestor.driver": " git merge-driver --ancestor ",
    "diff.txtdb.textconv": " git textconv",
}
_VALUES = {
    "merge.txtdb.name": "tables and patches, by cell",
    "merge.txtdb.recursive": "txtdb-ancestor",
    "merge.txtdb-ancestor.name": "common ancestors of tables and patches, by cell",
    # The functional of a line, for the heads of hunks.
    "diff.txtdb.xfuncname": r"^(\[[^]]*\])",
}
KEYS = (*_COMMANDS, *_VALUES)

# `created` or `extended`, where .gitattributes has its lines from here and not from somebody's commit.
_WROTE = "txtdb.gitattributes"


class State(StrEnum):
    """How a setting stands."""

    SET = "set"
    MISSING = "missing"
    BROKEN = "broken"
    OLD = "old"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the configuration and its value, None where it is not set."""

    key: str
    value: str | None

    @property
    def program(self) -> str:
        """The program that a driver runs; empty where there is none, or an old value that hides it."""
        head, tail = _COMMANDS.get(self.key, ("", ""))
        value = self.value or ""
        if not tail or not value.startswith(head) or not value.endswith(tail):
            return ""
        return shlex.split(value[len(head) : -len(tail)])[0].replace("%%", "%")

    @property
    def state(self) -> State:
        """Broken is a driver whose program is gone, old one that another version of `install` wrote; foreign is a
        value that no `install` writes."""
        if self.value is None:
            return State.MISSING
        if self.key in _VALUES:
            return State.SET if self.value == _VALUES[self.key] else State.FOREIGN
        if _CALLS[self.key] not in self.value:
            return State.FOREIGN
        if not self.program:
            return State.OLD
        return State.SET if shutil.which(self.program) else State.BROKEN


@dataclass(frozen=True)
class Status:
    """What a repository has. `files` tells of each table and patch that git tracks whether the drivers are for it; of
    the name patterns, where there is no such file."""

    settings: tuple[Setting, ...]
    files: dict[str, bool]

    @property
    def is_absent(self) -> bool:
        """Whether nothing at all is set in this clone."""
        return all(setting.state is State.MISSING for setting in self.settings)

    @property
    def is_installed(self) -> bool:
        """Whether merges and diffs of every file go through the drivers."""
        return all(setting.state is State.SET for setting in self.settings) and all(self.files.values())


def install(folder: Path) -> list[str]:
    """Set the drivers in the repository around a folder; what was changed comes back.

    Raises FaultError where that is no working tree, where a key has a value of another program, or where a file
    cannot be read or written. A .gitattributes that is no regular file is refused before anything is set.
    """
    top = _top(folder)
    path = top / attributes.FILE
    before = _read(path)
    local = _local(top)
    foreign = [key for key in KEYS if Setting(key, local.get(key)).state is State.FOREIGN]
    if foreign:
        hint = f"it is not from `txtdb git install`; look at it, then `git config --unset {foreign[0]}`"
        raise FaultError([Fault("foreign-driver", Span(key), "is set to something else", hint) for key in foreign])
    changed = []
    for key, value in {**_VALUES, **{key: _command(key) for key in _COMMANDS}}.items():
        if local.get(key) != value:
            run_git(top, "config", "--local", "--replace-all", key, value)
            changed.append(key)
    if _write(path, attributes.with_lines(before or b"")):
        run_git(top, "config", "--local", _WROTE, "created" if before is None else "extended")
        changed.append(attributes.FILE)
    return changed


def uninstall(folder: Path) -> list[str]:
    """Take away what `install` added to the repository around a folder; what was changed comes back.

    Values of other programs stay, and so do lines of .gitattributes that came with somebody's commit.
    Raises FaultError as `install` does.
    """
    top = _top(folder)
    before = _read(top / attributes.FILE) or b""
    local = _local(top)
    changed = []
    for key in KEYS:
        if Setting(key, local.get(key)).state in (State.SET, State.BROKEN, State.OLD):
            run_git(top, "config", "--local", "--unset-all", key)
            changed.append(key)
    if _remove_lines(top, before, local.get(_WROTE)):
        changed.append(attributes.FILE)
    if _WROTE in local:
        run_git(top, "config", "--local", "--unset-all", _WROTE)
    return changed


def status(folder: Path) -> Status:
    """What the repository around a folder has."""
    top = _top(folder)
    local = _local(top)
    listed = os.fsdecode(run_git(top, "ls-files", "-z", "--", *attributes.PATTERNS)).split("\0")
    names = [name for name in listed if name] or list(attributes.PATTERNS)
    return Status(tuple(Setting(key, local.get(key)) for key in KEYS), dict(_attributed(top, names)))


def _attributed(top: Path, names: list[str]) -> Iterator[tuple[str, bool]]:
    """Each file with whether its attributes are those that the drivers need."""
    given = os.fsencode("".join(f"{name}\0" for name in names))
    wanted = attributes.VALUES
    words = os.fsdecode(run_git(top, "check-attr", "-z", "--stdin", *wanted, given=given)).split("\0")
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for name, attribute, value in zip(words[0::3], words[1::3], words[2::3], strict=False):
        found[name][attribute] = value
    yield from ((name, has == wanted) for name, has in found.items())


def _top(folder: Path) -> Path:
    hint = "run it in the working tree of the repository that holds the database; `git init` makes one"
    return Path(os.fsdecode(run_git(folder, "rev-parse", "--show-toplevel", hint=hint)).rstrip("\n"))


def _local(top: Path) -> dict[str, str]:
    """The repository's own configuration. Where a key has several values the last one holds."""
    entries = os.fsdecode(run_git(top, "config", "--local", "--null", "--list")).split("\0")
    pairs = (entry.partition("\n") for entry in entries if entry)
    return {key: value for key, _, value in pairs}


def _command(key: str) -> str:
    """The value of a key that runs this program, for the shell that git starts."""
    script = Path(sysconfig.get_path("scripts")) / ("txtdb.exe" if os.name == "nt" else "txtdb")
    # -P: a folder named txtdb in the working tree must not be taken for the program.
    fallback = [Path(sys.executable).as_posix(), "-P", "-c", "from txtdb.cli import main; main()"]
    program = shlex.join([script.as_posix()] if script.is_file() else fallback)
    if key.startswith("merge."):
        program = program.replace("%", "%%")
    head, tail = _COMMANDS[key]
    return f"{head}{program}{tail}"


def _read(path: Path) -> bytes | None:
    """The content of .gitattributes, None where there is none."""
    # A link would be replaced by a file, and its target's lines would be without effect.
    if path.is_symlink():
        hint = "git does not follow it; put a file in its place, or remove it"
        raise FaultError([Fault("unreadable", Span(path.as_posix()), "is a symbolic link", hint)])
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = Fault("unreadable", Span(path.as_posix()), f"cannot read: {error.strerror}", "nothing was changed")
        raise FaultError([fault]) from error


def _remove_lines(top: Path, before: bytes, wrote: str | None) -> bool:
    if not attributes.has_lines(before) or (wrote is None and _is_committed(top)):
        return False
    after = attributes.without_lines(before)
    return _write(top / attributes.FILE, after if after or wrote == "extended" else None)


def _is_committed(top: Path) -> bool:
    """Whether the last commit's .gitattributes has the lines."""
    try:
        return attributes.has_lines(run_git(top, "cat-file", "blob", f"HEAD:{attributes.FILE}"))
    except FaultError:
        return False  # no commit yet, or no such file in it


def _write(path: Path, data: bytes | None) -> bool:
    """Write a file, or remove it; whether that changed anything."""
    try:
        if data is not None:
            return write_if_changed(path, data)
        path.unlink()
    except OSError as error:
        fault = Fault("unwritable", Span(path.as_posix()), f"cannot write: {error.strerror}", "the file is as it was")
        raise FaultError([fault]) from error
    return True
