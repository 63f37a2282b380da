"""Comments and `#! x-…` directives stay where they stand, in every odd place."""

from __future__ import annotations

import pytest

from txtdb.syntax import Document, print_source, read

HEADER = "#! txtdb 1\n#! iface f\n#! arch g\n#! key k\n#! axis m 16 32 64\n#! axis n 1 2\n#! config c\n"
PALETTE = "\na = 1\nb = 2\n"
BLOCKS = "\n[x]\n16 a b\n32-64 b*2\n\n[y]\n16 a*2\n"
GOOD = HEADER + PALETTE + BLOCKS + "#! end\n"


def fmt(text: str) -> str:
    source, faults = read(text.encode(), "f.txtdb")
    assert faults == []
    assert source is not None
    return print_source(source)


def document(text: str) -> Document:
    source, faults = read(text.encode(), "f.txtdb")
    assert faults == []
    assert source is not None
    return source.document


# Texts that are canonical as they stand. N is a comment or an extension.
IN_PLACE = {
    "below the first line": HEADER.replace("#! iface", "N\n#! iface") + PALETTE + BLOCKS + "#! end\n",
    "between header lines": HEADER.replace("#! axis m", "N\nN\n#! axis m") + PALETTE + BLOCKS + "#! end\n",
    "at the end of the header": HEADER + "N\n" + PALETTE + BLOCKS + "#! end\n",
    "above the palette": HEADER + PALETTE.replace("a =", "N\na =") + BLOCKS + "#! end\n",
    "around the blank line above the palette": HEADER + "N\n" + PALETTE.replace("a =", "N\na =") + BLOCKS + "#! end\n",
    "between entries": HEADER + PALETTE.replace("b =", "N\nb =") + BLOCKS + "#! end\n",
    "below the palette": HEADER + PALETTE + "N\n" + BLOCKS + "#! end\n",
    "above a block": HEADER + PALETTE + BLOCKS.replace("[x]", "N\n[x]") + "#! end\n",
    "between head and rows": HEADER + PALETTE + BLOCKS.replace("[x]\n", "[x]\nN\n") + "#! end\n",
    "between rows": HEADER + PALETTE + BLOCKS.replace("32-64", "N\n32-64") + "#! end\n",
    "inside a range": HEADER + PALETTE + BLOCKS.replace("32-64 b*2", "32 b*2\nN\n64 b*2") + "#! end\n",
    "below the last row of a block": HEADER + PALETTE + BLOCKS.replace("\n[y]", "N\n\n[y]") + "#! end\n",
    "on both sides of a blank line": HEADER + PALETTE + BLOCKS.replace("\n[y]", "N\nN\n\nN\n[y]") + "#! end\n",
    "below the last row of all": GOOD.replace("#! end", "N\n#! end"),
    "above the end": GOOD.replace("#! end", "\nN\n#! end"),
    "on both sides of a blank line above the end": GOOD.replace("#! end", "N\n\nN\n#! end"),
    "in a file of directives": "#! txtdb 1\n#! iface f\n#! arch g\n#! base h\nN\n\nN\n#! end\n",
    "in a file of nothing": "#! txtdb 1\nN\n#! iface f\n#! arch g\n#! end\n",
    "at a transparent row": HEADER + PALETTE + BLOCKS.replace("32-64 b*2", "N\n32-64 .*2") + "#! end\n",
    "at a transparent block": HEADER + PALETTE + "\nN\n[x]\n16 .*2\n#! end\n",
    "below a transparent block": HEADER + PALETTE + "\n[x]\n16 .*2\nN\n#! end\n",
}


@pytest.mark.parametrize(
    "note", ["# a note", "#", "#! x-tool keep me", "#! x-0", "#\ttab", "# [x] a = 1", "# é\u00a0⟨⟩"]
)
@pytest.mark.parametrize("place", IN_PLACE)
def test_a_comment_stays_in_place(place: str, note: str) -> None:
    text = IN_PLACE[place].replace("N\n", f"{note}\n")
    assert fmt(text) == text


@pytest.mark.parametrize("place", IN_PLACE)
def test_a_comment_stays_in_place_in_a_file_without_blank_lines(place: str) -> None:
    """Without them the sections are told by their lines alone; what is printed is stable from then on."""
    text = fmt("\n".join(line for line in IN_PLACE[place].replace("N\n", "# note\n").split("\n") if line) + "\n")
    assert fmt(text) == text
    assert text.count("# note\n") == IN_PLACE[place].count("N\n")


