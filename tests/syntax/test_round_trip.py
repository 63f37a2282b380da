"""Laws of the printer and the parser, over drawn tables."""

from __future__ import annotations

import random
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import LAW, TableSpec, bins, plain_text, seeds, table_specs, untidy
from txtdb.syntax import Document, Shape, Source, print_source, read
from txtdb.syntax.grid import encode_cells, label_rows
from txtdb.syntax.parser import _recover, grammar, parse_text

Content = dict[tuple[str, ...], dict[tuple[int, ...], tuple[str, ...]]]


def load(text: str, file: str = "f.txtdb") -> Source:
    source, faults = read(text.encode(), file)
    assert source is not None
    assert faults == []
    return source


def content(source: Source) -> Content:
    """Functional → label → cells by symbol; rows and blocks that set nothing left out."""
    symbols = {number: entry.symbol for number, entry in enumerate(source.document.palette)} | {-1: ".", -2: "-"}
    found: Content = {}
    for block, rows in zip(source.document.blocks, source.rows, strict=True):
        for row in rows:
            for number in range(row.first, row.stop):
                cells = tuple(symbols[cell] for cell in row.cells)
                if set(cells) != {"."}:
                    found.setdefault(tuple(block.values), {})[source.shape.row_bins(number)] = cells
    return found


def spec_content(spec: TableSpec) -> Content:
    """The same of a drawn table."""
    found: Content = {}
    for head, rows in spec.blocks:
        for label, cells in zip(spec.labels, rows, strict=True):
            if set(cells) != {"."}:
                found.setdefault(head, {})[label] = cells
    return found


@given(table_specs(), seeds)
@LAW
def test_a_table_is_read_as_it_is_written(spec: TableSpec, seed: int) -> None:
    assert content(load(untidy(plain_text(spec), seed))) == spec_content(spec)


@given(table_specs(), seeds)
@LAW
def test_printing_keeps_the_content_and_is_idempotent(spec: TableSpec, seed: int) -> None:
    first = print_source(load(untidy(plain_text(spec), seed)))
    again = load(first)
    assert content(again) == spec_content(spec)
    assert print_source(again) == first
    assert {entry.symbol: tuple(entry.values) for entry in again.document.palette} == dict(spec.palette)


@given(table_specs(), seeds)
@LAW
def test_canonical_text_does_not_depend_on_layout(spec: TableSpec, seed: int) -> None:
    tidy, loose = plain_text(spec), untidy(plain_text(spec), seed, comments=False)
    assert print_source(load(loose)) == print_source(load(tidy))


@given(table_specs(), seeds)
@LAW
def test_canonical_text_does_not_depend_on_order(spec: TableSpec, seed: int) -> None:
    """Directives other than axes, palette entries, blocks and rows may come in any order."""
    shuffle = random.Random(seed).shuffle
    lines = plain_text(spec).split("\n")
    first_head = next((i for i, line in enumerate(lines) if line.startswith("[")), lines.index("#! end"))
    parts = [list(group) for _, group in groupby(lines[1:first_head], key=lambda line: line.startswith("#! axis"))]
    for part in parts:
        if not part[0].startswith("#! axis"):
            head, entries = [x for x in part if x.startswith("#!")], [x for x in part if not x.startswith("#!")]
            shuffle(head)
            shuffle(entries)
            part[:] = head + entries
    blocks: list[list[str]] = []
    for line in lines[first_head : lines.index("#! end")]:
        if line.startswith("["):
            blocks.append([line])
        else:
            blocks[-1].append(line)
    shuffle(blocks)
    for block in blocks:
        rows = block[1:]
        shuffle(rows)
        block[1:] = rows
    mixed = "\n".join([lines[0], *(x for p in parts for x in p), *(x for b in blocks for x in b), "#! end", ""])
    assert print_source(load(mixed)) == print_source(load(plain_text(spec)))


@given(table_specs(), seeds)
@LAW
def test_no_comment_is_lost(spec: TableSpec, seed: int) -> None:
    text = untidy(plain_text(spec), seed)
    printed = print_source(load(text))

    def notes(given: str) -> list[str]:
        comments = (line.strip() for line in given.split("\n") if line.startswith("#"))
        return sorted(line for line in comments if not line.startswith("#! ") or line.startswith("#! x-"))

    assert notes(printed) == notes(text.replace("\r", ""))


@given(table_specs(), seeds)
@LAW
def test_both_ways_of_reading_give_the_same_document(spec: TableSpec, seed: int) -> None:
    """The fast path through the grammar, and the line-wise one that is taken when there are faults."""
    text = untidy(plain_text(spec), seed).replace("\r\n", "\n")
    grammar().parse(text, start="start")  # the fast path is the one that is taken
    fast, slow = parse_text(text, "f.txtdb"), _recover(text, "f.txtdb")
    assert fast == slow
    assert fast[1] == []


