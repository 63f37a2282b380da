"""The file of a pack: the names of its entries, and the seal that closes it.

The seal is the comment of the zip file: the digest of all bytes that stand before it. So no byte can change unseen,
those that no reader of zip files looks at included.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

MANIFEST_FILE = "manifest.json"
IMAGES = "images/"
SEAL = b"txtdb-pack 1 sha256:"
SEAL_LENGTH = len(SEAL) + 64

_CHUNK = 1 << 20


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
