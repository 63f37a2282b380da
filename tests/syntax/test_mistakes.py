"""Each common mistake by its plain name, at its place: snippet → (rule, line, first column, last column)."""

from __future__ import annotations

import pytest

from txtdb.faults import Fault
from txtdb.syntax import read
from txtdb.syntax.header import header_faults
from txtdb.syntax.mistakes import MISTAKES, name_mistake
from txtdb.syntax.parser import parse_text

GOOD = """\
#! txtdb 1
#! iface f
#! arch g
#! key dtype causal
#! axis m 16 32 64
#! axis n 16 32
#! config BLOCK warps
a = 16 true
b = 32 true
[bf16 0]
16 a b
32-64 b*2
[fp16 0]
16 a*2
#! end
"""

Expected = list[tuple[str, int, int, int]]


def change(*pairs: tuple[str, str]) -> str:
    text = GOOD
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def found(text: str | bytes, file: str = "g/f.txtdb") -> Expected:
    data = text.encode() if isinstance(text, str) else text
    return [(f.rule, f.span.line, f.span.column, f.span.last_column) for f in read(data, file)[1]]


CASES: dict[str, tuple[str | bytes, Expected]] = {
    # the file as a whole
    "empty file": ("", [("no-magic", 1, 1, 1)]),
    "blank file": ("\n  \n", [("no-magic", 1, 1, 1)]),
    "no first line": (change(("#! txtdb 1\n", "")), [("no-magic", 1, 1, 10)]),
    "another kind of text": ("hello\nworld\n", [("no-magic", 1, 1, 5)]),
    "comment above the first line": ("# hi\n" + GOOD, [("no-magic", 1, 1, 4)]),
    "malformed first line": (change(("#! txtdb 1", "#! txtdb one")), [("directive-form", 1, 1, 12)]),
    "first line without a blank": (change(("#! txtdb 1", "#!txtdb 1")), [("unknown-directive", 1, 1, 7)]),
    "newer version": (change(("txtdb 1", "txtdb 2"), ("[bf16 0]", "{bf16 0}")), [("newer-version", 1, 1, 10)]),
    "older version": (change(("txtdb 1", "txtdb 0")), [("newer-version", 1, 1, 10)]),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD.encode(), [("bom", 1, 1, 1)]),
    "byte order mark and more": (
        b"\xef\xbb\xbf" + change(("16 a b", "16 a")).encode(),
        [("bom", 1, 1, 1), ("row-too-short", 11, 1, 4)],
    ),
    "not UTF-8": ("é\n".encode() + "é".encode() + b"\xff\n", [("not-utf8", 2, 2, 2)]),
    "no end": (change(("#! end\n", "")), [("truncated", 14, 1, 6)]),
    "no end, nor a line end": (change(("16 a*2\n#! end\n", "16 a*2")), [("truncated", 14, 1, 6)]),
    "malformed end": (change(("#! end", "#! end of file")), [("directive-form", 15, 1, 14)]),
    "text after the end": (GOOD + "\n16 a b\n# more\n", [("text-after-end", 17, 1, 6)]),
    "two files joined": (GOOD + GOOD, [("text-after-end", 16, 1, 10)]),
    "a second first line": (change(("a = 16 true", "#! txtdb 1\na = 16 true")), [("directive-out-of-place", 8, 1, 10)]),
    # what editors and merges leave
    "conflict marker": (
        change(("32-64 b*2", "<<<<<<< ours\n32-64 b*2\n=======\n>>>>>>> theirs")),
        [("conflict-marker", 12, 1, 14)],
    ),
    "conflict marker with base": (
        change(("32-64 b*2", "||||||| 1234567\n32-64 b*2")),
        [("conflict-marker", 12, 1, 15)],
    ),
    "conflict at the first line": ("<<<<<<< ours\n" + GOOD, [("conflict-marker", 1, 1, 12)]),
    "both sides of a conflict": (
        change(("16 a b", "<<<<<<< ours\n16 a b\n=======\n16 b a\n>>>>>>> theirs")),
        [("conflict-marker", 11, 1, 14)],
    ),
    "a conflict that was half resolved": (
        change(("16 a b", "16 a b\n=======\n64 b a\n>>>>>>> theirs")),
        [("conflict-marker", 12, 1, 7), ("conflict-marker", 14, 1, 14), ("rows-overlap", 15, 1, 5)],
    ),
    "tab in a row": (change(("16 a b", "16\ta b")), [("tab", 11, 3, 3)]),
    "tab in a block head": (change(("[bf16 0]", "[bf16\t0]")), [("tab", 10, 6, 6)]),
    "tab in an entry": (change(("a = 16 true", "a\t= 16 true")), [("tab", 8, 2, 2)]),
    "carriage return inside": (change(("16 a b", "16 a\rb")), [("carriage-return", 11, 5, 5)]),
    "carriage return in a comment": (change(("16 a b", "# x\r16 a b")), [("carriage-return", 11, 4, 4)]),
    "NUL in a comment": (change(("16 a b", "# x\x00\n16 a b")), [("control-character", 11, 4, 4)]),
    "line separator in a comment": (change(("16 a b", "# x\u2028y\n16 a b")), [("control-character", 11, 4, 4)]),
    "NUL in free text": (change(("#! arch g", "#! arch g\n#! why a\x00b")), [("control-character", 4, 9, 9)]),
    "next line in free text": (change(("#! arch g", "#! arch g\n#! why a\x85")), [("control-character", 4, 9, 9)]),
    "escape in an x- directive": (change(("16 a b", "#! x-a \x1b[1m\n16 a b")), [("control-character", 11, 8, 8)]),
    "indented": (change(("16 a b", "  16 a b")), [("indented", 11, 1, 2)]),
    "indented head": (change(("[bf16 0]", " [bf16 0]")), [("indented", 10, 1, 1)]),
    "comment behind a row": (change(("16 a b", "16 a b # slow")), [("comment-not-alone", 11, 7, 13)]),
    "comment behind a head": (change(("[bf16 0]", "[bf16 0] # why")), [("comment-not-alone", 10, 9, 14)]),
    # the header
    "unknown directive": (change(("#! arch g", "#! arch g\n#! colour red")), [("unknown-directive", 4, 1, 9)]),
    "misspelt directive": (change(("#! arch g", "#! arch g\n#! orign hand")), [("unknown-directive", 4, 1, 8)]),
    "directive without its word": (change(("#! arch g", "#! arch")), [("directive-form", 3, 1, 7)]),
    "origin of no known kind": (change(("#! arch g", "#! arch g\n#! origin guess")), [("directive-form", 4, 1, 15)]),
    "malformed axis": (change(("m 16 32 64", "m 16 32 64k")), [("directive-form", 5, 1, 19)]),
    "number of 19 digits": (change(("m 16 32 64", "m 16 32 1000000000000000000")), [("directive-form", 5, 1, 35)]),
    "number with a leading zero": (change(("m 16 32 64", "m 016 32 64")), [("directive-form", 5, 1, 19)]),
    "missing directive": (change(("#! arch g\n", "")), [("missing-directive", 1, 1, 10)]),
    "missing key": (change(("#! key dtype causal\n", "")), [("missing-directive", 1, 1, 10)]),
    "missing axes": (
        change(("#! axis m 16 32 64\n", ""), ("#! axis n 16 32\n", "")),
        [("missing-directive", 1, 1, 10)],
    ),
    "directive twice": (change(("#! arch g", "#! arch g\n#! arch h")), [("duplicate-directive", 4, 1, 9)]),
    "directive below the header": (change(("[bf16 0]", "#! arch h\n[bf16 0]")), [("directive-out-of-place", 10, 1, 9)]),
    "directive among rows": (change(("16 a b", "#! why not\n16 a b")), [("directive-out-of-place", 11, 1, 10)]),
    "onto in a table": (
        change(("#! arch g", f"#! arch g\n#! onto sha256:{'0' * 64}")),
        [("directive-out-of-place", 4, 1, 79)],
    ),
    "key twice": (change(("key dtype causal", "key dtype dtype")), [("duplicate-name", 4, 14, 18)]),
    "axis twice": (change(("axis n 16", "axis m 16")), [("duplicate-name", 6, 9, 9)]),
    "field twice": (change(("config BLOCK warps", "config warps warps")), [("duplicate-name", 7, 17, 21)]),
    "bins that fall": (change(("m 16 32 64", "m 16 64 32 8 4")), [("axis-order", 5, 17, 18), ("bad-label", 12, 1, 5)]),
    "bin twice": (change(("n 16 32", "n 16 16")), [("axis-order", 6, 14, 15)]),
    "five axes": (
        change(("#! axis n", "#! axis p 1\n#! axis q 1\n#! axis r 1\n#! axis n")),
        [("too-many-axes", 9, 1, 15)],
    ),
    # the palette
    "empty config": (change(("b = 32 true", "b =")), [("empty-config", 9, 1, 3)]),
    "malformed config": (change(("b = 32 true", "b = 32, true")), [("bad-config", 9, 3, 12)]),
    "bad symbol": (change(("b = 32 true", "b1 = 32 true")), [("bad-symbol", 9, 1, 2), ("unknown-symbol", 11, 6, 6)]),
    "no blank before the equals sign": (change(("b = 32", "b= 32")), [("bad-config", 9, 2, 10)]),
    "config too short": (change(("b = 32 true", "b = 32")), [("config-length", 9, 1, 6)]),
    "all configs too short": (
        change(("a = 16 true", "a = 16"), ("b = 32 true", "b = 32")),
        [("config-length", 7, 1, 21)],
    ),
    "symbol twice": (
        change(("b = 32 true", "a = 32 true")),
        [("duplicate-symbol", 9, 1, 1), ("unknown-symbol", 11, 6, 6)],
    ),
    "config twice": (change(("b = 32 true", "b = 16 true")), [("duplicate-config", 9, 1, 11)]),
    "entry below the blocks": (change(("#! end", "c = 1 true\n#! end")), [("entry-out-of-place", 15, 1, 10)]),
    # blocks and rows
    "malformed head": (change(("[bf16 0]", "[bf16 0")), [("bad-functional", 10, 1, 7)]),
    "empty head": (change(("[bf16 0]", "[]")), [("bad-functional", 10, 1, 2)]),
    "head too long": (change(("[bf16 0]", "[bf16 0 1]")), [("functional-length", 10, 1, 10)]),
    "all heads too long": (change(("key dtype causal", "key dtype")), [("functional-length", 4, 1, 12)]),
    "functional twice": (change(("[fp16 0]", "[bf16 0]")), [("duplicate-functional", 13, 1, 8)]),
    "block without rows": (change(("[fp16 0]\n16 a*2\n", "[fp16 0]\n")), [("empty-block", 13, 1, 8)]),
    "row above the blocks": (change(("[bf16 0]", "16 a b\n[bf16 0]")), [("row-out-of-place", 10, 1, 6)]),
    "malformed row": (change(("16 a b", "16 a b**2")), [("bad-row", 11, 1, 9)]),
    "run of a huge count": (change(("16 a b", f"16 a*{'9' * 18}")), [("row-too-long", 11, 4, 23)]),
    "label that is no bin": (change(("32-64 b*2", "48 b*2")), [("bad-label", 12, 1, 2)]),
    "range to no bin": (change(("32-64 b*2", "32-48 b*2")), [("bad-label", 12, 1, 5)]),
    "range backwards": (change(("32-64 b*2", "64-32 b*2")), [("bad-label", 12, 1, 5)]),
    "label of two axes": (change(("32-64 b*2", "32,64 b*2")), [("bad-label", 12, 1, 5)]),
    "no label": (change(("32-64 b*2", "b*2")), [("bad-label", 12, 1, 3)]),
    "unknown symbol": (change(("16 a b", "16 a q")), [("unknown-symbol", 11, 6, 6)]),
    "empty run": (change(("16 a b", "16 a*0 a b")), [("empty-run", 11, 4, 6)]),
    "row too short": (change(("16 a b", "16 a")), [("row-too-short", 11, 1, 4)]),
    "row too long": (change(("16 a b", "16 a b*2")), [("row-too-long", 11, 6, 8)]),
    "ranges overlap": (change(("16 a b", "16-32 a b")), [("rows-overlap", 12, 1, 5)]),
    "row twice": (change(("32-64 b*2", "32-64 b*2\n64 a*2")), [("rows-overlap", 13, 1, 2)]),
    "overlap and a bad run": (
        change(("32-64 b*2", "32-64 b*2\n64 a q")),
        [("rows-overlap", 13, 1, 2), ("unknown-symbol", 13, 6, 6)],
    ),
    "bad label and a bad run": (change(("32-64 b*2", "48 b")), [("bad-label", 12, 1, 2), ("row-too-short", 12, 1, 4)]),
}


