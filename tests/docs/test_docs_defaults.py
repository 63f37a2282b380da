"""Defaults and options that the documentation prints are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tools.docs.__main__ import pages
from tools.docs.examples import REPO
from txtdb.cli import main
from txtdb.model.archs import Arch
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.syntax.parser import FORMAT_VERSION
from txtdb.syntax.printer import HEADER_ORDER

SCHEMA_PAGE = (REPO / "docs" / "schema.md").read_text(encoding="utf-8")
FORMAT_PAGE = (REPO / "docs" / "format.md").read_text(encoding="utf-8")
PAGES = {page.relative_to(REPO).as_posix(): page.read_text(encoding="utf-8") for page in pages()}

MENTION = re.compile(r"`txtdb ([a-z]+)(?: ([a-z]+))?")
OPTION = re.compile(r"`(?:txtdb [a-z ]+)?(--[a-z][a-z-]*)")
CLAIM = re.compile(r"`(--[a-z][a-z-]*)[^`]*`.*?(?:\bdefault:? `([^`]*)`|`([^`]*)` by default)")


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"{above}{name}", command
            if isinstance(command, click.Group):
                yield from commands(command, f"{above}{name} ")


COMMANDS = dict(commands(main))


def options(command: click.Command) -> dict[str, click.Parameter]:
    return {name: option for option in command.params for name in option.opts + option.secondary_opts}


EVERY_OPTION = {"--help", "--version"} | {name for command in COMMANDS.values() for name in options(command)}


def mentioned(line: str, before: str) -> str:
    """The command that a line names last, else the one named before."""
    for first, second in MENTION.findall(line):
        before = next((name for name in (f"{first} {second}", first) if name in COMMANDS), before)
    return before


def claims() -> Iterator[tuple[str, str, str]]:
    """(command, option, default) wherever a page prints a default; the command is the one that it named last."""
    for name, text in PAGES.items():
        command = ""
        for line in text.split("\n"):
            command = mentioned(line, command)
            for option, after, before in CLAIM.findall(line):
                assert command, f"{name} prints the default of {option} and names no command above"
                yield command, option, after or before


@pytest.mark.parametrize(("command", "option", "printed"), sorted(set(claims())))
def test_row_046_printed_defaults_of_options_are_those_of_the_code(command, option, printed):
    known = options(COMMANDS[command])
    assert option in known, f"`txtdb {command}` has no {option}"
    default = known[option].to_info_dict()["default"]
    values = [str(item) for item in default] if isinstance(default, (list, tuple)) else [str(default)]
    assert printed == ",".join(values)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_options_that_a_page_names_exist(name):
    elsewhere = {"--word-diff", "--numstat", "--write"}  # of git, and of tools.docs
    assert set(OPTION.findall(PAGES[name])) - elsewhere - EVERY_OPTION == set()


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The first table below a heading: what stands in its first column → the other columns."""
    text = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line.strip("|").split("|") for line in text.split("\n") if line.startswith("| `")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


MINIMAL = """
iface = "x"
[[key]]
name = "k"
type = "bool"
[[axis]]
name = "m"
bins = [1]
[[config]]
name = "f"
type = "int"
"""


@pytest.fixture
def minimal() -> Schema:
    schema, faults = read_schema(MINIMAL.encode(), "x.toml", "x")
    assert schema is not None
    assert not faults
    return schema


def test_row_046_kind(minimal):
    assert rows(SCHEMA_PAGE, "A kernel")["`kind`"][-1] == f"`{minimal.kind}`"


def test_row_046_lookup_rule():
    printed = rows(SCHEMA_PAGE, "Axes")["`lookup`"][-1]
    _, faults = read_schema(
        MINIMAL.replace("bins", f"lookup = {printed.replace('`', chr(34))}\nbins").encode(), "x", "x"
    )
    assert not faults
    _, faults = read_schema(MINIMAL.replace("bins", 'lookup = "floor"\nbins').encode(), "x", "x")
    assert [fault.rule for fault in faults] == ["schema"]


def test_row_046_binary(minimal):
    assert rows(SCHEMA_PAGE, "Config fields")["`binary`"][-1] == f"`{str(minimal.config[0].binary).lower()}`"


def test_row_046_values_of_a_bool(minimal):
    assert "both values of a bool" in rows(SCHEMA_PAGE, "Keys")["`values`"][-1]
    assert minimal.keys[0].values == (False, True)


def test_row_046_facts_of_an_arch():
    arch, table = Arch("gfxA"), rows(SCHEMA_PAGE, "archs.toml")
    assert f"`{arch.gpu_name}`" in table["`gpu`"][-1]
    assert table["`wave_size`"][-1] == "not known"
    assert arch.wave_size is None


def test_directives_are_explained_in_their_canonical_order():
    assert [cell.strip("`").split()[1] for cell in rows(FORMAT_PAGE, "The header")] == list(HEADER_ORDER)


@pytest.mark.parametrize("kind", ["txtdb", "dbpatch"])
def test_the_first_line_is_printed_with_the_version_of_the_code(kind):
    assert f"`#! {kind} {FORMAT_VERSION}`" in FORMAT_PAGE
