"""Text of one file → `Document` and faults.

A clean file goes through lark in one call. When lark refuses it, the lines are classified one by one with the
grammar's own terminals and fed to the same LALR tables, so that every wrong line is reported and the rest of
the file is still read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from lark import Lark, Token, UnexpectedInput
from lark.lexer import TerminalDef
from lark.parsers.lalr_interactive_parser import InteractiveParser

from txtdb.faults import Fault, Span
from txtdb.syntax.conflicts import CONFLICT, conflict_regions, is_marker, region_fault
from txtdb.syntax.header import header_faults
from txtdb.syntax.mistakes import name_mistake, out_of_place
from txtdb.syntax.tree import Block, Directive, Document, Entry, Line, Row

FORMAT_VERSION = 1
HEADER = ("IFACE", "ARCH", "BASE", "ORIGIN", "WHY", "EVIDENCE", "ONTO", "KEY", "AXIS", "CONFIG")
_TRIVIA = ("COMMENT", "EXTENSION")
_MAGICS = "`#! txtdb 1` or `#! dbpatch 1`"
_ENTRY_START = re.compile(r"([A-Za-z]+)\s*=")
_DIRECTIVE_START = re.compile(r"#! *([a-z]+)")
_FIRST_LINE_ATTEMPT = re.compile(r"txtdb|dbpatch")
_LINE_TERMINALS = ("MAGIC", *HEADER, "END", *_TRIVIA, "ENTRY", "BLOCK", "ROW")


@cache
def grammar() -> Lark:
    """The compiled grammar."""
    starts = ["start", "pieces"]
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", start=starts, edit_terminals=_never_step_back)


def _never_step_back(terminal: TerminalDef) -> None:
    """Repeat groups possessively: no line has two readings, and a long one would keep a state for each of its words."""
    terminal.pattern.value = re.sub(r"\)([*+])(?![+?])", r")\1+", terminal.pattern.value)


@cache
def terminal(name: str) -> re.Pattern[str]:
    """The compiled pattern of one terminal of the grammar, for matching a whole line or word."""
    return re.compile(f"(?:{grammar().get_terminal(name).pattern.to_regexp()})")


def parse_bytes(data: bytes, file: str) -> tuple[Document | None, list[Fault]]:
    """Parse the content of a file. `file` is the name that spans carry.

    The document is None when too little could be understood to use it; the faults then say why.
    """
    marked = data.startswith(codecs.BOM_UTF8)
    message = "the file starts with a byte order mark"
    bom = [Fault("bom", Span(file, 1, 1, 1, 1), message, "save it as UTF-8 without BOM")] if marked else []
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").split("\n")
        line, column = len(before), len(before[-1]) + 1
        span = Span(file, line, column, line, column)
        return None, [*bom, Fault("not-utf8", span, "the file is not valid UTF-8", "save it as UTF-8")]
    document, faults = parse_text(text, file)
    return document, bom + faults


def parse_text(text: str, file: str) -> tuple[Document | None, list[Fault]]:
    """Like `parse_bytes`, from text. CRLF and LF read alike."""
    text = text.replace("\r\n", "\n")
    try:
        tree = grammar().parse(text, start="start")
    except UnexpectedInput:
        document, faults = _recover(text, file)
    else:
        document, faults = _accept(list(_flatten(tree.children)), file)
    if document is not None:
        faults.extend(header_faults(document))
    return document, faults


def _accept(tokens: list[Token], file: str) -> tuple[Document | None, list[Fault]]:
    if _version(tokens[0]) != FORMAT_VERSION:
        return None, [_version_fault(tokens[0], file)]
    return _build(tokens, file), []


def _flatten(children: Iterable[object]) -> Iterator[Token]:
    for child in children:
        if isinstance(child, Token):
            yield child
        else:
            yield from child.children  # type: ignore[attr-defined]


def _recover(text: str, file: str) -> tuple[Document | None, list[Fault]]:
    """Read line by line: what a terminal matches and the LALR tables accept is kept, the rest is reported."""
    reader = _LineReader(file)
    lines = text.split("\n")
    regions, behind = conflict_regions(lines), 0
    for number, line in enumerate(lines, 1):
        if number in regions:
            behind = regions[number] + 1
            reader.conflict(lines[number - 1 : behind - 1], number)
        elif number >= behind and line.strip(" ") and not reader.line(line, number):
            break
    if not reader.kept:
        empty = Fault("no-magic", Span(file, 1, 1, 1, 1), "the file is empty", f"a file starts with {_MAGICS}")
        return None, reader.faults or [empty]
    if not reader.ended:
        reader.truncated(lines)
    return _build(reader.kept, file, frozenset(reader.malformed)), reader.faults


class _LineReader:
    """Keeps the good lines of a bad file and names the bad ones.

    What depends on a bad line is not reported again: an unreadable head, entry or row leaves a stand-in without
    values, and a malformed directive is not missing.
    """

    def __init__(self, file: str) -> None:
        self.faults: list[Fault] = []
        self.kept: list[Token] = []
        self.malformed: set[str] = set()
        self.ended = False
        self._file = file
        self._parser: InteractiveParser = grammar().parse_interactive(start="start")

    def line(self, text: str, number: int) -> bool:
        """Take one line; False when the rest of the file is not to be read."""
        kind = _classify(text)
        token = Token(kind or "", text, line=number, column=1)
        if not self.kept:
            return self._first(kind, token)
        if self.ended:
            hint = "remove it, or move `#! end` to the end of the file"
            self.faults.append(Fault("text-after-end", _whole(token, self._file), "text after `#! end`", hint))
            return False
        if kind is None:
            self._bad(token)
        elif not self._keep(token):
            self.faults.append(out_of_place(kind, _whole(token, self._file)))
        return True

    def conflict(self, lines: list[str], first: int) -> None:
        """Take a conflict, markers included. What stands in it is not read: each line leaves what a bad one would."""
        self.faults.append(region_fault(self._file, first, lines))
        for number, line in enumerate(lines, first):
            if self.kept and line.strip(" ") and not is_marker(line) and _classify(line) not in _TRIVIA:
                self._leave_stand_in(Token("", line, line=number, column=1))

    def truncated(self, lines: list[str]) -> None:
        """Report a missing `#! end` and go on as if it were there."""
        last = len(lines) - (lines[-1] == "")
        span = Span(self._file, last, 1, last, max(1, len(lines[last - 1])))
        message = "the file does not end with `#! end`: it is truncated"
        self.faults.append(Fault("truncated", span, message, "restore the missing part, then close it with `#! end`"))
        self.kept.append(Token("END", "#! end", line=last + 1, column=1))

    def _first(self, kind: str | None, token: Token) -> bool:
        """The first line decides how the rest is read; only a conflict marker may stand before it."""
        mistake = name_mistake(token, token.line or 0, self._file) if kind is None else None
        if kind == "MAGIC" and _version(token) == FORMAT_VERSION:
            return self._keep(token)
        if kind == "MAGIC":
            self.faults = [_version_fault(token, self._file)]
        elif mistake and (mistake.rule == CONFLICT or _FIRST_LINE_ATTEMPT.search(token)):
            self.faults.append(mistake)
        elif not self.faults:
            self.faults.append(Fault("no-magic", _whole(token, self._file), f"the first line must be {_MAGICS}"))
        return mistake is not None and mistake.rule == CONFLICT

    def _keep(self, token: Token) -> bool:
        try:
            self._parser.feed_token(token)
        except UnexpectedInput:
            return False
        self.kept.append(token)
        self.ended = token.type == "END"
        return True

    def _bad(self, token: Token) -> None:
        self.faults.append(name_mistake(token, token.line or 0, self._file))
        self._leave_stand_in(token)

    def _leave_stand_in(self, token: Token) -> None:
        directive = _DIRECTIVE_START.match(token)
        if directive:
            self.malformed.add(directive[1])
        if not directive or directive[1] == "end":
            self._keep(_stand_in(token))


def _stand_in(token: Token) -> Token:
    """What a bad line was probably meant to be, without values."""
    text = token.lstrip()
    symbol = _ENTRY_START.match(text)
    if text.startswith("#!"):
        kind, text = "END", "#! end"
    elif symbol:
        kind, text = "ENTRY", f"{symbol[1]} ="
    else:
        kind, text = ("BLOCK", "[]") if text.startswith("[") else ("ROWS", "")
    return Token(kind, text, line=token.line, column=1)


def _classify(line: str) -> str | None:
    kind = next((name for name in _LINE_TERMINALS if terminal(name).fullmatch(line)), None)
    return "ROWS" if kind == "ROW" else kind


def _build(tokens: list[Token], file: str, malformed: frozenset[str] = frozenset()) -> Document:
    """Group tokens into a document."""
    builder = _Builder(tokens[0])
    for token in tokens[1:]:
        builder.add(token)
    blocks = (replace(block, rows=tuple(rows)) for block, rows in zip(builder.blocks, builder.rows, strict=True))
    return Document(
        file=file,
        kind=builder.magic.words()[1],
        magic=builder.magic,
        directives=tuple(builder.directives),
        palette=tuple(builder.palette),
        blocks=tuple(blocks),
        end=builder.end,
        malformed=malformed,
    )


class _Builder:
    """Collects lines. Comments go to the line below them, or to the section above them that they touch."""

    def __init__(self, first: Token) -> None:
        self.magic = Line(first.line or 0, str(first))
        self.end = self.magic
        self.directives: list[Directive] = []
        self.palette: list[Entry] = []
        self.blocks: list[Block] = []
        self.rows: list[list[Row]] = []
        self._trivia: list[Token] = []
        self._above = self.magic.line

    def add(self, token: Token) -> None:
        kind, line, text = token.type, token.line or 0, str(token)
        if kind in _TRIVIA:
            self._trivia.append(token)
            return
        leading = self._leading(kind, line) if self._trivia else ()
        self._above = line + text.count("\n")
        if kind == "ROWS":
            first, *others = text.split("\n")
            self.rows[-1].append(Row(line, first, leading))
            self.rows[-1].extend(Row(line + offset, other) for offset, other in enumerate(others, 1))
        elif kind == "BLOCK":
            self.blocks.append(Block(line, text, leading))
            self.rows.append([])
        elif kind == "ENTRY":
            self.palette.append(Entry(line, text, leading))
        elif kind == "END":
            self.end = Line(line, text, leading)
        else:
            self.directives.append(Directive(line, text, leading))

    def _leading(self, kind: str, below: int) -> tuple[str, ...]:
        """The comments that belong to the line `below`; where that starts a section, the others go to the one above."""
        texts = tuple(str(token).rstrip() for token in self._trivia)
        lines = [token.line or 0 for token in self._trivia]
        self._trivia = []
        if kind not in ("BLOCK", "END") and not (kind == "ENTRY" and not self.palette):
            return texts
        attached = sum(line == self._above + index for index, line in enumerate(lines, 1))
        touches_below = below == self._above + len(lines) + 1
        if touches_below and kind != "END":
            attached = 0
        if attached:
            self._close(texts[:attached])
        return texts[attached:]

    def _close(self, trailing: tuple[str, ...]) -> None:
        """Note comments below the last line of a section."""
        if self.blocks:
            self.blocks[-1] = replace(self.blocks[-1], trailing=trailing)
        elif self.palette:
            self.palette[-1] = replace(self.palette[-1], trailing=trailing)
        elif self.directives:
            self.directives[-1] = replace(self.directives[-1], trailing=trailing)
        else:
            self.magic = replace(self.magic, trailing=trailing)


def _version(magic: Token) -> int:
    return int(magic.split()[-1])


def _version_fault(magic: Token, file: str) -> Fault:
    version = _version(magic)
    return Fault(
        "newer-version",
        _whole(magic, file),
        f"format version {version}; this program reads version {FORMAT_VERSION}",
        "update txtdb" if version > FORMAT_VERSION else "",
    )


def _whole(token: Token, file: str) -> Span:
    line = token.line or 0
    return Span(file, line, 1, line, max(1, len(token)))
