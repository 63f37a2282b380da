"""Differences outside the cells: schemas, arch facts, pins, evidence and file headers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from txtdb.diff.edits import FactEdit
from txtdb.diff.sides import Side
from txtdb.layers.database import Database
from txtdb.layers.listing import Listing

_HEADER = ("base", "origin", "why", "evidence", "onto")


def fact_edits(old: Side, new: Side) -> Iterator[FactEdit]:
    """All differences outside the cells, by file and path."""
    before, after = _fact_files(old.database), _fact_files(new.database)
    for name in sorted({*before, *after}):
        part, old_path = before.get(name, ("", None))
        other, new_path = after.get(name, ("", None))
        yield from _file_edits(part or other, name, _read(old_path), _read(new_path))
    yield from _header_edits(old.database, new.database)


def _fact_files(database: Database) -> dict[str, tuple[str, Path]]:
    """Name below the root → (part, path)."""
    return {
        path.relative_to(listing.root).as_posix(): (part, path)
        for listing in database.listings
        for part, path in _parts(listing)
    }


def _parts(listing: Listing) -> Iterator[tuple[str, Path]]:
    if listing.archs_file:
        yield "archs", listing.archs_file
    yield from (("schema", path) for path in listing.schemas.values())
    yield from (("pins", path) for path in listing.pins.values())
    yield from (("evidence", path) for paths in listing.evidence.values() for path in paths)


def _read(path: Path | None) -> bytes | None:
    return path.read_bytes() if path else None


def _file_edits(part: str, name: str, old: bytes | None, new: bytes | None) -> Iterator[FactEdit]:
    if old == new:
        return
    if old is None or new is None:
        yield FactEdit(part, name, "", None if old is None else "file", None if new is None else "file")
        return
    before, after = _decode(name, old), _decode(name, new)
    if before is None or after is None:
        yield FactEdit(
            part, name, "", "unreadable" if before is None else "file", "unreadable" if after is None else "file"
        )
        return
    yield from _deep_edits(part, name, before, after)


def _decode(name: str, data: bytes) -> dict[str, Any] | None:
    try:
        text = data.decode("utf-8")
        decoded = json.loads(text) if name.endswith(".json") else tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _deep_edits(part: str, name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[FactEdit]:
    # deepdiff takes a third of a second to import; most comparisons find no changed fact.
    from deepdiff import DeepDiff

    found = DeepDiff(_named(old), _named(new), view="tree", ignore_order=False, ignore_type_in_groups=[])
    edits = {(_path(item), _text(item.t1), _text(item.t2)) for items in found.values() for item in items}
    for path, before, after in sorted(edits, key=lambda edit: (edit[0], edit[1] or "", edit[2] or "")):
        yield FactEdit(part, name, path, before, after)


def _named(value: Any) -> Any:
    """Arrays of tables with names as tables, so that an inserted key is one difference and not many."""
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        names = [str(item["name"]) for item in value]
        if len(set(names)) == len(names):
            return {name: _named(item) for name, item in zip(names, value, strict=True)}
    return value


def _path(item: Any) -> str:
    return ".".join(map(str, item.path(output_format="list")))


def _text(value: Any) -> str | None:
    """A value for people; deepdiff's mark for nothing becomes None."""
    if type(value).__name__ == "NotPresent":
        return None
    return json.dumps(value, default=str, ensure_ascii=False, sort_keys=True)


def _header_edits(old: Database, new: Database) -> Iterator[FactEdit]:
    before, after = _headers(old), _headers(new)
    for name in sorted({*before, *after}):
        yield from _directive_edits(name, before.get(name, {}), after.get(name, {}))


def _directive_edits(name: str, old: dict[str, str], new: dict[str, str]) -> Iterable[FactEdit]:
    for directive in _HEADER:
        if old.get(directive) != new.get(directive):
            yield FactEdit("header", name, directive, old.get(directive), new.get(directive))


def _headers(database: Database) -> dict[str, dict[str, str]]:
    """File name → directive → its text, read off the lines without parsing the file."""
    headers: dict[str, dict[str, str]] = {}
    for listing in database.listings:
        for file in listing.layer_files():
            lines = [
                line
                for line in file.path.read_bytes().decode("utf-8", "replace").splitlines()
                if line.startswith("#! ")
            ]
            directives: dict[str, str] = {}
            for line in lines:
                name, _, text = line[3:].partition(" ")
                if name in _HEADER:
                    directives[name] = f"{directives[name]}; {text}" if name in directives else text
            headers[file.name] = directives
    return headers
