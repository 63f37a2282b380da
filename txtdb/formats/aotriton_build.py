"""Typed rows + schema → the cells of each arch, with a fault for every row that the schema does not admit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txtdb.faults import Fault
from txtdb.formats.aotriton_source import Rows
from txtdb.formats.columns import Codes, Column, Mask, combine, group
from txtdb.model.schema import Schema
from txtdb.model.table import UNSET, Cells, ConfigPool, functional_text
from txtdb.model.values import Functional, Value, print_value


@dataclass(frozen=True)
class ArchCells:
    """The cells that one arch's rows set; see `FileTable` for the arrays."""

    functionals: tuple[Functional, ...]
    bins: tuple[tuple[int, ...], ...]
    cells: Cells

    @staticmethod
    def nothing(schema: Schema) -> ArchCells:
        """No cells, for a file of directives alone."""
        axes = len(schema.axes)
        return ArchCells((), ((),) * axes, np.zeros((0,) * (axes + 1), np.int32))


@dataclass(frozen=True)
class Built:
    """Arch → cells, the config numbers in them, what was wrong, and how many rows are left out for it."""

    archs: dict[str, ArchCells]
    pool: ConfigPool
    faults: tuple[Fault, ...]
    rows_left_out: int
    repeated: int

    @staticmethod
    def nothing() -> Built:
        """Of an interface that has no schema."""
        return Built({}, ConfigPool(), (), 0, 0)


def build_cells(rows: Rows, archs: Column, schema: Schema) -> Built:
    """Type all rows of one interface by its schema. `archs` gives the arch of each row."""
    return _Builder(rows, archs, schema).build()


