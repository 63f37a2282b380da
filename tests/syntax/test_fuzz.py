"""Mutants of files: each is read as a document or as faults that point into it, and never raises."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.mutants import mutants, read_soundly
from txtdb.faults import Fault
from txtdb.model.schema import Schema
from txtdb.model.schema_file import read_schema
from txtdb.syntax import read

AXES = {
    1: "#! axis k 16 32 64 128\n",
    2: "#! axis q 16 32 64\n#! axis k 16 32 64 128\n",
    3: "#! axis b 1 8\n#! axis q 16 32 64\n#! axis k 16 32\n",
    4: "#! axis b 1 8\n#! axis h 2 4\n#! axis q 16 32\n#! axis k 16 32\n",
}


def schema(axes: int) -> Schema:
    names = [line.split()[2:] for line in AXES[axes].splitlines()]
    text = 'iface = "attn_fwd"\n[[key]]\nname = "dtype"\ntype = "enum"\nvalues = ["bf16", "fp16"]\n'
    text += '[[key]]\nname = "causal"\ntype = "bool"\n[[key]]\nname = "dmodel"\ntype = "int"\nvalues = [64, 128]\n'
    text += "".join(f'[[axis]]\nname = "{name}"\nbins = [{", ".join(bins)}]\n' for name, *bins in names)
    text += '[[config]]\nname = "BLOCK_M"\ntype = "int"\nmin = 16\n'
    text += '[[config]]\nname = "PRE_LOAD_V"\ntype = "bool"\n[arch.gfxA]\n'
    found, faults = read_schema(text.encode(), "attn_fwd.toml", "attn_fwd")
    assert found is not None, faults
    return found


def written(axes: int, seed: int) -> bytes:
    """A small canonical file with comments, ranges, marks and an `x-` directive."""
    chance = random.Random(seed)
    lines = ["#! txtdb 1", "#! iface attn_fwd", "#! arch gfxA", "#! origin hand a test", "#! x-tool 1"]
    lines += ["#! key dtype causal dmodel", *AXES[axes].splitlines(), "#! config BLOCK_M PRE_LOAD_V", ""]
    lines += ["a = 16 true", "# wide", "b = 64 false", "c = 128 true"]
    bins = [line.split()[3:] for line in AXES[axes].splitlines()]
    for head in ("bf16 false 64", "bf16 true 64", "fp16 false 128"):
        lines += ["", *(["# about it"] if chance.random() < 0.5 else []), f"[{head}]"]
        for label in product(*bins[:-1]):
            runs, left = [], len(bins[-1])
            while left:
                count = chance.randint(1, left)
                runs.append(chance.choice("abc.-") + (f"*{count}" if count > 1 else ""))
                left -= count
            lines.append(" ".join([*([",".join(label)] if label else []), *runs]))
    return ("\n".join([*lines, "#! end"]) + "\n").encode()


@pytest.mark.parametrize("axes", AXES)
def test_the_files_are_good(axes: int) -> None:
    for seed in range(5):
        assert read_soundly(written(axes, seed), "gfxA/attn_fwd.txtdb", schema(axes), "gfxA") == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("axes", AXES)
def test_mutants(axes: int, seed: int) -> None:
    """16 × 1,300 mutants."""
    files = [written(axes, number) for number in range(5)]
    judged = schema(axes)
    refused = 0
    for data in mutants(files, 1_300, seed * 10 + axes):
        refused += bool(read_soundly(data, "gfxA/attn_fwd.txtdb", judged, "gfxA"))
    assert refused > 650


AMD = Path(__file__).parents[2] / "amd"
SHIPPED = sorted(path for suffix in ("txtdb", "dbpatch") for path in AMD.glob(f"*/*.{suffix}"))
WITH_BLOCKS = [path for path in SHIPPED if "\n[" in path.read_text(encoding="utf-8")]
SHIPPED_MUTANTS = 20_000


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_mutants_of_the_shipped_tables_and_patches(path: Path) -> None:
    """20,000 mutants in all, shared out evenly among the files that hold cells."""
    count = -(-SHIPPED_MUTANTS // len(WITH_BLOCKS))
    files = _cuts(path.read_text(encoding="utf-8"), 8)
    assert [_read_shipped(data, path) for data in files] == [[]] * len(files)
    refused = sum(bool(_read_shipped(data, path)) for data in mutants(files, count, WITH_BLOCKS.index(path)))
    assert refused > count / 3


def test_mutants_of_the_shipped_files_of_directives_alone() -> None:
    paths = [path for path in SHIPPED if path not in WITH_BLOCKS]
    for seed, path in enumerate(paths):
        for data in mutants([path.read_bytes()], 100, seed):
            _read_shipped(data, path)


def test_patches_are_among_the_shipped_files() -> None:
    assert {path.suffix for path in WITH_BLOCKS} == {".txtdb", ".dbpatch"}
    assert len(SHIPPED) > len(WITH_BLOCKS)


def _read_shipped(data: bytes, path: Path) -> list[Fault]:
    arch, iface = path.parent.name, path.name.partition(".")[0]
    return read_soundly(data, f"{arch}/{path.name}", _shipped_schema(iface), arch)


@cache
def _shipped_schema(iface: str) -> Schema:
    toml = AMD / "schema" / f"{iface}.toml"
    found, faults = read_schema(toml.read_bytes(), toml.name, iface)
    assert found is not None, faults
    return found


@pytest.mark.real
@pytest.mark.parametrize("seed", range(4))
def test_mutants_of_real_blocks(real_db: Path, seed: int) -> None:
    """4 × 1,500 mutants of a real file's header, palette and a few blocks."""
    paths = sorted(path for path in real_db.glob("*/*.txtdb"))[seed::4]
    for path in paths:
        iface, arch = path.name.removesuffix(".txtdb"), path.parent.name
        toml = real_db / "schema" / f"{iface}.toml"
        judged, _ = read_schema(toml.read_bytes(), toml.name, iface)
        assert judged is not None
        file = f"{arch}/{iface}.txtdb"
        for data in mutants(_cuts(path.read_text(encoding="utf-8"), 4), 1_500 // len(paths) + 1, seed):
            read_soundly(data, file, judged, arch)


def _cuts(text: str, count: int) -> list[bytes]:
    """The head of a file with two of its blocks, `count` times."""
    head, *blocks = text.removesuffix("#! end\n").split("\n\n[")
    chance = random.Random(len(text))
    if not blocks:
        return [text.encode()]
    return [
        "\n\n[".join([head, *chance.sample(blocks, min(2, len(blocks)))]).rstrip("\n").encode() + b"\n#! end\n"
        for _ in range(count)
    ]


@pytest.mark.real
def test_every_prefix_of_a_real_file_is_refused(real_db: Path) -> None:
    """Cut at any line, in a real head with two blocks."""
    path = real_db / "gfx942" / "attn_fwd.txtdb"
    whole = _cuts(path.read_text(encoding="utf-8"), 1)[0].splitlines(keepends=True)
    assert read(b"".join(whole), "gfx942/attn_fwd.txtdb")[1] == []
    for cut in range(len(whole)):
        faults = read(b"".join(whole[:cut]), "gfx942/attn_fwd.txtdb")[1]
        assert [fault.rule for fault in faults if fault.rule in ("truncated", "no-magic")], cut
