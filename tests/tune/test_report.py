"""The report of a run: one page, self-contained, escaped, small, and usable by keyboard."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.evidence.cells import readings
from tests.evidence.made import by_hand, config, decided, raced, run_of, schema, unraced, wide_palette
from tests.review.browser import Page, open_page
from tests.review.hostile import HOSTILE, MARKS
from tests.review.test_page import Reader
from txtdb.model.evidence import Block, CellEvidence, Entrant, Evidence, Measured, Status
from txtdb.model.schema import ArchSchema
from txtdb.tune.comparison import Found, change_words, counted, found_in, is_worse
from txtdb.tune.report import headline, report_page
from txtdb.tune.report_map import gain_maps
from txtdb.tune.report_plot import MAX_POINTS, _apart, block_values, race_lines

MAX_BYTES = 5_000_000


def arch_schema() -> ArchSchema:
    found = schema().for_arch("gfxB")
    assert found is not None
    return found


@cache
def the_run() -> Evidence:
    return run_of(
        [
            decided(raced({"a": 20, "b": 10, "c": 10.3, "d": 12}, incumbent="a")),
            decided(raced({"a": 10, "b": 10.5}, at=(64, 128), incumbent="a")),
            decided(raced({"d": 10}, at=(128, 256), failing={"d": Status.CRASH})),
        ]
    )


@cache
def the_page() -> str:
    return report_page(the_run(), arch_schema())


def sections(page: str) -> list[str]:
    return re.findall(r'<section class="cell".*?</section>', page, re.DOTALL)


def rows(section: str) -> list[list[str]]:
    """The texts of a table of candidates."""
    body = section[section.index("<tbody>") :]
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in found]


def test_nothing_is_fetched_and_every_element_is_closed() -> None:
    reader = Reader(the_page())
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "ping", "onload", "style"}
    assert [tag for tag, given in reader.elements if loading & set(given)] == []
    assert all((given["href"] or "").startswith("#") for _, given in reader.elements if "href" in given)
    assert {tag for tag, _ in reader.elements} & {"link", "iframe", "object", "embed", "img", "base", "form"} == set()
    assert "url(" not in the_page()
    assert "http" not in the_page().replace("http-equiv", "")


def test_the_policy_names_the_script_and_the_style_and_nothing_else() -> None:
    reader = Reader(the_page())
    (policy,) = (given["content"] for _, given in reader.elements if given.get("http-equiv"))
    digests = {tag: b64encode(sha256(text.encode()).digest()).decode() for tag, _, text in reader.raw}
    script, style = digests["script"], digests["style"]
    assert policy is not None
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}';")


def test_links_lead_to_cells() -> None:
    reader = Reader(the_page())
    ids = {given["id"] for _, given in reader.elements if "id" in given}
    targets = {(given["href"] or "")[1:] for tag, given in reader.elements if tag == "a"}
    assert targets <= ids
    assert {"c0", "c1", "c2"} <= targets


def test_the_headline_counts_outcomes() -> None:
    assert headline(the_run()).startswith("3 cells: 1 published, 1 retained, 1 failed; 0.0 s of device time")


def test_a_map_shows_the_gains_where_they_are() -> None:
    """The largest gain is the darkest; what is kept, failed or not there has no shade."""
    (drawn,) = re.findall(r'<div class="maps">(.*?)</section>', the_page(), re.DOTALL)
    assert re.findall(r'scope="(?:col|row)">(.*?)<', drawn) == ["64", "128", "256", "64", "128"]
    gain = the_run().cells[0].decision.gain_pct
    assert gain is not None
    found = re.findall(r'<td(?: class="shade(\d)")?>(?:<a href="#(c\d)"[^>]*>(.*?)</a>)?</td>', drawn)
    corner, *cells = found
    assert corner == ("", "", "")
    assert cells == [
        ("5", "c0", f"{gain:.1f}"), ("0", "c1", "kept"), ("", "", ""),
        ("", "", ""), ("", "", ""), ("0", "c2", "failed"),
    ]  # fmt: skip


@cache
def the_comparison() -> Evidence:
    """Four cells: what is there now is faster, slower than the bar, a little slower, and not valid."""
    cells = [
        raced({"a": 20, "b": 10}, incumbent="a", noise=1e-5),
        raced({"a": 10, "b": 11}, at=(64, 128), incumbent="a", noise=1e-5),
        raced({"a": 10, "b": 10.2}, at=(128, 128), incumbent="a", noise=1e-5),
        raced({"a": 10, "b": 10}, at=(128, 256), incumbent="a", failing={"b": Status.WRONG_RESULT}),
    ]
    return run_of([decided(replace(cell, publish=False)) for cell in cells])


def test_a_comparison_tells_what_is_faster_and_what_is_slower() -> None:
    page = report_page(the_comparison(), arch_schema())
    told = headline(the_comparison())
    assert told.startswith("4 cells compared: 1 faster, 2 slower (1 by the bar or more), 1 broken; ")
    assert "<h1>Comparison " in page
    assert "nothing was replaced" in page and "the winner replaces it" not in page
    overview = page[page.index('id="overview"') : page.index("</table>", page.index('id="overview"'))]
    found = re.findall(r'class="chip (\w+)">\1<', overview)
    assert found == ["faster", "slower", "slower", "broken"]
    assert re.findall(r"<td>([+−][\d.]+)\u00a0%</td>", overview) == ["+50.00", "−10.00", "−2.00"]
    assert overview.count("BLOCK_M 32→64 num_warps 2→4") == 4
    assert "slower: before and after were compared only; the new config: 10.0 % slower, bar 3.00\u00a0%" in page


def test_the_map_of_a_comparison_has_signs_and_frames_losses() -> None:
    (drawn,) = re.findall(r'<div class="maps">(.*?)</section>', report_page(the_comparison(), arch_schema()), re.DOTALL)
    found = re.findall(r'<td class="(\w+)"><a href="#(c\d)"[^>]*>(.*?)</a></td>', drawn)
    assert found[:3] == [("shade5", "c0", "+50.0"), ("loss", "c1", "−10.0"), ("loss", "c2", "−2.0")]
    assert found[3:] == [("shade0", "c3", "broken")]


def test_every_map_says_that_more_is_faster() -> None:
    pages = [report_page(run, arch_schema()) for run in (the_run(), the_comparison())]
    legends = [re.findall(r"<p class=\"quiet\">(Gains in percent.*?)</p>", page) for page in pages]
    assert [len(found) for found in legends] == [1, 1]
    assert legends[0][0].startswith("Gains in percent (faster than before)")
    assert legends[1][0].startswith("Gains in percent: + is faster than before, − slower;")


def test_a_comparison_of_energy_says_energy() -> None:
    cells = [raced({"a": 20, "b": 10}, incumbent="a"), raced({"a": 10, "b": 11}, at=(64, 128), incumbent="a")]
    weighed = [decided(replace(cell, publish=False, watts=readings(400, 400))) for cell in cells]
    assert counted(weighed) == "1 with less energy, 1 with more energy (1 by the bar or more)"
    assert [change_words(cell)[-6:] for cell in weighed] == ["energy"] * 2


def weighed_run(publish: bool) -> Evidence:
    """A cell with less energy, and one with more or one that keeps what it has."""
    sides = {(64, 64): {"a": 20, "b": 10}, (64, 128): {"a": 10, "b": 11}}
    cells = [raced(times, at=at, incumbent="a", noise=1e-5) for at, times in sides.items()]
    return run_of([decided(replace(cell, publish=publish, watts=readings(400, 400))) for cell in cells])


def test_a_run_that_energy_decides_says_energy() -> None:
    page = report_page(weighed_run(publish=True), arch_schema())
    assert headline(weighed_run(publish=True)).startswith("2 cells, decided by energy: 1 published, 1 retained; ")
    _, titles = overview(page)
    assert "less energy" in titles and "gain" not in titles
    assert "published: the gain reaches the bar; 50.0" in page and "\u00a0% less energy, bar" in page
    assert "the incumbent needs the least energy" in page
    assert "Gains in percent (less energy than before)" in page
    assert "Upwards is more energy." in page
    told = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    assert re.findall(r".{20}(?:faster|slower|fastest).{20}", told) == []


def test_a_comparison_by_energy_says_energy() -> None:
    page = report_page(weighed_run(publish=False), arch_schema())
    assert re.findall(r'class="chip (\w+)">(.*?)<', page)[:2] == [("faster", "less energy"), ("slower", "more energy")]
    assert "Gains in percent: + is less energy than before, − more;" in page
    assert "the new config: 10.0 % more energy" in page


def test_where_neither_config_is_valid_nothing_is_worse() -> None:
    failing = {"a": Status.CRASH, "b": Status.CRASH}
    cell = decided(replace(raced({"a": 10, "b": 10}, incumbent="a", failing=failing), publish=False))
    assert (found_in(cell), is_worse(cell)) == (Found.FAILED, False)


def test_maps_tell_functionals_apart_by_the_keys_in_which_they_differ() -> None:
    cell = raced({"a": 20, "b": 10}, incumbent="a")
    first, *same = cell.functional
    cells = [decided(replace(cell, functional=(one, *same))) for one in (first, "other")]
    drawn = gain_maps(cells, schema())
    name = schema().key_names[0]
    assert re.findall(r"<caption>(.*?)</caption>", drawn) == [f"{name}={first}", f"{name}=other"]


def test_there_is_no_map_without_gains_or_without_two_axes() -> None:
    kept = [decided(raced({"a": 10, "b": 10.5}, incumbent="a"))]
    assert gain_maps(kept, schema()) == ""
    gains = [decided(raced({"a": 20, "b": 10}, incumbent="a"))]
    assert gain_maps(gains, schema()) != ""
    assert gain_maps(gains, replace(schema(), axes=schema().axes[:1])) == ""
    assert gain_maps([], schema()) == ""


def test_a_decision_is_told_with_gain_bar_and_floor() -> None:
    decision = the_run().cells[0].decision
    assert decision.gain_pct is not None
    assert decision.floor_pct is not None
    words = f"gain {decision.gain_pct:.2f}\u00a0%, bar 3.00\u00a0%, noise floor {decision.floor_pct:.2f}\u00a0%"
    assert words in sections(the_page())[0]
    assert "BLOCK_M 32→64 num_warps 2→4" in the_page()


def test_the_contract_device_software_and_policy_are_there() -> None:
    assert '<th scope="row">clocks_mhz.sm</th><td>1700, 1980</td>' in the_page()
    assert '<th scope="row">power_cap_w</th><td>700.0</td>' in the_page()
    assert '<th scope="row">promotion.min_improvement_pct</th><td>3.0</td>' in the_page()
    assert "the run was not calibrated" in the_page()
    calibrated = report_page(replace(the_run(), calibration={"bar_pct": 4.2}), arch_schema())
    assert '<th scope="row">bar_pct</th><td>4.2</td>' in calibrated


def test_a_partial_run_says_so() -> None:
    assert "not complete: partial 3/4" in report_page(replace(the_run(), planned=4), arch_schema())
    assert "not complete" not in the_page()


def test_a_line_ends_where_its_candidate_left() -> None:
    cell = the_run().cells[0]
    lines = race_lines(cell)
    assert lines is not None
    assert (lines.reference, lines.blocks) == (1, len(cell.measured.blocks))
    gone = {one.entrant: one.eliminated for one in cell.decision.standings if one.eliminated is not None}
    assert 3 in gone
    assert {entrant: line[-1][0] for entrant, line in lines.points.items()} == {
        entrant: gone.get(entrant, lines.blocks - 1) for entrant in range(4)
    }
    assert all(ratio == 1 for _, ratio in lines.points[1])


def test_a_line_is_the_geometric_mean_of_ratios_so_far() -> None:
    """Two blocks of one call: 2 and 8 times the winner's time give 2 and 4."""
    cell = unraced()
    blocks = tuple(Block((0, 1), ((10.0,), (10.0 * slower,))) for slower in (2, 8))
    measured = replace(cell, entrants=(*cell.entrants, *unraced("a").entrants), blocks=blocks)
    lines = race_lines(by_hand(measured, 0))
    assert lines is not None
    assert lines.points[1] == ((0, pytest.approx(2)), (1, pytest.approx(4)))


