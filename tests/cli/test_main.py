"""`txtdb` itself: the list of its commands, and names that are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.run import run
from txtdb.cli import main

AMD = Path(__file__).parents[2] / "amd"
WIDTH = 55


def test_every_command_has_a_short_help_that_fits() -> None:
    context = click.Context(main)
    short = {name: main.get_command(context, name) for name in main.list_commands(context)}
    texts = {name: command.get_short_help_str(200) for name, command in short.items() if command}
    assert texts.keys() == short.keys()
    assert {name: text for name, text in texts.items() if not text or len(text) > WIDTH} == {}
    assert "..." not in run("--help").out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("chek", "did you mean check? known are "), ("zzzzz", "no command is called `zzzzz`; known are ")],
)
def test_an_unknown_command_is_told_the_near_one(name: str, hint: str) -> None:
    ran = run(name, "db")
    assert (ran.code, ran.out) == (2, "")
    assert hint in ran.err


def test_an_unknown_option_is_no_command() -> None:
    ran = run("--versoin")
    assert ran.code == 2
    assert "No such option" in ran.err


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason=f"there is no {FULL} on this system")
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("diff", "--help"), ("tune", "--show-policy")])
def test_a_full_disk_under_the_output_is_told_in_one_line(words: tuple[str, ...]) -> None:
    command = (sys.executable, "-c", "from txtdb.cli import main; main(prog_name='txtdb')", *words)
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: output: the disk is full\n")


def test_an_option_without_an_arch_is_not_all_archs() -> None:
    ran = run("verify", AMD, "--arch", ",")
    assert ran.code == 2
    assert "no arch is named" in ran.err
