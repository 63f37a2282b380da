"""Tests of the public Python interface."""
