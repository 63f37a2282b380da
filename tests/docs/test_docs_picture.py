"""The picture of a diff shows what git prints now."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.docs.examples import REPO
from tools.docs.picture import PICTURE, picture, pieces, svg


def test_the_picture_is_what_git_prints_now():
    assert (REPO / PICTURE).read_text(encoding="utf-8") == picture(), "run python -m tools.docs.picture"


def test_the_readme_shows_the_picture():
    assert f"]({PICTURE.as_posix()})" in (REPO / "README.md").read_text(encoding="utf-8")


def test_terminal_colours_become_pieces():
    assert list(pieces("a \x1b[31m-b\x1b[m c")) == [("a ", "#d0d7de"), ("-b", "#ff7b72"), (" c", "#d0d7de")]


def test_text_is_escaped_and_lines_stand_below_each_other():
    root = ElementTree.fromstring(svg([[("<a>", "#fff")], [], [("b", "#fff")]], "x & y"))
    texts = [element for element in root.iter() if element.tag.endswith("}text")]
    assert ["".join(element.itertext()) for element in texts] == ["<a>", "b"]
    assert int(texts[1].get("y", 0)) - int(texts[0].get("y", 0)) == 2 * 20
