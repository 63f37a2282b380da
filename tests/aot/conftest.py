"""Fixtures of the compile-only tier."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from codegen.aot.build import Workshop
from codegen.aot.folder import BuildFolder


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Where images are compiled; skips where there is no compiler. What one test compiled the next finds there."""
    if find_spec("triton") is None:
        pytest.skip("triton is not installed: nothing can be compiled")
    return Workshop(BuildFolder(Path(tmp_path_factory.mktemp("aot"))), jobs=2)
