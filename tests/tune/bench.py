"""A small database and a simulated device for it, written below a temporary folder, and the tuner run on them.

Interface `attn_fwd` on arch gfxA: the key head_dim (64, 128), axes seqlen_q × seqlen_k with the bins 64, 128 and 256,
configs of BLOCK_M (16, 32, 64) and num_warps (2, 4). The table holds BLOCK_M=16 num_warps=2 everywhere.

    bench = make_bench(tmp_path, {(64, 64, 64): {(32, 4): 900.0}})
    done = bench.tune("--all")

`times` maps cells (head_dim, seqlen_q, seqlen_k) to the nanoseconds of configs; those that are not named take 1000 plus
their place × 50. `faults` maps (cell, config) to the faults of a description, `errors` to the error of the results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.build import write_files
from txtdb.cli import main

CellKey = tuple[int, int, int]
ConfigKey = tuple[int, int]

HEAD_DIMS, BINS = (64, 128), (64, 128, 256)
CONFIGS: tuple[ConfigKey, ...] = tuple(product((16, 32, 64), (2, 4)))
CELLS: tuple[CellKey, ...] = tuple(product(HEAD_DIMS, BINS, BINS))
FIRST: ConfigKey = (16, 2)

SCHEMA = """\
iface = "attn_fwd"

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

[[config]]
name = "BLOCK_M"
type = "int"
values = [16, 32, 64]
[[config]]
name = "num_warps"
type = "int"
values = [2, 4]

[arch.gfxA]
[arch.gfxB]
"""

TABLE = """\
#! txtdb 1
#! iface attn_fwd
#! arch gfxA
#! origin hand test
#! key head_dim
#! axis seqlen_q 64 128 256
#! axis seqlen_k 64 128 256
#! config BLOCK_M num_warps

a = 16 2

[64]
64-256 a*3

[128]
64-256 a*3
#! end
"""

FILES: Mapping[str, str] = {
    "archs.toml": "[arch.gfxA]\n[arch.gfxB]\n",
    "schema/attn_fwd.toml": SCHEMA,
    "gfxA/attn_fwd.txtdb": TABLE,
}

# Small enough for a test, and decided within some blocks at the noise of `make_bench`.
QUICK = ("run.call_limit_s=20", "run.compile_limit_s=20", "race.max_blocks=60")


@dataclass(frozen=True)
class Done:
    """One run of the command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Bench:
    """The root, the device's description, and where journals go."""

    root: Path
    device: Path
    journals: Path
    settings: tuple[str, ...] = QUICK
    arch: str = "gfxA"

    def arguments(self, *options: str) -> list[str]:
        sets = [word for change in self.settings for word in ("--set", change)]
        places = ["--root", str(self.root), "--arch", self.arch, "--journal-dir", str(self.journals)]
        return ["tune", "attn_fwd", *places, "--device", f"simulated:{self.device}", "--jobs", "1", *sets, *options]

    def start(self, *options: str, **more: Any) -> subprocess.Popen[str]:
        """The command as a process in a group of its own."""
        command = [sys.executable, "-c", "from txtdb.cli import main; main()", *self.arguments(*options)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(command, text=True, start_new_session=True, **pipes)

    def tune(self, *options: str) -> Done:
        """Run the command to its end, in this process."""
        result = CliRunner().invoke(main, self.arguments(*options))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return Done(result.exit_code, result.stdout, result.stderr)

    def journal(self) -> Path:
        """The one journal."""
        (path,) = self.journals.glob("*.journal")
        return path

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line.partition(" ")[2]) for line in self.journal().read_text(encoding="utf-8").splitlines()]

    def measurements(self) -> int:
        """How many measurements the journal holds."""
        return sum(record["is"] == "times" for record in self.records())

    def patches(self) -> dict[str, bytes]:
        """Patches and evidence by file name."""
        folder = self.root / self.arch
        found = [*folder.glob("*.dbpatch"), *folder.glob("evidence/*.json")]
        return {path.name: path.read_bytes() for path in sorted(found)}

    def evidence(self, name: str = "tuned") -> dict[str, Any]:
        """The evidence of the last run, published or not."""
        (path,) = self.journals.glob(f"*-{name}.json")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def describe(
    times: Mapping[CellKey, Mapping[ConfigKey, float]],
    faults: Mapping[tuple[CellKey | None, ConfigKey], Iterable[Mapping[str, Any]]] | None = None,
    errors: Mapping[ConfigKey, float] | None = None,
    noise: Mapping[str, float] | None = None,
    watts: Mapping[CellKey, Mapping[ConfigKey, float]] | None = None,
    cells: Iterable[CellKey] = CELLS,
    also: Iterable[Mapping[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """The description of a simulated device. A fault of the cell None strikes in all; `also` are further cells.

    Configs draw 400 W where `watts` says nothing else.
    """
    struck = faults or {}

    def candidate(cell: CellKey, place: int, config: ConfigKey) -> dict[str, Any]:
        own = [*struck.get((cell, config), ()), *struck.get((None, config), ())]
        return {
            "config": {"BLOCK_M": config[0], "num_warps": config[1]},
            "ns": float(times.get(cell, {}).get(config, 1000 + 50 * place)),
            "error": (errors or {}).get(config, 0.1),
            "watts": (watts or {}).get(cell, {}).get(config, 400.0),
            "faults": own,
        }

    described = [
        {
            "functional": {"head_dim": cell[0]},
            "at": {"seqlen_q": cell[1], "seqlen_k": cell[2]},
            "candidates": [candidate(cell, place, config) for place, config in enumerate(CONFIGS)],
        }
        for cell in cells
    ]
    return {"seed": 1, "noise": noise or {"call_pct": 0.5, "outlier_share": 0.0}, "cells": [*described, *also], **more}


def invoke(*words: str) -> tuple[int, str]:
    """Exit code and output of any command."""
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.output


def shapes(folder: Path, *lines: str) -> str:
    """A file of shapes."""
    path = folder / "shapes.txt"
    path.write_text("".join(f"{line}  # as a model has it\n" for line in lines), encoding="utf-8")
    return str(path)


def make_bench(
    folder: Path, times: Mapping[CellKey, Mapping[ConfigKey, float]] | None = None, files: Any = None, **more: Any
) -> Bench:
    """Write a database and a description; see `describe`."""
    root = write_files(folder / "db", {**FILES, **(files or {})})
    device = folder / "device.json"
    device.write_text(json.dumps(describe(times or {}, **more)), encoding="utf-8")
    return Bench(root, device, folder / "journals")


def listed(folder: Path, *cells: CellKey) -> str:
    """A file for --cells."""
    path = folder / "cells.txt"
    lines = [f"head_dim={cell[0]} seqlen_q={cell[1]} seqlen_k={cell[2]}\n" for cell in cells]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
