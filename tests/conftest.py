"""Shared fixtures. The real database is looked for in TXTDB_REAL_DATA, else beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from txtdb.files import atomic_write
from txtdb.formats.aotriton import import_aotriton

# A machine that does other work besides is no fault of the code. Everybody draws the same examples, so that a change is
# judged by what it changed; TXTDB_EXPLORE=1 draws new ones.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="TXTDB_EXPLORE" not in os.environ,
)
settings.load_profile("any machine")

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "aotriton-flash-db"


@pytest.fixture(scope="session")
def real_source() -> Path:
    """The folder of the real database's archives; skips where it is absent."""
    path = Path(os.environ.get("TXTDB_REAL_DATA", _BESIDE))
    if not path.is_dir():
        pytest.skip(f"the real database is not at {path}; set TXTDB_REAL_DATA to its folder")
    return path


# Which arch lies over which in the real database.
REAL_BASES = {
    **dict.fromkeys(("gfx1150", "gfx1151", "gfx1101", "gfx1102", "gfx1103", "gfx1152", "gfx1153"), "gfx1100"),
    "gfx1200": "gfx1201",
    "gfx1250": "gfx942",
}


@pytest.fixture(scope="session")
def real_db(real_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the real database imported to text; made once, so tests that change it work on a copy."""
    root = tmp_path_factory.mktemp("real") / "amd"
    result = import_aotriton(real_source, root, tuple(REAL_BASES.items()), emit_schema=True)
    assert not result.faults
    for path, data in result.files.items():
        atomic_write(path, data)
    return root
