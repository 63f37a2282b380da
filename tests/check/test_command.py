"""`txtdb check`: exit codes, formats, baseline, counts, and the reports of the field that are about checking."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.build import F1, F2, SCHEMA, TABLE_A, TABLE_B, make_db, patch, table, write_files
from tests.check.fixtures import OPERATOR, OPERATOR_TABLE, PIN
from txtdb.cli import main


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, args)])


def findings(*args: object) -> list[dict[str, object]]:
    result = run(*args, "--format", "json")
    found: list[dict[str, object]] = json.loads(result.stdout)["findings"]
    return found


HOLE = {"gfxB/attn_fwd.txtdb": TABLE_B.replace("128 a b*2", "128 a . b")}
TWO_HOLES = {"gfxB/attn_fwd.txtdb": TABLE_B.replace("128 a b*2", "128 a . b").replace("256 b c d", "256 . c d")}
WARNING = {"gfxB/attn_fwd.txtdb": TABLE_B.replace("d = 128 false 8 2", "d = 128 false 8 2\ne = 64 true 8 1")}


def test_clean_is_0_and_prints_counts(tmp_path: Path) -> None:
    result = run(make_db(tmp_path), "--strict")
    assert result.exit_code == 0
    assert "0 errors, 0 warnings" in result.stdout
    assert "18 set, 9 inherited, 0 shadowed, 0 masked, 0 holes" in result.stdout
    assert "files by arch: gfxA 1, gfxB 1" in result.stdout


def test_a_warning_fails_only_when_strict(tmp_path: Path) -> None:
    root = make_db(tmp_path, WARNING)
    assert run(root).exit_code == 0
    assert run(root, "--strict").exit_code == 1


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_no_database_is_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = run(tmp_path / name)
    assert result.exit_code == 2
    assert "archs.toml" in result.stderr or "no such folder" in result.stderr


def test_a_hole_names_its_heirs_and_cells(tmp_path: Path) -> None:
    [finding] = findings(make_db(tmp_path, HOLE))
    assert finding["rule"] == "hole"
    assert finding["inherited_by"] == ["gfxA"]
    assert finding["cells"] == [{"functional": {"dtype": "fp16", "causal": 0, "head_dim": 64}, "at": [128, 128]}]
    assert str(finding["file"]).endswith("gfxB/attn_fwd.txtdb")
    row = TABLE_B.replace("128 a b*2", "128 a . b").splitlines().index("128 a . b") + 1
    assert (finding["line"], finding["column"]) == (row, 1)


def test_an_heir_that_fills_the_hole_is_not_named(tmp_path: Path) -> None:
    own = table("gfxA", {F1: ["128 . b ."], F2: ["64-256 b*3"]}, base="gfxB")
    [finding] = findings(make_db(tmp_path, {**HOLE, "gfxA/attn_fwd.txtdb": own}))
    assert finding["inherited_by"] == []


def test_counts_of_masked_and_shadowed(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": patch("gfxB", {F1: ["64 d - ."]})})
    counts = json.loads(run(root, "--format", "json").stdout)["counts"]
    # The two overridden cells count in gfxB and in its heir.
    assert (counts["masked"], counts["holes"], counts["shadowed"]) == (2, 2, 4)


def test_illegal_config_lists_the_cells_that_use_it(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": TABLE_B.replace("a = 32 true", "a = 100 true")})
    [finding] = findings(root)
    assert finding["rule"] == "illegal-config"
    assert finding["inherited_by"] == ["gfxA"]
    assert [cell["at"] for cell in finding["cells"]] == [[64, 64], [64, 128], [64, 256], [128, 64]]  # type: ignore[attr-defined,index]


def test_a_config_that_only_an_heir_forbids(tmp_path: Path) -> None:
    from tests.build import SCHEMA

    schema = SCHEMA.replace("[arch.gfxA]\n", "[arch.gfxA]\nillegal = [{ BLOCK_M = [128], num_warps = 8 }]\n")
    own = TABLE_A.replace("256 c*2 d", "256 c*3").replace("d = 128 false 8 2\n", "")
    [finding] = findings(make_db(tmp_path, {"schema/attn_fwd.toml": schema, "gfxA/attn_fwd.txtdb": own}))
    assert (finding["rule"], finding["arch"]) == ("illegal-config", "gfxA")
    assert [cell["at"] for cell in finding["cells"]] == [[256, 256]]  # type: ignore[attr-defined,index]


def test_a_gap_of_the_kernel_is_not_told_again_by_the_operator(tmp_path: Path) -> None:
    files = {"schema/op_attn_fwd.toml": OPERATOR, "gfxB/op_attn_fwd.txtdb": OPERATOR_TABLE}
    assert {f["rule"] for f in findings(make_db(tmp_path, {**files, **HOLE}))} == {"hole", "backend-without-kernel"}
    [backend] = [f for f in findings(tmp_path / "db") if f["rule"] == "backend-without-kernel"]
    # F2 does not exist for attn_fwd on gfxB; the vendor's cells launch nothing of ours.
    assert [cell["at"] for cell in backend["cells"]] == [[256, 64]]  # type: ignore[attr-defined,index]


def test_pins_hold_and_expire(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/pins.toml": PIN})
    assert run(root, "--strict", "--today", "2030-01-01").exit_code == 0
    result = run(root, "--strict", "--today", "2030-01-02")
    assert result.exit_code == 1
    assert "expired-pin" in result.stdout


def test_github_format_names_file_line_and_rule(tmp_path: Path) -> None:
    result = run(make_db(tmp_path, HOLE), "--format", "github")
    [line] = [line for line in result.stdout.splitlines() if line.startswith("::")]
    assert line.startswith("::error file=")
    assert "gfxB/attn_fwd.txtdb,line=" in line
    assert ",title=hole::" in line


def test_sarif_is_well_formed(tmp_path: Path) -> None:
    sarif = json.loads(run(make_db(tmp_path, HOLE), "--format", "sarif").stdout)
    [sarif_run] = sarif["runs"]
    [result] = sarif_run["results"]
    assert sarif["version"] == "2.1.0"
    assert result["ruleId"] == "hole"
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region["endColumn"] > region["startColumn"]
    assert sarif_run["tool"]["driver"]["rules"] == [{"id": "hole"}]
    assert sarif_run["properties"]["counts"]["holes"] == 2


def test_row_037_one_broken_row_fails_every_command(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": TABLE_B.replace("128 a b*2", "128 a b")})
    out = tmp_path / "out"
    for command in (["check", root], ["resolve", root, "gfxB", "attn_fwd"], ["codegen", root, "--out", out]):
        assert CliRunner().invoke(main, [str(part) for part in command]).exit_code == 1, command
    assert not out.exists()


_NO_EXTRAS = """
import sys
for name in ("torch", "triton", "scipy", "pynvml"):
    sys.modules[name] = None