def test_a_comment_moves_with_what_it_belongs_to() -> None:
    """Blocks come to be sorted: each takes the comments above its head and below its last row along."""
    text = (
        HEADER
        + "\na = 1\n\n# above y\n[y]\n16 a*2\n# below y\n\n# above x\n[x]\n16 a*2\n# below x\n\n# at the end\n#! end\n"
    )
    assert fmt(text) == (
        HEADER
        + "\na = 1\n\n# above x\n[x]\n16 a*2\n# below x\n\n# above y\n[y]\n16 a*2\n# below y\n\n# at the end\n#! end\n"
    )


def test_a_comment_moves_with_its_row_and_its_entry() -> None:
    text = HEADER + "\n# two\nb = 2\n# one\na = 1\n\n[x]\n# at 64\n64 b*2\n# at 16\n16 a*2\n#! end\n"
    assert fmt(text) == HEADER + "\n# one\na = 1\n# two\nb = 2\n\n[x]\n# at 16\n16 a*2\n# at 64\n64 b*2\n#! end\n"


def test_a_comment_moves_with_its_directive() -> None:
    text = GOOD.replace("#! iface f\n#! arch g\n", "# the arch\n#! arch g\n# the interface\n#! iface f\n")
    assert fmt(text) == GOOD.replace("#! iface f\n#! arch g\n", "# the interface\n#! iface f\n# the arch\n#! arch g\n")


def test_a_comment_of_a_range_stays_with_its_first_row() -> None:
    text = HEADER + "\nb = 2\n\n[x]\n16 b*2\n# from here on\n32-64 b*2\n#! end\n"
    assert fmt(text) == text


def test_a_transparent_block_without_comments_goes() -> None:
    text = HEADER + PALETTE + "\n[x]\n16-64 . .\n\n[y]\n16 a*2\n#! end\n"
    assert fmt(text) == HEADER + PALETTE + "\n[y]\n16 a*2\n#! end\n"


def test_comments_know_their_sections() -> None:
    text = HEADER + "# header\n\n# palette\na = 1\n# entries\n\n# head\n[x]\n# row\n16 a*2\n# block\n\n# end\n#! end\n"
    tree = document(text)
    assert tree.directives[-1].trailing == ("# header",)
    assert (tree.palette[0].leading, tree.palette[0].trailing) == (("# palette",), ("# entries",))
    block = tree.blocks[0]
    assert (block.leading, block.rows[0].leading, block.trailing) == (("# head",), ("# row",), ("# block",))
    assert tree.end.leading == ("# end",)


def test_a_comment_that_touches_both_sections_belongs_to_the_one_below() -> None:
    text = HEADER + "# palette\na = 1\n# head\n[x]\n16 a*2\n# block\n#! end\n"
    assert fmt(text) == HEADER + "\n# palette\na = 1\n\n# head\n[x]\n16 a*2\n# block\n#! end\n"


def test_words_of_free_text_are_kept() -> None:
    """Brackets, equals signs and blanks other than U+0020 are part of a word."""
    text = "#! txtdb 1\n#! iface f\n#! arch g\n#! origin hand [a=b] c\u00a0d\n#! why =\u00a0= \u3000\n"
    text += f"#! evidence e[1]=x.json sha256:{'0' * 64}\n#! end\n"
    assert fmt(text) == text
    tree = document(text.replace("[a=b] c", "  [a=b]   c"))
    assert tree.argument("origin") == "hand [a=b] c\u00a0d"
    evidence = tree.directive("evidence")
    assert evidence is not None
    assert evidence.args == ["e[1]=x.json", f"sha256:{'0' * 64}"]
    assert (evidence.arg_span("f", 0).column, evidence.arg_span("f", 0).last_column) == (13, 23)


def test_evidence_lines_keep_their_order() -> None:
    lines = [f"#! evidence {name} sha256:{digit * 64}\n" for name, digit in (("b", "1"), ("a", "2"), ("c", "0"))]
    text = f"#! txtdb 1\n#! iface f\n#! arch g\n{''.join(lines)}#! end\n"
    assert fmt(text) == text
