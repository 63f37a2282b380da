"""`txtdb patch create`: what stands in the patches, and what cannot be put into one."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.build import ARCHS, F1, F2, FIELDS, PALETTE, SCHEMA, TABLE_A, TABLE_B, make_db, patch, table
from tests.cli.run import Ran, run
from tests.evidence.made import by_hand, run_of, schema, unraced
from tests.merge.repository import make_repository
from txtdb.evidence.files import write_evidence
from txtdb.layers.database import load

B, A = "gfxB/attn_fwd.txtdb", "gfxA/attn_fwd.txtdb"
P = "gfxB/attn_fwd.0010-x.dbpatch"
ONE = TABLE_B.replace("128 a b*2", "128 a d b")

Files = dict[str, str | None]

PIN = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 128, seqlen_k = 128 }
config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }
reason = "a test"
until = 2030-01-01
"""


def create(tmp_path: Path, old: Files, new: Files, *options: str) -> tuple[Path, Ran]:
    """The old root after `patch create OLD NEW --name change`, and what the command said."""
    roots = make_db(tmp_path, old, "old"), make_db(tmp_path, new, "new")
    return roots[0], run("patch", "create", *roots, "--name", "change", *options)


def patches(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.dbpatch"))


def lookups(root: Path, arch: str, size: tuple[int, int], head_dim: int = 64) -> int | str:
    """BLOCK_M of a lookup, or why there is none."""
    answer = load(root)[arch]["attn_fwd"].lookup(
        dtype="fp16", causal=0, head_dim=head_dim, seqlen_q=size[0], seqlen_k=size[1]
    )
    return answer["BLOCK_M"] if not isinstance(answer, str) and hasattr(answer, "keys") else str(answer)  # type: ignore[return-value]


def test_one_cell(tmp_path: Path) -> None:
    root, done = create(tmp_path, {}, {B: ONE}, "--why", "taller  tiles\nhere")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{root}/gfxB/attn_fwd.0010-change.dbpatch: written, 1 cell\n"
    ground = sha256(
        b"causal=0 dtype=fp16 head_dim=64 @ 128 128 : BLOCK_M=64 PRE_LOAD_V=true num_stages=1 num_warps=4"
    ).hexdigest()
    assert (root / "gfxB/attn_fwd.0010-change.dbpatch").read_text() == (
        "#! dbpatch 1\n#! iface attn_fwd\n#! arch gfxB\n#! origin hand test\n#! why taller tiles here\n"
        f"#! onto sha256:{ground}\n"
        "#! key dtype causal head_dim\n#! axis seqlen_q 128\n#! axis seqlen_k 128\n"
        "#! config BLOCK_M PRE_LOAD_V num_warps num_stages\n\na = 128 false 8 2\n\n[fp16 0 64]\n128 a\n#! end\n"
    )
    assert run("check", root, "--strict").code == 0
    assert "no cell" in run("diff", root, tmp_path / "new", "--effect").out


def test_the_same_makes_no_patch(tmp_path: Path) -> None:
    root, done = create(tmp_path, {}, {})
    assert (done.code, done.out) == (0, "nothing to do\n")
    assert not patches(root)


def test_row_030_the_same_cells_published_again_make_no_patch(tmp_path: Path) -> None:
    """Every cell was tuned again and kept its config: other symbols, other layout, other origin."""
    palette = {"x": PALETTE["a"], "y": PALETTE["b"], "z": PALETTE["c"], "A": PALETTE["d"]}
    again = table(
        "gfxB", {F1: ["64 x x x", "128 x y*2", "256 y z A"]}, palette=palette, directives=("origin measured again",)
    )
    root, done = create(tmp_path, {}, {B: again})
    assert done.out == "nothing to do\n"
    assert (root / B).read_text() == TABLE_B


@pytest.mark.parametrize(("there", "number"), [((), "0010"), ((10,), "0020"), ((3,), "0010"), ((10, 24), "0030")])
def test_the_next_free_number(tmp_path: Path, there: tuple[int, ...], number: str) -> None:
    files: Files = {
        f"gfxB/attn_fwd.{n}-x.dbpatch": patch("gfxB", {F1: [f"{size} d . ."]})
        for n, size in zip(there, (64, 256), strict=False)
    }
    root, _ = create(tmp_path, files, files | {B: ONE})
    assert f"gfxB/attn_fwd.{number}-change.dbpatch" in patches(root)


def test_a_cell_that_is_gone_is_masked(tmp_path: Path) -> None:
    root, _ = create(tmp_path, {}, {B: TABLE_B.replace("128 a b*2", "128 a . b")})
    assert "\n128 -\n" in (root / "gfxB/attn_fwd.0010-change.dbpatch").read_text()
    assert lookups(root, "gfxB", (128, 128)) == "no kernel"


def test_a_hole_that_becomes_a_mask_is_no_difference(tmp_path: Path) -> None:
    root, done = create(
        tmp_path, {B: TABLE_B.replace("128 a b*2", "128 a . b")}, {B: TABLE_B.replace("128 a b*2", "128 a - b")}
    )
    assert done.out == "nothing to do\n"
    assert not patches(root)


def test_an_heir_gets_no_patch_for_what_it_inherits(tmp_path: Path) -> None:
    root, _ = create(tmp_path, {}, {B: ONE})
    assert patches(root) == ["gfxB/attn_fwd.0010-change.dbpatch"]
    assert lookups(root, "gfxA", (128, 128)) == 128


def test_an_heir_that_would_be_carried_along_gets_a_patch_over_the_patch_of_its_base(tmp_path: Path) -> None:
    """On the new side gfxA keeps what it had: it sets the cell itself."""
    own = table("gfxA", {F1: ["128 . b ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")
    root, _ = create(tmp_path, {}, {B: ONE, A: own})
    assert patches(root) == ["gfxA/attn_fwd.0010-change.dbpatch", "gfxB/attn_fwd.0010-change.dbpatch"]
    assert (lookups(root, "gfxA", (128, 128)), lookups(root, "gfxB", (128, 128))) == (64, 128)
    assert run("check", root, "--strict").code == 0  # its ground is the patched base


def test_an_arch_alone(tmp_path: Path) -> None:
    """Without a patch for its base the heir sets the cell itself."""
    root, _ = create(tmp_path, {}, {B: ONE}, "--arch", "gfxA")
    assert patches(root) == ["gfxA/attn_fwd.0010-change.dbpatch"]
    assert (lookups(root, "gfxA", (128, 128)), lookups(root, "gfxB", (128, 128))) == (128, 64)


def test_new_bins_come_with_the_patch(tmp_path: Path) -> None:
    """Worked by hand: the new side splits 65…128 at 96 and changes 128 alone, so 96 must keep what 128 was."""
    axes = {"seqlen_q": "64 128 256", "seqlen_k": "64 96 128 256"}
    rows = ["64 a*4", "128 a b d b", "256 b c*2 d"]
    root, _ = create(tmp_path, {A: None}, {A: None, B: table("gfxB", {F1: rows}, axes=axes)})
    assert [lookups(root, "gfxB", (128, size)) for size in (64, 65, 96, 97, 128, 129)] == [32, 64, 64, 128, 128, 64]


def test_a_pinned_cell_cannot_be_patched(tmp_path: Path) -> None:
    root, done = create(tmp_path, {"gfxB/pins.toml": PIN}, {B: ONE})
    assert done.code == 1
    assert f"{root}/gfxB/pins.toml: error: gfxB attn_fwd: 1 cell of the difference pinned" in done.err
    assert "dtype=fp16 causal=0 head_dim=64 128,128" in done.err
    assert done.out == "nothing is written\n"
    assert not patches(root)


def test_a_pin_holds_for_its_own_bin_once_another_comes_before_it(tmp_path: Path) -> None:
    """The pin at 128 answers for 65…128; the new side has it too, and a bin 96 of its own, whose config it is not."""
    axes = {"seqlen_q": "64 128 256", "seqlen_k": "64 96 128 256"}
    new = table("gfxB", {F1: ["64 a*4", "128 a d b*2", "256 b c*2 d"]}, axes=axes)
    root, done = create(tmp_path, {A: None, "gfxB/pins.toml": PIN}, {A: None, "gfxB/pins.toml": PIN, B: new})
    assert done.code == 0, done.err
    assert [lookups(root, "gfxB", (128, size)) for size in (64, 96, 128)] == [32, 128, 64]


def test_evidence_and_origin_come_with_the_cells(tmp_path: Path) -> None:
    data = write_evidence(run_of([by_hand(unraced("d", (128, 128)), 0)]), schema()).decode()
    line = f"evidence run.json sha256:{sha256(data.encode()).hexdigest()}"
    over = patch("gfxB", {F1: ["128 . d ."]}, directives=("origin measured run-7", "why it is faster", line))
    root, done = create(tmp_path, {}, {P: over, "gfxB/evidence/run.json": data})
    text = (root / "gfxB/attn_fwd.0010-change.dbpatch").read_text()
    assert f"#! origin measured run-7\n#! why it is faster\n#! {line}\n" in text
    assert (root / "gfxB/evidence/run.json").read_text() == data
    assert f"{root}/gfxB/evidence/run.json: written\n" in done.out
    assert run("check", root, "--strict").code == 0


def test_evidence_under_a_name_that_is_taken_gets_another(tmp_path: Path) -> None:
    data = '{"clocks": 1}'
    digest = sha256(data.encode()).hexdigest()
    over = patch("gfxB", {F1: ["128 . d ."]}, directives=("origin hand", f"evidence run.json sha256:{digest}"))
    root, _ = create(tmp_path, {"gfxB/evidence/run.json": "{}"}, {P: over, "gfxB/evidence/run.json": data})
    name = f"run-{digest[:8]}.json"
    assert f"#! evidence {name} sha256:{digest}" in (root / "gfxB/attn_fwd.0010-change.dbpatch").read_text()
    assert (root / "gfxB/evidence" / name).read_text() == data
    assert (root / "gfxB/evidence/run.json").read_text() == "{}"


def test_cells_of_several_origins_claim_no_more_than_the_weakest(tmp_path: Path) -> None:
    over = patch("gfxB", {F1: ["128 . d ."]}, directives=("origin measured run-7",))
    root, _ = create(
        tmp_path, {}, {P: over, B: TABLE_B.replace("64 a*3", "64 c*3").replace("hand test", "modelled m1")}
    )
    text = (root / "gfxB/attn_fwd.0010-change.dbpatch").read_text()
    assert "#! origin modelled mixed: measured run-7; modelled m1\n" in text


@pytest.mark.parametrize(
    ("new", "message"),
    [
        pytest.param({"archs.toml": "[arch.gfxB]\n"}, "cannot remove one", id="an arch gone"),
        pytest.param(
            {"schema/attn_fwd.toml": SCHEMA.replace("values = [32, 64, 128]", "values = [32, 64, 128, 256]"),
             B: TABLE_B.replace("d = 128", "d = 256")},
            "is illegal on the old side", id="a value outside the old domain",
        ),
        pytest.param(
            {"schema/attn_fwd.toml": SCHEMA + '\n[[config]]\nname = "pipes"\ntype = "int"\ndefault = 0\n',
             B: table("gfxB", {F1: ["64-256 a*3"]}, fields=f"{FIELDS} pipes", palette={"a": "32 true 2 1 3"})},
            "cannot be said in the old side's fields", id="a field that the old side lacks",
        ),
        pytest.param(
            {"schema/attn_fwd.toml": SCHEMA.replace("[arch.gfxB]\ndomain.dtype = [\"fp16\"]", "[arch.gfxB]"),
             B: table("gfxB", {F1: ["64 a*3", "128 a b*2", "256 b c d"], "bf16 0 64": ["64-256 a*3"]})},
            "does not exist on the old side", id="a functional that the old side lacks",
        ),
        pytest.param(
            {"schema/attn_fwd.toml": SCHEMA.replace("causal", "mask"),
             B: TABLE_B.replace("causal", "mask"), A: TABLE_A.replace("causal", "mask")},
            "other keys or axes", id="other keys",
        ),
        pytest.param({B: TABLE_B.replace("128 a b*2", "128 a b")}, "row-too-short", id="a broken file"),
    ],
)  # fmt: skip
def test_what_no_patch_can_say_is_a_fault_and_nothing_is_written(tmp_path: Path, new: Files, message: str) -> None:
    root, done = create(tmp_path, {}, new)
    assert done.code == 1
    assert message in done.err
    assert not patches(root)


def test_a_new_arch_is_a_fault(tmp_path: Path) -> None:
    _, done = create(tmp_path, {A: None, "archs.toml": "[arch.gfxB]\n"}, {A: None})
    assert done.code == 1
    assert "the old side has no such table" in done.err


def test_an_arch_without_data_is_patched_from_nothing(tmp_path: Path) -> None:
    root, done = create(tmp_path, {A: None}, {})
    assert done.code == 0
    assert done.out.endswith(": written, 18 cells\n")
    assert lookups(root, "gfxA", (64, 64)) == 32
    assert lookups(root, "gfxA", (256, 256), 128) == 128


def test_a_revision_needs_a_folder_to_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        f"db/{name}": text
        for name, text in {"archs.toml": ARCHS, "schema/attn_fwd.toml": SCHEMA, B: TABLE_B, A: TABLE_A}.items()
    }
    repository = make_repository(tmp_path / "repo", files, drivers=False)
    repository.write({f"db/{B}": ONE})
    monkeypatch.chdir(repository.path)
    done = run("patch", "create", "HEAD:db", "db", "--name", "change")
    assert (done.code, "--out" in done.err) == (2, True)
    assert run("patch", "create", "HEAD:db", "db", "--name", "change", "--out", "series").code == 0
    assert patches(repository.path) == ["series/gfxB/attn_fwd.0010-change.dbpatch"]
    again = run("patch", "create", "HEAD:db", "db", "--name", "change", "--out", "series", "--why", "other")
    assert again.code == 2
    assert "another file of this name" in again.err


@pytest.mark.parametrize("name", ["", "a b", "x/y", "ä"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    root = make_db(tmp_path)
    done = run("patch", "create", root, root, "--name", name)
    assert done.code == 2
    assert "is no name of a patch" in done.err


def test_an_unknown_arch_or_interface(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    assert "known are gfxA, gfxB" in run("patch", "create", root, root, "--name", "x", "--arch", "gfxQ").err
    assert "known are attn_fwd" in run("patch", "create", root, root, "--name", "x", "--iface", "attn").err
    assert run("patch", "create", root, root, "--name", "x", "--arch", "beta").code == 0
