"""Layered databases against the brute-force resolver: every bin, and sizes between, below and above them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txtdb
from tests.build import F1, config_values, make_db, patch, table, write_files
from tests.layers import brute
from tests.strategies import (
    SLOW_LAW,
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
from txtdb.layers.database import Resolution
from txtdb.layers.resolve import bin_index, ground_digest
from txtdb.layers.resolved import ResolvedTable

ARCHS = ("gA", "gB", "gC")


@dataclass(frozen=True)
class Stack:
    """A drawn database: the layers of each root, per arch in the order they apply."""

    schema: SchemaSpec
    roots: tuple[Mapping[str, tuple[LayerSpec, ...]], ...]
    seed: int

    def layers(self, arch: str) -> list[LayerSpec]:
        """All layers of an arch, lowest first, those of its bases in their places."""
        found: list[LayerSpec] = []
        for number, root in enumerate(self.roots):
            for layer in root.get(arch, ()):
                found += self.layers(layer.base) if layer.base else []
                found.append(_below(number, layer))
        return found

    def write(self, folder: Path) -> tuple[Path, list[Path]]:
        """Write it; the root and its overlays."""
        paths = [folder / f"root{number}" for number in range(len(self.roots))]
        for path, root in zip(paths, self.roots, strict=True):
            layers = [layer for own in root.values() for layer in own]
            write_files(path, {layer.file: self._text(layer) for layer in layers})
        archs = "".join(f"[arch.{arch}]\n" for arch in ARCHS)
        write_files(paths[0], {"archs.toml": archs, "schema/f.toml": self.schema.text(ARCHS)})
        return paths[0], paths[1:]

    def _text(self, layer: LayerSpec) -> str:
        is_pins = layer.file.endswith(".toml")
        return pins_text(self.schema, layer) if is_pins else layer_text(self.schema, layer, self.seed)


def _below(root: int, layer: LayerSpec) -> LayerSpec:
    return LayerSpec(f"root{root}/{layer.file}", layer.axes, layer.functionals, layer.cells)


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    """One or two roots; gB and gC may be based on gA and gB, in either root. gA and gB have data, as bases must."""
    schema = draw(schema_specs(most_bins=3).filter(lambda schema: schema.functionals))
    roots = []
    for number in range(draw(st.integers(1, 2))):
        root: dict[str, tuple[LayerSpec, ...]] = {}
        for arch, base in zip(ARCHS, (None, "gA", "gB"), strict=True):
            layers = []
            needed = number == 0 and arch != "gC"
            if needed or draw(st.booleans()):
                chosen = base if base and draw(st.booleans()) else None
                least = 1 if needed else 0
                layers.append(draw(layer_specs(schema, f"{arch}/f.txtdb", chosen, least=least)))
            for patch_number in (2, 10)[: draw(st.integers(0, 2))]:
                layers.append(draw(layer_specs(schema, f"{arch}/f.{patch_number}-x.dbpatch")))
            if draw(st.integers(0, 3)) == 0:
                layers.append(draw(layer_specs(schema, f"{arch}/pins.toml", pins=True)))
            root[arch] = tuple(_without_gaps(layer) for layer in layers)
        roots.append(root)
    return Stack(schema, tuple(roots), draw(seeds))


def _without_gaps(layer: LayerSpec) -> LayerSpec:
    """A pins file has the bins and functionals of its pins alone."""
    if not layer.file.endswith(".toml"):
        return layer
    axes = tuple(tuple(sorted({at[axis] for _, at in layer.cells})) for axis in range(len(layer.axes)))
    functionals = tuple(dict.fromkeys(functional for functional, _ in layer.cells))
    return LayerSpec(layer.file, axes, functionals, layer.cells)


def sizes(axes: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Each bin, a size below it, and one above the last."""
    return product(*(sorted({0, bins[-1] + 1, *bins, *(max(0, b - 1) for b in bins)}) for bins in axes))


@given(stacks())
@SLOW_LAW
def test_lookups_and_explanations_agree_with_brute_force(stack: Stack) -> None:
    schema = stack.schema
    with TemporaryDirectory() as folder:
        database = txtdb.load(*stack.write(Path(folder)))
        for arch in ARCHS:
            layers = stack.layers(arch)
            resolution = database.resolve(arch, "f")
            if not any(layer.functionals for layer in layers):
                assert resolution.table is None or resolution.table.functionals == ()
                continue
            assert resolution.faults == ()
            assert resolution.table is not None
            assert [list(bins) for bins in resolution.table.bins] == brute.grid(layers)
            winners_agree(resolution.table, layers, Path(folder))
            points = list(sizes(brute.grid(layers)))
            random.Random(stack.seed).shuffle(points)
            for functional in product(*(key.values for key in schema.keys)):
                for point in points[:12]:
                    compare(schema, resolution.table, layers, functional, point, Path(folder))


