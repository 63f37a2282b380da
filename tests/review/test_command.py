"""`txtdb review` on git repositories."""

from __future__ import annotations

import json

import pytest

from tests.build import S0
from tests.cli.run import run
from tests.merge.repository import Repository, make_repository
from tests.review.cases import PATCH_B, TABLE_B, patch_b


def below(files):
    return {f"amd/{name}": text for name, text in files.items()}


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Repository:
    """S0 in amd/ on main; on branch feature a patch of one cell."""
    made = make_repository(tmp_path / "a repository", below(S0), drivers=False)
    made.branch("feature", below(patch_b("64 b . .")))
    monkeypatch.chdir(made.path)
    return made


def test_two_revisions(repository):
    done = run("review", "main..feature", "--root", "amd", "--format", "json")
    assert done.code == 0
    (table,) = done.json["tables"]
    (found,) = table["cells"]
    assert (table["arch"], table["iface"], found["at"], found["heirs"]) == ("gfxB", "attn_fwd", [64, 64], ["gfxA"])
    assert found["new_span"] == {"file": f"feature:amd/{PATCH_B}", "line": 14, "column": 4, "last_column": 4}
    assert done.json["old"].startswith("main (")


def test_without_head_the_work_tree(repository):
    repository.write(below(patch_b("64 b b .")))
    done = run("review", "main..", "--root", "amd", "--format", "json")
    assert [cell["at"] for cell in done.json["tables"][0]["cells"]] == [[64, 64], [64, 128]]
    assert done.json["new"] == "work tree"
    assert done.json["tables"][0]["cells"][0]["new_span"]["file"] == f"amd/{PATCH_B}"


def test_the_ground_of_a_patch_is_found_in_the_commits_of_the_branch(repository, monkeypatch):
    """The patch was made after the table changed once, and the table changed again below one of its two cells."""
    first, second = (S0[TABLE_B].replace("64 a*3", row) for row in ("64 c d a", "64 c a*2"))
    repository.git("switch", "-q", "feature")
    repository.commit(below({TABLE_B: first, PATCH_B: patch_b("64 b b .")[PATCH_B]}))
    assert run("patch", "rebase", repository.path / "amd" / PATCH_B).code == 0
    repository.git("commit", "-qam", "ground")
    repository.commit(below({TABLE_B: second}))
    repository.git("switch", "-q", "main")
    done = run("review", "main..feature", "--root", "amd", "--format", "json")
    cells = {tuple(cell["at"]): cell["flags"] for cell in done.json["tables"][0]["cells"]}
    assert ["ground-moved" in cells[64, k] for k in (64, 128)] == [False, True]


def test_three_dots_start_where_the_branches_parted(repository):
    repository.commit(below({TABLE_B: S0[TABLE_B].replace("256 b c d", "256 b c c")}))
    assert len(run("review", "main..feature", "--root", "amd", "--format", "json").json["tables"][0]["cells"]) == 2
    assert len(run("review", "main...feature", "--root", "amd", "--format", "json").json["tables"][0]["cells"]) == 1


@pytest.mark.parametrize("place", ["amd", "..", "absolute", "not there"])
def test_the_root_from_anywhere(repository, monkeypatch, place):
    root = {"amd": ".", "..": "..", "absolute": str(repository.path / "amd"), "not there": "amd"}[place]
    if place == "not there":
        repository.git("checkout", "-q", "--orphan", "empty")
        repository.git("rm", "-rqf", ".")
    else:
        monkeypatch.chdir(repository.path / {"amd": "amd", "..": "amd/gfxA", "absolute": ".."}[place])
    done = run("review", "main..feature", "--root", root)
    assert done.code == 0
    assert "## Review of `amd`: " in done.out


def test_a_database_at_the_top_of_its_repository(tmp_path, monkeypatch):
    made = make_repository(tmp_path / "top", S0, drivers=False)
    made.branch("feature", patch_b("64 b . ."))
    monkeypatch.chdir(made.path)
    assert "1 cell: 1 changed" in run("review", "main..feature", "--root", ".").out


@pytest.mark.parametrize(
    ("name", "begins"), [("r.html", "<!DOCTYPE"), ("r.md", "## Review"), ("r.json", "{"), ("r", "## Review")]
)
def test_the_form_follows_the_name_of_the_file(repository, name, begins):
    done = run("review", "main..feature", "--root", "amd", "--out", f"out/{name}")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"out/{name}: 1 cell: 1 changed")
    text = (repository.path / "out" / name).read_text(encoding="utf-8")
    assert text.startswith(begins)
    assert text.endswith("\n")


def test_a_named_form_counts_more_than_the_file(repository):
    assert run("review", "main..feature", "--root", "amd", "--out", "r.html", "--format", "md").code == 0
    assert (repository.path / "r.html").read_text(encoding="utf-8").startswith("## Review")


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.json"])
def test_a_review_replaces_a_review_and_nothing_else(repository, name):
    path = repository.path / name
    path.write_text('{\n"evidence": 1\n}\n', encoding="utf-8")
    done = run("review", "main..feature", "--root", "amd", "--out", name)
    assert (done.code, "which is not replaced" in done.err) == (2, True)
    assert path.read_text(encoding="utf-8").startswith('{\n"evidence"')
    path.unlink()
    assert [run("review", "main..feature", "--root", "amd", "--out", name).code for _ in range(2)] == [0, 0]


