"""Watts of the entrants of a cell where energy decides: which of them can be compared, and how far they are noise.

Watts are read once for each entrant, in a few windows. By how much the windows of a reading differ is the noise of the
sensor, which the entrants of a cell share: it is pooled over them. An entrant whose own windows differ by more has its
own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from txtdb.evidence.finalists import is_right
from txtdb.evidence.policy import Policy
from txtdb.evidence.samples import acceptable_watts, quantile
from txtdb.model.evidence import Measured, Reading

# Fewer windows tell nothing of their noise.
LEAST_WINDOWS = 2
GRAPH, EAGER = "graph", "eager"


def usable_watts(measured: Measured) -> dict[int, float]:
    """Entrant → the watts that it is ranked by, of those that have some; empty where time alone decides."""
    return {one: _mean(reading.windows) for one, reading in _usable(measured).items()}


def watts_floor(measured: Measured, entrant: int, other: int, policy: Policy) -> float:
    """How much of the logarithm of (an entrant's watts / another's) may be noise; 0 where time alone decides.

    So many standard errors as the policy's noise floor has, or as Student's law asks for where few windows tell of the
    noise and many entrants had a chance to look good by it.
    """
    if not measured.watts:
        return 0.0
    readings = _usable(measured)
    variances = {one: _variance(reading.windows) for one, reading in readings.items()}
    freedom = sum(len(reading.windows) - 1 for reading in readings.values())
    pooled = math.fsum(variances[one] * (len(reading.windows) - 1) for one, reading in readings.items()) / freedom
    error = math.sqrt(sum(max(pooled, variances[one]) / len(readings[one].windows) for one in (entrant, other)))
    tail = policy.race.error_budget / 2 / max(len(readings) - 1, 1)
    return max(policy.finalists.sigma, quantile(freedom, tail)) * error


def _usable(measured: Measured) -> dict[int, Reading]:
    """The readings that rank: of entrants that are right, reliable, and taken the same way.

    Single launches read otherwise than a graph: where one entrant was sampled from a graph, they do not count.
    """
    pairs = zip(measured.watts, measured.entrants, strict=False)
    sound = {
        one: reading
        for one, (reading, entrant) in enumerate(pairs)
        if reading is not None and _is_sound(reading) and is_right(entrant)
    }
    path = GRAPH if any(reading.path == GRAPH for reading in sound.values()) else EAGER
    return {one: reading for one, reading in sound.items() if reading.path == path}


def _is_sound(reading: Reading) -> bool:
    return reading.reliable and len(reading.windows) >= LEAST_WINDOWS and all(map(acceptable_watts, reading.windows))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(windows: Sequence[float]) -> float:
    """That of the logarithms."""
    logs = list(map(math.log, windows))
    centre = _mean(logs)
    return math.fsum((value - centre) ** 2 for value in logs) / (len(logs) - 1)
