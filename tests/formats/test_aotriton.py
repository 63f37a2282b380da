"""Import of an AOTriton database: what is written, and what is refused with table and row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import txtdb
from tests.formats.source import (
    KERNEL,
    KERNEL_COLUMNS,
    OPERATOR,
    OPERATOR_COLUMNS,
    Row,
    archive,
    database,
    import_to,
    kernel_database,
    kernel_rows,
    operator_rows,
    rows_of,
    write_source,
)
from txtdb.formats.aotriton import Import, import_aotriton

COLUMN = {name: place for place, name in enumerate(KERNEL_COLUMNS)}


def changed(rows: Sequence[Row], number: int, column: str, value: object) -> list[Row]:
    """Rows with one value of row `number` (from 1) replaced."""
    result = [list(row) for row in rows]
    result[number - 1][COLUMN[column]] = value
    return [tuple(row) for row in result]


def import_rows(tmp_path: Path, rows: Sequence[Row], emit_schema: bool = True) -> Import:
    """Import a source of one kernel table, and write what came of it."""
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})
    return import_to(source, tmp_path / "db", emit_schema=emit_schema)


def rules(result: Import) -> list[str]:
    return [fault.rule for fault in result.faults]


def message(result: Import) -> str:
    assert len(result.faults) == 1, result.faults
    return result.faults[0].message


def test_the_default_source_comes_whole(tmp_path: Path) -> None:
    result = import_to(write_source(tmp_path / "src"), tmp_path / "db")
    assert result.complete
    assert result.cells == {
        ("gfx1", "attn_fwd"): 24,
        ("gfx1", "op_attn_fwd"): 24,
        ("gfx2", "attn_fwd"): 12,
        ("gfx2", "op_attn_fwd"): 12,
    }
    assert (result.sources, result.empty_tables, result.rows_left_out) == (3, 1, 0)
    names = sorted(path.relative_to(tmp_path / "db").as_posix() for path in result.files)
    assert names == [
        "archs.toml",
        "gfx1/attn_fwd.txtdb",
        "gfx1/op_attn_fwd.txtdb",
        "gfx2/attn_fwd.txtdb",
        "gfx2/op_attn_fwd.txtdb",
        "schema/attn_fwd.toml",
        "schema/op_attn_fwd.toml",
    ]


def test_the_text_of_a_table(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    assert (tmp_path / "db" / "gfx2" / "attn_fwd.txtdb").read_text() == (
        "#! txtdb 1\n"
        "#! iface attn_fwd\n"
        "#! arch gfx2\n"
        "#! origin imported src\n"
        "#! key Q_dtype CAUSAL_TYPE PADDED_HEAD BIAS_TYPE\n"
        "#! axis Max_seqlen_q 64 128\n"
        "#! axis Max_seqlen_k 64 128\n"
        "#! config BLOCK_M PRE_LOAD_V\n"
        "\n"
        "a = 32 false\nb = 32 true\nc = 128 false\nd = 128 true\n"
        "\n[bf16 0 false 0]\n64 a b\n128 c d\n"
        "\n[bf16 0 false 1]\n64 a b\n128 c d\n"
        "\n[bf16 3 false 0]\n64 a b\n128 c d\n"
        "#! end\n"
    )


def test_lookups_in_the_imported_database(tmp_path: Path) -> None:
    import_to(write_source(tmp_path / "src"), tmp_path / "db")
    arch = txtdb.load(tmp_path / "db")["gfx1"]
    asked = {"Q_dtype": "fp16", "CAUSAL_TYPE": 3, "PADDED_HEAD": True, "BIAS_TYPE": 0}
    config = arch["attn_fwd"].lookup(**asked, Max_seqlen_q=100, Max_seqlen_k=1, INT8=False)
    assert dict(config) == {
        "GRID_CU_MULTIP": 2,
        "BLOCK_M": 128,
        "PRE_LOAD_V": False,
        "num_warps": 4,
        "PERSISTENT_TYPE": 2,
    }
    assert arch["attn_fwd"].lookup(**{**asked, "BIAS_TYPE": 1}, Max_seqlen_q=1, Max_seqlen_k=1) is txtdb.UNSUPPORTED
    assert str(arch["op_attn_fwd"].lookup(**asked, Max_seqlen_q=128, Max_seqlen_k=128)) == "backend=aiter_asm"


def test_folders_and_file_names_do_not_matter(tmp_path: Path) -> None:
    rows = kernel_rows()
    split = {
        "z/y/x.sqlite3": kernel_database(rows[:7]),
        "first.sqlite3": kernel_database(rows[7:20]),
        "a/one.sqlite3.tar.xz": archive(kernel_database(rows[20:]), "deep/one.sqlite3"),
    }
    one = import_aotriton(write_source(tmp_path / "1" / "src", split), tmp_path / "db", emit_schema=True)
    other = import_aotriton(
        write_source(tmp_path / "2" / "src", {"b.sqlite3": kernel_database(rows[::-1])}),
        tmp_path / "db",
        emit_schema=True,
    )
    assert one.complete
    assert dict(one.files) == dict(other.files)


def test_a_single_file_can_be_the_source(tmp_path: Path) -> None:
    write_source(tmp_path / "src")
    result = import_aotriton(tmp_path / "src" / "gfx" / "attn_fwd.sqlite3.tar.xz", tmp_path / "db", emit_schema=True)
    assert sum(result.cells.values()) == 36


def test_an_empty_folder_is_a_fault(tmp_path: Path) -> None:
    assert rules(import_aotriton(tmp_path, tmp_path / "db", emit_schema=True)) == ["no-source"]


def test_variants_are_archs_of_their_own_and_names_return(tmp_path: Path) -> None:
    rows = [("gfx1_mod1", *row[1:]) for row in kernel_rows(["gfx1_mod0"])] + kernel_rows(["gfx1_mod0"])
    result = import_rows(tmp_path, rows)
    assert [arch for arch, _ in result.cells] == ["gfx1", "gfx1_mod1"]
    database = txtdb.load(tmp_path / "db")
    assert {name: arch.gpu_name for name, arch in database.archs.items()} == {
        "gfx1": "gfx1_mod0",
        "gfx1_mod1": "gfx1_mod1",
    }


WRONG_VALUES = {
    "a float in a column of whole numbers": ("tuned_kernel$BLOCK_M", 64.5, "wrong-type"),
    "text in a column of whole numbers": ("inputs$Max_seqlen_q", "many", "wrong-type"),
    "a missing value": ("compiler_options$num_warps", None, "wrong-type"),
    "bytes for a dtype": ("inputs$Q_dtype", b"fp16", "wrong-type"),
    "a bool that is neither 0 nor 1": ("tuned_kernel$PRE_LOAD_V", 2, "wrong-value"),
    "a negative size": ("inputs$Max_seqlen_k", -64, "wrong-value"),
    "a dtype that is no name": ("inputs$Q_dtype", "64", "wrong-value"),
    "a dtype that would come back as another": ("inputs$Q_dtype", "fp16", "wrong-value"),
    "a gpu that is no folder": ("gpu", "../../etc", "bad-gpu-name"),
    "a gpu that is the schema folder": ("gpu", "schema", "bad-gpu-name"),
    "a gpu without a name": ("gpu", "", "bad-gpu-name"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_wrong_value_is_a_fault_with_table_and_row(tmp_path: Path, case: str) -> None:
    column, value, rule = WRONG_VALUES[case]
    result = import_rows(tmp_path, changed(kernel_rows(), 5, column, value))
    assert rules(result) == [rule]
    assert not result.complete
    assert message(result).startswith(f"table {KERNEL}: row 5: ")
    assert result.faults[0].span.file == (tmp_path / "src" / "a.sqlite3").as_posix()
    assert (result.rows_left_out, sum(result.cells.values())) == (1, 35)


def test_all_rows_with_a_wrong_value_are_listed_in_one_fault(tmp_path: Path) -> None:
    rows = kernel_rows()
    for number in (3, 4, 5, 9):
        rows = changed(rows, number, "tuned_kernel$PRE_LOAD_V", 7)
    result = import_rows(tmp_path, rows)
    assert "rows 3-5, 9: tuned_kernel$PRE_LOAD_V = 7" in message(result)
    assert result.rows_left_out == 4


def test_whole_numbers_and_equal_floats_are_not_confused(tmp_path: Path) -> None:
    columns = {name: "" if name == "tuned_kernel$BLOCK_M" else kind for name, kind in KERNEL_COLUMNS.items()}
    rows = changed(kernel_rows(), 2, "tuned_kernel$BLOCK_M", 32.0)
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows, columns)})
    assert "row 2: tuned_kernel$BLOCK_M = 32.0 is no INTEGER" in message(import_to(source, tmp_path / "db"))


def test_rows_with_equal_keys_and_different_configs(tmp_path: Path) -> None:
    rows = kernel_rows()
    other = changed(rows, 7, "tuned_kernel$BLOCK_M", 64)[6]
    result = import_rows(tmp_path, [*rows, other])
    assert rules(result) == ["conflicting-rows"]
    assert message(result).startswith(f"table {KERNEL}: rows 7, 37: ")
    assert "Q_dtype=fp16 CAUSAL_TYPE=0 PADDED_HEAD=false BIAS_TYPE=1" in message(result)
    assert (result.rows_left_out, sum(result.cells.values())) == (2, 35)


def test_a_conflict_between_two_files_names_both(tmp_path: Path) -> None:
    rows = kernel_rows()
    files = {"a.sqlite3": kernel_database(rows), "b.sqlite3": kernel_database([(*rows[6][:-1], 8)])}
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert [(fault.span.file.rpartition("/")[2], fault.rule) for fault in result.faults] == [
        ("a.sqlite3", "conflicting-rows"),
        ("b.sqlite3", "conflicting-rows"),
    ]
    assert ["row 7: " in result.faults[0].message, "row 1: " in result.faults[1].message] == [True, True]


def test_rows_that_stand_twice_are_counted(tmp_path: Path) -> None:
    result = import_rows(tmp_path, [*kernel_rows(), *kernel_rows()[:3]])
    assert result.complete
    assert (result.rows_repeated, sum(result.cells.values())) == (3, 36)


def test_an_unknown_column_leaves_its_table_out(tmp_path: Path) -> None:
    columns = {**KERNEL_COLUMNS, "tuned_kernel$NEW": "INTEGER"}
    files = {
        "a.sqlite3": kernel_database(kernel_rows(["gfx1_mod0"])),
        "b.sqlite3": kernel_database([(*row, 1) for row in kernel_rows(["gfx2_mod0"])], columns),
    }
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert rules(result) == ["unknown-column"]
    assert f"table {KERNEL}: column 'tuned_kernel$NEW' is not known; the table's 12 rows" in message(result)
    assert list(result.cells) == [("gfx1", "attn_fwd")]
    assert result.rows_left_out == 12


def test_a_known_name_in_the_wrong_group_is_unknown(tmp_path: Path) -> None:
    columns = {name.replace("tuned_kernel$BLOCK_M", "inputs$BLOCK_M"): kind for name, kind in KERNEL_COLUMNS.items()}
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(kernel_rows(), columns)})
    assert "column 'inputs$BLOCK_M' is not known" in message(import_to(source, tmp_path / "db"))


def test_tables_of_one_interface_need_the_same_columns(tmp_path: Path) -> None:
    fewer = {name: kind for name, kind in KERNEL_COLUMNS.items() if name != "inputs$INT8"}
    rows = [(*row[:7], *row[8:]) for row in kernel_rows(["gfx2_mod0"])]
    files = {
        "a.sqlite3": kernel_database(kernel_rows(["gfx1_mod0"])),
        "b.sqlite3": kernel_database(rows, fewer),
    }
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert (rules(result), result.rows_left_out) == (["missing-column"], 12)
    assert "it lacks INT8; its 12 rows are left out" in message(result)


@pytest.mark.parametrize("name", ["attn_fwd", "OTHER$attn_fwd", "FLASH$../x", "FLASH$"])
def test_an_unknown_table_is_a_fault(tmp_path: Path, name: str) -> None:
    data = database({KERNEL: (KERNEL_COLUMNS, kernel_rows()), name: (KERNEL_COLUMNS, kernel_rows())})
    result = import_to(write_source(tmp_path / "src", {"a.sqlite3": data}), tmp_path / "db")
    assert rules(result) == ["unknown-table"]
    assert repr(name) in message(result)


def test_tflops_that_would_be_lost(tmp_path: Path) -> None:
    rows = operator_rows()
    rows[3] = (*rows[3][:-1], 12.5)
    files = {
        "a.sqlite3": kernel_database(),
        "op.sqlite3": database({OPERATOR: (OPERATOR_COLUMNS, rows)}),
    }
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert message(result) == f"table {OPERATOR}: row 4: op$tflops = 12.5: only 0.0 is known here"


def test_an_unknown_back_end(tmp_path: Path) -> None:
    rows = operator_rows()
    rows[0] = (*rows[0][:-2], 2, 0.0)
    files = {"a.sqlite3": kernel_database(), "op.sqlite3": database({OPERATOR: (OPERATOR_COLUMNS, rows)})}
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert message(result) == f"table {OPERATOR}: row 1: op$backend = 2 means nothing"
    assert result.faults[0].hint == "0 is triton, 1 is aiter_asm"


def test_an_operator_without_its_kernels_is_a_fault(tmp_path: Path) -> None:
    files = {"op.sqlite3": database({OPERATOR: (OPERATOR_COLUMNS, operator_rows())})}
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert rules(result) == ["missing-launch"]
    assert "back end triton launches attn_fwd" in message(result)


def test_a_damaged_file_among_good_ones(tmp_path: Path) -> None:
    files = {
        "a.sqlite3": kernel_database(),
        "b.sqlite3.tar.xz": archive(kernel_database())[:300],
        "c.sqlite3": kernel_database()[:5000],
    }
    result = import_to(write_source(tmp_path / "src", files), tmp_path / "db")
    assert [(f.rule, f.span.file.rpartition("/")[2]) for f in result.faults] == [
        ("damaged-source", "b.sqlite3.tar.xz"),
        ("damaged-source", "c.sqlite3"),
    ]
    assert sum(result.cells.values()) == 36


def test_every_mutant_of_a_database_is_data_or_a_fault(tmp_path: Path) -> None:
    """Flipped bytes in the pages of a table: never an exception, and never a row that is not whole."""
    data = kernel_database()
    for at in range(0, len(data), 97):
        mutant = bytearray(data)
        mutant[at] ^= 0x5A
        source = write_source(tmp_path / "src", {"a.sqlite3": bytes(mutant)})
        result = import_aotriton(source, tmp_path / "db", emit_schema=True)
        assert result.faults or sum(result.cells.values()) > 0 or result.empty_tables


# With a schema that is there


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A database imported from the default rows."""
    import_rows(tmp_path, kernel_rows())
    return tmp_path / "db"


