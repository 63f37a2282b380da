"""`txtdb fmt`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import F1, TABLE_A, TABLE_B, make_db, patch, write_files
from tests.cli.run import run

MESSY = TABLE_B.replace("64 a*3", "64 a a  a").replace("\n\n", "\n\n\n")
BROKEN = TABLE_B.replace("64 a*3", "64 a*2")


def test_rewrites_and_exits_0(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(MESSY)
    ran = run("fmt", file)
    assert (ran.code, ran.out) == (0, f"{file.as_posix()}\n")
    assert file.read_text() == TABLE_B
    assert "1 reformatted" in ran.err


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(MESSY)
    run("fmt", file)
    ran = run("fmt", file)
    assert (ran.code, ran.out) == (0, "")
    assert "1 unchanged" in ran.err


def test_canonical_file_is_not_touched(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    file = root / "gfxB/attn_fwd.txtdb"
    os.utime(file, ns=(1, 1))
    inode = file.stat().st_ino
    assert run("fmt", root).code == 0
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (1, inode)


def test_prune_leaves_out_entries_that_no_row_uses_unless_they_have_a_comment(tmp_path: Path) -> None:
    """Nothing uses `a`, `e` and `f` any more; the rest keeps its symbols."""
    file = tmp_path / "t.txtdb"
    text = TABLE_B.replace("64 a*3\n128 a b*2\n", "64-128 b*3\n")
    text = text.replace("8 2\n", "8 2\n# for later\ne = 16 true 2 1\nf = 16 true 4 1\n")
    file.write_text(text)
    assert run("fmt", "--check", file).code == 0
    assert run("fmt", "--prune", "--check", file).code == 1
    assert run("fmt", "--prune", file).code == 0
    assert file.read_text() == text.replace("a = 32 true 2 1\n", "").replace("f = 16 true 4 1\n", "")


def test_check_lists_writes_nothing_and_exits_1(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": MESSY})
    ran = run("fmt", "--check", root)
    assert (ran.code, ran.out) == (1, f"{(root / 'gfxB/attn_fwd.txtdb').as_posix()}\n")
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == MESSY


def test_check_of_canonical_files_exits_0(tmp_path: Path) -> None:
    assert run("fmt", "--check", make_db(tmp_path)).code == 0


def test_diff_prints_hunks_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(MESSY)
    ran = run("fmt", "--diff", file)
    assert ran.code == 0
    assert "-64 a a  a\n+64 a*3\n" in ran.out
    assert ran.out.startswith(f"--- {file.as_posix()}\n+++ {file.as_posix()}\n@@")
    assert file.read_text() == MESSY


def test_diff_with_check_exits_1(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(MESSY)
    ran = run("fmt", "--diff", "--check", file)
    assert ran.code == 1
    assert "+64 a*3\n" in ran.out


def test_diff_of_a_file_without_last_newline_says_so(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(TABLE_B.removesuffix("\n"))
    assert "-#! end\n\\ No newline at end of file\n+#! end\n" in run("fmt", "--diff", file).out


def test_row_116_crlf_becomes_lf(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    lines = TABLE_B.splitlines()
    mixed = "".join(line + ("\r\n" if number % 2 else "\n") for number, line in enumerate(lines))
    file.write_bytes(mixed.encode())
    assert "\r\n" in run("fmt", "--diff", file).out
    assert run("fmt", file).code == 0
    assert file.read_bytes() == TABLE_B.encode()


def test_row_001_line_of_blanks_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    file.write_text(TABLE_A.replace("\n\n[", "\n  \n["))
    assert run("fmt", file).code == 0
    assert file.read_text() == TABLE_A


def test_row_037_faulty_file_is_left_alone_and_the_others_are_formatted(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": BROKEN, "gfxA/attn_fwd.txtdb": TABLE_A.replace("b*3", "b b*2")})
    ran = run("fmt", root)
    assert ran.code == 1
    assert f"{(root / 'gfxB/attn_fwd.txtdb').as_posix()}:16:1: error: the row has 2 of 3 cells" in ran.err
    assert (root / "gfxB/attn_fwd.txtdb").read_text() == BROKEN
    assert (root / "gfxA/attn_fwd.txtdb").read_text() == TABLE_A


def test_folders_are_searched_for_tables_and_patches_only(tmp_path: Path) -> None:
    messy = patch("gfxB", {F1: ["64 b . ."]}).replace(". .", ".*1 .")
    files = {"a/x.0001-p.dbpatch": messy, "a/notes.txt": "x", ".git/x.txtdb": "x", "a/b/y.txtdb": TABLE_B}
    root = write_files(tmp_path, files)
    ran = run("fmt", "--format", "json", root)
    assert ran.code == 0
    assert [(Path(f["file"]).name, f["state"]) for f in ran.json["files"]] == [
        ("y.txtdb", "unchanged"),
        ("x.0001-p.dbpatch", "changed"),
    ]


def test_file_named_twice_is_taken_once(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    assert "2 unchanged" in run("fmt", root, root / "gfxA/attn_fwd.txtdb", root).err


@pytest.mark.parametrize("name", ["empty", "absent"])
def test_nothing_to_format_exits_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("fmt", tmp_path / name)
    assert ran.code == 2
    assert (tmp_path / name).as_posix() in ran.err


def test_without_paths_exits_2() -> None:
    assert run("fmt").code == 2


def test_json_has_states_faults_and_diffs(tmp_path: Path) -> None:
    files = {"bad.txtdb": BROKEN, "good.txtdb": TABLE_B, "messy.txtdb": MESSY}
    ran = run("fmt", "--diff", "--format", "json", write_files(tmp_path, files))
    assert ran.code == 1
    assert [entry["state"] for entry in ran.json["files"]] == ["faulty", "unchanged", "changed"]
    assert ran.json["faults"][0]["rule"] == "row-too-short"
    assert ran.json["files"][0]["diff"] == ran.json["files"][1]["diff"] == ""
    assert "+64 a*3\n" in ran.json["files"][2]["diff"]


def test_write_that_fails_exits_2_and_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise PermissionError(13, "the folder is read-only", str(path))

    monkeypatch.setattr("txtdb.editing.tidy.atomic_write", refuse)
    file = tmp_path / "t.txtdb"
    file.write_text(MESSY)
    ran = run("fmt", file)
    assert ran.code == 2
    assert "cannot write: the folder is read-only" in ran.err
    assert "1 with faults, left alone" in ran.err
    assert "reformatted" not in ran.err
    assert file.read_text() == MESSY


def test_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txtdb", tmp_path / "link.txtdb"
    target.write_text(MESSY)
    link.symlink_to(target)
    assert run("fmt", link).code == 0
    assert link.is_symlink()
    assert target.read_text() == TABLE_B


def test_comments_and_own_directives_stay(tmp_path: Path) -> None:
    file = tmp_path / "t.txtdb"
    text = TABLE_B.replace("[fp16", "# why this block\n#! x-mark 1\n[fp16").replace("128 a", "# a row's comment\n128 a")
    file.write_text(text)
    assert run("fmt", "--check", file).code == 0
