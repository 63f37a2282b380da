"""git itself, with the drivers: merge, rebase, cherry-pick, worktrees, ancestors that are merges; and without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import S0, SCHEMA, TABLE_B
from tests.cli.run import run
from tests.merge.repository import Repository, make_repository

B = "gfxB/attn_fwd.txtdb"
FIRST = TABLE_B.replace("64 a*3", "64 b a*2")
LAST = TABLE_B.replace("64 a*3", "64 a*2 c")
BOTH = TABLE_B.replace("64 a*3", "64 b a c")
OTHER_FIRST = TABLE_B.replace("64 a*3", "64 c a*2")


def repository(tmp_path: Path, ours: str, theirs: str, drivers: bool = True, base: str = TABLE_B) -> Repository:
    """S0 on main, with a branch `ours` and a branch `theirs` that each change gfxB's table."""
    made = make_repository(tmp_path / "a repository", {**S0, B: base}, drivers)
    made.branch("ours", {B: ours})
    made.branch("theirs", {B: theirs})
    made.git("checkout", "-q", "ours")
    return made


def test_row_034_two_cells_of_one_row_conflict_without_the_driver(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, LAST, drivers=False)
    made.git("merge", "-q", "theirs", code=1)
    assert "<<<<<<< " in made.read(B)


@pytest.mark.parametrize(("here", "there"), [("ours", "theirs"), ("theirs", "ours")])
def test_row_034_two_cells_of_one_row_merge_with_the_driver(tmp_path: Path, here: str, there: str) -> None:
    made = repository(tmp_path, FIRST, LAST)
    made.git("checkout", "-q", here)
    made.git("merge", "-q", there)
    assert made.read(B) == BOTH
    assert run("check", made.path).code == 0


@pytest.mark.parametrize(("here", "there"), [("ours", "theirs"), ("theirs", "ours")])
def test_one_cell_conflicts_in_both_directions(tmp_path: Path, here: str, there: str) -> None:
    made = repository(tmp_path, FIRST, OTHER_FIRST)
    made.git("checkout", "-q", here)
    done = made.git("merge", "-q", there, code=1)
    assert "seqlen_q=64 seqlen_k=64" in done.err
    assert made.git("diff", "--name-only", "--diff-filter=U").out == f"{B}\n"
    found = run("check", made.path)
    assert found.code == 1
    assert f"{B}:" in found.out
    assert "[conflict-marker]" in found.out


@pytest.mark.parametrize(("here", "there"), [("ours", "theirs"), ("theirs", "ours")])
def test_an_empty_table_of_one_side_is_a_conflict_that_keeps_the_other(tmp_path: Path, here: str, there: str) -> None:
    made = repository(tmp_path, "", LAST)
    made.git("checkout", "-q", here)
    done = made.git("merge", "-q", there, code=1)
    assert "[no-magic]" in done.err
    assert made.git("diff", "--name-only", "--diff-filter=U").out == f"{B}\n"
    side = made.read(B).split("=======\n")[here == "ours"]
    assert LAST in side


def test_a_conflict_is_resolved_by_keeping_one_side(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, OTHER_FIRST)
    made.git("merge", "-q", "theirs", code=1)
    lines = made.read(B).splitlines(keepends=True)
    first, base, cut, last = (
        next(n for n, line in enumerate(lines) if line.startswith(m))
        for m in ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
    )
    made.commit({B: "".join([*lines[:first], *lines[cut + 1 : last], *lines[last + 1 :]])}, "merged")
    assert made.read(B) == OTHER_FIRST
    assert run("check", made.path, "--strict").code == 0
    assert base > first


def test_rebase_merges_by_cell(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, LAST)
    made.git("rebase", "-q", "theirs")
    assert made.read(B) == BOTH
    assert made.git("log", "--format=%s").out.split() == ["ours", "theirs", "base"]


def test_cherry_pick_and_stash_merge_by_cell(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, LAST)
    made.git("cherry-pick", "theirs")
    assert made.read(B) == BOTH
    made.git("reset", "-q", "--hard", "HEAD~1")
    made.write({B: FIRST.replace("256 b c d", "256 b c a")})
    made.git("stash", "-q")
    made.git("cherry-pick", "theirs")
    made.git("stash", "pop", "-q")
    assert made.read(B) == BOTH.replace("256 b c d", "256 b c a")


def test_a_worktree_merges_by_cell(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, LAST)
    made.git("worktree", "add", "-q", str(tmp_path / "an other tree"), "theirs")
    other = Repository(tmp_path / "an other tree")
    other.git("merge", "-q", "ours")
    assert other.read(B) == BOTH
    assert other.txtdb("git", "status").code == 0


def test_paths_with_blanks_and_quotes(tmp_path: Path) -> None:
    name = "db of 'ours'/gfx B/attn_fwd.txtdb"
    made = make_repository(tmp_path / 'it\'s a "repository" 100%', {name: TABLE_B})
    made.branch("theirs", {name: LAST})
    made.commit({name: FIRST})
    made.git("merge", "-q", "theirs")
    assert made.read(name) == BOTH


