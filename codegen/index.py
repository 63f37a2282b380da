"""index.json: what was generated from what. A later run leaves alone what has not changed since."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

INDEX_FILE = "index.json"
FORMAT = 1

_SOURCES = (
    ("codegen", "*.py"),
    ("codegen", "templates/*.in"),
    ("txtdb.syntax", "*.py"),
    ("txtdb.syntax", "*.lark"),
    ("txtdb.model", "*.py"),
    ("txtdb.layers", "*.py"),
)
_PATH = re.compile(r"(?:cpp|python|manifest)(?:/[A-Za-z0-9_]+)*/[A-Za-z0-9_]+\.(?:h|cpp|inc|py|json)")


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """What is known of one (arch, interface): the digest of its inputs, and counts for the report.

    `holes` are declared cells without a config, `images` the kernel images that the table can ask for.
    """

    inputs: str
    functionals: int
    configs: int
    images: int
    holes: int


@dataclass(frozen=True, slots=True)
class Index:
    """`files` maps each generated path to the digest of its content, `units` "arch/interface" to its record.

    `generator` is the digest of the program: what another version generated is generated anew.
    """

    generator: str
    files: Mapping[str, str]
    units: Mapping[str, UnitRecord]

    def text(self) -> str:
        """The content of index.json."""
        content = {
            "format": FORMAT,
            "generator": self.generator,
            "files": dict(sorted(self.files.items())),
            "units": {name: asdict(unit) for name, unit in sorted(self.units.items())},
        }
        return json.dumps(content, indent=1) + "\n"


def read_index(out: Path) -> Index | None:
    """The index of an output folder; None where there is none that this program can trust."""
    try:
        content = json.loads((out / INDEX_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    try:
        return _index(content) if content["format"] == FORMAT else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _index(content: Mapping[str, Any]) -> Index:
    units = {name: UnitRecord(**unit) for name, unit in content["units"].items()}
    files = {path: str(digest) for path, digest in content["files"].items()}
    # Files that are no longer generated are deleted: a path that this program never writes is nobody's to delete.
    if not all(map(_PATH.fullmatch, files)):
        raise ValueError("a path that is none of the generated ones")
    return Index(content["generator"], files, units)


class Previous:
    """An output folder as the last run left it, asked for what can stay as it is."""

    def __init__(self, out: Path, index: Index) -> None:
        self._out, self._index = out, index
        self._data: dict[str, bytes | None] = {}

    def intact(self, path: str) -> bytes | None:
        """The content of a generated file, or None where it is not what the index says."""
        if path not in self._data:
            self._data[path] = self._read(path)
        return self._data[path]

    def digest(self, path: str) -> str:
        """What the index says of a file's content."""
        return self._index.files[path]

    def unit(self, name: str, inputs: str, files: tuple[str, ...]) -> UnitRecord | None:
        """The record of a unit that was made from the same inputs and whose files are all there."""
        if self._index.generator != generator_digest():
            return None
        record = self._index.units.get(name)
        if record is None or record.inputs != inputs:
            return None
        return record if all(self.intact(path) is not None for path in files) else None

    def _read(self, path: str) -> bytes | None:
        expected = self._index.files.get(path)
        try:
            data = (self._out / path).read_bytes() if expected else b""
        except OSError:
            return None
        return data if digest(data) == expected else None


def digest(data: bytes) -> str:
    """The digest of a file's content."""
    return f"sha256:{sha256(data).hexdigest()}"


@cache
def generator_digest() -> str:
    """The digest of all sources that decide what is generated: a changed program reuses nothing."""
    total = sha256()
    for package, pattern in _SOURCES:
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.glob(pattern), key=lambda path: path.name):
            total.update(f"{package}/{path.name} {digest(path.read_bytes())}\n".encode())
    return f"sha256:{total.hexdigest()}"
