"""Bases: chains, circles, what is missing; each fault once, where it originates, whatever is asked first."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import txtdb
from tests.build import F1, IFACE, make_db, patch, table, write_files
from txtdb.faults import Fault, Span
from txtdb.layers.bases import BaseLink, base_order, circle

ARCHS = ("gfxA", "gfxB", "gfxC", "gfxD")


def chain_db(folder: Path, bases: dict[str, str | None], own: tuple[str, ...] = (), name: str = "db") -> Path:
    """Archs with the bases given; those in `own` have cells."""
    archs = "".join(f"[arch.{arch}]\n" for arch in ARCHS)
    schema = (make_db(folder, name=f"{name}-s0") / "schema" / "attn_fwd.toml").read_text(encoding="utf-8")
    schema = schema[: schema.index("[arch.gfxA]")] + archs
    files = {"archs.toml": archs, "schema/attn_fwd.toml": schema}
    for arch, base in bases.items():
        files[f"{arch}/attn_fwd.txtdb"] = table(arch, {F1: ["64 a*3"]} if arch in own else {}, base=base)
    return write_files(folder / name, files)


def faults(root: Path, order: tuple[str, ...] = ARCHS) -> dict[str, list[str]]:
    """arch → its faults, as place and message."""
    database = txtdb.load(root)
    found = {arch: database.resolve(arch, IFACE).faults for arch in order}
    return {arch: [_text(fault, root) for fault in found[arch]] for arch in sorted(found)}


def _text(fault: Fault, root: Path) -> str:
    return f"{str(fault.span).removeprefix(f'{root.as_posix()}/')} {fault.rule}: {fault.message}"


def test_a_circle_is_one_fault_whatever_is_asked_first(tmp_path: Path) -> None:
    """gfxA → gfxB → gfxC → gfxB: the circle is B and C, and A inherits its fault."""
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": "gfxC", "gfxC": "gfxB", "gfxD": None}, own=ARCHS)
    expected = ["gfxB/attn_fwd.txtdb:4:9 base-cycle: attn_fwd: the bases run in a circle: gfxB -> gfxC -> gfxB"]
    for order in itertools.permutations(ARCHS):
        assert faults(root, order) == {"gfxA": expected, "gfxB": expected, "gfxC": expected, "gfxD": []}


def test_a_self_base_is_a_circle(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfxA"})
    assert faults(root, ("gfxA",))["gfxA"] == [
        "gfxA/attn_fwd.txtdb:4:9 base-cycle: attn_fwd: the bases run in a circle: gfxA -> gfxA"
    ]


def test_tables_do_not_depend_on_what_is_asked_first(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": "gfxA", "gfxC": "gfxB"}, own=ARCHS)
    seen = set()
    for order in itertools.permutations(("gfxA", "gfxB", "gfxC")):
        database = txtdb.load(root)
        tables = {arch: database.resolve(arch, IFACE).table for arch in order}
        seen.add(tuple(tuple(layer.file for layer in t.layers) if t else None for _, t in sorted(tables.items())))
    assert len(seen) == 1


def test_a_circle_over_two_roots(tmp_path: Path) -> None:
    """The root bases gfxA on gfxB, the overlay gfxB on gfxA."""
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": None}, own=("gfxA", "gfxB"))
    over = write_files(tmp_path / "over", {"gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["64 b*3"]}, base="gfxA")})
    for order in (("gfxA", "gfxB"), ("gfxB", "gfxA")):
        database = txtdb.load(root, [over])
        found = {arch: [str(fault.span) for fault in database.resolve(arch, IFACE).faults] for arch in order}
        assert found["gfxA"] == found["gfxB"] == [f"{root}/gfxA/attn_fwd.txtdb:4:9"]


def test_a_missing_base_is_reported_where_it_is_named(tmp_path: Path) -> None:
    """gfxC is no data, gfxB names it, gfxA is based on gfxB; nothing is said of gfxA itself."""
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": "gfxC"})
    expected = ["gfxB/attn_fwd.txtdb:4:9 missing-base: attn_fwd: base gfxC has no table: gfxB -> gfxC"]
    for order in itertools.permutations(("gfxA", "gfxB")):
        assert faults(root, order) == {"gfxA": expected, "gfxB": expected}
    assert faults(root)["gfxC"] == ["gfxC/attn_fwd.txtdb no-data: gfxC attn_fwd: no data, no base"]


def test_an_unknown_base_is_missing(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfx942"}, own=("gfxA",))
    assert [text.partition(" ")[2] for text in faults(root)["gfxA"]] == [
        "missing-base: attn_fwd: base gfx942 has no table: gfxA -> gfx942"
    ]


def test_a_misspelt_base_is_told_the_near_names(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfx", "gfxB": None}, own=("gfxA", "gfxB"))
    found = txtdb.open_database(root).resolve("gfxA", "attn_fwd").faults
    assert [fault.hint for fault in found] == ["did you mean gfxB? add that table, or correct `#! base`"]


def test_an_heir_has_the_faults_of_its_base(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": None}, own=("gfxB",))
    path = root / "gfxB" / "attn_fwd.txtdb"
    path.write_text(path.read_text(encoding="utf-8").replace("64 a*3", "64 a*2"), encoding="utf-8")
    found = faults(root)
    assert found["gfxA"] == found["gfxB"] == ["gfxB/attn_fwd.txtdb:13:1 row-too-short: the row has 2 of 3 cells"]


def test_a_base_named_in_two_roots_has_its_faults_once(tmp_path: Path) -> None:
    root = chain_db(tmp_path, {"gfxA": "gfxB", "gfxB": "gfxC"})
    over = write_files(tmp_path / "over", {"gfxA/attn_fwd.txtdb": table("gfxA", {}, base="gfxB")})
    assert len(txtdb.load(root, [over]).resolve("gfxA", IFACE).faults) == 1


def test_an_overlay_may_bring_the_base(tmp_path: Path) -> None:
    """gfxA has own cells in the root; the overlay lays gfxB over them, and a patch over that."""
    root = chain_db(tmp_path, {"gfxA": None, "gfxB": None}, own=("gfxA", "gfxB"))
    files = {
        "gfxA/attn_fwd.txtdb": table("gfxA", {}, base="gfxB"),
        "gfxA/attn_fwd.1-x.dbpatch": patch("gfxA", {F1: ["64 . . d"]}),
    }
    resolved = txtdb.load(root, [write_files(tmp_path / "over", files)])["gfxA"][IFACE]
    assert [(layer.kind, layer.root, layer.arch) for layer in resolved.layers] == [
        ("table", 0, "gfxA"),
        ("table", 0, "gfxB"),
        ("table", 1, "gfxA"),
        ("patch", 1, "gfxA"),
    ]
    assert resolved.winner[0, 0].tolist() == [1, 1, 3]


def test_a_chain_longer_than_the_stack(tmp_path: Path) -> None:
    """1,500 archs, each based on the next."""
    names = [f"g{number:04}" for number in range(1_500)]
    archs = "".join(f"[arch.{name}]\n" for name in names)
    schema = (make_db(tmp_path, name="s0") / "schema" / "attn_fwd.toml").read_text(encoding="utf-8")
    files = {"archs.toml": archs, "schema/attn_fwd.toml": schema[: schema.index("[arch.gfxA]")] + archs}
    for name, base in zip(names, [*names[1:], None], strict=True):
        files[f"{name}/attn_fwd.txtdb"] = table(name, {} if base else {F1: ["64 a*3"]}, base=base)
    resolved = txtdb.load(write_files(tmp_path / "db", files))[names[0]][IFACE]
    assert len(resolved.layers) == 1_500
    assert (resolved.winner[0, 0] == 0).all()


LINKS = {
    "a": ["b", "c"],
    "b": ["d"],
    "c": ["d", "e"],
    "d": [],
    "e": ["c"],
}


def links(arch: str) -> list[BaseLink]:
    return [BaseLink(arch, base, Span(arch)) for base in LINKS.get(arch, [])]


@pytest.mark.parametrize(("arch", "order"), [("a", "dbeca"), ("b", "db"), ("d", "d"), ("e", "dce"), ("x", "x")])
def test_bases_come_first(arch: str, order: str) -> None:
    assert base_order(arch, links) == list(order)


def test_circles_start_at_their_first_arch() -> None:
    def ring(arch: str, base: str) -> str:
        return "".join(link.arch for link in circle(BaseLink(arch, base, Span(arch)), links))

    assert ring("e", "c") == ring("c", "e") == "ce"
    assert ring("a", "c") == ring("b", "d") == ""
    assert ring("x", "x") == "x"
