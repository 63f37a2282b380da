"""Rows of the list of public reports about tuning databases: those about layers, bases and platforms."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import txtdb
from codegen.command import codegen
from tests.build import F1, F2, IFACE, PALETTE, TABLE_B, config_values, make_db, patch, table, write_files
from tests.unprivileged import freeze, public_folder, state, unprivileged
from txtdb.cli import main
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.values import Value

AT_64: dict[str, Value] = {
    "dtype": "fp16",
    "causal": 0,
    "head_dim": 64,
    "seqlen_q": 64,
    "seqlen_k": 64,
}


def block_m(resolved: ResolvedTable, q: int = 64, k: int = 64, head_dim: int = 64) -> object:
    """BLOCK_M of the answer (32, 64, 64, 128 for the configs a … d), or the answer."""
    answer = resolved.lookup(**{**AT_64, "seqlen_q": q, "seqlen_k": k, "head_dim": head_dim})
    return answer if isinstance(answer, txtdb.Absent) else (answer["BLOCK_M"], answer["num_stages"])


A, B, C, D = (32, 1), (64, 1), (64, 2), (128, 2)


def one_cell(symbol: str, arch: str = "gfxB") -> str:
    return patch(arch, {F1: [f"64 {symbol} . ."]})


def files_of(resolved: ResolvedTable) -> list[str]:
    return [Path(entry.span.file).name for entry in resolved.explain(**AT_64).history]


def test_row_015_a_later_root_beats_any_number_of_an_earlier_one(tmp_path: Path) -> None:
    """The order is told by explain; the same file name in both roots is two layers, not one."""
    root = make_db(tmp_path, {"gfxB/attn_fwd.0090-x.dbpatch": one_cell("b")})
    over = write_files(tmp_path / "site", {"gfxB/attn_fwd.0020-y.dbpatch": one_cell("d")})
    resolved = txtdb.load(root, [over])["gfxB"][IFACE]
    assert block_m(resolved) == D
    assert files_of(resolved) == ["attn_fwd.0020-y.dbpatch", "attn_fwd.0090-x.dbpatch", "attn_fwd.txtdb"]
    same = write_files(tmp_path / "same", {"gfxB/attn_fwd.0090-x.dbpatch": one_cell("c")})
    resolved = txtdb.load(root, [over, same])["gfxB"][IFACE]
    assert block_m(resolved) == C
    assert [Path(layer.file).parts[-3] for layer in resolved.layers] == ["db", "db", "site", "same"]


def test_row_016_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    names = {"2-a": "b", "9-b": "c", "10-c": "d"}
    root = make_db(tmp_path, {f"gfxB/attn_fwd.{name}.dbpatch": one_cell(symbol) for name, symbol in names.items()})
    resolved = txtdb.load(root)["gfxB"][IFACE]
    assert block_m(resolved) == D
    assert [layer.number for layer in resolved.layers] == [None, 2, 9, 10]
    write_files(root, {"gfxB/attn_fwd.010-d.dbpatch": one_cell("a")})
    assert [layer.number for layer in txtdb.load(root)["gfxB"][IFACE].layers] == [None, 2, 9, 10, 10]


def test_row_017_equal_numbers_on_other_cells_give_one_table_in_both_orders(tmp_path: Path) -> None:
    """Whether they touch a common cell is for `check`; apart, the names play no part."""
    first, second = patch("gfxB", {F1: ["64 d . ."]}), patch("gfxB", {F1: ["64 . d ."]})
    tables = []
    for number, (one, two) in enumerate(((first, second), (second, first))):
        files = {"gfxB/attn_fwd.0020-a.dbpatch": one, "gfxB/attn_fwd.0020-b.dbpatch": two}
        resolved = txtdb.load(make_db(tmp_path, files, f"db{number}"))["gfxB"][IFACE]
        tables.append([config_values(resolved, cell) for cell in resolved.cells.ravel().tolist()])
    assert tables[0] == tables[1]


CHAIN = {
    "archs.toml": "[arch.gfxA]\n[arch.gfxB]\n[arch.gfxC]\n",
    "gfxA/attn_fwd.txtdb": table("gfxA", {F1: ["256 . . d"]}, base="gfxB"),
    "gfxB/attn_fwd.txtdb": table("gfxB", {F1: ["128 b*3"]}, base="gfxC"),
    "gfxC/attn_fwd.txtdb": table("gfxC", {F1: ["64-256 a*3"]}),
}


def chain(folder: Path, **changes: str) -> Path:
    schema = (make_db(folder, name="s0") / "schema" / "attn_fwd.toml").read_text(encoding="utf-8")
    schema = schema[: schema.index("[arch.gfxA]")] + CHAIN["archs.toml"]
    changed = {f"{arch}/attn_fwd.txtdb": text for arch, text in changes.items()}
    return write_files(folder / "db", {**CHAIN, "schema/attn_fwd.toml": schema, **changed})


def test_row_020_each_cell_falls_through_to_its_donor(tmp_path: Path) -> None:
    """gfxA has 1 cell, gfxB one row, gfxC all nine: nine cells resolve, and each names its donor."""
    resolved = txtdb.load(chain(tmp_path))["gfxA"][IFACE]
    donors = []
    for q in (64, 128, 256):
        for k in (64, 128, 256):
            winner = resolved.explain(**{**AT_64, "seqlen_q": q, "seqlen_k": k}).winner
            assert winner is not None
            donors.append(winner.layer.arch)
    assert donors == ["gfxC"] * 3 + ["gfxB"] * 3 + ["gfxC"] * 2 + ["gfxA"]


@pytest.mark.parametrize(("base", "circle"), [("gfxA", "gfxA -> gfxB -> gfxA"), ("gfxB", "gfxB -> gfxB")])
def test_row_020_circles_print_the_chain(tmp_path: Path, base: str, circle: str) -> None:
    root = chain(tmp_path, gfxB=table("gfxB", {F1: ["128 b*3"]}, base=base))
    with pytest.raises(txtdb.FaultError, match=f"the bases run in a circle: {circle}"):
        txtdb.load(root)["gfxA"][IFACE]


def test_row_022_an_arch_without_data_and_base_borrows_from_nobody(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxA/attn_fwd.txtdb": None})
    with pytest.raises(txtdb.FaultError, match="gfxA attn_fwd: no data, no base"):
        txtdb.load(root)["gfxA"][IFACE]
    assert txtdb.load(root).resolve("gfxA", IFACE).table is None


def test_row_023_a_hole_of_a_functional_without_donor(tmp_path: Path) -> None:
    """F2 exists in gfxA alone and lacks one cell: that one answers "no kernel", the others their config."""
    own = table("gfxA", {F2: ["64-128 b*3", "256 c . d"]}, base="gfxB")
    resolved = txtdb.load(make_db(tmp_path, {"gfxA/attn_fwd.txtdb": own}))["gfxA"][IFACE]
    assert block_m(resolved, 256, 128, 128) is txtdb.NO_KERNEL
    assert block_m(resolved, 256, 256, 128) == D
    assert block_m(resolved, 256, 256, 64) == D
    explanation = resolved.explain(**{**AT_64, "head_dim": 128, "seqlen_q": 256, "seqlen_k": 128})
    assert (explanation.answer, explanation.history) == (txtdb.NO_KERNEL, ())
    assert [Path(file).parent.name for file in explanation.searched] == ["gfxB", "gfxA"]


def test_row_097_a_sparse_patch_never_answers_for_larger_sizes(tmp_path: Path) -> None:
    """The patch tunes 64 only: 128, 256, 257 and 4096 are the base's choice."""
    sparse = patch("gfxB", {F1: ["64 d"]}, axes={"seqlen_q": "64", "seqlen_k": "64"})
    plain = txtdb.load(make_db(tmp_path, name="plain"))["gfxB"][IFACE]
    patched = txtdb.load(make_db(tmp_path, {"gfxB/attn_fwd.1-x.dbpatch": sparse}))["gfxB"][IFACE]
    sizes = (1, 64, 65, 128, 256, 257, 4096)
    differ = [(q, k) for q in sizes for k in sizes if block_m(plain, q, k) != block_m(patched, q, k)]
    assert differ == [(1, 1), (1, 64), (64, 1), (64, 64)]


