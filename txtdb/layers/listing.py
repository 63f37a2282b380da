"""A database folder → which file is which. Nothing is opened here, and the order of directory entries plays no part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ARCHS_FILE = "archs.toml"
PINS_FILE = "pins.toml"
SCHEMA_FOLDER = "schema"
EVIDENCE_FOLDER = "evidence"

_PATCH = re.compile(r"(?P<iface>.+?)\.(?P<number>[0-9]{1,9})-(?P<name>.+)\.dbpatch")


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A table (number None) or a patch. `name` is the path below the root, with forward slashes."""

    path: Path
    name: str
    arch: str
    iface: str
    number: int | None = None

    @property
    def display(self) -> str:
        """The name that spans carry: the path as the root was given."""
        return self.path.as_posix()


@dataclass(frozen=True)
class Listing:
    """The files of one root, sorted. `strays` are files that nothing reads."""

    root: Path
    archs_file: Path | None
    schemas: dict[str, Path]
    tables: dict[tuple[str, str], LayerFile]
    patches: dict[tuple[str, str], tuple[LayerFile, ...]]
    pins: dict[str, Path]
    evidence: dict[str, tuple[Path, ...]]
    folders: tuple[str, ...]
    strays: tuple[Path, ...]

    def layer_files(self) -> Iterator[LayerFile]:
        """All tables and patches."""
        yield from self.tables.values()
        for patches in self.patches.values():
            yield from patches


def list_root(root: Path) -> Listing:
    """Sort the files of a root. Hidden files and Markdown pages are nobody's business."""
    builder = _Builder(root)
    for entry in _entries(root):
        if entry.is_dir() and entry.name == SCHEMA_FOLDER:
            builder.schema_folder(entry)
        elif entry.is_dir():
            builder.arch_folder(entry)
        elif entry.name != ARCHS_FILE:
            builder.strays.append(entry)
    return builder.listing()


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    visible = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted((entry for entry in visible if entry.suffix != ".md"), key=lambda entry: entry.name)


class _Builder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.schemas: dict[str, Path] = {}
        self.tables: dict[tuple[str, str], LayerFile] = {}
        self.patches: dict[tuple[str, str], list[LayerFile]] = {}
        self.pins: dict[str, Path] = {}
        self.evidence: dict[str, tuple[Path, ...]] = {}
        self.folders: list[str] = []
        self.strays: list[Path] = []

    def schema_folder(self, folder: Path) -> None:
        for entry in _entries(folder):
            if entry.suffix == ".toml" and entry.is_file():
                self.schemas[entry.name.removesuffix(".toml")] = entry
            else:
                self.strays.append(entry)

    def arch_folder(self, folder: Path) -> None:
        arch = folder.name
        self.folders.append(arch)
        for entry in _entries(folder):
            if entry.is_dir():
                self.evidence_folder(arch, entry)
            elif entry.name == PINS_FILE:
                self.pins[arch] = entry
            elif not self.layer_file(arch, entry):
                self.strays.append(entry)

    def evidence_folder(self, arch: str, folder: Path) -> None:
        entries = _entries(folder)
        if folder.name != EVIDENCE_FOLDER:
            self.strays.append(folder)
            return
        self.evidence[arch] = tuple(entry for entry in entries if entry.suffix == ".json")
        self.strays.extend(entry for entry in entries if entry.suffix != ".json")

    def layer_file(self, arch: str, path: Path) -> bool:
        name = f"{arch}/{path.name}"
        patch = _PATCH.fullmatch(path.name)
        if patch:
            file = LayerFile(path, name, arch, patch["iface"], int(patch["number"]))
            self.patches.setdefault((arch, patch["iface"]), []).append(file)
        elif path.suffix == ".txtdb":
            iface = path.name.removesuffix(".txtdb")
            self.tables[arch, iface] = LayerFile(path, name, arch, iface)
        else:
            return False
        return True

    def listing(self) -> Listing:
        archs_file = self.root / ARCHS_FILE
        return Listing(
            root=self.root,
            archs_file=archs_file if archs_file.is_file() else None,
            schemas=self.schemas,
            tables=self.tables,
            patches={place: tuple(sorted(files, key=patch_order)) for place, files in self.patches.items()},
            pins=self.pins,
            evidence=self.evidence,
            folders=tuple(self.folders),
            strays=tuple(self.strays),
        )


def patch_order(file: LayerFile) -> tuple[int, str]:
    """Patches apply by number, and by name where two have the same number."""
    return file.number or 0, file.path.name
