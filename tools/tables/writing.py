"""Choices → the texts of tables, patches and operator tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from codegen.aot import Record
from codegen.aot.plan import TablePlan
from tools.tables.choose import Places
from tools.tables.devices import DEVICES
from tools.tables.making import Choice
from tools.tables.models import trust, version
from txtdb.layers.resolve import Layer, empty_fold, fold_layer, ground_digest
from txtdb.model.schema import ArchSchema
from txtdb.model.table import UNSET, ConfigPool, ConfigValues, build_table
from txtdb.model.values import Functional, functional_rank
from txtdb.model.writing import table_text
from txtdb.syntax import read

PATCH = "0010-few-queries"
PATCH_WHY = "few queries, many keys: a tile of queries of their size, where the table takes that of 64 queries"
# Below what is tuned, which is numbered from 0010.
REST = "0005-modelled"
REST_WHY = "functionals of which nothing was measured"
# The cells that the patch may set.
FEW_QUERIES, MANY_KEYS = 32, 1024

Found = Mapping[Functional, Choice]
# Masks over the grid of cells, each with the config that they take.
Own = list[tuple[npt.NDArray[np.bool_], ConfigValues]]


def origin(arch: str) -> str:
    """What the files of an arch say of where their cells come from."""
    return f"modelled {version(arch)}, not measured"


def table(schema: ArchSchema, arch: str, found: Found) -> str:
    """The table of one kernel."""
    return _text(schema, arch, found, lambda choice: choice.places, {"origin": [origin(arch)]}, "txtdb")


def patched(schema: ArchSchema, arch: str, found: Found) -> tuple[str, str]:
    """Table and patch: in the table the cells with few queries are as those with 64."""
    base = _text(schema, arch, found, lambda choice: _without(schema, choice), {"origin": [origin(arch)]}, "txtdb")
    return base, _patch(schema, arch, found, lambda choice: _only(schema, choice), PATCH_WHY, base)


def rest(schema: ArchSchema, arch: str, found: Found, measured: str) -> str:
    """The patch over an arch's measured table (its text): the functionals that `found` has, which that one has not."""
    return _patch(schema, arch, found, lambda choice: choice.places, REST_WHY, measured)


def _patch(
    schema: ArchSchema, arch: str, found: Found, places: Callable[[Choice], Places], why: str, below: str
) -> str:
    """A patch over a table (its text)."""
    header = {"origin": [origin(arch)], "why": [why]}
    patch = _text(schema, arch, found, places, header, "dbpatch")
    return _text(schema, arch, found, places, {**header, "onto": [_ground(schema, arch, below, patch)]}, "dbpatch")


def heir(schema: ArchSchema, arch: str, base: str, own: Mapping[Functional, Own] | None = None) -> str:
    """A table that is another arch's but for the cells in `own`: masks of cells by functional, with their config."""
    pool = ConfigPool()
    functionals = sorted(own or {}, key=functional_rank)
    cells = np.full((len(functionals), *map(len, schema.bins)), UNSET, np.int32)
    for row, functional in enumerate(functionals):
        for mask, config in (own or {})[functional]:
            cells[row][mask] = pool.intern(config)
    header = {"base": [base], "origin": [origin(arch)]}
    return table_text(schema.schema, arch, functionals, schema.bins, cells, pool, header, "txtdb")


def without_spills(plan: TablePlan, made: Sequence[Record]) -> dict[Functional, Own]:
    """The cells whose inherited image spills on this arch, where another of the functional's images does not: they take
    the one of those that serves most cells.
    """
    spills = {(item.functional, item.config): item.resources.spills for item in made if item.resources}
    found: dict[Functional, Own] = {}
    for wanted in plan.wanted:
        same = [item for item in plan.wanted if item.functional == wanted.functional]
        better = [item for item in same if spills.get((item.functional, item.config)) == 0]
        if spills.get((wanted.functional, wanted.config)) and better:
            best = max(better, key=lambda item: (item.cells, -item.rank))
            mask = np.zeros([len(bins) for bins in plan.table.bins], bool)
            for at in plan.cells_of(wanted):
                mask[tuple(bins.index(value) for bins, value in zip(plan.table.bins, at, strict=True))] = True
            found.setdefault(wanted.functional, []).append((mask, plan.table.configs[best.rank]))
    return found


