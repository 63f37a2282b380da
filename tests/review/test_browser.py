"""The page in a real browser: pointer, keyboard, filters, anchors, colours and speed."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.build import F2, SCHEMA, make_db, table
from tests.evidence.cells import readings
from tests.evidence.made import decided, published_files, raced, run_of
from tests.review.browser import Page, open_page
from tests.review.cases import TABLE_A, TODAY, chain, deep, flat, gain, make_review, measured, patch_b
from tests.review.hostile import hostile_files
from tools.bench.retuned import retune
from txtdb.diff.sides import open_side
from txtdb.review.build import build_review
from txtdb.review.page import as_html

OLD = {"BLOCK_M": "32", "PRE_LOAD_V": "true", "num_warps": "2", "num_stages": "1", "waves_per_eu": "0"}
NEW = {"BLOCK_M": "64", "PRE_LOAD_V": "true", "num_warps": "4", "num_stages": "1", "waves_per_eu": "0"}
F1_ANCHOR = "gfxB/attn_fwd/fp16,0,64"
F2_ANCHOR = "gfxA/attn_fwd/fp16,0,128"
MAX_BYTES = 3_000_000
MAX_MS = 2_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """name → a page: `plain` has changes in two archs, `measured` evidence and flags, `axes` tables of 1 and 4 axes."""
    folder = tmp_path_factory.mktemp("pages")
    child = {TABLE_A: table("gfxA", {F2: ["64 b d b", "128 b*3", "256 c*2 d"]}, base="gfxB")}
    grave = measured(
        [gain((64, 64), 12.4, 2), gain((64, 128), -8, 2), gain((128, 64), 1, 2)], ("64 b b .", "128 b . x")
    )
    reviews = {
        "plain": ({}, {**patch_b("64 b . .", "256 . - ."), **child}),
        "measured": ({}, grave),
        "kinds": (chain("b", "c")["twice"], {**chain("b", "c")["once"], **weighed_patch()}),
        "energy": ({}, energy_patch(longer=True)),
        "back": (energy_patch(longer=False), {}),
        "axes": ({**flat("a*3"), **deep("a*3")}, {**flat("a b a"), **deep("a a b")}),
        "hostile": ({}, hostile_files()),
    }
    paths = {}
    for name, (old, new) in reviews.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(as_html(make_review(folder / name, old, new)), encoding="utf-8")
    return paths


def weighed_patch():
    """A patch of another cell, from a run that energy decided: half the watts."""
    cell = replace(raced({"a": 10, "b": 10.001}, at=(64, 128), incumbent="a"), watts=readings(400, 200))
    return published_files(run_of([decided(cell)]), "energy.json", "0030-energy")


def energy_patch(longer):
    """A patch of three cells of one row: each saves energy and takes longer, or is faster too, by large factors."""
    times = ((10, 12), (10, 14), (10, 20)) if longer else ((10, 9), (10, 5), (10, 4))
    cells = (
        replace(raced({"a": old, "b": new}, at=(64, k), incumbent="a"), watts=readings(400, watts))
        for (old, new), k, watts in zip(times, (64, 128, 256), (100, 100, 20), strict=True)
    )
    return published_files(run_of([decided(cell) for cell in cells]), "energy.json", "0030-energy")


@pytest.fixture
def page(browser, files):
    """The plain page, just opened."""
    browser.open(files["plain"])
    return browser


def test_it_opens_without_a_complaint(page):
    assert page.script("return performance.getEntriesByName('ready').length") == 1
    assert page.find("h1").text.startswith("Review of db: ")
    assert page.complaints() == []


def test_hovering_shows_the_old_and_the_new_config(page):
    page.hover(page.cell("change", 0, F1_ANCHOR))
    assert page.panel_configs() == {field: (OLD[field], NEW[field]) for field in OLD}
    assert page.highlighted() == {"BLOCK_M", "num_warps"}
    assert "seqlen_q 64, seqlen_k 64" in page.panel


@pytest.mark.parametrize("kind", ["before", "after"])
def test_hovering_works_in_every_map(page, kind):
    page.hover(page.cell(kind, 0, F1_ANCHOR))
    assert page.panel_configs()["BLOCK_M"] == ("32", "64")
    assert len(page.all(".map td.at")) == 3


def test_tabbing_to_a_changed_cell_shows_both_configs(page):
    page.script("document.getElementById('close').focus()")
    for _ in range(40):
        page.press(Keys.TAB)
        if page.active.get_attribute("role") == "gridcell" and "gfxB" in (grid_name(page) or ""):
            break
    assert page.place == 0
    assert page.panel_configs() == {field: (OLD[field], NEW[field]) for field in OLD}
    assert page.highlighted() == {"BLOCK_M", "num_warps"}
    assert page.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def grid_name(page: Page) -> str | None:
    return page.script("return document.activeElement.closest('[role=grid]')?.getAttribute('aria-label')")


def test_a_screen_reader_hears_the_change(page):
    label = page.cell("change", 0, F1_ANCHOR).get_attribute("aria-label")
    assert label.startswith("seqlen_q 64, seqlen_k 64: changed. BLOCK_M 32 to 64, num_warps 2 to 4. flags: no-evidence")
    unchanged = page.cell("change", 1, F1_ANCHOR).get_attribute("aria-label")
    assert unchanged.startswith("seqlen_q 64, seqlen_k 128: unchanged, BLOCK_M=32")
    assert page.cell("change", 0, F1_ANCHOR).accessible_name == label


def test_gains_of_energy_and_derived_ones_say_so(browser, files):
    browser.open(files["kinds"])
    loss, saving = (browser.cell("change", place, F1_ANCHOR) for place in (0, 1))
    assert (loss.text, saving.text) == ("−50", "+50E")
    assert "loss3" in loss.get_attribute("class") and "grave" in loss.get_attribute("class")
    assert "gain3" in saving.get_attribute("class")
    browser.hover(loss)
    assert re.search(
        r"gain −(49|50)\.\d %, noise \d\.\d %, derived: from samples of both .*/evidence/two\.json", browser.panel
    )
    browser.hover(saving)
    assert re.search(
        r"gain \+(49|50)\.\d % \(less energy\), noise \d\.\d %, by .*/evidence/energy\.json", browser.panel
    )
    assert re.search(r"time [+−]0\.\d % \(within the noise\), noise \d\.\d %, by the same samples", browser.panel)
    key = browser.find("p.key").text
    assert all(words in key for words in ("faster, in percent", "slower", "less energy, in percent", "more energy"))
    assert browser.complaints() == []


def test_energy_that_is_saved_by_slower_configs_is_told_with_the_time(browser, files):
    browser.open(files["energy"])
    assert texts(browser, "change")[:3] == ["+70E", "+65E", "+90E"]
    assert "slower 3" in browser.find("#counts").text
    assert re.search(
        r"energy: \+\d\d\.\d % \(.*\), time −(39|40)\.\d % \(−\d+\.\d … −\d+\.\d\), 3 of 3 cells",
        browser.find("#counts").text,
    )
    middle = browser.cell("change", 1, F1_ANCHOR)
    assert "gain3" in middle.get_attribute("class") and "grave" in middle.get_attribute("class")
    browser.hover(middle)
    for told in (
        r"gain \+6[45]\.\d % \(less energy\), noise \d\.\d %",
        r"time −(39|40)\.\d % \(slower\), noise \d\.\d %, by the same samples",
    ):
        assert re.search(told, browser.panel)
        assert re.search(told, middle.get_attribute("aria-label"))
    assert "evidence says that it is slower by more than the noise" in browser.panel
    assert browser.complaints() == []


def test_marks_of_several_letters_stay_apart_and_clear_of_the_corner(browser, files):
    browser.open(files["back"])
    assert texts(browser, "change")[:3] == ["×4.4E", "×8.0E", "×50E"]
    assert "2.5 times as much time or energy" in browser.find("p.key").text
    assert "more-energy 3" in browser.find("#counts").text
    boxes = browser.script("""return [0, 1, 2].map((place) => {
      const cell = document.querySelector(`.map.change td[data-place="${place}"]`);
      const range = document.createRange();
      range.selectNodeContents(cell);
      const [own, text] = [cell, range].map((item) => item.getBoundingClientRect());
      const corner = parseFloat(getComputedStyle(cell, "::after").borderTopWidth) * 2;
      return [text.left - own.left, own.right - text.right, corner - (text.top - own.top)];
    })""")
    for left, right, under_corner in boxes:
        # The corner is a triangle: at the top of the letters it is as wide as what is left of its height there.
        assert left >= 3
        assert right >= max(3, under_corner)


def test_the_structure_has_landmarks_headings_and_names(page):
    assert page.script("return [...document.querySelectorAll('header, main, aside')].map(n => n.tagName)") == [
        "HEADER",
        "MAIN",
        "ASIDE",
    ]
    levels = page.script("return [...document.querySelectorAll('h1,h2,h3,h4')].map(n => Number(n.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.script("return document.documentElement.lang") == "en"
    assert [node for node in page.all("select, button, summary, [role=grid]") if not node.accessible_name] == []


def test_arrow_keys_move_inside_the_map_and_stop_at_its_edge(page):
    page.cell("change", 0, F1_ANCHOR).click()
    moves = [
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_DOWN, 4),
        (Keys.ARROW_LEFT, 3),
        (Keys.ARROW_LEFT, 3),
        (Keys.ARROW_UP, 0),
        (Keys.ARROW_UP, 0),
        (Keys.END, 2),
        (Keys.HOME, 0),
    ]
    for key, place in moves:
        page.press(key)
        assert page.place == place
    page.press_with_control(Keys.END)
    assert page.place == 8
    page.press_with_control(Keys.HOME)
    assert page.place == 0


def test_each_map_of_changes_is_one_tab_stop(page):
    stops = (
        "return [...document.querySelectorAll('[role=grid]')].map(n => n.querySelectorAll('[tabindex=\"0\"]').length)"
    )
    assert set(page.script(stops)) == {1}
    page.cell("change", 0, F1_ANCHOR).click()
    page.press(Keys.ARROW_RIGHT)
    assert set(page.script(stops)) == {1}
    assert page.active.get_attribute("tabindex") == "0"


def test_next_and_previous_change(page):
    seen = []
    for _ in range(4):
        page.find("#next").click()
        seen.append((grid_name(page), page.place))
    arch_a, arch_b = (next(name for name, _ in seen if arch in name) for arch in ("gfxA", "gfxB"))
    assert seen == [(arch_a, 1), (arch_b, 0), (arch_b, 7), (arch_a, 1)]
    assert page.find("#status").text == "change 1 of 3"
    page.press("p")
    assert (grid_name(page), page.place) == (arch_b, 7)
    page.press("n", "n")
    assert (grid_name(page), page.place) == (arch_b, 0)


def test_a_letter_key_does_nothing_outside_the_maps(page):
    page.script("document.getElementById('open').focus()")
    page.press("n")
    assert page.active.get_attribute("id") == "open"


def shown_functionals(page: Page) -> list[str]:
    return [node.get_attribute("data-anchor") for node in page.all("details.functional") if node.is_displayed()]


def test_filters(page):
    assert shown_functionals(page) == [F2_ANCHOR, F1_ANCHOR]
    page.choose("arch", "gfxB")
    assert shown_functionals(page) == [F1_ANCHOR]
    assert page.find("#status").text == "2 changed cells shown"
    page.choose("flag", "finding")
    assert page.find("#status").text == "1 changed cell shown"
    page.find("#next").click()
    assert page.place == 7
    page.find("#next").click()
    assert page.place == 7
    page.choose("arch", "gfxA")
    assert shown_functionals(page) == []
    page.choose("flag", "")
    page.choose("iface", "attn_fwd")
    assert shown_functionals(page) == [F2_ANCHOR]


def test_sections_close_and_open(page):
    page.find("#close").click()
    assert not page.cell("change", 0, F1_ANCHOR).is_displayed()
    page.find("#open").click()
    assert page.cell("change", 0, F1_ANCHOR).is_displayed()
    page.find("#close").click()
    page.find("#next").click()
    assert page.active.is_displayed()


def texts(page: Page, kind: str) -> list[str]:
    return page.script(
        "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent)",
        f"details[data-anchor='{F1_ANCHOR}'] .map.{kind} td[data-place]",
    )


def test_letters_stand_for_configs_and_colours_can_show_a_field(page):
    assert texts(page, "before") == list("aaaacccbd")
    assert texts(page, "after") == list("caaaccc–d")
    page.choose("paint", "BLOCK_M")
    assert texts(page, "before")[:4] == ["32", "32", "32", "32"]
    assert texts(page, "after")[0] == "64"
    page.choose("paint", "PRE_LOAD_V")
    assert texts(page, "after")[0] == "T"
    page.choose("paint", "")
    assert texts(page, "before")[0] == "a"


def test_marks_do_not_rely_on_colour(page):
    marks = texts(page, "change")
    assert (marks[0], marks[1], marks[7]) == ("≠", "", "≠")
    page.hover(page.cell("change", 7, F1_ANCHOR))
    assert page.panel_configs()["cell"] == ("", "masked")


def test_gain_noise_and_flags(browser, files):
    browser.open(files["measured"])
    assert texts(browser, "change") == ["+12", "−8", "", "≈", "", "≠", "", "", ""]
    browser.hover(browser.cell("change", 1, F1_ANCHOR))
    assert "gain −8.0 %, noise 2.0 %" in browser.panel
    assert "slower" in browser.panel
    browser.hover(browser.cell("change", 5, F1_ANCHOR))
    assert "BLOCK_M = 100 is outside its domain" in browser.panel
    grave = browser.all(".map.change td.grave")
    assert [node.get_attribute("data-place") for node in grave] == ["1", "5"]
    assert browser.complaints() == []


def test_an_anchor_leads_to_its_cell(browser, files):
    browser.open(files["plain"], f"#{F1_ANCHOR}@256,128")
    assert (browser.place, "gfxB" in (grid_name(browser) or "")) == (7, True)
    assert "seqlen_q 256, seqlen_k 128" in browser.panel
    browser.open(files["plain"], f"#{F1_ANCHOR}")
    assert browser.place == 0


def test_the_address_names_the_focused_cell(page):
    page.cell("change", 0, F1_ANCHOR).click()
    page.script("return new Promise(done => setTimeout(done, 500))")
    assert page.chrome.current_url.endswith(f"#{F1_ANCHOR}@64,64")


@pytest.mark.parametrize("anchor", ["#nowhere", "#gfxB/attn_fwd/fp16,0,64@1,1", "#%", "#gfxB/attn_fwd", "#@"])
def test_any_other_anchor_does_no_harm(browser, files, anchor):
    browser.open(files["plain"], anchor)
    assert browser.script("return performance.getEntriesByName('ready').length") == 1
    assert browser.complaints() == []


def test_one_and_four_axes(browser, files):
    browser.open(files["axes"])
    assert [len(node.find_elements("css selector", "figure")) for node in browser.all("details.functional")] == [1, 1]
    assert [node.text for node in browser.all("figcaption")] == [
        "batch 8 · heads 4 · rows: seqlen_q · columns: seqlen_k",
        "columns: seqlen_k",
    ]
    assert "3 slices without a change left out" in browser.find("#tables").text
    browser.hover(browser.cell("change", 23))
    assert browser.panel.startswith("batch 8, heads 4, seqlen_q 128, seqlen_k 256")
    browser.cell("change", 1, "gfxB/flat/fp16,0,64").click()
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_LEFT)
    assert browser.place == 0


def test_hostile_texts_do_nothing(browser, files):
    browser.open(files["hostile"])
    browser.find("#next").click()
    assert browser.complaints() == []
    assert browser.all("img, svg, iframe") == []
    assert len(browser.all("script")) == 2
    assert "<img src=x onerror=alert(1)>" in browser.find("#tables").text


CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (colour, under) => {
  canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (colour, under) => {
  const linear = v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = rgb(colour, under).map(v => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const page = getComputedStyle(document.body).backgroundColor;
const host = document.querySelector(".map td").parentNode;
return Object.fromEntries(arguments[0].map(name => {
  const node = document.createElement("td");
  node.className = name;
  host.append(node);
  const { color, backgroundColor } = getComputedStyle(node);
  const [a, b] = [light(color, page), light(backgroundColor, page)].sort((x, y) => y - x);
  node.remove();
  return [name, (a + 0.05) / (b + 0.05)];
}));
"""
SHADES = [f"s{number}" for number in range(10)]
MARKS = [
    "changed",
    "added",
    "removed",
    "idle",
    "noise",
    *(f"{kind}{n}" for kind in ("gain", "loss") for n in (1, 2, 3)),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_in_a_map_is_readable(browser, files, scheme):
    browser.open(files["plain"], scheme=scheme)
    contrasts = browser.script(CONTRASTS, [*SHADES, *MARKS])
    assert {name: round(value, 1) for name, value in contrasts.items() if value < 4.5} == {}


def test_dark_and_light(browser, files):
    backgrounds = []
    for scheme in ("light", "dark"):
        browser.open(files["plain"], scheme=scheme)
        backgrounds.append(browser.script("return getComputedStyle(document.body).backgroundColor"))
    assert backgrounds == ["rgb(255, 255, 255)", "rgb(20, 24, 28)"]


@pytest.mark.parametrize("size", [(360, 740), (800, 600), (1280, 800), (1920, 1080)])
def test_no_window_makes_the_page_scroll_sideways(browser, files, size):
    for name in ("plain", "measured", "axes", "hostile"):
        browser.open(files[name], size=size)
        browser.find("#next").click()
        assert browser.script("return document.documentElement.scrollWidth - innerWidth") <= 0, name


def test_three_maps_of_ten_by_ten_stand_side_by_side(browser, large_page):
    browser.open(large_page, size=(1280, 900))
    browser.find("#next").click()
    tops = [node.rect["y"] for node in browser.all("details.functional[open] .map")[:3]]
    assert len(set(tops)) == 1


@pytest.fixture(scope="module")
def large_page(tmp_path_factory):
    """A page of 5,000 changed cells in 200 functionals of 10 × 10 bins."""
    folder = tmp_path_factory.mktemp("large")
    bins = [2**power for power in range(4, 14)]
    heads = list(range(8, 1608, 8))
    declared = SCHEMA[: SCHEMA.index("[arch.gfxA]")] + '[arch.gfxB]\ndomain.dtype = ["fp16"]\ndomain.causal = [0]\n'
    schema = declared.replace("[64, 128]", str(heads)).replace("[64, 128, 256]", str(bins))
    rows = [f"{size} {' '.join('abcd'[(size + column) % 4] for column in range(10))}" for size in bins]
    axes = {name: " ".join(map(str, bins)) for name in ("seqlen_q", "seqlen_k")}
    files = {
        "schema/attn_fwd.toml": schema,
        "gfxB/attn_fwd.txtdb": table("gfxB", {f"fp16 0 {head}": rows for head in heads}, axes=axes),
        "gfxA/attn_fwd.txtdb": None,
    }
    root = make_db(folder, files, "old")
    retune(root, folder / "new", 5_000)
    return write_page(folder, root, folder / "new")


def write_page(folder, old, new):
    with open_side(str(old), Path()) as before, open_side(str(new), Path()) as after:
        path = folder / "review.html"
        path.write_text(as_html(build_review(before, after, "db", TODAY)), encoding="utf-8")
    return path


def assert_small_and_quick(browser, path, cells):
    assert path.stat().st_size <= MAX_BYTES
    browser.open(path)
    ready, now = browser.script(
        "document.getElementById('next').click();"
        "return [performance.getEntriesByName('ready')[0].startTime, performance.now()]"
    )
    assert ready <= now <= MAX_MS
    assert browser.find("#status").text == f"change 1 of {cells:,}"
    assert "changed" in browser.panel


def test_5000_edits_are_small_and_quick(browser, large_page):
    assert_small_and_quick(browser, large_page, 5_000)


@pytest.mark.real
def test_5000_edits_of_the_real_database_are_small_and_quick(browser, real_db, tmp_path):
    retune(real_db, tmp_path / "amd", 5_000)
    assert_small_and_quick(browser, write_page(tmp_path, real_db, tmp_path / "amd"), 5_000)
