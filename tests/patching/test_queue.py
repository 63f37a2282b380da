"""`txtdb check --with`: which open changes break together, before any is merged."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tests.build import ARCHS, F1, F2, S0, SCHEMA, TABLE_A, TABLE_B, make_db, patch, table
from tests.check.fixtures import OPERATOR
from tests.cli.run import Ran, run
from tests.merge.repository import Repository, make_repository

B, A = "a db/gfxB/attn_fwd.txtdb", "a db/gfxA/attn_fwd.txtdb"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "a repo", {f"a db/{name}": text for name, text in S0.items()}, drivers=False)


def check(repository: Repository, *changes: str, options: tuple[str, ...] = ()) -> Ran:
    words = [word for change in changes for word in ("--with", change)]
    with chdir(repository.path):
        return run("check", "a db", *words, *options)


def together(repository: Repository, *changes: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = check(repository, *changes, options=("--format", "json")).json["together"]
    return found


def over(row: str, origin: str = "measured run-1", arch: str = "gfxB") -> str:
    return patch(arch, {F1: row.split("; ")}, directives=(f"origin {origin}", "why a test"))


def test_row_027_two_branches_that_set_the_same_two_cells_differently(repository: Repository) -> None:
    repository.branch("one", {"a db/gfxB/attn_fwd.0010-one.dbpatch": over("64 b*2 .")})
    repository.branch("two", {"a db/gfxB/attn_fwd.0020-two.dbpatch": over("64 c*2 .", "measured run-2")})
    done = check(repository, "one", "two")
    assert done.code == 1
    assert "one: no finding by itself\ntwo: no finding by itself\n" in done.out
    head = "a db/gfxB/attn_fwd.0020-two.dbpatch:14:4: error: one and two set 2 cells differently [same-cell]"
    assert head in done.out
    config = {
        "b": "BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1",
        "c": "BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2",
    }
    for bins in ("64,64", "64,128"):
        where = "(a db/gfxB/attn_fwd.0010-one.dbpatch:14:4, measured run-1)"
        assert f"[fp16 0 64] {bins}: one: {config['b']} waves_per_eu=0 {where}" in done.out
        where = "(a db/gfxB/attn_fwd.0020-two.dbpatch:14:4, measured run-2)"
        assert f"[fp16 0 64] {bins}: two: {config['c']} waves_per_eu=0 {where}" in done.out


def test_row_027_patches_of_one_number_fail_the_merged_tree_with_both_cells(tmp_path: Path) -> None:
    """The tree as git merges it: both files are there, and `check` names the cells without any help."""
    files = {"gfxB/attn_fwd.0010-one.dbpatch": over("64 b b ."), "gfxB/attn_fwd.0010-two.dbpatch": over("64 c c .")}
    done = run("check", make_db(tmp_path, files))
    assert done.code == 1
    assert "[equal-patch-number]" in done.out
    assert "2 cells: [fp16 0 64] 64,128; [fp16 0 64] 64,64" in done.out
    b, c = (
        "BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1 waves_per_eu=0",
        "BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2 waves_per_eu=0",
    )
    place = f"{(tmp_path / 'db' / 'gfxB').as_posix()}/attn_fwd.0010"
    for bins, column in (("64,64", 4), ("64,128", 6)):
        told = f"{b} ({place}-one.dbpatch:14:{column}) against {c} ({place}-two.dbpatch:14:{column})"
        assert f"    [fp16 0 64] {bins}: {told}" in done.out.splitlines()


def test_equal_patch_number_tells_the_first_cells_and_counts_the_rest(tmp_path: Path) -> None:
    files = {"gfxB/attn_fwd.0010-one.dbpatch": over("64-128 b*3"), "gfxB/attn_fwd.0010-two.dbpatch": over("64-128 -*3")}
    done = run("check", make_db(tmp_path, files))
    lines = done.out.splitlines()
    first = next(number for number, line in enumerate(lines) if "give the one that is to count" in line)
    assert all(" against masked (" in line for line in lines[first + 1 : first + 4])
    assert lines[first + 4] == "    and 3 more"


def test_equal_patch_number_names_the_command_that_gives_another_one(tmp_path: Path) -> None:
    """It does what the hint says: the patch that it names counts afterwards, and the finding is gone."""
    files = {"gfxB/attn_fwd.0010-one.dbpatch": over("64 b b ."), "gfxB/attn_fwd.0010-two.dbpatch": over("64 c c .")}
    root = make_db(tmp_path, files)
    [finding] = equal_numbers(run("check", root, "--format", "json").json)
    command = f"txtdb patch rebase {root.as_posix()}/gfxB/attn_fwd.0010-two.dbpatch"
    assert finding["hint"].splitlines()[0] == (
        f"give the one that is to count in these cells a higher number: `{command}` gives this one the next free"
    )
    assert run(*command.split()[1:], "--accept").code == 0
    assert (root / "gfxB/attn_fwd.0020-two.dbpatch").is_file()
    assert equal_numbers(run("check", root, "--format", "json").json) == []


def test_equal_patch_number_of_an_overlay_names_no_command(tmp_path: Path) -> None:
    overlay = tmp_path / "mine"
    (overlay / "gfxB").mkdir(parents=True)
    for name, rows in (("one", "64 b . ."), ("two", "64 . b .")):
        (overlay / f"gfxB/attn_fwd.0010-{name}.dbpatch").write_text(over(rows))
    [finding] = equal_numbers(run("check", make_db(tmp_path), "--overlay", overlay, "--format", "json").json)
    assert finding["hint"] == "give one of them another number"


def test_contents_that_same_cell_told_are_not_told_again_with_the_number(repository: Repository) -> None:
    repository.branch("one", {"a db/gfxB/attn_fwd.0010-one.dbpatch": over("64 b b .")})
    repository.branch("two", {"a db/gfxB/attn_fwd.0010-two.dbpatch": over("64 c c .")})
    found = {finding["rule"]: finding for finding in together(repository, "one", "two")}
    assert len(found["same-cell"]["details"]) == 4
    assert (
        found["equal-patch-number"]["hint"]
        == "once one of them is merged, `txtdb patch rebase` gives the other one the next free number"
    )
    assert check(repository, "one", "two").out.count("PRE_LOAD_V=false") == 2


def equal_numbers(report: Any) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == "equal-patch-number"]


def test_patches_of_two_numbers_on_one_cell_are_ordinary_layering(tmp_path: Path) -> None:
    files = {"gfxB/attn_fwd.0010-one.dbpatch": over("64 b . ."), "gfxB/attn_fwd.0020-two.dbpatch": over("64 c b .")}
    done = run("check", make_db(tmp_path, files))
    assert (done.code, "equal-patch-number" in done.out) == (0, False)


def test_patch_files_that_are_in_no_branch(repository: Repository, tmp_path: Path) -> None:
    paths = [tmp_path / f"attn_fwd.00{n}0-x.dbpatch" for n in (1, 2)]
    for path, symbol in zip(paths, "bc", strict=True):
        path.write_text(over(f"64 {symbol} . ."))
    [finding, *_] = together(repository, *map(str, paths))
    assert (finding["rule"], finding["changes"]) == ("same-cell", [path.as_posix() for path in paths])
    assert finding["cells"] == [{"functional": {"dtype": "fp16", "causal": 0, "head_dim": 64}, "at": [64, 64]}]


def test_the_same_content_is_no_clash(repository: Repository) -> None:
    repository.branch("one", {"a db/gfxB/attn_fwd.0010-one.dbpatch": over("64 b . .")})
    repository.branch("two", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    assert [finding["rule"] for finding in together(repository, "one", "two")] == ["no-op-override"]


def test_changes_that_go_together(repository: Repository) -> None:
    """Both change row 64 of one file, in different cells."""
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    repository.branch("two", {B: TABLE_B.replace("64 a*3", "64 a*2 b")})
    done = check(repository, "one", "two", options=("--strict",))
    assert (done.code, "together, besides: no finding" in done.out) == (0, True)


def test_ground_that_another_change_moves(repository: Repository) -> None:
    """gfxA has a patch over what it inherits, and the other branch changes that in gfxB."""
    with chdir(repository.path):
        repository.git("checkout", "-qb", "heir")
        repository.write({"a db/gfxA/attn_fwd.0010-x.dbpatch": over("64 d . .", arch="gfxA")})
        assert run("patch", "rebase", "a db/gfxA/attn_fwd.0010-x.dbpatch").code == 0
    repository.commit({}, "heir")
    repository.git("checkout", "-q", "main")
    repository.branch("base", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    [finding] = together(repository, "heir", "base")
    assert (finding["rule"], finding["changes"]) == ("stale-onto", ["heir", "base"])
    assert check(repository, "heir", "base").code == 0
    assert check(repository, "heir", "base", options=("--strict",)).code == 1


def test_a_kernel_that_goes_while_an_operator_comes_to_choose_it(tmp_path: Path) -> None:
    """Neither is wrong alone: head dim 64 is dropped from the kernel here, and chosen by the operator there."""
    options: dict[str, Any] = {"iface": "op_attn_fwd", "fields": "backend", "palette": {"a": "triton", "b": "vendor"}}
    unchosen = table("gfxB", {F1: ["64-256 b*3"], F2: ["64-256 b*3"]}, **options)
    chosen = table("gfxB", {F1: ["64-256 a*3"], F2: ["64-256 b*3"]}, **options)
    files = {**S0, "schema/op_attn_fwd.toml": OPERATOR, "gfxB/op_attn_fwd.txtdb": unchosen}
    repository = make_repository(
        tmp_path / "repo", {f"a db/{name}": text for name, text in files.items()}, drivers=False
    )
    repository.branch("operator", {"a db/gfxB/op_attn_fwd.txtdb": chosen})
    without = SCHEMA.replace("domain.head_dim = [64]", "domain.head_dim = [128]")
    repository.branch("kernel", {
        "a db/schema/attn_fwd.toml": without,
        B: TABLE_B.replace("[fp16 0 64]", "[fp16 0 128]"),
        A: TABLE_A.replace("#! base gfxB\n", "").replace("[fp16 0 128]\n", "[fp16 0 64]\n64-256 b*3\n\n[fp16 0 128]\n"),
    })  # fmt: skip
    [finding] = together(repository, "operator", "kernel")
    assert finding["rule"] == "backend-without-kernel"
    assert len(finding["cells"]) == 9
    done = check(repository, "operator", "kernel")
    assert done.code == 1
    assert "of operator and kernel" in done.out


def test_findings_that_add_up_are_not_new_together(repository: Repository) -> None:
    """Each branch makes one hole in the same row: one finding alone, one of two cells together."""
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 . a*2")})
    repository.branch("two", {B: TABLE_B.replace("64 a*3", "64 a*2 .")})
    report = check(repository, "one", "two", options=("--format", "json")).json
    assert [[finding["rule"] for finding in change["findings"]] for change in report["alone"]] == [["hole"], ["hole"]]
    assert report["together"] == []


def test_what_a_change_brings_alone_fails(repository: Repository) -> None:
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 . a*2")})
    done = check(repository, "one")
    assert done.code == 1
    assert "one: 1 finding by itself\na db/gfxB/attn_fwd.txtdb:16:1: error:" in done.out
    assert "together" not in done.out


def test_what_the_database_has_already_is_left_to_an_ordinary_check(repository: Repository) -> None:
    repository.commit({B: TABLE_B.replace("256 b c d", "256 . c d")})
    repository.branch("one", {B: TABLE_B.replace("256 b c d", "256 . c d").replace("64 a*3", "64 b a*2")})
    done = check(repository, "one")
    assert done.code == 0
    assert "the database has 1 finding of its own, which `txtdb check` tells" in done.out


def test_of_three_the_two_that_clash_are_named(repository: Repository) -> None:
    repository.branch("one", {"a db/gfxB/attn_fwd.0010-one.dbpatch": over("64 b . .")})
    repository.branch("two", {"a db/gfxB/attn_fwd.0020-two.dbpatch": over("256 . b .")})
    repository.branch("three", {"a db/gfxB/attn_fwd.0010-three.dbpatch": over("128 . c .")})
    found = together(repository, "one", "two", "three")
    assert [(item["rule"], item["severity"], item["changes"]) for item in found] == [
        ("equal-patch-number", "warning", ["one", "three"])
    ]


def test_one_cell_of_one_file_is_told_as_cells_and_not_again_as_a_conflict(repository: Repository) -> None:
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    repository.branch("two", {B: TABLE_B.replace("64 a*3", "64 c a*2")})
    assert [finding["rule"] for finding in together(repository, "one", "two")] == ["same-cell"]


def test_files_that_do_not_merge(repository: Repository) -> None:
    repository.branch("one", {B: TABLE_B.replace("hand test", "measured one")})
    repository.branch("two", {B: TABLE_B.replace("hand test", "measured two")})
    [finding] = together(repository, "one", "two")
    assert (finding["rule"], finding["message"]) == ("merge-conflict", "both sides changed `#! origin`")
    assert finding["changes"] == ["one", "two"]


def test_facts_merge_by_line(repository: Repository) -> None:
    repository.branch("one", {"a db/archs.toml": ARCHS.replace("304", "300")})
    repository.branch("two", {"a db/archs.toml": ARCHS.replace("110", "100")})
    assert together(repository, "one", "two") == []
    repository.branch("three", {"a db/archs.toml": ARCHS.replace("304", "200")})
    assert [finding["rule"] for finding in together(repository, "one", "three")] == ["merge-conflict"]


def test_a_change_that_does_not_merge_with_the_working_tree(repository: Repository) -> None:
    """The database moved on while the branch was open."""
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    repository.commit({B: TABLE_B.replace("64 a*3", "64 c a*2")}, "meanwhile")
    report = check(repository, "one", options=("--format", "json")).json
    [finding] = report["alone"][0]["findings"]
    assert (finding["rule"], finding["cells"][0]["at"]) == ("merge-conflict", [64, 64])
    assert finding["cells"][0]["functional"] == {"dtype": "fp16", "causal": 0, "head_dim": 64}
    contents = {
        "base": "BLOCK_M=32 PRE_LOAD_V=true num_warps=2 num_stages=1",
        "ours": "BLOCK_M=64 PRE_LOAD_V=false num_warps=4 num_stages=2",
        "theirs": "BLOCK_M=64 PRE_LOAD_V=true num_warps=4 num_stages=1",
    }
    lines = [f"[fp16 0 64] 64,64: {side}: {content} (at 16:4)" for side, content in contents.items()]
    assert finding["hint"].split("\n") == ["merge them by hand", *lines]
    assert "".join(f"    {line}\n" for line in lines) in check(repository, "one").out


def test_files_that_a_branch_removes_and_adds(repository: Repository) -> None:
    repository.commit({"a db/gfxB/attn_fwd.0010-old.dbpatch": over("64 b . .")}, "a patch")
    repository.branch("without", {"a db/gfxB/attn_fwd.0010-old.dbpatch": None})
    repository.branch("changed", {"a db/gfxB/attn_fwd.0010-old.dbpatch": over("64 c . .")})
    for names in (("without", "changed"), ("changed", "without")):
        found = {finding["rule"]: finding for finding in together(repository, *names)}
        assert set(found) == {"same-cell", "merge-conflict"}
        assert found["merge-conflict"]["message"] == REMOVED_AND_CHANGED
        assert found["merge-conflict"]["changes"] == list(names)


REMOVED_AND_CHANGED = "one side removed it, the other changed it"


@pytest.mark.parametrize(
    "changed", [TABLE_B.replace("64 a*3", "64 b a*2"), TABLE_B.replace("#! key", "# note\n#! key")]
)
def test_a_table_that_one_removes_and_the_other_changes(repository: Repository, changed: str) -> None:
    repository.branch("without", {B: None})
    repository.branch("changed", {B: changed})
    for names in (("without", "changed"), ("changed", "without")):
        [conflict] = [one for one in together(repository, *names) if one["rule"] == "merge-conflict"]
        assert (conflict["message"], conflict["changes"]) == (REMOVED_AND_CHANGED, list(names))


def test_a_patch_that_one_removes_and_the_other_only_lays_out_anew(repository: Repository) -> None:
    old = over("64 b . .")
    repository.commit({"a db/gfxB/attn_fwd.0010-old.dbpatch": old}, "a patch")
    repository.branch("without", {"a db/gfxB/attn_fwd.0010-old.dbpatch": None})
    repository.branch("spaced", {"a db/gfxB/attn_fwd.0010-old.dbpatch": old.replace("64 b . .", "64  b  .  .")})
    for names in (("without", "spaced"), ("spaced", "without")):
        assert together(repository, *names) == []


def test_a_removed_file_is_a_conflict_with_what_the_working_tree_made_of_it(repository: Repository) -> None:
    repository.branch("without", {B: None})
    repository.commit({B: TABLE_B.replace("64 a*3", "64 b a*2")}, "meanwhile")
    report = check(repository, "without", options=("--format", "json")).json
    [finding] = [one for one in report["alone"][0]["findings"] if one["rule"] == "merge-conflict"]
    assert finding["message"] == REMOVED_AND_CHANGED


def test_the_working_tree_is_left_alone(repository: Repository) -> None:
    repository.write({B: TABLE_B.replace("64 a*3", "64 d a*2")})
    repository.branch("one", {A: TABLE_A.replace("256 c*2 d", "256 c*3")})
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in repository.path.rglob("*.txtdb")}
    status = repository.git("status", "--porcelain").out
    check(repository, "one", "main")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in repository.path.rglob("*.txtdb")} == before
    assert repository.git("status", "--porcelain").out == status


def test_in_a_worktree_with_uncommitted_work(repository: Repository, tmp_path: Path) -> None:
    """What is not committed is the database that the changes are merged into."""
    repository.branch("one", {B: TABLE_B.replace("64 a*3", "64 b a*2")})
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "other tree"))
    tree = Repository(tmp_path / "other tree")
    tree.write({B: TABLE_B.replace("64 a*3", "64 c a*2")})
    assert "[merge-conflict]" in check(tree, "one").out


@pytest.mark.parametrize("style", ["github", "sarif"])
def test_other_forms_have_the_findings(repository: Repository, style: str) -> None:
    repository.branch("one", {"a db/gfxB/attn_fwd.0010-one.dbpatch": over("64 b . .")})
    repository.branch("two", {"a db/gfxB/attn_fwd.0020-two.dbpatch": over("64 c . .")})
    assert "same-cell" in check(repository, "one", "two", options=("--format", style)).out


@pytest.mark.parametrize(
    ("change", "message"), [("nothing", "Not a valid object name"), ("a db/archs.toml", "Not a valid object name")]
)
def test_what_is_no_change(repository: Repository, change: str, message: str) -> None:
    done = check(repository, change)
    assert (done.code, message in done.err) == (2, True)


def test_a_patch_file_that_is_broken(repository: Repository, tmp_path: Path) -> None:
    path = tmp_path / "attn_fwd.0010-x.dbpatch"
    path.write_text("#! dbpatch 1\n")
    done = check(repository, str(path))
    assert done.code == 2
    assert "[truncated]" in done.err


def test_a_baseline_has_no_part_in_it(repository: Repository) -> None:
    assert check(repository, "main", options=("--baseline", "known")).code == 2
