"""The mark of tests that import torch or triton: the extra `test` installs both."""

from __future__ import annotations

import importlib.util

import pytest

NEEDS_TRITON = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
    reason="torch and triton are not installed",
)
