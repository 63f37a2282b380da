"""A small database, its tables and a pack, with a driver that records. Without torch none of it can be imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def small() -> Any:
    """The module that makes them; skips without torch."""
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.runtime import small

    return small


@pytest.fixture(scope="session")
def root(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.make_root(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="session")
def tables(small: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.tables_of(root, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def pack(small: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.pack_of(root, tmp_path_factory.mktemp("pack") / "small.pack")


@pytest.fixture
def opened(small: Any, pack: Path, tables: Path) -> Callable[..., Any]:
    """Opens the kernels, of another pack where one is given; gives them with their driver."""
    from codegen.runtime import open_kernels

    def open_them(own: Path = pack, arch: str = "sm_90") -> tuple[Any, Any]:
        driver = small.RecordingDriver()
        return small.recorded(open_kernels(own, tables, arch, driver), driver), driver

    return open_them
