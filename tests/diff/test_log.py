"""`txtdb log`: the commits that changed one cell of a real repository."""

from __future__ import annotations

import subprocess
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tests.build import F1, FIELDS, PALETTE, S0, SCHEMA, TABLE_A, TABLE_B, make_db, patch, table
from tests.cli.run import Ran, run
from tests.merge.repository import Repository, make_repository
from txtdb.diff import blame

B = "my db/gfxB/attn_fwd.txtdb"
A = "my db/gfxA/attn_fwd.txtdb"
P = "my db/gfxB/attn_fwd.0010-x.dbpatch"
KEYS = ("dtype=fp16", "causal=0", "head_dim=64")
CELL = (*KEYS, "seqlen_q=64", "seqlen_k=64")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "a repo", {f"my db/{name}": text for name, text in S0.items()}, drivers=False)


def log(repository: Repository, *args: str, arch: str = "gfxB", code: int = 0) -> Ran:
    with chdir(repository.path):
        done = run("log", "my db", arch, "attn_fwd", *args)
    assert done.code == code, done
    return done


def changes(repository: Repository, *args: str, arch: str = "gfxB") -> list[tuple[str | None, Any, Any]]:
    """(subject, BLOCK_M before, BLOCK_M after) of each change, newest first."""
    found = log(repository, *args, "--format", "json", arch=arch).json["changes"]
    return [(change["subject"], block(change["old"]), block(change["new"])) for change in found]


def block(state: dict[str, Any]) -> Any:
    content = state["content"]
    return content["BLOCK_M"] if isinstance(content, dict) else content


def first(symbol: str) -> str:
    """gfxB's table with another first cell."""
    return TABLE_B.replace("64 a*3", f"64 {symbol} a*2")


def test_commits_with_configs_newest_first(repository: Repository) -> None:
    repository.commit({B: first("b")}, "to b")
    repository.commit({B: first("b").replace("256 b c d", "256 c c d")}, "another cell")
    name = repository.commit({B: first("d")}, "to d")
    assert changes(repository, *CELL) == [("to d", 64, 128), ("to b", 32, 64), ("base", None, 32)]
    out = log(repository, *CELL).out
    assert out.startswith(
        f"gfxB attn_fwd  dtype=fp16 causal=0 head_dim=64 seqlen_q=64 seqlen_k=64\n{name[:10]} 2026-01-01 Tester  to d\n"
    )
    assert "    PRE_LOAD_V true→false, " in out.replace("BLOCK_M 64→128, ", "")
    assert "    now BLOCK_M=128 PRE_LOAD_V=false num_warps=8 num_stages=2 waves_per_eu=0\n" in out
    line = first("d").splitlines().index("64 d a*2") + 1
    assert f"    at {name[:10]}:my db/gfxB/attn_fwd.txtdb:{line}:4, hand test\n" in out


def test_what_git_itself_shows_of_that_place(repository: Repository) -> None:
    """The place that is printed is one that `git show` takes."""
    repository.commit({B: first("d")}, "to d")
    state = log(repository, *CELL, "--format", "json").json["changes"][0]["new"]
    text = repository.git("show", state["file"]).out
    assert text.splitlines()[state["line"] - 1][state["column"] - 1] == "d"


def test_patches_added_renamed_folded_and_removed(repository: Repository) -> None:
    repository.commit({P: patch("gfxB", {F1: ["64 d . ."]})}, "a patch")
    repository.commit({P: None, P.replace("0010", "0020"): patch("gfxB", {F1: ["64 d . ."]})}, "renamed")
    repository.commit({P.replace("0010", "0020"): None, B: first("d")}, "folded")
    repository.commit({B: TABLE_B}, "taken back")
    assert changes(repository, *CELL) == [("taken back", 128, 32), ("a patch", 32, 128), ("base", None, 32)]


def test_a_cell_below_a_patch_counts_only_without_it(repository: Repository) -> None:
    repository.commit({P: patch("gfxB", {F1: ["64 d . ."]})}, "a patch")
    repository.commit({B: first("b")}, "below it")
    repository.commit({P: None}, "patch gone")
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["patch gone", "a patch", "base"]


def test_other_forms_of_the_same_are_no_change(repository: Repository) -> None:
    repository.commit({B: TABLE_B.replace("\n", "\r\n")}, "crlf")
    repository.commit(
        {B: TABLE_B.replace("a = ", "z = ").replace("64 a*3", "64 z z*2").replace("128 a", "128 z")}, "symbols"
    )
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["base"]


