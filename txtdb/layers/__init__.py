"""Layers and their resolution: a folder of files → resolved tables with the history of every cell."""
