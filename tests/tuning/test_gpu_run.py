"""The run of all GPU programs: what it calls, and what it says where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench import gpu

REPO = Path(__file__).resolve().parents[2]
PLACES = ("--root", str(REPO / "nvidia"), "--arch", "sm_90", "--pack", "x.pack", "--tables", "dispatch/python")


def planned() -> list[gpu.Part]:
    return gpu.parts(REPO / "nvidia", "sm_90", Path("x.pack"), Path("dispatch/python"), Path("out"))


def test_the_docs_name_every_part() -> None:
    text = (REPO / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [part.name for part in planned() if f"`{part.name}`" not in text] == []
    assert all(f"`{part.name}`" in (gpu.__doc__ or "") for part in planned())


def test_what_was_tuned_is_timed_again() -> None:
    (retime,) = (part for part in planned() if part.name == "retime")
    assert [Path(word).name for word in retime.arguments if word.endswith(".json")] == [
        "first-field.json",
        "wider-field.json",
    ]


def test_a_part_that_fails_keeps_no_other_from_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu, "parts", lambda *_: [gpu.Part("bad", "tools.bench.nowhere", ()), gpu.Part("good", "this", ())]
    )
    assert gpu.main([*PLACES, "--out", str(tmp_path)]) == 1
    assert "nowhere" in (tmp_path / "bad.log").read_text()
    assert (tmp_path / "good.log").exists()
    assert gpu.main([*PLACES, "--out", str(tmp_path), "--only", "good"]) == 0


def test_a_part_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        gpu.main([*PLACES, "--out", str(tmp_path), "--only", "nothing"])


def test_without_a_gpu_nothing_runs(tmp_path: Path) -> None:
    """All take what they are called with, and then say what is missing."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert gpu.main([*PLACES, "--out", str(tmp_path)]) == gpu.EXIT_NOTHING
    logs = {part.name: (tmp_path / f"{part.name}.log").read_text() for part in planned()}
    assert [name for name, log in logs.items() if "GPU" not in log or "usage:" in log] == []