def test_the_schemas_of_the_root_type_the_data(tmp_path: Path, root: Path) -> None:
    schema = (root / "schema" / "attn_fwd.toml").read_bytes()
    result = import_rows(tmp_path, changed(kernel_rows(), 1, "tuned_kernel$BLOCK_M", 64), emit_schema=False)
    assert result.complete
    assert sorted(path.name for path in result.files) == ["attn_fwd.txtdb", "attn_fwd.txtdb"]
    assert (root / "schema" / "attn_fwd.toml").read_bytes() == schema


def test_without_schemas_there_must_be_a_database(tmp_path: Path) -> None:
    assert "no-archs" in rules(import_rows(tmp_path, kernel_rows(), emit_schema=False)) or "no-root" in rules(
        import_rows(tmp_path, kernel_rows(), emit_schema=False)
    )


OUTSIDE = {
    "a config that the schema forbids": ("tuned_kernel$BLOCK_M", 100, "illegal-config", "BLOCK_M = 100 is outside"),
    "a bin that the arch does not have": ("inputs$Max_seqlen_q", 256, "unknown-bin", "Max_seqlen_q = 256 is no bin"),
    "a key value outside the domain": ("inputs$CAUSAL_TYPE", 1, "unsupported-functional", "CAUSAL_TYPE=1"),
    "a functional that is absent": ("inputs$CAUSAL_TYPE", 3, "unsupported-functional", "does not exist on gfx1"),
    "another value of a fixed key": ("inputs$INT8", 1, "fixed-key", "INT8 = true, and the schema fixes it at false"),
    "another value than the derived one": ("tuned_kernel$PERSISTENT_TYPE", 2, "derived-field", "from CAUSAL_TYPE"),
    "an arch that is not known": ("gpu", "gfx9_mod0", "unknown-arch", "'gfx9_mod0' is no known arch"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_the_schema_does_not_admit_is_refused(tmp_path: Path, root: Path, case: str) -> None:
    column, value, rule, text = OUTSIDE[case]
    result = import_rows(tmp_path, changed(kernel_rows(), 5, column, value), emit_schema=False)
    assert rules(result) == [rule]
    assert message(result).startswith(f"table {KERNEL}: row 5: ")
    assert text in message(result)
    assert result.rows_left_out == 1


def test_a_column_that_the_schema_does_not_have(tmp_path: Path, root: Path) -> None:
    path = root / "schema" / "attn_fwd.toml"
    text = path.read_text()
    path.write_text(text.replace('[[key]]\nname = "INT8"\ntype = "bool"\nfixed = false\n', ""))
    assert "column 'inputs$INT8' is not known" in message(import_rows(tmp_path, kernel_rows(), emit_schema=False))


def test_a_table_without_a_schema(tmp_path: Path, root: Path) -> None:
    (root / "schema" / "attn_fwd.toml").rename(root / "schema" / "other.toml")
    path = root / "schema" / "other.toml"
    path.write_text(path.read_text().replace('iface = "attn_fwd"', 'iface = "other"'))
    result = import_rows(tmp_path, kernel_rows(), emit_schema=False)
    assert rules(result) == ["unknown-table"]
    assert "other" in result.faults[0].hint


def test_a_field_without_column_is_at_its_default(tmp_path: Path, root: Path) -> None:
    place = COLUMN["tuned_kernel$GRID_CU_MULTIP"]
    columns = {name: kind for name, kind in KERNEL_COLUMNS.items() if name != "tuned_kernel$GRID_CU_MULTIP"}
    rows = [(*row[:place], *row[place + 1 :]) for row in kernel_rows()]
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows, columns)})
    assert import_to(source, root, emit_schema=False).complete


