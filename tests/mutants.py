"""Seeded mutations of files, and what must hold of every result of reading one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

from txtdb.faults import Fault
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigPool, build_table
from txtdb.syntax import print_source, read

Mutation = Callable[[bytes, random.Random], bytes]

_PIECES = (
    b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> theirs\n", b"#! end\n", b"#! txtdb 1\n", b"#! txtdb 2\n",
    b"#! dbpatch 1\n", b"\t",
    b"\r", b"\r\n", b"\n", b"\x00", b"\xff", b"\xef\xbb\xbf", "\u2028".encode(), "é".encode(),
    b"[", b"]", b"=",
    b"*", b"*0", b"*999999999999999999", b"999999999999999999999", b"-", b".", b",", b"#", b"#! ", b"#! x-y z\n",
    b"# note\n", b"#! base gfx1100\n", b"#! axis m 1 2 3\n", b"#! key a b\n", b"#! config a\n", b"a = 1\n", b"[a b]\n",
    b"16 a*3\n", b"16-32 a\n", b" ", b"    ", b"true", b"-0", b"007", b"1.5", b"+1",
)  # fmt: skip


def _spot(data: bytes, chance: random.Random) -> tuple[int, int]:
    at = chance.randrange(len(data) + 1)
    return at, min(len(data), at + chance.choice([1, 1, 2, 5, 40]))


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _delete(data: bytes, chance: random.Random) -> bytes:
    first, last = _spot(data, chance)
    return data[:first] + data[last:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    first, last = _spot(data, chance)
    return data[:last] + data[first:last] * chance.choice([1, 2, 50]) + data[last:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at, _ = _spot(data, chance)
    return data[:at] + chance.choice(_PIECES) + data[at:]


def _replace(data: bytes, chance: random.Random) -> bytes:
    first, last = _spot(data, chance)
    return data[:first] + chance.choice(_PIECES) + data[last:]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Mutation:
    def mutation(data: bytes, chance: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        if lines:
            change(lines, chance)
        return b"".join(lines)

    return mutation


def _swap(lines: list[bytes], chance: random.Random) -> None:
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def _drop(lines: list[bytes], chance: random.Random) -> None:
    del lines[chance.randrange(len(lines))]


def _copy(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))


def _words(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    words = lines[at].split(b" ")
    words.insert(chance.randrange(len(words) + 1), chance.choice([*words, chance.choice(_PIECES).strip()]))
    del words[chance.randrange(len(words))]
    lines[at] = b" ".join(words)


def _piece(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(_PIECES) + chance.choice([b"", b"\n"]))


def _crlf(lines: list[bytes], chance: random.Random) -> None:
    lines[:] = [line.replace(b"\n", b"\r\n") if chance.random() < 0.7 else line for line in lines]


MUTATIONS: tuple[Mutation, ...] = (
    _flip, _delete, _repeat, _insert, _replace, _cut,
    *map(_lines, (_swap, _drop, _copy, _words, _piece, _crlf)),
)  # fmt: skip


def mutants(files: Iterable[bytes], count: int, seed: int) -> Iterator[bytes]:
    """`count` mutants in all, of the files in turn, one to three mutations each."""
    chance, originals = random.Random(seed), list(files)
    for number in range(count):
        data = originals[number % len(originals)]
        for _ in range(chance.choice([1, 1, 2, 3])):
            data = chance.choice(MUTATIONS)(data, chance) if data else data
        yield data


def read_soundly(data: bytes, file: str, schema: Schema, arch: str) -> list[Fault]:
    """Read one mutant; its faults. Anything but a document or faults with good spans is an AssertionError."""
    source, faults = read(data, file)
    table_faults = build_table(source, schema, arch, ConfigPool())[1] if source else []
    assert source or faults
    check_spans([*faults, *table_faults], data, file)
    if source and not faults:
        text = print_source(source)
        again, new = read(text.encode(), file)
        assert new == []
        assert again is not None
        assert print_source(again) == text
    return [*faults, *table_faults]


def check_spans(faults: Iterable[Fault], data: bytes, file: str) -> None:
    """Every fault points at a line of the file (or the one behind its last), at columns inside the line."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    for fault in faults:
        span = fault.span
        assert span.file == file
        assert 1 <= span.line <= len(lines) + 1, fault
        assert span.line == span.last_line or (fault.rule == "conflict-marker" and span.line < span.last_line), fault
        width = len(lines[span.last_line - 1]) if span.last_line <= len(lines) else 0
        assert 1 <= span.column <= span.last_column <= max(1, width), fault
        assert fault.rule and fault.message
