"""Runs the console program inside the test process."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from txtdb.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*args: str | Path) -> Ran:
    """Exit code and output of `txtdb ARGS…`; an exception that is no exit fails the test."""
    out, err = StringIO(), StringIO()
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main.main([str(arg) for arg in args], prog_name="txtdb")
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return Ran(code, out.getvalue(), err.getvalue())
