"""All figures that a GPU gives, in one run: the programs beside this one, one after the other.

    txtdb aot build nvidia --arch sm_90 --out sm_90.pack && txtdb codegen nvidia --out dispatch
    python -m tools.bench.gpu --root nvidia --arch sm_90 --pack sm_90.pack --tables dispatch/python --out DIR

The results of every part and what it printed (PART.log) come into DIR. A part that fails keeps no other from running.
The parts: `right` and `speed` (the kernels against float64 and beside PyTorch's attention), `packs` (tables, pack and
launch), `loss` (what the tables chose beside the fastest of whole fields), `field` (race beside exhaustive search),
`calibrate`, `power`, and `retime` (what the evidence of ROOT replaced, timed again).

Exit code 0: all is as it should be; 1: a part failed; 2: nothing could run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KERNELS, PACKS, TUNING = (f"tools.bench.{name}" for name in ("kernels", "packs", "tuning"))
EXIT_NOTHING = 2


@dataclass(frozen=True)
class Part:
    """One program of the run: its module and what it is called with."""

    name: str
    module: str
    arguments: tuple[str, ...]


def parts(root: Path, arch: str, pack: Path, tables: Path, out: Path) -> list[Part]:
    """All parts, the shortest question first."""
    folder = ("--out", str(out))
    database = ("--root", str(root), "--arch", arch, *folder)
    evidence = [str(path) for path in sorted((root / arch / "evidence").glob("*.json"))]
    return [
        Part("right", KERNELS, ("right", *folder)),
        Part("packs", PACKS, (str(pack), str(tables), "--out", str(out / f"packs-{arch}.json"), "--arch", arch)),
        Part("speed", KERNELS, ("speed", *folder)),
        Part("loss", TUNING, ("loss", *database)),
        Part("field", TUNING, ("field", *database, "--with-table")),
        *(Part(name, TUNING, (name, *database)) for name in ("calibrate", "power")),
        Part("retime", TUNING, ("retime", *database, "--evidence", *evidence)),
    ]


def run(part: Part, out: Path) -> int:
    """Run a part to its end, with its output in a file; its exit code."""
    begin = time.monotonic()
    log = out / f"{part.name}.log"
    with log.open("wb") as stream:
        command = [sys.executable, "-m", part.module, *part.arguments]
        code = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False).returncode
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    print(f"{part.name:10} exit code {code}, {time.monotonic() - begin:5.0f} s: {' '.join(last)}", flush=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for."""
    options = _parser().parse_args(arguments)
    planned = parts(options.root, options.arch, options.pack, options.tables, options.out)
    unknown = set(options.only) - {part.name for part in planned}
    if unknown:
        _parser().error(f"no part is called {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    codes = [run(part, options.out) for part in planned if not options.only or part.name in options.only]
    if not any(codes):
        return 0
    return EXIT_NOTHING if all(code == EXIT_NOTHING for code in codes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.gpu", description="All figures that a GPU gives.")
    parser.add_argument("--root", type=Path, required=True, help="the database")
    parser.add_argument("--arch", required=True, help="that of the GPU")
    parser.add_argument("--pack", type=Path, required=True, help="the images of the database's tables")
    parser.add_argument("--tables", type=Path, required=True, help="the folder of the generated Python tables")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--only", nargs="*", default=(), metavar="PART", help="only these parts")
    return parser


if __name__ == "__main__":
    sys.exit(main())