def winners_agree(resolved: ResolvedTable, layers: list[LayerSpec], folder: Path) -> None:
    """Each cell of the arrays names the layer that set it, or none."""
    for number, functional in enumerate(resolved.functionals):
        for place in product(*(range(len(bins)) for bins in resolved.bins)):
            at = tuple(bins[index] for bins, index in zip(resolved.bins, place, strict=True))
            found = brute.history(layers, functional, at)
            winner = int(resolved.winner[(number, *place)])
            cell = int(resolved.cells[(number, *place)])
            if not found:
                assert (winner, cell) == (-1, -1)
                continue
            assert resolved.layers[winner].file == f"{folder}/{found[0].file}"
            assert config_values(resolved, cell) == found[0].config


def compare(
    schema: SchemaSpec,
    resolved: ResolvedTable,
    layers: list[LayerSpec],
    functional: Functional,
    point: tuple[int, ...],
    folder: Path,
) -> None:
    names = [key.name for key in schema.keys] + [name for name, _ in schema.axes]
    given = dict(zip(names, (*functional, *point), strict=True))
    answer, expected = resolved.lookup(**given), brute.lookup(schema, layers, functional, point)
    assert (str(answer) if isinstance(answer, txtdb.Absent) else tuple(answer.values())) == expected
    explanation = resolved.explain(**given)
    assert explanation.answer == answer
    if answer is txtdb.UNSUPPORTED:
        return
    asked = brute.donors(schema, functional)
    histories = [brute.history(layers, donor, point) for donor in asked]
    assert explanation.bins == brute.fall(layers, point)
    for attempt, donor, found in zip(explanation.attempts, asked, histories, strict=False):
        assert attempt.functional == donor
        seen = [(entry.span.file.removeprefix(f"{folder}/"), entry.values, entry.config) for entry in attempt.history]
        assert seen == [(item.file, item.at, item.config) for item in found]
    for entry in explanation.history:
        points_at_its_cell(entry.span, entry.config, schema)


def points_at_its_cell(span: txtdb.Span, config: ConfigValues | None, schema: SchemaSpec) -> None:
    """The span holds the run of the config's symbol, or the head of a pin."""
    lines = Path(span.file).read_text(encoding="utf-8").splitlines()
    run = lines[span.line - 1][span.column - 1 : span.last_column]
    if span.file.endswith(".toml"):
        assert run == "[[pin]]"
        return
    symbol = run.partition("*")[0]
    if config is None:
        assert symbol == "-"
        return
    entry = next(line for line in lines if line.startswith(f"{symbol} = "))
    fields = next(line for line in lines if line.startswith("#! config ")).split()[2:]
    written = dict(zip(fields, entry.split()[2:], strict=True))
    for field, value in zip(schema.fields, config, strict=True):
        assert written.get(field.name, str(field.default)).lower() == str(value).lower()


@given(stacks())
@SLOW_LAW
def test_the_order_of_questions_plays_no_part(stack: Stack) -> None:
    with TemporaryDirectory() as folder:
        root, overlays = stack.write(Path(folder))
        results = []
        for order in (ARCHS, ARCHS[::-1], ("gB", "gA", "gC")):
            database = txtdb.load(root, overlays)
            found = {arch: database.resolve(arch, "f") for arch in order}
            results.append({arch: _contents(found[arch]) for arch in ARCHS})
        assert results[0] == results[1] == results[2]


def _contents(resolution: Resolution) -> object:
    table = resolution.table
    if table is None:
        return resolution.faults
    cells = [None if number < 0 else table.pool[number] for number in table.cells.ravel().tolist()]
    return table.functionals, table.bins, cells, table.winner.tolist(), resolution.faults


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8, unique=True).map(sorted), st.integers(0, 60))
def test_lookup_rule(bins: list[int], size: int) -> None:
    """The first bin that is not smaller; above the last bin the last."""
    expected = next((place for place, value in enumerate(bins) if value >= size), len(bins) - 1)
    assert bin_index(bins, size) == expected


def test_lookup_rule_by_hand() -> None:
    assert [bin_index((16, 32, 64), size) for size in (0, 16, 17, 32, 33, 64, 65, 10**30)] == [0, 0, 1, 1, 2, 2, 2, 2]


# --- S0 and its layers, worked by hand --------------------------------------------------------------------------------


def s0(folder: Path, files: Mapping[str, str | None], arch: str = "gfxB") -> ResolvedTable:
    return txtdb.load(make_db(folder, files))[arch]["attn_fwd"]


def at(resolved: ResolvedTable, q: int, k: int, head_dim: int = 64) -> str:
    """BLOCK_M and num_warps of the answer, or the answer."""
    answer = resolved.lookup(dtype="fp16", causal=0, head_dim=head_dim, seqlen_q=q, seqlen_k=k)
    return str(answer) if isinstance(answer, txtdb.Absent) else f"{answer['BLOCK_M']}/{answer['num_warps']}"


