"""One side of a comparison: a root, a file inside a root, or a git revision of either (`main:amd`, `HEAD~3:amd`)."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
    """Open a side for as long as the context lasts. Paths and git revisions count from `folder`.

    Spans of a revision are named `REVISION:path`. Raises FaultError when there is no such side.
    """
    path = folder / spec
    revision, colon, inside = spec.partition(":")
    if path.exists() or not colon:
        root, only = _root_of(path, spec)
        yield Side(spec, open_database(_shown(root, folder)), only)
        return
    files = git_files(folder, revision, _git_root(folder, revision, inside, spec))
    root_name, only = _split_inside(files, inside)
    with tempfile.TemporaryDirectory(prefix="txtdb-") as temporary:
        root = Path(temporary)
        for name, data in files.items():
            below = PurePosixPath(name).relative_to(root_name)
            target = root.joinpath(*below.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        yield Side(spec, open_database(root, label=f"{revision}:{root_name}"), only)


def _shown(root: Path, folder: Path) -> Path:
    """The root as people gave it: relative to the folder where it can be."""
    return root.relative_to(folder) if folder == Path.cwd() and root.is_relative_to(folder) else root


def _root_of(path: Path, spec: str) -> tuple[Path, str]:
    """A root, or the root around a file and the file's name below it."""
    if path.is_dir():
        return path, ""
    root = path.parent.parent
    if path.is_file() and (root / ARCHS_FILE).is_file():
        return root, f"{path.parent.name}/{path.name}"
    raise _no_side(spec, "no such folder, file or revision" if not path.exists() else "the file lies in no database")


def _no_side(spec: str, message: str) -> FaultError:
    hint = "name a database folder, a file in one, or REVISION:PATH"
    return FaultError([Fault("no-side", Span(spec), message, hint)])


def _git_root(folder: Path, revision: str, inside: str, spec: str) -> str:
    """The root's path in the repository, for a path to a root or to a file below one."""
    prefix = run_git(folder, "rev-parse", "--show-prefix").decode().strip()
    path = PurePosixPath(prefix) / inside
    kind = run_git(folder, "cat-file", "-t", f"{revision}:{path}", fault=spec).decode().strip()
    return str(path if kind == "tree" else path.parent.parent)


def _split_inside(files: dict[str, bytes], inside: str) -> tuple[str, str]:
    archs = [name for name in files if PurePosixPath(name).name == ARCHS_FILE]
    if not archs:
        raise _no_side(inside, "this is no database: no archs.toml there")
    root = str(min((PurePosixPath(name).parent for name in archs), key=lambda path: len(path.parts)))
    is_file = inside.endswith((".txtdb", ".dbpatch"))
    return root, "/".join(PurePosixPath(inside).parts[-2:]) if is_file else ""


def git_files(folder: Path, revision: str, path: str) -> dict[str, bytes]:
    """The files below a path of a revision: name from the repository's top → content."""
    top = Path(run_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    listed = run_git(top, "ls-tree", "-r", "-z", "--full-tree", revision, "--", path).split(b"\0")
    entries = [
        (line.partition(b"\t")[2].decode(), line.split()[2]) for line in listed if line and line.startswith(b"100")
    ]
    request = b"".join(digest + b"\n" for _, digest in entries)
    data = run_git(top, "cat-file", "--batch", given=request)
    files, at = {}, 0
    for name, _ in entries:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        files[name] = data[end + 1 : end + 1 + size]
        at = end + 2 + size
    return files


def run_git(folder: Path, *arguments: str, given: bytes = b"", fault: str = "") -> bytes:
    """The output of a git command. Raises FaultError with git's own words when it fails."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise FaultError([Fault("no-git", Span("git"), "git is not installed", "install git")]) from None
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise FaultError([Fault("git", Span(fault or "git"), words or f"git {arguments[0]} failed", "")])
    return done.stdout
