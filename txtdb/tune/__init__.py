"""The tuner: measures candidates for cells, decides, and writes a patch with its evidence."""
