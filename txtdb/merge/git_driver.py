"""What git runs in a merge: the merge of one path, with all that git knows of the two sides."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from txtdb.diff.repository import object_name, object_reader, run_git
from txtdb.faults import Fault
from txtdb.layers.listing import SCHEMA_FOLDER
from txtdb.merge.defaults import Defaults, agreed_defaults
from txtdb.merge.result import Merged, merge_ancestors, merge_files
from txtdb.merge.threeway import SIDES, Three

# git names the commits that are merged in its environment: GITHEAD_<commit>=<branch>.
_MERGED_HEAD = "GITHEAD_"


@dataclass(frozen=True)
class Driven:
    """What becomes of a path: its new content, and the merge it is from, None where git's own text merge had to do
    because a version has `faults`."""

    content: bytes
    merged: Merged | None
    faults: tuple[Fault, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether git may take the path as merged."""
        return self.merged is not None and not self.merged.has_conflict


def drive_merge(files: Three[Path], path: str) -> Driven:
    """Merge the three files that git made of `path`, which counts from the top of the working tree."""
    data: Three[bytes | None] = files.map(Path.read_bytes)
    merged, faults = merge_files(data, Three(*(f"{path} ({side})" for side in SIDES)), _defaults(path))
    if merged:
        return Driven(merged.text.encode(), merged, faults)
    return Driven(_text_merge(files), None, faults)


def drive_ancestors(files: Three[Path], path: str) -> bytes:
    """The same for two common ancestors that git merges with each other first."""
    text = merge_ancestors(files.map(Path.read_bytes), _defaults(path))
    return _text_merge(files) if text is None else text.encode()


def _text_merge(files: Three[Path]) -> bytes:
    """git's own merge by lines, conflict markers included; where git says that the files are no text, both whole."""
    labels = [word for side in ("ours", "base", "theirs") for word in ("-L", side)]
    command = ["git", "merge-file", "-p", *labels, *map(str, (files.ours, files.base, files.theirs))]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode <= _MOST_CONFLICTS:
        return done.stdout
    ours, theirs = files.ours.read_bytes(), files.theirs.read_bytes()
    return b"\n".join([b"<<<<<<< ours", ours, b"=======", theirs, b">>>>>>> theirs", b""])


# The exit code is the number of conflicts, at most this; above it is an error.
_MOST_CONFLICTS = 127


def _defaults(path: str) -> Defaults:
    """Those of the schemas that the working tree and the merged commits have: either side may have brought a field."""

    def find(iface: str) -> Mapping[str, str]:
        schema = PurePosixPath(path).parent.parent / SCHEMA_FOLDER / f"{iface}.toml"
        worktree = Path(schema)
        found = [worktree.read_bytes()] if worktree.is_file() else []
        return agreed_defaults([*found, *_committed(schema)], iface)

    return find


def _committed(path: PurePosixPath) -> list[bytes]:
    """A file's content in each commit that is being merged or rebased, if it is there."""
    with object_reader(Path()) as objects:
        found = [objects.read(object_name(commit, str(path))) for commit in _commits()]
    return [data for data in found if data is not None]


def _commits() -> Iterator[str]:
    yield from (name.removeprefix(_MERGED_HEAD) for name in os.environ if name.startswith(_MERGED_HEAD))
    rebased = Path(os.fsdecode(run_git(Path(), "rev-parse", "--git-path", "rebase-merge/orig-head")).rstrip("\n"))
    if rebased.is_file():
        yield rebased.read_text(encoding="ascii").strip()
