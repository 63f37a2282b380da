"""Public reports of what goes wrong on import; each test names the row of its report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import txtdb
from tests.build import make_db
from tests.formats.measured import AT, TIMED, best, counts, record, run, write_csv, write_json
from txtdb.cli import main
from txtdb.files import atomic_write
from txtdb.formats.record_columns import Reading
from txtdb.layers.resolved import Config
from txtdb.model.archs import Arch, find_arch, read_archs


def command(root: Path, *arguments: object) -> Result:
    """`txtdb import records … --root ROOT --arch gfxB --iface attn_fwd --time us`."""
    target = ("--root", root, "--arch", "gfxB", "--iface", "attn_fwd", "--time", "us")
    return CliRunner().invoke(main, ["import", "records", *map(str, (*arguments, *target))])


def test_row_047_infinite_negative_and_repeated_times(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    times = [float("inf"), -1, 12.0, 11.5]
    path = write_csv(tmp_path / "tuned.csv", [record(us=t, num_warps=1 << n) for n, t in enumerate(times)])
    result = run(root, path)
    assert best(result) == {AT: (128, True, 8, 2, 0)}
    assert counts(result) == (4, 2, 1)
    printed = command(root, path)
    assert printed.exit_code == 1
    assert "records 4, invalid 2, superseded 1" in printed.stdout
    assert "tuned.csv:2:1" in printed.stderr and "tuned.csv:3:1" in printed.stderr


def test_row_047_equal_times_are_settled_in_a_fixed_order(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    records = [record(us=11.5, num_warps=8), record(us=11.5, num_warps=4)]
    for number, order in enumerate((records, records[::-1])):
        assert best(run(root, write_csv(tmp_path / f"{number}.csv", order))) == {AT: (128, True, 4, 2, 0)}


def test_row_048_unknown_cu_count(tmp_path: Path) -> None:
    """gfxA has 304 compute units and no other device is known."""
    root = make_db(tmp_path)
    reading = Reading(time="us", device="cu_num")
    unknown = run(root, write_csv(tmp_path / "80.csv", [record(cu_num=80)]), reading=reading, arch="gfxA")
    assert [str(fault.severity) for fault in unknown.faults] == ["warning"]
    assert "cu_num = 80: no known device uses this row" in unknown.faults[0].message
    assert unknown.faults[0].hint == "known for gfxA: 304"
    known = run(root, write_csv(tmp_path / "304.csv", [record(cu_num=304)]), reading=reading, arch="gfxA")
    assert known.faults == ()


def test_row_050_a_time_of_zero(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    path = write_csv(tmp_path / "r.csv", [record(us="0.000", num_warps=4), record(us="0.003", num_warps=8)])
    printed = command(root, path)
    assert printed.exit_code == 1
    assert printed.exception is None or isinstance(printed.exception, SystemExit)
    assert f"{path.as_posix()}:2:1: error: record 1: us = 0.0" in printed.stderr
    config = txtdb.load(root)["gfxB"]["attn_fwd"].lookup(dtype="fp16", causal=0, head_dim=64, seqlen_q=64, seqlen_k=64)
    assert isinstance(config, Config) and config["num_warps"] == 8


def test_row_051_files_with_other_problem_arguments(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    one = write_csv(tmp_path / "one.csv", [record(batch=4), record(batch=4, seqlen_k=128)])
    other = write_json(tmp_path / "other.json", [record(batch=8)])
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    printed = command(root, one, other)
    assert printed.exit_code == 1
    assert f"{other.as_posix()}: error: argument batch is 8, and 4 in {one.as_posix()}" in printed.stderr
    assert "nothing was written" in printed.stderr
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_row_052_records_with_another_parameter_list(tmp_path: Path) -> None:
    """waves_per_eu has a default and may be missing; num_stages has none; UNROLL is unknown."""
    records = [record(), record(seqlen_k=128, UNROLL=4), record(seqlen_k=256, num_stages=None)]
    path = write_json(tmp_path / "r.json", records)
    result = run(make_db(tmp_path), path)
    assert best(result) == {AT: (128, True, 8, 2, 0)}
    assert [(fault.span.file, fault.span.line, fault.message) for fault in result.faults] == [
        (path.as_posix(), 3, "record 2: unknown parameter UNROLL"),
        (path.as_posix(), 4, "record 3: num_stages is missing"),
    ]


@pytest.mark.parametrize("name", ["gfx90a:sramecc+:xnack-", "GFX90A", "gfx90a "])
def test_row_054_spellings_of_one_arch(tmp_path: Path, name: str) -> None:
    assert find_arch(name, {"gfx90a": Arch("gfx90a")}) == Arch("gfx90a")
    archs, _ = read_archs(b"[arch.gfxB]\naliases = ['gfx90a']\n", "archs.toml")
    root = make_db(tmp_path, {"archs.toml": "[arch.gfxA]\n[arch.gfxB]\naliases = ['gfx90a']\n"})
    assert archs["gfxB"].aliases == ("gfx90a",)
    path = write_json(tmp_path / "r.json", [record(arch=name)])
    assert best(run(root, path, arch=name)) == {AT: (128, True, 8, 2, 0)}


def test_row_054_an_unknown_alias_names_the_nearest(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    result = run(root, write_json(tmp_path / "r.json", [record()]), arch="gfxBB")
    assert result.refused[0].message == "unknown arch `gfxBB`"
    assert "did you mean gfxB?" in result.refused[0].hint


def test_row_056_an_empty_config_never_counts(tmp_path: Path) -> None:
    names = ("BLOCK_M", "PRE_LOAD_V", "num_warps", "num_stages")
    keys = {name: value for name, value in record().items() if name not in names}
    good = {**keys, "us": 12.0, "config": {name: record()[name] for name in names}}
    path = write_json(tmp_path / "r.json", [{**keys, "us": 0.5, "config": {}}, good])
    result = run(make_db(tmp_path), path)
    assert best(result) == {AT: (128, True, 8, 2, 0)}
    assert result.faults[0].message == "record 1: the config is empty"


def test_row_056_an_empty_config_in_a_table(tmp_path: Path) -> None:
    root = make_db(tmp_path)
    path = root / "gfxB" / "attn_fwd.txtdb"
    atomic_write(path, path.read_bytes().replace(b"a = 32 true 2 1", b"a ="))
    with pytest.raises(txtdb.FaultError) as caught:
        txtdb.load(root)["gfxB"]["attn_fwd"]
    line = path.read_text().splitlines().index("a =") + 1
    assert line in [fault.span.line for fault in caught.value.faults]
    result = run(root, write_json(tmp_path / "r.json", [record()]), reading=TIMED)
    assert [fault.rule for fault in result.refused] == ["unusable-table"]
