"""The page as text: self-contained, escaped, small. What its script does is tested in a browser."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import txtdb.review
from tests.build import F1, patch
from tests.evidence.cells import readings
from tests.evidence.made import decided, published_files, raced, run_of
from tests.review.cases import deep, gain, make_review, measured, patch_b
from tests.review.hostile import HOSTILE, hostile_files
from txtdb.review.markup import element, join
from txtdb.review.page import ROWS_SHOWN, as_html

TEMPLATES = Path(txtdb.review.__file__).parent / "templates"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Elements with their attributes; texts of scripts and styles; whether every element is closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] in ("script", "style"):
            self.raw.append((*self._open[-1], data))


@pytest.fixture
def page(tmp_path):
    return as_html(make_review(tmp_path, deep("a*3"), {**deep("a b c"), **hostile_files()}))


def test_markup_escapes_what_is_not_markup():
    assert element("p", "<b>", element("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert join("<", element("b", ">")) == "&lt;<b>&gt;</b>"


def test_nothing_is_fetched(page):
    reader = Reader(page)
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "ping"}
    assert [tag for tag, given in reader.elements if loading & set(given)] == []
    assert all(given["href"].startswith("#") for _, given in reader.elements if "href" in given)
    assert {tag for tag, _ in reader.elements} & {"link", "iframe", "object", "embed", "img", "base", "form"} == set()
    style = next(text for tag, _, text in reader.raw if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_names_the_script_and_the_style_and_nothing_else(page):
    reader = Reader(page)
    (policy,) = (given["content"] for _, given in reader.elements if given.get("http-equiv"))
    code = ((tag, text) for tag, given, text in reader.raw if "type" not in given)
    digests = {tag: b64encode(sha256(text.encode()).digest()).decode() for tag, text in code}
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_script_makes_no_markup_of_text(page):
    script = next(text for tag, given, text in Reader(page).raw if tag == "script" and "type" not in given)
    risky = r"\beval\b|new Function\b|innerHTML|outerHTML|insertAdjacentHTML|document\.write|fetch\(|XMLHttp"
    assert re.findall(risky, script) == []


def test_shades_differ_in_lightness_so_that_every_kind_of_colour_vision_orders_them():
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"\.s(\d) \{ background: #([0-9a-f]{6})", style))
    lightness = [luminance(colours[str(number)]) for number in range(10)]
    assert all(after > before * 1.15 for before, after in pairwise(lightness))


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.2."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_nothing_moves_by_itself():
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    assert re.findall(r"animation|transition|smooth", style) == []


def test_no_inline_handlers_or_styles(page):
    names = {name for _, given in Reader(page).elements for name in given}
    assert {name for name in names if name.startswith("on") or name == "style"} == set()


def test_hostile_texts_stay_text(page):
    reader = Reader(page)
    assert [tag for tag, _ in reader.elements if tag == "script"] == ["script", "script"]
    assert all("alert(1)" not in str(given) for _, given in reader.elements)
    (data,) = (text for tag, given, text in reader.raw if given.get("type") == "application/json")
    assert "<" not in data
    assert HOSTILE in json.dumps(json.loads(data), ensure_ascii=False)


def test_names_of_revisions_and_roots_stay_text(tmp_path):
    review = make_review(tmp_path, {}, patch_b("64 b . ."))
    page = as_html(replace(review, root=HOSTILE, old=HOSTILE, new=HOSTILE))
    assert [tag for tag, _ in Reader(page).elements if tag == "script"] == ["script", "script"]
    assert page.count("&lt;/script&gt;") == 6 * 2


def test_the_overview_is_there_without_a_script(page):
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "gfxB" in text
    assert "<noscript>" in text
    assert "no evidence" in text


def test_gain_stands_in_the_overview(tmp_path):
    cells = [gain((64, 64), -3.25, 1)]
    assert "−3.2 %, 1 of 1 cell" in as_html(make_review(tmp_path, {}, measured(cells, ("64 b . .",))))


def test_the_signs_of_gains_have_a_legend(tmp_path):
    timed = as_html(make_review(tmp_path, {}, measured([gain((64, 64), 5, 1)], ("64 b . .",))))
    assert '<p class="quiet">Gains over the config before: + is faster, − slower.</p>' in timed
    assert '<i class="gain2">+9</i>faster, in percent' in timed
    assert "less energy, in percent" not in timed
    files = published_files(run_of([decided(replace(raced({"a": 20, "b": 10}, incumbent="a"), watts=readings(4, 4)))]))
    weighed = as_html(make_review(tmp_path / "energy", {}, files))
    assert '<p class="quiet">Gains over the config before: of energy + is less energy, − more; ' in weighed
    assert '<i class="gain2">+9E</i>less energy, in percent' in weighed
    assert "faster, in percent" not in weighed


def test_long_lists_are_cut_aloud(tmp_path):
    strays = {f"gfxB/stray-{number}.txt": "a stray file" for number in range(ROWS_SHOWN + 5)}
    page = as_html(make_review(tmp_path, {}, strays))
    assert "… 5 more are not shown." in page


def test_the_same_review_is_the_same_page(tmp_path):
    first, second = (as_html(make_review(tmp_path / name, {}, patch_b("64 e . b"))) for name in ("a", "b"))
    assert first.replace(str(tmp_path / "a"), "") == second.replace(str(tmp_path / "b"), "")


def test_masked_and_empty_cells_have_words(tmp_path):
    new = {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 - . ."]})}
    (data,) = (text for _, given, text in Reader(as_html(make_review(tmp_path, {}, new))).raw if given.get("type"))
    (functional,) = json.loads(data)["tables"][0]["functionals"]
    assert functional[1].startswith("- ")
