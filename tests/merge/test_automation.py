"""The pre-commit hooks and the GitHub Action: their scripts, run here with a stand-in for GitHub's program.

That GitHub reads the files as meant is not shown by this.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.build import F1, S0, TABLE_B, patch
from tests.cli.run import run
from tests.merge.repository import Repository, environment, make_repository

TOP = Path(__file__).resolve().parents[2]
B = "gfxB/attn_fwd.txtdb"
HOOKS = (TOP / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
ACTION = (TOP / "action.yml").read_text(encoding="utf-8")
STEP = re.compile(
    r"name: (?P<name>\w+)(?: \w+)?\n(?:(?!    - ).*\n)*?      run: (?:\|\n(?P<lines>(?:        .*\n)+)|(?P<line>.+)\n)"
)

GH = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$*" in
*PATCH*|*POST*) test "$FORK" != yes ;;
*) printf '%s' "$FOUND" ;;
esac
"""


def scripts() -> dict[str, str]:
    """Name of a step → what it runs."""
    found = STEP.finditer(ACTION)
    return {
        match["name"]: re.sub("^        ", "", match["lines"] or match["line"], flags=re.MULTILINE) for match in found
    }


@dataclass(frozen=True)
class Runner:
    """A machine of GitHub's: a checkout and a folder for temporary files."""

    checkout: Repository
    temp: Path

    def step(self, name: str, **env: str) -> tuple[int, str]:
        """Exit code and output of one step."""
        files = {name: str(self.temp / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "LOG")}
        own = environment(self.temp)
        paths = {"RUNNER_TEMP": str(self.temp), "PATH": f"{self.temp}/tools:{own['PATH']}"}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[name]]
        done = subprocess.run(
            command, cwd=self.checkout.path, env={**own, **files, **paths, **env}, capture_output=True, check=False
        )
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def written(self, name: str) -> str:
        path = self.temp / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """S0 with one more commit, which sets a cell by a patch."""
    made = make_repository(tmp_path / "check out", {f"a db/{name}": text for name, text in S0.items()}, drivers=False)
    made.commit({"a db/gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
    temp = tmp_path / "temp"
    (temp / "txtdb" / "bin").mkdir(parents=True)
    (temp / "txtdb" / "bin" / "txtdb").symlink_to(Path(sys.executable).parent / "txtdb")
    (temp / "tools").mkdir()
    (temp / "tools" / "gh").write_text(GH)
    (temp / "tools" / "gh").chmod(0o755)
    return Runner(made, temp)


def test_every_step_is_known() -> None:
    assert list(scripts()) == ["Install", "Check", "Review", "Comment", "Verdict"]
    assert ACTION.count("run:") == 5


def test_a_clean_database(runner: Runner) -> None:
    code, out = runner.step("Check", ROOT="a db", STRICT="false", BASELINE="")
    assert (code, runner.written("github_output")) == (0, "code=0\n")
    assert "::error" not in out
    assert runner.step("Verdict", CODE="0")[0] == 0


def test_a_finding_annotates_its_line_and_fails_the_run_at_its_end(runner: Runner) -> None:
    runner.checkout.write({f"a db/{B}": TABLE_B.replace("128 a b*2", "128 a b")})
    code, out = runner.step("Check", ROOT="a db", STRICT="true", BASELINE="")
    assert (code, runner.written("github_output")) == (0, "code=1\n")
    assert f"::error file=a db/{B},line=17," in out
    assert runner.step("Verdict", CODE="1")[0] == 1


def test_a_baseline(runner: Runner) -> None:
    runner.checkout.write({f"a db/{B}": TABLE_B.replace("128 a b*2\n", "")})
    known = runner.temp / "known.txt"
    run("check", runner.checkout.path / "a db", "--baseline", known, "--write-baseline")
    runner.step("Check", ROOT="a db", STRICT="false", BASELINE=str(known))
    assert runner.written("github_output") == "code=0\n"


def test_the_review_goes_to_the_summary(runner: Runner) -> None:
    base = runner.checkout.git("rev-parse", "HEAD~1").out.strip()
    assert runner.step("Review", ROOT="a db", BASE=base)[0] == 0
    summary = runner.written("github_step_summary")
    assert summary.startswith("<!-- txtdb review of a db -->\n")
    assert "BLOCK_M" in summary


def test_a_review_of_nothing_fails(runner: Runner) -> None:
    base = runner.checkout.git("rev-parse", "HEAD~1").out.strip()
    assert runner.step("Review", ROOT="none", BASE=base)[0] == 2


def test_a_shallow_checkout_fetches_the_base(runner: Runner, tmp_path: Path) -> None:
    base = runner.checkout.git("rev-parse", "HEAD~1").out.strip()
    runner.checkout.git("config", "uploadpack.allowAnySHA1InWant", "true")
    runner.checkout.git("clone", "-q", "--depth=1", f"file://{runner.checkout.path}", str(tmp_path / "shallow"))
    shallow = Runner(Repository(tmp_path / "shallow"), runner.temp)
    assert shallow.step("Review", ROOT="a db", BASE=base)[0] == 0
    assert "BLOCK_M" in runner.written("github_step_summary")


@pytest.mark.parametrize("depth", [1, 2])
def test_a_merge_is_reviewed_against_its_first_parent(runner: Runner, tmp_path: Path, depth: int) -> None:
    """The base moved on since the event: what came there is no part of the review."""
    made = runner.checkout
    event = made.git("rev-parse", "HEAD").out.strip()
    made.branch("tip", {"a db/gfxB/attn_fwd.0020-y.dbpatch": patch("gfxB", {F1: ["64 . b ."]})})
    tip = made.git("rev-parse", "tip").out.strip()
    made.commit({"a db/gfxB/attn_fwd.0030-z.dbpatch": patch("gfxB", {F1: ["256 . . b"]})})
    made.git("merge", "-q", "--no-ff", "-m", "merge", "tip")
    made.git("config", "uploadpack.allowAnySHA1InWant", "true")
    made.git("clone", "-q", f"--depth={depth}", f"file://{made.path}", str(tmp_path / "shallow"))
    shallow = Runner(Repository(tmp_path / "shallow"), runner.temp)
    assert shallow.step("Review", ROOT="a db", BASE=event, TIP=tip)[0] == 0
    summary = runner.written("github_step_summary")
    assert "**1 cell: 1 changed;" in summary
    assert "0030-z" not in summary


def test_a_tip_that_is_a_merge_itself_is_reviewed_against_the_base(runner: Runner) -> None:
    """A workflow may check out the branch, whose last commit took the base in."""
    made = runner.checkout
    base = made.git("rev-parse", "HEAD").out.strip()
    made.git("checkout", "-q", "-b", "tip", "HEAD~1")
    made.commit({"a db/gfxB/attn_fwd.0020-y.dbpatch": patch("gfxB", {F1: ["64 . b ."]})})
    made.git("merge", "-q", "--no-ff", "-m", "merge", base)
    tip = made.git("rev-parse", "HEAD").out.strip()
    assert runner.step("Review", ROOT="a db", BASE=base, TIP=tip)[0] == 0
    assert "0020-y" in runner.written("github_step_summary")
    assert "0010-x" not in runner.written("github_step_summary")


COMMENT = {
    "GITHUB_REPOSITORY": "owner/name",
    "NUMBER": "7",
    "MARK": "<!-- txtdb review of a db -->",
    "GH_TOKEN": "none",
}


def test_a_first_comment_is_added(runner: Runner) -> None:
    assert runner.step("Comment", **COMMENT, FOUND="")[0] == 0
    listed, posted = runner.written("log").splitlines()
    assert listed.startswith("api --paginate repos/owner/name/issues/7/comments --jq .[] | select(")
    assert (
        posted == f"api --method POST repos/owner/name/issues/7/comments --field body=@{runner.temp}/review.md --silent"
    )


def test_a_comment_that_is_there_is_renewed(runner: Runner) -> None:
    assert runner.step("Comment", **COMMENT, FOUND="11\n12\n")[0] == 0
    assert "--method PATCH repos/owner/name/issues/comments/11 " in runner.written("log")


def test_a_token_that_may_not_write_is_no_failure(runner: Runner) -> None:
    code, out = runner.step("Comment", **COMMENT, FOUND="", FORK="yes")
    assert code == 0
    assert "::warning::" in out


def test_no_input_is_pasted_into_a_script() -> None:
    assert "${{" not in "".join(scripts().values())


def hooks() -> dict[str, dict[str, str]]:
    """Hook → its settings."""
    parts = [
        dict(re.findall(r"^(?:- |  )(\w+): (.+)$", part, re.MULTILINE))
        for part in re.split(r"^(?=- )", HOOKS, flags=re.MULTILINE)
    ]
    return {part["id"]: part for part in parts if part}


def test_the_hooks_run_commands_that_exist(tmp_path: Path) -> None:
    assert list(hooks()) == ["txtdb-fmt", "txtdb-check"]
    for hook in hooks().values():
        program, *arguments = hook["entry"].split()
        assert program == "txtdb"
        assert run(*arguments, "--help").code == 0
    made = make_repository(tmp_path / "repository", {B: TABLE_B.replace("64 a*3", "64  a a*2")}, drivers=False)
    assert run(*hooks()["txtdb-fmt"]["entry"].split()[1:], made.path / B).code == 0
    assert made.read(B) == TABLE_B


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("amd/gfx942/attn_fwd.txtdb", {"txtdb-fmt", "txtdb-check"}),
        ("gfx942/attn_fwd.0010-x.dbpatch", {"txtdb-fmt", "txtdb-check"}),
        ("amd/archs.toml", {"txtdb-check"}),
        ("pins.toml", {"txtdb-check"}),
        ("amd/schema/attn_fwd.toml", {"txtdb-check"}),
        ("amd/gfx942/evidence/run.json", {"txtdb-check"}),
        ("pyproject.toml", set()),
        ("package.json", set()),
        ("attn_fwd.txtdb.bak", set()),
    ],
)
def test_the_hooks_run_for_the_files_of_a_database(file: str, expected: set[str]) -> None:
    assert {name for name, hook in hooks().items() if re.search(hook["files"], file)} == expected
