"""The same bytes whatever the hash seed, folder, locale, order of folder listings, and choice of archs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.codegen import databases
from tests.codegen.tools import generated, tree

# Folders are listed in another order for each seed, as another file system might.
PROGRAM = """\
import os, random, sys
from pathlib import Path
chance, listdir, scandir = random.Random(int(sys.argv.pop())), os.listdir, os.scandir
def shuffled(entries):
    entries = list(entries)
    chance.shuffle(entries)
    return entries
os.listdir = lambda *args: shuffled(listdir(*args))
class Scan(list):
    def __enter__(self): return iter(self)
    def __exit__(self, *args): pass
    def close(self): pass
os.scandir = lambda *args: Scan(shuffled(scandir(*args)))
from txtdb.cli import main
main(sys.argv[1:], prog_name="txtdb")
"""


def digests(folder: Path) -> dict[str, str]:
    return {path: sha256(data).hexdigest() for path, data in tree(folder).items()}


def run(root: Path, overlay: Path, out: Path, seed: int, cwd: Path, locale: str) -> dict[str, str]:
    paths = [os.path.relpath(path, cwd) for path in (root, overlay, out)]
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "codegen",
        paths[0],
        "--overlay",
        paths[1],
        "--out",
        paths[2],
        "--on-hole",
        "none",
        str(seed),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "LC_ALL": locale, "LANG": locale}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return digests(out)


def test_row_094_bytes_depend_on_nothing_but_the_input(tmp_path):
    root, [overlay] = databases.layered(tmp_path, 2)
    (tmp_path / "sub folder").mkdir()
    expected = digests(generated(root, tmp_path / "plain", [overlay], on_hole="none"))
    for seed, cwd, locale in [(0, tmp_path, "C"), (1, tmp_path / "sub folder", "C.UTF-8"), (4711, root, "tr_TR.UTF-8")]:
        assert run(root, overlay, tmp_path / f"out{seed}", seed, cwd, locale) == expected


def test_row_094_shuffled_listings_are_shuffled(tmp_path):
    names = [f"{number}" for number in range(20)]
    for name in names:
        (tmp_path / name).touch()
    code = PROGRAM.partition("from txtdb")[0] + "print(*os.listdir('.')); print(*(p.name for p in Path('.').iterdir()))"
    done = subprocess.run([sys.executable, "-c", code, "3"], cwd=tmp_path, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        assert sorted(line.split()) == sorted(names)
        assert line.split() != sorted(names)


def test_row_094_no_paths_and_no_times(tmp_path):
    root, overlays = databases.layered(tmp_path, 1)
    for path, data in tree(generated(root, tmp_path / "out", overlays, on_hole="none")).items():
        text = data.decode("ascii")
        assert str(tmp_path) not in text, path
        assert "\r" not in text, path
        assert "\\" not in text or path.endswith("support.h"), path


@pytest.mark.parametrize("archs", [("gfxA",), ("gfxB",)])
def test_files_of_an_arch_do_not_depend_on_other_archs(archs, tmp_path):
    root, overlays = databases.layered(tmp_path, 2)
    everything = tree(generated(root, tmp_path / "all", overlays, on_hole="none"))
    some = tree(generated(root, tmp_path / "some", overlays, on_hole="none", archs=archs))
    own = {path for path in some if archs[0] in path}
    assert len(own) == 3
    assert all(some[path] == everything[path] for path in own | {"cpp/f.h", "cpp/support.h"})


def test_files_of_an_interface_do_not_depend_on_other_interfaces(tmp_path):
    root = databases.operators(tmp_path)
    everything = tree(generated(root, tmp_path / "all"))
    some = tree(generated(root, tmp_path / "some", ifaces=("f",)))
    shared = {"index.json", "python/__init__.py", "manifest/gfxA.json"}
    assert all(some[path] == everything[path] for path in set(some) - shared)


def test_the_order_of_blocks_and_palette_does_not_matter(tmp_path):
    root = databases.many_codes(tmp_path)
    before = tree(generated(root, tmp_path / "before"))
    path = root / "gfxA" / "f.txtdb"
    head, *blocks = path.read_text().removesuffix("#! end\n").split("\n[")
    random.Random(1).shuffle(blocks)
    *lines, first, second = head.split("\n")
    path.write_text("\n[".join(["\n".join([*lines, second, first]), *blocks]).rstrip("\n") + "\n#! end\n")
    after = tree(generated(root, tmp_path / "after"))
    data = "cpp/f/gfxA.inc"
    assert [line for line in after[data].splitlines() if b"sha256" not in line] == [
        line for line in before[data].splitlines() if b"sha256" not in line
    ]
