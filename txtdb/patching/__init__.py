"""Patches as a whole: made from a difference, applied, folded together, moved to a new base, taken back."""