from txtdb.cli import main
main(["check", sys.argv[1], "--format", "json"])
"""


def test_row_039_findings_do_not_depend_on_optional_packages(tmp_path: Path) -> None:
    root = make_db(tmp_path, HOLE)
    without = subprocess.run([sys.executable, "-c", _NO_EXTRAS, root], capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert json.loads(without.stdout) == json.loads(run(root, "--format", "json").stdout)


def test_row_040_a_baseline_is_a_ratchet(tmp_path: Path) -> None:
    baseline = tmp_path / "known.txt"
    root = make_db(tmp_path, HOLE)
    assert run(root, "--baseline", baseline, "--write-baseline").exit_code == 0
    assert run(root, "--baseline", baseline, "--strict").exit_code == 0
    make_db(tmp_path, TWO_HOLES)
    [new] = findings(root, "--baseline", baseline)
    assert (new["rule"], new["cells"][0]["at"]) == ("hole", [256, 64])  # type: ignore[index]
    make_db(tmp_path)
    [stale] = findings(root, "--baseline", baseline)
    assert (stale["rule"], stale["line"]) == ("stale-baseline", 2)
    assert run(root, "--baseline", baseline).exit_code == 1


def test_a_baseline_does_not_care_for_line_numbers_or_where_the_root_lies(tmp_path: Path) -> None:
    baseline = tmp_path / "known.txt"
    run(make_db(tmp_path, HOLE), "--baseline", baseline, "--write-baseline")
    moved = make_db(
        tmp_path / "else", {"gfxB/attn_fwd.txtdb": HOLE["gfxB/attn_fwd.txtdb"].replace("\n[", "\n# new\n[")}
    )
    assert run(moved, "--baseline", baseline, "--strict").exit_code == 0


def test_a_missing_or_garbled_baseline_is_no_pass(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    assert run(root, "--baseline", tmp_path / "absent").exit_code == 2
    assert run(root, "--baseline", tmp_path, "--write-baseline").exit_code == 2
    (tmp_path / "garbled").write_text("hole in gfxB\n", encoding="utf-8")
    assert run(root, "--baseline", tmp_path / "garbled").exit_code == 1


def test_row_041_every_arch_is_checked(tmp_path: Path) -> None:
    root = make_db(tmp_path, {"gfxB/attn_fwd.txtdb": TABLE_B.replace("64 true 4 1", "64 true 3 1")})
    [finding] = findings(root)
    assert (finding["rule"], finding["arch"]) == ("illegal-config", "gfxB")


def test_row_043_unreachable_block_and_file(tmp_path: Path) -> None:
    files = {
        "gfxB/attn_fwd.txtdb": TABLE_B.replace("#! end", "[float16 0 64]\n64-256 a*3\n#! end"),
        "gfxC/attn_fwd.txtdb": TABLE_B.replace("gfxB", "gfxC"),
    }
    result = run(make_db(tmp_path, files), "--format", "json")
    assert result.exit_code == 1
    assert [f["rule"] for f in json.loads(result.stdout)["findings"]] == ["unreachable-block", "unknown-arch"]


def test_row_025_no_op_override_points_at_its_line(tmp_path: Path) -> None:
    text = patch("gfxB", {F1: ["64 a d ."]})
    [finding] = findings(make_db(tmp_path, {"gfxB/attn_fwd.0010-x.dbpatch": text}))
    assert (finding["rule"], finding["line"]) == ("no-op-override", text.splitlines().index("64 a d .") + 1)
    assert [cell["at"] for cell in finding["cells"]] == [[64, 64]]  # type: ignore[attr-defined,index]


def test_a_layer_that_patches_were_made_over_is_to_be_folded_and_then_all_is_clean(tmp_path: Path) -> None:
    """As after two runs of the tuner: without the lower patch the ground of the upper one would be another."""
    one, two = "gfxB/attn_fwd.0010-one.dbpatch", "gfxB/attn_fwd.0020-two.dbpatch"
    root = make_db(tmp_path, {one: patch("gfxB", {F1: ["64-256 b*3"]}), two: patch("gfxB", {F1: ["64-256 c b a"]})})
    under = [f"{root}/gfxB/attn_fwd.txtdb", f"{root}/{one}"]
    hints = {item["file"]: item["hint"] for item in findings(root) if item["rule"] == "unused-layer"}
    assert hints == dict.fromkeys(under, "remove the file")
    assert CliRunner().invoke(main, ["patch", "rebase", str(root / two), "--accept"]).exit_code == 0
    hints = {item["file"]: item["hint"] for item in findings(root) if item["rule"] == "unused-layer"}
    fold = f"fold it with the patches over it: `txtdb patch squash {root} gfxB attn_fwd`"
    assert hints == dict.fromkeys(under, fold)
    words = fold.partition("`txtdb ")[2].rstrip("`").split()
    assert CliRunner().invoke(main, words).exit_code == 0
    assert findings(root) == []


def test_row_017_equal_numbers(tmp_path: Path) -> None:
    one = {"gfxB/attn_fwd.0020-a.dbpatch": patch("gfxB", {F1: ["64 d . ."]})}
    common = {"gfxB/attn_fwd.0020-b.dbpatch": patch("gfxB", {F1: ["64 b b ."]})}
    apart = {"gfxB/attn_fwd.0020-b.dbpatch": patch("gfxB", {F1: ["64 . b ."]})}
    [error] = [f for f in findings(make_db(tmp_path, {**one, **common})) if f["rule"] == "equal-patch-number"]
    assert (error["severity"], error["cells"][0]["at"]) == ("error", [64, 64])  # type: ignore[index]
    [warning] = findings(make_db(tmp_path / "apart", {**one, **apart}))
    assert (warning["severity"], warning["cells"]) == ("warning", [])


def test_row_012_file_counts_and_strays(tmp_path: Path) -> None:
    files = {
        "schema/attn_fwd.v2.toml": (make_db(tmp_path / "x") / "schema" / "attn_fwd.toml")
        .read_text(encoding="utf-8")
        .replace('"attn_fwd"', '"attn_fwd.v2"')
        .replace('[arch.gfxA]\ndomain.dtype = ["fp16"]\ndomain.causal = [0]\n', ""),
        "gfxB/attn_fwd.v2.txtdb": TABLE_B.replace("attn_fwd", "attn_fwd.v2"),
        "gfxB/attn_fwd.v2.0010-a.b.dbpatch": patch("gfxB", {F1: ["64 d . ."]}, iface="attn_fwd.v2"),
        "gfxB/attn_fwd.0010-a.dbpatch.bak": "old",
    }
    result = run(make_db(tmp_path, files))
    assert "files by arch: gfxA 1, gfxB 3" in result.stdout
    assert "attn_fwd.0010-a.dbpatch.bak" in result.stdout
    assert "1 error, 0 warnings\n" in result.stdout


def test_overlays_are_checked_too(tmp_path: Path) -> None:
    over = write_files(tmp_path / "over", {"gfxB/attn_fwd.0010-o.dbpatch": patch("gfxB", {F1: ["64 - . ."]})})
    [finding] = findings(make_db(tmp_path), "--overlay", over)
    assert finding["rule"] == "hole"


@pytest.mark.parametrize(
    ("head", "column", "message", "guess"),
    [
        ("f16 0 64", 2, "dtype has no value f16; it has fp16", "did you mean fp16? "),
        ("bf16 0 64", 2, "dtype has no value bf16 on gfxB; it has fp16", "did you mean fp16? "),
        ("fp16 7 64", 7, "causal has no value 7; it has 0", ""),
        ("fp16 0 128", 9, "head_dim has no value 128 on gfxB; it has 64", ""),
    ],
)
def test_a_block_that_does_not_exist_says_which_value_is_wrong(
    tmp_path: Path, head: str, column: int, message: str, guess: str
) -> None:
    text = TABLE_B.replace("#! end", f"[{head}]\n64-256 a*3\n#! end")
    [finding] = findings(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))
    assert (finding["rule"], finding["column"], finding["message"]) == ("unreachable-block", column, message)
    assert finding["last_column"] == column + len(head.split()[{2: 0, 7: 1, 9: 2}[column]]) - 1
    assert finding["hint"] == f"{guess}no lookup reaches this block: correct its values, or declare it in the schema"


def test_the_column_of_a_wrong_value_follows_the_order_of_the_keys(tmp_path: Path) -> None:
    text = TABLE_B.replace("#! key dtype causal head_dim", "#! key head_dim causal dtype").replace(
        "[fp16 0 64]", "[64 0 fp16]"
    )
    text = text.replace("#! end", "[64 0 fp]\n64-256 a*3\n#! end")
    [finding] = findings(make_db(tmp_path, {"gfxB/attn_fwd.txtdb": text}))
    assert (finding["rule"], finding["column"], finding["last_column"]) == ("unreachable-block", 7, 8)


def test_one_of_a_thing_is_singular(tmp_path: Path) -> None:
    files = {"gfxA/attn_fwd.txtdb": None, "archs.toml": "[arch.gfxB]\n", **HOLE}
    schema = SCHEMA[: SCHEMA.index("[arch.gfxA]")] + SCHEMA[SCHEMA.index("[arch.gfxB]") :]
    result = run(make_db(tmp_path, {**files, "schema/attn_fwd.toml": schema}))
    assert "\n1 error, 0 warnings\n1 file, 1 arch, 1 table, 1 functional; cells: 8 set, " in result.stdout
    assert "0 masked, 1 hole\n" in result.stdout


def test_the_help_says_what_open_changes_are_merged_with() -> None:
    text = " ".join(run("--help").stdout.split())
    assert "see below" not in text
    assert "It is merged with the work tree as it is now" in text


def unused_hint(root: Path) -> str:
    return next(item["hint"] for item in findings(root) if item["rule"] == "unused-layer")


def test_a_table_with_a_base_keeps_its_header_and_measured_cells_under_a_hand_are_not_folded(tmp_path: Path) -> None:
    over = {"gfxA/attn_fwd.0010-x.dbpatch": patch("gfxA", {F2: ["64-128 c*3", "256 b*2 c"]})}
    assert unused_hint(make_db(tmp_path, over)) == "remove its blocks, and keep the header with `#! base`"
    measured = patch(
        "gfxB", {F1: ["64 b . ."]}, directives=("origin measured a", "why a", f"evidence a.json sha256:{'0' * 64}")
    )
    hand = patch("gfxB", {F1: ["64 d . ."]}, directives=("origin hand a", "why a", f"onto sha256:{'0' * 64}"))
    root = make_db(tmp_path, {"gfxB/attn_fwd.0010-a.dbpatch": measured, "gfxB/attn_fwd.0020-b.dbpatch": hand}, "hand")
    assert unused_hint(root).startswith("measure its cells again, or leave it: folded with what was set by hand")
