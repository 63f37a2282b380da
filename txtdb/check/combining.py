"""A database and an open change to it, merged in memory: tables and patches by cell, other files by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from txtdb.check.finding import CellRef
from txtdb.diff.repository import merge_text, path_in_repository, revision_files, run_git
from txtdb.faults import FaultError
from txtdb.layers.database import Database
from txtdb.layers.listing import SCHEMA_FOLDER
from txtdb.merge.conflicts import CellConflict, content_text
from txtdb.merge.defaults import agreed_defaults
from txtdb.merge.result import merge_files
from txtdb.merge.threeway import SIDES, Three
from txtdb.merge.versions import same_content
from txtdb.patching.apply import Incoming, apply_patches, read_patch
from txtdb.patching.files import Files

_LAYERS = (".txtdb", ".dbpatch")


@dataclass(frozen=True)
class OpenChange:
    """A change that is not merged: the files that it started from, and what it made of them.

    For a patch file these are none and the file itself, with the evidence beside it.
    """

    name: str
    base: Files
    theirs: Files


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A file that both sides changed so that they do not merge.

    `cells` are those that both set, if that is all; `contents` has a line for each version of each of them.
    """

    file: str
    message: str
    cells: tuple[CellRef, ...] = ()
    contents: tuple[str, ...] = ()


def read_change(database: Database, root: Path, spec: str) -> OpenChange:
    """A patch file, or the branch or other revision of this name. Raises FaultError when it is neither."""
    path = Path(spec)
    if path.suffix == ".dbpatch" and path.is_file():
        return _patch_change(database, path)
    prefix = path_in_repository(root)
    base = run_git(root, "merge-base", "HEAD", spec, fault=spec).decode().strip()
    return OpenChange(spec, revision_files(root, base, prefix), revision_files(root, spec, prefix))


def _patch_change(database: Database, path: Path) -> OpenChange:
    """The patch under its own name, as it would stand in a branch of its own."""
    patch = read_patch(database, path)
    if not isinstance(patch, Incoming):
        raise FaultError(patch)
    files = {f"{patch.arch}/{path.name}": patch.data}
    brought = apply_patches(database, [path], force=True)
    evidence = {name: data for name, data in brought.change.items() if data and not name.endswith(_LAYERS)}
    return OpenChange(path.as_posix(), {}, {**files, **evidence})


def combine(ours: Files, change: OpenChange) -> tuple[Files, list[MergeConflict]]:
    """The files with a change merged in. A file in conflict stays as it is in `ours`."""
    files, conflicts = dict(ours), []
    for name in sorted({*change.base, *change.theirs}):
        versions = Three(change.base.get(name), files.get(name), change.theirs.get(name))
        merged = versions.settled if versions.agrees else _merged(name, versions, files)
        if isinstance(merged, MergeConflict):
            conflicts.append(merged)
        elif merged is None:
            files.pop(name, None)
        else:
            files[name] = merged
    return files, conflicts


def _merged(name: str, versions: Three[bytes | None], files: Files) -> bytes | MergeConflict | None:
    """The merged content, None where the file is removed. Both sides changed it, differently."""
    if versions.base is not None and (versions.ours is None or versions.theirs is None):
        kept = versions.theirs if versions.ours is None else versions.ours
        assert kept is not None, "both removed it: they agree"
        if name.endswith(_LAYERS) and same_content(versions.base, kept, name):
            return None
        return MergeConflict(name, "one side removed it, the other changed it")
    if name.endswith(_LAYERS):
        return _merged_layer(name, versions, files)
    if versions.base is None:
        return MergeConflict(name, "both sides add it")
    base, ours, theirs = (data or b"" for data in versions)
    text = merge_text(base, ours, theirs)
    return MergeConflict(name, "both sides changed the same lines") if text is None else text


def _merged_layer(name: str, versions: Three[bytes | None], files: Files) -> bytes | MergeConflict:
    def defaults(iface: str) -> Mapping[str, str]:
        schema = files.get(f"{SCHEMA_FOLDER}/{iface}.toml")
        return agreed_defaults([schema] if schema else [], iface)

    merged, faults = merge_files(versions, Three(name, name, name), defaults)
    if merged is None:
        return MergeConflict(name, f"a version of it has faults: {faults[0].message}")
    if not merged.has_conflict:
        return merged.text.encode()
    if merged.clash or merged.directives:
        return MergeConflict(name, merged.clash or f"both sides changed `#! {merged.directives[0].identity[0]}`")
    contents = tuple(line for cell in merged.cells for line in _contents(cell))
    return MergeConflict(name, "both sides set the same cells", tuple(map(_cell, merged.cells)), contents)


def _contents(conflict: CellConflict) -> Iterator[str]:
    """`[fp16 0 64] 64,128: ours: BLOCK_M=64 (at 14:4)`, for base, ours and theirs."""
    place = f"[{' '.join(value for _, value in conflict.functional)}] {','.join(str(n) for _, n in conflict.at)}"
    for side, content, span in zip(SIDES, conflict.contents, conflict.spans, strict=True):
        where = f" (at {span.line}:{span.column})" if span else ""
        yield f"{place}: {side}: {content_text(content)}{where}"


def _cell(conflict: CellConflict) -> CellRef:
    return CellRef(conflict.functional, tuple(value for _, value in conflict.at))