A, B, C, D = "32/2", "64/4", "64/4", "128/8"


def test_s0(tmp_path: Path) -> None:
    """Rows 64 a*3, 128 a b*2, 256 b c d."""
    resolved = s0(tmp_path, {})
    assert [[at(resolved, q, k) for k in (64, 128, 256)] for q in (64, 128, 256)] == [[A, A, A], [A, B, B], [B, C, D]]
    assert at(resolved, 65, 200) == B


def test_a_child_with_few_bins_does_not_clamp(tmp_path: Path) -> None:
    """gfxA sets one cell at 64 × 64; all other sizes are gfxB's."""
    own = table("gfxA", {F1: ["64 d"]}, base="gfxB", axes={"seqlen_q": "64", "seqlen_k": "64"})
    schema = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": own})
    resolved = txtdb.load(schema)["gfxA"]["attn_fwd"]
    assert [at(resolved, 64, k) for k in (1, 64, 65, 4096)] == [D, D, A, A]
    assert at(resolved, 4096, 4096) == D


def test_new_bins_take_the_lookup_below(tmp_path: Path) -> None:
    """A patch brings the bin 100: at 100 the base answers with its bin 128, and the patch wins where it sets."""
    text = patch("gfxB", {F1: ["100 . d", "128 . ."]}, axes={"seqlen_q": "100 128", "seqlen_k": "100 256"})
    resolved = s0(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": text})
    assert resolved.bins == ((64, 100, 128, 256), (64, 100, 128, 256))
    assert [at(resolved, 100, k) for k in (64, 100, 128, 256)] == [A, B, B, D]
    assert [at(resolved, 65, k) for k in (65, 129)] == [B, D]


def test_a_mask_hides_what_is_below(tmp_path: Path) -> None:
    text = patch("gfxB", {F1: ["64 . - ."]})
    resolved = s0(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": text})
    assert [at(resolved, 64, k) for k in (64, 128, 256)] == [A, "no kernel", A]
    history = resolved.explain(dtype="fp16", causal=0, head_dim=64, seqlen_q=64, seqlen_k=128).history
    assert [entry.config for entry in history] == [None, (32, True, 2, 1, 0)]


def test_arrays_are_read_only(tmp_path: Path) -> None:
    own = patch("gfxB", {F1: ["64 b . ."]})
    resolved = s0(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": own})
    arrays = [resolved.cells, resolved.winner, resolved.effective(("fp16", 0, 64)), resolved.effective(("fp16", 1, 64))]
    arrays += [layer.table.cells for layer in resolved.layers]
    for array in arrays:
        assert isinstance(array, np.ndarray)
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    empty = txtdb.open_database(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64-256 .*3"]})}, "e"))
    assert empty.resolve("gfxB", "attn_fwd").table is not None


def test_ground_digest_depends_on_content_alone(tmp_path: Path) -> None:
    """Symbols, order and a default written out do not count; the config underneath does."""
    loads: list[Callable[[], str]] = []
    for number, palette in enumerate(
        ({"a": "32 true 2 1", "b": "64 true 4 1"}, {"Z": "32 true 2 1", "b": "64 true 4 1"})
    ):
        first = next(iter(palette))
        text = table("gfxB", {F1: [f"64-256 {first}*2 b"]}, palette=palette)
        over = patch("gfxB", {F1: ["64 b . -"]})
        root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text, "gfxB/attn_fwd.1-x.dbpatch": over}, f"db{number}")
        loads.append(lambda root=root: _digest(root))  # type: ignore[misc]
    changed = table("gfxB", {F1: ["64-256 b*3"]}, palette={"b": "64 true 4 1"})
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": changed, "gfxB/attn_fwd.1-x.dbpatch": over}, "other")
    one, two = (load() for load in loads)
    assert one == two
    assert one != _digest(root)
    assert one.startswith("sha256:")


def _digest(root: Path) -> str:
    from txtdb.layers.resolve import empty_fold, fold_layer

    resolved = txtdb.load(root)["gfxB"]["attn_fwd"]
    below = fold_layer(empty_fold(2), resolved.layers[0], 0)
    return ground_digest(resolved.schema, resolved.pool, below, resolved.layers[1].table)


def test_the_result_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    patches = {
        f"gfxB/attn_fwd.{name}.dbpatch": patch("gfxB", {F1: [row]})
        for name, row in (("10-x", "64 d . ."), ("9-y", "64 b . ."))
    }
    root = make_db(tmp_path, patches)
    code = (
        "import sys, txtdb; t = txtdb.load(sys.argv[1])['gfxA']['attn_fwd'];"
        "print(t.functionals, t.bins, [n if n < 0 else t.pool[n] for n in t.cells.ravel().tolist()], t.winner.tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(root)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
