"""One small database for each rule id: what makes it fire, and exactly what fires."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.build import F1, F2, S0, SCHEMA, TABLE_A, TABLE_B, patch, table, write_files
from tests.evidence.made import by_hand, run_of, schema, unraced
from txtdb.evidence.files import evidence_digest, write_evidence

B, A = "gfxB/attn_fwd.txtdb", "gfxA/attn_fwd.txtdb"
DIGEST = "sha256:" + "0" * 64

PIN = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }
reason = "a test"
until = 2030-01-01
"""

OPERATOR = """\
iface = "op_attn_fwd"
kind = "operator"
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
[[backend]]
name = "triton"
launches = ["attn_fwd"]
[[backend]]
name = "vendor"
[arch.gfxB]
domain.dtype = ["fp16"]
domain.causal = [0]
"""
OPERATOR_TABLE = table(
    "gfxB",
    {F1: ["64-256 a*3"], F2: ["64-128 b*3", "256 a b*2"]},
    iface="op_attn_fwd",
    fields="backend",
    palette={"a": "triton", "b": "vendor"},
)


@dataclass(frozen=True)
class Fixture:
    """Files laid over S0 (None takes one away), those of an overlay root, and the ids that fire."""

    files: dict[str, str | None]
    fires: tuple[str, ...]
    overlay: dict[str, str | None] = field(default_factory=dict)


def make(fixture: Fixture, folder: Path) -> tuple[Path, list[Path]]:
    """Write a fixture; the root and its overlays come back."""
    root = write_files(folder / "db", {**S0, **fixture.files})
    overlays = [write_files(folder / "over", fixture.overlay)] if fixture.overlay else []
    return root, overlays


def _b(old: str, new: str) -> dict[str, str | None]:
    """gfxB's table with one piece of text replaced."""
    assert TABLE_B.count(old) == 1, old
    return {B: TABLE_B.replace(old, new)}


def _a(old: str, new: str) -> dict[str, str | None]:
    assert TABLE_A.count(old) == 1, old
    return {A: TABLE_A.replace(old, new)}


def _schema(old: str, new: str) -> dict[str, str | None]:
    assert old in SCHEMA, old
    return {"schema/attn_fwd.toml": SCHEMA.replace(old, new, 1)}


def _patch(rows: list[str], *directives: str, name: str = "0010-x", key: str = F1) -> dict[str, str | None]:
    text = patch("gfxB", {key: rows}, directives=("origin hand test", "why a test", *directives))
    return {f"gfxB/attn_fwd.{name}.dbpatch": text}


def _pin(old: str, new: str) -> dict[str, str | None]:
    assert old in PIN, old
    return {"gfxB/pins.toml": PIN.replace(old, new)}


def _evidence(text: str) -> dict[str, str | None]:
    """A patch of one cell with an evidence file of this content."""
    digest = evidence_digest(text.encode())
    return {**_patch(["64 b . ."], f"evidence run.json {digest}"), "gfxB/evidence/run.json": text}


def evidence_patch(**change: object) -> dict[str, str | None]:
    """A patch of one cell with the evidence of a run that is otherwise sound."""
    run = run_of([by_hand(unraced("b"), 0)], **change)
    return _evidence(write_evidence(run, schema()).decode())


_NUMBERS = " ".join(map(str, range(1500)))

