"""Some blocks cut out of a file's text: a log reads hundreds of versions of a table for a single cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping


def only_blocks(data: bytes, functionals: Collection[Mapping[str, str]]) -> bytes:
    """The file with the blocks of some functionals alone (each key name → text). Lines keep their numbers.

    Nothing is judged here: what is not understood is kept, so that the parser says what is wrong with it.
    """
    return b"\n".join(_lines(data.split(b"\n"), functionals))


def _lines(lines: list[bytes], functionals: Collection[Mapping[str, str]]) -> Iterator[bytes]:
    wanted: list[list[str | None]] = []
    keeps = True
    for line in lines:
        if line.startswith(b"#! key "):
            names = line.decode(errors="replace").split()[2:]
            wanted = [[functional.get(name) for name in names] for functional in functionals]
        if line.startswith(b"["):
            keeps = line.decode(errors="replace").strip().strip("[]").split() in wanted
        yield line if keeps or line.startswith(b"#! end") else b""
