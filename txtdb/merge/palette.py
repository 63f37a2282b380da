"""Configs of all versions by what they mean, and the palette of the merged file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from txtdb.merge.threeway import Three, merge_lists, merge_sets
from txtdb.merge.versions import Version
from txtdb.syntax.printer import functional_rank
from txtdb.syntax.symbols import next_symbols, symbol_rank

# A config's values in the order of the known fields; None for one that is missing and has no default.
ConfigTexts = tuple[str | None, ...]


@dataclass(frozen=True)
class Configs:
    """The configs of all versions. Equal contents have one number, whatever their symbols.

    `fields` are all that any version has, `defaults` the values of missing ones. `symbols` gives for each version the
    symbols of its configs by number, `entries` the number of each of its palette entries.
    """

    fields: tuple[str, ...]
    defaults: Mapping[str, str]
    contents: tuple[ConfigTexts, ...]
    entries: Three[list[int]]
    symbols: Three[dict[int, str]]


@dataclass(frozen=True)
class Palette:
    """The merged palette: the fields written out, and for each config its symbol and values, in symbol order."""

    fields: tuple[str, ...]
    symbols: dict[int, str]
    values: dict[int, tuple[str, ...]]


def read_configs(versions: Three[Version], defaults: Mapping[str, str]) -> Configs:
    """Number the configs of three versions."""
    fields = tuple(sorted({name for version in versions for name in version.document.config_fields}))
    numbers: dict[ConfigTexts, int] = {}

    def number(version: Version) -> list[int]:
        names = version.document.config_fields
        found = []
        for entry in version.document.palette:
            given = {**defaults, **dict(zip(names, entry.values, strict=True))}
            content = tuple(given.get(name) for name in fields)
            found.append(numbers.setdefault(content, len(numbers)))
        return found

    entries = versions.map(number)
    symbols = [_symbols(version, own) for version, own in zip(versions, entries, strict=True)]
    return Configs(fields, defaults, tuple(numbers), entries, Three(*symbols))


def _symbols(version: Version, entries: list[int]) -> dict[int, str]:
    """Config number → symbol; the first of several that are one config by a default written out."""
    symbols: dict[int, str] = {}
    for number, entry in zip(entries, version.document.palette, strict=True):
        symbols.setdefault(number, entry.symbol)
    return symbols


def merge_palette(versions: Three[Version], configs: Configs, used: Iterable[int]) -> Palette | None:
    """The merged palette with all `used` configs. None where one lacks a field that others have."""
    kept = merge_sets(configs.symbols.map(set)) | set(used)
    fields = _merged_fields(versions, configs, kept)
    places = [configs.fields.index(name) for name in fields]
    values: dict[int, tuple[str, ...]] = {}
    for number in kept:
        texts = [configs.contents[number][place] for place in places]
        values[number] = tuple(text for text in texts if text is not None)
        if len(values[number]) < len(fields):
            return None
    symbols = _assign_symbols(configs.symbols, sorted(kept, key=lambda number: functional_rank(list(values[number]))))
    order = sorted(kept, key=lambda number: symbol_rank(symbols[number]))
    return Palette(fields, {number: symbols[number] for number in order}, values)


def _merged_fields(versions: Three[Version], configs: Configs, kept: set[int]) -> tuple[str, ...]:
    """The fields written out: those of both sides, and those that some config needs. None only where there are none."""
    written = merge_lists(versions.map(lambda version: tuple(version.document.config_fields)), rank=str)
    needed = {
        name
        for number in kept
        for name, text in zip(configs.fields, configs.contents[number], strict=True)
        if text is not None and text != configs.defaults.get(name)
    }
    fields = (*written, *sorted(needed.difference(written)))
    return fields or configs.fields[:1]


def _assign_symbols(symbols: Three[dict[int, str]], ranked: list[int]) -> dict[int, str]:
    """Config number → symbol. `ranked` are the numbers in the order of what they mean.

    A config of the base keeps its symbol, unless a side renamed it; a new one has its side's, the smaller where both
    added it. Where two want one symbol a config that had it in the base gets it, else the first in rank, and the other
    takes a new one behind all that exist.
    """
    wanted = {number: _wanted(Three(*(own.get(number) for own in symbols))) for number in ranked}
    assigned: dict[int, str] = {}
    taken: set[str] = set()
    for number in sorted(ranked, key=lambda number: wanted[number] != symbols.base.get(number)):
        if wanted[number] not in taken:
            assigned[number] = wanted[number]
            taken.add(wanted[number])
    free = iter(next_symbols(symbol for own in symbols for symbol in own.values()))
    return {number: assigned[number] if number in assigned else next(free) for number in ranked}


def _wanted(symbols: Three[str | None]) -> str:
    own = [symbol for symbol in (symbols.ours, symbols.theirs) if symbol is not None]
    if symbols.base is None:
        return min(own, key=symbol_rank)
    renamed = {symbol for symbol in own if symbol != symbols.base}
    return renamed.pop() if len(renamed) == 1 else symbols.base
