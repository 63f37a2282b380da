"""Semantic differences: what changed in cells and facts, whatever the letters did."""
