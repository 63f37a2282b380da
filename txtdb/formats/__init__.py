"""Databases of other tools: import to text, and export back."""
