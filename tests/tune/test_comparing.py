"""`txtdb tune --compare`."""

from __future__ import annotations

import re

from tests.tune.bench import CELLS, SCHEMA, TABLE, invoke, listed, make_bench

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}}
EMPTY = "#! txtdb 1\n#! iface attn_fwd\n#! arch gfxA\n#! origin hand test\n#! end\n"


def test_a_comparison_measures_before_and_after_and_writes_nothing(tmp_path):
    made = make_bench(tmp_path, TIMES)
    before = make_bench(tmp_path / "before")
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    published = made.patches()
    done = made.tune("--all", "--compare", str(before.root), "--name", "compared")
    assert done.code == 0
    assert "[1/1] head_dim=64 seqlen_q=64 seqlen_k=64: BLOCK_M 16→64, 20.0 % faster" in done.out
    assert made.patches() == published
    assert len(made.evidence("compared")["cells"][0]["entrants"]) == 2


def test_a_comparison_with_a_database_that_lacks_the_interface_ends_with_2(tmp_path):
    made = make_bench(tmp_path, TIMES)
    other = make_bench(tmp_path / "other", files={"schema/attn_fwd.toml": SCHEMA.replace("[arch.gfxA]", "")})
    done = made.tune("--cells", listed(tmp_path, CELL), "--compare", str(other.root))
    assert done.code == 2
    assert "attn_fwd does not exist on gfxA" in done.err


def test_a_comparison_that_finds_a_cell_slower_says_so(tmp_path):
    slower = TABLE.replace("a = 16 2\n", "a = 16 2\nb = 64 4\n").replace(
        "[64]\n64-256 a*3", "[64]\n64 b a*2\n128-256 a*3"
    )
    made = make_bench(tmp_path, files={"gfxA/attn_fwd.txtdb": slower})
    before = make_bench(tmp_path / "before")
    done = made.tune("--all", "--compare", str(before.root))
    assert done.code == 1
    assert re.search(r"BLOCK_M 16→64 num_warps 2→4, 2[45]\.\d % slower", done.out)
    assert "worse than before: 1 cell" in done.out


def test_a_comparison_with_a_broken_database_tells_what_is_broken(tmp_path):
    made, other = make_bench(tmp_path, TIMES), make_bench(tmp_path / "other")
    with (other.root / "schema/attn_fwd.toml").open("a", encoding="utf-8") as stream:
        stream.write("[\n")
    done = made.tune("--cells", listed(tmp_path, CELL), "--compare", str(other.root))
    assert (done.code, "schema/attn_fwd.toml:" in done.err) == (2, True)


def test_a_comparison_tells_of_cells_that_one_side_lacks(tmp_path):
    made, other = make_bench(tmp_path, TIMES), make_bench(tmp_path / "other", files={"gfxA/attn_fwd.txtdb": EMPTY})
    done = made.tune("--cells", listed(tmp_path, CELL, OTHER), "--compare", str(other.root))
    assert "2 cells have a config on one side only: left out" in done.err
    assert "nothing to measure" in done.out


def test_a_comparison_without_a_gain_has_a_page(tmp_path):
    faults = {(CELL, (32, 4)): [{"stage": "check", "kind": "abort"}]}
    broken = TABLE.replace("a = 16 2", "a = 32 4")
    made = make_bench(tmp_path, files={"gfxA/attn_fwd.txtdb": broken}, faults=faults)
    before = make_bench(tmp_path / "before")
    assert made.tune("--cells", listed(tmp_path, CELL), "--compare", str(before.root), "--name", "compared").code == 1
    evidence, page = next(made.journals.glob("*-compared.json")), tmp_path / "page.html"
    code, output = invoke("tune", "report", str(evidence), "--root", str(made.root), "-o", str(page))
    assert (code, page.exists()) == (0, True), output
