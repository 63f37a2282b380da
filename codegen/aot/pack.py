"""Packs, opened: nothing in one is trusted, and each image is held against its digest when it is taken out.

with open_pack("build/amd-gfx942.pack", digest) as pack:
    image = pack.image("gfx942/attn_fwd", "attn_fwd-bf16-0-64-…")
    data = pack.data(image)
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from codegen.aot.pack_file import IMAGES, MANIFEST_FILE, SEAL_LENGTH, is_sealed
from codegen.aot.pack_manifest import IMAGE_FILE, Manifest, PackedImage, read_manifest
from txtdb.faults import Fault, FaultError, Span

MAX_IMAGE_BYTES = 1 << 26
MAX_MANIFEST_BYTES = 1 << 28
# Deflate makes nothing smaller than a thousandth.
MAX_RATIO = 1100

_ENTRY = re.compile(rf"{re.escape(IMAGES)}{IMAGE_FILE.pattern}")
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
)
_ENCRYPTED = 1


@dataclass(frozen=True)
class Pack:
    """A pack that is open. Its entries and its manifest fit together; the images have not been read yet."""

    path: Path
    manifest: Manifest
    archive: zipfile.ZipFile

    def image(self, place: str, name: str) -> PackedImage:
        """The image for a name in the table `arch/interface`, or what stands in for it. Launch it with *its* config.

        Raises FaultError when the pack has none.
        """
        table = self.manifest.tables.get(place)
        image = table.image(name) if table else None
        if image is None:
            raise FaultError([_fault("pack-missing-image", self.path, f"there is no image `{name}` for {place}")])
        return image

    def data(self, image: PackedImage) -> bytes:
        """The bytes of an image. Raises FaultError when they are not what the manifest says."""
        data = _read_entry(self.archive, IMAGES + image.file)
        if isinstance(data, str) or sha256(data).hexdigest() != image.binary.digest:
            raise FaultError([_damaged_image(self.path, image)])
        return data

    def unlike(self, digests: Sequence[str]) -> list[Fault]:
        """A fault for each digest of a dispatch table that this pack was not made for."""
        own = {table.digest for table in self.manifest.tables.values()}
        return [
            _fault("pack-unlike-table", self.path, f"the pack does not belong to the table {digest}", _REBUILD)
            for digest in digests
            if digest not in own
        ]

    def close(self) -> None:
        """Let go of the file."""
        self.archive.close()

    def __enter__(self) -> Pack:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()


_REBUILD = "build the pack and generate the tables from the same database"


def open_pack(path: str | Path, *table_digests: str) -> Pack:
    """Open a pack for the dispatch tables with these digests (`inputs_digest` of the generated code), at least one.

    Raises FaultError when the pack is damaged, or was made for other tables.
    """
    if not table_digests:
        raise TypeError("open_pack needs the digest of the table that it is opened for")
    pack, faults = read_pack(Path(path))
    if pack is None:
        raise FaultError(faults)
    unlike = pack.unlike(table_digests)
    if unlike:
        pack.close()
        raise FaultError(unlike)
    return pack


def read_pack(path: Path) -> tuple[Pack | None, list[Fault]]:
    """A pack whose entries and manifest fit together, or every fault that forbids its use."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        return None, [_fault("pack-unreadable", path, f"cannot be read: {error.strerror or error}")]
    except _BROKEN as error:
        return None, [_no_archive(path, error)]
    cut = len(archive.comment) != SEAL_LENGTH
    faults = [_fault("pack-truncated", path, _CUT, _AGAIN)] if cut else list(_entry_faults(path, archive))
    manifest = None if faults else _manifest(path, archive, faults)
    if manifest is not None:
        faults += _missing(path, archive, manifest)
    if faults or manifest is None:
        archive.close()
        return None, faults
    return Pack(path, manifest, archive), []


