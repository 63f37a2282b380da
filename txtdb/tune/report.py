"""Evidence as one HTML page that needs nothing else: no network, no other file, and no script for what it says.

The page's script joins table rows with lines and filters. A content security policy names script and style by digest
and forbids everything else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from txtdb.evidence.samples import all_acceptable, median
from txtdb.evidence.watts import usable_watts
from txtdb.model.evidence import SOURCES_FACT, CellEvidence, Evidence, Measured, Outcome, Reason, Standing, Status
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import config_text
from txtdb.model.values import print_value, print_values
from txtdb.review.markup import Markup, content_policy, element, join
from txtdb.tune.comparison import (
    change_words,
    changed_fields,
    compared_gain_pct,
    counted,
    found_in,
    found_words,
    is_comparison,
    is_energy,
    sides_of,
)
from txtdb.tune.report_map import gain_maps
from txtdb.tune.report_plot import Lines, race_lines, race_plot
from txtdb.wording import plural

_TEMPLATES = Path(__file__).parent / "templates"
_NS_PER_US = 1e3
_NS_PER_S = 1e9

# What the incumbent of a race is, by whether the run only compared.
_RULES = {
    False: "Where the incumbent ends above the bar, the winner replaces it.",
    True: "The incumbent is what was there before; nothing was replaced.",
}

REASON_WORDS: dict[Reason, str] = {
    Reason.GAIN: "the gain reaches the bar",
    Reason.NO_BASELINE: "there was no incumbent",
    Reason.INCUMBENT_FAILED: "the incumbent is no longer valid",
    Reason.BELOW_BAR: "the gain is below the bar",
    Reason.INCUMBENT_WINS: "the incumbent is the fastest, ties included",
    Reason.NO_CERTIFICATE: "no candidate was proven to be the fastest",
    Reason.COMPARED_ONLY: "before and after were compared only",
    Reason.NO_VALID_CANDIDATE: "no candidate was valid",
    Reason.STOPPED: "the run ended before the cell was done",
}
_ENERGY_REASON_WORDS: dict[Reason, str] = {
    **REASON_WORDS,
    Reason.INCUMBENT_WINS: "the incumbent needs the least energy, ties included",
    Reason.NO_CERTIFICATE: "no candidate was proven to need the least energy",
}

# What the drawings are of, by whether energy decides.
_MEASURES = {
    False: {"measure": "time", "worse": "slower", "beaten": "slower"},
    True: {"measure": "energy", "worse": "more energy", "beaten": "to need more"},
}


def report_page(evidence: Evidence, schema: ArchSchema) -> str:
    """The whole page. `schema` is that of the evidence's interface, on its arch."""
    script, style = _template("report.js"), _template("report.css")
    compares, energy = is_comparison(evidence), is_energy(evidence.cells)
    title = f"{'Comparison' if compares else 'Tuning run'} {evidence.name}: {evidence.iface} on {evidence.arch}"
    cells = [_Cell(number, cell, schema.schema) for number, cell in enumerate(evidence.cells)]
    return Template(_template("report.html")).substitute(
        title=join(title),
        policy=content_policy(script, style),
        style=style,
        script=script,
        headline=join(headline(evidence)),
        run=join(*_run(evidence)),
        maps=gain_maps(evidence.cells, schema.schema),
        overview=_overview(cells, schema.schema, compares, energy),
        races=join(*(cell.section() for cell in cells)),
        rule=_RULES[compares],
        **_MEASURES[energy],
    )


def headline(evidence: Evidence) -> str:
    """One sentence: what became of the cells, and how long was measured."""
    counts = Counter(cell.decision.outcome for cell in evidence.cells)
    outcomes = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in Outcome if counts[outcome])
    planned, total = evidence.planned, sum(cell.decision.total_ns for cell in evidence.cells) / _NS_PER_S
    cells = f"{planned:,} {plural(planned, 'cell')}"
    if is_comparison(evidence):
        words = f"{cells} compared: {counted(evidence.cells)}"
    else:
        by = ", decided by energy" if is_energy(evidence.cells) else ""
        words = f"{cells}{by}: {outcomes or 'none measured'}"
    return f"{words}; {total:,.1f} s of device time in all samples."


