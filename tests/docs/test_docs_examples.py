"""Every example of the documentation is extracted, run and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs.__main__ import pages
from tools.docs.examples import REPO, Fence, fences, matches, rewritten, run_page, sessions

PAGES = {page.relative_to(REPO).as_posix(): page for page in pages()}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_row_019_examples_do_what_the_page_says(name, tmp_path):
    outcome = run_page(PAGES[name], tmp_path)
    assert not outcome.problems, "\n\n".join(outcome.problems)
    if outcome.lacking:
        pytest.skip(f"not on PATH: {', '.join(sorted(outcome.lacking))}; the examples that need it were passed over")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_somewhere(name):
    page = PAGES[name]
    text = page.read_text(encoding="utf-8")
    targets = [(target, anchor) for target, anchor in LINK.findall(text) if "://" not in target]
    assert [target for target, _ in targets if not (page.parent / target).exists()] == []
    assert [
        (target, anchor) for target, anchor in targets if anchor and anchor not in anchors(page.parent / target)
    ] == []


def anchors(page: Path) -> set[str]:
    """The names under which the headings of a page are linked."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page():
    index = (REPO / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {target for target, _ in LINK.findall(index)}
    assert {page.name for page in PAGES.values() if page.parent.name == "docs"} - {"index.md"} <= listed


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.fixture
def run(tmp_path):
    def run_text(text: str) -> list[str]:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        return run_page(write_page(tmp_path, text), work).problems

    return run_text


def test_a_file_and_a_command_that_reads_it(run):
    assert run("```text file=sub/a.txt\none\n```\n\n```console\n$ cat sub/a.txt\none\n```\n") == []


def test_a_wrong_output_is_a_problem(run):
    (problem,) = run("```console\n$ echo one\ntwo\n```\n")
    assert "- two" in problem
    assert "+ one" in problem


def test_missing_output_is_a_problem(run):
    assert len(run("```console\n$ echo one\n```\n")) == 1


def test_a_failing_command_must_show_its_exit_code(run):
    assert len(run("```console\n$ false\n```\n")) == 1
    assert run("```console\n$ false; echo $?\n1\n```\n") == []


def test_a_command_may_go_over_several_lines(run):
    assert run("```console\n$ echo one \\\n  two\none two\n```\n") == []


def test_hidden_commands_run_in_order(run):
    assert run("<!-- run: echo hidden > a.txt -->\n\n```console\n$ cat a.txt\nhidden\n```\n") == []
    assert len(run("<!-- run: false -->\n")) == 1


def test_each_command_has_the_environment_that_the_page_sets(run):
    assert run("<!-- run: echo export A=one > .environment -->\n\n```console\n$ echo $A\none\n```\n") == []


def test_fences_that_need_a_program_are_passed_over_without_it(tmp_path):
    text = "```console needs=no-such-program\n$ no-such-program\n```\n\n```console needs=bash\n$ echo one\ntwo\n```\n"
    outcome = run_page(write_page(tmp_path, text), tmp_path)
    assert len(outcome.problems) == 1
    assert "echo one" in outcome.problems[0]
    assert outcome.lacking == {"no-such-program"}


def test_python_sessions_share_their_names(run):
    assert run("```pycon\n>>> a = 1\n```\n\ntext\n\n```pycon\n>>> a + 1\n2\n```\n") == []
    assert len(run("```pycon\n>>> 1 + 1\n3\n```\n")) == 1


def test_a_table_without_a_file_name_is_a_problem(run):
    assert len(run("```txtdb\n#! txtdb 1\n```\n")) == 1


@pytest.mark.parametrize(
    ("expected", "printed", "agree"),
    [
        (["a", "…", "c"], ["a", "b", "b", "c"], True),
        (["a", "…"], ["a"], True),
        (["…", "c"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
        ([], ["a"], False),
    ],
)
def test_wildcards(expected, printed, agree):
    assert matches(expected, printed) is agree


def test_an_open_fence_is_an_error():
    with pytest.raises(ValueError, match="never closed"):
        list(fences("```console\n$ true\n"))


def test_fences_of_more_ticks_hold_others():
    (outer,) = fences("````text\n```console\n$ false\n```\n````\n")
    assert isinstance(outer, Fence)
    assert outer.lines == ("```console", "$ false", "```")


def test_a_console_fence_starts_with_a_command():
    (fence,) = fences("```console\nno command\n```\n")
    with pytest.raises(ValueError, match="starts with"):
        list(sessions(fence))


def test_rewriting_replaces_the_output_alone():
    text = "# Page\n\n```console\n$ one\nold\n$ two\nold\nolder\n```\n\nText.\n"
    assert (
        rewritten(text, {4: ["new", "newer"], 6: []})
        == "# Page\n\n```console\n$ one\nnew\nnewer\n$ two\n```\n\nText.\n"
    )
