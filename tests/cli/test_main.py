"""`txtdb` itself: the list of its commands, and names that are none."""

from __future__ import annotations

import click
import pytest

from tests.cli.run import run
from txtdb.cli import main

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
