"""Times of candidates in cells → few configs in long runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tools.tables.model import Floats

Places = npt.NDArray[np.intp]


def choose(times: Floats, tie: float) -> Places:
    """The candidate of each cell, of shape (query bins, key bins).

    `times` are seconds, (candidates, query bins, key bins); every cell has a finite one. A candidate serves a cell when
    it is within `tie` of the cell's best (1.05: 5 %). Candidates are taken one by one, the next always the one that
    serves most of the cells that none serves yet; a cell takes the first taken one that serves it, so that neighbours
    agree.
    """
    serves = times <= times.min(axis=0) * tie
    chosen = np.full(times.shape[1:], -1, np.intp)
    while (chosen < 0).any():
        counts = (serves & (chosen < 0)).sum(axis=(1, 2))
        most = counts.max()
        # Of those that serve as many, the one that is fastest over all cells.
        equal = np.flatnonzero(counts == most)
        total = [float(np.log(times[place]).sum()) if np.isfinite(times[place]).all() else np.inf for place in equal]
        best = int(equal[int(np.argmin(total))])
        chosen[(chosen < 0) & serves[best]] = best
    return chosen
