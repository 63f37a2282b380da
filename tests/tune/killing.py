"""Kills the tuner again and again, each time at another point of its run. Run as a program by the kill test.

    python -m tests.tune.killing SEED KILLS JOURNALS -- COMMAND OF TXTDB …

Each run is a fork of this process, which has everything loaded. It is killed after the journal has grown by a random
number of lines, and a random while on top; every fifth one a random while after its start, wherever that is. Every
other time the whole group goes, else the tuner alone, so that its workers have to end by themselves. The last run is
left alone. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from txtdb.cli import main

LINES = (3, 24)
LIMIT_S = 60.0


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


def lines(journals: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in journals.glob("*.journal"))


def is_over(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def killed(draw: random.Random, number: int, journals: Path, arguments: list[str]) -> bool:
    """Whether the run could be killed before it was over."""
    before, wanted = lines(journals), draw.randint(*LINES)
    pid = fork(arguments)
    start = time.monotonic()
    if number % 5 == 4:
        time.sleep(draw.uniform(0, 0.4))
    else:
        while lines(journals) - before < wanted and time.monotonic() - start < LIMIT_S:
            if is_over(pid):
                return False
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.01))
    if is_over(pid):
        return False
    (os.killpg if number % 2 else os.kill)(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def run(seed: int, kills: int, journals: Path, arguments: list[str]) -> dict[str, object]:
    draw = random.Random(seed)
    lengths = []
    for number in range(kills):
        if not killed(draw, number, journals, arguments):
            break
        lengths.append(lines(journals))
    status = os.waitpid(fork(arguments), 0)[1]
    return {
        "kills": len(lengths),
        "lines": lengths,
        "whole": lines(journals),
        "code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    for module in ("scipy.special", "txtdb.cli.tuning"):
        import_module(module)
    mark = sys.argv.index("--")
    seed, kills, journals = sys.argv[1:mark]
    print(json.dumps(run(int(seed), int(kills), Path(journals), sys.argv[mark + 1 :])))
