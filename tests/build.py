"""Small databases for tests, written below a temporary folder.

The default is S0: interface `attn_fwd` with the keys dtype, causal, head_dim and the axes seqlen_q × seqlen_k, each
with the bins 64, 128 and 256. Arch gfxB holds one functional, F1, made of the configs a … d; gfxA is based on gfxB and
has one block of its own, F2. As it stands it has no findings.

    from tests.build import F1, make_db, patch

    root = make_db(tmp_path)
    root = make_db(tmp_path, files={"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 b . ."]})})
    root = make_db(tmp_path, files={"gfxA/attn_fwd.txtdb": None})  # S0 without a file
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import ConfigValues

IFACE = "attn_fwd"
F1 = "fp16 0 64"
F2 = "fp16 0 128"
KEYS = "dtype causal head_dim"
AXES = {"seqlen_q": "64 128 256", "seqlen_k": "64 128 256"}
FIELDS = "BLOCK_M PRE_LOAD_V num_warps num_stages"
PALETTE = {"a": "32 true 2 1", "b": "64 true 4 1", "c": "64 false 4 2", "d": "128 false 8 2"}

ARCHS = """\
[arch.gfxA]
compute_units = 304

[arch.gfxB]
aliases = ["beta"]
compute_units = 110
"""

# `waves_per_eu` has a default and stands in no file of S0. bf16, causal = 1 and head dim 128 on gfxB are outside the
# domain of their arch, so that they are unsupported and S0 is complete.
SCHEMA = """\
iface = "attn_fwd"

[[key]]
name = "dtype"
type = "enum"
values = ["bf16", "fp16"]
[[key]]
name = "causal"
type = "int"
values = [0, 1]
[[key]]
name = "head_dim"
type = "int"
values = [64, 128]

[[axis]]
name = "seqlen_q"
bins = [64, 128, 256]
[[axis]]
name = "seqlen_k"
bins = [64, 128, 256]

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
values = [1, 2, 4, 8]
[[config]]
name = "num_stages"
type = "int"
min = 1
max = 4
[[config]]
name = "waves_per_eu"
type = "int"
min = 0
max = 4
default = 0

[arch.gfxA]
domain.dtype = ["fp16"]
domain.causal = [0]
[arch.gfxB]
domain.dtype = ["fp16"]
domain.causal = [0]
domain.head_dim = [64]
"""

Rows = Iterable[str]


def table(
    arch: str,
    blocks: Mapping[str, Rows],
    *,
    iface: str = IFACE,
    base: str | None = None,
    directives: Iterable[str] = ("origin hand test",),
    keys: str = KEYS,
    axes: Mapping[str, str] = AXES,
    fields: str = FIELDS,
    palette: Mapping[str, str] = PALETTE,
    kind: str = "txtdb",
) -> str:
    """The text of a table: `blocks` maps key values to rows. Of the palette only what the rows name is written."""
    lines = [f"#! {kind} 1", f"#! iface {iface}", f"#! arch {arch}"]
    lines += [f"#! base {base}"] if base else []
    lines += [f"#! {directive}" for directive in directives]
    rows = {key: list(given) for key, given in blocks.items()}
    if rows:
        lines += [f"#! key {keys}", *(f"#! axis {name} {bins}" for name, bins in axes.items()), f"#! config {fields}"]
    used = {run.partition("*")[0] for given in rows.values() for row in given for run in row.split()}
    entries = [f"{symbol} = {config}" for symbol, config in palette.items() if symbol in used]
    lines += ["", *entries] if entries else []
    for key, given in rows.items():
        lines += ["", f"[{key}]", *given]
    return "\n".join([*lines, "#! end"]) + "\n"


def patch(arch: str, blocks: Mapping[str, Rows], **options: object) -> str:
    """The text of a patch; takes the options of `table`."""
    options.setdefault("directives", ("origin hand test", "why a test"))
    return table(arch, blocks, kind="dbpatch", **options)  # type: ignore[arg-type]


TABLE_B = table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"]})
TABLE_A = table("gfxA", {F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")

S0: Mapping[str, str] = {
    "archs.toml": ARCHS,
    "schema/attn_fwd.toml": SCHEMA,
    "gfxB/attn_fwd.txtdb": TABLE_B,
    "gfxA/attn_fwd.txtdb": TABLE_A,
}


def make_db(folder: Path, files: Mapping[str, str | None] | None = None, name: str = "db") -> Path:
    """Write S0, changed by `files` (name below the root → text, or None to leave it out); the root comes back."""
    return write_files(folder / name, {**S0, **(files or {})})


def write_files(root: Path, files: Mapping[str, str | None]) -> Path:
    """Write files below a folder, LF as given; for overlays and databases that have nothing of S0."""
    root.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode())
    return root


def config_values(table: ResolvedTable, number: int) -> ConfigValues | None:
    """The config of a cell's number; None for a hole and a masked cell."""
    return None if number < 0 else table.pool[number]
