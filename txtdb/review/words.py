"""Sentences and counts that the page and the Markdown form share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from txtdb.diff.edits import EditKind
from txtdb.diff.render import change_text
from txtdb.review.records import Flag, Gain, Images, Review, ReviewedCell, TableReview
from txtdb.wording import plural

# What is said where evidence decided for a config and did not measure the one before.
NO_GAIN = "no gain over the config before was measured"


def cells_word(number: int) -> str:
    """`1 cell`, `2 cells`."""
    return many(number, "cell")


def many(number: int, word: str) -> str:
    """A number with a word in singular or plural."""
    return f"{number:,} {plural(number, word)}"


def effective(cells: Iterable[ReviewedCell]) -> list[ReviewedCell]:
    """Those that change what lookups give."""
    return [cell for cell in cells if Flag.NO_EFFECT not in cell.flags]


def kind_counts(cells: Iterable[ReviewedCell]) -> dict[EditKind, int]:
    """How many cells were changed, added and removed for lookups."""
    counts = Counter(cell.edit.kind for cell in effective(cells))
    return {kind: counts[kind] for kind in EditKind}


def flag_counts(cells: Iterable[ReviewedCell]) -> dict[Flag, int]:
    """Flag → cells that carry it, the gravest flag first; without those that none carries."""
    counts = Counter(flag for cell in cells for flag in cell.flags)
    return {flag: counts[flag] for flag in Flag if counts[flag]}


def common_changes(table: TableReview, limit: int) -> tuple[list[tuple[str, int]], int]:
    """The most frequent changes of a table that more than one cell has, in words, and how many others there are."""
    counts = Counter(change_text(cell.edit.old, cell.edit.new) for cell in effective(table.cells))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [(text, count) for text, count in ranked[:limit] if count > 1]
    return shown, len(ranked) - len(shown)


def gain_text(cells: Sequence[ReviewedCell]) -> str:
    """`+4.1 % (−1.0 … +12.0), 12 of 96 cells, 2 derived`: median and range of the gains that evidence tells.

    Gains of time and of energy are told one after the other, those of energy with what the same
    cells gain of time, as `energy: +22.7 %, time −3.1 %, 1 of 2 cells`.
    """
    gains = [cell.gain for cell in cells if cell.gain]
    kinds = [[gain for gain in gains if gain.energy is energy] for energy in (False, True)]
    told = [_gains_text(own, len(cells)) for own in kinds if own]
    return "; ".join(told) or (NO_GAIN if any(Flag.NO_GAIN in cell.flags for cell in cells) else "no evidence")


def _gains_text(gains: Sequence[Gain], cells: int) -> str:
    """Of one kind: time or energy."""
    derived = sum(gain.derived for gain in gains)
    times = [gain.time.gain_pct for gain in gains if gain.time]
    told = [_middle_and_range([gain.gain_pct for gain in gains])]
    told += [f"time {_middle_and_range(times)}"] if times else []
    told += [f"{len(gains):,} of {cells_word(cells)}", *([f"{derived:,} derived"] if derived else [])]
    return f"{'energy: ' if gains[0].energy else ''}{', '.join(told)}"


def _middle_and_range(values: Sequence[float]) -> str:
    middle, low, high = (f"{value:+.1f}".replace("-", "−") for value in (median(values), min(values), max(values)))
    return f"{middle} %{f' ({low} … {high})' if len(values) > 1 else ''}"


def gain_legend(cells: Iterable[ReviewedCell]) -> str:
    """What signs and words of the gains mean that some cells have; empty where none has any."""
    gains = [cell.gain for cell in cells if cell.gain]
    told = []
    if any(not gain.energy for gain in gains):
        told.append("+ is faster, − slower")
    if any(gain.energy for gain in gains):
        told.append("of energy + is less energy, − more")
    if any(gain.time for gain in gains):
        told.append("with it time, by the same samples, + is faster, − slower")
    if any(gain.derived for gain in gains):
        told.append("derived: from samples of both configs, in a run that decided otherwise")
    return f"Gains over the config before: {'; '.join(told)}." if told else ""


def heirs_text(table: TableReview) -> str:
    """`gfx1101, gfx1102; gfx1150 in 90 of 96`: the archs that change with a table, those in all of its cells first."""
    total = len(effective(table.cells))
    whole = ", ".join(heir.arch for heir in table.heirs if heir.moved == total)
    parts = [f"{heir.arch} in {heir.moved:,} of {total:,}" for heir in table.heirs if heir.moved < total]
    return "; ".join(filter(None, [whole, *parts]))


def images_rows(review: Review) -> list[tuple[str, str]]:
    """(archs, `9,502 → 9,847 (369 new, 24 gone)`), archs with the same counts together."""
    rows: dict[str, list[str]] = {}
    for images in review.images:
        rows.setdefault(_images_text(images), []).append(images.arch)
    return [(", ".join(archs), text) for text, archs in rows.items()]


def _images_text(images: Images) -> str:
    changes = f"{images.new:,} new, {images.gone:,} gone" if images.new or images.gone else "the same"
    return f"{images.before:,} → {images.after:,} ({changes})"


def images_text(review: Review) -> str:
    """The sums over all archs."""
    new, gone = (sum(images.new for images in review.images), sum(images.gone for images in review.images))
    return f"{new:,} new, {gone:,} gone over {many(len(review.images), 'arch')}"


def headline(review: Review, page: str = "below") -> str:
    """The whole change in one sentence, and where there are faults a second one; `page` says where they are told."""
    faults = many(len(review.faults), "fault")
    warning = f" {faults}, see {page}; the cells may be incomplete." if review.faults else ""
    return f"{_change_text(review)}{warning}"


def _change_text(review: Review) -> str:
    if not review.cells:
        return "No cell changed." if review.facts else "Nothing changed."
    cells = effective(review.cells)
    idle = len(review.cells) - len(cells)
    kinds = [f"{count:,} {kind}" for kind, count in kind_counts(cells).items() if count]
    kinds += [f"{idle:,} without effect"] if idle else []
    functionals = sum(len(table.functionals) for table in review.tables)
    where = f"{many(functionals, 'functional')} of {many(len(review.tables), 'table')}"
    heirs = len({arch for cell in cells for arch in cell.heirs})
    more = f"; {many(heirs, 'more arch')} {'changes' if heirs == 1 else 'change'} with them" if heirs else ""
    return f"{cells_word(len(review.cells))}: {', '.join(kinds)}; in {where}{more}."


def findings_text(review: Review) -> str:
    """What a whole check says before and after, in one sentence."""
    return f"{len(review.new_findings):,} new, {len(review.gone_findings):,} gone, {review.kept_findings:,} as before"
