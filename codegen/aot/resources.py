"""`<arch>/<iface>.resources`: what the compiled images of a table need, as text beside it, one line an image.

    #! resources 1
    #! iface attn_fwd
    #! arch gfx942
    #! key Q_dtype CAUSAL_TYPE BLOCK_DMODEL …
    #! config BLOCK_M BLOCK_N PRE_LOAD_V …
    #! columns registers sgprs spills sgpr_spills shared occupancy

    [bf16 0 64 false false 0] 6a1f09c2b7d4e583 triton-3.9.0+llvm-6bc4aaf6641c
    64 64 false 2 4 1 = 128 60 0 0 16384 4
    256 128 false 2 1 1 = timeout
    #! end

A block is a functional: its key values, the digest of the kernel's source that was compiled and the compiler. A line is
a config by those of its fields that change the binary, with the numbers of `result.Resources` (`-` where the arch has
no such thing) or the status of an image that could not be compiled. Lines are sorted. There are lines for every
candidate that was compiled, not only for those that a table uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from codegen.aot.result import OK, STATUSES, Resources
from txtdb.faults import Fault, Span
from txtdb.files import write_if_changed
from txtdb.layers.listing import RESOURCES_SUFFIX
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional, print_values

RULE = "resources"

COLUMNS = tuple(item.name for item in fields(Resources))

_MAGIC = "#! resources 1"
_END = "#! end"
# registers sgprs spills sgpr_spills shared occupancy
_NUMBERS = r"\d+ (?:\d+|-) \d+ (?:\d+|-) \d+ \d+"
_DIRECTIVE = re.compile(r"#! (\S+)((?: \S+)*)")
_LINE = re.compile(rf"([^\[#\s=]\S*(?: [^\s=]+)*) = ({_NUMBERS}|{'|'.join(STATUSES[1:])})")
_HEAD = re.compile(r"\[([^\]]*)\] ([0-9a-f]{16}) (\S+)")


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one image. `resources` are there for one that was compiled."""

    functional: Functional
    config: ConfigValues
    source: str
    compiler: str
    status: str
    resources: Resources | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `status` is `ok` for an image that was compiled."""

    line: int
    status: str
    resources: Resources | None


@dataclass(frozen=True)
class Block:
    """The images of one functional. `lines` maps a config's text to its line number and what stands behind the sign."""

    line: int
    source: str
    compiler: str
    lines: dict[str, tuple[int, str]]

    def entry(self, config: str) -> Entry | None:
        """The line of a config; None where there is none."""
        return _entry(*self.lines[config]) if config in self.lines else None

    def entries(self) -> Iterator[Entry]:
        """All lines."""
        return (_entry(*line) for line in self.lines.values())


@dataclass(frozen=True)
class ResourceFile:
    """`blocks` by the text of the functional."""

    file: str
    iface: str
    arch: str
    keys: tuple[str, ...]
    fields: tuple[str, ...]
    blocks: dict[str, Block]

    def span(self, line: int) -> Span:
        """A line as a span."""
        return Span(self.file, line, 1, line, 1)


