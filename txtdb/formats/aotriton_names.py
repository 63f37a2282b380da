"""What the names in an AOTriton flash-attention database mean, in both directions.

A table is `FLASH$<interface>`; a column is `<group>$<name>`. The groups: `inputs` holds keys and the two sequence
lengths, `tuned_kernel` and `compiler_options` the config, `op` an operator's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from txtdb.model.schema import Schema
from txtdb.model.values import Value, ValueType, can_be_written

TABLE_PREFIX = "FLASH$"
INPUTS, TUNED, OPTIONS, OPERATOR = "inputs", "tuned_kernel", "compiler_options", "op"

# Input columns in the order of the source's tables. The type of an axis is int.
AXES = ("Max_seqlen_q", "max_seqlen_q", "Max_seqlen_k", "max_seqlen_k")
_KEYS = {
    "CAUSAL_TYPE": ValueType.INT,
    "BLOCK_DMODEL": ValueType.INT,
    "ENABLE_DROPOUT": ValueType.BOOL,
    "PADDED_HEAD": ValueType.BOOL,
    "BIAS_TYPE": ValueType.INT,
    "USE_ALIBI": ValueType.BOOL,
    "INT8": ValueType.BOOL,
    "INT8_KV": ValueType.BOOL,
    "USE_P_SCALE": ValueType.BOOL,
}
_TUNED = {
    "PERSISTENT_TYPE": ValueType.INT,
    "GRID_CU_MULTIP": ValueType.INT,
    "BLOCK_M": ValueType.INT,
    "BLOCK_N": ValueType.INT,
    "PRE_LOAD_V": ValueType.BOOL,
}
_OPTIONS = ("waves_per_eu", "num_warps", "num_stages")
_INPUT_ORDER = ("Q_dtype", *AXES, *_KEYS)

# A lookup of a padded head dim falls back to the functional without padding.
FALLBACK_KEYS = {"PADDED_HEAD": False}
# Fields that say how a kernel is launched, and the key that decides them: no tuner chooses them freely.
LAUNCH_FIELDS = {"PERSISTENT_TYPE": "CAUSAL_TYPE"}

# `op$backend` counts these back ends; each with the kernel interfaces that it launches.
BACKENDS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "op_attn_fwd": (("triton", ("attn_fwd",)), ("aiter_asm", ())),
    "op_attn_bwd": (
        ("triton_split", ("bwd_preprocess", "bwd_kernel_dk_dv", "bwd_kernel_dq")),
        ("triton_fused", ("bwd_kernel_fuse",)),
        ("aiter_asm", ()),
    ),
}
# bwd_preprocess is not tuned and has no table: its keys, and its one config.
HELPER = "bwd_preprocess"
HELPER_KEYS = ("Q_dtype", "BLOCK_DMODEL", "PADDED_HEAD")
HELPER_CONFIG: dict[str, int] = {"BLOCK_M": 128, "num_warps": 4, "num_stages": 1}

_DTYPES = {"torch.float16": "fp16", "torch.bfloat16": "bf16", "torch.float32": "fp32"}
_TORCH_NAMES = {short: long for long, short in _DTYPES.items()}


class Role(StrEnum):
    """What a column is for. NOTHING must be 0.0 in every row, ROW_NUMBER is SQLite's own."""

    GPU = "gpu"
    KEY = "key"
    AXIS = "axis"
    CONFIG = "config"
    BACKEND = "backend"
    NOTHING = "nothing"
    ROW_NUMBER = "row number"


