"""What is read out of git: files of a revision, objects by name, and where a folder lies in its repository.

Nothing here writes. Names are bytes to git; they become text the way paths of the file system do.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from txtdb.faults import Fault, FaultError, Span


def run_git(folder: Path, *arguments: str, given: bytes = b"", fault: str = "", hint: str = "") -> bytes:
    """The output of a git command run in a folder.

    Raises FaultError with git's own words when it fails; `fault` is the name that the fault's span then has, `hint`
    what to do.
    """
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], input=given, capture_output=True, check=False)
    except OSError as error:
        raise _no_git(error) from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise FaultError([Fault("git", Span(fault or "git"), words or f"git {arguments[0]} failed", hint)])
    return done.stdout


def _no_git(error: OSError) -> FaultError:
    return FaultError([Fault("no-git", Span("git"), f"git cannot be run: {error.strerror}", "install git")])


def path_in_repository(folder: Path) -> str:
    """Where a folder lies below the top of its repository, with slashes; empty for the top itself."""
    hint = "name a folder in the working tree of a git repository"
    prefix = run_git(folder, "rev-parse", "--show-prefix", fault=folder.as_posix(), hint=hint)
    return os.fsdecode(prefix).rstrip("\n").rstrip("/")


def object_name(revision: str, path: str) -> str:
    """How git names a file or folder of a revision; `path` counts from the top, and is empty for the top itself."""
    return f"{revision}:{path}"


class ObjectReader:
    """Objects by name out of one `git cat-file --batch`, each within microseconds once it runs."""

    def __init__(self, send: IO[bytes], receive: IO[bytes]) -> None:
        self._send, self._receive = send, receive

    def read(self, name: str) -> bytes | None:
        """The content of an object (of a tree as git stores it); None where there is none of that name."""
        found = self._request(name)
        return found[1] if found else None

    def tree(self, name: str) -> dict[str, tuple[str, str]]:
        """The entries of a folder: name → (mode, object); none where there is no such folder."""
        found = self._request(name)
        return dict(_tree_entries(found[1], len(found[0]) // 2)) if found else {}

    def _request(self, name: str) -> tuple[bytes, bytes] | None:
        """Object name in hex digits and content."""
        if "\n" in name:
            return None  # requests are lines, so git cannot be asked for it
        self._send.write(os.fsencode(name) + b"\n")
        self._send.flush()
        head = self._receive.readline().split()
        if len(head) != 3 or not head[2].isdigit():
            return None
        content = self._receive.read(int(head[2]) + 1)
        return head[0], content[:-1]


@contextmanager
def object_reader(folder: Path) -> Iterator[ObjectReader]:
    """Read objects of a folder's repository for as long as the context lasts. Raises FaultError without git."""
    command = ["git", "-C", str(folder), "cat-file", "--batch"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise _no_git(error) from error
    with process:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        yield ObjectReader(process.stdin, process.stdout)
        process.stdin.close()


def _tree_entries(data: bytes, digest_length: int) -> Iterator[tuple[str, tuple[str, str]]]:
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + digest_length
        yield os.fsdecode(name), (mode.decode(), data[end + 1 : at].hex())


def revision_files(folder: Path, revision: str, path: str) -> dict[str, bytes]:
    """The regular files below a folder of a revision, by their name below it; `path` counts from the top.

    Raises FaultError where the revision has no such folder.
    """
    whole = object_name(revision, path)
    listed = run_git(folder, "ls-tree", "-r", "-z", "--full-tree", whole, fault=whole).split(b"\0")
    entries = [(line.partition(b"\t")[2], line.split()[2]) for line in listed if line.startswith(b"100")]
    data = run_git(folder, "cat-file", "--batch", given=b"".join(digest + b"\n" for _, digest in entries))
    files, at = {}, 0
    for name, _ in entries:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        files[os.fsdecode(name)] = data[end + 1 : end + 1 + size]
        at = end + 2 + size
    return files


def merge_text(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Three versions of a text merged by line; None where both sides changed the same lines, or there is no git."""
    with tempfile.TemporaryDirectory(prefix="txtdb-") as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, data in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(data)
        try:
            done = subprocess.run(["git", "merge-file", "-p", *paths], capture_output=True, check=False)
        except OSError:
            return None
        return None if done.returncode else done.stdout
