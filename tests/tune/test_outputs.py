"""What `txtdb tune` writes, what it replaces, and its report."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest

from tests.tune.bench import CELLS, invoke, listed, make_bench
from txtdb.cli import tuning
from txtdb.tune import journal

CELL, OTHER = CELLS[0], CELLS[1]
TIMES = {CELL: {(64, 2): 800.0}}


def test_a_report_is_rendered_of_published_evidence(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    page = tmp_path / "page.html"
    code, out = invoke("tune", "report", str(made.root / "gfxA" / "evidence" / "tuned.json"), "-o", str(page))
    assert (code, out) == (0, f"{page.as_posix()}: written\n")
    assert "attn_fwd" in page.read_text(encoding="utf-8")


def test_a_report_of_something_else_is_refused(tmp_path):
    made = make_bench(tmp_path)
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    code, out = invoke("tune", "report", str(other), "--root", str(made.root), "-o", str(tmp_path / "page.html"))
    assert code == 2
    assert "this is no evidence" in out
    assert not (tmp_path / "page.html").exists()


def test_a_report_whose_page_cannot_be_written_says_so(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    file = tmp_path / "file"
    file.touch()
    evidence = made.root / "gfxA" / "evidence" / "tuned.json"
    code, out = invoke("tune", "report", str(evidence), "-o", str(file / "page.html"))
    assert code == 2
    assert "[unwritable]" in out


@pytest.mark.parametrize("place", ["/tuned.json", "/evidence/tuned.json", "/a/b/c/tuned.json"])
def test_a_report_of_a_file_that_lies_in_no_database_asks_for_one(tmp_path, monkeypatch, place):
    monkeypatch.setattr(tuning.Path, "absolute", lambda path: tuning.Path(place))
    (tmp_path / "tuned.json").write_text("{}", encoding="utf-8")
    code, out = invoke("tune", "report", str(tmp_path / "tuned.json"), "-o", str(tmp_path / "page.html"))
    assert code == 2
    assert "name its database with --root" in out


@pytest.mark.parametrize("text", ["", "[" * 100_000, "\x00"])
def test_files_that_are_no_json_are_refused(tmp_path, text):
    made = make_bench(tmp_path)
    other = tmp_path / "other.json"
    other.write_text(text, encoding="utf-8")
    done = made.tune("--all", "--policy", str(other), "--dry-run")
    assert (done.code, "this is no JSON" in done.err) == (2, True)
    code, out = invoke("tune", "report", str(other), "--root", str(made.root), "-o", str(tmp_path / "page.html"))
    assert (code, "this is no JSON" in out) == (2, True)


def full_disk(*_given):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_with_the_journal_that_does_not_fit(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    monkeypatch.setattr(journal.os, "fsync", full_disk)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert done.code == 2
    assert re.search(r"\.journal: error: cannot write: No space left on device \[unwritable\]", done.err)
    monkeypatch.undo()
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0


def test_a_disk_that_is_full_when_the_journal_is_closed_is_told_too(tmp_path, monkeypatch):
    made = make_bench(tmp_path, TIMES)
    close = journal.Journal.close

    def closed(self):
        with monkeypatch.context() as patched:
            patched.setattr(journal.os, "fsync", full_disk)
            close(self)

    monkeypatch.setattr(journal.Journal, "close", closed)
    done = made.tune("--cells", listed(tmp_path, CELL))
    assert done.code == 2
    assert "No space left on device [unwritable]" in done.err


@pytest.mark.parametrize("name", ["table", "patch", "device", "notes"])
def test_evidence_replaces_nothing_that_is_no_evidence(tmp_path, name):
    made = make_bench(tmp_path, TIMES)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n", encoding="utf-8")
    patch = made.root / "gfxA/attn_fwd.0010-a.dbpatch"
    patch.write_text("#! txtdb-patch 1\n", encoding="utf-8")
    path = {"table": made.root / "gfxA/attn_fwd.txtdb", "patch": patch, "device": made.device, "notes": notes}[name]
    if name != "patch":
        patch.unlink()
    before = path.read_bytes()
    done = made.tune("--cells", listed(tmp_path, CELL), "--evidence-out", str(path))
    assert (done.code, path.read_bytes()) == (2, before)
    if name != "patch":
        why = {"table": "the file would lie in the database"}.get(
            name, "something else of this name, which is not replaced"
        )
        assert why in done.err
    assert not list(made.journals.glob("*.journal"))


def test_evidence_replaces_evidence_and_an_empty_file(tmp_path):
    made, out = make_bench(tmp_path, TIMES), tmp_path / "out.json"
    out.touch()
    for name in ("one", "two"):
        given = ("--cells", listed(tmp_path, CELL), "--evidence-out", str(out), "--name", name)
        assert made.tune(*given).code == 0
        assert json.loads(out.read_text(encoding="utf-8"))["name"] == name


def test_evidence_beside_the_journal_replaces_nothing_that_is_no_evidence(tmp_path):
    """It is looked at before anything is measured."""
    made, journal = make_bench(tmp_path, TIMES), tmp_path / "foo.journal"
    mine = tmp_path / "foo-tuned.json"
    mine.write_text('{"mine": 1}', encoding="utf-8")
    done = made.tune("--cells", listed(tmp_path, CELL), "--journal", str(journal))
    assert (done.code, mine.read_text(encoding="utf-8")) == (2, '{"mine": 1}')
    assert "something else of this name, which is not replaced" in done.err
    assert b'"times"' not in journal.read_bytes()
    assert made.patches() == {}


def test_evidence_is_not_kept_in_a_database(tmp_path):
    """There it would replace what other patches name."""
    made, cells = make_bench(tmp_path, TIMES), listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    before = made.patches()
    (tmp_path / "link").symlink_to(made.root, target_is_directory=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "archs.toml").touch()
    places = (
        made.root / "gfxA/evidence/tuned.json",
        made.root / "new.json",
        tmp_path / "link/x.json",
        other / "x.json",
    )
    for place in places:
        done = made.tune("--cells", cells, "--name", "two", "--evidence-out", str(place))
        assert (done.code, "the file would lie in the database" in done.err) == (2, True)
    assert made.patches() == before
    assert not (other / "x.json").exists()


def test_a_journal_is_not_kept_with_published_evidence(tmp_path):
    """What is kept beside it would replace the evidence that a patch names."""
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL), "--name", "foo-a").code == 0
    before = made.patches()
    journal = str(made.root / "gfxA" / "evidence" / "foo.journal")
    done = made.tune("--cells", listed(tmp_path, OTHER), "--journal", journal, "--name", "a")
    assert (done.code, made.patches()) == (2, before)
    assert "the journal would lie beside published evidence, and its own beside it" in done.err


def test_evidence_does_not_replace_the_journal(tmp_path):
    made, cells, both = make_bench(tmp_path, TIMES), listed(tmp_path, CELL), tmp_path / "a.json"
    done = made.tune("--cells", cells, "--journal", str(both), "--evidence-out", str(tmp_path / "." / "a.json"))
    assert (done.code, both.exists()) == (2, False)
    assert "this is the journal of the run" in done.err
    assert made.tune("--cells", cells).code == 0
    before = made.journal().read_bytes()
    done = made.tune("--cells", cells, "--name", "two", "--evidence-out", str(made.journal()))
    assert (done.code, made.journal().read_bytes()) == (2, before)


def test_evidence_goes_where_a_link_leads_to_and_to_what_is_no_file(tmp_path):
    made, cells = make_bench(tmp_path, TIMES), listed(tmp_path, CELL)
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    assert made.tune("--cells", cells, "--evidence-out", str(link)).code == 0
    assert link.is_symlink()
    assert json.loads(target.read_text(encoding="utf-8"))["name"] == "tuned"
    assert made.tune("--cells", cells, "--name", "two", "--evidence-out", os.devnull).code == 0


def test_outputs_of_names_that_no_file_can_have_are_refused(tmp_path):
    made, cells = make_bench(tmp_path, TIMES), listed(tmp_path, CELL)
    assert made.tune("--cells", cells).code == 0
    evidence, long = made.root / "gfxA/evidence/tuned.json", str(tmp_path / ("x" * 300))
    code, text = invoke("tune", "report", str(evidence), "-o", long)
    assert (code, "cannot write: File name too long" in text) == (2, True)
    code, text = invoke("review", "HEAD..", "--root", str(made.root), "--out", f"{long}.md")
    assert (code, "cannot write: File name too long" in text) == (2, True)
    code, text = invoke("aot", "build", str(made.root), "--out", f"{long}.pack")
    assert (code, "cannot write: File name too long" in text) == (2, True)
    done = made.tune("--cells", cells, "--evidence-out", long)
    assert (done.code, "cannot write: File name too long" in done.err) == (2, True)


def test_a_report_replaces_nothing_but_a_page(tmp_path):
    made = make_bench(tmp_path, TIMES)
    assert made.tune("--cells", listed(tmp_path, CELL)).code == 0
    evidence = made.root / "gfxA/evidence/tuned.json"
    before = evidence.read_bytes()
    for out in (evidence, made.root / "gfxA/attn_fwd.txtdb"):
        code, text = invoke("tune", "report", str(evidence), "-o", str(out))
        assert (code, "which is not replaced" in text) == (2, True)
    assert evidence.read_bytes() == before
    page = tmp_path / "page.html"
    assert [invoke("tune", "report", str(evidence), "-o", str(page))[0] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("why", ["faster 👩\u200d💻", "می\u200cخواهم"])
def test_signs_that_join_what_is_seen_are_part_of_a_reason(tmp_path, why):
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL), "--why", why)
    assert done.code == 0, done.err
    (patch,) = (made.root / "gfxA").glob("*.dbpatch")
    assert f"#! why {why}\n" in patch.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "why",
    [
        "\x1b[31mred",
        "a\x7f",
        "bad\udcff",
        "\u202eright",
        "a\ufeff",
        "\u200da",
        "a\u200d",
        "a\u200c b",
        "a\u200d\u200db",
    ],
)
def test_a_reason_has_no_sign_that_nobody_sees(tmp_path, why):
    made = make_bench(tmp_path, TIMES)
    done = made.tune("--cells", listed(tmp_path, CELL), "--why", why)
    assert (done.code, made.patches()) == (2, {})
    assert "which nobody sees: leave it out" in done.err
    where = ("gfxA", "attn_fwd", "head_dim=64", "seqlen_q=64", "seqlen_k=64", "--patch", "0010-a")
    code, text = invoke("set", str(made.root), *where, "--why", why, "--", "BLOCK_M=64")
    assert (code, "which nobody sees" in text) == (2, True)


@pytest.mark.parametrize("text", ["64 64 64\n", "notes", "#! txtdb 1\n#! iface attn_fwd\n"])
@pytest.mark.parametrize("repair", [False, True])
def test_what_never_was_a_journal_is_left_alone(tmp_path, text, repair):
    made, path = make_bench(tmp_path, TIMES), tmp_path / "notes.txt"
    path.write_text(text, encoding="utf-8")
    more = ("--repair",) if repair else ()
    done = made.tune("--cells", listed(tmp_path, CELL), "--journal", str(path), *more)
    assert (done.code, path.read_text(encoding="utf-8")) == (2, text)
    assert "this is no journal" in done.err
    assert not list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("data", [b"", b'{"evidence": 1, "if', b"[" * 100_000])
def test_a_report_of_what_is_no_json_says_so(tmp_path, data):
    made, path = make_bench(tmp_path, TIMES), tmp_path / "run.json"
    path.write_bytes(data)
    code, text = invoke("tune", "report", str(path), "--root", str(made.root), "-o", str(tmp_path / "x.html"))
    assert (code, "this is no JSON" in text) == (2, True)
