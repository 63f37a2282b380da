"""The tree of one file, as written: records that keep their line and their text.

Columns are computed from the text only when somebody asks, so that a file of half a million cells costs a
few thousand small records and still points at every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from txtdb.faults import Span

TRANSPARENT = "."
MASK = "-"

_WORD = re.compile(r"[^ \[\]=]+")
_DIRECTIVE_WORD = re.compile(r"[^ ]+")


@dataclass(frozen=True, slots=True)
class Line:
    """One written line: its number, its text without line end, and its comments.

    `leading` are the comments in front of it. `trailing` are those behind it, of the last line of a section (the
    header, the palette, a block): directly below, and parted by a blank line from the next section.
    """

    line: int
    text: str
    leading: tuple[str, ...] = ()
    trailing: tuple[str, ...] = ()

    @property
    def _word(self) -> re.Pattern[str]:
        return _WORD

    def words(self) -> list[str]:
        """The words of the line; of an entry or a block without its equals sign or brackets."""
        return self._word.findall(self.text)

    def span(self, file: str) -> Span:
        """The whole line."""
        return Span(file, self.line, 1, self.line, max(1, len(self.text)))

    def word_spans(self, file: str) -> Iterator[Span]:
        """The words of `words()`, each."""
        for match in self._word.finditer(self.text):
            yield Span(file, self.line, match.start() + 1, self.line, match.end())

    def word_span(self, file: str, index: int) -> Span:
        """The `index`-th word of `words()`; the whole line where there is no such word."""
        return next(islice(self.word_spans(file), index, None), self.span(file))


@dataclass(frozen=True, slots=True)
class Directive(Line):
    """A header line `#! name arg…`."""

    @property
    def _word(self) -> re.Pattern[str]:
        return _DIRECTIVE_WORD

    @property
    def name(self) -> str:
        """The word after `#!`."""
        return self.words()[1]

    @property
    def args(self) -> list[str]:
        """The words after the name."""
        return self.words()[2:]

    @property
    def argument_text(self) -> str:
        """Everything after the name, as one text (for `why` and `origin`)."""
        return " ".join(self.args)

    def arg_span(self, file: str, index: int) -> Span:
        """The `index`-th argument."""
        return self.word_span(file, index + 2)


@dataclass(frozen=True, slots=True)
class Entry(Line):
    """A palette line `symbol = value…`."""

    @property
    def symbol(self) -> str:
        """The short name of the config."""
        return self.words()[0]

    @property
    def values(self) -> list[str]:
        """The config's values, in the order of `#! config`."""
        return self.words()[1:]


@dataclass(frozen=True, slots=True)
class Row(Line):
    """A grid line: an optional label and runs along the last axis."""


@dataclass(frozen=True, slots=True)
class Block(Line):
    """A functional `[value…]` with its rows; `trailing` stands below the last of these."""

    rows: tuple[Row, ...] = ()

    @property
    def values(self) -> list[str]:
        """The key values, in the order of `#! key`."""
        return self.words()


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed file. `kind` is `txtdb` (a table) or `dbpatch` (a patch).

    `malformed` names the directives that stand in the file and could not be read: they are not missing.
    """

    file: str
    kind: str
    magic: Line
    directives: tuple[Directive, ...]
    palette: tuple[Entry, ...]
    blocks: tuple[Block, ...]
    end: Line
    malformed: frozenset[str] = frozenset()

    def directive(self, name: str) -> Directive | None:
        """The first directive of that name."""
        return next((d for d in self.directives if d.name == name), None)

    def argument(self, name: str) -> str | None:
        """The text after the directive of that name, if it stands in the file."""
        found = self.directive(name)
        return found.argument_text if found else None

    @property
    def keys(self) -> list[str]:
        """Key names in the order of the functionals' values."""
        found = self.directive("key")
        return found.args if found else []

    @property
    def config_fields(self) -> list[str]:
        """Config field names in the order of the palette's values."""
        found = self.directive("config")
        return found.args if found else []

    @property
    def axes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, bins) of each axis, in order."""
        lines = (d.args for d in self.directives if d.name == "axis")
        return [(args[0], tuple(map(int, args[1:]))) for args in lines]