def forward_operator(schema: ArchSchema, arch: str) -> str:
    """There is one back end."""
    pool = ConfigPool()
    cells = np.full(_shape(schema), pool.intern(("triton",)), np.int32)
    return _grid_text(schema, arch, cells, pool, {"origin": [origin(arch)]}, "txtdb")


def backward_operator(schema: ArchSchema, arch: str, kernels: Mapping[str, Found]) -> str:
    """The faster of the split and the fused backward in each cell; near ties go to the split one.

    Both launch the preprocessing, whose time says nothing of which is faster.
    """
    pool, tie = ConfigPool(), trust(DEVICES[arch]).tie
    split, fused = pool.intern(("triton_split",)), pool.intern(("triton_fused",))
    more_s = _more_launches(schema) * trust(DEVICES[arch]).launch_s
    cells = np.full(_shape(schema), split, np.int32)
    for row, functional in enumerate(schema.declared):
        times = {iface: _picked(found[functional]) for iface, found in kernels.items()}
        apart = times["bwd_kernel_dk_dv"] + times["bwd_kernel_dq"] + more_s
        cells[row][times["bwd_kernel_fuse"] * tie < apart] = fused
    return _grid_text(schema, arch, cells, pool, {"origin": [origin(arch)]}, "txtdb")


def _more_launches(schema: ArchSchema) -> int:
    """How many launches the split backward makes more than the fused one."""
    launches = {backend.name: len(backend.launches) for backend in schema.schema.backends}
    return launches["triton_split"] - launches["triton_fused"]


def _picked(choice: Choice) -> np.ndarray:
    return np.take_along_axis(choice.times, choice.places[None], axis=0)[0]


def _few(schema: ArchSchema) -> np.ndarray:
    queries, keys = (np.array(bins) for bins in schema.bins)
    return (queries <= FEW_QUERIES)[:, None] & (keys >= MANY_KEYS)[None, :]


def _without(schema: ArchSchema, choice: Choice) -> Places:
    row = next(place for place, size in enumerate(schema.bins[0]) if size > FEW_QUERIES)
    return np.where(_few(schema), choice.places[row][None, :], choice.places)


def _only(schema: ArchSchema, choice: Choice) -> Places:
    below = _without(schema, choice)
    return np.where(below != choice.places, choice.places, UNSET)


def _shape(schema: ArchSchema) -> tuple[int, ...]:
    return (len(schema.declared), *map(len, schema.bins))


def _text(
    schema: ArchSchema,
    arch: str,
    found: Found,
    places: Callable[[Choice], Places],
    header: Mapping[str, list[str]],
    kind: str,
) -> str:
    pool = ConfigPool()
    cells = np.full(_shape(schema), UNSET, np.int32)
    for row, functional in enumerate(schema.declared):
        if functional in found:
            _fill(cells[row], found[functional], places(found[functional]), pool)
    return _grid_text(schema, arch, cells, pool, header, kind)


def _fill(cells: np.ndarray, choice: Choice, places: Places, pool: ConfigPool) -> None:
    for place in np.unique(places[places != UNSET]):
        cells[places == place] = pool.intern(choice.config(int(place)))


def _grid_text(
    schema: ArchSchema, arch: str, cells: np.ndarray, pool: ConfigPool, header: Mapping[str, list[str]], kind: str
) -> str:
    return table_text(schema.schema, arch, schema.declared, schema.bins, cells, pool, header, kind)


def _ground(schema: ArchSchema, arch: str, table_: str, patch: str) -> str:
    """The digest for `#! onto`: what the table holds under the cells of the patch."""
    pool = ConfigPool()
    layers = []
    for text in (table_, patch):
        source, faults = read(text.encode(), "made")
        assert source is not None and not faults, faults
        layers.append(Layer("table", 0, arch, "made", build_table(source, schema.schema, arch, pool)[0]))
    below = fold_layer(empty_fold(len(schema.schema.axes)), layers[0], 0)
    return ground_digest(schema.schema, pool, below, layers[1].table)
