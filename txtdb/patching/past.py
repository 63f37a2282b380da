"""Earlier states of a table out of git."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from txtdb.diff.history import History, all_files
from txtdb.diff.sides import open_files
from txtdb.layers.database import Database
from txtdb.patching.stack import Place

# Commits to look into. A patch is rebased soon after its base moved, or somebody says what it was made over.
MOST_COMMITS = 200


def past_databases(history: History, place: Place, tip: str = "HEAD") -> Iterator[Database]:
    """The files behind one table in each of the last commits, up to `tip`, that touched the database, newest first.

    Each database is open until the next is asked for; equal ones come once.
    """
    seen: set[tuple[tuple[str, str], ...]] = set()
    for commit in islice(history.commits("", tip), MOST_COMMITS):
        files = all_files(history, commit.name, *place)
        key = tuple(sorted(files.items()))
        if key not in seen:
            seen.add(key)
            contents = {name: history.read(content) for name, content in files.items()}
            with open_files(contents, history.label(commit.name)) as database:
                yield database