def test_energy_is_compared_where_it_decides() -> None:
    cell = unraced()
    blocks = (Block((0, 1), ((10.0,), (20.0,))),)
    measured = replace(
        cell, entrants=(*cell.entrants, *unraced("a").entrants), blocks=blocks, watts=readings(300.0, 100.0)
    )
    made = by_hand(measured, 0)
    lines = race_lines(made)
    assert lines is not None
    assert lines.points[1] == ((0, pytest.approx(2 / 3)),)
    assert "of its energy over" in report_page(run_of([made]), arch_schema())


def test_watts_of_a_small_device_are_watts() -> None:
    """Half a watt is power, though half a nanosecond is no time; zero is neither."""
    cell = unraced()
    blocks = (Block((0, 1), ((10.0,), (20.0,))),)
    measured = replace(cell, entrants=(*cell.entrants, *unraced("a").entrants), blocks=blocks, watts=readings(0.5, 0.0))
    assert block_values(measured, 0) == {0: 5.0}


def test_the_drawing_marks_winner_incumbent_and_bar() -> None:
    first, second, _ = sections(the_page())
    classes = re.findall(r'<path d="[^"]*" class="(\w+)" data-e="(\d)"', first)
    assert set(classes) == {("w", "1"), ("i", "0"), ("s", "2"), ("g", "3")}
    assert classes[-1] == ("w", "1")
    assert re.findall(r'class="(\w+)word">([^<]*)<', first) == [
        ("w", "winner"),
        ("bar", "bar 3.0 %"),
        ("i", "incumbent"),
    ]
    assert 'class="wword">incumbent wins<' in second


