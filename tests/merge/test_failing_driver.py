"""git with drivers whose program is gone, crashes or is killed: no side's text is lost, and every diff is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import S0, TABLE_B
from tests.cli.run import run
from tests.merge.repository import Repository, make_repository
from txtdb.merge import git_setup

B = "gfxB/attn_fwd.txtdb"
FIRST = TABLE_B.replace("64 a*3", "64 b a*2")
LAST = TABLE_B.replace("64 a*3", "64 a*2 c")
FAR = TABLE_B.replace("256 b c d", "256 b c a")

# A program's text; None stands for no program at all.
PROGRAMS = {
    "gone": None,
    "no interpreter": "#!/nowhere/bin/python\n",
    "not found": "#!/bin/sh\nexit 127\n",
    "usage": "#!/bin/sh\necho no such command >&2\nexit 2\n",
    "traceback": "#!/bin/sh\necho Traceback >&2\nexit 1\n",
    "killed": "#!/bin/sh\nkill -9 $$\n",
    "aborted": "#!/bin/sh\nkill -ABRT $$\n",
    "error at exit": "#!/bin/sh\nexit 120\n",
}


@pytest.fixture(params=[*PROGRAMS, "not executable"])
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """S0, with drivers whose program has since become the one of the parameter."""
    script = tmp_path / "an environment" / "txtdb"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    monkeypatch.setattr(git_setup.sysconfig, "get_path", lambda name: str(script.parent))
    repository = make_repository(tmp_path / "a repository", S0)
    text = PROGRAMS.get(request.param, "#!/bin/sh\n")
    script.unlink()
    if text is not None:
        script.write_text(text)
        script.chmod(0o644 if request.param == "not executable" else 0o755)
    return repository


def merge(made: Repository, ours: str, theirs: str, code: int) -> str:
    """git's words for a merge; `theirs` is a branch of that name."""
    made.branch("theirs", {B: theirs})
    made.commit({B: ours})
    return made.git("merge", "-q", "--no-edit", "theirs", code=code).err


def test_a_conflict_by_lines_has_markers_and_both_texts(made: Repository) -> None:
    said = merge(made, FIRST, LAST, code=1)
    assert f"{B}: merged by lines, because txtdb did not run (see txtdb git status)\n" in said
    assert "<<<<<<< ours\n64 b a*2\n=======\n64 a*2 c\n>>>>>>> theirs\n" in made.read(B)
    assert made.git("diff", "--name-only", "--diff-filter=U").out == f"{B}\n"
    assert "[conflict-marker]" in run("check", made.path).out


def test_what_merges_by_lines_is_merged(made: Repository) -> None:
    merge(made, FIRST, FAR, code=0)
    assert made.read(B) == FIRST.replace("256 b c d", "256 b c a")


def test_diff_and_log_show_the_text(made: Repository) -> None:
    made.commit({B: FIRST})
    for command in (("diff", "HEAD~1"), ("log", "-p", "-1")):
        assert "-64 a*3\n+64 b a*2\n" in made.git(*command).out


def test_ancestors_that_are_merges(made: Repository) -> None:
    left, right = made.branch("left", {B: FIRST}), made.branch("right", {B: LAST})
    for name, other, text in (("left", right, FIRST), ("right", left, FAR)):
        made.git("checkout", "-q", name)
        made.git("merge", "-q", "--no-commit", "--no-ff", other, code=None)
        made.commit({B: text})
    made.git("merge", "-q", "left", code=1)
    text = made.read(B)
    assert "64 b a*2\n" in text
    assert "64 a*3\n" in text
    assert "256 b c a\n" in text


def test_a_conflict_keeps_the_style_and_the_length_of_markers(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "repository", S0)
    for key in ("merge.txtdb.driver", "diff.txtdb.textconv"):
        value = made.git("config", key).out.strip()
        made.git("config", "--local", key, value.replace(git_setup.Setting(key, value).program, "/nowhere/txtdb"))
    made.git("config", "--local", "merge.conflictStyle", "diff3")
    made.write({".git/info/attributes": "*.txtdb conflict-marker-size=9\n"})
    merge(made, FIRST, LAST, code=1)
    assert f"\n{'<' * 9} ours\n64 b a*2\n{'|' * 9} base\n64 a*3\n{'=' * 9}\n64 a*2 c\n{'>' * 9} theirs\n" in made.read(
        B
    )


def test_a_driver_that_fails_half_way_has_left_the_file_alone(tmp_path: Path) -> None:
    """The report comes before the file is written: what breaks there leaves it to git."""
    made = make_repository(tmp_path / "repository", S0)
    value = made.git("config", "merge.txtdb.driver").out.strip()
    made.git("config", "--local", "merge.txtdb.driver", value.replace(" %P ||", " %P 2>/dev/full ||", 1))
    merge(made, FIRST, TABLE_B.replace("64 a*3", "64 c a*2"), code=1)
    assert "<<<<<<< ours\n64 b a*2\n=======\n64 c a*2\n>>>>>>> theirs\n" in made.read(B)