class _Builder:
    def __init__(self, rows: Rows, archs: Column, schema: Schema) -> None:
        self._rows, self._archs, self._schema = rows, archs, schema
        self._good = np.ones(len(rows), np.bool_)
        self._faults: list[Fault] = []
        self._pool = ConfigPool()

    def build(self) -> Built:
        if self._columns_missing():
            return Built({}, self._pool, tuple(self._faults), len(self._rows), 0)
        rows = len(self._rows)
        functionals, functional_codes = group([self._column(key.name) for key in self._schema.keys], rows)
        configs, config_codes = self._configs()
        axes = [self._rows.columns[name] for name in self._schema.axis_names]
        self._fixed_keys()
        self._functionals(functionals, functional_codes)
        self._derived(functionals, functional_codes)
        self._bins(axes)
        self._illegal(configs, config_codes)
        repeated = self._conflicts([(functional_codes, len(functionals)), *_sized(axes)], config_codes, functionals)
        numbers = np.array([self._pool.intern(config) for config in configs], np.int32)[config_codes]
        cells = {
            str(arch): self._arch_cells(code, functionals, functional_codes, axes, numbers)
            for code, arch in enumerate(self._archs.values)
            if np.any(self._good & (self._archs.codes == code))
        }
        left_out = int(rows - np.count_nonzero(self._good))
        return Built(cells, self._pool, tuple(self._faults), left_out, repeated)

    def _column(self, name: str) -> Column:
        return self._rows.columns[name]

    def _columns_missing(self) -> bool:
        """Keys, axes, and fields without a default must be there."""
        fields = [item.name for item in self._schema.config if item.default is None]
        needed = (*self._schema.key_names, *self._schema.axis_names, *fields)
        missing = [name for name in needed if name not in self._rows.columns]
        if missing:
            hint = f"{self._schema.file} asks for it"
            every = np.ones(len(self._rows), np.bool_)
            self._faults += self._rows.faults("missing-column", every, f"there is no column {', '.join(missing)}", hint)
        return bool(missing)

    def _configs(self) -> tuple[list[tuple[Value, ...]], Codes]:
        """Distinct configs, in schema order, and each row's; a column that is not there is at its default."""
        columns = []
        for item in self._schema.config:
            column = self._rows.columns.get(item.name)
            if column is None:
                assert item.default is not None, "_columns_missing() has seen to fields without default"
                column = Column((item.default,), np.zeros(len(self._rows), np.int64))
            columns.append(column)
        return group(columns, len(self._rows))

    def _refuse(self, rule: str, wrong: Mask, message: str, hint: str = "") -> None:
        """Leave rows out, with a fault; rows that are out already are not told of twice."""
        new = wrong & self._good
        if new.any():
            self._faults += self._rows.faults(rule, new, message, hint)
            self._good &= ~new

    def _fixed_keys(self) -> None:
        for key in self._schema.fixed_keys:
            column = self._rows.columns.get(key.name)
            for code, value in enumerate(column.values if column else ()):
                if column and value != key.value:
                    message = f"{key.name} = {print_value(value)}, and the schema fixes it at {print_value(key.value)}"
                    self._refuse("fixed-key", column.codes == code, message)

    def _derived(self, functionals: Sequence[Functional], codes: Codes) -> None:
        for item in self._schema.derived:
            column = self._rows.columns.get(item.name)
            if column is None:
                continue
            place = self._schema.key_names.index(item.key)
            known = dict(item.mapping)
            expected = np.array([_place(column.values, known.get(f[place])) for f in functionals], np.int64)
            message = f"{item.name} is not what the schema derives from {item.key}"
            self._refuse("derived-field", column.codes != expected[codes], message)

    def _functionals(self, functionals: Sequence[Functional], codes: Codes) -> None:
        """Each arch must support what its rows hold."""
        for arch, mine in self._each_arch():
            arch_schema = self._schema.for_arch(arch)
            if arch_schema is None:
                hint = f"add [arch.{arch}] to {self._schema.file}"
                self._refuse("unsupported-iface", mine, f"{self._schema.iface} does not exist on {arch}", hint)
                continue
            for code in np.unique(codes[mine]).tolist():
                if not arch_schema.supports(functionals[code]):
                    text = functional_text(self._schema, functionals[code])
                    message = f"{text} does not exist on {arch}"
                    self._refuse("unsupported-functional", mine & (codes == code), message, "widen the schema")

    def _bins(self, axes: Sequence[Column]) -> None:
        for arch, mine in self._each_arch():
            arch_schema = self._schema.for_arch(arch)
            assert arch_schema, "_functionals() has refused the rows of other archs"
            for name, column, declared in zip(self._schema.axis_names, axes, arch_schema.bins, strict=True):
                for value in sorted(set(column.seen(mine)).difference(declared)):
                    wrong = mine & (column.codes == column.values.index(value))
                    self._refuse("unknown-bin", wrong, f"{name} = {value} is no bin of {arch}", "widen the schema")

    def _illegal(self, configs: Sequence[tuple[Value, ...]], codes: Codes) -> None:
        for arch, mine in self._each_arch():
            arch_schema = self._schema.for_arch(arch)
            assert arch_schema, "_functionals() has refused the rows of other archs"
            for code in np.unique(codes[mine]).tolist():
                reason = arch_schema.illegal(configs[code])
                if reason:
                    self._refuse("illegal-config", mine & (codes == code), reason, "widen the schema, or drop the rows")

    def _each_arch(self) -> Iterator[tuple[str, Mask]]:
        for code, arch in enumerate(self._archs.values):
            mine = self._good & (self._archs.codes == code)
            if mine.any():
                yield str(arch), mine

    def _conflicts(self, places: Sequence[tuple[Codes, int]], configs: Codes, functionals: Sequence[Functional]) -> int:
        """Refuse rows of one cell that differ; how many rows only repeat another."""
        cell = combine([(self._archs.codes, len(self._archs.values)), *places], len(self._rows))
        cell[~self._good] = -1
        order = np.argsort(cell, kind="stable")
        same = (cell[order][1:] == cell[order][:-1]) & (cell[order][1:] >= 0)
        if not same.any():
            return 0
        differs = same & (configs[order][1:] != configs[order][:-1])
        wrong_cells = np.unique(cell[order][1:][differs])
        for code in wrong_cells.tolist():
            rows = cell == code
            text = functional_text(self._schema, functionals[int(places[0][0][rows][0])])
            self._refuse("conflicting-rows", rows, f"one cell of {text} with different configs", "keep one of the rows")
        return int(np.count_nonzero(same & ~np.isin(cell[order][1:], wrong_cells)))

    def _arch_cells(
        self,
        code: int,
        functionals: Sequence[Functional],
        functional_codes: Codes,
        axes: Sequence[Column],
        numbers: Cells,
    ) -> ArchCells:
        mine = self._good & (self._archs.codes == code)
        present, places = np.unique(functional_codes[mine], return_inverse=True)
        where = [places]
        bins = []
        for column in axes:
            used, at = np.unique(column.codes[mine], return_inverse=True)
            bins.append(tuple(int(column.values[place]) for place in used.tolist()))
            where.append(at)
        cells = np.full((len(present), *map(len, bins)), UNSET, np.int32)
        cells[tuple(where)] = numbers[mine]
        return ArchCells(tuple(functionals[place] for place in present.tolist()), tuple(bins), cells)


def _sized(columns: Sequence[Column]) -> list[tuple[Codes, int]]:
    return [(column.codes, len(column.values)) for column in columns]


def _place(values: tuple[Value, ...], value: Value | None) -> int:
    return values.index(value) if value in values else -1
