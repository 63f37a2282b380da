"""Databases of three archs that Hypothesis draws: gA, gB over gA and gC over gB, of one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from tests.build import write_files
from tests.layers import brute
from tests.strategies import (
    ConfigValues,
    Functional,
    LayerSpec,
    SchemaSpec,
    layer_specs,
    layer_text,
    pins_text,
    schema_specs,
    seeds,
)
from txtdb import Absent, Config
from txtdb.layers.database import Database, load

ARCHS = ("gA", "gB", "gC")
BASES = {"gA": None, "gB": "gA", "gC": "gB"}

Answer = ConfigValues | str
Point = tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """A database in plain data: for each arch its layers in the order in which they apply."""

    schema: SchemaSpec
    archs: Mapping[str, tuple[LayerSpec, ...]]
    seed: int = 0

    def layers(self, arch: str) -> list[LayerSpec]:
        """All layers of an arch, lowest first, those of its bases in their places."""
        found: list[LayerSpec] = []
        for layer in self.archs[arch]:
            found += self.layers(layer.base) if layer.base else []
            found.append(layer)
        return found

    def patches(self, arch: str) -> list[LayerSpec]:
        """The arch's own patches."""
        return [layer for layer in self.archs[arch] if layer.file.endswith(".dbpatch")]

    def without(self, file: str) -> Drawn:
        """The same database without one file."""
        archs = {arch: tuple(layer for layer in own if layer.file != file) for arch, own in self.archs.items()}
        return replace(self, archs=archs)

    def answers(self, arch: str, functional: Functional, point: Point) -> Answer:
        """What a lookup gives, by brute force."""
        return brute.lookup(self.schema, self.layers(arch), functional, point)

    def points(self, other: Drawn, arch: str) -> Iterator[Point]:
        """The cells of one arch on the bins of two databases."""
        grids = [grid for drawn in (self, other) if (grid := brute.grid(drawn.layers(arch)))]
        yield from product(*(sorted(set().union(*own)) for own in zip(*grids, strict=True))) if grids else ()

    def cell(self, arch: str, functional: Functional, point: Point) -> ConfigValues | None:
        """What the layers give, by brute force and without fallbacks; None for none."""
        found = brute.history(self.layers(arch), functional, point)
        return found[0].config if found else None

    def files(self) -> dict[str, str | None]:
        """The database as text."""
        layers = [layer for own in self.archs.values() for layer in own]
        texts: dict[str, str | None] = {layer.file: self._text(layer) for layer in layers}
        archs = "".join(f"[arch.{arch}]\n" for arch in ARCHS)
        return {"archs.toml": archs, "schema/f.toml": self.schema.text(ARCHS), **texts}

    @contextmanager
    def written(self) -> Iterator[Path]:
        """The root, for as long as the context lasts."""
        with TemporaryDirectory() as folder:
            yield write_files(Path(folder) / "root", self.files())

    def _text(self, layer: LayerSpec) -> str:
        if layer.file.endswith(".toml"):
            return pins_text(self.schema, layer)
        return layer_text(self.schema, layer, self.seed)


@st.composite
def databases(draw: st.DrawFn, schema: SchemaSpec, most_patches: int = 2, pins: bool = True) -> Drawn:
    """A database; each arch may have a table, with or without a base, patches and pins, or nothing at all.

    Files are as they are written: without blocks that set nothing. Bins that set nothing are there.
    """
    archs: dict[str, tuple[LayerSpec, ...]] = {}
    for arch in ARCHS:
        layers = []
        base = BASES[arch] if draw(st.booleans()) else None
        has_base = base is not None and any(layer.cells for layer in Drawn(schema, archs).layers(base))
        if has_base or draw(st.integers(0, 2)):
            layers.append(draw(layer_specs(schema, f"{arch}/f.txtdb", base if has_base else None)))
        for number in (2, 10, 11)[: draw(st.integers(0, most_patches))]:
            layers.append(draw(layer_specs(schema, f"{arch}/f.{number:04d}-x{number}.dbpatch")))
        written = [_without_blocks(layer) for layer in layers]
        if pins and draw(st.integers(0, 3)) == 0:
            written += _without_gaps(draw(layer_specs(schema, f"{arch}/pins.toml", pins=True)))
        archs[arch] = tuple(layer for layer in written if layer.base or layer.cells)
    return Drawn(schema, archs, draw(seeds))


def _without_blocks(layer: LayerSpec) -> LayerSpec:
    return replace(layer, functionals=tuple(dict.fromkeys(functional for functional, _ in layer.cells)))


def schemas() -> st.SearchStrategy[SchemaSpec]:
    """Schemas in which something exists."""
    return schema_specs(most_bins=3).filter(lambda schema: bool(schema.functionals))


def _without_gaps(layer: LayerSpec) -> list[LayerSpec]:
    """A pins file has the bins and functionals of its pins alone; one without a pin is left out."""
    axes = tuple(tuple(sorted({at[axis] for _, at in layer.cells})) for axis in range(len(layer.axes)))
    functionals = tuple(dict.fromkeys(functional for functional, _ in layer.cells))
    return [LayerSpec(layer.file, axes, functionals, layer.cells)] if layer.cells else []


def questions(*databases: Drawn) -> Iterator[tuple[str, Functional, Point]]:
    """Every cell of some databases of one schema: each arch, functional, and sizes at, below and above all bins."""
    schema = databases[0].schema
    for arch in ARCHS:
        grids = [brute.grid(database.layers(arch)) for database in databases]
        declared = [list(bins) for _, bins in schema.axes]
        axes = [sorted(set().union(*own)) for own in zip(declared, *filter(None, grids), strict=True)]
        sizes = [sorted({0, bins[-1] + 1, *bins, *(max(0, b - 1) for b in bins)}) for bins in axes]
        for functional in product(*(key.values for key in schema.keys)):
            for point in product(*sizes):
                yield arch, functional, point


def asked(database: Database, arch: str, functional: Functional, point: Point) -> Answer:
    """What a lookup gives in a database that was read from files."""
    schema = database.schemas["f"]
    table = database.resolve(arch, "f").table
    given = dict(zip((*schema.key_names, *schema.axis_names), (*functional, *point), strict=True))
    if table is None:
        arch_schema = schema.for_arch(arch)
        assert arch_schema is not None
        return "no kernel" if arch_schema.supports(functional) else "unsupported"
    answer = table.lookup(**given)
    if isinstance(answer, Absent):
        return str(answer)
    assert isinstance(answer, Config)
    return tuple(answer[name] for name in schema.field_names)


def opened(root: Path) -> Database:
    """The database, without faults in what holds for all tables."""
    return load(root)
