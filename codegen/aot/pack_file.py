"""The file of a pack: the names of its entries, and the seal that closes it.

The seal is the comment of the zip file: the digest of all bytes that stand before it. So no byte can change unseen,
those that no reader of zip files looks at included.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

MANIFEST_FILE = "manifest.json"
IMAGES = "images/"
# How a pack begins: the head of a zip entry, whose name, 26 bytes on, has this length and nothing behind it.
_ENTRY_START = b"PK\x03\x04"
_FIRST_ENTRY = len(MANIFEST_FILE).to_bytes(2, "little") + b"\0\0" + MANIFEST_FILE.encode()
SEAL = b"txtdb-pack 1 sha256:"
SEAL_LENGTH = len(SEAL) + 64

_CHUNK = 1 << 20


def begins_pack(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a pack: many files are zip files."""
    return head.startswith(_ENTRY_START) and head[26:].startswith(_FIRST_ENTRY)


def seal(path: Path) -> None:
    """Put the seal over the last SEAL_LENGTH bytes of a file. Raises OSError."""
    length = path.stat().st_size - SEAL_LENGTH
    text = SEAL + _digest(path, length)
    with path.open("r+b") as file:
        file.seek(length)
        file.write(text)


def is_sealed(path: Path) -> bool:
    """Whether a file is, byte for byte, what was sealed. Raises OSError."""
    length = path.stat().st_size - SEAL_LENGTH
    if length < 0:
        return False
    with path.open("rb") as file:
        file.seek(length)
        return file.read() == SEAL + _digest(path, length)


def _digest(path: Path, length: int) -> bytes:
    """The digest of the first `length` bytes of a file, in hex."""
    total = sha256()
    with path.open("rb") as file:
        while length > 0 and (data := file.read(min(length, _CHUNK))):
            total.update(data)
            length -= len(data)
    return total.hexdigest().encode()
