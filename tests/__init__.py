"""Tests; `tests.build` writes the small databases that they share."""
