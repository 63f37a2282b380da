"""Which cells a run of `txtdb tune` measures."""

from __future__ import annotations

import re

import pytest

from tests.tune.bench import CELLS, TABLE, listed, make_bench, shapes

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}}


def test_row_068_exactly_the_listed_cells_are_measured(tmp_path):
    made = make_bench(tmp_path, {cell: {(64, 2): 800.0} for cell in CELLS})
    assert made.tune("--cells", listed(tmp_path, CELLS[3], CELLS[10])).code == 0
    assert {record["cell"] for record in made.records() if record["is"] == "times"} == {"64 @ 128,64", "128 @ 64,128"}
    assert sum(line == "128 a" for line in made.patches()["attn_fwd.0010-tuned.dbpatch"].decode().splitlines()) <= 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("head_dim=64 seqlen_q=65 seqlen_k=64", "65 is no bin of seqlen_q; its bins are 64 128 256"),
        ("head_dim=96 seqlen_q=64 seqlen_k=64", "no such functional on gfxA: head_dim=96"),
        ("head_dim=64 seqlen_q=64", "`seqlen_k` is missing"),
        ("head_dim=64 seqlen_q=64 seqlen=64", "unknown name `seqlen`"),
        ("", "the file names no cell"),
    ],
)
def test_row_068_an_unknown_cell_in_the_list_is_an_error(tmp_path, line, message):
    made = make_bench(tmp_path)
    cells = tmp_path / "cells.txt"
    cells.write_text(f"head_dim=64 seqlen_q=64 seqlen_k=64\n{line}\n" if line else "# none\n", encoding="utf-8")
    done = made.tune("--cells", str(cells))
    assert (done.code, made.journals.exists()) == (2, False)
    assert message in done.err
    assert f"{cells}:2:1" in done.err or not line


def test_missing_cells_are_those_without_a_config(tmp_path):
    hole = TABLE.replace("[64]\n64-256 a*3", "[64]\n64-128 a*3\n256 a . a")
    made = make_bench(tmp_path, files={"gfxA/attn_fwd.txtdb": hole})
    done = made.tune("--missing")
    assert done.code == 0
    assert "[1/1] head_dim=64 seqlen_q=256 seqlen_k=128:" in done.out
    assert made.evidence()["cells"][0]["decision"]["reason"] == "no-baseline"


def test_shapes_choose_the_cells_that_they_fall_into(tmp_path):
    made = make_bench(tmp_path)
    options = (
        "--keys",
        "head_dim=64",
        "--shapes",
        shapes(tmp_path, "seqlen_q=100 seqlen_k=300", "seqlen_q=99 seqlen_k=999"),
    )
    done = made.tune(*options, "--dry-run")
    assert done.out.startswith("1 cell, 6 candidates, about ")


def test_pinned_cells_are_left_out_with_a_note(tmp_path):
    pin = """\
[[pin]]
iface = "attn_fwd"
reason = "a bug in the other one"
until = 2027-01-01
functional = { head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 32, num_warps = 2 }
"""
    made = make_bench(tmp_path, files={"gfxA/pins.toml": pin})
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER), "--dry-run")
    assert "1 of the cells is pinned: left out" in done.err
    assert done.out.startswith("1 cell, ")


def test_a_shape_has_no_negative_size(tmp_path):
    made, path = make_bench(tmp_path, TIMES), tmp_path / "shapes.txt"
    path.write_text("seqlen_q=64 seqlen_k=64\nseqlen_q=-1 seqlen_k=-64\n", encoding="utf-8")
    done = made.tune("--shapes", str(path), "--dry-run")
    assert done.code == 2
    assert re.findall(r"shapes.txt:2.*: error: (.*); a size is not negative", done.err) == [
        "seqlen_q is -1",
        "seqlen_k is -64",
    ]


def test_a_list_of_cells_may_begin_with_a_byte_order_mark(tmp_path):
    made, path = make_bench(tmp_path, TIMES), tmp_path / "cells.txt"
    path.write_text("\ufeffhead_dim=64 seqlen_q=64 seqlen_k=64\n", encoding="utf-8")
    assert made.tune("--cells", str(path), "--dry-run").out.startswith("1 cell, ")
