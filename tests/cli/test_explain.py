"""`txtdb explain`."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from tests.build import ARCHS, F1, F2, SCHEMA, make_db, patch, table, write_files
from tests.cli.run import Ran, run

CELL = ("dtype=fp16", "causal=0", "head_dim=64", "seqlen_q=64", "seqlen_k=64")
DIGEST = "sha256:" + "0" * 64


def section(ran: Ran, name: str) -> list[str]:
    """The lines of one section of the text."""
    lines = ran.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"  {name} "))
    rest = (number for number, line in enumerate(lines[start + 1 :], start + 1) if not line.startswith("   "))
    return [line[12:] for line in lines[start : next(rest, len(lines))]]


def explain(root: Path, *words: str, arch: str = "gfxB") -> Ran:
    return run("explain", root, arch, "attn_fwd", *words)


def test_row_013_winner_and_loser_are_named_with_line_and_column(tmp_path: Path) -> None:
    files = {
        "gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]}),
        "gfxB/attn_fwd.0020-y.dbpatch": patch("gfxB", {F1: ["64 .*2 d", "128 a*3"]}),
        "gfxB/attn_fwd.0030-z.dbpatch": patch("gfxB", {F1: ["64 c . ."]}),
    }
    root = make_db(tmp_path, files)
    ran = explain(root, *CELL)
    assert ran.code == 0
    assert [line.split()[:3] for line in section(ran, "set by")] == [
        [f"{root.as_posix()}/gfxB/attn_fwd.0030-z.dbpatch:14:4", "patch", "30"],
        [f"{root.as_posix()}/gfxB/attn_fwd.0010-x.dbpatch:14:4", "patch", "10"],
        [f"{root.as_posix()}/gfxB/attn_fwd.txtdb:16:4", "own", "table"],
    ]
    assert section(ran, "set by")[2].endswith("overridden: BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1")
    assert section(ran, "answer") == ["BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2 waves_per_eu=0"]
    assert [line.split()[1:5] for line in section(ran, "layers")] == [
        ["own", "table", "is", "overridden"],
        ["patch", "10", "is", "overridden"],
        ["patch", "20", "leaves", "the"],
        ["patch", "30", "decides", f"{root.as_posix()}/gfxB/attn_fwd.0030-z.dbpatch"],
    ]


def test_row_013_order_of_directory_entries_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"gfxB/attn_fwd.00{n}-x.dbpatch": patch("gfxB", {F1: [f"64 {s} . ."]}) for n, s in ((10, "b"), (20, "c"))}
    root = make_db(tmp_path, files)
    real = Path.iterdir
    outputs = set()
    for order in permutations(range(3)):
        monkeypatch.setattr(Path, "iterdir", lambda self, order=order: iter(_shuffled(list(real(self)), order)))
        outputs.add(explain(root, *CELL).out)
    assert len(outputs) == 1
    assert "attn_fwd.0020-x.dbpatch:14:4" in outputs.pop().splitlines()[6]


def _shuffled(entries: list[Path], order: tuple[int, ...]) -> list[Path]:
    entries.sort()
    return [entries[place] for place in order if place < len(entries)] + entries[len(order) :]


def test_row_015_roots_are_in_order_and_a_same_name_is_told(tmp_path: Path) -> None:
    files = {"gfxB/attn_fwd.0020-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]})}
    over = {
        "gfxB/attn_fwd.0010-y.dbpatch": patch("gfxB", {F1: ["64 d . ."]}),
        "gfxB/attn_fwd.0020-x.dbpatch": patch("gfxB", {F1: ["64 . c ."]}),
    }
    root, overlay = make_db(tmp_path, files), write_files(tmp_path / "over", over)
    ran = explain(root, *CELL, "--overlay", str(overlay))
    layers = section(ran, "layers")
    assert [" ".join(line.split()[:5]).rstrip("is ") for line in layers] == [
        "1 own table is overridden",
        "2 patch 20 is overridden",
        "3 patch 10, overlay 1",
        "4 patch 20, overlay 1",
    ]
    same = f"same name as {root.as_posix()}/gfxB/attn_fwd.0020-x.dbpatch: both apply, this one wins"
    assert layers[3].endswith(same)
    assert not any("same name" in line for line in layers[:3])
    assert section(ran, "set by")[0].startswith(f"{overlay.as_posix()}/gfxB/attn_fwd.0010-y.dbpatch")


CHAIN = {
    "archs.toml": "[arch.gfxA]\n[arch.gfxB]\n[arch.gfxC]\n",
    "schema/attn_fwd.toml": SCHEMA + '[arch.gfxC]\nlike = "gfxB"\n',
    "gfxA/attn_fwd.txtdb": table("gfxA", {F1: ["64 d . ."]}, base="gfxB"),
    "gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["128 c*3"]}, base="gfxC"),
    "gfxC/attn_fwd.txtdb": table("gfxC", {F1: ["64-256 b*3"]}),
}


def test_row_020_each_cell_names_its_donor(tmp_path: Path) -> None:
    root = write_files(tmp_path, CHAIN)
    donors = []
    for q in (64, 128, 256):
        for k in (64, 128, 256):
            words = ("dtype=fp16", "causal=0", "head_dim=64", f"seqlen_q={q}", f"seqlen_k={k}")
            ran = explain(root, *words, "--format", "json", arch="gfxA")
            (told,) = ran.json["explanations"]
            donors.append(Path(told["winner"]["file"]).parent.name)
            assert told["bases"] == ["gfxB", "gfxC"]
    assert donors == ["gfxA", "gfxC", "gfxC", "gfxB", "gfxB", "gfxB", "gfxC", "gfxC", "gfxC"]


def test_row_020_circles_print_the_chain(tmp_path: Path) -> None:
    circle = {"gfxC/attn_fwd.txtdb": table("gfxC", {F1: ["64-256 b*3"]}, base="gfxA")}
    ran = explain(write_files(tmp_path, {**CHAIN, **circle}), *CELL, arch="gfxA")
    assert (ran.code, ran.out) == (1, "")
    assert "gfxA -> gfxB -> gfxC -> gfxA" in ran.err


def test_row_022_no_data_and_no_base(tmp_path: Path) -> None:
    files = {"gfxA/attn_fwd.txtdb": None}
    ran = explain(make_db(tmp_path, files), *CELL, arch="gfxA")
    assert (ran.code, ran.out) == (1, "")
    assert "gfxA attn_fwd: no data, no base" in ran.err


def test_row_104_no_kernel_lists_the_searched_layers_in_order(tmp_path: Path) -> None:
    files = {
        "gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]}),
        "gfxA/attn_fwd.txtdb": table("gfxA", {}, base="gfxB"),
    }
    root = make_db(tmp_path, files)
    words = ("dtype=fp16", "causal=0", "head_dim=128", "seqlen_q=64", "seqlen_k=64")
    ran = explain(root, *words, arch="gfxA")
    assert ran.code == 1
    assert section(ran, "answer") == ["no kernel  no layer has this functional"]
    assert section(ran, "tried") == ["[fp16 0 128]  as asked  no layer has this functional"]
    assert (section(ran, "base"), section(ran, "fallback")) == (["gfxB"], ["none"])
    assert [line.rsplit("/", 2)[-2:] for line in section(ran, "layers")] == [
        ["gfxB", "attn_fwd.txtdb"],
        ["gfxB", "attn_fwd.0010-x.dbpatch"],
        ["gfxA", "attn_fwd.txtdb"],
    ]


def test_hole_in_a_row_that_is_there(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 . a a"]})})
    ran = explain(root, *CELL)
    assert ran.code == 1
    assert section(ran, "answer") == ["no kernel  no layer sets this cell"]
    assert section(ran, "base") == ["none"]


def test_masked_cell_says_where(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 - . ."]})})
    ran = explain(root, *CELL)
    assert ran.code == 1
    # Nothing of the palette is used, so that the row stands two lines higher than in the other tests.
    assert section(ran, "answer") == [f"no kernel  masked at {root.as_posix()}/gfxB/attn_fwd.0010-x.dbpatch:12:4"]
    assert "masks the cell" in section(ran, "set by")[0]
    assert section(ran, "set by")[1].endswith(
        "overridden: BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1 waves_per_eu=0"
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("dtype=bf16", "dtype has no value bf16 on gfxB; it has fp16"),
        ("head_dim=65", "head_dim has no value 65 on gfxB; it has 64"),
    ],
)
def test_unsupported_says_why_and_exits_0(tmp_path: Path, word: str, reason: str) -> None:
    words = [word if word.split("=")[0] == cell.split("=")[0] else cell for cell in CELL]
    ran = explain(make_db(tmp_path), *words)
    assert ran.code == 0
    assert section(ran, "answer") == [f"unsupported  {reason}"]


PADDED = SCHEMA.replace("[[axis]]", '[[key]]\nname = "padded"\ntype = "bool"\nfallback = false\n[[axis]]', 1)


def padded_db(tmp_path: Path, blocks: dict[str, list[str]]) -> Path:
    text = table("gfxB", blocks, keys="dtype causal head_dim padded")
    files = {"archs.toml": ARCHS, "schema/attn_fwd.toml": PADDED, "gfxB/attn_fwd.txtdb": text}
    return write_files(tmp_path / "db", files)


def test_fallback_of_a_padded_head_is_shown(tmp_path: Path) -> None:
    root = padded_db(tmp_path, {"fp16 0 64 false": ["64-256 a*2 b"], "fp16 0 64 true": ["64 . d -"]})
    ran = explain(root, *CELL, "padded=true")
    assert section(ran, "tried") == [
        "[fp16 0 64 true]   as asked               no layer sets this cell",
        "[fp16 0 64 false]  fallback padded=false  has the answer",
    ]
    assert section(ran, "fallback") == ["padded falls back to false"]
    assert "BLOCK_M=32" in section(ran, "answer")[0]


def test_fallback_key_left_out_has_its_fallback_value(tmp_path: Path) -> None:
    root = padded_db(tmp_path, {"fp16 0 64 false": ["64-256 a*3"], "fp16 0 64 true": ["64-256 d*3"]})
    assert section(explain(root, *CELL), "asked") == ["dtype=fp16 causal=0 head_dim=64 padded=false"]
    assert "BLOCK_M=32" in section(explain(root, *CELL), "answer")[0]
    assert "BLOCK_M=128" in section(explain(root, *CELL, "padded=true"), "answer")[0]


def test_sizes_off_the_grid_take_the_next_bin_or_the_last(tmp_path: Path) -> None:
    ran = explain(make_db(tmp_path), "dtype=fp16", "causal=0", "head_dim=64", "seqlen_q=65", "seqlen_k=9999")
    assert section(ran, "sizes") == [
        "seqlen_q=65    bin 128",
        "seqlen_k=9999  bin 256  the last bin, which takes everything above it",
    ]


def test_history_says_at_which_bin_a_coarser_layer_spoke(tmp_path: Path) -> None:
    axes = {"seqlen_q": "64 256", "seqlen_k": "64 256"}
    files = {
        "gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 a b", "256 c d"]}, axes=axes),
        "gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 . b ."]}),
    }
    root = make_db(tmp_path, files)
    ran = explain(root, "dtype=fp16", "causal=0", "head_dim=64", "seqlen_q=64", "seqlen_k=100")
    assert "own table at 64,256" in section(ran, "set by")[1]


def test_origin_and_evidence_of_the_winner(tmp_path: Path) -> None:
    lines = ("origin measured run-7", "why a test", f"evidence run.json {DIGEST}")
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]}, directives=lines)})
    ran = explain(root, *CELL)
    assert section(ran, "origin") == ["measured run-7"]
    assert section(ran, "evidence") == [f"run.json {DIGEST}"]


def test_json_has_what_the_text_has(tmp_path: Path) -> None:
    lines = ("origin measured run-7", "why a test", f"evidence run.json {DIGEST}")
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]}, directives=lines)})
    (told,) = explain(root, *CELL, "--format", "json").json["explanations"]
    assert told["answer"] == "config"
    assert told["config"] == {
        "BLOCK_M": 64,
        "PRE_LOAD_V": True,
        "num_warps": 4,
        "num_stages": 1,
        "waves_per_eu": 0,
    }
    assert told["functional"] == {"dtype": "fp16", "causal": 0, "head_dim": 64}
    assert told["sizes"] == told["bins"] == {"seqlen_q": 64, "seqlen_k": 64}
    winner = told["winner"]
    assert (winner["line"], winner["column"], winner["last_column"]) == (15, 4, 4)
    assert (winner["origin"], winner["evidence"]) == ("measured run-7", [f"run.json {DIGEST}"])
    assert [layer["says"] for layer in told["layers"]] == ["is overridden", "decides"]
    assert [entry["layer"] for entry in told["tried"][0]["history"]] == [1, 0]


def test_json_of_no_kernel(tmp_path: Path) -> None:
    ran = explain(
        make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 . a a"]})}), *CELL, "--format", "json"
    )
    assert ran.code == 1
    (told,) = ran.json["explanations"]
    assert (told["answer"], told["config"], told["winner"]) == ("no kernel", None, None)
    assert (told["reason"], told["bases"], told["fallbacks"]) == ("no layer sets this cell", [], {})


def test_several_archs(tmp_path: Path) -> None:
    out = explain(make_db(tmp_path), *CELL, arch="gfxA,beta").out
    assert [line for line in out.splitlines() if line.startswith("gfx")] == ["gfxA attn_fwd", "gfxB attn_fwd"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (CELL[:4], "`seqlen_k` is missing"),
        (CELL[3:], "`dtype`, `causal`, `head_dim` are missing"),
        ((*CELL, "head_dims=64"), "did you mean head_dim? known are causal, dtype, head_dim, seqlen_k, seqlen_q"),
        (("dtype=float16", *CELL[1:]), "dtype has no value `float16`; it has bf16, fp16"),
        ((*CELL[:4], "seqlen_k=-1"), "a size is not negative"),
        ((*CELL[:4], "seqlen_k=1.5"), "seqlen_k: expected int, found float `1.5`"),
        ((), "a lookup names the keys dtype, causal, head_dim and the axes seqlen_q, seqlen_k"),
        (CELL[:4], "a lookup names the keys"),
    ],
)
def test_usage_faults_exit_2(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    ran = explain(make_db(tmp_path), *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_interface_that_an_arch_lacks_names_those_that_have_it(tmp_path: Path) -> None:
    schema = SCHEMA[: SCHEMA.index("[arch.gfxA]")] + SCHEMA[SCHEMA.index("[arch.gfxB]") :]
    ran = explain(make_db(tmp_path, {"schema/attn_fwd.toml": schema}), *CELL, arch="gfxA")
    assert ran.code == 2
    assert "it exists on gfxB" in ran.err


def test_untuned_interface_is_no_table(tmp_path: Path) -> None:
    fixed = 'iface = "prep"\nkind = "fixed"\n[[key]]\nname = "d"\ntype = "int"\nvalues = [1]\n'
    fixed += '[[config]]\nname = "num_warps"\ntype = "int"\n[fixed_config]\nnum_warps = 4\n[arch.gfxB]\n'
    ran = run("explain", make_db(tmp_path, {"schema/prep.toml": fixed}), "gfxB", "prep", "d=1")
    assert ran.code == 2
    assert "prep is not tuned" in ran.err


def test_row_118_read_only_database(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    paths = [root, *root.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in paths}
    for path in sorted(paths, reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        commands: list[list[str | Path]] = [
            ["explain", root, "gfxB", "attn_fwd", *CELL],
            ["show", root, "gfxA", "attn_fwd"],
            ["resolve", root, "gfxA", "attn_fwd"],
            ["schema", "show", root, "attn_fwd"],
            ["fmt", "--check", root],
        ]
        assert [run(*command).code for command in commands] == [0] * 5
        assert {path: path.stat().st_mtime_ns for path in [root, *root.rglob("*")]} == before
    finally:
        for path in paths:
            path.chmod(0o755)


def test_long_head_names_the_own_block(tmp_path: Path) -> None:
    ran = run("explain", make_db(tmp_path), "gfxA", "attn_fwd", *CELL[:2], "head_dim=128", *CELL[3:])
    assert section(ran, "tried") == [f"[{F2}]  as asked  has the answer"]
