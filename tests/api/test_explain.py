"""`txtdb.load(…)[arch][iface].explain(…)`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import txtdb
from tests.build import ARCHS, F1, SCHEMA, config_values, make_db, patch, table, write_files
from txtdb.layers.resolved import Explanation, ResolvedTable
from txtdb.model.values import Value

F1_KEYS: dict[str, Value] = {"dtype": "fp16", "causal": 0, "head_dim": 64}
P10, P20 = "gfxB/attn_fwd.0010-x.dbpatch", "gfxB/attn_fwd.0020-y.dbpatch"

MORE_KEYS = """\
[[key]]
name = "padded"
type = "bool"
fallback = false
[[key]]
name = "int8"
type = "bool"
fixed = false
"""
CONDITIONS = """\
[[absent]]
causal = 1
head_dim = 128

[arch.gfxA]
[arch.gfxB]
unsupported = [{ dtype = "bf16", head_dim = [64, 128] }]
domain.head_dim = [64, 128]
"""
WIDE = SCHEMA[: SCHEMA.index("[arch.gfxA]")].replace("[[axis]]", f"{MORE_KEYS}[[axis]]", 1) + CONDITIONS


def wide_table(folder: Path, blocks: dict[str, list[str]]) -> ResolvedTable:
    text = table("gfxB", blocks, keys="dtype causal head_dim padded")
    files = {"archs.toml": ARCHS, "schema/attn_fwd.toml": WIDE, "gfxB/attn_fwd.txtdb": text}
    return txtdb.load(write_files(folder, files))["gfxB"]["attn_fwd"]


def test_history_has_every_layer_that_set_the_cell_the_winner_first(tmp_path: Path) -> None:
    files = {P10: patch("gfxB", {F1: ["64 b . ."]}), P20: patch("gfxB", {F1: ["64 - c ."]})}
    root = make_db(tmp_path, files)
    told = txtdb.load(root)["gfxB"]["attn_fwd"].explain(**F1_KEYS, seqlen_q=64, seqlen_k=1)
    assert told.answer is txtdb.NO_KERNEL
    spans = [str(entry.span).removeprefix(f"{root.as_posix()}/") for entry in told.history]
    assert spans == [f"{P20}:14:4", f"{P10}:14:4", "gfxB/attn_fwd.txtdb:16:4"]
    assert [entry.config and entry.config[0] for entry in told.history] == [None, 64, 32]
    assert told.winner is told.history[0]
    assert told.searched == tuple(f"{root.as_posix()}/{name}" for name in ("gfxB/attn_fwd.txtdb", P10, P20))


def test_span_covers_the_whole_run(tmp_path: Path) -> None:
    told = txtdb.load(make_db(tmp_path))["gfxB"]["attn_fwd"].explain(**F1_KEYS, seqlen_q=128, seqlen_k=256)
    assert told.winner is not None
    span = told.winner.span
    assert (span.line, span.column, span.last_line, span.last_column) == (17, 7, 17, 9)


def test_inherited_cell_points_into_the_base(tmp_path: Path) -> None:
    told = txtdb.load(make_db(tmp_path))["gfxA"]["attn_fwd"].explain(**F1_KEYS, seqlen_q=64, seqlen_k=64)
    assert told.winner is not None
    assert (told.winner.layer.arch, Path(told.winner.span.file).parent.name) == ("gfxB", "gfxB")


def test_fallback_is_one_more_attempt(tmp_path: Path) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false": ["64-256 a*3"], "fp16 0 64 true": ["64 - d ."]})
    told = resolved.explain(**F1_KEYS, padded=True, seqlen_q=64, seqlen_k=64)
    asked, fallback = ("fp16", 0, 64, True), ("fp16", 0, 64, False)
    assert told.tried == (asked, fallback)
    assert told.answered_by == fallback
    assert told.attempts[0].history[0].config is None
    assert told.history == told.attempts[1].history
    own = resolved.explain(**F1_KEYS, padded=True, seqlen_q=64, seqlen_k=128)
    assert (own.tried, own.answered_by) == ((asked,), asked)


def test_without_a_config_the_history_is_that_of_the_asked_functional(tmp_path: Path) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false": ["64 - a a"], "fp16 0 64 true": ["64 - d ."]})
    told = resolved.explain(**F1_KEYS, padded=True, seqlen_q=64, seqlen_k=64)
    assert (told.answer, told.answered_by, len(told.tried)) == (txtdb.NO_KERNEL, None, 2)
    assert told.history[0].functional == ("fp16", 0, 64, True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"int8": True}, "int8 is always false"),
        ({"head_dim": 65}, "head_dim has no value 65 on gfxB; it has 64 128"),
        ({"causal": 1, "head_dim": 128}, "causal=1 head_dim=128 is declared not to exist"),
        ({"dtype": "bf16"}, "dtype=bf16 head_dim=64 is declared not to exist on gfxB"),
    ],
)
def test_unsupported_has_a_reason_and_no_history(tmp_path: Path, change: dict[str, Value], reason: str) -> None:
    resolved = wide_table(tmp_path, {"fp16 0 64 false": ["64-256 a*3"]})
    asked = {**F1_KEYS, "seqlen_q": 64, "seqlen_k": 65, **change}
    told = resolved.explain(**asked)
    assert (told.answer, told.reason, told.bins) == (txtdb.UNSUPPORTED, reason, (64, 128))
    assert (told.history, told.winner, told.answered_by, len(told.tried)) == ((), None, None, 1)
    assert resolved.lookup(**asked) is txtdb.UNSUPPORTED


ROWS = st.lists(st.sampled_from(["a", "b", "c", "d", ".", "-"]), min_size=3, max_size=3).map(" ".join)
BLOCK = st.lists(ROWS, min_size=3, max_size=3).map(
    lambda rows: [f"{label} {row}" for label, row in zip((64, 128, 256), rows, strict=True)]
)


@settings(max_examples=25)
@given(BLOCK, BLOCK, BLOCK, st.sampled_from(["64 128 256", "32 64 300", "128"]))
def test_explanation_agrees_with_the_lookup_in_every_cell(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[str],
    second: list[str],
    third: list[str],
    child_bins: str,
) -> None:
    """Answer, winner and winning layer are those of `lookup` and of the arrays, whatever the layers hold."""
    bins = child_bins.split()
    child = [f"{label} {' '.join(row.split()[1 : len(bins) + 1])}" for label, row in zip(bins, third, strict=False)]
    files = {
        "gfxB/attn_fwd.txtdb": table("gfxB", {F1: first}),
        P10: patch("gfxB", {F1: second}),
        "gfxA/attn_fwd.txtdb": table(
            "gfxA", {F1: child}, base="gfxB", axes=dict.fromkeys(("seqlen_q", "seqlen_k"), child_bins)
        ),
    }
    resolved = txtdb.load(make_db(tmp_path_factory.mktemp("db"), files))["gfxA"]["attn_fwd"]
    for at in np.ndindex(*resolved.cells.shape[1:]):
        q, k = (own[place] for own, place in zip(resolved.bins, at, strict=True))
        told = resolved.explain(**F1_KEYS, seqlen_q=q, seqlen_k=k)
        assert told.answer == resolved.lookup(**F1_KEYS, seqlen_q=q, seqlen_k=k)
        assert_same(resolved, told, int(resolved.cells[(0, *at)]), int(resolved.winner[(0, *at)]))


def assert_same(resolved: ResolvedTable, told: Explanation, cell: int, winner: int) -> None:
    if told.winner is None:
        assert (cell, winner) == (-1, -1)
        return
    assert told.winner.config == config_values(resolved, cell)
    assert told.winner.layer is resolved.layers[winner]


def test_objects_are_short_at_the_prompt(tmp_path: Path) -> None:
    database = txtdb.load(make_db(tmp_path, {P10: patch("gfxB", {F1: ["64 b . ."]})}))
    told = database["gfxB"]["attn_fwd"].explain(**F1_KEYS, seqlen_q=64, seqlen_k=64)
    assert repr(database).endswith("db: 2 archs, 1 interface>")
    assert repr(database["beta"]) == "<ArchTables gfxB: attn_fwd>"
    assert repr(database["gfxB"]["attn_fwd"]) == "<ResolvedTable gfxB attn_fwd: 1 functional, 3×3 bins, 2 layers>"
    assert repr(told) == f"<Explanation gfxB attn_fwd [{F1}]: {told.answer}>"
    assert len(repr(told.history)) < 2000


def test_an_explanation_as_text(tmp_path: Path) -> None:
    root = make_db(tmp_path, {P10: patch("gfxB", {F1: ["64 b - ."]})})
    told = txtdb.load(root)["gfxB"]["attn_fwd"]
    assert str(told.explain(**F1_KEYS, seqlen_q=10, seqlen_k=64)).splitlines() == [
        f"gfxB attn_fwd [{F1}] 10,64",
        "  answer  BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1 waves_per_eu=0",
        "  bins    64,64",
        f"  set by  {root.as_posix()}/{P10}:14:4, hand test",
    ]
    masked = str(told.explain(**F1_KEYS, seqlen_q=64, seqlen_k=128)).splitlines()
    assert masked[1:] == [
        "  answer  no kernel",
        "  bins    64,128",
        f"  masked  {root.as_posix()}/{P10}:14:6, hand test",
    ]
    assert "  answer  unsupported, causal has no value 1 on gfxB" in str(
        told.explain(**(F1_KEYS | {"causal": 1}), seqlen_q=64, seqlen_k=64)
    )


def test_an_explanation_as_text_names_the_fallback(tmp_path: Path) -> None:
    told = wide_table(tmp_path, {"fp16 0 64 false": ["64-256 a*3"]}).explain(
        **F1_KEYS, padded=True, seqlen_q=64, seqlen_k=64
    )
    assert "  taken by fallback from [fp16 0 64 false]" in str(told).splitlines()