@cache
def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _run(evidence: Evidence) -> Iterator[Markup]:
    """What the numbers rest on: contract, device and software open, the rest folded."""
    if not evidence.state.startswith("complete"):
        yield element("p", f"The run is not complete: {evidence.state}.", class_="alert")
    software = {name: value for name, value in evidence.software.items() if name != SOURCES_FACT}
    seen = {"Timing contract": evidence.contract, "Device": evidence.device, "Software": software}
    tables = [_facts(title, members) for title, members in seen.items() if members]
    yield element(
        "section", element("h2", "How it was measured"), element("div", *tables, class_="facts"), aria_label="Measuring"
    )
    policy = _facts("Policy", {**evidence.policy, "seed of the run": evidence.seed})
    words = "Policy and calibration" if evidence.calibration else "Policy; the run was not calibrated"
    more = [policy, *([_facts("Calibration", evidence.calibration)] if evidence.calibration else [])]
    sources = evidence.software.get(SOURCES_FACT)
    more += [_facts("Source of each functional", sources)] if sources else []
    yield element("details", element("summary", words), element("div", *more, class_="facts"))


def _facts(title: str, members: Mapping[str, Any]) -> Markup:
    rows = (element("tr", element("th", name, scope="row"), element("td", text)) for name, text in _flat(members, ""))
    return element("table", element("caption", title), element("tbody", *rows))


def _flat(members: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """Members of nested objects as `outer.inner`."""
    for name, value in members.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, _plain_text(value)


def _plain_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain_text, value))
    return "–" if value is None or value == {} else str(value)


def _overview(cells: Sequence[_Cell], schema: Schema, compares: bool, energy: bool) -> Markup:
    """One row a cell. What all cells share stands above, and a figure that none has is left out."""
    figures = ("found" if compares else "outcome", "less energy" if energy else "gain")
    titles = ("", *schema.key_names, *schema.axis_names, *figures, "bar", "floor", "candidates", "from → to")
    rows = [cell.overview_cells() for cell in cells]
    columns = list(zip(*rows, strict=True)) or [()] * len(titles)
    keys = range(1, 1 + len(schema.key_names) + len(schema.axis_names))
    shared = [place for place in keys if len(cells) > 1 and len(set(columns[place])) == 1]
    shown = [place for place, column in enumerate(columns) if place not in shared and any(column)]
    same = " ".join(f"{titles[place]}={columns[place][0]}" for place in shared)
    head = element("tr", *(element("th", titles[place], scope="col") for place in shown))
    body = element(
        "tbody", *(cell.overview_row([row[p] for p in shown]) for cell, row in zip(cells, rows, strict=True))
    )
    caption = [element("caption", f"All cells have {same}.")] if same else []
    table = element("table", *caption, element("thead", head), body, id="overview")
    return element("div", table, class_="wide", tabindex="0", role="region", aria_label="All cells")