def test_a_change_that_brings_errors_ends_with_1(repository):
    repository.write(below(patch_b("64 x . .")))
    done = run("review", "main..", "--root", "amd")
    assert done.code == 1
    assert "`illegal` 1" in done.out


def test_errors_that_were_there_do_not_fail_the_next_change(repository):
    repository.commit(below(patch_b("64 x . .")))
    repository.write(below({"gfxB/attn_fwd.0020-y.dbpatch": patch_b("64 . b .")[PATCH_B]}))
    assert run("review", "HEAD..", "--root", "amd").code == 0


def test_row_037_a_broken_row_ends_with_1_and_is_shown(repository):
    repository.write(below({TABLE_B: S0[TABLE_B].replace("128 a b*2", "128 a b*3")}))
    done = run("review", "main..", "--root", "amd")
    assert done.code == 1
    assert "(row-too-long)" in done.out


@pytest.mark.parametrize("text", ["main", "..feature", "", "..", "main..-x"])
def test_what_is_no_range_is_a_usage_error(repository, text):
    done = run("review", text, "--root", "amd")
    assert done.code == 2
    assert "BASE..HEAD" in done.err


@pytest.mark.parametrize(
    ("revisions", "root"), [("main..nowhere", "amd"), ("nowhere...main", "amd"), ("main..", "nvidia")]
)
def test_a_side_that_is_not_there_ends_with_2(repository, revisions, root):
    done = run("review", revisions, "--root", root)
    assert done.code == 2
    assert done.err


def test_a_root_that_the_revision_has_not_is_named_with_what_to_do(repository):
    repository.write({"new/archs.toml": ""})
    done = run("review", "main..", "--root", "new")
    assert "main:new: error: fatal: path 'new' exists on disk, but not in 'main'" in done.err
    assert "`git ls-tree -d -r --name-only main`" in done.err


def test_a_schema_that_cannot_be_read_ends_with_2(repository):
    repository.write(below({"schema/attn_fwd.toml": "iface ="}))
    done = run("review", "main..", "--root", "amd", "--out", "r.html")
    assert done.code == 2
    assert not (repository.path / "r.html").exists()


def test_a_read_only_tree_is_reviewed_and_left_alone(repository):
    before = sorted(path.stat().st_mtime_ns for path in repository.path.rglob("*") if ".git" not in path.parts)
    assert run("review", "main..feature", "--root", "amd").code == 0
    after = sorted(path.stat().st_mtime_ns for path in repository.path.rglob("*") if ".git" not in path.parts)
    assert after == before


def test_json_is_whole(repository):
    repository.write(below({**patch_b("64 x - ."), "gfxB/stray.txt": ""}))
    data = json.loads(run("review", "main..", "--root", "amd", "--format", "json").out)
    assert sorted(data) == ["facts", "faults", "findings", "images", "new", "old", "root", "tables"]
    assert data["findings"]["kept"] == 0
    assert {finding["rule"] for finding in data["findings"]["new"]} == {"illegal-config", "hole", "unused-file"}
    cells = data["tables"][0]["cells"]
    assert [cell["new"] == "masked" for cell in cells] == [False, True]
    assert cells[0]["flags"] == ["illegal", "no-evidence", "used-once", "inherited"]
    assert cells[0]["findings"] == ["illegal-config"]


def test_diff_gives_the_same_page(repository):
    done = run("diff", "main:amd", "feature:amd", "--format", "html")
    assert done.code == 1
    assert done.out.startswith("<!DOCTYPE html>")
    assert "<title>Review of amd: main:amd → feature:amd</title>" in done.out


def test_faults_of_a_side_are_in_the_line_and_on_the_page(repository):
    repository.write(below({TABLE_B: S0[TABLE_B].replace("128 a b*2", "128 a b*3")}))
    done = run("review", "main..", "--root", "amd", "--out", "r.html")
    assert done.code == 1
    assert " 1 fault, see the page; the cells may be incomplete.\n" in done.err
    page = (repository.path / "r.html").read_text(encoding="utf-8")
    lead = page.partition('<p class="lead">')[2].partition("</p>")[0]
    assert lead.endswith(" 1 fault, see below; the cells may be incomplete.")


@pytest.mark.parametrize("name", ["r.pdf", "r.HTML", "a.b/r.txt"])
def test_an_ending_that_is_no_form_is_refused(repository, name):
    done = run("review", "main..feature", "--root", "amd", "--out", name)
    assert done.code == 2
    assert "html, json, md" in done.err
    assert not (repository.path / name).exists()
    assert run("review", "main..feature", "--root", "amd", "--out", name, "--format", "html").code == 0


@pytest.mark.parametrize("name", ["/proc/x.html", "amd/archs.toml/x.html"])
def test_a_file_that_cannot_be_written_ends_with_2(repository, name):
    done = run("review", "main..feature", "--root", "amd", "--out", name)
    assert done.code == 2
    assert done.err.startswith(f"{name}: error: cannot write: ")
    assert done.err.endswith("[unwritable]\n")


@pytest.mark.parametrize("words", [("review", "main..feature", "--root", "amd"), ("diff", "main:amd", "feature:amd")])
def test_both_names_of_markdown(repository, words):
    done = run(*words, "--format", "markdown")
    assert done.code < 2
    assert done == run(*words, "--format", "md")
    assert "|md" in run(words[0], "--help").out
    assert "markdown" not in run(words[0], "--help").out
