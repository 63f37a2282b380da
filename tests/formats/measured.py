"""Measurement records for the database of `tests.build`, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import txtdb
from txtdb.files import atomic_write
from txtdb.formats.record_columns import Reading
from txtdb.formats.record_import import PatchPlan, RecordImport, import_records
from txtdb.formats.records import Cell
from txtdb.model.table import ConfigValues

# One valid record of F1 at 64 × 64; its config is none of S0's.
RECORD: Mapping[str, object] = {
    "dtype": "fp16",
    "causal": 0,
    "head_dim": 64,
    "seqlen_q": 64,
    "seqlen_k": 64,
    "BLOCK_M": 128,
    "PRE_LOAD_V": True,
    "num_warps": 8,
    "num_stages": 2,
    "us": 12.0,
}
AT: Cell = (("fp16", 0, 64), (64, 64))
TIMED = Reading(time="us")


def record(**changes: object) -> dict[str, object]:
    """`RECORD` with some fields changed; None takes one away."""
    return {name: value for name, value in {**RECORD, **changes}.items() if value is not None}


def write_json(path: Path, records: Iterable[Mapping[str, object]]) -> Path:
    """A list, one record a line, from line 2 on."""
    lines = ",\n".join(map(json.dumps, records))
    atomic_write(path, f"[\n{lines}\n]\n".encode())
    return path


def write_csv(path: Path, records: Sequence[Mapping[str, object]]) -> Path:
    """A header with the columns of the first record, then one record a line, from line 2 on."""
    lines = [",".join(records[0])]
    lines += [",".join(str(item.get(name, "")) for name in records[0]) for item in records]
    atomic_write(path, ("\n".join(lines) + "\n").encode())
    return path


def run(
    root: Path, *paths: Path, reading: Reading = TIMED, patch: PatchPlan | None = None, arch: str = "gfxB"
) -> RecordImport:
    """Plan the import of record files; nothing is written."""
    return import_records(paths, txtdb.load(root), arch, "attn_fwd", reading, patch)


def best(result: RecordImport) -> Mapping[Cell, ConfigValues]:
    """What was chosen for each cell."""
    return result.selection.best


def counts(result: RecordImport) -> tuple[int, int, int]:
    """(records, invalid, superseded)."""
    return result.selection.records, result.selection.invalid, result.selection.superseded
