"""The real database's layers: gfx1150 and gfx1151 lie over gfx1100 with few cells of their own, others with none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import txtdb
from tests.conftest import REAL_BASES
from txtdb.faults import Span
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.values import parse_value

pytestmark = pytest.mark.real

ARCHS = ("gfx1150", "gfx1151")
KERNELS = ("attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse")
OWN_CELLS = 576
# Of the inherited cells every so many-th is explained: a prime, so that all bins are met.
STEP = 41

over_gfx1100 = pytest.mark.parametrize(
    ("arch", "iface"), [(arch, iface) for arch in ARCHS for iface in KERNELS], ids="-".join
)


@pytest.fixture(scope="module")
def db(real_db: Path) -> txtdb.Database:
    return txtdb.load(real_db)


def own_cells(table: ResolvedTable) -> npt.NDArray[np.bool_]:
    """Which cells a layer of the arch itself decides; shape as `table.cells`."""
    return np.isin(table.winner, [number for number, layer in enumerate(table.layers) if layer.arch == table.arch])


@over_gfx1100
def test_own_cells_win_and_all_others_are_the_base(db: txtdb.Database, arch: str, iface: str) -> None:
    table, base = db[arch][iface], db["gfx1100"][iface]
    assert [layer.arch for layer in table.layers] == ["gfx1100", arch]
    assert (table.functionals, table.bins) == (base.functionals, base.bins)
    own = own_cells(table)
    assert int(own.sum()) == OWN_CELLS
    assert np.array_equal(table.cells[~own], base.cells[~own])
    assert not np.any(base.winner)
    keys = [table.schema.functional_dict(table.functionals[number]) for number in np.unique(np.argwhere(own)[:, 0])]
    assert {(key["BLOCK_DMODEL"], key["ENABLE_DROPOUT"]) for key in keys} == {(64, False)}


@pytest.mark.parametrize("arch", ARCHS)
def test_own_cells_are_those_that_the_file_alone_sets(db: txtdb.Database, arch: str) -> None:
    """Some differ from what the base gives, so that they could not have come from there."""
    for iface in KERNELS:
        table = db[arch][iface]
        own, layer = own_cells(table), table.layers[-1].table
        flat = {
            (functional, *bins): int(layer.cells[(number, *at)])
            for number, functional in enumerate(layer.functionals)
            for at in np.ndindex(layer.cells.shape[1:])
            for bins in [tuple(axis[place] for axis, place in zip(layer.bins, at, strict=True))]
        }
        won = {
            (table.functionals[at[0]], *(axis[place] for axis, place in zip(table.bins, at[1:], strict=True))): int(
                table.cells[tuple(at)]
            )
            for at in np.argwhere(own).tolist()
        }
        assert won == {place: cell for place, cell in flat.items() if cell >= 0}
        assert np.any(table.cells[own] != db["gfx1100"][iface].cells[own])


@over_gfx1100
def test_explain_names_file_and_line(db: txtdb.Database, arch: str, iface: str) -> None:
    """Every own cell, and a sample of the inherited ones: the run stands there, over that bin, with that config."""
    table = db[arch][iface]
    own = own_cells(table)
    inherited = np.argwhere(~own)[::STEP]
    assert len(inherited) > 200
    for source, places in ((arch, np.argwhere(own)), ("gfx1100", inherited)):
        for at in places.tolist():
            functional = table.functionals[at[0]]
            sizes = [bins[place] for bins, place in zip(table.bins, at[1:], strict=True)]
            told = table.explain(
                **table.schema.functional_dict(functional), **dict(zip(table.schema.axis_names, sizes, strict=True))
            )
            assert told.winner is not None
            assert Path(told.winner.span.file).parts[-2:] == (source, f"{iface}.txtdb")
            assert told.winner.config == table.pool[int(table.cells[tuple(at)])]
            assert config_at(told.winner.span, table, *sizes) == told.winner.config


def config_at(span: Span, table: ResolvedTable, q: int, k: int) -> tuple[object, ...]:
    """The config of the run that stands at a span, found in the file's text; the run must cover the two bins."""
    lines, palette, fields = text_of(span.file)
    line = lines[span.line - 1]
    label, *runs = line.split(" ")
    first, _, last = label.partition("-")
    assert int(first) <= q <= int(last or first)
    run = line[span.column - 1 : span.last_column]
    column = table.bins[1].index(k)
    (index,) = [number for number, (start, stop) in enumerate(extents(runs)) if start <= column < stop]
    assert len(" ".join([label, *runs[:index], ""])) == span.column - 1
    assert runs[index] == run
    texts = dict(zip(fields, palette[run.partition("*")[0]], strict=True))
    return tuple(
        parse_value(texts[item.name], item.type) if item.name in texts else item.default for item in table.schema.config
    )


def extents(runs: list[str]) -> Iterator[tuple[int, int]]:
    """First column and the one behind the last of each run."""
    start = 0
    for run in runs:
        stop = start + int(run.partition("*")[2] or 1)
        yield start, stop
        start = stop


@cache
def text_of(file: str) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Lines, palette and config fields of a file."""
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    entries = (re.fullmatch(r"([A-Za-z]+) = (.*)", line) for line in lines)
    fields = next(line.split()[2:] for line in lines if line.startswith("#! config "))
    return lines, {entry[1]: entry[2].split() for entry in entries if entry}, fields


@pytest.mark.parametrize("arch", sorted(set(REAL_BASES) - set(ARCHS)))
def test_archs_without_cells_of_their_own_equal_their_base(db: txtdb.Database, arch: str) -> None:
    """gfx1101 to gfx1103, gfx1152 and gfx1153 are gfx1100, gfx1200 is gfx1201, gfx1250 is gfx942."""
    base = REAL_BASES[arch]
    for iface in db[base]:
        table, donor = db[arch][iface], db[base][iface]
        assert not own_cells(table).any()
        assert (table.functionals, table.bins) == (donor.functionals, donor.bins)
        assert np.array_equal(table.cells, donor.cells)
        assert table.layers[: len(donor.layers)] == donor.layers