def test_the_drawing_has_words_for_those_who_do_not_see_it() -> None:
    first = sections(the_page())[0]
    assert 'role="img"' in first
    assert "<title>Race of [fp16 0 64] seqlen_q 64, seqlen_k 64</title>" in first
    assert "<desc>4 candidates over" in first


def test_the_table_has_the_numbers_of_the_drawing() -> None:
    cell = the_run().cells[0]
    lines = race_lines(cell)
    found = rows(sections(the_page())[0])
    assert lines is not None
    assert [row[5] for row in found] == [
        "winner",
        "to the end",
        f"left after block {lines.points[3][-1][0] + 1}",
        "incumbent",
    ]
    assert found[0][6] == "1"
    ratios = [float(row[6].rstrip("×")) for row in found[1:]]
    assert ratios == pytest.approx([lines.points[entrant][-1][1] for entrant in (2, 3, 0)], rel=0.01)
    assert [row[8] for row in found] == [str(len(lines.points[entrant])) for entrant in (1, 2, 3, 0)]


def test_fields_in_which_all_agree_stand_above_the_table() -> None:
    first = sections(the_page())[0]
    assert "All have waves_per_eu=0." in first
    assert 'scope="col">waves_per_eu<' not in first
    assert 'scope="col">BLOCK_M<' in first


