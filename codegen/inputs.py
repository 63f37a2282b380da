"""Which files a generated table depends on, and the digest of their content, found without parsing them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from txtdb.layers.database import Database
from txtdb.layers.listing import SCHEMA_FOLDER

# Raised whenever the same inputs give other tables.
GENERATOR = "txtdb-codegen 1"

_BASE = re.compile(rb"^#! base +([A-Za-z0-9_.:+-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input: the number of its root (0 is the database itself) and its path below it, with forward slashes."""

    root: int
    name: str
    path: Path


class Inputs:
    """The inputs of a database's tables. Each file is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._digests: dict[Path, str] = {}
        self._bases: dict[Path, tuple[str, ...]] = {}

    def files(self, arch: str, iface: str) -> tuple[InputFile, ...]:
        """Every file that the table is made from: arch facts, schema, then the layers."""
        listing = self._database.listings[0]
        assert listing.archs_file is not None, "without arch facts there is no database"
        shared = (listing.archs_file, listing.schemas[iface])
        files = [InputFile(0, path.relative_to(listing.root).as_posix(), path) for path in shared]
        return (*files, *self.layers(arch, iface))

    def layers(self, arch: str, iface: str) -> tuple[InputFile, ...]:
        """The files of the table's layers, lowest first, those of its bases included."""
        if self._database.schemas[iface].kind == "fixed":
            return ()
        return tuple(self._layers(arch, iface, set()))

    def digest(self, arch: str, iface: str) -> str:
        """The digest of all inputs with their places in the layer order: `sha256:…`."""
        text = [GENERATOR, f"{arch} {iface}"]
        text += [f"{file.root} {file.name} {self._file_digest(file.path)}" for file in self.files(arch, iface)]
        return f"sha256:{sha256(chr(10).join(text).encode()).hexdigest()}"

    def watched(self, places: Iterable[tuple[str, str]]) -> list[Path]:
        """What tables depend on, for a depfile: their files, sorted, then the folders where a new file would count."""
        files = {file.path for place in places for file in self.files(*place)}
        return [*sorted(files), *self._folders()]

    def _folders(self) -> list[Path]:
        found = []
        for listing in self._database.listings:
            found += [listing.root, *(listing.root / folder for folder in listing.folders)]
            schemas = listing.root / SCHEMA_FOLDER
            found += [schemas] if schemas.is_dir() else []
        return found

    def _layers(self, arch: str, iface: str, seen: set[str]) -> Iterator[InputFile]:
        """Layer files, lowest first. Where bases run in a circle each arch comes once."""
        if arch in seen:
            return
        seen.add(arch)
        for root, listing in enumerate(self._database.listings):
            table = listing.tables.get((arch, iface))
            if table:
                for base in self._base_archs(table.path):
                    yield from self._layers(base, iface, seen)
                yield InputFile(root, table.name, table.path)
            for patch in listing.patches.get((arch, iface), ()):
                yield InputFile(root, patch.name, patch.path)
            if arch in listing.pins:
                path = listing.pins[arch]
                yield InputFile(root, path.relative_to(listing.root).as_posix(), path)

    def _base_archs(self, path: Path) -> tuple[str, ...]:
        """The archs of all `#! base` lines, wherever they stand: too many inputs do no harm, too few would."""
        self._file_digest(path)
        return self._bases[path]

    def _file_digest(self, path: Path) -> str:
        if path not in self._digests:
            data = path.read_bytes()
            self._digests[path] = sha256(data).hexdigest()
            self._bases[path] = tuple(base.decode() for base in _BASE.findall(data))
        return self._digests[path]
