"""Sides of a difference: folders, files, and revisions of a real repository."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path

import pytest

from tests.build import F1, S0, TABLE_B, make_db, patch
from tests.cli.run import Ran, run
from tests.merge.repository import Repository, make_repository
from txtdb.diff.sides import open_side
from txtdb.faults import FaultError

B = "gfxB/attn_fwd.txtdb"
CHANGED = TABLE_B.replace("64 a*3", "64 a*2 b")
FIRST = "~ seqlen_q=64 seqlen_k=256: BLOCK_M 32→64, num_warps 2→4"


def txtdb(folder: Path, *args: str, code: int = 0) -> Ran:
    """`txtdb ARGS…` run in a folder."""
    with chdir(folder):
        done = run(*args)
    assert done.code == code, done
    return done


def below(folder: str, files: dict[str, str]) -> dict[str, str | None]:
    return {f"{folder}/{name}" if folder else name: text for name, text in files.items()}


@pytest.fixture(params=["db", "my tuning db", "a/deep one/db", "bracket[1]*?db", "Größe"])
def folder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repository(tmp_path: Path, folder: str) -> Repository:
    return make_repository(tmp_path / "repo dir", below(folder, dict(S0)), drivers=False)


def test_a_revision_against_the_working_tree(repository: Repository, folder: str) -> None:
    repository.write({f"{folder}/{B}": CHANGED})
    done = txtdb(repository.path, "diff", f"HEAD:{folder}", folder, code=1)
    assert f"{FIRST}  {folder}/{B}:" in done.out
    assert f"of HEAD:{folder}/{B}, hand test" in done.out


def test_two_revisions(repository: Repository, folder: str) -> None:
    repository.commit({f"{folder}/{B}": CHANGED})
    assert FIRST in txtdb(repository.path, "diff", f"HEAD~1:{folder}", f"HEAD:{folder}", code=1).out
    assert txtdb(repository.path, "diff", f"HEAD:{folder}", folder).out == "no difference\n"


def test_a_file_of_a_revision(repository: Repository, folder: str) -> None:
    repository.write({f"{folder}/{B}": CHANGED})
    assert FIRST in txtdb(repository.path, "diff", f"HEAD:{folder}/{B}", f"{folder}/{B}", code=1).out


def test_paths_count_from_the_folder_where_it_is_run(repository: Repository, folder: str) -> None:
    repository.write({f"{folder}/{B}": CHANGED})
    inside = repository.path / folder
    assert FIRST in txtdb(inside, "diff", "HEAD:", ".", code=1).out
    assert FIRST in txtdb(inside, "diff", "HEAD:.", ".", code=1).out
    arch = inside / "gfxB"
    assert FIRST in txtdb(arch, "diff", "HEAD:attn_fwd.txtdb", "attn_fwd.txtdb", code=1).out
    assert FIRST in txtdb(arch, "diff", "HEAD:..", "..", code=1).out
    assert FIRST in txtdb(arch, "diff", "HEAD:../gfxB/attn_fwd.txtdb", "../gfxB/attn_fwd.txtdb", code=1).out


def test_in_a_worktree(repository: Repository, folder: str, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "other tree"))
    tree = Repository(tmp_path / "other tree")
    tree.commit({f"{folder}/{B}": CHANGED})
    assert FIRST in txtdb(tree.path, "diff", f"main:{folder}", folder, code=1).out
    assert FIRST in txtdb(repository.path, "diff", folder, f"side:{folder}", code=1).out


def test_the_database_may_be_the_top_of_the_repository(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "top", dict(S0), drivers=False)
    repository.write({B: CHANGED})
    done = txtdb(repository.path, "diff", "HEAD:", ".", code=1)
    assert FIRST in done.out
    assert f"of HEAD:./{B}" in done.out


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "no such folder, file or revision"),
        ("HEAD:nowhere", "does not exist in 'HEAD'"),
        ("nothing:db", "invalid object name 'nothing'"),
        ("HEAD:db/gfxB", "no archs.toml"),
        ("db/README.txt", "lies in no database"),
        ("HEAD:db/archs.toml", "no archs.toml"),
    ],
)
def test_a_side_that_is_none(tmp_path: Path, spec: str, message: str) -> None:
    repository = make_repository(tmp_path / "repo", below("db", dict(S0)) | {"db/README.txt": "text"}, drivers=False)
    done = txtdb(repository.path, "diff", spec, "db", code=2)
    assert message in done.err
    assert not done.out


def test_a_revision_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    make_db(tmp_path)
    done = run("diff", "HEAD:db", "db")
    assert done.code == 2
    assert "not a git repository" in done.err


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_db(tmp_path)
    assert run("diff", "db", "db").code == 0
    monkeypatch.setenv("PATH", os.devnull)
    assert "git cannot be run" in run("diff", "HEAD:db", "db").err


def test_a_path_with_a_colon_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_db(tmp_path, name="run:3")
    assert run("diff", "run:3", "run:3").out == "no difference\n"


class TestFiles:
    """A single file on a side: its own cells alone."""

    PATCH = "gfxB/attn_fwd.0010-x.dbpatch"

    @pytest.fixture
    def roots(self, tmp_path: Path) -> tuple[Path, Path]:
        over = patch("gfxB", {F1: ["64 d . ."]})
        return (
            make_db(tmp_path, {self.PATCH: over}, "old"),
            make_db(tmp_path, {self.PATCH: over.replace("64 d . .", "64 d d ."), B: CHANGED}, "new"),
        )

    def test_a_patch_without_its_table(self, roots: tuple[Path, Path]) -> None:
        old, new = roots
        done = run("diff", old / self.PATCH, new / self.PATCH)
        assert done.code == 1
        assert "1 cell (1 added) in 1 arch, 0 other facts" in done.out

    def test_a_table_without_the_patch_over_it(self, roots: tuple[Path, Path]) -> None:
        old, new = roots
        assert "1 cell (1 changed)" in run("diff", old / B, new / B).out

    def test_against_a_folder_that_has_the_file(self, roots: tuple[Path, Path]) -> None:
        old, new = roots
        assert "1 cell (1 added)" in run("diff", old, new / self.PATCH).out

    def test_against_a_folder_that_has_it_not(self, roots: tuple[Path, Path], tmp_path: Path) -> None:
        done = run("diff", make_db(tmp_path, {}, "bare"), roots[1] / self.PATCH)
        assert "2 cells (2 added)" in done.out
        assert f"file {self.PATCH}: added: patch" in done.out
        assert f"header {self.PATCH} why: added: a test" in done.out

    def test_two_files_of_one_interface(self, roots: tuple[Path, Path]) -> None:
        """A table and a patch of it: what the patch sets over the table's cell, and what it leaves out."""
        done = run("diff", roots[0] / B, roots[0] / self.PATCH)
        assert "9 cells (1 changed, 8 removed)" in done.out

    def test_effect_is_for_whole_databases(self, roots: tuple[Path, Path]) -> None:
        done = run("diff", roots[0] / B, roots[1] / B, "--effect")
        assert done.code == 2
        assert "--effect compares whole databases" in done.err

    def test_a_file_that_has_no_cells(self, roots: tuple[Path, Path]) -> None:
        done = run("diff", roots[0] / "schema/attn_fwd.toml", roots[1])
        assert done.code == 2
        assert "no table and no patch" in done.err

    def test_faults_of_other_files_play_no_part(self, roots: tuple[Path, Path]) -> None:
        (roots[0] / B).write_text("broken", encoding="utf-8")
        assert run("diff", roots[0] / self.PATCH, roots[1] / self.PATCH).code == 1


def test_an_opened_revision_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "repo", below("db", dict(S0)), drivers=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with open_side("HEAD:db", repository.path) as side:
        assert side.database.resolve("gfxA", "attn_fwd").table is not None
        assert list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "tmp").iterdir())
    with pytest.raises(FaultError), open_side("HEAD:nowhere", repository.path):
        pass
    assert not list((tmp_path / "tmp").iterdir())
    assert not repository.git("status", "--porcelain").out
