"""`txtdb git install`, `uninstall` and `status`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import S0
from tests.cli.run import run
from tests.merge.repository import Repository, make_repository
from txtdb.merge import attributes, git_setup

LINES = "*.txtdb text eol=lf merge=txtdb diff=txtdb\n*.dbpatch text eol=lf merge=txtdb diff=txtdb\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository without drivers, which is also the working directory."""
    repository = make_repository(tmp_path / "a repository", S0, drivers=False)
    monkeypatch.chdir(repository.path)
    return repository


def state(made: Repository) -> tuple[str, str | None]:
    """All that install may touch."""
    path = made.path / ".gitattributes"
    return made.read(".git/config"), path.read_bytes().decode() if path.exists() else None


def test_install_sets_the_drivers_and_names_their_files(made: Repository) -> None:
    ran = run("git", "install")
    assert ran.code == 0
    config = made.git("config", "--local", "--list").out
    assert "merge.txtdb.driver=" in config
    assert config.count("git merge-driver %O %A %B %P") == 1
    assert LINES in made.read(".gitattributes")
    assert made.git("check-attr", "merge", "diff", "text", "eol", "--", "a/b.dbpatch").out.splitlines() == [
        "a/b.dbpatch: merge: txtdb",
        "a/b.dbpatch: diff: txtdb",
        "a/b.dbpatch: text: set",
        "a/b.dbpatch: eol: lf",
    ]


def test_a_second_install_changes_nothing(made: Repository) -> None:
    run("git", "install")
    before = state(made)
    ran = run("git", "install")
    assert (ran.code, ran.out) == (0, "nothing to do: the drivers are installed\n")
    assert state(made) == before


@pytest.mark.parametrize(
    "text",
    [None, "", "*.png binary\n", "*.png binary", "*.png binary\r\n", f"# mine\n{LINES}", "*.txtdb text eol=lf\n\n"],
)
def test_uninstall_removes_what_install_added(made: Repository, text: str | None) -> None:
    if text is not None:
        made.commit({".gitattributes": text} | ({"x": "x"} if not text else {}))
    made.git("config", "--local", "diff.txtdb.cachetextconv", "false")
    before = state(made)
    assert run("git", "install").code == 0
    assert (state(made)[1] or "").startswith(text or "")
    assert run("git", "status").code == 0
    assert run("git", "uninstall").code == 0
    assert state(made) == before
    assert run("git", "uninstall").out == "nothing to do: the drivers are not installed\n"


def test_uninstall_after_the_attributes_were_committed(made: Repository) -> None:
    run("git", "install")
    made.commit({}, "attributes")
    run("git", "uninstall")
    assert not (made.path / ".gitattributes").exists()


def test_lines_that_came_with_a_commit_of_somebody_else_stay(made: Repository, tmp_path: Path, monkeypatch) -> None:
    run("git", "install")
    made.commit({}, "attributes")
    made.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    monkeypatch.chdir(clone.path)
    before = state(clone)
    assert run("git", "status").code == 1
    assert "set .gitattributes" not in run("git", "install").out
    assert run("git", "status").code == 0
    run("git", "uninstall")
    assert state(clone) == before


def test_status_tells_what_is_missing(made: Repository) -> None:
    ran = run("git", "status", "--format", "json")
    assert ran.code == 1
    assert {entry["state"] for entry in ran.json["settings"].values()} == {"missing"}
    assert ran.json["installed"] is False
    assert ran.json["files"] == {"gfxA/attn_fwd.txtdb": False, "gfxB/attn_fwd.txtdb": False}
    run("git", "install")
    ran = run("git", "status", "--format", "json")
    assert ran.code == 0
    assert {entry["state"] for entry in ran.json["settings"].values()} == {"set"}
    assert ran.json["installed"] is True


def test_status_names_files_whose_attributes_are_others(made: Repository) -> None:
    run("git", "install")
    made.write({"gfxA/.gitattributes": "*.txtdb merge=union\n"})
    ran = run("git", "status")
    assert ran.code == 1
    assert "unused   gfxA/attn_fwd.txtdb" in ran.out
    assert "1 of 2 files" in ran.out


def test_status_tells_of_a_program_that_is_gone(made: Repository) -> None:
    run("git", "install")
    driver = made.git("config", "diff.txtdb.textconv").out.strip()
    program = found(made, "diff.txtdb.textconv")["program"]
    made.git("config", "--local", "diff.txtdb.textconv", driver.replace(program, "/nowhere/bin/txtdb"))
    ran = run("git", "status")
    assert ran.code == 1
    assert "broken   diff.txtdb.textconv: there is no program /nowhere/bin/txtdb\n" in ran.out
    assert ran.out.endswith("\nrun `txtdb git install`\n")
    run("git", "install")
    assert run("git", "status").code == 0


def found(made: Repository, key: str) -> dict[str, str]:
    """What `status` tells of a setting."""
    setting: dict[str, str] = run("git", "status", "--format", "json").json["settings"][key]
    assert made.git("config", key).out.strip() == setting["value"]
    return setting


def test_status_before_install_says_what_to_do(made: Repository) -> None:
    ran = run("git", "status")
    assert (ran.code, ran.out) == (1, "not installed in this clone: run `txtdb git install`\n")


