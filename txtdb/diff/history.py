"""The versions of a database in a git repository, and which commits changed one of its cells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1
from pathlib import Path

from txtdb.diff.repository import ObjectReader, object_name, object_reader, path_in_repository, run_git
from txtdb.layers.listing import ARCHS_FILE, PINS_FILE, SCHEMA_FOLDER

_FORMAT = "%H%x00%P%x00%an%x00%aI%x00%s%x00"
_FIELDS = 5

_BASE = re.compile(rb"^#! base +([^\s]+)", re.MULTILINE)

# The revision that stands for the files as they lie in the working tree.
WORKING_TREE = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as `git log` tells it; `date` is the author's, in ISO 8601."""

    name: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str


class History:
    """The versions of a database. Make it with `open_history`.

    Files have names below the root, and their contents the names that git gives them, so that versions are told apart
    without reading a file.
    """

    def __init__(self, root: Path, reader: ObjectReader) -> None:
        self.root = root
        self._prefix = path_in_repository(root)
        self._reader = reader
        self._loose: dict[str, bytes] = {}
        self._folders: dict[tuple[str, str], dict[str, str]] = {}

    @cached_property
    def head(self) -> str:
        """The name of the commit that is checked out; empty in a repository without any."""
        is_born = self._reader.read("HEAD") is not None
        return run_git(self.root, "rev-parse", "HEAD").decode().strip() if is_born else ""

    def commits(self, folder: str, tip: str = "HEAD") -> Iterator[Commit]:
        """The commits that touched a folder below the root (empty for the root itself), children before parents.

        They are those of the revision `tip` and before it.
        """
        if not self.head:
            return
        path = f":(top,literal){self._path(folder)}"
        text = run_git(self.root, "log", "--date-order", f"--format={_FORMAT}", tip, "--", path)
        parts = text.decode(errors="replace").split("\0")
        for start in range(0, len(parts) - _FIELDS, _FIELDS):
            name, parents, author, date, subject = parts[start : start + _FIELDS]
            yield Commit(name.strip(), tuple(parents.split()), author, date, subject)

    def label(self, revision: str) -> str:
        """What stands for the root in spans of a revision."""
        if revision == WORKING_TREE:
            return self.root.as_posix()
        return object_name(revision[:10], self._prefix or ".")

    @cached_property
    def cut_off(self) -> frozenset[str]:
        """The commits of a shallow clone whose parents are not in it."""
        path = os.fsdecode(run_git(self.root, "rev-parse", "--git-path", "shallow").rstrip(b"\n"))
        file = self.root / path
        return frozenset(file.read_text().split()) if file.is_file() else frozenset()

    def read(self, content: str) -> bytes:
        """A content by its name."""
        data = self._loose[content] if content in self._loose else self._reader.read(content)
        assert data is not None, "a folder names contents that are there"
        return data

    def folder(self, revision: str, folder: str) -> dict[str, str]:
        """The regular files of a folder: file name → name of its content. Empty where there is no such folder."""
        place = (revision, folder)
        if place not in self._folders:
            found = self._files_on_disk(folder) if revision == WORKING_TREE else self._committed(*place)
            self._folders[place] = found
        return self._folders[place]

    def _path(self, name: str) -> str:
        """A name below the root as a path from the top of the repository."""
        return "/".join(filter(None, (self._prefix, name)))

    def _committed(self, revision: str, folder: str) -> dict[str, str]:
        entries = self._reader.tree(object_name(revision, self._path(folder)))
        return {name: content for name, (mode, content) in entries.items() if mode.startswith("100")}

    def _files_on_disk(self, folder: str) -> dict[str, str]:
        path = self.root / folder
        entries = path.iterdir() if path.is_dir() else ()
        return {entry.name: self._loose_content(entry) for entry in entries if entry.is_file()}

    def _loose_content(self, path: Path) -> str:
        data = path.read_bytes()
        name = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        self._loose[name] = data
        return name


@contextmanager
def open_history(root: Path) -> Iterator[History]:
    """The history of a database, for as long as the context lasts. Raises FaultError outside a repository."""
    with object_reader(root) as reader:
        yield History(root, reader)


def own_files(history: History, revision: str, arch: str, iface: str) -> dict[str, str]:
    """The table and the patches of an arch, and the schema by which to read them: name → name of the content."""
    files = history.folder(revision, SCHEMA_FOLDER)
    schema = f"{iface}.toml"
    found = {f"{SCHEMA_FOLDER}/{schema}": files[schema]} if schema in files else {}
    own = history.folder(revision, arch).items()
    return found | {f"{arch}/{name}": content for name, content in own if _belongs(name, iface)}


def _belongs(name: str, iface: str) -> bool:
    return name.startswith(f"{iface}.") and name.endswith((".txtdb", ".dbpatch"))


def all_files(history: History, revision: str, arch: str, iface: str) -> dict[str, str]:
    """All that makes a resolved table: the files of the arch and of its bases, their pins, all schemas, arch facts."""
    top = history.folder(revision, "")
    found = {ARCHS_FILE: top[ARCHS_FILE]} if ARCHS_FILE in top else {}
    found |= {f"{SCHEMA_FOLDER}/{name}": content for name, content in history.folder(revision, SCHEMA_FOLDER).items()}
    archs = [arch]
    for name in archs:  # grows while it is walked
        found |= own_files(history, revision, name, iface)
        pins = history.folder(revision, name).get(PINS_FILE)
        found |= {f"{name}/{PINS_FILE}": pins} if pins else {}
        table = found.get(f"{name}/{iface}.txtdb")
        bases = _BASE.findall(history.read(table)) if table else []
        archs += [base for word in bases if (base := word.decode(errors="replace")) not in archs]
    return found
