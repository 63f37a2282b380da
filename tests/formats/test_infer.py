"""Schemas inferred from rows, and the text that they are written as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.build import SCHEMA
from tests.formats.source import (
    KERNEL,
    KERNEL_COLUMNS,
    Row,
    database,
    import_to,
    kernel_database,
    kernel_rows,
    write_source,
)
from txtdb.formats.schema_text import schema_text
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema

COLUMN = {name: place for place, name in enumerate(KERNEL_COLUMNS)}

# Rows that differ in one column, to see what is made of its values.
ONE: Row = ("gfx1_mod0", "torch.float16", 64, 64, 0, 0, 0, 0, 0, 2, 32, 0, 4)

ATTN_FWD = """\
# What may stand in the tables of attn_fwd. Inferred from src.
iface = "attn_fwd"

[[key]]
name = "Q_dtype"
type = "enum"
values = ["bf16", "fp16"]

[[key]]
name = "CAUSAL_TYPE"
type = "int"
values = [0, 3]

[[key]]
name = "PADDED_HEAD"
type = "bool"
fallback = false

[[key]]
name = "BIAS_TYPE"
type = "int"
values = [0, 1]

[[key]]
name = "INT8"
type = "bool"
fixed = false

[[axis]]
name = "Max_seqlen_q"
bins = [64, 128]

[[axis]]
name = "Max_seqlen_k"
bins = [64, 128]

[[config]]
name = "GRID_CU_MULTIP"
type = "int"
values = [2]
default = 2

[[config]]
name = "BLOCK_M"
type = "int"
values = [32, 64, 128]

[[config]]
name = "PRE_LOAD_V"
type = "bool"

[[config]]
name = "num_warps"
type = "int"
values = [4]
default = 4

[[derived]]
name = "PERSISTENT_TYPE"
type = "int"
key = "CAUSAL_TYPE"
map = { 0 = 0, 3 = 2 }

[[absent]]
CAUSAL_TYPE = 3
BIAS_TYPE = 1

[arch.gfx1]

[arch.gfx2]
domain.Q_dtype = ["bf16"]

