"""What a comparison found in a cell: the new config beside the old one, which is the incumbent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from txtdb.model.evidence import CellEvidence, Entrant, Evidence, Outcome
from txtdb.model.schema import Schema
from txtdb.model.table import ConfigValues
from txtdb.model.values import print_value


class Found(StrEnum):
    """How the new config does beside the old one."""

    FASTER = "faster"
    SLOWER = "slower"
    MENDED = "mended"  # the old one is not valid
    BROKEN = "broken"  # the new one is not valid
    FAILED = "failed"  # neither is
    UNMEASURED = "unmeasured"


_ENERGY_WORDS = {Found.FASTER: "less energy", Found.SLOWER: "more energy"}


@dataclass(frozen=True, slots=True)
class Sides:
    """The two configs of a cell."""

    old: Entrant
    new: Entrant


def is_comparison(evidence: Evidence) -> bool:
    """Whether a run measured before and after only."""
    return any(not cell.measured.publish for cell in evidence.cells)


def sides_of(cell: CellEvidence) -> Sides:
    """The configs of a cell that was compared."""
    entrants, incumbent = cell.measured.entrants, cell.measured.incumbent
    assert incumbent is not None, "a comparison has an old config"
    new = next(entrant for number, entrant in enumerate(entrants) if number != incumbent)
    return Sides(entrants[incumbent], new)


def is_energy(cells: Iterable[CellEvidence]) -> bool:
    """Whether cells of a run were decided by energy, and not by time."""
    return any(cell.measured.watts for cell in cells)


def compared_gain_pct(cell: CellEvidence) -> float | None:
    """What the new config saves of what the old one takes (time, or energy where that decides), negative for a loss.

    None where either is not valid.
    """
    decision = cell.decision
    if decision.winner != decision.incumbent:
        return decision.gain_pct
    others = [0.0 - 100 * math.expm1(one.slower) for one in decision.standings if one.entrant != decision.incumbent]
    return others[0] if others else None


def found_in(cell: CellEvidence) -> Found:
    """What was found in a cell that was compared."""
    decision = cell.decision
    if decision.winner is None:
        return Found.FAILED if decision.outcome is Outcome.FAILED else Found.UNMEASURED
    gain = compared_gain_pct(cell)
    if gain is None:
        return Found.BROKEN if decision.winner == decision.incumbent else Found.MENDED
    return Found.SLOWER if gain < 0 else Found.FASTER


def found_words(cell: CellEvidence) -> str:
    """The same in words: `faster`, or `less energy` where energy decides."""
    found = found_in(cell)
    return _ENERGY_WORDS.get(found, found) if cell.measured.watts else found


def is_worse(cell: CellEvidence) -> bool:
    """Whether the new config of a comparison is not valid, or slower by the bar or more.

    One that is valid is no worse than an old one that is not.
    """
    if cell.measured.publish:
        return False
    gain, bar = compared_gain_pct(cell), cell.decision.bar_pct or 0.0
    return found_in(cell) is Found.BROKEN or (gain is not None and -gain >= bar)


def change_words(cell: CellEvidence) -> str:
    """`12.0 % faster`, or `3.3 % more energy` where energy decides. The configs are both valid."""
    gain = compared_gain_pct(cell)
    assert gain is not None, "both are valid"
    return f"{abs(gain):.1f} % {found_words(cell)}"


def changed_fields(schema: Schema, old: ConfigValues | None, new: ConfigValues) -> str:
    """The fields in which two configs differ: `BLOCK_N 32→64 num_warps 4→8`; all of them where there is no old one."""
    if old is None:
        return " ".join(f"{n}={print_value(value)}" for n, value in zip(schema.field_names, new, strict=True))
    triples = zip(schema.field_names, old, new, strict=True)
    changes = (f"{n} {print_value(before)}→{print_value(after)}" for n, before, after in triples if before != after)
    return " ".join(changes) or "unchanged"


def counted(cells: Iterable[CellEvidence]) -> str:
    """`154 faster, 22 slower (2 by the bar or more)`; of energy where that decides."""
    cells = list(cells)
    counts = Counter(map(found_in, cells))
    beyond = sum(is_worse(cell) and found_in(cell) is Found.SLOWER for cell in cells)
    words = {found: f"with {word}" for found, word in _ENERGY_WORDS.items()} if is_energy(cells) else {}
    parts = (f"{counts[found]:,} {words.get(found, found)}{_beyond(found, beyond)}" for found in Found if counts[found])
    return ", ".join(parts) or "none measured"


def _beyond(found: Found, count: int) -> str:
    return f" ({count:,} by the bar or more)" if found is Found.SLOWER and count else ""
