"""A review as the compact data that the page's script draws from; `page.js` is its only reader."""

from __future__ import annotations

from itertools import groupby
from typing import Any, TypeVar

from txtdb.check.finding import Finding
from txtdb.diff.edits import MASK, Content
from txtdb.faults import Span
from txtdb.model.table import Cells
from txtdb.model.values import Value, print_value
from txtdb.review.records import FLAG_WORDS, GRAVE_FLAGS, Flag, Gain, Review, ReviewedCell, TableReview
from txtdb.review.words import common_changes, heirs_text

COMMON_CHANGES_SHOWN = 6

# Numbers of contents that are no config, and their spelling in a grid.
_MASKED, _NOTHING = -1, -2
_SPELLED = {_MASKED: "-", _NOTHING: "."}

_Item = TypeVar("_Item")


def payload(review: Review) -> dict[str, Any]:
    """Everything that the page draws."""
    return {
        "flags": [[flag, FLAG_WORDS[flag], flag in GRAVE_FLAGS] for flag in Flag],
        "tables": [_TablePayload(table).data() for table in review.tables],
    }


class _TablePayload:
    """One table. Files, lists of heirs and findings stand once; cells name them by number."""

    def __init__(self, table: TableReview) -> None:
        self._table = table
        self._files: dict[str, int] = {}
        self._heirs: dict[tuple[str, ...], int] = {(): 0}
        self._findings: dict[int, tuple[int, Finding]] = {}
        configs = [content for content in table.contents if isinstance(content, tuple)]
        self._configs = configs
        self._numbers: dict[Content, int] = {content: number for number, content in enumerate(configs)}
        self._numbers |= {MASK: _MASKED, None: _NOTHING}

    def data(self) -> dict[str, Any]:
        table = self._table
        fields = list(dict.fromkeys(name for config in self._configs for name, _ in config))
        functionals = [
            [
                [print_value(value) for value in functional.functional],
                self._runs(functional.after),
                [self._cell(cell) for cell in functional.cells],
            ]
            for functional in table.functionals
        ]
        common, more = common_changes(table, COMMON_CHANGES_SHOWN)
        return {
            "arch": table.arch,
            "iface": table.iface,
            "keys": table.schema.key_names,
            "axes": list(zip(table.schema.axis_names, table.bins, strict=True)),
            "fields": fields,
            "configs": [_values(config, fields) for config in self._configs],
            "functionals": functionals,
            "files": list(self._files),
            "heirs": list(self._heirs),
            "findings": [_finding(finding) for _, finding in self._findings.values()],
            "sources": [[source.file, source.cells, source.origin, source.why] for source in table.sources],
            "common": common,
            "more": more,
            "moves": heirs_text(table),
        }

    def _runs(self, cells: Cells) -> str:
        """A grid in the order of its cells: `0*3 5 -*2 .`."""
        numbers = (self._numbers[self._table.contents[cell]] for cell in cells.ravel().tolist())
        runs = ((_SPELLED.get(number, str(number)), len(list(run))) for number, run in groupby(numbers))
        return " ".join(text if length == 1 else f"{text}*{length}" for text, length in runs)

    def _cell(self, cell: ReviewedCell) -> list[Any]:
        """Place in the grid, old content, both spans, flags, heirs, and where there are any: gain and findings.

        A gain is percent, noise, 1 where it is derived plus 2 where it is of energy, the number of its file, and of
        energy percent and noise of time, else 0.
        """
        edit = cell.edit
        place = 0
        for value, bins in zip(edit.bins, self._table.bins, strict=True):
            place = place * len(bins) + bins.index(value)
        bits = sum(1 << number for number, flag in enumerate(Flag) if flag in cell.flags)
        data: list[Any] = [place, self._numbers[edit.old], *self._span(edit.old_span), *self._span(edit.new_span)]
        data += [bits, _number(self._heirs, cell.heirs)]
        if cell.gain or cell.findings:
            data += self._gain(cell.gain) if cell.gain else [None, None, 0, -1, 0]
            data += [self._finding_number(finding) for finding in cell.findings]
        return data

    def _gain(self, gain: Gain) -> list[Any]:
        kind = gain.derived + 2 * gain.energy
        time = [gain.time.gain_pct, gain.time.noise_pct] if gain.time else 0
        return [gain.gain_pct, gain.noise_pct, kind, _number(self._files, gain.file), time]

    def _span(self, span: Span | None) -> tuple[int, int, int]:
        return (_number(self._files, span.file), span.line, span.column) if span else (-1, 0, 0)

    def _finding_number(self, finding: Finding) -> int:
        # By identity: a finding may name thousands of cells, so that comparing or hashing it is slow.
        return self._findings.setdefault(id(finding), (len(self._findings), finding))[0]


def _number(known: dict[_Item, int], item: _Item) -> int:
    """The number of an item, given now if it is new."""
    return known.setdefault(item, len(known))


def _values(config: tuple[tuple[str, Value], ...], fields: list[str]) -> list[Value | None]:
    given = dict(config)
    return [given.get(name) for name in fields]


def _finding(finding: Finding) -> list[str]:
    return [finding.rule, finding.severity, finding.message, str(finding.span)]
