"""Built tables → a pack: a zip file with the manifest and every distinct image once, the same bytes for equal content.

Entries stand in a fixed order with a fixed date.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from codegen.aot.abi import TRAILING, Interface
from codegen.aot.build import BuiltTable, Compilation
from codegen.aot.folder import BuildFolder
from codegen.aot.pack_file import IMAGES, MANIFEST_FILE, SEAL_LENGTH, seal
from codegen.aot.pack_manifest import (
    Manifest,
    Origin,
    PackedImage,
    PackedTable,
    Signature,
    Substitute,
    manifest_text,
)
from codegen.aot.plan import Wanted
from codegen.aot.reassign import Replaced
from codegen.aot.result import OK
from txtdb.files import replaced_file, temporary_prefix, write_output

_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o644 << 16


def pack_manifest(tables: Iterable[BuiltTable], compilation: Compilation) -> Manifest:
    """The manifest of a build without faults."""
    return Manifest({built.plan.place: _Packer(built, compilation).table() for built in tables})


def write_pack(path: Path, manifest: Manifest, folder: BuildFolder) -> None:
    """Write a pack whole or not at all. Raises OSError, also when an image is gone from the build folder.

    A link stays one, and what is no file is written to, as by `txtdb.files.write_output`.
    """
    place = replaced_file(path)
    around = place.parent if place else folder.path
    around.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=around, prefix=temporary_prefix(path), delete=False) as file:
        temporary = Path(file.name)
    try:
        _write_entries(temporary, manifest, folder)
        seal(temporary)
        temporary.chmod(0o644)
        if place:
            temporary.replace(place)
        else:
            write_output(path, temporary.read_bytes())
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _write_entries(path: Path, manifest: Manifest, folder: BuildFolder) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(MANIFEST_FILE), manifest_text(manifest))
        for name in sorted(manifest.files):
            data = folder.image(name.partition(".")[0])
            if data is None:
                raise FileNotFoundError(f"image {name} is no longer in the build folder {folder.path}")
            archive.writestr(_entry(IMAGES + name), data)
        archive.comment = b"0" * SEAL_LENGTH


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = _UNIX
    info.external_attr = _MODE
    return info


class _Packer:
    def __init__(self, built: BuiltTable, compilation: Compilation) -> None:
        self._built, self._compilation = built, compilation
        self._signatures: dict[Interface, Signature] = {}

    def table(self) -> PackedTable:
        plan, results = self._built.plan, self._built.results
        return PackedTable(
            digest=plan.digest,
            target=str(plan.target),
            keys=plan.schema.key_names,
            fields=plan.field_names,
            images={wanted.name: self.image(wanted) for wanted in plan.wanted if results[wanted].status == OK},
            replaced={item.wanted.name: self.substitute(item) for item in self._built.replaced},
        )

    def image(self, wanted: Wanted) -> PackedImage:
        spec, binary = self._built.specs[wanted], self._built.results[wanted].binary
        assert binary is not None
        file = f"{binary.digest}.{spec.target.suffix}"
        return PackedImage(wanted.name, self.origin(wanted), self.signature(spec.interface), file, binary)

    def substitute(self, item: Replaced) -> Substitute:
        resources = item.result.binary.resources if item.result.binary else None
        origin = self.origin(item.wanted)
        return Substitute(item.wanted.name, origin, item.by.name, item.result.status, resources, item.cells)

    def origin(self, wanted: Wanted) -> Origin:
        spec = self._built.specs[wanted]
        return Origin(wanted.functional, wanted.config, spec.source, self._compilation.compilers[spec])

    def signature(self, own: Interface) -> Signature:
        if own not in self._signatures:
            multiples = dict(own.multiples)
            arguments = [(name, kind, multiples.get(name, 1)) for name, kind in (*own.arguments, *TRAILING)]
            self._signatures[own] = Signature(tuple(arguments), own.fixed)
        return self._signatures[own]
