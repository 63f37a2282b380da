"""What kernels compile for each functional: asked of the device, and kept in the evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tune.bench import Bench, make_bench
from txtdb.cli import tuning
from txtdb.model.evidence import SOURCE_FACT, SOURCES_FACT
from txtdb.tune.devices import DEVICES_GROUP

SOURCED = """
from txtdb.tune.simulate import open_simulated
def telling(path):
    device = open_simulated(path)
    device.sources = lambda iface, functionals: [f"{iface} {given['head_dim']}" for given in functionals]
    return device
def silent(path):
    device = open_simulated(path)
    device.sources = lambda iface, functionals: 1 / 0
    return device
def short(path):
    device = open_simulated(path)
    device.sources = lambda iface, functionals: ["one"]
    return device
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench, and a package with devices for the processes that it starts."""
    site = tmp_path / "site"
    info = site / "sourced-1.dist-info"
    info.mkdir(parents=True)
    (site / "sourced_device.py").write_text(SOURCED, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sourced\nVersion: 1\n", encoding="utf-8")
    points = "".join(f"{name} = sourced_device:{name}\n" for name in ("telling", "silent", "short"))
    (info / "entry_points.txt").write_text(f"[{DEVICES_GROUP}]\n{points}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(tuning, "find_tunable", lambda iface: None)  # the kernels of this name are others
    cells = {(width, 64, 64): {(32, 4): 900.0} for width in (64, 128)}
    return make_bench(tmp_path, cells)


def tuned(bench: Bench, device: str) -> tuple[int, str, dict]:
    """Exit code, what was said, and what the evidence says of the software."""
    out = bench.root.parent / f"{device}.json"
    given = ("--shapes", str(shapes(bench)), "--evidence-out", str(out), "--name", device)
    done = bench.tune(*given, "--device", f"{device}:{bench.device}")
    return done.code, done.text, json.loads(out.read_text())["software"] if out.exists() else {}


def shapes(bench: Bench) -> Path:
    path = bench.root.parent / "shapes.txt"
    path.write_text("seqlen_q=64 seqlen_k=64\n", encoding="utf-8")
    return path


def test_evidence_has_a_digest_of_each_functional(bench: Bench) -> None:
    code, text, software = tuned(bench, "telling")
    assert code == 0, text
    assert software[SOURCES_FACT] == {"64": "attn_fwd 64", "128": "attn_fwd 128"}
    assert software[SOURCE_FACT] == "simulated"


@pytest.mark.parametrize("device", ["simulated", "silent"])
def test_a_device_that_cannot_tell_costs_nothing(bench: Bench, device: str) -> None:
    code, text, software = tuned(bench, device)
    assert code == 0, text
    assert software[SOURCE_FACT] == "simulated"
    assert SOURCES_FACT not in software


def test_an_answer_that_fits_no_question_ends_the_run(bench: Bench) -> None:
    code, text, _ = tuned(bench, "short")
    assert code == 2
    assert "its sources cannot be kept" in text


def test_digests_are_no_part_of_what_a_journal_is_found_by(bench: Bench) -> None:
    tuned(bench, "telling")
    made = bench.measurements()
    tuned(bench, "silent")
    assert (len(list(bench.journals.glob("*.journal"))), bench.measurements()) == (1, made)
