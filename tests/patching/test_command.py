"""What the patch commands share: all files or none, dry runs, JSON, read-only trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import F1, TABLE_B, make_db, patch, table
from tests.cli.run import run
from txtdb.patching import files as patching_files
from txtdb.patching.files import write_change
from txtdb.patching.naming import PatchName, next_number, parse_name
from txtdb.patching.sources import joined_origin

B = "gfxB/attn_fwd.txtdb"
FIRST = "gfxB/attn_fwd.0010-first.dbpatch"
SECOND = "gfxB/attn_fwd.0020-second.dbpatch"
FILES: dict[str, str | None] = {FIRST: patch("gfxB", {F1: ["64 d d ."]}), SECOND: patch("gfxB", {F1: ["64 . c ."]})}


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def commands(tmp_path: Path) -> dict[str, list[str | Path]]:
    """One run of each command, each of which would write something below `db`."""
    root = make_db(tmp_path, FILES)
    own = table("gfxA", {F1: ["128 . b ."]}, base="gfxB")
    new = make_db(tmp_path, {**FILES, B: TABLE_B.replace("128 a b*2", "128 a d b"), "gfxA/attn_fwd.txtdb": own}, "new")
    more = tmp_path / "attn_fwd.0010-more.dbpatch"
    more.write_text(patch("gfxB", {F1: ["256 d . ."]}))
    return {
        "create": [root, new, "--name", "change", "--iface", "attn_fwd"],
        "apply": [more, root],
        "squash": [root, "gfxB", "attn_fwd"],
        "rebase": [root / FIRST, root / SECOND],
        "revert": [root / FIRST],
    }


NAMES = ["create", "apply", "squash", "rebase", "revert"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_writes_nothing_and_says_the_same(tmp_path: Path, name: str) -> None:
    args = commands(tmp_path)[name]
    before = content(tmp_path / "db")
    dry = run("patch", name, *args, "--dry-run", "--format", "json")
    assert dry.code == 0, dry.err
    assert content(tmp_path / "db") == before
    assert "would be written" in run("patch", name, *args, "--dry-run").out
    wet = run("patch", name, *args, "--format", "json")
    assert wet.code == 0
    assert content(tmp_path / "db") != before
    assert dry.json == {**wet.json, "dry_run": True}
    assert wet.json["files"]
    assert wet.json["faults"] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_write_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = commands(tmp_path)[name]
    before = content(tmp_path / "db")
    written: list[Path] = []
    put = patching_files._put

    def fail_last(path: Path, data: bytes | None) -> None:
        """The last file of the change cannot be written or removed; putting things back works."""
        written.append(path)
        if len(written) == len(changes):
            raise PermissionError(13, "Permission denied", str(path))
        put(path, data)

    changes = run("patch", name, *args, "--dry-run", "--format", "json").json["files"]
    monkeypatch.setattr(patching_files, "_put", fail_last)
    done = run("patch", name, *args)
    assert done.code == 2
    assert "[unwritable]" in done.err
    assert content(tmp_path / "db") == before


@pytest.mark.parametrize("name", NAMES)
def test_faults_are_in_the_json_too(tmp_path: Path, name: str) -> None:
    args = commands(tmp_path)[name]
    broken = tmp_path / "db" / B
    broken.write_text(broken.read_text().replace("128 a b*2", "128 a b"))
    before = content(tmp_path / "db")
    done = run("patch", name, *args, "--format", "json")
    assert done.code == 1
    assert "row-too-short" in {fault["rule"] for fault in done.json["faults"]}
    assert done.json["files"] == []
    assert content(tmp_path / "db") == before


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_no_database(tmp_path: Path, name: str) -> None:
    args = commands(tmp_path)[name]
    (tmp_path / "db" / "archs.toml").unlink()
    assert run("patch", name, *args).code == 2


def test_a_dry_run_on_a_read_only_tree(tmp_path: Path) -> None:
    calls = commands(tmp_path)
    root = tmp_path / "db"
    for path in (*root.rglob("*"), root):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for name in NAMES:
        assert run("patch", name, *calls[name], "--dry-run").code == 0, name


class TestWriteChange:
    def test_removed_files_come_back(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("old a")
        (tmp_path / "folder").mkdir()
        with pytest.raises(OSError):
            write_change(tmp_path, {"a": None, "b": b"new", "folder": None})
        assert (tmp_path / "a").read_text() == "old a"
        assert not (tmp_path / "b").exists()

    def test_nothing_is_touched_that_stays_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("same")
        before = (tmp_path / "a").stat().st_ino
        write_change(tmp_path, {"a": b"same"})
        assert (tmp_path / "a").stat().st_ino == before


@pytest.mark.parametrize(
    ("taken", "number"), [([], 10), ([10], 20), ([9], 10), ([11, 3], 20), ([999_999_995], 999_999_996)]
)
def test_next_number(taken: list[int], number: int) -> None:
    assert next_number(taken) == number


def test_names_of_files() -> None:
    assert parse_name("attn.fwd.0010-a.b-c.dbpatch") == PatchName("attn.fwd", 10, "a.b-c")
    assert PatchName("attn_fwd", 12345, "x").file == "attn_fwd.12345-x.dbpatch"
    assert parse_name("attn_fwd.txtdb") is None


@pytest.mark.parametrize(
    ("origins", "joined"),
    [
        ([], None),
        ([None], None),
        (["measured a", "measured a"], "measured a"),
        (["measured a", None], "hand mixed: measured a; unknown"),
        (["measured a", "imported b"], "imported mixed: imported b; measured a"),
        (["imported mixed: imported b; measured a", "hand c; d"], "hand mixed: hand c; d; imported b; measured a"),
        (["modelled", "hand"], "hand mixed: hand; modelled"),
    ],
)
def test_joined_origins(origins: list[str | None], joined: str | None) -> None:
    assert joined_origin(origins) == joined
    assert joined_origin(reversed(origins)) == joined
    assert joined_origin([joined, *origins]) == joined or not origins or None in origins
