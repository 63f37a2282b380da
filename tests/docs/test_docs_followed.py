"""Pages that a reader goes through from top to bottom need nothing that only the page's source shows."""

from __future__ import annotations

import re
import tomllib

import pytest

from tools.docs.examples import REPO, Fence, fences

# All of a page's commands are run by test_docs_examples.py: where none is hidden, what is seen suffices.
FOLLOWED = ("start", "patches", "merging", "review")


def items(name):
    return list(fences((REPO / "docs" / f"{name}.md").read_text(encoding="utf-8")))


def written(name):
    return {item.file: "\n".join(item.lines) for item in items(name) if isinstance(item, Fence) and item.file}


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_page_can_be_followed_without_what_it_hides(name):
    assert [item for item in items(name) if isinstance(item, str)] == []


@pytest.mark.parametrize("name", [*FOLLOWED, "tunables"])
def test_every_file_is_named_in_the_text(name):
    text = (REPO / "docs" / f"{name}.md").read_text(encoding="utf-8")
    seen = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert [file for file in written(name) if f"`{file}`" not in seen] == []


def test_what_stands_for_an_installation_is_what_the_page_installs():
    project = tomllib.loads(written("tunables")["pyproject.toml"])["project"]
    ((group, points),) = project["entry-points"].items()
    hidden = [item for item in items("tunables") if isinstance(item, str)]
    folder = f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about = f"Metadata-Version: 2.1\\nName: {project['name']}\\nVersion: {project['version']}\\n"
    shown = "".join(f"{name} = {value}\\n" for name, value in points.items())
    assert hidden == [
        f"mkdir {folder}",
        f"printf '{about}' > {folder}/METADATA",
        f"printf '[{group}]\\n{shown}' > {folder}/entry_points.txt",
        "echo 'export PYTHONPATH=.' > .environment",
    ]
