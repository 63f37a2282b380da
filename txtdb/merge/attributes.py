"""The lines in .gitattributes that tell git which files the drivers are for. Bytes to bytes; other lines stay."""

from __future__ import annotations

import re

FILE = ".gitattributes"
PATTERNS = ("*.txtdb", "*.dbpatch")
VALUES = {"text": "set", "eol": "lf", "merge": "txtdb", "diff": "txtdb"}

_BEGIN, _END = b"# txtdb git install: begin", b"# txtdb git install: end"
_LINES = [f"{pattern} text eol=lf merge=txtdb diff=txtdb".encode() for pattern in PATTERNS]
_BLOCK = b"\n".join([_BEGIN, *_LINES, _END])
_WRITTEN = re.compile(rb"^%b\r?\n(?:.*\n)*?%b\r?(?:\n|\Z)" % (_BEGIN, _END), re.MULTILINE)


def has_lines(data: bytes) -> bool:
    """Whether the lines stand in a file's content."""
    return _WRITTEN.search(data) is not None


def with_lines(data: bytes) -> bytes:
    """The content with the lines at its end, where they beat those above; as it is where it has them."""
    if has_lines(data):
        return data
    # A last line without line end gets one; the block has none then, which tells that it was added.
    return data + b"\n" + _BLOCK if data and not data.endswith(b"\n") else data + _BLOCK + b"\n"


def without_lines(data: bytes) -> bytes:
    """The content as it was before the lines were added."""
    found = _WRITTEN.search(data)
    if found is None:
        return data
    before, after = data[: found.start()], data[found.end() :]
    return before.removesuffix(b"\n") if not found[0].endswith(b"\n") else before + after