def test_row_100_a_config_inserted_at_the_top(tmp_path: Path) -> None:
    """Cells name configs by symbol: every cell keeps its content, and only the palette has one line more."""
    text = TABLE_B.replace("\na = ", "\ne = 64 false 8 4\na = ")
    before, after = (
        txtdb.load(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": t}, n)) for n, t in (("x", TABLE_B), ("y", text))
    )
    one, two = before["gfxB"][IFACE], after["gfxB"][IFACE]
    values = [[config_values(t, cell) for cell in t.cells.ravel().tolist()] for t in (one, two)]
    assert values[0] == values[1]
    assert len(before.pool(IFACE)) + 1 == len(after.pool(IFACE)) == len(PALETTE) + 1


def read_everything(root: Path, over: Path) -> list[str]:
    database = txtdb.load(root, [over])
    for arch, iface in database.places():
        resolved = database[arch][iface]
        sizes = dict.fromkeys(resolved.schema.axis_names, 100)
        for functional in resolved.functionals:
            given = {**resolved.schema.functional_dict(functional), **sizes}
            resolved.lookup(**given)
            resolved.explain(**given)
            resolved.effective(functional)
    return [arch for arch, _ in database.places()]


def test_row_118_a_read_only_tree_as_an_unprivileged_user() -> None:
    """Folders 0555, files 0444: everything is read, and names and times stay as they were."""
    with public_folder() as folder:
        root = make_db(folder, {"gfxB/attn_fwd.1-x.dbpatch": one_cell("d")})
        over = write_files(folder / "over", {"gfxB/attn_fwd.1-y.dbpatch": one_cell("b")})
        read_everything(root, over)  # imports and compiles the grammar while that is possible
        before = [freeze(root), freeze(over)]
        assert unprivileged(lambda: read_everything(root, over)) == ["gfxA", "gfxB"]
        assert [state(root), state(over)] == before


def run_commands(root: Path, over: Path, old: Path, out: Path) -> dict[str, list[object]]:
    """Command → exit code and output of those that read a database; only `codegen` writes, and that to `out`."""
    overlay = ("--overlay", str(over))
    commands: dict[str, tuple[click.Command, tuple[str, ...]]] = {
        "check": (main, ("check", str(root), *overlay, "--strict", "--today", "2026-06-01")),
        "resolve": (main, ("resolve", str(root), "gfxA", IFACE, *overlay)),
        "diff": (main, ("diff", str(old), str(root))),
        "codegen": (codegen, (str(root), *overlay, "--out", str(out))),
        "codegen --check": (codegen, (str(root), *overlay, "--out", str(out), "--check")),
    }
    ran = {name: CliRunner().invoke(command, arguments) for name, (command, arguments) in commands.items()}
    return {name: [result.exit_code, result.output, repr(result.exception)] for name, result in ran.items()}


def test_row_118_commands_on_a_read_only_tree_as_an_unprivileged_user() -> None:
    """check, resolve, diff and codegen say there what they say of a tree that may be written, and leave it alone."""
    with public_folder() as folder:
        root = make_db(folder, {"gfxB/attn_fwd.1-x.dbpatch": patch("gfxB", {F1: ["64 d . ."]})})
        over = write_files(folder / "over", {"gfxB/attn_fwd.2-y.dbpatch": patch("gfxB", {F1: ["128 d . ."]})})
        trees = [root, over, make_db(folder, name="old")]
        outs = [folder / "first", folder / "second"]
        expected = run_commands(*trees, outs[0])
        codes = {name: code for name, (code, *_) in expected.items()}
        assert codes == {"check": 0, "resolve": 0, "diff": 1, "codegen": 0, "codegen --check": 0}, expected
        outs[1].mkdir()
        outs[1].chmod(0o777)
        before = [freeze(tree) for tree in trees]
        assert unprivileged(lambda: [os.access(tree, os.W_OK) for tree in trees]) == [False] * 3
        assert unprivileged(lambda: run_commands(*trees, outs[1])) == expected
        assert [state(tree) for tree in trees] == before
        written = [
            {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
            for out in outs
        ]
        assert written[0] == written[1]
        assert "cpp/attn_fwd.cpp" in written[0]


def test_an_unreadable_file_and_folder_are_faults() -> None:
    """Each is told, and nothing is published without it."""
    with public_folder() as folder:
        root = make_db(folder, {"gfxA/pins.toml": ""})
        (root / "gfxB" / "attn_fwd.txtdb").chmod(0)
        (root / "gfxA").chmod(0)

        def told() -> list[list[str]]:
            database = txtdb.open_database(root)
            faults = (*database.faults, *database.resolve("gfxB", IFACE).faults)
            return [[fault.rule, fault.span.file, fault.message] for fault in faults]

        assert unprivileged(told) == [
            ["unreadable", f"{root}/gfxA", "the folder cannot be read: Permission denied"],
            ["unreadable", f"{root}/gfxB/attn_fwd.txtdb", "the file cannot be read: Permission denied"],
        ]
        (root / "gfxA").chmod(0o644)  # its names can be listed, and nothing else
        assert unprivileged(lambda: [fault.span.file for fault in txtdb.open_database(root).faults]) == [f"{root}/gfxA"]
        root.chmod(0)
        assert unprivileged(lambda: [fault.rule for fault in txtdb.open_database(root).faults]) == ["unreadable"]