def test_a_field_without_column_and_default_is_a_fault(tmp_path: Path, root: Path) -> None:
    columns = {name: kind for name, kind in KERNEL_COLUMNS.items() if name != "tuned_kernel$PRE_LOAD_V"}
    place = COLUMN["tuned_kernel$PRE_LOAD_V"]
    rows = [(*row[:place], *row[place + 1 :]) for row in kernel_rows()]
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows, columns)})
    result = import_to(source, root, emit_schema=False)
    assert rules(result) == ["missing-column"]
    assert "there is no column PRE_LOAD_V" in message(result)
    assert result.rows_left_out == 36


def test_a_gpu_is_found_by_its_stated_name_and_by_alias(tmp_path: Path, root: Path) -> None:
    path = root / "archs.toml"
    path.write_text(path.read_text().replace("[arch.gfx1]", '[arch.gfx1]\naliases = ["MI1"]'))
    rows = [("MI1:sramecc+:xnack-" if row[0] == "gfx1_mod0" else "gfx2_mod0", *row[1:]) for row in kernel_rows()]
    result = import_rows(tmp_path, rows, emit_schema=False)
    assert result.complete
    assert rules(result) == ["gpu-renamed"]
    assert "is arch gfx1, and will be exported as gfx1_mod0" in message(result)


