"""One version of a file, read and brought into canonical form."""

from __future__ import annotations

import re
from dataclasses import dataclass

from txtdb.faults import Fault, errors
from txtdb.merge.threeway import Three
from txtdb.syntax import Document, Line, Shape, Source, print_source, read


@dataclass(frozen=True)
class Version:
    """A version of a file: as written, and in canonical form (`source` of `text`). A missing file has an empty text."""

    written: Source
    source: Source
    text: str

    @property
    def document(self) -> Document:
        """The canonical tree."""
        return self.source.document

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes; none where the file has no grid."""
        return tuple(name for name, _ in self.source.shape.axes)


def read_version(data: bytes, file: str) -> tuple[Version | None, tuple[Fault, ...]]:
    """Read one version. With any error there is none: what could not be read would be lost in the merge."""
    written, faults = read(data, file)
    wrong = errors(faults)
    if written is None or wrong:
        return None, wrong
    text = print_source(written)
    source, _ = (written, []) if text.encode() == data else read(text.encode(), file)
    assert source is not None, "the printer's text can be read"
    return Version(written, source, text), ()


def read_versions(data: Three[bytes | None], files: Three[str]) -> tuple[Three[Version] | None, tuple[Fault, ...]]:
    """Read the three versions; all faults of all of them.

    None or no byte as the base means that there was no such file, which is how git calls a driver when both sides add
    one. As a side, an empty file is one that cannot be read; whether a side removed the file is the caller's to decide.
    """
    assert data.ours is not None and data.theirs is not None, "a file that a side removed is not merged by cell"
    results = [
        read_version(data.base, files.base) if data.base else (_missing(files.base), ()),
        read_version(data.ours, files.ours),
        read_version(data.theirs, files.theirs),
    ]
    faults = tuple(fault for _, found in results for fault in found)
    base, ours, theirs = (version for version, _ in results)
    if base is None or ours is None or theirs is None:
        return None, faults
    return Three(base, ours, theirs), faults


def same_content(one: bytes, other: bytes, file: str) -> bool:
    """Whether two versions of a file say the same, comments included; not when either has an error."""
    (first, _), (second, _) = read_version(one, file), read_version(other, file)
    return first is not None and second is not None and first.text == second.text


def origin_text(version: Version) -> str:
    """Where a version's cells come from, for people: its `#! origin` and `#! evidence`, digests cut short."""
    document = version.document
    parts = [f"origin {text}" for text in (document.argument("origin"),) if text]
    for directive in document.directives:
        if directive.name == "evidence":
            file, digest = directive.args
            parts.append(f"evidence {file} {digest[:_DIGEST_SHOWN]}")
    return _PARTING.join(parts)


def told_apart(origins: Three[str]) -> Three[str]:
    """The texts of `origin_text` without what all three say, which the file's header says as well."""
    parts = origins.map(lambda text: _PARTS.split(text))
    common = set(parts.base) & set(parts.ours) & set(parts.theirs)
    return parts.map(lambda own: _PARTING.join(part for part in own if part not in common))


_PARTING = "; "
# An origin may have the parting in it; each piece of evidence is one.
_PARTS = re.compile(f"{_PARTING}(?=evidence )")
_DIGEST_SHOWN = len("sha256:") + 12


def _missing(file: str) -> Version:
    nothing = Line(0, "")
    source = Source(Document(file, "", nothing, (), (), (), nothing), Shape(()), ())
    return Version(source, source, "")