def test_a_cell_without_a_valid_candidate_has_no_drawing() -> None:
    last = sections(the_page())[2]
    assert "<svg" not in last
    assert "no candidate was valid" in last
    assert rows(last)[0][1] == "crash: did not run"


def test_texts_are_escaped() -> None:
    cell = unraced()
    bad = Entrant(config("a"), Status.COMPILE_ERROR, HOSTILE + MARKS)
    measured = replace(cell, entrants=(*cell.entrants, bad), incumbent_layer=HOSTILE)
    run = run_of([by_hand(measured, 0)], name=HOSTILE, device={HOSTILE: HOSTILE, "deep": {"$title": MARKS}})
    page = report_page(run, arch_schema())
    assert HOSTILE not in page
    assert page.count(escape(HOSTILE)) >= 4
    assert {tag for tag, _ in Reader(page).elements} & {"img"} == set()


def test_times_that_are_none_do_not_break_it() -> None:
    cell = unraced()
    times = ((math.nan,), (0.0,), ())
    entrants = (*cell.entrants, *unraced("a").entrants, *unraced("c").entrants)
    measured = replace(
        cell, entrants=entrants, blocks=(Block((0, 1, 2), times),), depth=times, watts=readings(None, 1.0, 0.0)
    )
    page = report_page(run_of([decided(measured)]), arch_schema())
    assert "There is no block with a valid time." in page


def crowd(at: tuple[int, int], blocks: int, names: list[Entrant]) -> CellEvidence:
    """As many candidates as there may be, none of which leaves: the largest page."""
    order = tuple(range(len(names)))
    times = tuple(
        tuple((1000.0 + 7 * entrant + (entrant * 31 + number * 17) % 97,) for entrant in order)
        for number in range(blocks)
    )
    made = tuple(Block(order, rows) for rows in times)
    return by_hand(Measured((*unraced().functional,), at, "race", tuple(names), 5, "default", (), (), made), 0)