def test_a_merge_is_told_only_where_it_made_something_new(repository: Repository) -> None:
    repository.branch("side", {B: first("b")})
    repository.commit({P: patch("gfxB", {F1: ["256 d . ."]})}, "another cell")
    repository.git("merge", "-q", "--no-ff", "-m", "a clean merge", "side")
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["side", "base"]
    repository.branch("left", {B: first("c")})
    repository.commit({B: first("d")}, "right")
    repository.git("merge", "-q", "--no-commit", "left", code=None)
    repository.commit({B: first("- ").replace("- ", "-")}, "an evil merge")
    found = changes(repository, *CELL)
    assert found[0] == ("an evil merge", 128, "masked")
    assert {subject for subject, *_ in found} == {"an evil merge", "left", "right", "side", "base"}


def test_what_is_not_committed_comes_first(repository: Repository) -> None:
    repository.write({B: first("d")})
    assert changes(repository, *CELL) == [(None, 32, 128), ("base", None, 32)]
    assert "not committed yet\n" in log(repository, *CELL).out


def test_a_version_that_could_not_be_read(repository: Repository) -> None:
    broken = TABLE_B.replace("[fp16 0 64]", "[fp16 0 64]\n<<<<<<< ours\n64 b*3\n=======").replace(
        "128 a", ">>>>>>> theirs\n128 a"
    )
    repository.commit({B: broken}, "conflict left in")
    repository.commit({B: first("b")}, "mended")
    out = log(repository, *CELL).out
    assert "unreadable: " in out
    assert "unresolved merge conflict" in out
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["mended", "conflict left in", "base"]


def test_a_fault_in_another_block_is_nobodys_business(repository: Repository) -> None:
    repository.commit({B: TABLE_B.replace("#! end", "\n[fp16 0 128]\n64 a\n#! end")}, "broken elsewhere")
    repository.commit({B: first("b")}, "to b")
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["to b", "base"]


def test_an_heir_has_no_history_of_its_own_but_an_effective_one(repository: Repository) -> None:
    repository.commit({B: first("b")}, "to b")
    assert changes(repository, *CELL, arch="gfxA") == []
    assert "no commit set this cell in a table or patch of gfxA; --effect" in log(repository, *CELL, arch="gfxA").out
    assert changes(repository, *CELL, "--effect", arch="gfxA") == [("to b", 32, 64), ("base", None, 32)]


def test_effect_of_pins_bases_and_schemas(repository: Repository) -> None:
    pin = (
        '[[pin]]\niface = "attn_fwd"\nfunctional = { dtype = "fp16", causal = 0, head_dim = 64 }\n'
        'at = { seqlen_q = 64, seqlen_k = 64 }\nreason = "a test"\nuntil = 2030-01-01\n'
        "config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }\n"
    )
    repository.commit({"my db/gfxB/pins.toml": pin}, "pinned")
    repository.commit({A: table("gfxA", {"fp16 0 128": ["64-256 b*3"]})}, "no base any more")
    repository.commit({A: TABLE_A}, "based again")
    repository.commit(
        {"my db/schema/attn_fwd.toml": SCHEMA.replace("domain.causal = [0]", "domain.causal = [1]", 1)}, "unsupported"
    )
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["base"]
    assert changes(repository, *CELL, "--effect", arch="gfxA") == [
        ("unsupported", 64, None),
        ("based again", None, 64),
        ("no base any more", 64, None),
        ("pinned", 32, 64),
        ("base", None, 32),
    ]


def test_a_new_field_at_its_default_is_no_change(repository: Repository) -> None:
    field = '[[config]]\nname = "pipes"\ntype = "int"\ndefault = 0\n'
    palette = {symbol: f"{config} 0" for symbol, config in PALETTE.items()}
    rows = ["64 a*3", "128 a b*2", "256 b c d"]
    wide = table("gfxB", {F1: rows}, fields=f"{FIELDS} pipes", palette=palette)
    repository.commit(
        {"my db/schema/attn_fwd.toml": SCHEMA.replace("[arch.gfxA]", f"{field}[arch.gfxA]"), B: wide}, "a field"
    )
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["base"]
    assert [subject for subject, *_ in changes(repository, *CELL, "--effect")] == ["base"]


def test_sizes_between_bins_with_effect(repository: Repository) -> None:
    repository.commit({B: first("b")}, "to b")
    between = (*KEYS, "seqlen_q=50", "seqlen_k=33")
    assert [subject for subject, *_ in changes(repository, *between, "--effect")] == ["to b", "base"]
    assert "50 is no bin of seqlen_q" in log(repository, *between, code=2).err


