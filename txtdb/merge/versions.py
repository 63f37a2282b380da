"""One version of a file, read and brought into canonical form."""

from __future__ import annotations

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


def read_version(data: bytes | None, file: str) -> tuple[Version | None, tuple[Fault, ...]]:
    """Read one version. None data, or an empty file, means that the file does not exist there.

    With any error there is no version: what could not be read would be lost in the merge.
    """
    if not data:
        return _missing(file), ()
    written, faults = read(data, file)
    wrong = errors(faults)
    if written is None or wrong:
        return None, wrong
    text = print_source(written)
    source, _ = (written, []) if text.encode() == data else read(text.encode(), file)
    assert source is not None, "the printer's text can be read"
    return Version(written, source, text), ()


def read_versions(data: Three[bytes | None], files: Three[str]) -> tuple[Three[Version] | None, tuple[Fault, ...]]:
    """Read the three versions; all faults of all of them."""
    results = [read_version(content, file) for content, file in zip(data, files, strict=True)]
    faults = tuple(fault for _, found in results for fault in found)
    base, ours, theirs = (version for version, _ in results)
    if base is None or ours is None or theirs is None:
        return None, faults
    return Three(base, ours, theirs), faults


def origin_text(version: Version) -> str:
    """Where a version's cells come from, for people: its `#! origin` and `#! evidence`, digests cut short."""
    document = version.document
    parts = [f"origin {text}" for text in (document.argument("origin"),) if text]
    for directive in document.directives:
        if directive.name == "evidence":
            file, digest = directive.args
            parts.append(f"evidence {file} {digest[:_DIGEST_SHOWN]}")
    return "; ".join(parts)


_DIGEST_SHOWN = len("sha256:") + 12


def _missing(file: str) -> Version:
    nothing = Line(0, "")
    source = Source(Document(file, "", nothing, (), (), (), nothing), Shape(()), ())
    return Version(source, source, "")