# What is there already


def test_existing_arch_facts_stay_and_missing_archs_are_appended(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    existing = "# by hand\n[arch.mi1]\ngpu = 'gfx1_mod0'\nwave_size = 64"
    (tmp_path / "db" / "archs.toml").write_text(existing)
    result = import_rows(tmp_path, kernel_rows())
    assert [arch for arch, _ in result.cells] == ["gfx2", "mi1"]
    assert (tmp_path / "db" / "archs.toml").read_text() == f'{existing}\n\n[arch.gfx2]\ngpu = "gfx2_mod0"\n'


def test_a_new_schema_must_not_lose_archs(tmp_path: Path, root: Path) -> None:
    before = (root / "schema" / "attn_fwd.toml").read_bytes()
    result = import_rows(tmp_path, kernel_rows(["gfx1_mod0"]))
    assert rules(result) == ["schema-archs-lost"]
    assert "would lose gfx2" in message(result)
    assert (root / "schema" / "attn_fwd.toml").read_bytes() == before


def test_a_second_import_changes_nothing(tmp_path: Path, root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    import_rows(tmp_path, kernel_rows())
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_an_import_over_a_table_changes_the_lines_of_its_cells_alone(tmp_path: Path, root: Path) -> None:
    path = root / "gfx2" / "attn_fwd.txtdb"
    text = path.read_text().replace("\n[bf16 0 false 1]\n", "\n# looked at twice\n[bf16 0 false 1]\n")
    path.write_text(text)
    result = import_rows(tmp_path, changed(kernel_rows(), 25, "tuned_kernel$BLOCK_M", 64))
    assert result.complete
    lines = zip(text.splitlines(), path.read_text().splitlines(), strict=False)
    old, new = path.read_text().splitlines(), text.splitlines()
    assert [line for line in new if line not in old] == []
    assert [line for line in old if line not in new] == ["e = 64 false", "64 e b"]
    assert next(lines) == ("#! txtdb 1", "#! txtdb 1")


def test_cells_that_the_source_no_longer_has_go(tmp_path: Path, root: Path) -> None:
    result = import_rows(tmp_path, kernel_rows()[:-1])
    assert result.complete
    assert "128 c .\n" in (root / "gfx2" / "attn_fwd.txtdb").read_text()


def test_a_table_with_other_bins_is_written_anew(tmp_path: Path, root: Path) -> None:
    rows = kernel_rows()
    import_rows(tmp_path, rows + [(*row[:2], 256, *row[3:]) for row in rows if row[2] == 128])
    assert "#! axis Max_seqlen_q 64 128 256\n" in (root / "gfx2" / "attn_fwd.txtdb").read_text()


# Bases


def based(tmp_path: Path, *bases: tuple[str, str], rows: Sequence[Row] | None = None) -> Import:
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})
    return import_to(source, tmp_path / "db", bases)


