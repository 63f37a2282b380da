"""Decisions of the tuner as functions of samples: made when a cell is tuned, and made again when it is verified."""