def verify_pack(path: Path) -> list[Fault]:
    """Everything that can be found wrong with a pack by itself; each byte of the file counts."""
    pack, faults = read_pack(path)
    if pack is None:
        return faults
    with pack:
        faults = [_damaged_image(path, image) for image in _distinct(pack) if not _is_intact(pack, image)]
    if not faults and not is_sealed(path):
        message = "the file is not what was written: its closing digest does not fit"
        faults.append(_fault("pack-damaged", path, message, _AGAIN))
    return faults


def _distinct(pack: Pack) -> list[PackedImage]:
    """One image of each file."""
    found: dict[str, PackedImage] = {}
    for table in pack.manifest.tables.values():
        for image in table.images.values():
            found.setdefault(image.file, image)
    return list(found.values())


def _is_intact(pack: Pack, image: PackedImage) -> bool:
    data = _read_entry(pack.archive, IMAGES + image.file)
    return not isinstance(data, str) and sha256(data).hexdigest() == image.binary.digest


_CUT = "the end of the file is missing or damaged"
_AGAIN = "build it again, or copy it again from where it came"


def _entry_faults(path: Path, archive: zipfile.ZipFile) -> Iterator[Fault]:
    """What an honest pack does not have: other names, names twice, sizes beyond reason, encrypted entries."""
    entries = archive.infolist()
    counts = Counter(info.filename for info in entries)
    for name, count in counts.items():
        if name != MANIFEST_FILE and not _ENTRY.fullmatch(name):
            yield _fault("pack-hostile", path, f"entry `{name}` has no place in a pack")
        elif count > 1:
            yield _fault("pack-hostile", path, f"entry `{name}` is there {count} times")
    for info in entries:
        limit = MAX_MANIFEST_BYTES if info.filename == MANIFEST_FILE else MAX_IMAGE_BYTES
        if info.file_size > min(limit, MAX_RATIO * info.compress_size + 1):
            yield _fault("pack-hostile", path, f"entry `{info.filename}` unpacks to {info.file_size} bytes")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            yield _fault("pack-hostile", path, f"entry `{info.filename}` is encrypted, or packed in another way")
    if MANIFEST_FILE not in counts:
        yield _fault("pack-manifest", path, f"there is no {MANIFEST_FILE}")


def _manifest(path: Path, archive: zipfile.ZipFile, faults: list[Fault]) -> Manifest | None:
    data = _read_entry(archive, MANIFEST_FILE)
    try:
        reason = data if isinstance(data, str) else ""
        if isinstance(data, bytes):
            return read_manifest(data)
    except ValueError as error:
        reason = str(error)
    faults.append(_fault("pack-manifest", path, f"{MANIFEST_FILE}: {reason}", _AGAIN))
    return None


def _missing(path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> Iterator[Fault]:
    there = {info.filename.removeprefix(IMAGES) for info in archive.infolist()} - {MANIFEST_FILE}
    for place, table in manifest.tables.items():
        for image in table.images.values():
            if image.file not in there:
                message = f"{place}: the file of image {image.name} is missing"
                yield _fault("pack-missing-image", path, message, _AGAIN)
    for name in sorted(there - manifest.files):
        yield _fault("pack-hostile", path, f"entry `{IMAGES}{name}` is named by no table")


def _read_entry(archive: zipfile.ZipFile, name: str) -> bytes | str:
    """The bytes of an entry, never more than it is said to have; why they cannot be had otherwise."""
    try:
        info = archive.getinfo(name)
        with archive.open(info) as stream:
            return stream.read(info.file_size)
    except (*_BROKEN, OSError, KeyError) as error:
        return f"damaged: {error}"


def _no_archive(path: Path, error: Exception) -> Fault:
    with path.open("rb") as file:
        begins = file.read(4) == b"PK\x03\x04"
    if begins:
        return _fault("pack-truncated", path, _CUT, _AGAIN)
    return _fault("pack-unreadable", path, f"this is no pack: {error}")


def _damaged_image(path: Path, image: PackedImage) -> Fault:
    return _fault("pack-damaged", path, f"image {image.name} is damaged ({image.file})", _AGAIN)


def _fault(rule: str, path: Path, message: str, hint: str = "") -> Fault:
    return Fault(rule, Span(path.as_posix()), message, hint)
