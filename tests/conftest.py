"""Shared fixtures. The real database is looked for in TXTDB_REAL_DATA, else beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "aotriton-flash-db"


@pytest.fixture(scope="session")
def real_source() -> Path:
    """The folder of the real database's archives; skips where it is absent."""
    path = Path(os.environ.get("TXTDB_REAL_DATA", _BESIDE))
    if not path.is_dir():
        pytest.skip(f"the real database is not at {path}; set TXTDB_REAL_DATA to its folder")
    return path