def criss_cross(made: Repository, ours: str, theirs: str, resolved: tuple[str, str]) -> None:
    """Two branches, each merged into the other, with the given resolutions; `left` is checked out afterwards."""
    left, right = made.branch("left", {B: ours}), made.branch("right", {B: theirs})
    for name, other, text in (("left", right, resolved[0]), ("right", left, resolved[1])):
        made.git("checkout", "-q", name)
        made.git("merge", "-q", "--no-commit", "--no-ff", other, code=None)
        made.commit({B: text}, f"merge into {name}")
    made.git("checkout", "-q", "left")
    assert set(made.git("merge-base", "--all", "left", "right").out.split()) == {left, right}


def test_ancestors_that_merge_by_cell(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    criss_cross(made, FIRST, LAST, (BOTH.replace("256 b c d", "256 a c d"), BOTH.replace("128 a b*2", "128 a*3")))
    made.git("merge", "-q", "right")
    assert made.read(B) == BOTH.replace("256 b c d", "256 a c d").replace("128 a b*2", "128 a*3")


def test_ancestors_in_conflict_ask_again_where_they_were_resolved_differently(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    criss_cross(made, FIRST, OTHER_FIRST, (FIRST.replace("256 b c d", "256 a c d"), OTHER_FIRST))
    made.git("merge", "-q", "right", code=1)
    text = made.read(B)
    assert text.count("<<<<<<< ours\n64 b a*2\n") == text.count("=======\n64 c a*2\n") == text.count("<<<<<<<") == 1
    assert "256 a c d" in text


def test_ancestors_in_conflict_that_were_resolved_alike(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    criss_cross(made, FIRST, OTHER_FIRST, (FIRST.replace("256 b c d", "256 a c d"), FIRST))
    made.git("merge", "-q", "right")
    assert made.read(B) == FIRST.replace("256 b c d", "256 a c d")


WITH_WAVES = SCHEMA.replace(
    "\n[arch.gfxA]", '\n[[config]]\nname = "new"\ntype = "int"\nmin = 0\ndefault = 3\n\n[arch.gfxA]'
)
SPELLED = (
    LAST.replace("num_stages", "num_stages new")
    .replace("a = 32 true 2 1", "a = 32 true 2 1 3")
    .replace("b = 64 true 4 1", "b = 64 true 4 1 3")
    .replace("c = 64 false 4 2", "c = 64 false 4 2 3")
    .replace("d = 128 false 8 2", "d = 128 false 8 2 4")
)


@pytest.mark.parametrize("command", [("merge", "-q"), ("rebase", "-q")])
@pytest.mark.parametrize(("here", "there"), [("ours", "theirs"), ("theirs", "ours")])
def test_row_029_a_field_whose_default_comes_with_one_branch(
    tmp_path: Path, command: tuple[str, str], here: str, there: str
) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.branch("ours", {B: FIRST})
    made.branch("theirs", {B: SPELLED, "schema/attn_fwd.toml": WITH_WAVES})
    made.git("checkout", "-q", here)
    made.git(*command, there)
    assert made.read(B) == SPELLED.replace("64 a*2 c", "64 b a c")


def test_a_broken_version_falls_back_to_lines(tmp_path: Path) -> None:
    broken = TABLE_B.replace("256 b c d", "256 b c nope d")
    made = repository(tmp_path, FIRST, broken)
    done = made.git("merge", "-q", "theirs", code=1)
    assert f"{B} (theirs):18:" in done.err
    assert "merged by lines" in done.err
    assert made.read(B) == FIRST.replace("256 b c d", "256 b c nope d")


def test_a_broken_version_that_conflicts_by_lines_keeps_both_texts(tmp_path: Path) -> None:
    made = repository(tmp_path, FIRST, TABLE_B.replace("64 a*3", "64 a*2 nope"))
    made.git("merge", "-q", "theirs", code=1)
    text = made.read(B)
    assert "64 b a*2\n" in text
    assert "64 a*2 nope\n" in text


def test_row_116_line_ends_do_not_conflict(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    made.write({".gitattributes": made.read(".gitattributes").replace("text eol=lf ", "-text ")})
    made.commit({}, "keep line ends")
    made.branch("theirs", {B: LAST.replace("\n", "\r\n")})
    made.commit({B: FIRST})
    made.git("merge", "-q", "theirs")
    assert made.read(B) == BOTH


def test_files_that_both_branches_add(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", {name: text for name, text in S0.items() if name != B})
    made.branch("theirs", {B: TABLE_B.replace("128 a b*2", "128 . . .")})
    made.commit({B: TABLE_B.replace("64 a*3", "64 . a*2")})
    made.git("merge", "-q", "theirs")
    assert made.read(B) == TABLE_B


def test_files_that_both_branches_add_with_different_cells(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", {name: text for name, text in S0.items() if name != B})
    made.branch("theirs", {B: LAST})
    made.commit({B: FIRST})
    made.git("merge", "-q", "theirs", code=1)
    assert made.read(B).count("<<<<<<< ours") == 1
    assert "#   base    nothing\n" in made.read(B)


def test_a_broken_version_that_is_no_text_keeps_both_whole(tmp_path: Path) -> None:
    binary = TABLE_B.replace("64 a*3", "64 a*3\0")
    made = repository(tmp_path, FIRST, binary)
    made.git("merge", "-q", "theirs", code=1)
    assert made.read(B) == f"<<<<<<< ours\n{FIRST}\n=======\n{binary}\n>>>>>>> theirs\n"