def test_a_child_without_rows_is_made_of_directives(tmp_path: Path) -> None:
    result = based(tmp_path, ("gfx3", "gfx1"))
    assert result.complete
    assert (tmp_path / "db" / "gfx3" / "attn_fwd.txtdb").read_text() == (
        "#! txtdb 1\n#! iface attn_fwd\n#! arch gfx3\n#! base gfx1\n#! origin imported src\n#! end\n"
    )
    database = txtdb.load(tmp_path / "db")
    assert database.archs["gfx3"].gpu == "gfx3_mod0"
    assert (database["gfx3"]["attn_fwd"].cells == database["gfx1"]["attn_fwd"].cells).all()


def test_a_child_with_rows_says_so_in_its_table(tmp_path: Path) -> None:
    based(tmp_path, ("gfx2", "gfx1"))
    assert "#! arch gfx2\n#! base gfx1\n#! origin" in (tmp_path / "db" / "gfx2" / "attn_fwd.txtdb").read_text()
    schema = txtdb.load(tmp_path / "db").schemas["attn_fwd"].for_arch("gfx2")
    assert schema and schema.domains[0] == ("bf16", "fp16")


def test_bases_may_form_a_chain(tmp_path: Path) -> None:
    based(tmp_path, ("gfx4", "gfx3"), ("gfx3", "gfx1"))
    table = txtdb.load(tmp_path / "db")["gfx4"]["attn_fwd"]
    assert [layer.arch for layer in table.layers if layer.table.functionals] == ["gfx1"]
    assert len(table.functionals) == 6


