"""Plain names for the common mistakes: a table of patterns tried on a line that no terminal matches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from txtdb.faults import Fault, Span
from txtdb.syntax.conflicts import CONFLICT, MARKER
from txtdb.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class Mistake:
    """A pattern found in a wrong line, and what to call it. The match is where the span points."""

    rule: str
    pattern: re.Pattern[str]
    message: str
    hint: str


def _mistake(rule: str, pattern: str, message: str, hint: str) -> Mistake:
    return Mistake(rule, re.compile(pattern), message, hint)


_FORMS = {
    "txtdb": "#! txtdb 1",
    "dbpatch": "#! dbpatch 1",
    "iface": "#! iface NAME",
    "arch": "#! arch NAME",
    "base": "#! base ARCH",
    "origin": "#! origin measured|modelled|imported|hand …",
    "why": "#! why TEXT",
    "evidence": "#! evidence FILE sha256:DIGEST",
    "onto": "#! onto sha256:DIGEST",
    "key": "#! key NAME…",
    "axis": "#! axis NAME BIN…",
    "config": "#! config NAME…",
    "end": "#! end",
}

# The order matters: the first that matches names the fault.
MISTAKES = (
    _mistake(
        CONFLICT,
        MARKER,
        "unresolved merge conflict",
        "its other markers are gone: look at the lines around it, then delete it",
    ),
    _mistake("carriage-return", r"\r", "a carriage return inside a line", "use LF or CRLF line ends"),
    _mistake(
        "control-character",
        r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]",
        "a control character",
        "remove it: the format is plain text",
    ),
    _mistake("tab", r"\t", "a tab", "separate with blanks"),
    _mistake("directive-form", rf"^#! ({'|'.join(_FORMS)})(?= |$).*", "malformed directive", ""),
    _mistake(
        "unknown-directive",
        r"^#! ?([^ ]*)",
        "unknown directive",
        "known are " + ", ".join(_FORMS) + "; own ones start with x-",
    ),
    _mistake("indented", r"^ +", "the line is indented", "start it in the first column"),
    _mistake("comment-not-alone", r" #.*$", "a comment behind other text", "give the comment a line of its own"),
    _mistake(
        "empty-config",
        r"^[A-Za-z]+ *= *$",
        "a config without values",
        "give one value for each field of `#! config`",
    ),
    _mistake("bad-symbol", r"^(?![A-Za-z]+ *=)[^ =\[]+(?= *=)", "a symbol consists of letters", "rename the symbol"),
    _mistake("bad-config", r"=.*$", "malformed palette entry", "the form is `symbol = value value …`"),
    _mistake("bad-functional", r"^\[.*$", "malformed functional", "the form is `[value value …]`"),
    _mistake("bad-row", r"^.*$", "malformed line", "a row is a label and runs, like `32-128 a b*3 . -`"),
)


def name_mistake(line: str, number: int, file: str) -> Fault:
    """The fault for a line that is no line of the format."""
    for mistake in MISTAKES:
        match = mistake.pattern.search(line)
        if match:
            span = Span(file, number, match.start() + 1, number, max(match.start() + 1, match.end()))
            where = f", line {number}" if mistake.rule == CONFLICT else ""
            message, hint = _words(mistake, match)
            return Fault(mistake.rule, span, message + where, hint)
    raise AssertionError("the last pattern matches every line")


def _words(mistake: Mistake, match: re.Match[str]) -> tuple[str, str]:
    """Message and hint, with what was found in the line."""
    if mistake.rule == "directive-form":
        return mistake.message, f"the form is `{_FORMS[match[1]]}`"
    if mistake.rule == "unknown-directive" and match[1]:
        return f"{mistake.message} `{match[1]}`", f"{did_you_mean(match[1], _FORMS)}{mistake.hint}"
    return mistake.message, mistake.hint


_PLACES = {
    "ENTRY": ("entry-out-of-place", "a palette entry behind the blocks", "move it above the first `[…]`"),
    "ROWS": ("row-out-of-place", "a row outside a block", "rows follow a `[…]` line"),
    "MAGIC": ("directive-out-of-place", "a second first line", "two files may have been joined; keep one"),
}


def out_of_place(kind: str, span: Span) -> Fault:
    """The fault for a well-formed line that may not stand where it stands."""
    rule, message, hint = _PLACES.get(
        kind, ("directive-out-of-place", "a header directive below the header", "move it above the palette")
    )
    return Fault(rule, span, message, hint)