def test_the_good_file_is_good() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize("case", CASES)
def test_mistake(case: str) -> None:
    text, expected = CASES[case]
    assert found(text) == expected


@pytest.mark.parametrize("case", [case for case, (text, _) in CASES.items() if isinstance(text, str)])
def test_mistake_in_a_file_with_crlf(case: str) -> None:
    text, expected = CASES[case]
    assert isinstance(text, str)
    assert found(text.replace("\n", "\r\n")) == expected


def test_label_of_a_table_with_one_axis() -> None:
    text = change(("#! axis m 16 32 64\n", ""), ("16 a b\n", "16 a b\n"), ("32-64 b*2\n", ""), ("16 a*2\n", "a b\n"))
    assert found(text) == [("bad-label", 10, 1, 2)]


def test_second_row_of_a_table_with_one_axis() -> None:
    text = change(("#! axis m 16 32 64\n", ""), ("16 a b\n", "a b\n"), ("32-64 b*2\n", "b a\n"), ("16 a*2\n", "a b\n"))
    assert found(text) == [("rows-overlap", 11, 1, 1)]


def test_patch_and_table_are_told_apart() -> None:
    patch = GOOD.replace("#! txtdb 1", "#! dbpatch 1")
    assert found(patch, "g/f.0001-x.dbpatch") == []
    assert found(patch, "g/f.txtdb") == [("wrong-kind", 1, 1, 12)]
    assert found(GOOD, "g/f.0001-x.dbpatch") == [("wrong-kind", 1, 1, 10)]
    based = patch.replace("#! arch g", "#! arch g\n#! base h")
    assert found(based, "f.dbpatch") == [("directive-out-of-place", 4, 1, 9)]