def test_a_bin_that_is_declared_no_more_keeps_its_history(repository: Repository) -> None:
    axes = {"seqlen_q": "64 128 256", "seqlen_k": "64 96 128 256"}
    wide = table("gfxB", {F1: ["64 a b a*2", "128 a b*3", "256 b c*2 d"]}, axes=axes)
    repository.commit({B: wide}, "with 96")
    repository.commit({B: TABLE_B}, "without")
    assert changes(repository, *KEYS, "seqlen_q=64", "seqlen_k=96") == [("without", 64, None), ("with 96", None, 64)]


def test_at_most_so_many(repository: Repository) -> None:
    repository.commit({B: first("b")}, "to b")
    assert [subject for subject, *_ in changes(repository, *CELL, "-n", "1")] == ["to b"]


def test_in_a_worktree_and_below_the_top(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "other tree"))
    tree = Repository(tmp_path / "other tree")
    tree.commit({B: first("d")}, "on the side")
    assert [subject for subject, *_ in changes(tree, *CELL)] == ["on the side", "base"]
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["base"]
    with chdir(tree.path / "my db" / "gfxB"):
        assert "on the side" in run("log", "..", "gfxB", "attn_fwd", *CELL).out


def test_the_root_may_be_the_top(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "top", dict(S0), drivers=False)
    repository.commit({"gfxB/attn_fwd.txtdb": first("b")}, "to b")
    with chdir(repository.path):
        for options in ((), ("--effect",)):
            done = run("log", ".", "gfxB", "attn_fwd", *CELL, *options)
            assert "to b" in done.out
            assert ":./gfxB/attn_fwd.txtdb:" in done.out


def test_a_shallow_clone_says_where_it_ends(repository: Repository, tmp_path: Path) -> None:
    repository.commit({B: first("b")}, "to b")
    repository.commit({B: first("b").replace("256 b c d", "256 c c d")}, "another cell")
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.path}", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    assert "not in this clone, which is shallow → BLOCK_M=64" in log(clone, *CELL).out


def test_a_repository_without_commits(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    repository = Repository(tmp_path / "new")
    repository.git("init", "-q")
    repository.write({f"my db/{name}": text for name, text in S0.items()})
    assert changes(repository, *CELL) == [(None, None, 32)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (KEYS, "`seqlen_q` is missing"),
        ((*CELL[1:],), "`dtype` is missing"),
        (("dtype=fp64", *CELL[1:]), "dtype has no value fp64"),
        ((*CELL, "seqlen_v=1"), "unknown name `seqlen_v`"),
        ((*CELL[:-1], "seqlen_k=x"), "expected int"),
    ],
)
def test_words_that_name_no_cell(repository: Repository, words: tuple[str, ...], message: str) -> None:
    assert message in log(repository, *words, code=2).err


def test_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    done = run("log", make_db(tmp_path), "gfxB", "attn_fwd", *CELL)
    assert (done.code, "not a git repository" in done.err) == (2, True)


def test_a_long_history_is_read_fast(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 commits, of which 100 touch the table and one the cell: of its seven contents each is read once."""
    opened: list[str] = []
    open_files = blame.open_files
    monkeypatch.setattr(blame, "open_files", lambda files, label: (opened.append(label), open_files(files, label))[1])
    stream = ["reset refs/heads/long", "from refs/heads/main^0"]
    for number in range(300):
        text = first("d" if number >= 150 else "a").replace("256 b c d", f"256 {'bcd'[number // 3 % 3]} c d")
        name, data = ('"my db/gfxB/attn_fwd.txtdb"', text) if number % 3 == 0 else ("notes", str(number))
        stream += [
            "commit refs/heads/long",
            f"committer Tester <t@example.org> {1700000000 + number} +0000",
            f"data {len(str(number))}\n{number}",
            f"M 644 inline {name}\ndata {len(data)}\n{data}",
        ]
    subprocess.run(["git", "fast-import", "--quiet"], input="\n".join(stream).encode(), cwd=repository.path, check=True)
    repository.git("checkout", "-q", "long")
    start = time.process_time()
    assert [subject for subject, *_ in changes(repository, *CELL)] == ["150", "base"]
    assert time.process_time() - start < 2
    assert len(opened) == 7


def test_exit_codes(repository: Repository) -> None:
    """0 also when no commit set the cell; 2 for words that name none."""
    assert "no commit set this cell" in log(repository, *CELL, arch="gfxA").out
    assert "`seqlen_k` is missing" in log(repository, *CELL[:-1], code=2).err
    assert "Exit code 0: told, also when no commit set the cell; 2: " in " ".join(run("log", "--help").out.split())
