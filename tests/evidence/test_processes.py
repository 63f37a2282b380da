"""Work in forked processes gives what it gives here."""

from __future__ import annotations

import os

import pytest

from txtdb.evidence.processes import LEAST, in_processes


def test_results_come_in_order():
    assert in_processes(lambda number: number * number, 1000, 2) == [number * number for number in range(1000)]


def test_many_numbers_are_shared_between_processes():
    found = in_processes(lambda number: os.getpid(), LEAST, 2)
    assert os.getpid() not in found


@pytest.mark.parametrize(("count", "processes"), [(LEAST - 1, 2), (1000, 1), (0, 2)])
def test_little_work_is_done_here(count, processes):
    assert set(in_processes(lambda number: os.getpid(), count, processes)) <= {os.getpid()}


def test_what_the_work_raises_is_raised():
    def work(number):
        if number == 700:
            raise ValueError("seven hundred")
        return number

    with pytest.raises(ValueError, match="seven hundred"):
        in_processes(work, 1000, 2)