def test_all_faults_of_a_file_come_in_one_run_and_in_its_order() -> None:
    text = change(
        ("#! arch g", "#! arch g\n#! colour red"),
        ("b = 32 true", "b ="),
        ("[bf16 0]", "[bf16 0"),
        ("16 a b", "16\ta b"),
        ("32-64 b*2", "32-64 q*2\n<<<<<<< ours"),
        ("[fp16 0]", "[fp16 0 0]"),
        ("#! end\n", ""),
    )
    assert [(rule, line) for rule, line, _, _ in found(text)] == [
        ("unknown-directive", 4),
        ("empty-config", 10),
        ("bad-functional", 11),
        ("tab", 12),
        ("unknown-symbol", 13),
        ("conflict-marker", 14),
        ("functional-length", 15),
        ("truncated", 16),
    ]


def test_one_symbol_without_entry_is_one_fault_wherever_it_is_used() -> None:
    text = change(("16 a b", "16 q b"), ("32-64 b*2", "32-64 q r"), ("16 a*2", "16 r q"))
    assert found(text) == [("unknown-symbol", 11, 4, 4), ("unknown-symbol", 12, 9, 9)]


def test_every_mistake_has_a_case() -> None:
    rules = {rule for _, expected in CASES.values() for rule, _, _, _ in expected}
    assert {mistake.rule for mistake in MISTAKES} <= rules