FIXTURES: dict[str, Fixture] = {
    # files and lines
    "bom": Fixture({B: "\ufeff" + TABLE_B}, ("bom",)),
    "not-utf8": Fixture({"archs.toml": S0["archs.toml"]}, ("not-utf8",)),
    "no-magic": Fixture(_b("#! txtdb 1\n", ""), ("no-magic",)),
    "newer-version": Fixture(_b("#! txtdb 1", "#! txtdb 2"), ("newer-version",)),
    "truncated": Fixture(_b("#! end\n", ""), ("truncated",)),
    "text-after-end": Fixture({B: TABLE_B + "256 a*3\n"}, ("text-after-end",)),
    "wrong-kind": Fixture({B: TABLE_B.replace("#! txtdb 1", "#! dbpatch 1")}, ("wrong-kind",)),
    "wrong-place": Fixture(_b("#! arch gfxB", "#! arch gfxC"), ("wrong-place",)),
    "conflict-marker": Fixture(
        _b("128 a b*2", "<<<<<<< ours\n128 a b*2\n=======\n128 a*3\n>>>>>>> theirs"),
        ("conflict-marker",),
    ),
    "tab": Fixture(_b("128 a b*2", "128\ta b*2"), ("tab",)),
    "carriage-return": Fixture(_b("128 a b*2", "128 a \rb*2"), ("carriage-return",)),
    "control-character": Fixture(_b("128 a b*2", "# \x00\n128 a b*2"), ("control-character",)),
    "indented": Fixture(_b("128 a b*2", " 128 a b*2"), ("indented",)),
    "comment-not-alone": Fixture(_b("128 a b*2", "128 a b*2 # why"), ("comment-not-alone",)),
    "bad-symbol": Fixture(_b("a = 32", "a1 = 32"), ("bad-symbol", "unknown-symbol")),
    "bad-config": Fixture(_b("a = 32 true", "a = 32 ? true"), ("bad-config",)),
    "empty-config": Fixture(_b("a = 32 true 2 1", "a ="), ("empty-config",)),
    "bad-functional": Fixture(_b(f"[{F1}]", f"[{F1}"), ("bad-functional",)),
    "bad-row": Fixture(_b("128 a b*2", "128 a b**2"), ("bad-row",)),
    "unknown-directive": Fixture(_b("#! origin", "#! orgin"), ("unknown-directive",)),
    "directive-form": Fixture(_b("#! origin hand", "#! origin guessed"), ("directive-form",)),
    "directive-out-of-place": Fixture(_b("128 a b*2", "#! origin hand\n128 a b*2"), ("directive-out-of-place",)),
    "entry-out-of-place": Fixture(_b("128 a b*2", "e = 64 true 1 1\n128 a b*2"), ("entry-out-of-place",)),
    "row-out-of-place": Fixture(_b("\na = 32", "\n64 a*3\na = 32"), ("row-out-of-place",)),
    "duplicate-directive": Fixture(_b("#! origin", "#! origin hand\n#! origin"), ("duplicate-directive",)),
    "missing-directive": Fixture(_b("#! arch gfxB\n", ""), ("missing-directive",)),
    "duplicate-name": Fixture(_b("#! key dtype", "#! key dtype dtype"), ("duplicate-name", "functional-length")),
    "too-many-axes": Fixture(
        _b("#! axis seqlen_q", "#! axis i 1\n#! axis j 1\n#! axis l 1\n#! axis seqlen_q"), ("too-many-axes",)
    ),
    "axis-order": Fixture(_b("#! axis seqlen_k 64 128 256", "#! axis seqlen_k 64 256 128"), ("axis-order",)),
    "too-large": Fixture(
        _b("#! axis seqlen_q", f"#! axis i {_NUMBERS}\n#! axis j {_NUMBERS}\n#! axis seqlen_q"), ("too-large",)
    ),
    # palette, blocks and rows
    "duplicate-symbol": Fixture(_b("d = 128", "c = 128"), ("duplicate-symbol", "unknown-symbol")),
    "duplicate-config": Fixture(_b("c = 64 false 4 2", "c = 64 true 4 1"), ("duplicate-config",)),
    "config-length": Fixture(_b("a = 32 true 2 1", "a = 32 true 2"), ("config-length",)),
    "functional-length": Fixture(_b(f"[{F1}]", f"[{F1} 0]"), ("functional-length",)),
    "duplicate-functional": Fixture(_b("256 b c d", f"256 b c d\n\n[{F1}]\n64 a*3"), ("duplicate-functional",)),
    "empty-block": Fixture(_b("#! end", f"[{F2}]\n#! end"), ("empty-block", "unreachable-block")),
    "bad-label": Fixture(_b("128 a b*2", "100 a b*2"), ("bad-label",)),
    "unknown-symbol": Fixture(_b("128 a b*2", "128 a z*2"), ("unknown-symbol",)),
    "empty-run": Fixture(_b("128 a b*2", "128 a b*0 b*2"), ("empty-run",)),
    "row-too-long": Fixture(_b("128 a b*2", "128 a b*3"), ("row-too-long",)),
    "row-too-short": Fixture(_b("128 a b*2", "128 a b"), ("row-too-short",)),
    "rows-overlap": Fixture(_b("128 a b*2", "64-128 a b*2"), ("rows-overlap",)),
    # held against the schema
    "axis-names": Fixture(_b("#! axis seqlen_q", "#! axis q"), ("axis-names",)),
    "unknown-key": Fixture(
        _b("#! key dtype causal head_dim", "#! key dtype causal head"), ("unknown-key", "missing-key")
    ),
    "missing-key": Fixture(
        {B: TABLE_B.replace("dtype causal head_dim", "dtype causal").replace(F1, "fp16 0")}, ("missing-key",)
    ),
    "key-type": Fixture(_b(f"[{F1}]", "[fp16 false 64]"), ("key-type",)),
    "unknown-field": Fixture(_b("#! config BLOCK_M", "#! config BLOCK_X"), ("unknown-field", "missing-field")),
    "missing-field": Fixture(
        _schema(
            'name = "waves_per_eu"\ntype = "int"\nmin = 0\nmax = 4\ndefault = 0', 'name = "waves_per_eu"\ntype = "int"'
        ),
        ("missing-field", "missing-field"),
    ),
    "value-type": Fixture(_b("a = 32 true 2 1", "a = 32 1 2.0 true"), ("value-type",) * 3),
    # TOML files
    "toml": Fixture({"schema/attn_fwd.toml": "iface = \n"}, ("toml",)),
    "schema": Fixture(_schema('type = "enum"', 'type = "float"'), ("schema",)),
    "archs": Fixture({"archs.toml": "[arch.gfxA]\nlds_bytes = -1\n[arch.gfxB]\n"}, ("archs",)),
    "pin": Fixture(_pin("seqlen_q = 64", "seqlen_q = 65"), ("pin",)),
    # layers
    "base-cycle": Fixture({B: TABLE_B.replace("#! arch gfxB", "#! arch gfxB\n#! base gfxA")}, ("base-cycle",)),
    "missing-base": Fixture(_a("#! base gfxB", "#! base gfxC"), ("missing-base",)),
    "no-data": Fixture({B: None, A: table("gfxA", {F1: ["64-256 a*3"], F2: ["64-256 a*3"]})}, ("no-data",)),
    "no-files": Fixture({A: None, B: None}, ("no-data", "no-data", "no-files")),
    # rules
    "unused-file": Fixture({"gfxB/attn_fwd.0010-x.dbpatch.bak": "old"}, ("unused-file",)),
    "unknown-arch": Fixture({"gfxC/attn_fwd.txtdb": TABLE_B.replace("gfxB", "gfxC")}, ("unknown-arch",)),
    "unknown-iface": Fixture({"gfxB/attn_bwd.txtdb": TABLE_B.replace("attn_fwd", "attn_bwd")}, ("unknown-iface",)),
    "unreachable-file": Fixture(
        {
            "archs.toml": "[arch.gfxA]\n[arch.gfxB]\n[arch.gfxC]\n",
            "gfxC/attn_fwd.txtdb": TABLE_B.replace("gfxB", "gfxC"),
        },
        ("unreachable-file",),
    ),
    "unreachable-block": Fixture(_b("#! end", "[float16 0 64]\n64 a*3\n#! end"), ("unreachable-block",)),
    "missing-functional": Fixture(
        _a("#! base gfxB\n", "#! base gfxB\n") | {A: table("gfxA", {}, base="gfxB")}, ("missing-functional",)
    ),
    "missing-row": Fixture(_b("128 a b*2\n", ""), ("missing-row",)),
    "hole": Fixture(_b("128 a b*2", "128 a . -"), ("hole",)),
    "missing-bin": Fixture(_schema("bins = [64, 128, 256]", "bins = [64, 128, 256, 512]"), ("missing-bin",)),
    "undeclared-bin": Fixture(
        {
            "gfxB/attn_fwd.0010-x.dbpatch": patch(
                "gfxB", {F1: ["96 d . ."]}, axes={"seqlen_q": "96", "seqlen_k": "64 128 256"}
            )
        },
        ("undeclared-bin",),
    ),
    "illegal-config": Fixture(_b("a = 32 true 2 1", "a = 100 true 2 1"), ("illegal-config",)),
    "backend-without-kernel": Fixture(
        {"schema/op_attn_fwd.toml": OPERATOR, "gfxB/op_attn_fwd.txtdb": OPERATOR_TABLE}, ("backend-without-kernel",)
    ),
    "unused-entry": Fixture(_b("d = 128 false 8 2", "d = 128 false 8 2\ne = 128 false 4 2"), ("unused-entry",)),
    "no-op-override": Fixture(_patch(["64 a d ."]), ("no-op-override",)),
    "stale-onto": Fixture(_patch(["64 d . ."], f"onto {DIGEST}"), ("stale-onto",)),
    "equal-patch-number": Fixture(_patch(["64 d . ."]) | _patch(["64 . d ."], name="010-y"), ("equal-patch-number",)),
    "same-name-patch": Fixture(_patch(["64 d . ."]), ("same-name-patch",), _patch(["64 . d ."])),
    "unused-layer": Fixture(_patch(["64 d . ."]) | _patch(["64 b . ."], name="0020-y"), ("unused-layer",)),
    "expired-pin": Fixture(_pin("2030-01-01", "2025-12-31"), ("expired-pin",)),
    "missing-evidence": Fixture(_b("#! origin hand test", f"#! evidence run.json {DIGEST}"), ("missing-evidence",)),
    "evidence-digest": Fixture(
        _b("#! origin hand test", f"#! evidence run.json {DIGEST}") | {"gfxB/evidence/run.json": "{}"},
        ("evidence-digest",),
    ),
    "bad-evidence": Fixture(_evidence("{}"), ("bad-evidence",)),
    "unlike-evidence": Fixture(evidence_patch(arch="gfxA"), ("unlike-evidence",)),
    "partial-evidence": Fixture(evidence_patch(planned=2), ("partial-evidence",)),
}