class _Cell:
    """One cell: its row of the overview, and its section."""

    def __init__(self, number: int, cell: CellEvidence, schema: Schema) -> None:
        self._number, self._cell, self._schema = number, cell, schema
        self._measured, self._decision = cell.measured, cell.decision

    def overview_cells(self) -> list[Markup | str]:
        """What its row can show."""
        measured, decision = self._measured, self._decision
        link = element("a", f"{self._number + 1}", href=f"#c{self._number}", aria_label=f"cell {self._number + 1}")
        texts = [*map(print_value, (*measured.functional, *measured.at))]
        figures = (self._figure_of_gain(), percent(decision.bar_pct), percent(decision.floor_pct))
        return [link, *texts, self._chip(), *figures, f"{len(measured.entrants):,}", self._change()]

    @property
    def _found(self) -> str:
        """What became of the cell: an outcome, or how its new config does in a comparison."""
        return self._decision.outcome if self._measured.publish else found_words(self._cell)

    def _chip(self) -> Markup:
        kind = self._decision.outcome if self._measured.publish else found_in(self._cell)
        return element("span", self._found, class_=f"chip {kind}")

    def _figure_of_gain(self) -> str:
        """The gain; that of a comparison with its sign, for it may be a loss."""
        if self._measured.publish:
            return percent(self._decision.gain_pct)
        gain = compared_gain_pct(self._cell)
        return f"{'+' if gain and gain > 0 else ''}{percent(gain)}"

    def overview_row(self, shown: Sequence[Markup | str]) -> Markup:
        """Its row, of what is shown of all cells."""
        return element("tr", *(element("td", item) for item in shown), data_outcome=self._found)

    def section(self) -> Markup:
        """The race of the cell: what was decided, the drawing, and its numbers as a table."""
        name = f"c{self._number}"
        lines = race_lines(self._cell)
        return element(
            "section",
            element("h3", f"{self._number + 1}. {self._title()} ", self._chip(), id=f"{name}-title"),
            element("p", self.words()),
            self._figure(lines),
            self._details(),
            class_="cell",
            id=name,
            aria_labelledby=f"{name}-title",
            data_outcome=self._found,
        )

    def _title(self) -> str:
        axes = ", ".join(
            f"{name} {value}" for name, value in zip(self._schema.axis_names, self._measured.at, strict=True)
        )
        return f"[{print_values(self._measured.functional)}] {axes}"

    def words(self) -> str:
        """The decision in words, with its numbers."""
        decision, measured = self._decision, self._measured
        reasons = _ENERGY_REASON_WORDS if measured.watts else REASON_WORDS
        parts = [f"{self._found}: {reasons[decision.reason]}"]
        if not measured.publish and compared_gain_pct(self._cell) is not None:
            noise = f"bar {percent(decision.bar_pct)}, noise floor {percent(decision.floor_pct)}"
            parts.append(f"the new config: {change_words(self._cell)}, {noise}")
        elif decision.gain_pct is not None:
            bar, floor = percent(decision.bar_pct), percent(decision.floor_pct)
            parts.append(f"{self._gain_words(decision.gain_pct)}, bar {bar}, noise floor {floor}")
        if decision.winner is not None:
            proof = "proven to be within delta of the best" if decision.certified else "without certificate"
            parts.append(f"winner {self._config(decision.winner)} ({proof})")
        if decision.incumbent is not None:
            parts.append(f"incumbent {self._config(decision.incumbent)}, from {measured.incumbent_layer}")
        if measured.dropped:
            parts.append(f"{measured.dropped:,} throttled {plural(measured.dropped, 'sample')} dropped")
        return "; ".join(parts) + "."

    def _gain_words(self, gain_pct: float) -> str:
        if not self._measured.watts:
            return f"gain {percent(gain_pct)}"
        return f"{percent(abs(gain_pct))} {'more' if gain_pct < 0 else 'less'} energy"

    def _change(self) -> str:
        """The fields in which the winner differs from the incumbent, or the new config of a comparison from the old."""
        decision, entrants = self._decision, self._measured.entrants
        if not self._measured.publish:
            sides = sides_of(self._cell)
            return changed_fields(self._schema, sides.old.config, sides.new.config)
        if decision.winner is None or decision.winner == decision.incumbent:
            return ""
        new = entrants[decision.winner].config
        if decision.incumbent is None:
            return f"new: {config_text(self._schema, new)}"
        return changed_fields(self._schema, entrants[decision.incumbent].config, new)

    def _config(self, entrant: int) -> str:
        return config_text(self._schema, self._measured.entrants[entrant].config)

    def _figure(self, lines: Lines | None) -> Markup:
        if lines is None:
            return element("p", "There is no block with a valid time.", class_="quiet")
        count = len(lines.points)
        many = f"{count} {plural(count, 'candidate')} over {lines.blocks} {plural(lines.blocks, 'block')}"
        plot = race_plot(self._cell, lines, f"Race of {self._title()}", f"{many}. {self.words()}")
        hint = "Point at a line, or move through the rows below, to see its candidate."
        return element("figure", plot, element("figcaption", hint))

    def _details(self) -> Markup:
        count = len(self._measured.entrants)
        table = _Runs(self._cell, self._schema).table(f"Candidates of cell {self._number + 1}")
        return element("details", element("summary", f"{count:,} {plural(count, 'candidate')} in numbers"), table)


