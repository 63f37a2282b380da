"""What the grammar leaves to a second look at a header: directives missing, doubled, or of the other kind of file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from txtdb.faults import Fault
from txtdb.syntax.tree import Directive, Document

SUFFIX_KIND = {".txtdb": "txtdb", ".dbpatch": "dbpatch"}
MAX_AXES = 4

_KIND_NAME = {"txtdb": "table", "dbpatch": "patch"}
_REPEATABLE = ("axis", "evidence")
_NOT_IN_PATCH = ("base",)
_ONLY_IN_PATCH = ("onto",)


def header_faults(document: Document) -> Iterator[Fault]:
    """All faults of the header as a whole."""
    yield from _kind_faults(document)
    yield from _place_faults(document)
    yield from _missing_faults(document)
    yield from _axis_faults(document, [d for d in document.directives if d.name == "axis"])
    for directive in document.directives:
        if directive.name in ("key", "config"):
            yield from _repeated_names(document, directive)


def _kind_faults(document: Document) -> Iterator[Fault]:
    suffix = SUFFIX_KIND.get(Path(document.file).suffix)
    if suffix and suffix != document.kind:
        yield Fault(
            "wrong-kind",
            document.magic.span(document.file),
            f"a {_KIND_NAME[document.kind]} in a file named *.{suffix}",
            "rename the file, or correct its first line",
        )


def _place_faults(document: Document) -> Iterator[Fault]:
    misplaced = _NOT_IN_PATCH if document.kind == "dbpatch" else _ONLY_IN_PATCH
    seen: dict[str, int] = {}
    for directive in document.directives:
        name, span = directive.name, directive.span(document.file)
        if name in misplaced:
            message = f"`#! {name}` does not belong into a {_KIND_NAME[document.kind]}"
            yield Fault("directive-out-of-place", span, message, "remove it")
        elif name in seen and name not in _REPEATABLE:
            message = f"`#! {name}` stands already in line {seen[name]}"
            yield Fault("duplicate-directive", span, message, "keep one of them")
        seen.setdefault(name, directive.line)


def _missing_faults(document: Document) -> Iterator[Fault]:
    there = document.malformed.union(directive.name for directive in document.directives)
    for name in _needed(document):
        if name not in there:
            message, hint = f"`#! {name}` is missing", f"add `#! {name} …` to the header"
            yield Fault("missing-directive", document.magic.span(document.file), message, hint)


def _needed(document: Document) -> tuple[str, ...]:
    """A table may consist of its directives alone; with blocks it must say what they mean."""
    if document.blocks:
        return ("iface", "arch", "key", "axis", "config")
    return ("iface", "arch", "config") if document.palette else ("iface", "arch")


def _axis_faults(document: Document, axes: Sequence[Directive]) -> Iterator[Fault]:
    if len(axes) > MAX_AXES:
        message = f"{len(axes)} axes; a table has one to four"
        yield Fault("too-many-axes", axes[MAX_AXES].span(document.file), message, "join or drop axes")
    names: set[str] = set()
    for directive in axes:
        name, *bins = directive.args
        if name in names:
            span = directive.arg_span(document.file, 0)
            yield Fault("duplicate-name", span, f"axis `{name}` stands twice", "keep one")
        names.add(name)
        yield from _bin_faults(document, directive, list(map(int, bins)))


def _bin_faults(document: Document, directive: Directive, bins: list[int]) -> Iterator[Fault]:
    """The first bin out of order; sorting them mends all."""
    for index, (before, after) in enumerate(pairwise(bins), 2):
        if after <= before:
            message = f"bin {after} follows {before}: bins must increase"
            span = directive.arg_span(document.file, index)
            yield Fault("axis-order", span, message, "sort them, without repeats")
            return


def _repeated_names(document: Document, directive: Directive) -> Iterator[Fault]:
    seen: set[str] = set()
    where = f"`#! {directive.name}`"
    spans = islice(directive.word_spans(document.file), 2, None)
    for name, span in zip(directive.args, spans, strict=True):
        if name in seen:
            yield Fault("duplicate-name", span, f"`{name}` stands twice in {where}", "keep one")
        seen.add(name)
