"""`python -m codegen --cmakedir` prints the folder of TxtdbGenerate.cmake; anything else is `txtdb codegen`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from codegen.command import codegen

if __name__ == "__main__":
    if sys.argv[1:] == ["--cmakedir"]:
        click.echo((Path(__file__).parent / "cmake").as_posix())
    else:
        codegen(prog_name="python -m codegen")
