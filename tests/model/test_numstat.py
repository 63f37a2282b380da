"""What `git diff --numstat` shows of one changed cell in the database of this repository."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import txtdb
from tests.merge.repository import Repository
from txtdb.editing.cells import Edit, plan_edit
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.edit import edit_cells
from txtdb.model.schema import ConfigField
from txtdb.model.table import ConfigValues, FileTable
from txtdb.model.values import Functional, Value
from txtdb.syntax import Source
from txtdb.syntax.grid import GridRow

AMD = Path(__file__).parents[2] / "amd"
ARCH, IFACE = "gfx942", "attn_fwd"
FILE = f"amd/{ARCH}/{IFACE}.txtdb"


@dataclass(frozen=True)
class Line:
    """A row line with its functional, and the other lines of its block."""

    functional: Functional
    row: GridRow
    others: list[GridRow]


@dataclass(frozen=True)
class Tree:
    """A git repository over a copy of `amd/`, and one of its tables."""

    repository: Repository
    database: txtdb.Database
    table: ResolvedTable
    own: FileTable

    @property
    def source(self) -> Source:
        return self.own.source

    def line(self, fewest: int, most: int) -> Line:
        """The first line that stands for so many rows."""
        return next(line for line in self._lines() if fewest <= line.row.stop - line.row.first <= most)

    def _lines(self) -> Iterator[Line]:
        for functional, block in zip(self.own.functionals, self.own.blocks, strict=True):
            rows = self.source.rows[block]
            yield from (Line(functional, row, [other for other in rows if other is not row]) for row in rows)

    def known_config(self, line: Line) -> ConfigValues:
        """A config of the file that the first cell has in no row of the block, so that no lines join."""
        taken = {row.cells[0] for row in (line.row, *line.others)}
        numbers = (number for entry, number in enumerate(self.own.palette) if entry not in taken)
        return next(self.table.pool[number] for number in numbers if number is not None)

    def new_config(self) -> ConfigValues:
        """A legal config that the file has no symbol for; fields that the file leaves out are at their default."""
        known = {self.table.pool[number] for number in self.own.palette if number is not None}
        named = self.source.document.config_fields
        domains = (domain(item) if item.name in named else [item.default] for item in self.table.schema.config)
        return next(c for c in product(*domains) if c not in known and self.table.arch_schema.illegal(c) is None)

    def numstat(self, line: Line, row: int, config: ConfigValues) -> str:
        """Set the first cell of a row through the library and ask git, for lines added and lines deleted.

        Both ways of the library, the one for a cell and the one for many, give the same text.
        """
        (_, q_bins), (_, k_bins) = self.source.shape.axes
        bins, schema = (q_bins[row], k_bins[0]), self.table.schema
        given = {**schema.functional_dict(line.functional), **dict(zip(schema.axis_names, bins, strict=True))}
        planned = plan_edit(self.database, self.table, given, schema.config_dict(config))
        assert isinstance(planned, Edit)
        assert planned.text == edit_cells(self.source, schema, {(line.functional, bins): config})
        assert planned.write()
        told = txtdb.load(self.repository.path / "amd")[ARCH][IFACE].explain(**given)
        assert told.history[-1].config == config
        added, deleted, file = self.repository.git("diff", "--numstat").out.split()
        assert file == FILE
        return f"{added} {deleted}"


def domain(item: ConfigField) -> list[Value]:
    if item.type == "bool":
        return [False, True]
    assert item.values or (item.minimum is not None and item.maximum is not None)
    return [*item.values] or [*range(item.minimum or 0, (item.maximum or 0) + 1)]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    shutil.copytree(AMD, tmp_path / "amd")
    repository = Repository(tmp_path)
    repository.git("init", "-q", "-b", "main")
    repository.commit({})
    database = txtdb.load(tmp_path / "amd")
    table = database[ARCH][IFACE]
    own = table.layers[0].table
    assert isinstance(own, FileTable)
    assert Path(own.source.file) == tmp_path / FILE
    return Tree(repository, database, table, own)


def test_a_cell_of_a_single_row_is_one_line(tree: Tree) -> None:
    line = tree.line(1, 1)
    assert tree.numstat(line, line.row.first, tree.known_config(line)) == "1 1"


def test_a_config_that_is_new_to_the_file_is_one_line_more(tree: Tree) -> None:
    line = tree.line(1, 1)
    assert tree.numstat(line, line.row.first, tree.new_config()) == "2 1"


def test_a_cell_inside_a_range_makes_three_lines_of_it(tree: Tree) -> None:
    line = tree.line(3, 99)
    assert tree.numstat(line, line.row.first + 1, tree.known_config(line)) == "3 1"


def test_a_new_config_inside_a_range_is_one_line_more(tree: Tree) -> None:
    line = tree.line(3, 99)
    assert tree.numstat(line, line.row.first + 1, tree.new_config()) == "4 1"


def test_a_cell_at_the_end_of_a_range_makes_two_lines_of_it(tree: Tree) -> None:
    line = tree.line(3, 99)
    assert tree.numstat(line, line.row.stop - 1, tree.known_config(line)) == "2 1"
