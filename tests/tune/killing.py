"""Kills the tuner again and again, each time at another point of its run. Run as a program by the kill test.

    python -m tests.tune.killing SEED KILLS LINES FOLDER -- COMMAND OF TXTDB …

Each run is a fork of this process, which has everything loaded. It is killed after the journals in the folder have
grown by a random number of lines, and a random while on top; every fifth one a random while after its start. The
kills are spread over LINES, the length of an undisturbed journal. A run that was over before its kill does not
count: the folder is put back as it was, and another point is drawn. Every other time the whole group goes, else the
tuner alone, so that its workers have to end by themselves. The last run is left alone. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from txtdb.cli import main

LIMIT_S = 60.0
ATTEMPTS = 50


def fork(arguments: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = 1
    try:
        main(arguments, standalone_mode=True)
    except SystemExit as ending:
        code = int(ending.code or 0)
    finally:
        os._exit(code)


def lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.journal"))


def is_over(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


@dataclass(frozen=True)
class Point:
    """Where to kill a run: when its journal has so many lines or it has run so long, and a while later."""

    lines: int
    seconds: float
    more: float
    is_group: bool


def draw_point(draw: random.Random, before: int, pace: int, is_by_time: bool, is_group: bool) -> Point:
    """A point about `pace` lines behind those before, or one by time, at most twice as many lines on."""
    wanted = 2 * pace if is_by_time else draw.randint(1, 2 * pace)
    seconds = draw.uniform(0, 0.4) if is_by_time else LIMIT_S
    return Point(before + wanted, seconds, draw.uniform(0, 0.01), is_group)


def killed(point: Point, folder: Path, arguments: list[str]) -> bool:
    """Whether the run could be killed before it was over."""
    pid = fork(arguments)
    end = time.monotonic() + point.seconds
    while lines(folder) < point.lines and time.monotonic() < end:
        if is_over(pid):
            return False
        time.sleep(0.001)
    time.sleep(point.more)
    if is_over(pid):
        return False
    (os.killpg if point.is_group else os.kill)(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def killed_somewhere(draw: random.Random, number: int, pace: int, folder: Path, arguments: list[str]) -> bool:
    """Draw points until the run is killed at one; by time once one was missed: near its end it writes few lines."""
    before = folder.with_name(f"{folder.name}-before")
    shutil.copytree(folder, before)
    try:
        for attempt in range(ATTEMPTS):
            is_by_time = number % 5 == 4 or attempt > 0
            if killed(draw_point(draw, lines(folder), pace, is_by_time, number % 2 == 1), folder, arguments):
                return True
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
        return False
    finally:
        shutil.rmtree(before)


def run(seed: int, kills: int, length: int, folder: Path, arguments: list[str]) -> dict[str, object]:
    draw = random.Random(seed)
    lengths: list[int] = []
    for number in range(kills):
        pace = max(1, (length - lines(folder)) // (kills - number + 1))
        if not killed_somewhere(draw, number, pace, folder, arguments):
            break
        lengths.append(lines(folder))
    status = os.waitpid(fork(arguments), 0)[1]
    return {
        "kills": len(lengths),
        "lines": lengths,
        "whole": lines(folder),
        "code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    for module in ("scipy.special", "txtdb.cli.tuning"):
        import_module(module)
    mark = sys.argv.index("--")
    seed, kills, length, folder = sys.argv[1:mark]
    print(json.dumps(run(int(seed), int(kills), int(length), Path(folder), sys.argv[mark + 1 :])))
