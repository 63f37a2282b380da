"""Work on the numbers of a range, in forked processes where that is worth it: what it needs is not sent, but there.

Each process has what its parent had when it was forked. Where there is no fork, and for few numbers, the work is done
here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from typing import TypeVar, cast

# Fewer are done sooner than processes start.
LEAST = 200

_T = TypeVar("_T")
# The work of the processes that are being forked; they cannot be sent a closure.
_work: Callable[[int], object] | None = None


def in_processes(work: Callable[[int], _T], count: int, processes: int | None = None) -> list[_T]:
    """The results of `work` for 0 to count - 1, in this order. What it returns must be picklable; what it raises is
    raised here. `processes`: as many as there are processors for this one.
    """
    processes = len(os.sched_getaffinity(0)) if processes is None and hasattr(os, "sched_getaffinity") else processes
    if count < LEAST or (processes or 1) < 2 or "fork" not in get_all_start_methods():
        return [work(number) for number in range(count)]
    global _work
    _work = work
    try:
        with get_context("fork").Pool(processes) as pool:
            found = pool.map(_call, range(count), chunksize=32)
    finally:
        _work = None
    return cast("list[_T]", found)


def _call(number: int) -> object:
    assert _work is not None
    return _work(number)
