"""Text of one file → `Document` and faults.

A clean file goes through lark in one call. When lark refuses it, the lines are classified one by one with the
grammar's own terminals and fed to the same LALR tables, so that every wrong line is reported and the rest of
the file is still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from lark import Lark, Token, UnexpectedInput
from lark.parsers.lalr_interactive_parser import InteractiveParser

from txtdb.faults import Fault, Span
from txtdb.syntax.mistakes import name_mistake, out_of_place
from txtdb.syntax.tree import Block, Directive, Document, Entry, Line, Row

FORMAT_VERSION = 1
SUFFIX_KIND = {".txtdb": "txtdb", ".dbpatch": "dbpatch"}
HEADER = ("IFACE", "ARCH", "BASE", "ORIGIN", "WHY", "EVIDENCE", "ONTO", "KEY", "AXIS", "CONFIG")
_TRIVIA = ("COMMENT", "EXTENSION")
_LINE_TERMINALS = ("MAGIC", *HEADER, "END", *_TRIVIA, "ENTRY", "BLOCK", "ROW")


@cache
def grammar() -> Lark:
    """The compiled grammar."""
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", start=["start", "pieces"])


@cache
def terminal(name: str) -> re.Pattern[str]:
    """The compiled pattern of one terminal of the grammar, for matching a whole line or word."""
    return re.compile(f"(?:{grammar().get_terminal(name).pattern.to_regexp()})")


def parse_bytes(data: bytes, file: str) -> tuple[Document | None, list[Fault]]:
    """Parse the content of a file. `file` is the name that spans carry.

    The document is None when too little could be understood to use it; the faults then say why.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        return None, [
            _first_line_fault("bom", file, "the file starts with a byte order mark", "save it as UTF-8 without BOM")
        ]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        span = Span(file, line, column, line, column)
        return None, [Fault("not-utf8", span, "the file is not valid UTF-8", "save it as UTF-8")]
    return parse_text(text, file)


def parse_text(text: str, file: str) -> tuple[Document | None, list[Fault]]:
    """Like `parse_bytes`, from text. CRLF and LF read alike."""
    text = text.replace("\r\n", "\n")
    tokens, faults = _tokens(text, file)
    document = _build(tokens, file) if tokens is not None else None
    if document is not None:
        faults.extend(_header_faults(document))
    return document, faults


def _tokens(text: str, file: str) -> tuple[list[Token] | None, list[Fault]]:
    try:
        tree = grammar().parse(text, start="start")
    except UnexpectedInput:
        return _recover(text, file)
    tokens = list(_flatten(tree.children))
    version = tokens[0].split()[-1]
    if int(version) != FORMAT_VERSION:
        return None, [_version_fault(tokens[0], file)]
    return tokens, []


def _flatten(children: Iterable[object]) -> Iterator[Token]:
    for child in children:
        if isinstance(child, Token):
            yield child
        else:
            yield from child.children  # type: ignore[attr-defined]


def _recover(text: str, file: str) -> tuple[list[Token] | None, list[Fault]]:
    """Read line by line: what a terminal matches and the LALR tables accept is kept, the rest is reported."""
    faults: list[Fault] = []
    kept: list[Token] = []
    parser: InteractiveParser = grammar().parse_interactive(start="start")
    lines = text.split("\n")
    ended = False
    for number, line in enumerate(lines, 1):
        if not line.strip(" "):
            continue
        kind = _classify(line)
        token = Token(kind or "ROWS", line, line=number, column=1)
        if kind == "MAGIC" and int(line.split()[-1]) != FORMAT_VERSION:
            return None, [_version_fault(token, file)]
        if kind is None:
            faults.append(name_mistake(line, number, file))
        elif ended:
            faults.append(
                Fault(
                    "text-after-end",
                    _whole(token, file),
                    "text after `#! end`",
                    "remove it, or move `#! end` to the end of the file",
                )
            )
        elif not kept and kind != "MAGIC":
            faults.append(
                _first_line_fault("no-magic", file, "the first line must be `#! txtdb 1` or `#! dbpatch 1`", "")
            )
            return None, faults
        elif _feed(parser, token):
            kept.append(token)
            ended = kind == "END"
        else:
            faults.append(out_of_place(kind, _whole(token, file)))
    if not kept:
        faults = faults or [
            _first_line_fault(
                "no-magic", file, "the file is empty", "a file starts with `#! txtdb 1` or `#! dbpatch 1`"
            )
        ]
        return None, faults
    if not ended:
        last = len(lines) - (lines[-1] == "")
        faults.append(
            Fault(
                "truncated",
                Span(file, last, 1, last, max(1, len(lines[last - 1]))),
                "the file does not end with `#! end`: it is truncated",
                "restore the missing part, then close the file with `#! end`",
            )
        )
        kept.append(Token("END", "#! end", line=last + 1, column=1))
    return kept, faults


def _classify(line: str) -> str | None:
    kind = next((name for name in _LINE_TERMINALS if terminal(name).fullmatch(line)), None)
    return "ROWS" if kind == "ROW" else kind


def _feed(parser: InteractiveParser, token: Token) -> bool:
    try:
        parser.feed_token(token)
    except UnexpectedInput:
        return False
    return True


