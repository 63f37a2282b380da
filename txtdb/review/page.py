"""A review as one HTML page that needs nothing else: no network, no other file.

The overview is plain markup. Tables and maps are drawn by `templates/page.js` from data in the page. A content
security policy names the page's script and style by digest and forbids everything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Template

from txtdb.check.finding import Finding
from txtdb.diff.edits import EditKind
from txtdb.diff.render import fact_change
from txtdb.faults import Severity
from txtdb.review.markup import Markup, content_policy, element, join
from txtdb.review.payload import payload
from txtdb.review.records import FLAG_WORDS, Review, TableReview
from txtdb.review.words import (
    effective,
    findings_text,
    flag_counts,
    gain_legend,
    gain_text,
    headline,
    heirs_text,
    images_rows,
    images_text,
    kind_counts,
)

# Longer lists are cut, with a line that says so: the page stays small whatever the change.
ROWS_SHOWN = 200
# Losses from here on are told in the maps as a multiple of what the old config needs, as in `page.js`.
TIMES_FROM_PCT = -99.5

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def as_html(review: Review) -> str:
    """The whole page."""
    script, style = _template("page.js"), _template("page.css")
    page = Template(_template("page.html"))
    title = f"Review of {review.root}: {review.old} → {review.new}"
    return page.substitute(
        title=join(title),
        policy=content_policy(script, style),
        style=style,
        script=script,
        headline=join(headline(review)),
        overview=join(*_overview(review)),
        gains=join(*_gain_marks(review)),
        # `<` would let a text end the script element.
        data=json.dumps(payload(review), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
    )


def _gain_marks(review: Review) -> Iterator[Markup]:
    """What the marks of gains in the maps of changes mean; gains of energy have marks of their own."""
    gains = [cell.gain for cell in review.cells if cell.gain]
    energy = {gain.energy for gain in gains}
    marks = [("gain2", "+9", "faster, in percent"), ("loss2", "−9", "slower")] if energy != {True} else []
    if True in energy:
        marks += [("gain2", "+9E", "less energy, in percent"), ("loss2", "−9E", "more energy")]
    if any(gain.gain_pct <= TIMES_FROM_PCT for gain in gains):
        marks += [("loss3", "×2.5", "2.5 times as much time or energy")]
    for kind, mark, words in marks:
        yield element("span", element("i", mark, class_=kind), words)


def _overview(review: Review) -> Iterator[Markup]:
    if review.faults:
        yield _section("faults", "Faults", _faults(review))
    if review.tables:
        legend = gain_legend(effective(review.cells))
        note = [element("p", legend, class_="quiet")] if legend else []
        yield _section("counts", "Tables", join(_counts(review), *note))
    yield _fold("findings", "Checks", findings_text(review), _findings(review), bool(review.new_findings))
    if review.images:
        yield _fold("images", "Kernel images", images_text(review), _images(review), False)
    if review.facts:
        words = f"{len(review.facts):,} differences in schemas, arch facts, pins, evidence and file headers"
        yield _fold("facts", "Outside the cells", words, _facts(review), False)


def _section(name: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title), content, aria_label=title, id=name)


def _fold(name: str, title: str, words: str, content: Markup, is_open: bool) -> Markup:
    """A section of which one line is seen until it is opened; without content, that line alone."""
    line = join(element("h2", title), " ", element("span", words))
    if not content:
        return element("section", element("div", line, class_="fold"), aria_label=title, id=name)
    shown = {"open": ""} if is_open else {}
    return element("details", element("summary", line), content, class_="fold", id=name, **shown)


def _faults(review: Review) -> Markup:
    rows = [(fault.severity, str(fault.span), fault.message, fault.rule) for fault in review.faults]
    text = "These files could not be read whole, so that what follows may lack cells."
    return join(element("p", text, class_="alert"), _table(("severity", "where", "what", "rule"), rows))


def _counts(review: Review) -> Markup:
    head = ("arch", "interface", "functionals", *EditKind, "gain", "flags", "archs that change with it")
    return _table(head, [_counts_row(table) for table in review.tables])


def _counts_row(table: TableReview) -> tuple[str, ...]:
    place = f"{table.arch}/{table.iface}"
    kinds = (f"{count:,}" for count in kind_counts(table.cells).values())
    flags = [
        element("li", f"{flag} {count:,}", title=FLAG_WORDS[flag]) for flag, count in flag_counts(table.cells).items()
    ]
    link = element("a", table.arch, href=f"#{place}")
    gain = gain_text(effective(table.cells))
    return (
        link,
        table.iface,
        f"{len(table.functionals):,}",
        *kinds,
        gain,
        element("ul", *flags, class_="flags"),
        heirs_text(table),
    )


def _images(review: Review) -> Markup:
    text = "Distinct pairs of functional and config that the tables of an arch name: what must be compiled for it."
    return join(element("p", text), _table(("archs", "before → after"), images_rows(review)))


def _findings(review: Review) -> Markup:
    rows = [
        *(_finding_row("new", finding) for finding in review.new_findings),
        *(_finding_row("gone", finding) for finding in review.gone_findings),
    ]
    return _table(("", "severity", "where", "what", "cells", "rule"), rows) if rows else Markup()


def _finding_row(state: str, finding: Finding) -> tuple[str, ...]:
    heirs = f" (inherited by {', '.join(finding.inherited_by)})" if finding.inherited_by else ""
    grave = state == "new" and finding.severity is Severity.ERROR
    shown = element("strong", finding.severity) if grave else finding.severity
    cells = f"{len(finding.cells):,}" if finding.cells else ""
    return state, shown, str(finding.span), f"{finding.message}{heirs}", cells, finding.rule


def _facts(review: Review) -> Markup:
    rows = [(fact.part, fact.file, fact.path, fact_change(fact)) for fact in review.facts]
    return _table(("part", "file", "place", "change"), rows)


def _table(head: Iterable[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table in a box of its own that scrolls sideways where the page is narrow."""
    titles = element("tr", *(element("th", title, scope="col") for title in head))
    shown = rows[:ROWS_SHOWN]
    body = (element("tr", *(element("td", text) for text in row)) for row in shown)
    table = element("table", element("thead", titles), element("tbody", *body), class_="list")
    left_out = len(rows) - len(shown)
    more = [element("p", f"… {left_out:,} more are not shown.")] if left_out else []
    return join(element("div", table, class_="wide"), *more)
