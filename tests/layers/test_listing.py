"""Which file is which, in any directory order; what cannot be read is a fault."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import txtdb
from tests.build import F1, IFACE, S0, make_db, patch, table, write_files
from txtdb.layers.listing import Listing, list_root


def names(listing: Listing) -> dict[str, list[str]]:
    return {
        "tables": [file.name for file in listing.tables.values()],
        "patches": [file.name for files in listing.patches.values() for file in files],
        "pins": [path.relative_to(listing.root).as_posix() for path in listing.pins.values()],
        "evidence": [
            path.relative_to(listing.root).as_posix() for paths in listing.evidence.values() for path in paths
        ],
        "schemas": sorted(listing.schemas),
        "strays": [path.relative_to(listing.root).as_posix() for path in listing.strays],
    }


def test_every_kind_of_file(tmp_path: Path) -> None:
    files = {
        "README.md": "",
        ".hidden": "",
        "notes.txt": "",
        "schema/x.toml": "",
        "schema/x.json": "",
        "gfxA/pins.toml": "",
        "gfxA/f.txtdb": "",
        "gfxA/f.v2.txtdb": "",
        "gfxA/f.0010-a.dbpatch": "",
        "gfxA/f.9-a.dbpatch": "",
        "gfxA/f.v2.0010-a.b.dbpatch": "",
        "gfxA/f.dbpatch": "",
        "gfxA/f.10a-x.dbpatch": "",
        "gfxA/f.0010-.dbpatch": "",
        "gfxA/f.1234567890-x.dbpatch": "",
        "gfxA/notes.md": "",
        "gfxA/evidence/e.json": "",
        "gfxA/evidence/e.csv": "",
        "gfxA/old/f.txtdb": "",
    }
    assert names(list_root(write_files(tmp_path / "db", files))) == {
        "tables": ["gfxA/f.txtdb", "gfxA/f.v2.txtdb"],
        "patches": ["gfxA/f.9-a.dbpatch", "gfxA/f.0010-a.dbpatch", "gfxA/f.v2.0010-a.b.dbpatch"],
        "pins": ["gfxA/pins.toml"],
        "evidence": ["gfxA/evidence/e.json"],
        "schemas": ["x"],
        "strays": [
            "gfxA/evidence/e.csv",
            "gfxA/f.0010-.dbpatch",
            "gfxA/f.10a-x.dbpatch",
            "gfxA/f.1234567890-x.dbpatch",
            "gfxA/f.dbpatch",
            "gfxA/old",
            "notes.txt",
            "schema/x.json",
        ],
    }


@pytest.fixture
def shuffled(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Directory listings come in an order drawn from the generator."""
    chance, plain = random.Random(), os.listdir

    def listdir(path: str = ".") -> list[str]:
        found = plain(path)
        chance.shuffle(found)
        return found

    def iterdir(self: Path) -> Iterator[Path]:
        return iter([self / name for name in listdir(str(self))])

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(Path, "iterdir", iterdir)
    return chance


def test_row_013_the_higher_patch_wins_in_any_directory_order(tmp_path: Path, shuffled: random.Random) -> None:
    """Patches 10 and 20 both set one cell: always 20's value, and both lines are told."""
    files = {
        "gfxB/attn_fwd.0010-a.dbpatch": patch("gfxB", {F1: ["64 b . ."]}),
        "gfxB/attn_fwd.0020-b.dbpatch": patch("gfxB", {F1: ["64 d . ."]}),
    }
    root = make_db(tmp_path, files)
    for seed in range(100):
        shuffled.seed(seed)
        explanation = txtdb.load(root)["gfxB"][IFACE].explain(
            dtype="fp16", causal=0, head_dim=64, seqlen_q=1, seqlen_k=1
        )
        assert isinstance(explanation.answer, txtdb.Config)
        assert explanation.answer["BLOCK_M"] == 128
        assert [str(entry.span).rpartition("/")[2] for entry in explanation.history] == [
            "attn_fwd.0020-b.dbpatch:14:4",
            "attn_fwd.0010-a.dbpatch:14:4",
            "attn_fwd.txtdb:16:4",
        ]


def test_row_012_names_of_many_dots(tmp_path: Path) -> None:
    """`attn_fwd.v2.txtdb` and `…10-a.b.dbpatch` are layers; `…dbpatch.bak` is none, and is told."""
    files = {
        "schema/attn_fwd.v2.toml": S0["schema/attn_fwd.toml"].replace('"attn_fwd"', '"attn_fwd.v2"'),
        "gfxB/attn_fwd.v2.txtdb": table("gfxB", {F1: ["64-256 a*3"]}, iface="attn_fwd.v2"),
        "gfxB/attn_fwd.v2.10-a.b.dbpatch": patch("gfxB", {F1: ["64 b . ."]}, iface="attn_fwd.v2"),
        "gfxB/attn_fwd.v2.10-a.dbpatch.bak": "",
    }
    database = txtdb.load(make_db(tmp_path, files))
    resolved = database["gfxB"]["attn_fwd.v2"]
    assert [Path(layer.file).name for layer in resolved.layers] == ["attn_fwd.v2.txtdb", "attn_fwd.v2.10-a.b.dbpatch"]
    assert [path.name for path in database.listings[0].strays] == ["attn_fwd.v2.10-a.dbpatch.bak"]


def rules(database: txtdb.Database, arch: str = "gfxB") -> list[tuple[str, str]]:
    faults = (*database.faults, *(database.resolve(arch, IFACE).faults if not database.faults else ()))
    return [(fault.rule, fault.span.file.rpartition("/db/")[2]) for fault in faults]


@pytest.mark.parametrize("name", ["gfxB/attn_fwd.txtdb", "gfxB/attn_fwd.1-x.dbpatch", "gfxB/pins.toml"])
@pytest.mark.parametrize("kind", ["broken link", "circle of links", "pipe"])
def test_a_layer_that_is_no_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    """It is not skipped: without it another config would be published."""
    root = make_db(tmp_path)
    path = root / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere" if kind == "broken link" else path.name)
    assert rules(txtdb.open_database(root)) == [("unreadable", name)]


@pytest.mark.parametrize("name", ["archs.toml", "schema/attn_fwd.toml"])
def test_a_head_file_that_is_no_regular_file(tmp_path: Path, name: str) -> None:
    root = make_db(tmp_path)
    (root / name).unlink()
    (root / name).symlink_to("nowhere")
    assert rules(txtdb.open_database(root)) == [("unreadable", name)]


def test_no_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "nothing", tmp_path / "file"):
        database = txtdb.open_database(path)
        assert [fault.rule for fault in database.faults] == ["no-root"]
        with pytest.raises(txtdb.FaultError, match="no such folder"):
            txtdb.load(path)
    empty = txtdb.open_database(tmp_path)
    assert [fault.rule for fault in empty.faults] == ["no-archs"]


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    (root / "gfxB" / "attn_fwd.txtdb").rename(tmp_path / "elsewhere")
    (root / "gfxB" / "attn_fwd.txtdb").symlink_to(tmp_path / "elsewhere")
    assert rules(txtdb.open_database(root)) == []