def test_every_line_has_a_name() -> None:
    """name_mistake is only asked about lines that no terminal takes, but it never fails."""
    for line in ("", " ", "16 a", "#", "é", "\x00", "=", "[", "]", "-", ".", "#!", "a = 1"):
        fault = name_mistake(line, 3, "f")
        assert fault.message
        assert (fault.span.line, fault.span.column) == (3, 1) or line[fault.span.column - 1 :]


def test_hints_tell_the_form() -> None:
    def hint(line: str) -> str:
        return next(fault.hint for fault in read(change(("#! arch g", f"#! arch g\n{line}")).encode(), "f")[1])

    assert hint("#! origin") == "the form is `#! origin measured|modelled|imported|hand …`"
    assert hint("#! onto 5") == "the form is `#! onto sha256:DIGEST`"
    assert "own ones start with x-" in hint("#! colour")


def test_faults_of_a_header_need_no_blocks() -> None:
    document, faults = parse_text("#! txtdb 1\n#! iface f\n#! arch g\na = 1\n#! end\n", "f")
    assert document is not None
    assert [fault.message for fault in faults] == ["`#! config` is missing"]
    assert list(header_faults(document)) == faults


def test_messages_are_plain() -> None:
    faults: list[Fault] = []
    for text, _ in CASES.values():
        faults += read(text.encode() if isinstance(text, str) else text, "g/f.txtdb")[1]
    for fault in faults:
        assert fault.message[0].islower() or fault.message[0] in "`[0123456789"
        assert not fault.message.endswith(".")
        assert "\n" not in str(fault.message + fault.hint)


@pytest.mark.parametrize("cut", range(len(GOOD.splitlines())))
def test_every_prefix_cut_at_a_line_is_refused(cut: int) -> None:
    text = "".join(GOOD.splitlines(keepends=True)[:cut])
    rules = [rule for rule, _, _, _ in found(text)]
    assert rules.count("truncated" if cut else "no-magic") == 1


def test_a_misspelt_directive_is_told_what_it_may_have_meant() -> None:
    fault = name_mistake("#! orign modelled", 4, "t.txtdb")
    assert fault.message == "unknown directive `orign`"
    assert fault.hint.startswith("did you mean origin? known are txtdb, ")
