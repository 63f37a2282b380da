"""How far `txtdb aot build` is: a bar on a terminal, a line at times elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from codegen.aot.standing import Progress, Standing, left_text, longest_text, standing_text

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar  # click gives it no public name

# Between lines.
_QUIET_S = 10.0


class Lines:
    """Tells by `tell` how far a build is, at times. `clock` gives seconds that never go back."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._tell, self._clock, self._last = tell, clock, clock()

    def show(self, standing: Standing) -> None:
        """A line where the last one is some seconds old."""
        now = self._clock()
        if now - self._last >= _QUIET_S:
            self._last = now
            self._tell(standing_text(standing))


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A bar on a terminal, lines on standard error elsewhere."""
    if not sys.stderr.isatty():
        yield Lines(lambda line: click.echo(line, err=True), time.monotonic).show
        return
    # Its own guess of the time left knows no limit.
    made: ProgressBar[Standing] = click.progressbar(
        length=1,
        label="compiling",
        file=sys.stderr,
        show_pos=True,
        show_eta=False,
        item_show_func=_beside,
        update_min_steps=0,  # it is drawn again when nothing more is done, too
    )
    with made as bar:

        def show(standing: Standing) -> None:
            bar.length = standing.total
            bar.update(standing.done - bar.pos, standing)

        yield show


def _beside(standing: Standing | None) -> str:
    """Without the name of an image, which a line of a terminal has no room for."""
    told = [left_text(standing), longest_text(standing, with_name=False)] if standing else []
    return ", ".join(filter(None, told))
