"""A database folder → which file is which. Nothing is opened here, and the order of directory entries plays no part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from txtdb.faults import Fault, Span

ARCHS_FILE = "archs.toml"
PINS_FILE = "pins.toml"
SCHEMA_FOLDER = "schema"
EVIDENCE_FOLDER = "evidence"
# What the compiled kernel images of a table need, kept beside it by the package that compiles them.
RESOURCES_SUFFIX = ".resources"

_PATCH = re.compile(r"(?P<iface>.+?)\.(?P<number>[0-9]{1,9})-(?P<name>.+)\.dbpatch")


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A table (number None) or a patch.

    `name` is the path below the root, with forward slashes; `display` what spans carry, see `Listing.shown`.
    """

    path: Path
    name: str
    display: str
    arch: str
    iface: str
    number: int | None = None


@dataclass(frozen=True)
class Listing:
    """The files of one root, sorted. `label` stands for the root in spans.

    `strays` are files that nothing reads, `faults` tells of folders that could not be listed.
    """

    root: Path
    label: str
    archs_file: Path | None
    schemas: dict[str, Path]
    tables: dict[tuple[str, str], LayerFile]
    patches: dict[tuple[str, str], tuple[LayerFile, ...]]
    pins: dict[str, Path]
    evidence: dict[str, tuple[Path, ...]]
    folders: tuple[str, ...]
    strays: tuple[Path, ...]
    resources: dict[tuple[str, str], Path]
    faults: tuple[Fault, ...] = ()

    def shown(self, path: Path) -> str:
        """A path of this root as spans carry it: below the label, which is the root as it was given."""
        return _shown(self.label, self.root, path)

    def layer_files(self) -> Iterator[LayerFile]:
        """All tables and patches."""
        yield from self.tables.values()
        for patches in self.patches.values():
            yield from patches


def list_root(root: Path, label: str = "") -> Listing:
    """Sort the files of a root. Hidden files and Markdown pages are nobody's business."""
    builder = _Builder(root, label or root.as_posix())
    for entry, is_dir in builder.entries(root) if is_folder(root) else ():
        if is_dir and entry.name == SCHEMA_FOLDER:
            builder.schema_folder(entry)
        elif is_dir:
            builder.arch_folder(entry)
        elif entry.name == ARCHS_FILE:
            builder.archs_file = entry
        else:
            builder.strays.append(entry)
    return builder.listing()


def _shown(label: str, root: Path, path: Path) -> str:
    below = path.relative_to(root).as_posix()
    return label if below == "." else f"{label}/{below}"


def is_folder(path: Path) -> bool:
    """Whether a path is a folder that can be reached."""
    try:
        return path.is_dir()
    except OSError:
        return False


class _Builder:
    def __init__(self, root: Path, label: str) -> None:
        self.root, self.label = root, label
        self.archs_file: Path | None = None
        self.schemas: dict[str, Path] = {}
        self.tables: dict[tuple[str, str], LayerFile] = {}
        self.patches: dict[tuple[str, str], list[LayerFile]] = {}
        self.pins: dict[str, Path] = {}
        self.evidence: dict[str, tuple[Path, ...]] = {}
        self.folders: list[str] = []
        self.strays: list[Path] = []
        self.resources: dict[tuple[str, str], Path] = {}
        self.faults: list[Fault] = []

    def entries(self, folder: Path) -> list[tuple[Path, bool]]:
        """(path, whether it is a folder) of what lies in a folder, by name; hidden files and pages left out."""
        try:
            visible = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
            found = [(entry, entry.is_dir()) for entry in visible if entry.suffix != ".md"]
            return sorted(found, key=lambda pair: pair[0].name)
        except OSError as error:
            span = Span(_shown(self.label, self.root, folder))
            message, hint = f"the folder cannot be read: {error.strerror}", "change its permissions"
            self.faults.append(Fault("unreadable", span, message, hint))
            return []

    def schema_folder(self, folder: Path) -> None:
        for entry, is_dir in self.entries(folder):
            if entry.suffix == ".toml" and not is_dir:
                self.schemas[entry.name.removesuffix(".toml")] = entry
            else:
                self.strays.append(entry)

    def arch_folder(self, folder: Path) -> None:
        arch = folder.name
        self.folders.append(arch)
        for entry, is_dir in self.entries(folder):
            if is_dir:
                self.evidence_folder(arch, entry)
            elif entry.name == PINS_FILE:
                self.pins[arch] = entry
            elif entry.suffix == RESOURCES_SUFFIX:
                self.resources[arch, entry.name.removesuffix(RESOURCES_SUFFIX)] = entry
            elif not self.layer_file(arch, entry):
                self.strays.append(entry)

    def evidence_folder(self, arch: str, folder: Path) -> None:
        entries = [entry for entry, _ in self.entries(folder)]
        if folder.name != EVIDENCE_FOLDER:
            self.strays.append(folder)
            return
        self.evidence[arch] = tuple(entry for entry in entries if entry.suffix == ".json")
        self.strays.extend(entry for entry in entries if entry.suffix != ".json")

    def layer_file(self, arch: str, path: Path) -> bool:
        name = f"{arch}/{path.name}"
        display = f"{self.label}/{name}"
        patch = _PATCH.fullmatch(path.name)
        if patch:
            file = LayerFile(path, name, display, arch, patch["iface"], int(patch["number"]))
            self.patches.setdefault((arch, patch["iface"]), []).append(file)
        elif path.suffix == ".txtdb":
            iface = path.name.removesuffix(".txtdb")
            self.tables[arch, iface] = LayerFile(path, name, display, arch, iface)
        else:
            return False
        return True

    def listing(self) -> Listing:
        return Listing(
            root=self.root,
            label=self.label,
            archs_file=self.archs_file,
            schemas=self.schemas,
            tables=self.tables,
            patches={place: tuple(sorted(files, key=patch_order)) for place, files in self.patches.items()},
            pins=self.pins,
            evidence=self.evidence,
            folders=tuple(self.folders),
            strays=tuple(self.strays),
            resources=self.resources,
            faults=tuple(self.faults),
        )


def patch_order(file: LayerFile) -> tuple[int, str]:
    """Patches apply by number, and by name where two have the same number."""
    return file.number or 0, file.path.name
