"""docs/review.md tells of its example what the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.docs.examples import REPO, run_shell
from tools.docs.review_picture import MAKE_BRANCH, REVIEW

PAGE = REPO / "docs" / "review.md"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
PRINTED = re.compile(
    r"(?P<cell>[\d,]+) cells?: .*; in (?P<functional>\d+) functionals? of (?P<table>\d+) tables?; (?P<arch>\d+)"
)
COUNTED = re.compile(rf"\b([\d,]+|{'|'.join(WORDS)}) (?:more )?(cell|functional|table|arch|file)s?\b", re.IGNORECASE)


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def prose() -> str:
    """What the page tells of its example."""
    return text().partition("From the top:")[2].partition("## Reading the page")[0]


def number(word: str) -> int:
    return WORDS.index(word.lower()) if word.lower() in WORDS else int(word.replace(",", ""))


def printed() -> dict[str, int]:
    """What the example of the page prints, which another test holds against the command."""
    headline = PRINTED.search(text())
    files = re.search(r"(\d+) files changed", text())
    assert headline and files, "the example prints a headline, and the files of the diff"
    return {**{name: number(word) for name, word in headline.groupdict().items()}, "file": number(files[1])}


def test_numbers_in_the_prose_are_those_of_the_output() -> None:
    told = [(noun.lower(), number(word)) for word, noun in COUNTED.findall(prose())]
    assert {noun for noun, _ in told} == set(printed()), "the prose tells of each of them"
    wrong = [f"{count} {noun}s" for noun, count in told if count != printed()[noun]]
    assert wrong == [], f"docs/review.md prints {printed()}"


def test_there_are_no_other_numbers_in_the_prose() -> None:
    """But names, changes of configs, numbers of the list, and the exit code."""
    rest = re.sub(r"^\d\. |`[^`]*`|\bgfx\w+|end with \d", "", COUNTED.sub("", prose()), flags=re.MULTILINE)
    assert re.findall(r"\d+", rest) == []


def test_what_the_prose_says_there_is_not_is_not_there() -> None:
    """Neither findings nor images that are new, and no cell with evidence."""
    told = ("There is nothing here", "none that is new", "`no-evidence` on all cells")
    shown = ("\nChecks: 0 new", "\nKernel images: 0 new", f"\n- `no-evidence` {printed()['cell']:,} (")
    flat = " ".join(prose().split())
    assert [words for words in told if words not in flat] == []
    assert [line for line in shown if line not in text()] == []


def test_the_most_frequent_change_is_the_one_of_the_page(tmp_path: Path) -> None:
    for command in (MAKE_BRANCH, REVIEW):
        code, lines = run_shell(command, tmp_path)
        assert code == 0, lines
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data
    common = {table["arch"]: table["common"][0][0] for table in json.loads(data[1])["tables"]}
    told = re.search(r"for (gfx\w+) the line begins\s+`Most frequent: (.*?)`", prose())
    assert told and common[told[1]] == told[2], f"the page begins with {common}"


@pytest.mark.parametrize("command", MAKE_BRANCH.split(" && "))
def test_the_picture_is_of_the_example(command: str) -> None:
    assert command in text()