def _build(tokens: list[Token], file: str) -> Document:
    """Group tokens into a document; comments go to the line that follows them."""
    directives: list[Directive] = []
    palette: list[Entry] = []
    blocks: list[tuple[Token, tuple[str, ...], list[Row]]] = []
    trivia: list[Token] = []
    magic, end = Line(1, str(tokens[0]).rstrip()), Line(1, "#! end")
    above = 1
    for token in tokens[1:]:
        kind, line = token.type, token.line or 0
        if kind in _TRIVIA:
            trivia.append(token)
            continue
        starts_section = kind == "BLOCK" or (kind == "ENTRY" and not palette)
        leading = _leading(trivia, above, line, starts_section)
        trivia, above = [], line + token.count("\n")
        if kind == "ROWS":
            first, *others = token.split("\n")
            rows = blocks[-1][2]
            rows.append(Row(line, first, leading))
            rows.extend(Row(line + offset, text) for offset, text in enumerate(others, 1))
        elif kind == "BLOCK":
            blocks.append((token, leading, []))
        elif kind == "ENTRY":
            palette.append(Entry(line, str(token), leading))
        elif kind == "END":
            end = Line(line, str(token), leading)
        else:
            directives.append(Directive(line, str(token), leading))
    return Document(
        file=file,
        kind=magic.words()[1],
        magic=magic,
        directives=tuple(directives),
        palette=tuple(palette),
        blocks=tuple(Block(head.line or 0, str(head), before, tuple(rows)) for head, before, rows in blocks),
        end=end,
    )


def _leading(trivia: list[Token], above: int, below: int, starts_section: bool) -> tuple[str, ...]:
    """Comments between lines `above` and `below`; at a section's start with the place of its blank line."""
    texts = [str(token).rstrip() for token in trivia]
    if not starts_section:
        return tuple(texts)
    lines = [token.line or 0 for token in trivia]
    attached = sum(line == above + 1 + index for index, line in enumerate(lines))
    touches_below = attached == len(lines) and below == above + 1 + len(lines)
    split = 0 if touches_below else attached
    return (*texts[:split], "", *texts[split:])


_REPEATABLE = ("axis", "evidence")
_NOT_IN_PATCH = ("base",)
_ONLY_IN_PATCH = ("onto",)


def _header_faults(document: Document) -> Iterator[Fault]:
    """What the grammar leaves to a second look: directives that are missing, doubled or do not belong here."""
    seen: dict[str, int] = {}
    for directive in document.directives:
        name, span = directive.name, directive.span(document.file)
        if name in seen and name not in _REPEATABLE:
            yield Fault(
                "duplicate-directive",
                span,
                f"`#! {name}` stands already in line {seen[name]}",
                "keep one of them",
            )
        if name in (_NOT_IN_PATCH if document.kind == "dbpatch" else _ONLY_IN_PATCH):
            yield Fault(
                "directive-out-of-place",
                span,
                f"`#! {name}` does not belong into a {_KIND_NAME[document.kind]}",
                "",
            )
        seen.setdefault(name, directive.line)
    yield from (
        Fault(
            "missing-directive",
            document.magic.span(document.file),
            f"`#! {name}` is missing",
            f"add `#! {name} …` to the header",
        )
        for name in _needed(document)
        if name not in seen
    )
    yield from _name_faults(document)
    suffix = SUFFIX_KIND.get(Path(document.file).suffix)
    if suffix and suffix != document.kind:
        yield Fault(
            "wrong-kind",
            document.magic.span(document.file),
            f"a {_KIND_NAME[document.kind]} in a file named *.{suffix}",
            "rename the file, or correct its first line",
        )


_KIND_NAME = {"txtdb": "table", "dbpatch": "patch"}


def _needed(document: Document) -> tuple[str, ...]:
    """A table may consist of its directives alone; with blocks it must say what they mean."""
    required: tuple[str, ...] = ("iface", "arch")
    if document.blocks:
        required += ("key", "axis", "config")
    elif document.palette:
        required += ("config",)
    return required


def _name_faults(document: Document) -> Iterator[Fault]:
    """Names that stand twice, and axis bins that do not increase."""
    axes = [d for d in document.directives if d.name == "axis"]
    if len(axes) > 4:
        yield Fault("too-many-axes", axes[4].span(document.file), f"{len(axes)} axes; a table has one to four", "")
    for directive in document.directives:
        if directive.name in ("key", "config"):
            args = directive.args
            for index, name in enumerate(args):
                if name in args[:index]:
                    yield Fault(
                        "duplicate-name",
                        directive.arg_span(document.file, index),
                        f"`{name}` stands twice in `#! {directive.name}`",
                        "keep one",
                    )
    for number, directive in enumerate(axes):
        args = directive.args
        if args[0] in (other.args[0] for other in axes[:number]):
            yield Fault(
                "duplicate-name",
                directive.arg_span(document.file, 0),
                f"axis `{args[0]}` stands twice",
                "keep one",
            )
        bins = [int(arg) for arg in args[1:]]
        for index, (before, after) in enumerate(pairwise(bins), 2):
            if after <= before:
                yield Fault(
                    "axis-order",
                    directive.arg_span(document.file, index),
                    f"bin {after} follows {before}: bins must increase",
                    "sort them, without repeats",
                )


def _version_fault(magic: Token, file: str) -> Fault:
    version = magic.split()[-1]
    return Fault(
        "newer-version",
        _whole(magic, file),
        f"format version {version}; this program reads version {FORMAT_VERSION}",
        "update txtdb",
    )


def _whole(token: Token, file: str) -> Span:
    line = token.line or 0
    return Span(file, line, 1, line, max(1, len(token)))


def _first_line_fault(rule: str, file: str, message: str, hint: str) -> Fault:
    return Fault(rule, Span(file, 1, 1, 1, 1), message, hint)