[arch.gfx3]
like = "gfx2"
"""


def emitted(tmp_path: Path, rows: Sequence[Row], bases: Sequence[tuple[str, str]] = ()) -> Schema:
    """The schema that is written for these rows, read back."""
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})
    result = import_to(source, tmp_path / "db", bases)
    assert result.complete, result.faults
    path = tmp_path / "db" / "schema" / "attn_fwd.toml"
    schema, faults = read_schema(path.read_bytes(), path.as_posix(), "attn_fwd")
    assert schema is not None, faults
    return schema


def with_values(column: str, values: Sequence[object]) -> list[Row]:
    """A row for each value, told apart by their key lengths."""
    rows = []
    for number, value in enumerate(values):
        row = list(ONE)
        row[COLUMN["inputs$Max_seqlen_k"]] = 1 << number
        row[COLUMN[column]] = value
        rows.append(tuple(row))
    return rows


def field_values(schema: Schema, name: str) -> tuple[object, ...]:
    return next(item.values for item in schema.config if item.name == name)


def test_the_whole_text_of_a_schema(tmp_path: Path) -> None:
    write_source(tmp_path / "src", {"a.sqlite3": kernel_database()})
    import_to(tmp_path / "src", tmp_path / "db", [("gfx3", "gfx2")])
    assert (tmp_path / "db" / "schema" / "attn_fwd.toml").read_text() == ATTN_FWD


def test_what_is_missing_in_the_rows_stays_declared(tmp_path: Path) -> None:
    """bf16 is seen on gfx1, causal as well: that the two together have no row there is a gap, not a declaration."""
    rows = [row for row in kernel_rows() if (row[0], row[1], row[4]) != ("gfx1_mod0", "torch.bfloat16", 3)]
    arch = emitted(tmp_path, rows).for_arch("gfx1")
    assert arch and ("bf16", 3, False, 0) in arch.declared


def test_values_that_never_meet_on_any_arch_are_absent(tmp_path: Path) -> None:
    rows = [row for row in kernel_rows() if (row[1], row[4]) != ("torch.float16", 3)]
    schema = emitted(tmp_path, rows)
    assert [predicate.terms for predicate in schema.absent] == [
        (("Q_dtype", ("fp16",)), ("CAUSAL_TYPE", (3,))),
        (("CAUSAL_TYPE", (3,)), ("BIAS_TYPE", (1,))),
    ]


def test_bins_are_those_of_the_arch_and_its_base(tmp_path: Path) -> None:
    rows = kernel_rows(["gfx1_mod0"], (64, 128, 256)) + kernel_rows(["gfx2_mod0"], (32, 64))
    schema = emitted(tmp_path, rows)
    alone, based = schema.for_arch("gfx2"), emitted(tmp_path / "b", rows, [("gfx2", "gfx1")]).for_arch("gfx2")
    assert schema.axes[0].bins == (32, 64, 128, 256)
    assert alone and alone.bins == ((32, 64), (32, 64))
    assert based and based.bins == ((32, 64, 128, 256), (32, 64, 128, 256))


def test_tile_sizes_admit_the_powers_of_two_between(tmp_path: Path) -> None:
    schema = emitted(tmp_path, with_values("tuned_kernel$BLOCK_M", [16, 48, 256]))
    assert field_values(schema, "BLOCK_M") == (16, 32, 48, 64, 128, 256)
    arch = schema.for_arch("gfx1")
    assert arch and arch.illegal((0, 2, 100, False, 4)) == "BLOCK_M = 100 is outside its domain (16 32 48 64 128 256)"
    assert arch.illegal((0, 2, 64, False, 4)) is None


def test_warps_admit_the_powers_of_two_between(tmp_path: Path) -> None:
    assert field_values(emitted(tmp_path, with_values("compiler_options$num_warps", [8, 1])), "num_warps") == (
        1,
        2,
        4,
        8,
    )


def test_other_fields_admit_what_was_seen(tmp_path: Path) -> None:
    schema = emitted(tmp_path, with_values("tuned_kernel$GRID_CU_MULTIP", [1, 4]))
    assert field_values(schema, "GRID_CU_MULTIP") == (1, 4)


def test_a_launch_field_that_no_key_decides_is_a_config_field(tmp_path: Path) -> None:
    schema = emitted(tmp_path, with_values("tuned_kernel$PERSISTENT_TYPE", [0, 2]))
    assert not schema.derived
    assert field_values(schema, "PERSISTENT_TYPE") == (0, 2)


def test_a_tile_size_that_follows_a_key_is_chance(tmp_path: Path) -> None:
    rows = [(*row[:10], 64 if row[4] else 32, *row[11:]) for row in kernel_rows()]
    assert [item.name for item in emitted(tmp_path, rows).derived] == ["PERSISTENT_TYPE"]


def test_padded_rows_are_functionals_of_their_own(tmp_path: Path) -> None:
    padded = tuple(
        1 if name == "inputs$PADDED_HEAD" else value for name, value in zip(KERNEL_COLUMNS, ONE, strict=True)
    )
    schema = emitted(tmp_path, [ONE, padded])
    arch = schema.for_arch("gfx1")
    assert schema.key_names == ("PADDED_HEAD",)
    assert arch and arch.supported == {(False,), (True,)} and arch.declared == ((False,),)


def test_a_table_whose_keys_are_all_fixed_keeps_one(tmp_path: Path) -> None:
    columns = {name: kind for name, kind in KERNEL_COLUMNS.items() if name != "inputs$PADDED_HEAD"}
    row = (*ONE[:5], *ONE[6:])
    source = write_source(tmp_path / "src", {"a.sqlite3": database({KERNEL: (columns, [row])})})
    assert import_to(source, tmp_path / "db").complete
    assert "[fp16]\n64 a\n" in (tmp_path / "db" / "gfx1" / "attn_fwd.txtdb").read_text()


# The text


def test_hand_written_schemas_survive_the_printer() -> None:
    text = SCHEMA + (
        '[arch."gfx:C"]\nbins.seqlen_q = [64]\nunsupported = [{ dtype = "fp16", causal = [0, 1] }]\n'
        "illegal = [{ BLOCK_M = 32 }, { num_warps = [1, 2], PRE_LOAD_V = true }]\n"
        '[arch.gfxD]\nlike = "gfx:C"\n[arch.gfxE]\n'
        "[[illegal]]\nBLOCK_M = 128\nnum_stages = 4\n[[absent]]\ncausal = 1\nhead_dim = 128\n"
        '[[config]]\nname = "split"\ntype = "enum"\nvalues = ["a", "b"]\ndefault = "a"\nbinary = false\n'
        '[[key]]\nname = "quiet"\ntype = "bool"\nvalues = [true]\n[[key]]\nname = "x"\ntype = "int"\nfixed = 3\n'
    )
    schema, faults = read_schema(text.encode(), "s", "attn_fwd")
    assert schema is not None, faults
    printed = schema_text(schema, ["a comment"])
    again, faults = read_schema(printed.encode(), "s", "attn_fwd")
    assert again == schema, faults
    assert printed.startswith('# a comment\niface = "attn_fwd"\n')
    assert schema_text(again, ["a comment"]) == printed


def test_operators_and_fixed_kernels_survive_the_printer(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    path = tmp_path / "db" / "schema" / "op_attn_fwd.toml"
    schema, _ = read_schema(path.read_bytes(), "s", "op_attn_fwd")
    assert schema
    fixed = replace(schema, iface="helper", kind="fixed", backends=(), axes=(), fixed_config=("triton",))
    for item in (schema, fixed):
        again, faults = read_schema(schema_text(item).encode(), "s", item.iface)
        assert again == item, faults
