"""Differences outside the cells: schemas, arch facts, pins, evidence, and what files say beside their cells."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txtdb.diff.edits import FactEdit
from txtdb.diff.sides import Side
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile, Listing
from txtdb.layers.resolve import content_text

_HEADER = ("base", "origin", "why", "evidence", "onto")


def fact_edits(old: Side, new: Side) -> Iterator[FactEdit]:
    """All differences outside the cells."""
    before, after = _fact_files(old.database), _fact_files(new.database)
    for name in sorted({*before, *after}):
        part, old_path = before.get(name, ("", None))
        other, new_path = after.get(name, ("", None))
        yield from _file_edits(part or other, name, _read(old_path), _read(new_path))
    yield from _layer_edits(old.database, new.database)


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
    """The content of a file; that of one that cannot be read is a fault of its database, told elsewhere."""
    try:
        return path.read_bytes() if path else None
    except OSError:
        return b""


def _file_edits(part: str, name: str, old: bytes | None, new: bytes | None) -> Iterator[FactEdit]:
    if old == new:
        return
    if old is None or new is None:
        yield FactEdit(part, name, "", None if old is None else "file", None if new is None else "file")
        return
    before, after = _decode(name, old), _decode(name, new)
    if before is None or after is None:
        words = ["unreadable" if content is None else "file" for content in (before, after)]
        yield FactEdit(part, name, "", *words)
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
    before, after = _without_equal(_named(old), _named(new))
    if not before and not after:
        return
    # deepdiff takes a third of a second to import; most comparisons find no changed fact.
    from deepdiff import DeepDiff

    found = DeepDiff(before, after, view="tree", ignore_order=False, ignore_type_in_groups=[])
    edits = {(_path(item), _text(item.t1), _text(item.t2)) for items in found.values() for item in items}
    for path, was, now in sorted(edits, key=lambda edit: (edit[0], edit[1] or "", edit[2] or "")):
        yield FactEdit(part, name, path, was, now)


class _ListText(str):
    """A list as one value."""

    __slots__ = ()


def _named(value: Any) -> Any:
    """Lists of tables that name themselves as tables, so that an inserted one is one difference and not many.

    A list without tables in it is one value: what it was and what it is reads better than its items.
    """
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if not any(isinstance(item, dict) for item in value):
        return _ListText(_text(value))
    names = [_name(item) for item in value]
    if None not in names and len(set(names)) == len(names):
        return {name: _named(item) for name, item in zip(names, value, strict=True)}
    return [_named(item) for item in value]


def _name(item: Any) -> str | None:
    """What tells a table of a list from the others: its name, or the cell that it is about."""
    if not isinstance(item, dict):
        return None
    if "name" in item:
        return str(item["name"])
    about = [item[key] for key in ("iface", "functional", "at") if key in item]
    return _text(about) if len(about) > 1 else None


def _without_equal(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two trees without the branches that they share: deepdiff takes seconds for what has many."""
    before, after = dict(old), dict(new)
    for key in old.keys() & new.keys():
        one, other = old[key], new[key]
        if isinstance(one, dict) and isinstance(other, dict):
            before[key], after[key] = _without_equal(one, other)
            same = not before[key] and not after[key]
        else:
            same = _text(one) == _text(other)  # Python takes True for 1
        if same:
            del before[key], after[key]
    return before, after


def _path(item: Any) -> str:
    return ".".join(map(str, item.path(output_format="list")))


def _text(value: Any) -> str | None:
    """A value for people; deepdiff's mark for nothing becomes None."""
    if type(value).__name__ == "NotPresent":
        return None
    return value if isinstance(value, _ListText) else json.dumps(value, default=str, ensure_ascii=False, sort_keys=True)


def _layer_edits(old: Database, new: Database) -> Iterator[FactEdit]:
    before, after = _layer_files(old), _layer_files(new)
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was is None or now is None or _read(was.path) != _read(now.path):
            yield from header_edits(was, now)
            yield from _palette_edits(old, was, new, now)


def _layer_files(database: Database) -> dict[str, LayerFile]:
    return {file.name: file for listing in database.listings for file in listing.layer_files()}


def header_edits(old: LayerFile | None, new: LayerFile | None) -> Iterator[FactEdit]:
    """What two versions of a table or patch say in their headers; bins count for tables, whose grid they are."""
    some = new or old
    assert some is not None, "one of them is there"
    kind = "table" if some.number is None else "patch"
    if old is None or new is None:
        yield FactEdit("file", some.name, "", None if old is None else kind, None if new is None else kind)
    before, after = _header(old), _header(new)
    for directive in dict.fromkeys((*before, *after)):
        if before.get(directive) != after.get(directive):
            yield FactEdit("header", some.name, directive, before.get(directive), after.get(directive))


def _header(file: LayerFile | None) -> dict[str, str]:
    """Directive → its text, read off the lines without parsing the file."""
    found: dict[str, str] = {}
    for line in (_read(file.path) or b"").decode("utf-8", "replace").split("\n") if file else ():
        if not line.startswith("#! "):
            continue
        name, *words = line[3:].split()
        if name == "axis" and words and file and file.number is None:
            name, *words = f"axis {words[0]}", *words[1:]
        elif name not in _HEADER:
            continue
        text = " ".join(words)
        found[name] = f"{found[name]}; {text}" if name in found else text
    return found


def _palette_edits(
    old: Database, old_file: LayerFile | None, new: Database, new_file: LayerFile | None
) -> Iterator[FactEdit]:
    """Configs that came into a palette, or left it, without any cell that tells of it."""
    some = new_file or old_file
    assert some is not None, "one of them is there"
    (before, idle_before), (after, idle_after) = _palette(old, old_file), _palette(new, new_file)
    for text in sorted(idle_before - after):
        yield FactEdit("palette", some.name, "", text, None)
    for text in sorted(idle_after - before):
        yield FactEdit("palette", some.name, "", None, text)


def _palette(database: Database, file: LayerFile | None) -> tuple[set[str], set[str]]:
    """The configs of a file's palette as texts, and those of them that no cell uses."""
    table = database.file(file).table if file else None
    if table is None or file is None:
        return set(), set()
    used = set(table.cells.ravel().tolist())
    schema, pool = database.schemas[file.iface], database.pool(file.iface)
    texts = {number: content_text(schema, pool[number]) for number in table.palette if number is not None}
    return set(texts.values()), {text for number, text in texts.items() if number not in used}
