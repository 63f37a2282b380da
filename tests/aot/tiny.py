"""A small database of real kernels: attn_fwd in two functionals, and the helper bwd_preprocess, which has no table.

Images are 32 × 32 to 64 × 32 tiles of head dim 32, the cheapest that compile. Nothing here needs a compiler: `fake`
makes results for images that were never compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from codegen.aot.build import BuiltTable, Compilation
from codegen.aot.folder import BuildFolder
from codegen.aot.pack_writing import pack_manifest, write_pack
from codegen.aot.plan import TablePlan, Wanted, make_plans, spec_of
from codegen.aot.reassign import reassign
from codegen.aot.result import OK, Binary, Resources, Result
from codegen.aot.sources import Sources
from codegen.aot.spec import Spec
from tests.build import write_files
from txtdb.layers.database import Database, open_database

COMPILER = "triton-3.9.0+llvm-0123456789ab"
KEYS = "Q_dtype CAUSAL_TYPE BLOCK_DMODEL ENABLE_DROPOUT PADDED_HEAD BIAS_TYPE"
FIELDS = "BLOCK_M BLOCK_N PRE_LOAD_V waves_per_eu num_warps num_stages"

ARCHS = """\
[arch.gfx942]
wave_size = 64
lds_bytes = 65536
[arch.gfx950]
wave_size = 64
lds_bytes = 163840
[arch.gfx1100]
wave_size = 32
lds_bytes = 65536
[arch.sm_90]
wave_size = 32
lds_bytes = 232448
"""

_KEYS = """\
[[key]]
name = "Q_dtype"
type = "enum"
values = ["bf16"]
[[key]]
name = "BLOCK_DMODEL"
type = "int"
values = [32]
[[key]]
name = "PADDED_HEAD"
type = "bool"
"""

ATTN_FWD = """\
iface = "attn_fwd"
[[key]]
name = "Q_dtype"
type = "enum"
values = ["bf16"]
[[key]]
name = "CAUSAL_TYPE"
type = "int"
values = [0, 3]
[[key]]
name = "BLOCK_DMODEL"
type = "int"
values = [32]
[[key]]
name = "ENABLE_DROPOUT"
type = "bool"
values = [false]
[[key]]
name = "PADDED_HEAD"
type = "bool"
values = [false]
[[key]]
name = "BIAS_TYPE"
type = "int"
values = [0]
[[axis]]
name = "Max_seqlen_q"
bins = [64, 1024]
[[axis]]
name = "Max_seqlen_k"
bins = [64, 256, 1024]
[[config]]
name = "BLOCK_M"
type = "int"
values = [16, 32, 48, 64]
[[config]]
name = "BLOCK_N"
type = "int"
values = [16, 32]
[[config]]
name = "PRE_LOAD_V"
type = "bool"
[[config]]
name = "waves_per_eu"
type = "int"
min = 0
max = 4
[[config]]
name = "num_warps"
type = "int"
values = [1, 2, 4]
[[config]]
name = "num_stages"
type = "int"
min = 1
max = 3
"""

PREPROCESS = f"""\
iface = "bwd_preprocess"
kind = "fixed"
{_KEYS}
[[config]]
name = "BLOCK_M"
type = "int"
[[config]]
name = "num_warps"
type = "int"
[fixed_config]
BLOCK_M = 32
num_warps = 4
"""

# Functional 0 uses a in four cells and b in two; functional 3 uses a and c in three each.
PLAIN = "bf16 0 32 false false 0"
CAUSAL = "bf16 3 32 false false 0"
BLOCKS = {PLAIN: ["64 a*3", "1024 a b*2"], CAUSAL: ["64 a*3", "1024 c*3"]}
PALETTE = {"a": "32 32 false 0 4 1", "b": "64 32 false 0 4 1", "c": "64 32 true 2 2 1"}

NEEDS = Resources(registers=64, sgprs=30, spills=0, sgpr_spills=0, shared=4096, occupancy=8)


def table(
    arch: str,
    blocks: Mapping[str, list[str]] = BLOCKS,
    palette: Mapping[str, str] = PALETTE,
    base: str = "",
    kind: str = "txtdb",
) -> str:
    """The text of a table of attn_fwd, or of a patch."""
    head = [f"#! {kind} 1", "#! iface attn_fwd", f"#! arch {arch}", *([f"#! base {base}"] if base else [])]
    if not blocks:
        return "\n".join([*head, "#! end"]) + "\n"
    head += [
        f"#! key {KEYS}",
        "#! axis Max_seqlen_q 64 1024",
        "#! axis Max_seqlen_k 64 256 1024",
        f"#! config {FIELDS}",
    ]
    lines = [f"{symbol} = {config}" for symbol, config in palette.items()]
    for functional, rows in blocks.items():
        lines += ["", f"[{functional}]", *rows]
    return "\n".join([*head, "", *lines, "#! end"]) + "\n"


def make_root(folder: Path, *archs: str, files: Mapping[str, str | None] | None = None, helper: bool = False) -> Path:
    """A database of attn_fwd on some archs, and of bwd_preprocess where `helper` says so."""
    sections = "".join(f"[arch.{arch}]\n" for arch in archs)
    content: dict[str, str | None] = {"archs.toml": ARCHS, "schema/attn_fwd.toml": ATTN_FWD + sections}
    if helper:
        content["schema/bwd_preprocess.toml"] = PREPROCESS + sections
    content |= {f"{arch}/attn_fwd.txtdb": table(arch) for arch in archs}
    return write_files(folder / "db", {**content, **(files or {})})


def plans_of(root: Path, *archs: str) -> tuple[Database, list[TablePlan]]:
    database = open_database(root)
    plans, faults = make_plans(database, archs or sorted(database.archs), ())
    assert faults == []
    return database, plans


def fake(wanted: Wanted, **changes: int) -> tuple[Result, bytes]:
    """A result as if the image had been compiled, and its bytes."""
    data = f"image of {wanted.config}".encode() * 20
    needs = Resources(**{**{name: getattr(NEEDS, name) for name in NEEDS.__slots__}, **changes})
    binary = Binary(sha256(data).hexdigest(), len(data), "attn_fwd", 4, 64, 0, needs)
    return Result(OK, "", 1.5, binary), data


def failed(status: str) -> Result:
    return Result(status, "the reason", 2.0)


def fake_tables(
    plans: list[TablePlan], folder: BuildFolder, judge: Callable[[TablePlan, Wanted], Result | None] = lambda p, w: None
) -> tuple[list[BuiltTable], Compilation]:
    """Tables as if they had been built; `judge` gives the results of those that failed."""
    sources, tables, compiled = Sources(), [], dict[Spec, Result]()
    for plan in plans:
        specs, results = {}, {}
        for wanted in plan.wanted:
            spec = spec_of(plan, wanted, sources)
            assert isinstance(spec, Spec), spec
            result, data = fake(wanted)
            result = judge(plan, wanted) or result
            folder.keep(spec.key(COMPILER), result, data if result.binary else b"")
            specs[wanted], results[wanted] = spec, result
            compiled[spec] = result
        replaced, faults = reassign(plan, results.__getitem__)
        assert faults == ()
        tables.append(BuiltTable(plan, specs, results, replaced))
    return tables, Compilation(compiled, dict.fromkeys(compiled, COMPILER), len(compiled), 0.0)


def fake_pack(
    root: Path, path: Path, *archs: str, judge: Callable[[TablePlan, Wanted], Result | None] = lambda p, w: None
) -> Path:
    """A pack of images that nobody compiled."""
    _, plans = plans_of(root, *archs)
    folder = BuildFolder(path.parent / "build")
    write_pack(path, pack_manifest(*fake_tables(plans, folder, judge)), folder)
    return path
