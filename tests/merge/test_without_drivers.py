"""git's merge by lines, where nobody has installed the drivers: a valid file or a conflict, and never a third thing.

The attributes alone, without the drivers, change nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import F1, F2, PALETTE, make_db, table
from tests.cli.run import run
from tests.merge.drawn import load
from tests.merge.repository import make_repository
from txtdb.merge.attributes import with_lines

B = "gfxB/attn_fwd.txtdb"
BLOCKS = {
    F1: ["64 a*3", "128 a b*2", "256 b c d"],
    F2: ["64 b*3", "128 b a*2", "256 a c d"],
    "fp16 1 64": ["64 c*3", "128 c a*2", "256 d b a"],
}
LAST = "fp16 1 64"


def text(blocks: dict[str, list[str]] | None = None, **entries: str) -> str:
    """The base, with the rows of some blocks replaced and some entries added."""
    return table("gfxB", {**BLOCKS, **(blocks or {})}, palette={**PALETTE, **entries})


NEW = {"e": "64 true 8 1"}
CASES = {
    "distant blocks": (text({F1: ["64 b a*2", *BLOCKS[F1][1:]]}), text({LAST: [*BLOCKS[LAST][:2], "256 d b*2"]}), True),
    "distant blocks, one with a new config": (
        text({F1: ["64 b a*2", *BLOCKS[F1][1:]]}),
        text({LAST: [*BLOCKS[LAST][:2], "256 e b a"]}, **NEW),
        True,
    ),
    "distant blocks, both with a new config": (
        text({F1: ["64 e a*2", *BLOCKS[F1][1:]]}, **NEW),
        text({LAST: [*BLOCKS[LAST][:2], "256 e b a"]}, e="32 false 8 1"),
        False,
    ),
    "one row": (text({F1: ["64 b a*2", *BLOCKS[F1][1:]]}), text({F1: ["64 a*2 b", *BLOCKS[F1][1:]]}), False),
    "neighbouring rows": (
        text({F1: ["64 b a*2", *BLOCKS[F1][1:]]}),
        text({F1: ["64 a*3", "128 b*3", "256 b c d"]}),
        False,
    ),
    "a block removed and changed": (
        table("gfxB", {F1: BLOCKS[F1], LAST: BLOCKS[LAST]}),
        text({F2: ["64 b*3", "128 b a*2", "256 a c*2"]}),
        False,
    ),
}


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_valid_file_or_a_conflict(name: str, attributes: bool, tmp_path: Path) -> None:
    ours, theirs, is_clean = CASES[name]
    files = {B: text(), ".gitattributes": with_lines(b"").decode() if attributes else "# none\n"}
    made = make_repository(tmp_path / "repository", files, drivers=False)
    made.branch("theirs", {B: theirs})
    made.commit({B: ours})
    done = made.git("merge", "-q", "theirs", code=None)
    assert done.code == (0 if is_clean else 1)
    if is_clean:
        load(made.read(B))
    else:
        assert made.git("diff", "--name-only", "--diff-filter=U").out == f"{B}\n"
        root = make_db(tmp_path, {B: made.read(B)})
        found = run("check", root, "--format", "json").json["findings"]
        assert "conflict-marker" in {finding["rule"] for finding in found}


def test_a_diff_without_the_driver_is_one_of_lines(tmp_path: Path) -> None:
    files = {B: text(), ".gitattributes": with_lines(b"").decode()}
    made = make_repository(tmp_path / "repository", files, drivers=False)
    made.commit({B: text({F1: ["64 b a*2", *BLOCKS[F1][1:]]})})
    assert "-64 a*3\n+64 b a*2\n" in made.git("show").out
