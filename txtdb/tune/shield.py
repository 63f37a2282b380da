"""The process above a worker: what a candidate does to the process that started its own does not reach the tuner.

    python shield.py ASKED ANSWERS COMMAND…

It starts the command and ends as that does. Meanwhile it sends back what it is sent: ASKED and ANSWERS are numbers of
open files, which the command does not get. Run as a file, by a Python that looks for no packages: it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent() -> None:
    """Have this process killed when the one that started it is gone, even while it is stopped. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answer(asked: int, answers: int) -> None:
    while data := os.read(asked, 1):
        os.write(answers, data)


def main(arguments: list[str]) -> int:
    """Run the command; its exit code. A signal that ended it ends this process too."""
    end_with_parent()
    asked, answers, *command = arguments
    worker = subprocess.Popen(command)
    threading.Thread(target=_answer, args=(int(asked), int(answers)), daemon=True).start()
    code = worker.wait()
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
