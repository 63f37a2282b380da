"""`txtdb merge`: exit codes, what it writes and what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import F1, S0, SCHEMA, TABLE_B, make_db, table, write_files
from tests.cli.run import Ran, run

FIRST = TABLE_B.replace("64 a*3", "64 b a*2")
LAST = TABLE_B.replace("64 a*3", "64 a*2 c")
OTHER_FIRST = TABLE_B.replace("64 a*3", "64 c a*2")


@pytest.fixture
def merge(tmp_path: Path):
    """Merge three texts in a folder; what was written is in `out.txtdb`."""

    def run_merge(base: str, ours: str, theirs: str, *options: str) -> tuple[Ran, str | None]:
        files = {"base.txtdb": base, "ours.txtdb": ours, "theirs.txtdb": theirs}
        write_files(tmp_path, files)
        out = tmp_path / "out.txtdb"
        ran = run("merge", *(tmp_path / name for name in files), "-o", out, *options)
        return ran, out.read_bytes().decode() if out.exists() else None

    return run_merge


def test_edits_of_different_cells(merge) -> None:
    ran, text = merge(TABLE_B, FIRST, LAST)
    assert ran.code == 0
    assert text == TABLE_B.replace("64 a*3", "64 b a c")
    assert ran.out.endswith("out.txtdb: cells: 1 from ours, 1 from theirs; no conflict\n")


def test_a_conflict_shows_base_ours_and_theirs(merge) -> None:
    ran, text = merge(TABLE_B, FIRST.replace("hand test", "measured run"), OTHER_FIRST)
    assert ran.code == 1
    assert "<<<<<<< ours" in text
    lines = ran.out.splitlines()
    assert lines[0].endswith("in conflict: 1 cell")
    assert lines[1] == "conflict: dtype=fp16 causal=0 head_dim=64 seqlen_q=64 seqlen_k=64"
    assert [line.split()[:2] for line in lines[2:]] == [
        ["base", "BLOCK_M=32"],
        ["ours", "BLOCK_M=64"],
        ["theirs", "BLOCK_M=64"],
    ]
    assert lines[3].endswith("ours.txtdb:16:4; origin measured run)")


def test_the_report_as_json(merge) -> None:
    ran, _ = merge(
        TABLE_B.replace("hand test", "hand x"), FIRST, OTHER_FIRST.replace("hand test", "hand z"), "--format", "json"
    )
    assert ran.code == 1
    report = ran.json
    assert report["conflict"] is True
    assert report["clash"] is None
    assert report["counts"] == {"ours": 0, "theirs": 0, "both": 0, "conflicts": 1}
    assert report["origins"]["theirs"] == "origin hand z"
    (directive,) = report["directives"]
    assert directive == {
        "directive": "origin",
        "of": None,
        "base": "#! origin hand x",
        "ours": "#! origin hand test",
        "theirs": "#! origin hand z",
    }
    (cell,) = report["cells"]
    assert cell["functional"] == {"dtype": "fp16", "causal": "0", "head_dim": "64"}
    assert cell["at"] == {"seqlen_q": 64, "seqlen_k": 64}
    assert cell["theirs"]["content"]["PRE_LOAD_V"] == "false"
    assert cell["theirs"]["at"].endswith("theirs.txtdb:16:4")


def test_versions_that_cannot_be_laid_over_each_other(merge) -> None:
    ran, text = merge(TABLE_B, FIRST, LAST.replace("head_dim", "dim"))
    assert ran.code == 1
    assert "their keys are not the same" in ran.out
    assert text.startswith("<<<<<<< ours\n")


@pytest.mark.parametrize("broken", range(3))
def test_row_037_a_broken_version_writes_nothing(merge, broken: int) -> None:
    texts = [TABLE_B, FIRST, LAST]
    texts[broken] = texts[broken].replace("256 b c d", "256 b c")
    ran, text = merge(*texts)
    assert ran.code == 2
    assert text is None
    assert f"{('base', 'ours', 'theirs')[broken]}.txtdb:18:1: error" in ran.err
    assert ran.err.count("error") == 1


def test_row_035_conflict_markers_in_a_version_are_named(merge) -> None:
    ran, text = merge(TABLE_B, FIRST.replace("64 b a*2", "<<<<<<< HEAD\n64 b a*2"), LAST)
    assert ran.code == 2
    assert text is None
    assert "ours.txtdb:16:1: error: unresolved merge conflict, line 16 [conflict-marker]" in ran.err


def test_an_empty_base_means_that_both_added_the_file(merge) -> None:
    ran, text = merge("", table("gfxB", {F1: ["64 a*3"]}), table("gfxB", {F1: ["128 b*3"]}))
    assert ran.code == 0
    assert text == table("gfxB", {F1: ["64 a*3", "128 b*3"]})


@pytest.mark.parametrize("base", [TABLE_B, ""])
@pytest.mark.parametrize("empty", ["ours", "theirs"])
def test_an_empty_side_is_a_version_that_cannot_be_read(merge, empty: str, base: str) -> None:
    ran, text = merge(base, *(("", LAST) if empty == "ours" else (LAST, "")))
    assert ran.code == 2
    assert text is None
    assert f"{empty}.txtdb:1:1: error" in ran.err
    assert "[no-magic]" in ran.err
    assert ran.err.count("error") == 1


def test_a_base_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path, {"ours.txtdb": FIRST, "theirs.txtdb": LAST})
    ran = run("merge", tmp_path / "none", tmp_path / "ours.txtdb", tmp_path / "theirs.txtdb", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "cannot read" in ran.err
    assert not (tmp_path / "out").exists()


def test_the_output_may_be_one_of_the_three_and_a_link_stays_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"base.txtdb": TABLE_B, "real.txtdb": FIRST, "theirs.txtdb": LAST})
    ours = tmp_path / "ours.txtdb"
    ours.symlink_to("real.txtdb")
    assert run("merge", tmp_path / "base.txtdb", ours, tmp_path / "theirs.txtdb", "-o", ours).code == 0
    assert ours.is_symlink()
    assert (tmp_path / "real.txtdb").read_text() == TABLE_B.replace("64 a*3", "64 b a c")


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"base.txtdb": TABLE_B})
    pipe, base = tmp_path / "pipe", tmp_path / "base.txtdb"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("merge", base, base, base, "-o", pipe).code == 0
        assert os.read(reader, 10_000).decode() == TABLE_B
    finally:
        os.close(reader)


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    write_files(tmp_path, {"base.txtdb": TABLE_B})
    base = tmp_path / "base.txtdb"
    ran = run("merge", base, base, base, "-o", base / "out.txtdb")
    assert ran.code == 2
    assert "cannot write" in ran.err


SPELLED = table(
    "gfxB",
    {F1: ["64 a*3"]},
    fields="BLOCK_M PRE_LOAD_V num_warps num_stages waves_per_eu",
    palette={"a": "32 true 2 1 0"},
)
SHORT = table("gfxB", {F1: ["64 a*3"]})
CHANGED = table("gfxB", {F1: ["64 a*2 b"]})


def test_row_029_defaults_come_from_the_schema_around_the_file(tmp_path: Path, merge) -> None:
    assert merge(SHORT, SPELLED, CHANGED)[0].code == 1
    root = make_db(tmp_path, {"gfxB/base.txtdb": SHORT, "gfxB/ours.txtdb": SPELLED, "gfxB/theirs.txtdb": CHANGED})
    files = [root / "gfxB" / f"{name}.txtdb" for name in ("base", "ours", "theirs")]
    assert run("merge", *files, "-o", tmp_path / "out.txtdb").code == 0
    assert "[fp16 0 64]\n64 a*2 b\n" in (tmp_path / "out.txtdb").read_text()
    assert (tmp_path / "out.txtdb").read_text().count(" = ") == 2


def test_row_029_defaults_come_from_a_schema_that_is_named(tmp_path: Path, merge) -> None:
    write_files(tmp_path, {"attn_fwd.toml": SCHEMA, "wrong.toml": "iface = 3\n"})
    assert merge(SHORT, SPELLED, CHANGED, "--schema", str(tmp_path / "attn_fwd.toml"))[0].code == 0
    ran, _ = merge(SHORT, SPELLED, CHANGED, "--schema", str(tmp_path / "wrong.toml"))
    assert ran.code == 2
    assert "wrong.toml" in ran.err
    assert merge(SHORT, SPELLED, CHANGED, "--schema", str(tmp_path / "none.toml"))[0].code == 2


def test_schemas_that_do_not_agree_give_no_default(tmp_path: Path) -> None:
    texts = {"base": SHORT, "ours": SPELLED, "theirs": CHANGED}
    for name, text in texts.items():
        schema = SCHEMA.replace("default = 0", f"default = {int(name == 'theirs')}")
        make_db(tmp_path, {"schema/attn_fwd.toml": schema, "gfxB/attn_fwd.txtdb": text}, name=name)
    files = [tmp_path / name / "gfxB" / "attn_fwd.txtdb" for name in texts]
    ran = run("merge", *files, "-o", tmp_path / "out.txtdb")
    assert ran.code == 1
    assert "no schema gives the missing ones a default" in ran.out


def test_a_file_with_conflicts_is_found_by_check_and_gives_no_tables(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    write_files(tmp_path, {"ours.txtdb": FIRST, "theirs.txtdb": OTHER_FIRST})
    table_b = root / "gfxB" / "attn_fwd.txtdb"
    assert run("merge", table_b, tmp_path / "ours.txtdb", tmp_path / "theirs.txtdb", "-o", table_b).code == 1
    found = run("check", root, "--format", "json").json["findings"]
    assert "conflict-marker" in {finding["rule"] for finding in found}
    assert run("codegen", root, "--out", tmp_path / "generated").code == 1
    assert not (tmp_path / "generated").exists()
    assert run("resolve", root, "gfxB", "attn_fwd").code == 1


def test_the_files_are_left_alone(tmp_path: Path, merge) -> None:
    merge(TABLE_B, FIRST, OTHER_FIRST)
    assert (tmp_path / "base.txtdb").read_text() == TABLE_B == S0["gfxB/attn_fwd.txtdb"]
    assert (tmp_path / "ours.txtdb").read_text() == FIRST
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.txtdb", "ours.txtdb", "out.txtdb", "theirs.txtdb"]
