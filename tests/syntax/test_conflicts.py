"""A conflict that git left in a file: one fault, wherever it stands, and none of what follows from it."""

from __future__ import annotations

import pytest

from tests.build import F1, F2, table
from txtdb.faults import Fault
from txtdb.syntax import read

# Two blocks; every text below stands once in it.
GOOD = table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"], F2: ["64 b*3"]})

# What a merge by lines leaves: the text that is replaced, ours, theirs.
CASES = {
    "rows": ("128 a b*2\n", "128 a*3\n", "128 b*3\n"),
    "rows that overlap": ("128 a b*2\n", "128-256 a*3\n", "128 b*3\n"),
    "all rows of a block": ("64 b*3\n", "64 a*3\n", "64 c*3\n"),
    "comments alone": ("64 b*3\n", "# one\n", ""),
    "rows and the next head": (f"256 b c d\n\n[{F2}]\n", f"\n[{F2}]\n", "256 a*3\n\n[fp16 1 64]\n"),
    "a head that one side lacks": (f"256 b c d\n\n[{F2}]\n", f"256 a*3\n\n[{F2}]\n", "256 b*3\n"),
    "the same head twice": (f"[{F2}]\n64 b*3\n", f"[{F1}]\n64 b*3\n", f"[{F1}]\n64 a*3\n"),
    "entries": ("b = 64 true 4 1\n", "b = 64 true 8 1\n", "b = 32 true 2 1\n"),
    "an entry that one side lacks": ("d = 128 false 8 2\n", "", "d = 128 false 8 2\n"),
    "the axes": ("#! axis seqlen_k 64 128 256\n", "#! axis seqlen_k 64 128\n", "#! axis seqlen_k 64 128 512\n"),
    "the keys": ("#! key dtype causal head_dim\n", "#! key dtype\n", "#! key dtype causal\n"),
    "the interface": ("#! iface attn_fwd\n", "#! iface one\n", "#! iface other\n"),
    "wrong lines": ("128 a b*2\n", "128 a b**2\n", "\t\n#! colour\n"),
    "the first line": ("#! txtdb 1\n", "#! txtdb 1\n", "#! dbpatch 1\n"),
    "the last line": ("#! end\n", "256 a*3\n#! end\n", "#! end\n"),
    "the whole file": (GOOD, GOOD, GOOD.replace("a*3", "b*3")),
    "nothing against nothing": ("128 a b*2\n", "", ""),
}


def in_conflict(old: str, ours: str, theirs: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, f"<<<<<<< ours\n{ours}||||||| base\n{old}=======\n{theirs}>>>>>>> theirs\n")


def faults(text: str) -> list[Fault]:
    return read(text.encode(), "f.txtdb")[1]


def test_the_good_file_is_good() -> None:
    assert faults(GOOD) == []


@pytest.mark.parametrize("case", CASES)
def test_a_conflict_is_one_fault_with_all_its_lines(case: str) -> None:
    text = in_conflict(*CASES[case])
    (fault,) = faults(text)
    lines = text.splitlines()
    first, last = lines.index("<<<<<<< ours") + 1, lines.index(">>>>>>> theirs") + 1
    assert (fault.rule, fault.message) == (
        "conflict-marker",
        f"unresolved merge conflict, lines {first}–{last}",
    )
    span = fault.span
    assert (span.line, span.column, span.last_line, span.last_column) == (first, 1, last, len(">>>>>>> theirs"))
    assert fault.hint == "keep one part, delete the markers, then `txtdb fmt`"


def test_each_conflict_of_a_file_is_told_with_all_else() -> None:
    text = in_conflict("64 a*3\n", "64 b*3\n", "64 c*3\n")
    text = text.replace("256 b c d", "256 b c").replace(
        "64 b*3\n#! end", "<<<<<<< a\n=======\n64 c*3\n>>>>>>> b\n#! end"
    )
    assert [fault.rule for fault in faults(text)] == ["conflict-marker", "row-too-short", "conflict-marker"]


def test_a_conflict_behind_the_end() -> None:
    text = f"{GOOD}<<<<<<< ours\n=======\n64 a*3\n>>>>>>> theirs\n"
    assert [fault.rule for fault in faults(text)] == ["conflict-marker"]


def test_the_inner_one_of_two_starts_makes_the_conflict() -> None:
    text = GOOD.replace("128 a b*2\n", "<<<<<<< a\n<<<<<<< b\n128 a*3\n=======\n128 b*3\n>>>>>>> b\n")
    line = text.splitlines().index("<<<<<<< a") + 1
    assert [(fault.span.line, fault.span.last_line) for fault in faults(text)] == [
        (line, line),
        (line + 1, line + 5),
    ]
