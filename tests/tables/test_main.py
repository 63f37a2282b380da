"""What `python -m tools.tables` refuses. Nothing is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.aot.pool import CompilerMissing, SourcesChanged
from tools.tables import __main__ as tool

AMD = Path(__file__).resolve().parents[2] / "amd"


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of a call that ends with exit code 2."""
    monkeypatch.setattr("sys.argv", ["tools.tables", *words])
    with pytest.raises(SystemExit) as ended:
        tool.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "no tables are made for a database of this name"),
        ((str(AMD), "--arch", "gfx900"), "gfx900: error: no tables are made for this arch"),
        ((str(AMD), "--arch", "gfx1101", "--arch", "none"), "none: error: no tables are made for this arch"),
        ((str(AMD), "--jobs", "0"), "--jobs"),
        ((str(AMD), "--jobs", "many"), "--jobs"),
        (("nowhere/amd",), "nowhere/amd"),
    ],
)
def test_a_wrong_request_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in refused(monkeypatch, capsys, *words)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CompilerMissing("no triton"), "the compiler does not start: no triton"),
        (SourcesChanged(), "the kernels were edited meanwhile"),
        (OSError(28, "No space left on device", "some/file"), "some/file"),
    ],
)
def test_what_the_environment_lacks_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    def fails(*given: object) -> None:
        raise error

    monkeypatch.setattr(tool, "choices", fails)
    assert message in refused(monkeypatch, capsys, str(AMD), "--arch", "gfx942")
