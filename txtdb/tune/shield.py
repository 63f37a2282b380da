"""The process above a worker: what a candidate does to the process that started its own does not reach the tuner.

    python shield.py ASKED ANSWERS COMMAND…

It starts the command and ends as that does. Meanwhile it sends back what it is sent: ASKED and ANSWERS are numbers of
open files, which the command does not get. Run as a file, by a Python that looks for no packages: it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent() -> None:
    """Have this process killed when the one that started it is gone, even while it is stopped. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _attend(worker: subprocess.Popen[bytes], asked: int, answers: int) -> int:
    """Answer until the worker ends; its exit code.

    By one thread: a signal that stops or ends this process is delivered before the thread goes on, and so before it
    answers what was asked after that signal.
    """
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    heard = [asked, wakes]
    while (code := worker.poll()) is None:
        ready, _, _ = select.select(heard, [], [])
        if wakes in ready:
            os.read(wakes, 64)
        if asked in ready:
            data = os.read(asked, 1)
            if data:
                os.write(answers, data)
            else:
                heard.remove(asked)
    return code


def main(arguments: list[str]) -> int:
    """Run the command; its exit code. A signal that ended it ends this process too."""
    end_with_parent()
    asked, answers, *command = arguments
    code = _attend(subprocess.Popen(command), int(asked), int(answers))
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