def test_a_base_that_is_in_the_database_already(tmp_path: Path, root: Path) -> None:
    schema = root / "schema" / "attn_fwd.toml"
    schema.write_text(schema.read_text() + '[arch.gfx3]\nlike = "gfx2"\n')
    archs = root / "archs.toml"
    archs.write_text(archs.read_text() + "[arch.gfx3]\n")
    rows = [("gfx3_mod0", *row[1:]) for row in kernel_rows(["gfx2_mod0"])]
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database(rows)})
    result = import_to(source, root, [("gfx3", "gfx2")], emit_schema=False)
    assert result.complete
    assert "#! base gfx2\n" in (root / "gfx3" / "attn_fwd.txtdb").read_text()


def test_a_base_in_a_file_stays_when_none_is_given(tmp_path: Path) -> None:
    based(tmp_path, ("gfx2", "gfx1"))
    result = import_rows(tmp_path, kernel_rows(), emit_schema=False)
    assert result.complete
    assert "#! base gfx1\n" in (tmp_path / "db" / "gfx2" / "attn_fwd.txtdb").read_text()


WRONG_BASES = {
    "no rows": ([("gfx1", "gfx9")], "base gfx9 has no rows in the source and no table"),
    "two": ([("gfx3", "gfx1"), ("gfx3", "gfx2")], "gfx3 has two bases, gfx1 and gfx2"),
    "circle": ([("gfx1", "gfx2"), ("gfx2", "gfx1")], "the bases run in a circle"),
    "itself": ([("gfx1", "gfx1")], "the bases run in a circle through gfx1"),
}


@pytest.mark.parametrize("case", WRONG_BASES)
def test_wrong_bases_are_faults(tmp_path: Path, case: str) -> None:
    bases, text = WRONG_BASES[case]
    result = based(tmp_path, *bases)
    assert set(rules(result)) == {"bad-base"}
    assert text in result.faults[0].message


def test_the_round_trip_of_the_default_source_needs_no_other_file(tmp_path: Path) -> None:
    """Stated here for the source; the export has its own tests."""
    source = write_source(tmp_path / "src", {"a.sqlite3": kernel_database()})
    assert sum(len(rows) for _, rows in rows_of(source).values()) == 36
