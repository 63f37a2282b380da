"""`txtdb patch apply`: numbers, grounds, evidence."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.build import F1, F2, TABLE_B, make_db, patch, table
from tests.cli.run import run
from tests.evidence.made import by_hand, run_of, schema, unraced
from txtdb.evidence.files import write_evidence

B = "gfxB/attn_fwd.txtdb"
ONE = TABLE_B.replace("128 a b*2", "128 a d b")
GONE = "sha256:" + "0" * 64


def series(tmp_path: Path, new: dict[str, str | None], name: str = "change") -> Path:
    """The folder with the patches that lead from S0 to a changed copy."""
    old, other = make_db(tmp_path, {}, "old"), make_db(tmp_path, new, "new")
    assert run("patch", "create", old, other, "--name", name, "--out", tmp_path / "series").code == 0
    return tmp_path / "series"


def write(tmp_path: Path, name: str, rows: list[str], *directives: str, key: str = F1, arch: str = "gfxB") -> Path:
    """A patch file outside the database."""
    path = tmp_path / name
    path.write_text(patch(arch, {key: rows}, directives=("origin hand test", *directives)), encoding="utf-8")
    return path


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_a_made_patch_applies_and_gives_the_other_side(tmp_path: Path) -> None:
    made = series(tmp_path, {B: ONE}) / "gfxB/attn_fwd.0010-change.dbpatch"
    root = make_db(tmp_path)
    done = run("patch", "apply", made, root)
    assert done.code == 0
    assert done.out == f"{root}/gfxB/attn_fwd.0010-change.dbpatch: written, 1 cell\n"
    assert (root / "gfxB/attn_fwd.0010-change.dbpatch").read_bytes() == made.read_bytes()
    assert "no cell" in run("diff", root, tmp_path / "new", "--effect").out


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    made = series(tmp_path, {B: ONE}) / "gfxB/attn_fwd.0010-change.dbpatch"
    root = make_db(tmp_path)
    run("patch", "apply", made, root)
    done = run("patch", "apply", made, root)
    assert (done.code, done.out) == (0, f"{root}/gfxB/attn_fwd.0010-change.dbpatch: unchanged, 1 cell\n")


def test_a_patch_of_an_heir_may_lie_over_one_that_comes_with_it(tmp_path: Path) -> None:
    """In any order: the ground is judged with all of them in place."""
    own = table("gfxA", {F1: ["128 . b ."], F2: ["64-128 b*3", "256 c*2 d"]}, base="gfxB")
    made = series(tmp_path, {B: ONE, "gfxA/attn_fwd.txtdb": own})
    heir, base = made / "gfxA/attn_fwd.0010-change.dbpatch", made / "gfxB/attn_fwd.0010-change.dbpatch"
    alone = run("patch", "apply", heir, make_db(tmp_path, {}, "alone"))
    assert (alone.code, "[stale-onto]" in alone.err) == (1, True)
    assert run("patch", "apply", heir, base, make_db(tmp_path)).code == 0


@pytest.mark.parametrize(
    ("there", "rows", "number"),
    [
        pytest.param("0010", ["256 d . ."], "0020", id="its number is taken"),
        pytest.param("10", ["256 d . ."], "0020", id="its number is taken, written otherwise"),
        pytest.param("0020", ["64 d . ."], "0030", id="a higher one sets a common cell"),
        pytest.param("0020", ["256 d . ."], "0010", id="a higher one sets other cells"),
        pytest.param("0005", ["64 d . ."], "0010", id="a lower one"),
    ],
)
def test_the_number_that_it_gets(tmp_path: Path, there: str, rows: list[str], number: str) -> None:
    root = make_db(tmp_path, {f"gfxB/attn_fwd.{there}-x.dbpatch": patch("gfxB", {F1: rows})})
    new = write(tmp_path, "attn_fwd.0010-new.dbpatch", ["64 c . ."])
    done = run("patch", "apply", new, root)
    assert done.code == 0
    was = "" if number == "0010" else ", was attn_fwd.0010-new.dbpatch"
    assert done.out == f"{root}/gfxB/attn_fwd.{number}-new.dbpatch: written, 1 cell{was}\n"
    cell = ("dtype=fp16", "causal=0", "head_dim=64", "seqlen_q=64", "seqlen_k=64")
    assert "BLOCK_M=64 PRE_LOAD_V=false num_warps=4" in run("explain", root, "gfxB", "attn_fwd", *cell).out


def test_two_of_one_number_follow_each_other(tmp_path: Path) -> None:
    first = write(tmp_path, "attn_fwd.0010-one.dbpatch", ["64 c . ."])
    second = write(tmp_path, "attn_fwd.0010-two.dbpatch", ["64 . c ."])
    root = make_db(tmp_path)
    assert run("patch", "apply", first, second, root).code == 0
    assert {"gfxB/attn_fwd.0010-one.dbpatch", "gfxB/attn_fwd.0020-two.dbpatch"} <= set(files(root))


def test_ground_that_moved_is_refused_unless_forced(tmp_path: Path) -> None:
    made = series(tmp_path, {B: ONE}) / "gfxB/attn_fwd.0010-change.dbpatch"
    root = make_db(tmp_path, {B: TABLE_B.replace("128 a b*2", "128 a c b")})
    before = files(root)
    done = run("patch", "apply", made, root)
    assert done.code == 1
    assert f"{root}/gfxB/attn_fwd.0010-change.dbpatch:5:9: error" in done.err
    assert "[stale-onto]" in done.err
    assert files(root) == before
    command = f"txtdb patch rebase {root}/gfxB/attn_fwd.0010-change.dbpatch"
    assert f"put it in with --force, then look at the cells with `{command}`" in done.err
    assert run("patch", "apply", made, root, "--force").code == 0
    assert "[stale-onto]" in run("check", root).out
    looked = run(*command.split()[1:])
    assert (looked.code, "[ground-moved]" in looked.err) == (1, True)
    assert run(*command.split()[1:], "--accept").code == 0
    assert "[stale-onto]" not in run("check", root).out


@pytest.mark.parametrize("command", ["rebase", "revert"])
def test_a_patch_outside_a_database_is_sent_to_apply(tmp_path: Path, command: str) -> None:
    made = series(tmp_path, {B: ONE}) / "gfxB/attn_fwd.0010-change.dbpatch"
    done = run("patch", command, made)
    assert (done.code, done.out) == (2, "")
    assert f"{made.as_posix()}: error: this lies in no database [no-archs]" in done.err
    assert "`txtdb patch apply` puts patches into one" in done.err


def test_ground_elsewhere_may_move(tmp_path: Path) -> None:
    made = series(tmp_path, {B: ONE}) / "gfxB/attn_fwd.0010-change.dbpatch"
    assert run("patch", "apply", made, make_db(tmp_path, {B: TABLE_B.replace("64 a*3", "64 c*3")})).code == 0


def test_evidence_beside_it_comes_along(tmp_path: Path) -> None:
    data = write_evidence(run_of([by_hand(unraced("c"), 0)]), schema())
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/run.json").write_bytes(data)
    digest = "sha256:" + sha256(data).hexdigest()
    new = write(tmp_path, "attn_fwd.0010-new.dbpatch", ["64 c . ."], f"evidence run.json {digest}")
    root = make_db(tmp_path)
    assert run("patch", "apply", new, root).code == 0
    assert (root / "gfxB/evidence/run.json").read_bytes() == data
    assert run("check", root, "--strict").code == 0


def test_other_evidence_of_the_same_name_is_a_fault(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/evidence/run.json": "{}"})
    new = write(tmp_path, "attn_fwd.0010-new.dbpatch", ["64 c . ."], f"evidence run.json {GONE}")
    done = run("patch", "apply", new, root)
    assert (done.code, "[evidence-digest]" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("attn_fwd.txtdb", TABLE_B, "this is no patch"),
        ("attn_fwd.0010.dbpatch", patch("gfxB", {F1: ["64 c . ."]}), "this is no patch"),
        ("op_fwd.0010-x.dbpatch", patch("gfxB", {F1: ["64 c . ."]}), "this is no patch"),
        ("attn_fwd.0010-x.dbpatch", patch("gfxQ", {F1: ["64 c . ."]}), "no attn_fwd on gfxQ"),
        ("attn_fwd.0010-x.dbpatch", patch("gfxB", {F1: ["64 c . "]}), "row-too-short"),
        ("attn_fwd.0010-x.dbpatch", patch("gfxB", {F1: ["64 c . ."]}, keys="dtype causal head"), "unknown-key"),
        (
            "attn_fwd.0010-x.dbpatch",
            patch("gfxB", {F1: ["64 c . ."]}).replace("64 false", "65 false"),
            "illegal-config",
        ),
        ("attn_fwd.0010-x.dbpatch", None, "cannot read"),
    ],
)
def test_what_is_no_patch_of_this_database(tmp_path: Path, name: str, text: str | None, rule: str) -> None:
    root = make_db(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    good = write(tmp_path, "attn_fwd.0020-good.dbpatch", ["64 c . ."])
    before = files(root)
    done = run("patch", "apply", tmp_path / name, good, root)
    assert done.code in (1, 2)
    assert rule in done.err
    assert files(root) == before, "the good one is not applied either"


def test_a_patch_of_an_heir_over_the_cells_is_told(tmp_path: Path) -> None:
    """gfxA has a patch over what it inherits; now gfxB gives it something else."""
    over = write(tmp_path, "attn_fwd.0010-mine.dbpatch", ["128 . c ."], arch="gfxA")
    root = make_db(tmp_path)
    run("patch", "apply", over, root)
    assert run("patch", "rebase", root / "gfxA/attn_fwd.0010-mine.dbpatch").code == 0
    made = write(tmp_path, "attn_fwd.0010-new.dbpatch", ["128 . d ."])
    done = run("patch", "apply", made, root)
    assert done.code == 0
    assert f"{root}/gfxA/attn_fwd.0010-mine.dbpatch: other contents lie under this patch now" in done.out
    assert run("patch", "apply", made, root, "--format", "json").json["stale"] == []