# Type in SQLite → type of the values that Python gets.
PYTHON_TYPES: dict[str, type] = {"TEXT": str, "INTEGER": int, "REAL": float}


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column: its full name in the source, its name here, its role and type, and its type in SQLite.

    `choices` are the back ends of an operator, in the order of their numbers.
    """

    full: str
    name: str
    role: Role
    type: ValueType
    sql_type: str
    choices: tuple[str, ...] = ()

    def decode(self, raw: object) -> Value | None:
        """The value that a source's value of the right Python type means, or None where it means nothing."""
        if self.role is Role.GPU:
            return str(raw)
        if self.role is Role.NOTHING:
            return 0 if raw == 0.0 else None
        if self.choices:
            return self.choices[raw] if isinstance(raw, int) and 0 <= raw < len(self.choices) else None
        if self.type is ValueType.BOOL:
            return {0: False, 1: True}.get(raw) if isinstance(raw, int) else None
        value = _DTYPES.get(raw, raw) if isinstance(raw, str) else raw
        if raw in _TORCH_NAMES or not isinstance(value, str | int) or not can_be_written(value, self.type):
            return None
        return None if isinstance(value, int) and self.role is Role.AXIS and value < 0 else value

    def encode(self, value: Value) -> str | int | float:
        """The source's spelling of a value: the inverse of `decode`."""
        if self.choices and isinstance(value, str):
            return self.choices.index(value)
        if isinstance(value, str):
            return _TORCH_NAMES.get(value, value)
        return int(value)


GPU_COLUMN = SourceColumn("gpu", "gpu", Role.GPU, ValueType.ENUM, "TEXT")
ROW_NUMBER_COLUMN = SourceColumn("id", "id", Role.ROW_NUMBER, ValueType.INT, "INTEGER")
TFLOPS_COLUMN = SourceColumn("op$tflops", "tflops", Role.NOTHING, ValueType.INT, "REAL")


def known_columns(iface: str) -> dict[str, SourceColumn]:
    """Full name → column, for everything that a table of this database is known to hold."""
    inputs = [_column(INPUTS, "Q_dtype", Role.KEY, ValueType.ENUM)]
    inputs += [_column(INPUTS, name, Role.AXIS, ValueType.INT) for name in AXES]
    inputs += [_column(INPUTS, name, Role.KEY, kind) for name, kind in _KEYS.items()]
    if iface in BACKENDS:
        outputs = [_backend_column(tuple(name for name, _ in BACKENDS[iface])), TFLOPS_COLUMN, ROW_NUMBER_COLUMN]
    else:
        outputs = [_column(TUNED, name, Role.CONFIG, kind) for name, kind in _TUNED.items()]
        outputs += [_column(OPTIONS, name, Role.CONFIG, ValueType.INT) for name in _OPTIONS]
    return {column.full: column for column in (GPU_COLUMN, *inputs, *outputs)}


def schema_columns(schema: Schema) -> tuple[SourceColumn, ...]:
    """The columns of an interface's table, in the source's order; names it does not know come last in their group."""
    inputs = [(key.name, Role.KEY, key.type) for key in schema.keys]
    inputs += [(key.name, Role.KEY, key.type) for key in schema.fixed_keys]
    inputs += [(axis.name, Role.AXIS, ValueType.INT) for axis in schema.axes]
    columns = [GPU_COLUMN, *(_column(INPUTS, *item) for item in _ordered(inputs, _INPUT_ORDER))]
    if schema.kind == "operator":
        backend = _backend_column(tuple(item.name for item in schema.backends))
        return ROW_NUMBER_COLUMN, *columns, backend, TFLOPS_COLUMN
    fields = [(item.name, Role.CONFIG, item.type) for item in schema.config]
    fields += [(item.name, Role.CONFIG, item.type) for item in schema.derived]
    tuned = [item for item in fields if item[0] not in _OPTIONS]
    options = [item for item in fields if item[0] in _OPTIONS]
    columns += [_column(TUNED, *item) for item in _ordered(tuned, tuple(_TUNED))]
    return *columns, *(_column(OPTIONS, *item) for item in _ordered(options, _OPTIONS))


def _column(group: str, name: str, role: Role, kind: ValueType) -> SourceColumn:
    return SourceColumn(f"{group}${name}", name, role, kind, "TEXT" if kind is ValueType.ENUM else "INTEGER")


def _backend_column(choices: tuple[str, ...]) -> SourceColumn:
    return SourceColumn("op$backend", "backend", Role.BACKEND, ValueType.ENUM, "INTEGER", choices)


_Named = tuple[str, Role, ValueType]


def _ordered(items: Iterable[_Named], order: tuple[str, ...]) -> Iterator[_Named]:
    places = {name: place for place, name in enumerate(order)}
    return iter(sorted(items, key=lambda item: places.get(item[0], len(order))))