class _Runs:
    """The table of a cell's candidates. Fields in which all agree stand above it."""

    def __init__(self, cell: CellEvidence, schema: Schema) -> None:
        self._measured, self._decision, self._schema = cell.measured, cell.decision, schema
        self._standing = {one.entrant: one for one in cell.decision.standings}
        self._times = _block_times(cell.measured)
        columns = list(zip(*(entrant.config for entrant in self._measured.entrants), strict=True))
        self._common = [place for place, column in enumerate(columns) if len(set(map(repr, column))) == 1]
        self._varying = [place for place in range(len(columns)) if place not in self._common]

    def table(self, label: str) -> Markup:
        names = [self._schema.field_names[place] for place in self._varying]
        depth = ["alone µs"] if self._measured.depth else []
        watts = ["W"] if self._measured.watts else []
        head = ("", *names, "result", "ratio", "±", "blocks", "median µs", *depth, *watts, "error")
        titles = element("tr", *(element("th", name, scope="col") for name in head))
        rows = [self._row(place, entrant) for place, entrant in enumerate(self._order(), 1)]
        parts = (element("caption", self._caption()), element("thead", titles), element("tbody", *rows))
        return element(
            "div", element("table", *parts, class_="runs"), class_="wide", tabindex="0", role="region", aria_label=label
        )

    def _caption(self) -> str:
        entrants = self._measured.entrants
        what = "energy, time × watts," if self._measured.watts else "time"
        told = f"Ratio: {what} over the winner's; ±: its standard error."
        if len(entrants) < 2 or not self._common:
            return told
        config = entrants[0].config
        same = " ".join(f"{self._schema.field_names[place]}={print_value(config[place])}" for place in self._common)
        return f"{told} All have {same}."

    def _order(self) -> list[int]:
        """The winner, then by ratio, then those without one."""

        def rank(entrant: int) -> tuple[bool, float, bool, int]:
            standing = self._standing.get(entrant)
            slower = standing.slower if standing and not math.isnan(standing.slower) else math.inf
            valid = self._measured.entrants[entrant].status is Status.OK
            return (entrant != self._decision.winner, slower, not valid, entrant)

        return sorted(range(len(self._measured.entrants)), key=rank)

    def _row(self, place: int, number: int) -> Markup:
        entrant, standing = self._measured.entrants[number], self._standing.get(number)
        values = [print_value(entrant.config[field]) for field in self._varying]
        ratio, spread = _standing_texts(standing, number == self._decision.winner)
        times = self._times.get(number, ())
        depth = [_microseconds(self._measured.depth[number])] if self._measured.depth else []
        readings = self._measured.watts
        watts = [_figure(reading.watts if (reading := readings[number]) else None, "{:.0f}")] if readings else []
        time, error = _microseconds(times), _figure(entrant.error, "{:.2g}")
        texts = (*values, self._result(number), ratio, spread, f"{len(times)}", time, *depth, *watts, error)
        cells = (element("th", str(place), scope="row"), *(element("td", text) for text in texts))
        kind = {self._decision.winner: "w"}.get(number) or {self._decision.incumbent: "i"}.get(number)
        return element("tr", *cells, data_e=str(number), **({"class_": kind} if kind else {}))

    def _result(self, number: int) -> str:
        entrant, standing = self._measured.entrants[number], self._standing.get(number)
        decision = self._decision
        roles = {"winner": decision.winner, "incumbent": decision.incumbent}
        words = [word for word, one in roles.items() if one == number]
        if entrant.status is not Status.OK:
            words.append(f"{entrant.status}: {entrant.detail}" if entrant.detail else str(entrant.status))
        elif standing is not None and standing.eliminated is not None:
            words.append(f"left after block {standing.eliminated + 1}")
        elif not words and standing:
            words.append("to the end")
        elif self._measured.watts and number not in usable_watts(self._measured):
            words.append(entrant.detail or "without a usable reading of watts")
        elif not words:
            words.append("–")
        return ", ".join(words)


def _block_times(measured: Measured) -> dict[int, list[float]]:
    """Entrant → the medians of its calls in its blocks, nanoseconds."""
    found: dict[int, list[float]] = {}
    for block in measured.blocks:
        for entrant, times in zip(block.order, block.times, strict=True):
            if all_acceptable(times):
                found.setdefault(entrant, []).append(median(times))
    return found


def _standing_texts(standing: Standing | None, wins: bool) -> tuple[str, str]:
    """Ratio to the winner and its standard error."""
    if wins or standing is None:
        return "1" if wins else "", ""
    return _figure(_exp(standing.slower), "{:.4f}×"), _figure(100 * standing.spread, "{:.2f}\u00a0%")


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _microseconds(times: Sequence[float]) -> str:
    return _figure(median(times) / _NS_PER_US, "{:,.2f}") if all_acceptable(times) else ""


def _figure(value: float | None, form: str) -> str:
    return form.format(value) if value is not None and math.isfinite(value) else ""


def percent(value: float | None) -> str:
    """A percentage for people; empty where there is none."""
    return _figure(value, "{:.2f}\u00a0%").replace("-", "−")
