"""docs/commands.md names just the commands that take `--overlay`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tools.docs.examples import REPO
from txtdb.cli import main


def with_overlay(command: click.Command, name: tuple[str, ...] = ()) -> Iterator[str]:
    if any("--overlay" in parameter.opts for parameter in command.params):
        yield " ".join(name)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from with_overlay(inner, (*name, word))


def test_the_page_names_the_commands_that_take_overlays() -> None:
    text = (REPO / "docs" / "commands.md").read_text(encoding="utf-8")
    item = re.search(r"It is an option of (.*?)\. All other", text, re.DOTALL)
    assert item is not None
    named = {" ".join(words.split()) for words in re.findall(r"`([^`]+)`", item[1])}
    assert named == set(with_overlay(main))
