"""Tables and packs that do not belong together, or cannot be read."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from codegen.runtime import LaunchFault, open_kernels
from tests.runtime.small import RecordingDriver, make_root, pack_of, tables_of
from txtdb.faults import FaultError


def rule(caught: pytest.ExceptionInfo[FaultError]) -> str:
    return caught.value.faults[0].rule


def test_a_pack_of_other_tables(tables: Path, tmp_path: Path) -> None:
    other = pack_of(make_root(tmp_path, tile=16), tmp_path / "other.pack", ifaces=("attn_fwd", "bwd_preprocess"))
    with pytest.raises(FaultError, match="sm_90/attn_fwd: the pack was made for another table") as caught:
        open_kernels(other, tables, "sm_90", RecordingDriver())
    assert [fault.rule for fault in caught.value.faults] == ["pack-unlike-table"]


def test_a_pack_without_the_arch(tables: Path, tmp_path: Path) -> None:
    other = pack_of(make_root(tmp_path, "gfx942"), tmp_path / "other.pack")
    with pytest.raises(FaultError, match="the pack has no images for sm_90") as caught:
        open_kernels(other, tables, "sm_90", RecordingDriver())
    assert rule(caught) == "pack-unlike-table"


def test_an_arch_by_its_alias_and_one_that_is_unknown(pack: Path, tables: Path) -> None:
    with open_kernels(pack, tables, "h200", RecordingDriver()) as kernels:
        assert kernels.tables.arch == "sm_90"
    with pytest.raises(LaunchFault, match="unknown arch `sm_42`") as caught:
        open_kernels(pack, tables, "sm_42", RecordingDriver())
    assert rule(caught) == "unknown-arch"


def test_a_damaged_pack(pack: Path, tables: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pack"
    cut.write_bytes(pack.read_bytes()[:-100])
    with pytest.raises(FaultError) as caught:
        open_kernels(cut, tables, "sm_90", RecordingDriver())
    assert rule(caught) == "pack-truncated"


def test_a_folder_without_tables(pack: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchFault, match="no generated tables") as caught:
        open_kernels(pack, tmp_path, "sm_90", RecordingDriver())
    assert rule(caught) == "no-tables"


def test_tables_that_have_been_imported(
    pack: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables_of(root, tmp_path / "made").rename(tmp_path / "my_tables")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module("my_tables")
    with open_kernels(pack, package, "sm_90", RecordingDriver()) as kernels:
        sizes = (5, 5)
        functional = {
            "Q_dtype": "fp16", "CAUSAL_TYPE": 0, "BLOCK_DMODEL": 32, "ENABLE_DROPOUT": False, "PADDED_HEAD": True,
            "BIAS_TYPE": 0,
        }  # fmt: skip
        assert kernels.choose("attn_fwd", functional, sizes)["BLOCK_M"] == 32
        assert kernels.supports("bwd_preprocess", functional, sizes)
        assert not kernels.supports("attn_fwd", {**functional, "BLOCK_DMODEL": 256}, sizes)
        assert not kernels.supports("of_another_library", functional, sizes)
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_tables"]:
        del sys.modules[name]


def test_the_driver_of_an_arch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images for gfx archs ask for HIP, those for sm archs for CUDA; here neither is there."""
    root = make_root(tmp_path, "gfx942")
    tables, pack = tables_of(root, tmp_path / "tables"), pack_of(root, tmp_path / "hip.pack")
    monkeypatch.setattr("ctypes.CDLL", lambda name: pytest.fail(f"loads {name}"))
    with pytest.raises(pytest.fail.Exception, match=r"loads .*libamdhip64\.so"):
        open_kernels(pack, tables, "gfx942")


def test_cuda_bindings_that_are_not_installed(pack: Path, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.delitem(sys.modules, "codegen.runtime.cuda", raising=False)
    with pytest.raises(ImportError):
        open_kernels(pack, tables, "sm_90")