def read_resources(data: bytes, file: str) -> tuple[ResourceFile | None, list[Fault]]:
    """Read a resource file; None with faults where it is not one, whole and well-formed."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None, [Fault(RULE, Span(file), "the file is not valid UTF-8", _AGAIN)]
    reader = _Reader(file)
    reader.read(lines)
    return (None if reader.faults else reader.result()), reader.faults


def resource_file(schema: Schema, arch: str, records: Iterable[Record]) -> ResourceFile:
    """The file that holds these records, without a place on disk. Records of a functional share source and compiler."""
    blocks: dict[str, Block] = {}
    for record in records:
        name = print_values(record.functional)
        block = blocks.setdefault(name, Block(0, record.source, record.compiler, {}))
        assert (block.source, block.compiler) == (record.source, record.compiler), "one build, one kernel, one compiler"
        block.lines[print_values(record.config)] = 0, _outcome(record)
    binary = tuple(item.name for item in schema.config if item.binary)
    return ResourceFile("", schema.iface, arch, schema.key_names, binary, blocks)


def merged(old: ResourceFile | None, new: ResourceFile, known: Iterable[Functional]) -> ResourceFile:
    """New blocks, with the lines of old ones of the same source and compiler, and the old blocks of other functionals
    that are `known`.
    """
    if old is None or (old.keys, old.fields) != (new.keys, new.fields):
        return new
    names = {print_values(functional) for functional in known}
    kept = {name: block for name, block in old.blocks.items() if name in names and name not in new.blocks}
    both = {name: _joined(old.blocks.get(name), block) for name, block in new.blocks.items()}
    return ResourceFile(new.file, new.iface, new.arch, new.keys, new.fields, {**kept, **both})


def resources_text(content: ResourceFile) -> str:
    """The one text of a resource file."""
    lines = [
        _MAGIC,
        f"#! iface {content.iface}",
        f"#! arch {content.arch}",
        f"#! key {' '.join(content.keys)}",
        f"#! config {' '.join(content.fields)}",
        f"#! columns {' '.join(COLUMNS)}",
    ]
    for name in sorted(content.blocks, key=_rank):
        block = content.blocks[name]
        lines += ["", f"[{name}] {block.source} {block.compiler}"]
        lines += [f"{config} = {block.lines[config][1]}" for config in sorted(block.lines, key=_rank)]
    return "\n".join([*lines, _END]) + "\n"


def update_resources(
    root: Path, schema: Schema, arch: str, records: Sequence[Record]
) -> tuple[Path, bool, list[Fault]]:
    """Bring the resource file of a table up to date: its path, whether it was written, and why not.

    An old file that cannot be read is not overwritten. Raises OSError when the new one cannot be written.
    """
    path = root / arch / f"{schema.iface}{RESOURCES_SUFFIX}"
    old, faults = None, list[Fault]()
    if path.is_file():
        old, faults = read_resources(path.read_bytes(), path.as_posix())
    if faults:
        return path, False, faults
    arch_schema = schema.for_arch(arch)
    known = arch_schema.supported if arch_schema else frozenset[Functional]()
    text = resources_text(merged(old, resource_file(schema, arch, records), known))
    return path, write_if_changed(path, text.encode()), []


_AGAIN = "remove it and write it again with `txtdb aot resources`"


class _Reader:
    def __init__(self, file: str) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._header: dict[str, tuple[str, ...]] = {}
        self._blocks: dict[str, Block] = {}
        self._block: Block | None = None

    def read(self, lines: list[str]) -> None:
        if not lines or lines[0] != _MAGIC:
            self.fault(1, f"the first line is not `{_MAGIC}`")
        elif lines[-1] != _END:
            self.fault(len(lines), f"the closing `{_END}` is missing: a part of the file is lost")
        else:
            for number, line in enumerate(lines[1:-1], 2):
                self.line(number, line)

    def line(self, number: int, line: str) -> None:
        if line.startswith("#! "):
            self.directive(number, line)
        elif line.startswith("["):
            self.block(number, line)
        elif line.strip():
            self.image(number, line)

    def directive(self, number: int, line: str) -> None:
        found = _DIRECTIVE.fullmatch(line)
        if found is None:
            self.fault(number, f"this is no line of a resource file: `{line[:60]}`")
        else:
            self._header[found[1]] = tuple(found[2].split())

    def block(self, number: int, line: str) -> None:
        found = _HEAD.fullmatch(line)
        if found is None:
            self.fault(number, "a block starts with `[key values] source compiler`")
        elif found[1] in self._blocks:
            self.fault(number, f"there are two blocks of [{found[1]}]")
        else:
            self._block = self._blocks[found[1]] = Block(number, found[2], found[3], {})

    def image(self, number: int, line: str) -> None:
        found = _LINE.fullmatch(line)
        if found is None:
            self.fault(number, f"this is no line of a resource file: `{line[:60]}`")
        elif self._block is None:
            self.fault(number, "a line stands before the first block")
        elif found[1] in self._block.lines:
            self.fault(number, f"there are two lines for {found[1]}")
        else:
            self._block.lines[found[1]] = number, found[2]

    def result(self) -> ResourceFile | None:
        named = {name: self._header.get(name, ()) for name in ("iface", "arch", "key", "config", "columns")}
        wrong = [name for name in ("iface", "arch") if len(named[name]) != 1]
        if wrong or named["columns"] != COLUMNS:
            self.fault(1, f"the header needs one iface, one arch and the columns {' '.join(COLUMNS)}")
            return None
        (iface,), (arch,) = named["iface"], named["arch"]
        return ResourceFile(self._file, iface, arch, named["key"], named["config"], self._blocks)

    def fault(self, number: int, message: str) -> None:
        self.faults.append(Fault(RULE, Span(self._file, number, 1, number, 1), message, _AGAIN))


def _entry(line: int, outcome: str) -> Entry:
    if outcome in STATUSES:
        return Entry(line, outcome, None)
    numbers = (None if text == "-" else int(text) for text in outcome.split())
    return Entry(line, OK, Resources(*numbers))  # type: ignore[arg-type]


def _outcome(record: Record) -> str:
    if record.resources is None:
        return record.status
    numbers = (getattr(record.resources, name) for name in COLUMNS)
    return " ".join("-" if number is None else str(number) for number in numbers)


def _joined(old: Block | None, new: Block) -> Block:
    if old is None or (old.source, old.compiler) != (new.source, new.compiler):
        return new
    return Block(new.line, new.source, new.compiler, {**old.lines, **new.lines})


def _rank(text: str) -> list[tuple[int, int, str]]:
    """Sort key of values as text: numbers by size, the others by letter."""
    return [(0, int(word), "") if word.lstrip("-").isdecimal() else (1, 0, word) for word in text.split(" ")]