def test_a_large_page_is_small_enough() -> None:
    """40 cells of 200 candidates, all of which stay to the end of 100 blocks."""
    palette = wide_palette(200)
    names = [Entrant(config(name, palette), Status.OK, error=0.1234) for name in palette]
    run = run_of([crowd((64, 64 + place), 100, names) for place in range(40)])
    page = report_page(run, arch_schema())
    assert len(page.encode()) < MAX_BYTES
    assert len(re.findall(r'data-e="\d', page)) == 2 * 40 * 200
    longest = max(re.findall(r'<path d="([^"]*)"', page), key=len)
    assert longest.count("l") + longest.count("h") <= MAX_POINTS


def test_labels_are_apart_and_not_above_the_drawing() -> None:
    assert _apart([400, 120, 118, 32]) == [400, 120, 94, 32]
    assert _apart([40, 35, 32]) == [74, 48, 22]
    assert _apart([]) == []


# in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    path = tmp_path / "report.html"
    path.write_text(the_page(), encoding="utf-8")
    browser.open(path)
    return browser


def test_it_opens_without_a_complaint(page: Page) -> None:
    assert page.find("h1").text == "Tuning run run: attn_fwd on gfxB"
    assert page.complaints() == []


def test_the_filter_shows_one_outcome(page: Page) -> None:
    assert page.find("#shown").text == "3 of 3 cells"
    page.choose("outcome", "retained")
    assert page.find("#shown").text == "1 of 3 cells"
    assert [node.get_attribute("id") for node in page.all(".cell") if node.is_displayed()] == ["c1"]


def test_rows_are_reached_by_keyboard_and_light_their_lines(page: Page) -> None:
    page.find("#c0 details summary").click()
    page.script("document.querySelector('#c0 .runs tbody tr').focus()")
    assert page.active.get_attribute("data-e") == "1"
    page.press(Keys.ARROW_DOWN)
    assert page.active.get_attribute("data-e") == "2"
    assert len(page.all("#c0 path.hot")) == 1
    assert "BLOCK_M 64 · PRE_LOAD_V false" in page.find("#c0 figcaption").text
    page.press(Keys.END, Keys.ARROW_DOWN)
    assert page.active.get_attribute("data-e") == "0"
    page.press(Keys.TAB)
    assert page.all("path.hot") == []
    assert page.find("#c0 figcaption").text.startswith("Point at a line")


def test_pointing_at_a_line_tells_its_candidate(page: Page) -> None:
    page.hover(page.find("#c0 svg.race path.w"))
    assert "result winner" in page.find("#c0 figcaption").text


def test_labels_of_a_drawing_lie_inside_it(page: Page) -> None:
    outside = page.script(
        "return [...document.querySelectorAll('svg.race')].flatMap(svg => [...svg.querySelectorAll('text')]"
        ".filter(text => { const box = text.getBBox(), view = svg.viewBox.baseVal;"
        " return box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height; })"
        ".map(text => text.textContent))"
    )
    assert len(page.all("svg.race text.wword")) == 2
    assert outside == []


@pytest.mark.parametrize("size", [(1400, 900), (380, 700)])
def test_nothing_is_wider_than_the_window(page: Page, tmp_path: Path, size: tuple[int, int]) -> None:
    page.open(tmp_path / "report.html", size=size)
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")


def overview(page: str) -> tuple[str, list[str]]:
    """Caption and column titles of the table of all cells."""
    table = page[page.index('id="overview"') :]
    caption = re.search(r"<caption>(.*?)</caption>", table[: table.index("</table>")])
    return caption[1] if caption else "", re.findall(r'<th scope="col">(.*?)</th>', table[: table.index("</thead>")])


def test_what_all_cells_share_stands_above_their_table() -> None:
    caption, titles = overview(the_page())
    schema_ = arch_schema().schema
    assert all(f"{name}=" in caption for name in schema_.key_names)
    assert not set(schema_.key_names) & set(titles)
    assert set(schema_.axis_names) <= set(titles)
    assert "gain" in titles


def test_a_figure_that_no_cell_has_has_no_column() -> None:
    alone = run_of([decided(raced({"a": 20, "b": 10})), decided(raced({"a": 10, "b": 12}, at=(64, 128)))])
    _, titles = overview(report_page(alone, arch_schema()))
    assert not {"gain", "bar", "floor"} & set(titles)
    assert "candidates" in titles


def test_one_cell_shows_all_of_its_keys() -> None:
    caption, titles = overview(report_page(run_of([decided(raced({"a": 20, "b": 10}, incumbent="a"))]), arch_schema()))
    assert caption == ""
    assert set(arch_schema().schema.key_names) <= set(titles)