@given(table_specs(), seeds, st.data())
@LAW
def test_a_bad_line_leaves_the_rest_of_the_document(spec: TableSpec, seed: int, data: st.DataObject) -> None:
    lines = untidy(plain_text(spec), seed, comments=False).replace("\r\n", "\n").split("\n")
    at = data.draw(st.integers(1, lines.index("#! end") if "#! end" in lines else len(lines) - 3))
    broken = "\n".join([*lines[:at], "?", *lines[at:]])
    document, faults = parse_text(broken, "f.txtdb")
    assert [fault.rule for fault in faults] == ["bad-row"]
    assert faults[0].span.line == at + 1
    whole = parse_text("\n".join(lines), "f.txtdb")[0]
    assert document is not None and whole is not None
    assert _texts(document) == _texts(whole)


def _texts(document: Document) -> list[str]:
    rows = [row.text for block in document.blocks for row in block.rows if row.text]
    lines = (*document.directives, *document.palette, *document.blocks)
    return [document.kind, *(line.text for line in lines), *rows]


@given(st.lists(st.sampled_from([-2, -1, 0, 1, 2]), min_size=1, max_size=30))
@LAW
def test_run_length_law(cells: list[int]) -> None:
    """Runs are as long as possible, and spell the cells."""
    names = ["a", "b", "c"]
    runs = [run.partition("*") for run in encode_cells(cells, names).split(" ")]
    symbols = [symbol for symbol, _, _ in runs]
    assert all(left != right for left, right in pairwise(symbols))
    assert "1" not in [count for _, _, count in runs]
    spelt = [symbol for symbol, _, count in runs for _ in range(int(count or 1))]
    assert spelt == [{-1: ".", -2: "-"}.get(cell) or names[cell] for cell in cells]


@given(st.lists(bins(), min_size=1, max_size=4), st.data())
@LAW
def test_labels_name_their_rows(axes: list[tuple[int, ...]], data: st.DataObject) -> None:
    shape = Shape(tuple((f"x{number}", values) for number, values in enumerate(axes)))
    if len(axes) == 1:
        assert shape.label(0, 0) == ""
        return
    height = shape.lengths[-2]
    first = data.draw(st.integers(0, shape.rows - 1))
    last = data.draw(st.integers(first, first - first % height + height - 1))
    assert label_rows(shape, shape.label(first, last)) == (first, last + 1)


def test_labels_by_hand() -> None:
    """Axes 2 × 3 × 2: row 4 is (second bin, second bin); rows 4 and 5 make a range on the second axis."""
    shape = Shape((("m", (1, 16)), ("n", (64, 256, 1024)), ("k", (512, 4096))))
    assert (shape.rows, shape.width, shape.size) == (6, 2, 12)
    assert shape.row_bins(4) == (16, 256)
    assert shape.label(4, 5) == "16,256-1024"
    assert label_rows(shape, "16,256-1024") == (4, 6)
    assert label_rows(shape, "1,64") == (0, 1)


def test_rows_of_two_bins_of_the_first_axis_are_never_one_range() -> None:
    """Equal rows next to each other in the file are joined on the last label axis only."""
    lines = ["#! txtdb 1", "#! iface f", "#! arch g", "#! key k", "#! axis m 1 2", "#! axis n 1 2", "#! axis p 5 6"]
    text = "\n".join([*lines, "#! config c", "", "a = 1", "", "[x]", "1,1-2 a*2", "2,1-2 a*2", "#! end", ""])
    assert print_source(load(text)) == text


def test_decoded_rows_point_at_their_lines() -> None:
    lines = ["#! txtdb 1", "#! iface f", "#! arch g", "#! key k", "#! axis m 1 2 4", "#! axis n 5 6", "#! config c"]
    source = load("\n".join([*lines, "a = 1", "b = 2", "[x]", "1-2 a b", "4 b*2", "#! end"]))
    assert [(row.first, row.stop, row.cells, row.source.line) for row in source.rows[0]] == [
        (0, 2, [0, 1], 11),
        (2, 3, [1, 1], 12),
    ]


def test_every_kind_of_record_is_printed() -> None:
    """A new kind of line without a printer must fail here."""
    from txtdb.syntax import tree

    records = {cls.__name__ for cls in tree.Line.__subclasses__()}
    assert records == {"Directive", "Entry", "Row", "Block"}
    assert set(Document.__dataclass_fields__) == {
        "file", "kind", "magic", "directives", "palette", "blocks", "end", "malformed",
    }  # fmt: skip


def test_every_directive_of_the_grammar_has_a_place_in_the_header() -> None:
    from txtdb.syntax.parser import HEADER
    from txtdb.syntax.printer import HEADER_ORDER

    assert sorted(name.lower() for name in HEADER) == sorted(HEADER_ORDER)
