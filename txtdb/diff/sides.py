"""One side of a comparison: a root, a file inside a root, or a git revision of either (`main:amd`, `HEAD~3:amd`)."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from txtdb.diff.repository import object_name, path_in_repository, revision_files, run_git
from txtdb.faults import Fault, FaultError, Span
from txtdb.layers.database import Database, open_database
from txtdb.layers.listing import ARCHS_FILE


@dataclass(frozen=True)
class Side:
    """An opened side. `only` is the one file to compare, by its name below the root; empty for all."""

    name: str
    database: Database
    only: str = ""


@contextmanager
def open_side(spec: str, folder: Path) -> Iterator[Side]:
    """Open a side for as long as the context lasts. Paths, those behind a revision too, count from `folder`.

    A name that exists as a path is that path, also with a colon in it. Spans of a revision are named `REVISION:path`,
    with the path from the top of the repository, as git takes it. Raises FaultError when there is no such side.
    """
    path = folder / spec
    revision, colon, inside = spec.partition(":")
    if path.exists() or not colon:
        root, only = _root_of(path, spec)
        yield Side(spec, open_database(root), only)
        return
    root_name, only = _revision_root(folder, revision, inside, spec)
    files = revision_files(folder, revision, root_name)
    if ARCHS_FILE not in files:
        raise _no_side(spec, "this is no database: no archs.toml there")
    with open_files(files, object_name(revision, root_name or ".")) as database:
        yield Side(spec, database, only)


@contextmanager
def open_files(files: Mapping[str, bytes], label: str, overlays: Sequence[Path] = ()) -> Iterator[Database]:
    """A database made of files by their names below its root, for as long as the context lasts.

    `label` stands for the root in spans.
    """
    with tempfile.TemporaryDirectory(prefix="txtdb-") as temporary:
        _write_tree(Path(temporary), files)
        yield open_database(temporary, overlays, label)


def _write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        target = folder.joinpath(*PurePosixPath(name).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _root_of(path: Path, spec: str) -> tuple[Path, str]:
    """A root, or the root around a file and the file's name below it."""
    if path.is_dir():
        return path, ""
    if path.parent.name in ("", ".."):
        path = Path(os.path.abspath(path))  # noqa: PTH100  a link stays the link that it is
    root = path.parent.parent
    if path.is_file() and (root / ARCHS_FILE).is_file():
        return root, f"{path.parent.name}/{path.name}"
    raise _no_side(spec, "the file lies in no database" if path.exists() else "no such folder, file or revision")


def _no_side(spec: str, message: str) -> FaultError:
    hint = "name a database folder, a file in one, or REVISION:PATH"
    return FaultError([Fault("no-side", Span(spec), message, hint)])


def _revision_root(folder: Path, revision: str, inside: str, spec: str) -> tuple[str, str]:
    """The root's path from the top of the repository and, where the path leads to a file, its name below the root."""
    whole = posixpath.normpath(posixpath.join(path_in_repository(folder), inside))
    path = "" if whole == "." else whole
    hint = f"name the root, or a file in it, as that revision has it: `git ls-tree -d -r --name-only {revision}`"
    kind = run_git(folder, "cat-file", "-t", object_name(revision, path), fault=spec, hint=hint).strip()
    if kind == b"tree":
        return path, ""
    if kind != b"blob" or path.count("/") < 1:
        raise _no_side(spec, "the file lies in no database")
    arch_folder, _, name = path.rpartition("/")
    root, _, arch = arch_folder.rpartition("/")
    return root, f"{arch}/{name}"
