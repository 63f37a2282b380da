"""Small AOTriton databases for tests.

The default holds one kernel and its operator on gfx1 and gfx2: two dtypes, causal or not, with bias or not but never
both, on the bins 64 and 128 squared. gfx2 has no fp16.
"""

from __future__ import annotations

import io
import lzma
import sqlite3
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from txtdb.files import atomic_write
from txtdb.formats.aotriton import Import, import_aotriton

Row = tuple[object, ...]

KERNEL = "FLASH$attn_fwd"
KERNEL_COLUMNS = {
    "gpu": "TEXT",
    "inputs$Q_dtype": "TEXT",
    "inputs$Max_seqlen_q": "INTEGER",
    "inputs$Max_seqlen_k": "INTEGER",
    "inputs$CAUSAL_TYPE": "INTEGER",
    "inputs$PADDED_HEAD": "INTEGER",
    "inputs$BIAS_TYPE": "INTEGER",
    "inputs$INT8": "INTEGER",
    "tuned_kernel$PERSISTENT_TYPE": "INTEGER",
    "tuned_kernel$GRID_CU_MULTIP": "INTEGER",
    "tuned_kernel$BLOCK_M": "INTEGER",
    "tuned_kernel$PRE_LOAD_V": "INTEGER",
    "compiler_options$num_warps": "INTEGER",
}
OPERATOR = "FLASH$op_attn_fwd"
OPERATOR_COLUMNS = {
    "id": "INTEGER PRIMARY KEY",
    **dict(list(KERNEL_COLUMNS.items())[:8]),
    "op$backend": "INTEGER",
    "op$tflops": "REAL",
}
DTYPES = {"gfx1_mod0": ("torch.float16", "torch.bfloat16"), "gfx2_mod0": ("torch.bfloat16",)}


def kernel_rows(gpus: Iterable[str] = DTYPES, bins: Sequence[int] = (64, 128)) -> list[Row]:
    """Rows of the kernel's table. BLOCK_M is 32 or 128, by the query length; PRE_LOAD_V goes by the key length."""
    rows: list[Row] = []
    for gpu in gpus:
        for dtype, (causal, bias), q, k in product(DTYPES[gpu], ((0, 0), (0, 1), (3, 0)), bins, bins):
            config = (2 if causal else 0, 2, 32 if q == bins[0] else 128, int(k > bins[0]), 4)
            rows.append((gpu, dtype, q, k, causal, 0, bias, 0, *config))
    return rows


def operator_rows(gpus: Iterable[str] = DTYPES) -> list[Row]:
    """Rows of the operator's table: aiter_asm where both lengths are 128."""
    rows = [(*row[:8], int(row[2] == row[3] == 128), 0.0) for row in kernel_rows(gpus)]
    return [(number, *row) for number, row in enumerate(rows, 1)]


def database(tables: Mapping[str, tuple[Mapping[str, str], Sequence[Row]]]) -> bytes:
    """The bytes of an SQLite file."""
    connection = sqlite3.connect(":memory:")
    for name, (columns, rows) in tables.items():
        definitions = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        connection.execute(f'CREATE TABLE "{name}" ({definitions})')
        connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
    connection.commit()
    return connection.serialize()


def kernel_database(rows: Sequence[Row] | None = None, columns: Mapping[str, str] = KERNEL_COLUMNS) -> bytes:
    """An SQLite file with the kernel's table alone."""
    return database({KERNEL: (columns, kernel_rows() if rows is None else rows)})


def tar(members: Mapping[str, bytes]) -> bytes:
    """A tar of regular files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def archive(content: bytes, name: str = "x.sqlite3") -> bytes:
    """A `.tar.xz` with one member."""
    return lzma.compress(tar({name: content}))


def write_source(folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a source: the default one, in two folders and both forms, or the given files."""
    default = {
        "gfx/attn_fwd.sqlite3.tar.xz": archive(kernel_database()),
        "op_database.sqlite3": database({OPERATOR: (OPERATOR_COLUMNS, operator_rows())}),
        "tuning_database.sqlite3": kernel_database([]),
    }
    for name, data in (default if files is None else files).items():
        atomic_write(folder / name, data)
    return folder


def import_to(source: Path, root: Path, bases: Sequence[tuple[str, str]] = (), emit_schema: bool = True) -> Import:
    """Import and write what came of it, complete or not."""
    result = import_aotriton(source, root, bases, emit_schema)
    for path, data in result.files.items():
        atomic_write(path, data)
    return result


def rows_of(folder: Path) -> dict[tuple[str, str], tuple[list[tuple[str, str]], list[Row]]]:
    """(gpu, table) → its columns with their types, and its rows, sorted; row numbers (`id`) left out."""
    found: dict[tuple[str, str], tuple[list[tuple[str, str]], list[Row]]] = {}
    for path in sorted(folder.rglob("*.sqlite3")):
        connection = sqlite3.connect(path)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            info = [(row[1], row[2]) for row in connection.execute(f'PRAGMA table_info("{name}")')]
            columns = [column for column in info if column[0] != "id"]
            names = ", ".join(f'"{column}"' for column, _ in columns)
            for row in connection.execute(f'SELECT {names} FROM "{name}"'):
                found.setdefault((row[0], name), (columns, []))[1].append(row)
        connection.close()
    return {place: (columns, sorted(rows, key=repr)) for place, (columns, rows) in found.items()}