def test_install_says_that_the_attributes_belong_into_a_commit(made: Repository) -> None:
    assert run("git", "install").out.endswith("\ncommit .gitattributes: others then need this command alone\n")


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_values_of_another_version_are_renewed_and_removed(made: Repository, command: str) -> None:
    run("git", "install")
    made.git("config", "--local", "merge.txtdb.driver", "/usr/bin/txtdb git merge-driver %O %A %B %P")
    made.git("config", "--local", "diff.txtdb.textconv", "/usr/bin/txtdb git textconv")
    assert found(made, "diff.txtdb.textconv")["state"] == "old"
    ran = run("git", "status")
    assert ran.code == 1
    assert "old      merge.txtdb.driver: from another version of txtdb\n" in ran.out
    ran = run("git", command)
    assert ran.code == 0
    assert {"merge.txtdb.driver", "diff.txtdb.textconv"} <= {line.split()[1] for line in ran.out.splitlines()}
    assert run("git", "status").code == (0 if command == "install" else 1)


def test_a_driver_of_another_program_is_left_alone(made: Repository) -> None:
    made.git("config", "--local", "merge.txtdb.driver", "my-merge %A")
    before = state(made)
    ran = run("git", "install")
    assert ran.code == 2
    assert "merge.txtdb.driver" in ran.err
    assert state(made) == before
    run("git", "uninstall")
    assert state(made) == before
    assert "foreign  merge.txtdb.driver = my-merge %A" in run("git", "status").out


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize("kind", ["folder", "dangling link", "link"])
def test_attributes_that_are_no_file_are_refused_before_anything_is_set(
    made: Repository, command: str, kind: str
) -> None:
    path = made.path / ".gitattributes"
    if command == "uninstall":
        run("git", "install")
        path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere" if kind == "dangling link" else "gfxB/attn_fwd.txtdb")
    before = made.read(".git/config")
    ran = run("git", command)
    assert (ran.code, ran.err.count("[unreadable]")) == (2, 1)
    assert ".gitattributes: error: " in ran.err
    assert made.read(".git/config") == before
    assert path.is_dir() if kind == "folder" else path.is_symlink()
    assert made.read("gfxB/attn_fwd.txtdb") == S0["gfxB/attn_fwd.txtdb"]


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_outside_a_repository(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    ran = run("git", command)
    assert ran.code == 2
    assert "not a git repository" in ran.err
    assert "run it in the working tree of the repository" in ran.err


def test_from_a_folder_below_the_top(made: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.path / "gfxB")
    run("git", "install")
    assert (made.path / ".gitattributes").exists()
    assert not Path(".gitattributes").exists()
    assert run("git", "status").code == 0


def test_a_worktree_has_lines_of_its_own(made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("git", "install")
    made.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other tree"))
    monkeypatch.chdir(tmp_path / "other tree")
    assert run("git", "install").out.startswith("set .gitattributes\n")
    assert run("git", "status").code == 0
    run("git", "uninstall")
    assert not Path(".gitattributes").exists()
    monkeypatch.chdir(made.path)
    run("git", "uninstall")
    assert not Path(".gitattributes").exists()


def test_the_program_is_named_for_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripts = tmp_path / "100% of a 'path'"
    scripts.mkdir()
    script = scripts / ("txtdb.exe" if os.name == "nt" else "txtdb")
    script.write_text("")
    monkeypatch.setattr(git_setup.sysconfig, "get_path", lambda name: str(scripts))
    quoted = str(script).replace("'", "'\"'\"'")
    assert f" '{quoted}' git textconv " in git_setup._command("diff.txtdb.textconv")
    doubled = quoted.replace("%", "%%")
    assert git_setup._command("merge.txtdb.driver").startswith(f"'{doubled}' git merge-driver %O %A %B %P ")
    for key in ("diff.txtdb.textconv", "merge.txtdb.driver", "merge.txtdb-ancestor.driver"):
        assert git_setup.Setting(key, git_setup._command(key)).program == script.as_posix()


def test_without_a_script_the_interpreter_runs_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(git_setup.sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    made = make_repository(tmp_path / "repository", S0)
    assert " -P -c " in made.git("config", "merge.txtdb.driver").out
    text = S0["gfxB/attn_fwd.txtdb"]
    made.write({"txtdb/__init__.py": "raise RuntimeError"})
    made.branch("theirs", {"gfxB/attn_fwd.txtdb": text.replace("64 a*3", "64 a*2 c")})
    made.commit({"gfxB/attn_fwd.txtdb": text.replace("64 a*3", "64 b a*2")})
    made.git("merge", "-q", "theirs")
    assert made.read("gfxB/attn_fwd.txtdb") == text.replace("64 a*3", "64 b a c")


def test_attributes_with_windows_line_ends() -> None:
    text = attributes.with_lines(b"*.png binary\n").replace(b"\n", b"\r\n")
    assert attributes.with_lines(text) == text
    assert attributes.without_lines(text) == b"*.png binary\r\n"


def test_lines_below_the_block_stay() -> None:
    text = attributes.with_lines(b"a\n") + b"b\n"
    assert attributes.without_lines(text) == b"a\nb\n"
    assert attributes.without_lines(b"a\n") == b"a\n"
